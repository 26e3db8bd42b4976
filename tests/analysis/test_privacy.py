"""Estimators find entropies that are known, to a tolerance that a wrong unit, factor or term would leave."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from kcagc.analysis.privacy import (
    Privacy,
    codes,
    conditional_entropy,
    differential_entropy,
    discrete_entropy,
    distinct_rows,
    mutual_information,
    nearest,
    pair_codes,
    plug_in,
    plug_in_by_column,
)
from kcagc.errors import DataError, ParameterError

SIZE = 4000
lists = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=40)


def gaussian(covariance, seed=0):
    covariance = np.atleast_2d(covariance)
    return np.random.default_rng(seed).multivariate_normal(np.zeros(len(covariance)), covariance, SIZE)


def gaussian_entropy(covariance):
    covariance = np.atleast_2d(covariance)
    return 0.5 * np.log2(np.linalg.det(2 * np.pi * np.e * covariance))


def mixed(d, seed=3):
    """Give a covariance whose columns depend on each other and have different spreads."""
    factor = np.random.default_rng(seed).normal(size=(d, d))
    return factor @ factor.T + 0.3 * np.eye(d)


# Plug-in


def test_known_probabilities_have_known_entropies():
    assert discrete_entropy(np.array([0, 1])) == 1.0
    assert discrete_entropy(np.repeat([0, 1, 2, 4], [4, 2, 1, 1])) == pytest.approx(1.75)
    assert discrete_entropy(np.zeros(8, dtype=int)) == 0.0
    assert discrete_entropy(codes(np.arange(1024))) == pytest.approx(10)


def test_what_one_coin_tells_about_two():
    """Y is the number of heads among two coins, X the first coin: H(Y) = 1.5, H(Y|X) = 1."""
    first, second = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    heads, coin = codes(first + second), codes(first)

    assert discrete_entropy(heads) == pytest.approx(1.5)
    assert conditional_entropy(heads, coin) == pytest.approx(1.0)
    assert conditional_entropy(coin, heads) == pytest.approx(0.5)
    found = plug_in(first + second, first)
    assert found.level == pytest.approx(2.0)
    assert found.leakage == pytest.approx(1 - 2**-0.5)


def test_drawn_values_come_near_their_entropy():
    shares = np.array([0.5, 0.25, 0.15, 0.1])
    drawn = np.random.default_rng(0).choice(4, SIZE, p=shares)

    assert discrete_entropy(drawn) == pytest.approx(-(shares @ np.log2(shares)), abs=0.03)


@given(lists)
def test_conditions_take_away_and_chains_add_up(pairs):
    y, x = (codes(np.array(side)) for side in zip(*pairs, strict=True))
    joint = discrete_entropy(pair_codes(y, x))

    assert conditional_entropy(y, x) <= discrete_entropy(y) + 1e-12
    assert discrete_entropy(x) + conditional_entropy(y, x) == pytest.approx(joint)
    assert discrete_entropy(y) + conditional_entropy(x, y) == pytest.approx(joint)
    assert len(np.unique(pair_codes(y, x))) == len(set(pairs))


def test_rows_that_differ_by_rounding_are_equal_unless_bits_are_asked_for():
    rows = np.array([[0.1 + 0.2, 0.0], [0.3, -0.0], [0.3, 1e-18], [0.3, 1e-6]])

    assert len(set(codes(rows).tolist())) == 2
    assert len(set(codes(rows, digits=None).tolist())) == 4
    assert len(set(codes(1e-30 * rows).tolist())) == 2  # beside the largest, not beside one
    assert codes(["b", "a", "b"]).tolist() == [1, 0, 1]
    assert len(set(codes([10**15, 10**15 + 1]).tolist())) == 2


def test_by_column_is_the_mean_over_columns_sparse_or_dense():
    rng = np.random.default_rng(0)
    shared, features = rng.integers(0, 5, size=(60, 2)), (rng.random((60, 4)) < 0.3) * 1.0
    each = [plug_in(shared, features[:, column]) for column in range(4)]

    for form in (np.asarray, sparse.csr_array, sparse.csc_array):
        found = plug_in_by_column(shared, form(features))
        assert found.level == pytest.approx(np.mean([one.level for one in each]))
        assert found.leakage == pytest.approx(np.mean([one.leakage for one in each]))


def test_rows_that_never_repeat_measure_the_features_alone():
    """A table published whole and random numbers have the same level and the same leakage."""
    features = np.random.default_rng(0).random((200, 30)) < 0.2
    numbers = np.random.default_rng(1).permutation(200)

    assert len(np.unique(features, axis=0)) == 200
    assert plug_in_by_column(features, features) == plug_in_by_column(numbers, features)


# Nearest neighbours


@pytest.mark.parametrize("neighbors", [1, 3, 10])
def test_uniform_values_have_the_entropy_of_their_interval(neighbors):
    drawn = np.random.default_rng(0).uniform(0, 8, SIZE)

    assert differential_entropy(drawn, neighbors=neighbors) == pytest.approx(3.0, abs=0.12)
    assert differential_entropy(drawn / 1024, neighbors=neighbors) == pytest.approx(-7.0, abs=0.12)


@pytest.mark.parametrize(("d", "tolerance"), [(1, 0.06), (2, 0.08), (3, 0.1), (5, 0.25)])
def test_gaussians_have_the_entropy_of_their_covariance(d, tolerance):
    covariance = mixed(d)

    assert differential_entropy(gaussian(covariance)) == pytest.approx(gaussian_entropy(covariance), abs=tolerance)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9, -0.99])
@pytest.mark.parametrize("neighbors", [2, 5])
def test_information_between_two_gaussians_is_that_of_their_correlation(correlation, neighbors):
    drawn = gaussian([[1, correlation], [correlation, 1]])
    expected = -0.5 * np.log2(1 - correlation**2)

    found = mutual_information(drawn[:, 0], 1000 * drawn[:, 1], neighbors=neighbors)

    assert found == pytest.approx(expected, abs=0.07)
    assert found >= 0


def test_information_between_several_columns():
    covariance = mixed(4)
    drawn = gaussian(covariance)
    one, other = covariance[:2, :2], covariance[2:, 2:]
    expected = 0.5 * np.log2(np.linalg.det(one) * np.linalg.det(other) / np.linalg.det(covariance))

    assert expected > 1
    assert mutual_information(drawn[:, :2], drawn[:, 2:]) == pytest.approx(expected, abs=0.12)


def test_level_and_leakage_of_gaussians_are_those_of_the_conditional_entropy():
    """Y given X has variance 4 (1 - ρ²), so that both measures have closed forms."""
    correlation = 0.8
    drawn = gaussian([[1, 2 * correlation], [2 * correlation, 4]])

    found = nearest(drawn[:, 1], drawn[:, 0])

    assert found.level == pytest.approx(2 ** gaussian_entropy(4 * (1 - correlation**2)), rel=0.06)
    assert found.leakage == pytest.approx(1 - np.sqrt(1 - correlation**2), abs=0.04)


def test_one_column_of_many_tells_what_it_tells_alone():
    drawn = gaussian([[1, 0.9], [0.9, 1]])
    with_constant = np.column_stack([drawn[:, 0], np.full(SIZE, 7.0)])

    assert mutual_information(with_constant, drawn[:, 1]) == pytest.approx(mutual_information(drawn[:, 0], drawn[:, 1]))
    assert mutual_information(np.zeros(SIZE), drawn[:, 1]) == pytest.approx(0, abs=1e-9)


def test_a_published_table_and_random_numbers_are_told_apart():
    drawn = gaussian(mixed(2))
    numbers = np.random.default_rng(1).permutation(SIZE)

    assert nearest(drawn, drawn).leakage > 0.999
    assert nearest(numbers, drawn).leakage < 0.05


# What cannot be measured


@pytest.mark.parametrize("rows", [np.full(50, 3.0), np.column_stack([np.arange(50.0), np.ones(50)])])
def test_constant_columns_have_no_density(rows):
    with pytest.raises(DataError, match="density"):
        differential_entropy(rows)


def test_more_columns_than_rows_have_no_density():
    with pytest.raises(DataError, match=r"20 rows of 30 columns lie in 19 dimensions.*project"):
        differential_entropy(np.random.default_rng(0).normal(size=(20, 30)))


def test_columns_that_follow_from_others_have_no_density():
    drawn = gaussian(mixed(2))
    with pytest.raises(DataError, match="lie in 2 dimensions"):
        differential_entropy(np.column_stack([drawn, 1e6 * drawn.sum(axis=1)]))


def test_repeated_rows_have_no_density_until_they_are_dropped():
    drawn = gaussian(mixed(2))
    repeated = np.vstack([drawn, np.repeat(drawn[:1], 4, axis=0) + 1e-15])

    with pytest.raises(DataError, match=r"equal.*distinct"):
        differential_entropy(repeated)
    with pytest.raises(DataError, match=r"equal.*distinct"):
        mutual_information(repeated, repeated)
    kept = distinct_rows(repeated)
    assert kept.tolist() == list(range(SIZE))
    assert differential_entropy(repeated[kept]) == differential_entropy(drawn)


def test_errors_name_what_is_wrong():
    with pytest.raises(DataError, match="row 1 has a value that is infinite or missing"):
        codes([[0.0], [np.nan]])
    with pytest.raises(DataError, match=r"shape \(0,\)"):
        codes([])
    with pytest.raises(DataError, match="3 are too few to find 3 neighbours"):
        differential_entropy([1.0, 2.0, 3.0])
    with pytest.raises(DataError, match="one table has 5, but the other has 6"):
        mutual_information(np.arange(5.0), np.arange(6.0))
    with pytest.raises(DataError, match="one table has 2, but the other has 3"):
        plug_in([1, 2], [1, 2, 3])
    with pytest.raises(DataError, match="must be a table of 3 rows"):
        plug_in_by_column([1, 2, 3], np.zeros((2, 2)))
    with pytest.raises(DataError, match="nothing to average"):
        Privacy.mean([])
    with pytest.raises(ParameterError, match="neighbors"):
        differential_entropy(np.arange(9.0), neighbors=0)


def test_a_condition_that_seems_to_add_is_an_error_of_estimation():
    assert Privacy.of(3.0, 3.1) == Privacy(8.0, 0.0)
