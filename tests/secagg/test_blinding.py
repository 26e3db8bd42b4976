"""Blinded comparisons: the parties read every sign back, and what the aggregator sees is spread as promised."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.stats import chi2

from kcagc.secagg.blinding import Blinding, FactorRange, draw_positions, draw_probes
from kcagc.secagg.masks import MAX_ENCODED, MAX_PARTIES
from secagg.parties import LABEL, SESSION, fixed, flipped, total_of

KEY = fixed("group key")
MANY = 60_000
LARGEST = (9 * MAX_ENCODED + 2) >> 2  # difference that one party can have: in the margin step
every_group = pytest.mark.parametrize("n_parties", range(2, MAX_PARTIES + 1))
keys = st.binary(min_size=32, max_size=32)


def evenly(counts):
    """Whether counts of equally likely things are no stranger than one in a million, uneven or too even."""
    expected = counts.sum() / counts.size
    return 1e-6 < chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.size - 1) < 1 - 1e-6


def blinding_of(length, n_parties=2, key=KEY, session=SESSION, label=LABEL):
    return Blinding.from_key(key, session, label, length, n_parties)


def factors_of(blinding):
    """Return the factors, rounded to floats."""
    return np.ldexp(blinding.mantissas, blinding.octaves - 30)


def exact(words):
    """Return signed integers of any size."""
    return [int(word) for word in words.view(np.int64)]


def offsets_of(blinding, length):
    """Return the offsets, in the order of the comparisons: they are what a party with parts of zero sends."""
    sent = np.empty(length, dtype=np.int64)
    sent[blinding.order] = blinding.apply(np.zeros(length, dtype=np.int64), with_offsets=True).view(np.int64)
    return np.where(blinding.negative, -sent, sent)


@every_group
def test_factors_have_25_octaves_or_more_and_never_overflow(n_parties):
    factors = FactorRange.of_sum(n_parties)
    assert factors.octaves >= 25
    largest = 2 * n_parties * LARGEST + 1
    above = Fraction(2) ** (factors.last // 256) * Fraction(2.0 ** (factors.last % 256 / 256)).limit_denominator(2**50)
    assert (largest + 1) * above * (1 - Fraction(1, 2**40)) < 2**63
    assert (largest + 1) * above > 2**62  # it is not narrower than it must be
    assert 2 ** (factors.first // 256) > n_parties + 2  # what all parties round away, and an offset of one


def test_two_and_three_parties_have_30_octaves():
    assert min(FactorRange.of_sum(2).octaves, FactorRange.of_sum(3).octaves) >= 30


@every_group
def test_the_largest_and_the_smallest_differences_keep_their_signs(n_parties):
    """Whatever the factor, and however much every party rounds: no sum leaves the ring."""
    parts = np.zeros((n_parties, 4_000), dtype=np.int64)
    parts[:, 0::4], parts[:, 1::4] = 2 * LARGEST, -2 * LARGEST
    parts[:-1, 2::4] = 2 * np.arange(1, 1_001)  # parts that round, of which nothing is left
    parts[-1, 2::4] = -parts[:-1, 2::4].sum(axis=0)
    parts[0] += np.resize([1, -1, 1, -1, -1, 1, -1, 1], 4_000)
    blinding = blinding_of(4_000, n_parties)
    sent = [blinding.apply(own, with_offsets=party == 0) for party, own in enumerate(parts)]
    seen = total_of(sent).view(np.int64)
    assert_array_equal(blinding.restore(seen > 0), parts.sum(axis=0) > 0)
    offsets, signs = offsets_of(blinding, 4_000), np.where(blinding.negative, -1, 1)
    for place, found in zip(blinding.order.tolist(), exact(seen), strict=True):
        factor = Fraction(int(blinding.mantissas[place]) << int(blinding.octaves[place]), 1 << 30)
        total = sum(floor(factor * int(part)) for part in parts[:, place]) + int(offsets[place])
        assert found == int(signs[place]) * total  # as integers without end: nothing wrapped around


@given(st.integers(2, MAX_PARTIES), keys, st.binary(max_size=20), st.data())
@example(2, KEY, b"", None)
def test_the_sign_of_every_difference_comes_back(n_parties, key, label, data):
    values = st.lists(st.integers(-LARGEST, LARGEST), min_size=n_parties, max_size=n_parties)
    drawn = [[0] * n_parties] * 3 if data is None else data.draw(st.lists(values, min_size=1, max_size=8))
    parts = 2 * np.array(drawn).T
    ties = np.arange(parts.shape[1]) % 2 == 0
    parts[0] += np.where(ties, 1, -1)
    blinding = blinding_of(parts.shape[1], n_parties, key, label=label)
    sent = [blinding.apply(own, with_offsets=party == 0) for party, own in enumerate(parts)]
    seen = total_of(sent).view(np.int64)
    assert seen.all()  # no zero, which would show a tie
    assert_array_equal(blinding.restore(seen > 0), parts.sum(axis=0) > 0)


def test_blinding_leaves_its_argument_alone():
    parts = np.arange(1, 60, 2)
    before = parts.copy()
    blinding_of(30).apply(parts, with_offsets=True)
    assert_array_equal(parts, before)


@every_group
def test_factors_are_within_their_range(n_parties):
    among = FactorRange.of_sum(n_parties)
    octaves = np.log2(factors_of(blinding_of(20_000, n_parties)))
    assert among.first / 256 <= octaves.min()
    assert octaves.max() < among.last / 256
    assert np.ptp(octaves) > among.octaves - 0.1


@pytest.mark.parametrize("n_parties", [2, 3, 16])
def test_factors_are_spread_evenly_over_all_octaves_and_within_each(n_parties):
    among = FactorRange.of_sum(n_parties)
    octaves = np.log2(factors_of(blinding_of(MANY, n_parties))) - among.first / 256
    whole = int(among.octaves)
    assert evenly(np.bincount(np.floor(octaves[octaves < whole]).clip(0).astype(int), minlength=whole))
    assert evenly(np.bincount((10 * (octaves[octaves < whole] % 1)).astype(int), minlength=10))


def test_magnitudes_say_little_about_differences():
    """The median of 30 octaves lies where it did, whether a difference is the smallest or thousand times as large."""
    for larger, most in ((8, 0.12), (1024, 0.4)):
        parts = np.resize([1, larger + 1], MANY)
        blinding = blinding_of(MANY)
        seen = np.abs(blinding.apply(parts, with_offsets=True).view(np.int64).astype(float))
        large = parts[blinding.order] > 1
        right = (np.log2(seen) > np.median(np.log2(seen))) == large
        assert abs(right.mean() - 0.5) < most


def test_signs_are_coin_flips_for_differences_of_either_sign():
    for part in (1, -1, 10**7 + 1, -(10**8) - 1):
        blinding = blinding_of(MANY, label=b"part %d" % part)
        seen = blinding.apply(np.full(MANY, part), with_offsets=True).view(np.int64)
        assert evenly(np.bincount((seen > 0).astype(int), minlength=2))
        assert evenly(np.bincount(blinding.negative.astype(int), minlength=2))


def test_signs_and_factors_have_nothing_to_do_with_each_other():
    blinding = blinding_of(MANY)
    octaves = np.log2(factors_of(blinding)).astype(int)
    octaves = octaves - octaves.min()
    kept = octaves < octaves.max()
    assert evenly(np.bincount(2 * octaves[kept] + blinding.negative[kept], minlength=2 * octaves.max()))


def test_offsets_are_smaller_than_their_factors_and_spread_evenly_around_zero():
    blinding = blinding_of(MANY)
    offsets, factors = offsets_of(blinding, MANY), np.floor(factors_of(blinding))
    assert (np.abs(offsets) < factors - 2).all()
    share = (offsets + factors) / (2.0 * factors)
    assert evenly(np.bincount((16 * share[factors > 2**20]).astype(int), minlength=16))
    assert (offsets == 0).mean() < 0.02


@pytest.mark.parametrize("offsets", [False, True])
def test_nothing_divides_the_values_of_one_difference(offsets):
    """Were factors integers, a value divided by the right one would always lie within one of the difference."""
    part = 1_000_003
    blinding = blinding_of(MANY)
    seen = np.abs(blinding.apply(np.full(MANY, part), with_offsets=offsets).view(np.int64))
    few = seen[seen < part * 2**12]
    nearest = np.abs(few / part - np.rint(few / part))  # to a multiple of the difference
    assert evenly(np.bincount((10 * nearest / 0.5).astype(int).clip(0, 9), minlength=10))
    if offsets:  # the largest factors are integers, and hidden by the largest offsets
        assert (np.gcd(seen[::2], seen[1::2]) % part == 0).mean() < 0.01


def test_only_one_party_adds_offsets():
    blinding = blinding_of(500)
    one, other = (blinding.apply(np.arange(500), with_offsets=offsets) for offsets in (True, False))
    assert_array_equal(
        (one - other).view(np.int64)[np.argsort(blinding.order)],
        np.where(blinding.negative, -1, 1) * offsets_of(blinding, 500),
    )


@pytest.mark.parametrize("length", [1, 2, 3, 7, 64, 100_003])
def test_the_order_is_a_permutation_of_all_comparisons(length):
    order = blinding_of(length).order
    assert_array_equal(np.sort(order), np.arange(length))
    if length > 1000:
        assert abs(np.corrcoef(order, np.arange(length))[0, 1]) < 0.02


def test_all_orders_of_three_comparisons_are_equally_likely_under_many_labels():
    """Each label has a key of its own, as each sum has."""
    orders = np.array([blinding_of(3, label=b"sum %d" % number).order for number in range(3_000)])
    assert evenly(np.unique(orders @ [9, 3, 1], return_counts=True)[1])
    assert len(np.unique(orders, axis=0)) == 6


def test_a_comparison_comes_to_any_place_equally_often():
    """The low bits, in which positions stand while they are sorted, favour none."""
    places = np.argsort([blinding_of(200, label=b"sum %d" % number).order for number in range(1_600)], axis=1)
    for comparison in (0, 1, 128, 199):
        assert evenly(np.bincount(places[:, comparison] * 16 // 200, minlength=16))
    for one, other in [(0, 1), (0, 199), (127, 128), (198, 199)]:
        assert evenly(np.bincount((places[:, one] < places[:, other]).astype(int), minlength=2))


CHANGES = [
    {"label": b"another label"},
    {"label": LABEL + b"\0"},
    {"label": b""},
    *({"session": flipped(SESSION, bit)} for bit in (0, 77, 255)),
    *({"key": flipped(KEY, bit)} for bit in (0, 77, 255)),
    {"key": SESSION, "session": KEY},
    {"length": 401},
]


@pytest.mark.parametrize("change", CHANGES, ids="+".join)
def test_everything_that_the_secrets_depend_on_changes_all_of_them(change):
    one, other = (blinding_of(**{"length": 400} | inputs) for inputs in ({}, change))
    assert (one.mantissas == other.mantissas[:400]).mean() < 0.02
    assert 0.35 < (one.negative == other.negative[:400]).mean() < 0.65
    assert (one.order == other.order[:400]).mean() < 0.02
    assert abs(np.corrcoef(np.log(factors_of(one)), np.log(factors_of(other)[:400]))[0, 1]) < 0.25
    assert (offsets_of(one, 400) == offsets_of(other, len(other.order))[:400]).mean() < 0.05


@given(keys, st.integers(1, 20), st.integers(1, 50), st.binary(max_size=20))
def test_positions_are_different_and_of_entries_that_are_there(key, count, among, label):
    found = draw_positions(key, SESSION, label, count, among)
    assert 1 <= len(found) <= count
    assert len(found) == among or among > count
    assert found.dtype == np.int64
    assert ((found >= 0) & (found < among)).all()
    assert (np.diff(found) > 0).all()
    assert_array_equal(found, draw_positions(key, SESSION, label, count, among))


def test_all_positions_are_equally_likely():
    drawn = [draw_positions(KEY, SESSION, b"sum %d" % number, 4, 37) for number in range(5_000)]
    assert evenly(np.bincount(np.concatenate(drawn), minlength=37))


@pytest.mark.parametrize("change", CHANGES[:-1], ids="+".join)
def test_positions_and_probes_change_with_key_session_and_label(change):
    plain = {"key": KEY, "session": SESSION, "label": LABEL, "count": 200}
    one, other = (set(draw_positions(**plain | {"among": 10**7} | more).tolist()) for more in ({}, change))
    assert len(one & other) < 5
    one, other = (set(draw_probes(**plain | more).tolist()) for more in ({}, change))
    assert len(one & other) < 5


def test_probes_are_positive_odd_and_spread_over_six_octaves():
    probes = draw_probes(KEY, SESSION, LABEL, MANY)
    assert (probes % 2 == 1).all()
    assert (probes > 0).all()
    assert evenly(np.bincount(np.log2(probes).astype(int) - 22, minlength=6))


def test_one_unit_of_a_distance_is_seen():
    """A difference of one unit decides a comparison, and of none the tie-breaker."""
    parts = np.array([[2 * 1 - 1, 2 * 0 - 1, 2 * 0 + 1, 2 * -1 + 1]] * 500).ravel()
    blinding = blinding_of(2_000)
    seen = total_of([blinding.apply(parts, with_offsets=True), blinding.apply(0 * parts, with_offsets=False)])
    assert_array_equal(blinding.restore(seen.view(np.int64) > 0), np.resize([True, False, True, False], 2_000))
