"""Numbers as words: the error is at most half a unit for each party, and no sum that is allowed wraps around."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_array_equal

from kcagc.errors import DataError, ParameterError, PeerError
from kcagc.secagg.masks import (
    FRACTION_BITS,
    MAX_PARTIES,
    MAX_SHIFT,
    MAX_VALUE,
    ONE,
    decode,
    encode,
    open_sum,
    with_check_words,
)
from secagg.parties import total_of

JUST_BELOW = float(np.nextafter(2.0**14, 0))
allowed = st.floats(-JUST_BELOW, JUST_BELOW)
forbidden = st.one_of(
    st.sampled_from([np.nan, np.inf, -np.inf, 2.0**14, -(2.0**14)]),
    st.floats(min_value=2.0**14),
    st.floats(max_value=-(2.0**14)),
)


def exact_sum(parties, place):
    return sum((Fraction(float(values[place])) for values in parties), Fraction(0))


def test_the_constants_of_the_protocol_are_these():
    assert (FRACTION_BITS, ONE, MAX_VALUE, MAX_PARTIES) == (44, 2**44, 2.0**14, 16)
    assert MAX_SHIFT == 2**54
    assert MAX_PARTIES * MAX_VALUE * ONE + MAX_SHIFT < 2**63


@given(arrays(np.float64, array_shapes(max_dims=3, max_side=5), elements=allowed))
@example(np.array([JUST_BELOW, -JUST_BELOW, 5e-324, -0.0, 2.0**-45, 3 * 2.0**-45]))
def test_every_value_below_the_bound_is_taken_and_rounded_to_the_nearest(values):
    words = encode(values)
    assert words.dtype == np.uint64
    assert words.shape == values.shape
    for value, word in zip(values.flat, words.flat, strict=True):
        assert word == round(Fraction(float(value)) * 2**44) % 2**64


@given(arrays(np.float64, st.integers(0, 6), elements=allowed), forbidden, st.data())
def test_one_value_out_of_bounds_is_enough_to_refuse(values, bad, data):
    place = data.draw(st.integers(0, len(values)))
    with pytest.raises(DataError, match="not below 16384, the bound of the protocol"):
        encode(np.insert(values, place, bad))


@given(st.lists(arrays(np.float64, 4, elements=allowed), min_size=1, max_size=16))
@example([np.full(4, JUST_BELOW)] * 16)
@example([np.full(4, 3 * 2.0**-45)] * 16)
def test_the_error_of_a_sum_is_at_most_half_a_unit_for_each_party(parties):
    sums = open_sum(total_of([with_check_words(encode(values)) for values in parties]), len(parties))
    for place, found in enumerate(sums.tolist()):
        assert abs(Fraction(found, 2**44) - exact_sum(parties, place)) <= len(parties) * Fraction(1, 2**45)


@given(st.lists(arrays(np.float64, 4, elements=st.floats(-31.9, 31.9)), min_size=1, max_size=16))
def test_below_512_reading_the_sum_adds_no_error(parties):
    decoded = decode(open_sum(total_of([with_check_words(encode(values)) for values in parties]), len(parties)))
    for place, found in enumerate(decoded.tolist()):
        assert abs(Fraction(found) - exact_sum(parties, place)) <= len(parties) * Fraction(1, 2**45)


@given(st.integers(-(2**62), 2**62))
def test_reading_a_sum_gives_the_float_that_is_nearest_to_it(total):
    found = decode(np.array([total], dtype=np.int64))
    assert found.dtype == np.float64
    assert found[0] == float(Fraction(total, 2**44))


@pytest.mark.parametrize("sign", [1, -1])
def test_sixteen_parties_at_the_bound_do_not_overflow(sign):
    sums = open_sum(total_of([with_check_words(encode(np.full(3, sign * JUST_BELOW)))] * 16), 16)
    assert sums.dtype == np.int64
    assert sums.tolist() == [sign * 16 * int(JUST_BELOW * 2**44)] * 3
    assert_array_equal(decode(sums), np.full(3, sign * 16 * JUST_BELOW))


@given(st.integers(1, 16), st.integers(-(2**63), 2**63 - 1))
@example(1, 2**58 + 2**54)
@example(1, -(2**58) - 2**54)
@example(1, 2**58 + 2**54 + 1)
@example(1, -(2**58) - 2**54 - 1)
@example(16, 2**62 + 2**54)
@example(16, 2**62 + 2**54 + 1)
@example(16, -(2**63))
def test_what_the_parties_cannot_add_up_to_is_not_opened(n_parties, total):
    words = np.array([0, total, 0], dtype=np.int64).view(np.uint64)
    if abs(total) <= n_parties * 2**58 + MAX_SHIFT:
        assert open_sum(with_check_words(words), n_parties).tolist() == [0, total, 0]
    else:
        with pytest.raises(PeerError, match="do not cancel"):
            open_sum(with_check_words(words), n_parties)


@given(st.integers(1, 16), st.integers(1, 2**62 - 2**54 - 1))
def test_one_word_beyond_the_bound_hides_the_whole_sum(n_parties, excess):
    words = np.array([1, n_parties * 2**58 + MAX_SHIFT + excess], dtype=np.uint64)
    for signed in (words, np.negative(words)):
        with pytest.raises(PeerError, match="do not cancel"):
            open_sum(with_check_words(signed), n_parties)


def test_an_empty_sum_opens():
    assert open_sum(with_check_words(encode(np.zeros(0))), 2).tolist() == []


@pytest.mark.parametrize("n_parties", [-1, 0, 17])
def test_a_sum_of_too_few_or_too_many_is_refused(n_parties):
    with pytest.raises(ParameterError, match=f"a sum of {n_parties} parties"):
        open_sum(with_check_words(encode(np.zeros(1))), n_parties)
