"""Factors, shifts and mixtures that hide how large a sum is."""

import numpy as np
import pytest

from kcagc.secagg.blinding import factors, mixtures, shifts
from kcagc.secagg.fixed_point import LARGEST, MAX_PARTIES, ROOM_FOR_A_SHIFT, encode, opened

KEY, SESSION, LABEL = b"k" * 32, b"s" * 32, b"label"


def test_factors_keep_a_value_within_the_bound_and_every_octave_is_as_likely():
    found = factors(KEY, SESSION, LABEL, (1, 40_000, 1))
    assert found.min() >= 1 / 16
    assert found.max() < 1
    octaves = np.bincount(np.floor(-np.log2(found.ravel())).astype(int), minlength=4)
    assert octaves.shape == (4,)
    assert octaves == pytest.approx(10_000, rel=0.05)


def test_shifts_leave_room_in_the_sum_of_all_parties_at_the_bound():
    found = shifts(KEY, SESSION, LABEL, (1, 10_000, 1))
    assert found.max() < ROOM_FOR_A_SHIFT
    assert found.max() > 0.99 * ROOM_FOR_A_SHIFT
    largest = encode(np.full(10_000, np.nextafter(LARGEST, 0)))
    total = sum([largest] * MAX_PARTIES, np.zeros(10_000, dtype=np.uint64)) + found.ravel()
    assert opened(total, MAX_PARTIES) is not None


def test_a_factor_changes_neither_the_order_within_a_row_nor_ratios():
    values = np.random.RandomState(0).uniform(0, 4, (1, 500, 6))
    blinded = values * factors(KEY, SESSION, LABEL, (1, 500, 1))
    np.testing.assert_array_equal(blinded.argsort(axis=2), values.argsort(axis=2))
    np.testing.assert_allclose(blinded[..., 0] / blinded[..., 1], values[..., 0] / values[..., 1], rtol=1e-14)


@pytest.mark.parametrize("make", [factors, shifts])
def test_everything_that_goes_in_changes_what_comes_out(make):
    shape = (1, 50, 1)
    first = make(KEY, SESSION, LABEL, shape)
    np.testing.assert_array_equal(first, make(KEY, SESSION, LABEL, shape))
    for other in (
        make(b"K" + KEY[1:], SESSION, LABEL, shape),
        make(KEY, b"S" + SESSION[1:], LABEL, shape),
        make(KEY, SESSION, b"labem", shape),
        make(KEY, SESSION, LABEL, (50, 1, 1)),
    ):
        assert not (first.ravel() == other.ravel()).any()


def test_mixtures_name_rows_that_are_there_and_shares():
    first, second, share = mixtures(KEY, SESSION, LABEL, 5_000, 7)
    assert set(first) == set(second) == set(range(7))
    assert (first != second).any()
    assert 0 <= share.min() < 0.01
    assert 0.99 < share.max() < 1
