"""Numbers that no role knows: products, pads, rotations and shares, against integers of any size and exact formulas."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest

from kcagc.secagg import shares
from kcagc.secagg.blinding import Blinding, FactorRange, log_uniform, times_factors
from kcagc.secagg.masks import MAX_PARTIES, keystream
from kcagc.secagg.shares import (
    LENGTH_OCTAVES,
    ROTATION_BITS,
    drawn_share,
    may_wrap,
    pad,
    ring_product,
    rotation,
    rounded_share,
    row_factors,
    row_offsets,
    row_rotations,
    to_ring,
    turn_back,
    turned_and_scaled,
)
from secagg.parties import SESSION, fixed

KEY, OTHER_KEY = fixed("key"), fixed("other key")
RING = 1 << 64
many_rotations = pytest.mark.parametrize("size", [1, 2, 3, 5, 8])


def random_words(seed, *shape):
    return keystream(fixed("words", seed), int(np.prod(shape))).reshape(shape)


def real_factors(label, count):
    mantissas, octaves = row_factors(KEY, SESSION, label, count=count)
    return np.ldexp(mantissas.astype(float), octaves - 30)


def product_of_integers(a, b):
    exact = a.astype(object) @ b.astype(object)
    return (exact % RING).astype(np.uint64)


def signed(words):
    return words.view(np.int64).astype(object)


# Products


@pytest.mark.parametrize("inner", [1, 2, 31, 32, 33, 100, 1000])
def test_a_product_is_that_of_integers_modulo_the_ring(inner):
    a, b = random_words("a", 4, inner), random_words("b", inner, 3)
    assert_array_equal(ring_product(a, b), product_of_integers(a, b))


@pytest.mark.parametrize("inner", [1, 32, 33, 70])
@pytest.mark.parametrize("value", [0, 1, (1 << 16) - 1, (1 << 32) - 1, 1 << 63, RING - 1])
def test_a_product_of_extreme_words_is_exact(inner, value):
    a, b = np.full((2, inner), value, dtype=np.uint64), np.full((inner, 2), RING - 1, dtype=np.uint64)
    assert_array_equal(ring_product(a, b), product_of_integers(a, b))


def test_a_product_over_many_rows_is_exact(monkeypatch):
    """Parts of all rows are added in floating point as long as every sum is exact."""
    assert 2 * 16 + (shares._MAX_INNER - 1).bit_length() <= 53
    monkeypatch.setattr(shares, "_MAX_INNER", 64)
    for inner in (63, 64, 65, 200):
        a, b = random_words("long", 3, inner), random_words("b", inner, 2)
        assert_array_equal(ring_product(a, b), product_of_integers(a, b))


def test_the_largest_sum_of_parts_is_exact():
    inner = shares._MAX_INNER + 3
    ones = np.full((1, inner), RING - 1, dtype=np.uint64)
    assert ring_product(ones, ones.T).tolist() == [[inner]]  # (-1)·(-1), `inner` times


def test_a_product_of_empty_and_transposed_matrices():
    a = random_words("a", 50, 4)
    assert_array_equal(ring_product(a.T, a), product_of_integers(a.T, a))
    assert_array_equal(ring_product(a[:0], a.T), np.zeros((0, 50), dtype=np.uint64))
    assert_array_equal(ring_product(a[:, :0], a.T[:0]), np.zeros((50, 50), dtype=np.uint64))


def test_numbers_become_the_nearest_integers_modulo_the_ring():
    found = to_ring(np.array([0.0, 1.0, -1.0, 2.0**-21, 0.75, -3.5]), 20)
    assert_array_equal(signed(found), [0, 1 << 20, -(1 << 20), 0, 786432, -3670016])


# Pads


def test_a_pad_depends_on_key_session_label_and_shape():
    first = pad(KEY, SESSION, "rows", 1, shape=(3, 4))
    assert first.shape == (3, 4)
    assert_array_equal(first, pad(KEY, SESSION, "rows", 1, shape=(3, 4)))
    others = [
        pad(OTHER_KEY, SESSION, "rows", 1, shape=(3, 4)),
        pad(KEY, fixed("session"), "rows", 1, shape=(3, 4)),
        pad(KEY, SESSION, "rows", 2, shape=(3, 4)),
        pad(KEY, SESSION, "centers", 1, shape=(3, 4)),
        pad(KEY, SESSION, "rows", 1, shape=(4, 3)),
        pad(KEY, SESSION, "rows", 1, shape=(12,)),
        pad(KEY, SESSION, "rows", shape=(1, 3, 4)),
    ]
    everything = np.concatenate([one.ravel() for one in [first, *others]])
    assert len(set(everything.tolist())) == len(everything)


def test_a_pad_is_uniform():
    found = pad(KEY, SESSION, "uniform", shape=(400, 50))
    bits = np.unpackbits(found.ravel().view(np.uint8)).reshape(-1, 64).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 4 * 0.5 / np.sqrt(found.size)
    cells = np.bincount((found >> np.uint64(56)).astype(np.int64).ravel(), minlength=256)
    chi_squared = ((cells - found.size / 256) ** 2 / (found.size / 256)).sum()
    assert abs(chi_squared - 255) < 4 * np.sqrt(2 * 255)


# Rotations and factors


@many_rotations
def test_a_rotation_keeps_lengths_and_angles(size):
    found = shares._rotations(KEY, SESSION, ("orthogonal",), 500, size)
    assert found.shape == (500, size, size)
    assert_allclose(found @ found.transpose(0, 2, 1), np.broadcast_to(np.eye(size), found.shape), atol=1e-13)
    assert_allclose(found.transpose(0, 2, 1) @ found, np.broadcast_to(np.eye(size), found.shape), atol=1e-13)


@many_rotations
def test_rotations_have_the_moments_of_the_uniform_distribution(size):
    """Entries, traces and determinants; also after a fixed rotation on either side, which must change nothing."""
    count = 20_000
    found = shares._rotations(KEY, SESSION, ("moments",), count, size)
    fixed_one, _ = np.linalg.qr(np.random.RandomState(3).normal(size=(size, size)))
    near = 5 / np.sqrt(count)
    for turned in (found, fixed_one @ found, found @ fixed_one, found.transpose(0, 2, 1)):
        assert_allclose(turned.mean(axis=0), 0, atol=near)
        assert_allclose((turned**2).mean(axis=0), 1 / size, atol=near)
        assert_allclose((turned**4).mean(axis=0), 3 / (size * (size + 2)), atol=near)
        trace = np.trace(turned, axis1=1, axis2=2)
        assert abs(trace.mean()) < near
        assert abs((trace**2).mean() - 1) < 2 * near
        if size > 1:
            assert abs((trace**4).mean() - 3) < 10 * near
            squares = np.trace(turned @ turned, axis1=1, axis2=2)
            assert abs(squares.mean() - 1) < 2 * near
        assert abs(np.sign(np.linalg.det(turned)).mean()) < near


@pytest.mark.parametrize("row", [[1, 0, 0], [0, 0, -5], [1, 1, 1], [1e-6, 3, -2]])
def test_the_direction_of_a_turned_row_does_not_depend_on_the_row(row):
    """Its parts have equal and independent distributions; the first is uniform on a sphere of three dimensions."""
    count = 20_000
    x = np.array(row) / np.linalg.norm(row)
    turned = shares._rotations(KEY, SESSION, ("direction", str(row)), count, 3) @ x
    near = 5 / np.sqrt(count)
    assert_allclose(turned.mean(axis=0), 0, atol=near)
    assert_allclose(np.cov(turned.T), np.eye(3) / 3, atol=near)
    assert_allclose(np.linalg.norm(turned, axis=1), 1, atol=1e-12)
    for part in turned.T:  # Archimedes: the height of a uniform point on a sphere is uniform
        away = np.abs(np.sort(part) - np.linspace(-1, 1, count)).max() / 2
        assert away < 1.95 / np.sqrt(count)  # Kolmogorov-Smirnov, one in a thousand


def test_rows_of_one_session_have_rotations_of_their_own():
    found = row_rotations(KEY, SESSION, "own", count=200, size=3)
    assert len({one.tobytes() for one in found}) == 200
    flat = found.reshape(200, -1).astype(float)
    assert np.abs((flat[1:] * flat[:-1]).mean()) / 2.0 ** (2 * ROTATION_BITS) < 5 / (3 * np.sqrt(200 * 9))


@many_rotations
def test_both_holders_derive_the_same_rotations_whatever_else_they_derive(size):
    first = row_rotations(KEY, SESSION, b"label", count=40, size=size)
    rotation(KEY, SESSION, b"another", size=size)
    assert_array_equal(first, row_rotations(KEY, SESSION, b"label", count=40, size=size))
    exact = shares._rotations(KEY, SESSION, (b"label",), 40, size)
    assert np.abs(first - np.ldexp(exact, ROTATION_BITS)).max() <= 0.5
    for other in (
        row_rotations(OTHER_KEY, SESSION, b"label", count=40, size=size),
        row_rotations(KEY, SESSION, b"labels", count=40, size=size),
    ):
        assert (first != other).any()


def test_one_rotation_is_the_first_of_a_count_of_one():
    assert_array_equal(rotation(KEY, SESSION, "x", size=4), shares._rotations(KEY, SESSION, ("x",), 1, 4)[0])


KNOWN_ROTATIONS = {
    (1, 1): "fe9a25c35a623544",
    (7, 2): "cf6e8e85130e2c5c",
    (300, 3): "87994fc8335794bf",
    (50, 17): "99943dcff2cae43e",
    (3, 64): "f7e08fc5ff14c1e1",
}
KNOWN_ROTATION = "885123264b2c7310"
KNOWN_QUANTILES = "e1a1a2dffa29b28b"
KNOWN_FACTORS = "7f467e46cc7a0d6b"
KNOWN_TWO_BY_TWO = [[924830, 494166], [-494166, 924830]]


def test_known_answers_of_rotations_and_factors():
    """Two holders on different machines must derive the same integers: these digests must not change.

    Another processor, NumPy or Python that rounds differently fails here, and not in the middle of a session.
    """
    digests = {
        (count, size): hashlib.sha256(
            row_rotations(KEY, SESSION, "known", count=count, size=size).astype("<i8").tobytes()
        ).hexdigest()[:16]
        for count, size in ((1, 1), (7, 2), (300, 3), (50, 17), (3, 64))
    }
    assert digests == KNOWN_ROTATIONS
    exact = rotation(KEY, SESSION, "known", size=6).astype("<f8").tobytes()
    assert hashlib.sha256(exact).hexdigest()[:16] == KNOWN_ROTATION
    assert hashlib.sha256(shares._quantiles().astype("<f8").tobytes()).hexdigest()[:16] == KNOWN_QUANTILES
    factors = real_factors("known", 1000).astype("<f8").tobytes()
    assert hashlib.sha256(factors).hexdigest()[:16] == KNOWN_FACTORS
    assert_array_equal(row_rotations(KEY, SESSION, "known", count=1, size=2)[0], KNOWN_TWO_BY_TWO)


def test_normal_deviates_have_the_moments_of_the_normal_distribution():
    found = shares._normal(random_words("normal", 200_000))
    assert abs(found.mean()) < 0.012
    assert abs((found**2).mean() - 1) < 0.02
    assert abs((found**4).mean() - 3) < 0.15
    ends = np.array([0, RING - 1], dtype=np.uint64)
    low, high = shares._normal(ends)
    assert low == -shares._quantiles()[-1]
    assert shares._quantiles()[-2] < high <= shares._quantiles()[-1] < 5
    assert_array_equal(shares._quantiles(), -shares._quantiles()[::-1])


def test_factors_of_rows_spread_evenly_over_their_octaves():
    found = np.log2(real_factors("factors", 50_000))
    assert found.max() < 58
    assert found.min() >= 58 - LENGTH_OCTAVES
    places = np.bincount((found - 58 + LENGTH_OCTAVES).astype(int), minlength=LENGTH_OCTAVES)
    assert np.abs(places / 50_000 * LENGTH_OCTAVES - 1).max() < 0.12
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 0.02


def test_no_sum_of_rows_of_sixteen_parties_leaves_the_ring():
    """A row is at most 4 long. Even sixteen parts of length 1 in the same direction stay within the ring."""
    largest = real_factors("factors", 50_000).max() * (1 + 2.0**-18)
    assert MAX_PARTIES * largest < 1 << 63


@pytest.mark.parametrize("size", [1, 3, 17])
def test_shares_are_turned_and_scaled_by_exact_products(size):
    """Against integers of any size; two parts of each share are rounded down, so the result is less by two at most."""
    count, bits = 200, 22
    rotations = row_rotations(KEY, SESSION, "scaled", count=count, size=size)
    mantissas, octaves = factors = row_factors(KEY, SESSION, "scaled", count=count)
    share = random_words("share", count, size).view(np.int64) >> 16
    share[0] = (1 << 47) - 1
    share[1] = -(1 << 47)
    found = turned_and_scaled(rotations, factors, share, bits)
    for row in range(count):
        turned = rotations[row].astype(object) @ share[row].astype(object) * int(mantissas[row])
        down = 30 + bits + ROTATION_BITS - int(octaves[row])
        for one, exact in zip(found[row].tolist(), turned.tolist(), strict=True):
            assert (exact >> down) - one & RING - 1 in range(5)


def test_the_last_bits_of_turned_and_scaled_shares_do_not_show_the_factor():
    """Words that end with zeros would show how far a product was rounded, and with that the factor."""
    count, size = 3000, 2
    rotations = row_rotations(KEY, SESSION, "bits", count=count, size=size)
    factors = row_factors(KEY, SESSION, "bits", count=count)
    number = np.random.RandomState(0).randint(1 << 20, 1 << 21, size=(count, size))
    drawn = random_words("bits", count, size).view(np.int64) >> 16
    total = sum(turned_and_scaled(rotations, factors, one, 22) for one in (drawn, number - drawn))
    zeros = np.log2((total & (~total + np.uint64(1))).astype(float))
    assert abs(zeros.mean() - 1) < 0.1  # as of random integers: one half has none, one quarter one, and so on
    assert abs(np.corrcoef(zeros.min(axis=1), factors[1])[0, 1]) < 0.06
    exact = np.einsum("nij,nj->ni", rotations.astype(float), number.astype(float))
    exact *= np.ldexp(factors[0].astype(float), factors[1] - 72)[:, None]
    assert np.abs(total.view(np.int64) - exact).max() / 2.0**58 < 2.0**-50


def test_entries_of_a_turned_and_scaled_row_are_no_multiples_of_one_number():
    """From multiples of one number, lattice reduction finds the number, and with it the length of the row."""
    count, size = 1500, 4
    rotations = row_rotations(KEY, SESSION, "grid", count=count, size=size)
    factors = row_factors(KEY, SESSION, "grid", count=count)
    row = np.random.RandomState(0).randint(-(1 << 21), 1 << 21, size=(count, size))
    plain = turned_and_scaled(rotations, factors, row, 22)
    offsets = row_offsets(KEY, SESSION, "grid", factors=factors, size=size, fraction_bits=22)
    large = factors[1] > 50  # one unit of a row becomes 2^8 or more

    def beyond_multiples(words):
        units = [
            (word << 72 - octave) % mantissa / mantissa
            for values, mantissa, octave in zip(
                words.view(np.int64)[large].tolist(), *(f[large].tolist() for f in factors), strict=True
            )
            for word in values
        ]
        return np.abs(np.array(units) - np.rint(units))

    assert beyond_multiples(plain).max() < 0.02
    assert kstest(2 * beyond_multiples(plain + offsets), "uniform").pvalue > 1e-3
    assert np.abs(offsets.view(np.int64)).max() < 1 << 15
    moved = np.abs(offsets.view(np.int64)) * 2.0 ** (72 - factors[1][:, None]) / factors[0][:, None]
    assert moved.max() <= 0.5  # of a unit of 2^-42


# Shares


def test_a_drawn_share_depends_on_everything_that_names_it():
    every = [
        drawn_share(KEY, SESSION, b"label", 0, shape=(3, 4)),
        drawn_share(OTHER_KEY, SESSION, b"label", 0, shape=(3, 4)),
        drawn_share(KEY, SESSION, b"label", 1, shape=(3, 4)),
        drawn_share(KEY, SESSION, b"other", 0, shape=(3, 4)),
        drawn_share(KEY, SESSION, b"label", 0, shape=(4, 3)),
        pad(KEY, SESSION, b"label", 0, shape=(3, 4)),
    ]
    words = np.concatenate([one.ravel() for one in every])
    assert len(set(words.tolist())) == len(words)


@pytest.mark.parametrize("bits", [1, 20, 41, 62])
def test_a_share_may_wrap_only_near_the_ends(bits):
    limit = (1 << 63) - (1 << bits)
    for value, expected in ((limit, True), (limit - 1, False), (-limit, False), (-limit - 1, True), (0, False)):
        assert may_wrap(np.array([[5, value]], dtype=np.int64).view(np.uint64), bits) is expected


@given(
    share=st.integers(-(1 << 63), (1 << 63) - 1),
    number=st.integers(-(1 << 40), 1 << 40),
    bits=st.integers(1, 30),
)
def test_two_rounded_shares_add_up_to_the_rounded_number(share, number, bits):
    one = np.array([share], dtype=np.int64).view(np.uint64)
    if may_wrap(one, 41):
        return
    other = np.uint64(number % RING) - one
    total = int(rounded_share(one, bits)[0]) + int(rounded_share(other, bits)[0])
    assert number >> bits in (total, total + 1)


@pytest.mark.parametrize("size", [1, 2, 3, 17])
def test_shares_that_are_turned_back_add_up_to_the_row_before_its_rotation(size):
    """In exact integers; the rotations are rounded, so the row comes back to about 2^-19."""
    count = 400
    random = np.random.RandomState(size)
    rows = random.normal(size=(count, size))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    rotations = row_rotations(KEY, SESSION, "turn", count=count, size=size)
    turned = np.einsum("nij,nj->ni", np.ldexp(rotations.astype(float), -ROTATION_BITS), rows)
    number = to_ring(turned, 20)
    drawn = drawn_share(KEY, SESSION, "turn", shape=number.shape)
    found = [turn_back(rotations, one) for one in (drawn, number - drawn)]
    whole = found[0] + found[1]
    exact = np.einsum("nij,ni->nj", rotations.astype(object), signed(number))
    assert_array_equal(signed(whole), exact)
    assert np.abs(np.ldexp(whole.view(np.int64).astype(float), -40) - rows).max() < 2.0**-18 * np.sqrt(size)
    if not may_wrap(found[0], 41):
        total = rounded_share(found[0], 20) + rounded_share(found[1], 20)
        assert np.abs(np.ldexp(total.astype(float), -20) - rows).max() < 2.0**-17 * np.sqrt(size)


def test_one_share_of_a_row_says_nothing_about_the_row():
    """Each holder's share is uniform, before and after it is turned back."""
    rotations = row_rotations(KEY, SESSION, "uniform", count=4000, size=3)
    number = to_ring(np.tile([1.0, 0.0, 0.0], (4000, 1)), 20)
    drawn = drawn_share(KEY, SESSION, "uniform", shape=number.shape)
    for one in (drawn, number - drawn, turn_back(rotations, drawn), turn_back(rotations, number - drawn)):
        cells = np.bincount((one >> np.uint64(58)).astype(np.int64).ravel(), minlength=64)
        chi_squared = ((cells - one.size / 64) ** 2 / (one.size / 64)).sum()
        assert abs(chi_squared - 63) < 4 * np.sqrt(2 * 63)


