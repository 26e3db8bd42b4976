import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

from kcagc.cluster import local
from kcagc.cluster.local import fit_projection
from kcagc.errors import ParameterError


def random_matrix(n, m, seed, decay=1.0):
    """A matrix with well separated singular values, so that its vectors are unique up to sign."""
    random = np.random.default_rng(seed)
    left, _ = np.linalg.qr(random.standard_normal((n, min(n, m))))
    right, _ = np.linalg.qr(random.standard_normal((m, min(n, m))))
    return left @ np.diag(2.0 ** (-decay * np.arange(min(n, m)))) @ right.T


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 8), st.integers(0, 1000))
def test_it_is_the_truncated_svd(n, m, q, seed):
    filtered = random_matrix(n, m, seed)
    left, values, _ = np.linalg.svd(filtered, full_matrices=False)
    q = min(q, n, m)
    found = fit_projection(filtered, q)
    assert found.n_components == q
    assert_allclose(found.singular_values, values[:q], atol=1e-12)
    assert_allclose(found.basis.T @ found.basis, np.eye(q), atol=1e-10)
    u, us = found.transform(filtered, "U"), found.transform(filtered, "US")
    assert_allclose(np.abs(np.sum(u * left[:, :q], axis=0)), 1, atol=1e-6)
    assert_allclose(us, u * values[:q], atol=1e-9)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 1000))
def test_unit_rows_have_unit_length_and_zero_rows_stay_zero(n, m, seed):
    filtered = random_matrix(n, m, seed)
    filtered[:: max(n // 3, 2)] = 0
    found = fit_projection(filtered, 4)
    for scaling in ("unit", "U", "US"):
        assert_array_equal(found.transform(filtered, scaling)[~filtered.any(axis=1)], 0)
    lengths = np.linalg.norm(found.transform(filtered, "unit"), axis=1)
    assert np.all((np.abs(lengths - 1) < 1e-12) | (lengths == 0))


@given(st.integers(2, 20), st.integers(2, 20), st.integers(0, 1000))
def test_the_largest_entry_of_each_vector_is_positive(n, m, seed):
    basis = fit_projection(random_matrix(n, m, seed), 5).basis
    assert (np.take_along_axis(basis, np.abs(basis).argmax(axis=0)[None], axis=0) > 0).all()


@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
def test_a_smaller_rank_gives_fewer_components(shape):
    filtered = random_matrix(*shape, seed=0)
    left, values, right = np.linalg.svd(filtered, full_matrices=False)
    rank_three = (left[:, :3] * values[:3]) @ right[:3]
    assert fit_projection(rank_three, 7).n_components == 3
    rows = fit_projection(rank_three, 7).transform(rank_three, "U")
    assert_allclose(rows.T @ rows, np.eye(3), atol=1e-9)


@pytest.mark.parametrize("shape", [(5, 3), (1100, 1200)])
def test_features_that_are_all_zero_give_zeros(shape):
    found = fit_projection(np.zeros(shape), 2)
    assert found.n_components == 1
    for scaling in ("unit", "U", "US"):
        assert_array_equal(found.transform(np.zeros(shape), scaling), np.zeros((shape[0], 1)))


@pytest.mark.parametrize("scale", [1e-170, 1e170])
def test_features_of_any_magnitude_have_the_same_directions(scale):
    filtered = random_matrix(40, 12, seed=0)
    plain, found = fit_projection(filtered, 3), fit_projection(filtered * scale, 3)
    assert_allclose(found.basis, plain.basis, atol=1e-10)
    assert_allclose(found.singular_values / scale, plain.singular_values)


def test_rounding_of_float32_is_not_taken_for_rank():
    random = np.random.default_rng(0)
    rank_two = random.standard_normal((500, 2)) @ random.standard_normal((2, 30))
    assert fit_projection(rank_two, 4).n_components == 2
    assert fit_projection(rank_two.astype(np.float32), 4).n_components == 2


def test_the_sign_does_not_hang_on_which_of_two_equal_entries_rounds_up():
    column = np.random.default_rng(0).standard_normal((200, 1))
    signs = set()
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(200)
        signs.add(tuple(np.sign(fit_projection(np.hstack([column, -column])[order], 1).basis[:, 0])))
    assert signs == {(1.0, -1.0)}


def test_a_positive_column_at_unit_length_is_exactly_one():
    column = np.random.default_rng(0).uniform(0.1, 9, (500, 1))
    assert set(fit_projection(column, 1).transform(column, "unit")[:, 0]) == {1.0}


def test_the_lanczos_start_is_fixed(monkeypatch):
    monkeypatch.setattr(local, "_GRAM_LARGEST", 10)
    filtered = random_matrix(60, 50, seed=0, decay=0.05)
    with threadpool_limits(1):
        assert len({fit_projection(filtered, 4).basis.tobytes() for _ in range(5)}) == 1


def test_a_row_of_rounding_errors_is_not_blown_up_to_unit_length():
    filtered = np.array([[1.0, 0.0], [2.0, 0.0], [1e-17, 5.0], [3.0, 0.0]])
    found = fit_projection(filtered[[0, 1, 3]], 1)
    assert_array_equal(found.transform(filtered, "unit")[2], [0.0])


@pytest.mark.parametrize("shape", [(60, 30), (30, 60)])
def test_all_three_routes_agree(shape, monkeypatch):
    filtered = random_matrix(*shape, seed=2, decay=0.3)
    by_gram = fit_projection(filtered, 5)
    monkeypatch.setattr(local, "_GRAM_FLOOR", 2.0)  # always
    by_qr = fit_projection(filtered, 5)
    monkeypatch.setattr(local, "_GRAM_LARGEST", 10)
    by_lanczos = fit_projection(filtered, 5)
    for other in (by_qr, by_lanczos):
        assert_allclose(other.basis, by_gram.basis, atol=1e-9)
        assert_allclose(other.singular_values, by_gram.singular_values, atol=1e-12)


def test_small_singular_values_are_found_accurately():
    """A Gram matrix alone would lose everything below 1e-8 of the largest value."""
    filtered = random_matrix(50, 8, seed=1, decay=5)  # down to 2^-35
    found = fit_projection(filtered, 8)
    assert_allclose(found.singular_values, 2.0 ** (-5 * np.arange(8)), rtol=1e-4)


def test_float32_is_projected_in_float64(monkeypatch):
    monkeypatch.setattr(local, "_ROWS", 7)  # several blocks of rows
    filtered = random_matrix(50, 9, seed=3).astype(np.float32)
    single, double = fit_projection(filtered, 4), fit_projection(filtered.astype(np.float64), 4)
    assert_allclose(single.basis, double.basis, atol=1e-12)
    assert_allclose(single.transform(filtered), double.transform(filtered.astype(np.float64)), atol=1e-12)


def test_one_and_two_threads_agree_to_rounding():
    filtered = random_matrix(3000, 200, seed=4, decay=0.1)
    rows = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            rows.append(fit_projection(filtered, 10).transform(filtered, "unit"))
    assert_allclose(rows[0], rows[1], atol=1e-10)


def test_parameters_are_checked():
    with pytest.raises(ParameterError, match="n_components"):
        fit_projection(np.eye(3), 0)
    with pytest.raises(ParameterError, match="scaling: must be 'unit', 'U' or 'US', not 'cosine'"):
        fit_projection(np.eye(3), 1).transform(np.eye(3), "cosine")
