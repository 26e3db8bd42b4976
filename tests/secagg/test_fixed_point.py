"""Numbers as integers: the error is at most half a unit for each party, and no sum that is allowed wraps around."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from kcagc.errors import DataError, ParameterError
from kcagc.secagg.masks import (
    FRACTION_BITS,
    LONG_FRACTION_BITS,
    MAX_DISTANCE,
    MAX_ENCODED,
    MAX_LONG_DISTANCE,
    MAX_PARTIES,
    encode,
    open_sum,
    with_check_words,
)
from secagg.parties import total_of

LIMITS = ((MAX_DISTANCE, FRACTION_BITS), (MAX_LONG_DISTANCE, LONG_FRACTION_BITS))
limits = st.sampled_from(LIMITS)
allowed = st.floats(0, MAX_DISTANCE)


def words(values):
    return with_check_words(encode(values, MAX_DISTANCE, FRACTION_BITS).view(np.uint64))


def test_the_constants_of_the_protocol_are_these():
    assert LIMITS == ((4.0, 24), (32.0, 21))
    assert MAX_PARTIES == 16


@pytest.mark.parametrize(("bound", "bits"), LIMITS)
def test_no_distance_within_the_bound_has_a_larger_integer_than_is_planned_for(bound, bits):
    assert encode(np.array([bound * (1 + 2.0**-20)]), bound, bits)[0] <= MAX_ENCODED


@given(arrays(np.float64, array_shapes(max_dims=3, max_side=5), elements=allowed))
@example(np.array([4.0, 5e-324, -0.0, 2.0**-25, 3 * 2.0**-25]))
def test_every_value_within_the_bound_is_taken_and_rounded_to_the_nearest(values):
    found = encode(values, MAX_DISTANCE, FRACTION_BITS)
    assert found.dtype == np.int64
    assert found.shape == values.shape
    for value, integer in zip(values.flat, found.flat, strict=True):
        assert integer == round(Fraction(float(value)) * 2**24)


@given(limits, arrays(np.float64, st.integers(0, 6), elements=st.floats(0, 4)), st.data())
def test_one_value_out_of_bounds_is_enough_to_refuse(limit, values, data):
    bound, bits = limit
    over = bound * (1 + 2.0**-19)
    bad = data.draw(
        st.one_of(st.sampled_from([np.nan, np.inf, -np.inf, -5e-324, over]), st.floats(over), st.floats(max_value=-1))
    )
    place = data.draw(st.integers(0, len(values)))
    with pytest.raises(DataError, match=f"a squared distance is above {bound:g}, the bound of the protocol"):
        encode(np.insert(values, place, bad), bound, bits)


@pytest.mark.parametrize(("bound", "bits"), LIMITS)
def test_a_distance_may_exceed_the_bound_by_what_rounding_adds_to_it(bound, bits):
    """The distance of two rows whose length is one to the last bit can be a little more than 4."""
    near = float(np.nextafter(bound, np.inf))
    assert encode(np.array([near]), bound, bits).tolist() == [int(bound) << bits]


def test_encoding_leaves_its_argument_alone():
    values = np.array([0.1, 0.2])
    encode(values, 4.0, 24)
    assert values.tolist() == [0.1, 0.2]


@given(st.lists(arrays(np.float64, 4, elements=allowed), min_size=1, max_size=16))
@example([np.full(4, MAX_DISTANCE)] * 16)
@example([np.full(4, 3 * 2.0**-25)] * 16)
def test_the_error_of_a_sum_is_at_most_half_a_unit_for_each_party(parties):
    sums = open_sum(total_of([words(values) for values in parties]), len(parties))
    for place, found in enumerate(sums.tolist()):
        exact = sum((Fraction(float(values[place])) for values in parties), Fraction(0))
        assert abs(Fraction(found, 2**24) - exact) <= len(parties) * Fraction(1, 2**25)


@given(st.integers(1, 16), st.integers(-(2**63), 2**63 - 1))
@example(1, -(2**63))
@example(16, 2**63 - 1)
def test_any_word_opens_as_a_signed_integer(n_parties, total):
    """Blinded comparisons use the whole ring."""
    vector = np.array([0, total, 0], dtype=np.int64).view(np.uint64)
    sums = open_sum(with_check_words(vector), n_parties)
    assert sums.dtype == np.int64
    assert sums.tolist() == [0, total, 0]


def test_an_empty_sum_opens():
    assert open_sum(words(np.zeros(0)), 2).tolist() == []


@pytest.mark.parametrize("n_parties", [-1, 0, 17])
def test_a_sum_of_too_few_or_too_many_is_refused(n_parties):
    with pytest.raises(ParameterError, match=f"a sum of {n_parties} parties"):
        open_sum(words(np.zeros(1)), n_parties)