# Blinding of parts as large as shares


@pytest.mark.parametrize("n_parties", [2, 16])
def test_a_part_of_63_bits_times_a_factor_is_rounded_down_modulo_the_ring(n_parties):
    words = random_words("factors", 300)
    mantissas, octaves = log_uniform(words, FactorRange.of_sum(n_parties))
    parts = random_words("parts", 300).view(np.int64) >> np.arange(300) % 64
    parts[:6] = [(1 << 62) - 1, -(1 << 62), (1 << 63) - 1, -(1 << 63), -1, 0]
    found = times_factors(parts, mantissas, octaves)
    for part, mantissa, octave, product in zip(*(x.tolist() for x in (parts, mantissas, octaves, found)), strict=True):
        exact = part * mantissa << octave - 30 if octave >= 30 else part * mantissa >> 30 - octave
        assert (product - exact) % RING == 0


def test_comparisons_of_shares_have_the_signs_of_the_numbers():
    """Parts of 52 bits, whose sum is small: the blinded sum has the sign of the difference, or its opposite."""
    count = 500
    random = np.random.RandomState(0)
    numbers = random.randint(-(1 << 26), 1 << 26, size=count) * 2 + 1
    first = random_words("shares", count).view(np.int64) >> 12
    second = numbers - first
    blinding = Blinding.from_key(KEY, SESSION, b"label", count, 2)
    total = blinding.apply(first, with_offsets=True) + blinding.apply(second, with_offsets=False)
    assert_array_equal(blinding.restore(total.view(np.int64) > 0), numbers > 0)
