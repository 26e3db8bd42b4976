"""Factors, shifts and mixtures: alike for all parties, spread as promised, and true to the order within a row."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from scipy.stats import chi2

from kcagc.secagg.blinding import OCTAVES, draw_mixtures, mix_values, row_factors, row_shifts
from kcagc.secagg.keys import derive_key
from kcagc.secagg.masks import MAX_PARTIES, MAX_SHIFT, MAX_VALUE, encode, keystream, open_sum, with_check_words
from secagg.parties import LABEL, SESSION, fixed, flipped

KEY = fixed("group key")
MANY = (40_000,)
both = pytest.mark.parametrize("drawn", [row_factors, row_shifts])
shapes = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)
keys = st.binary(min_size=32, max_size=32)


def evenly(counts):
    """Whether counts of equally likely things are no stranger than one in a million, uneven or too even."""
    expected = counts.sum() / counts.size
    return 1e-6 < chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.size - 1) < 1 - 1e-6


def parts_of_octaves(values):
    """For each factor its octave, counted from the highest, and how far into it, from 0 to 1."""
    mantissa, exponent = np.frexp(values)
    return -exponent, 2 * mantissa - 1


@given(shapes, keys, st.binary(max_size=20))
def test_factors_lie_from_a_sixteenth_to_1_and_shifts_leave_room(shape, key, label):
    drawn, added = row_factors(key, SESSION, label, shape), row_shifts(key, SESSION, label, shape)
    assert drawn.shape == added.shape == shape
    assert (drawn.dtype, added.dtype) == (np.float64, np.uint64)
    assert ((drawn >= 1 / 16) & (drawn < 1)).all()
    assert (added < MAX_SHIFT).all()
    assert OCTAVES == 4


@given(shapes, keys, st.binary(max_size=20))
def test_what_is_drawn_follows_from_the_words_of_the_key_to_the_last_bit(shape, key, label):
    """In whole numbers and powers of two only, so that parties with other machines draw the same."""

    def words(purpose):
        return keystream(derive_key(key, SESSION, purpose, label, *shape), math.prod(shape)).tolist()

    factor = [math.ldexp(2**52 + (word >> 12), -53 - word % 4) for word in words("factors")]
    assert row_factors(key, SESSION, label, shape).ravel().tolist() == factor
    assert row_shifts(key, SESSION, label, shape).ravel().tolist() == [word % 2**54 for word in words("shifts")]


def test_every_octave_of_factors_is_as_likely_and_so_is_every_place_in_it():
    octaves, places = parts_of_octaves(row_factors(KEY, SESSION, LABEL, MANY))
    tenths = (10 * places).astype(np.int64)
    assert evenly(np.bincount(octaves, minlength=4))
    assert evenly(np.bincount(tenths, minlength=10))
    assert evenly(np.bincount(10 * octaves + tenths, minlength=40))
    assert evenly(np.bincount((places * 2.0**52).astype(np.int64) % 16, minlength=16))


def test_shifts_are_spread_evenly_from_the_first_bit_to_the_last():
    drawn = row_shifts(KEY, SESSION, LABEL, MANY)
    assert evenly(np.bincount((drawn >> np.uint64(49)).astype(np.int64), minlength=32))
    assert evenly(np.bincount((drawn % np.uint64(32)).astype(np.int64), minlength=32))


@both
def test_no_number_is_drawn_twice(drawn):
    numbers = [drawn(KEY, SESSION, label, (2_000, 1)) for label in (b"1", b"2", b"3")]
    assert len(np.unique(numbers)) == 6_000


@both
@pytest.mark.parametrize(
    "change",
    [
        {"label": b"another label"},
        {"label": LABEL + b"\0"},
        {"label": b""},
        *({"session": flipped(SESSION, bit)} for bit in (0, 77, 255)),
        *({"key": flipped(KEY, bit)} for bit in (0, 77, 255)),
        {"key": SESSION, "session": KEY},
        {"shape": (30, 2, 1)},
        {"shape": (60, 1, 1)},
        {"shape": (2, 30)},
        {"shape": (2, 31, 1)},
    ],
    ids="+".join,
)
def test_everything_they_hang_on_changes_all_of_them(drawn, change):
    plain = {"key": KEY, "session": SESSION, "label": LABEL, "shape": (2, 30, 1)}
    one, other = (drawn(**inputs).ravel()[:60] for inputs in (plain, plain | change))
    assert (one != other).all()
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.6


def test_factors_and_shifts_have_nothing_to_do_with_each_other():
    octaves, places = parts_of_octaves(row_factors(KEY, SESSION, LABEL, MANY))
    eighths = (row_shifts(KEY, SESSION, LABEL, MANY) >> np.uint64(51)).astype(np.int64)
    assert evenly(np.bincount(8 * octaves + eighths, minlength=32))
    assert evenly(np.bincount(8 * (8 * places).astype(np.int64) + eighths, minlength=64))


@given(arrays(np.float64, (4, 5), elements=st.floats(0, 4)), keys)
@example(np.array([[0.0, 5e-324, 1.0, 1.0 + 2.0**-52, 4.0]] * 4), KEY)
def test_no_two_values_of_a_row_change_their_order(values, key):
    order = np.argsort(values, axis=1)
    words = encode(values * row_factors(key, SESSION, LABEL, (4, 1)))
    for blinded in (words, words + row_shifts(key, SESSION, LABEL, (4, 1))):
        ordered = np.take_along_axis(blinded.view(np.int64), order, axis=1)
        assert (ordered[:, :-1] <= ordered[:, 1:]).all()


@given(arrays(np.float64, (4, 2), elements=st.floats(2.0**-8, 4)), keys)
def test_factors_leave_the_ratio_of_two_values_as_it_is(values, key):
    words = encode(values * row_factors(key, SESSION, LABEL, (4, 1))).view(np.int64)
    assert np.allclose(words[:, 0] / words[:, 1], values[:, 0] / values[:, 1], rtol=2.0**-28, atol=0)


@given(keys)
def test_a_value_within_the_bound_stays_within_it(key):
    largest = np.nextafter(MAX_VALUE, 0)
    for value in (largest, -largest):
        encode(np.full((8, 1), value) * row_factors(key, SESSION, LABEL, (8, 1)))


def test_shares_of_several_parties_are_multiplied_alike():
    drawn = row_factors(KEY, SESSION, LABEL, (6, 1))
    shares = np.random.default_rng(0).uniform(0, 1, (3, 6, 4))
    together = sum(encode(share * drawn).view(np.int64) for share in shares)
    assert np.abs(together - shares.sum(axis=0) * drawn * 2.0**44).max() < 8
    assert_array_equal(together.argmin(axis=1), shares.sum(axis=0).argmin(axis=1))


@given(keys, st.integers(0, 20), st.integers(1, 50), st.binary(max_size=20))
def test_mixtures_are_of_rows_that_are_there_with_shares_from_0_to_1(key, count, among, label):
    first, second, share = draw_mixtures(key, SESSION, label, count, among)
    assert first.shape == second.shape == share.shape == (count,)
    for positions in (first, second):
        assert ((positions >= 0) & (positions < among)).all()
    assert ((share >= 0) & (share < 1)).all()


def test_all_mixtures_are_equally_likely():
    first, second, share = draw_mixtures(KEY, SESSION, LABEL, 40_000, 6)
    assert evenly(np.bincount(6 * first + second, minlength=36))
    assert evenly(np.bincount(10 * first + (10 * share).astype(np.int64), minlength=60))
    assert evenly(np.bincount(10 * second + (10 * share).astype(np.int64), minlength=60))


@pytest.mark.parametrize(
    "change", [{"label": b"another label"}, {"key": fixed("another key")}, {"session": fixed("another session")}]
)
def test_mixtures_change_with_label_key_and_session(change):
    plain = {"key": KEY, "session": SESSION, "label": LABEL, "count": 50, "among": 1_000}
    for one, other in zip(draw_mixtures(**plain), draw_mixtures(**plain | change), strict=True):
        assert (one != other).mean() > 0.9


lists = arrays(np.float64, st.integers(1, 30), elements=st.floats(-(2.0**14), 2.0**14, allow_subnormal=False))


@given(lists, keys, st.binary(max_size=20))
def test_every_mixed_value_lies_between_two_of_the_values_and_they_are_left_as_they_were(values, key, label):
    before = values.copy()
    found = mix_values(key, SESSION, label, values)
    assert_array_equal(values, before)
    assert found.shape == values.shape
    rounding = 2.0**-37
    assert found.min() >= values.min() - rounding
    assert found.max() <= values.max() + rounding
    assert_array_equal(found, mix_values(key, SESSION, label, values))  # the same for all who have the key


@given(keys, st.integers(2, 40))
def test_a_mixed_value_is_of_the_two_at_the_same_distances_for_all(key, count):
    """Mixtures of unit vectors are the shares themselves: two in each row, at fixed distances, that make one."""
    shares = np.stack([mix_values(key, SESSION, LABEL, unit) for unit in np.eye(count)], axis=1)
    assert ((shares >= 0) & (shares <= 1)).all()
    assert np.allclose(shares.sum(axis=1), 1, rtol=0, atol=2.0**-50)
    distances = (np.arange(count)[:, None] - np.arange(count)) % count
    assert len(set(distances[shares > 0].tolist())) <= 2


@given(st.integers(1, 4), st.integers(1, 20), keys, st.randoms(use_true_random=False))
def test_sums_of_mixtures_are_mixtures_of_sums(parties, count, key, chance):
    """To rounding: each party mixes its own values, and the receiver sees what mixing the sums would have given."""
    own = np.array([[chance.uniform(-4, 4) for _ in range(count)] for _ in range(parties)])
    together = sum(mix_values(key, SESSION, LABEL, values) for values in own)
    assert np.abs(together - mix_values(key, SESSION, LABEL, own.sum(axis=0))).max() < 2.0**-46


@pytest.mark.parametrize(
    "change", [{"label": b"another label"}, {"key": fixed("another key")}, {"session": fixed("another session")}]
)
def test_mixed_values_change_with_label_key_and_session(change):
    plain = {"key": KEY, "session": SESSION, "label": LABEL, "values": np.random.default_rng(0).normal(size=200)}
    one, other = mix_values(**plain), mix_values(**plain | change)
    assert (one != other).all()
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.4


def test_any_two_of_the_values_are_mixed_equally_often_and_in_any_shares():
    """Mixtures of unit vectors show which two it were: of nine pairs, three are of one value with itself."""
    units = np.stack(
        [[mix_values(KEY, SESSION, b"sum %d" % number, unit)[0] for unit in np.eye(3)] for number in range(4_000)]
    )
    lower, found = (units > 0).argmax(axis=1), (units > 0).sum(axis=1)
    share = units[np.arange(len(units)), lower]
    pairs = np.where(found == 1, lower, 3 + 2 * (units[:, 0] == 0) + 4 * (units[:, 1] == 0) + (share > 0.5))
    assert evenly(np.bincount(pairs, minlength=9))
    assert evenly(np.bincount(np.floor(10 * share[found == 2]).astype(np.int64), minlength=10))


def test_a_shift_fits_into_the_sum_of_all_parties_at_the_bound():
    largest = encode(np.full(100, np.nextafter(MAX_VALUE, 0)))
    total = sum([largest] * MAX_PARTIES, np.zeros(100, dtype=np.uint64)) + np.uint64(MAX_SHIFT - 1)
    assert open_sum(with_check_words(total), MAX_PARTIES).max() < 2**63
