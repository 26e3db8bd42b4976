import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from kcagc.cluster import fit_projection
from kcagc.graph import ChebyshevFilter, Graph, HalfFilter, NormFilter
from kcagc.graph import filters as module
from kcagc.graph.filters import Filter, FilteredOperator, filter_for_projection
from random_graphs import attributed


@pytest.fixture(autouse=True)
def never_written_out(monkeypatch):
    monkeypatch.setattr(module, "_DENSE", 1e9)


def table(seed=0, n=120, m=60, dtype=np.float64):
    random = np.random.default_rng(seed)
    ends = random.integers(n, size=(2, 3 * n))
    graph = Graph.from_edges(*ends, n_nodes=n)
    return graph, sparse.csr_array(sparse.random_array((n, m), density=0.1, rng=random), dtype=dtype)


@pytest.mark.parametrize("chosen", [HalfFilter(4), NormFilter(3), ChebyshevFilter(lambda x: np.exp(-2 * x))], ids=repr)
def test_the_operator_is_the_filtered_table(chosen):
    graph, features = table()
    found, wanted = filter_for_projection(chosen, graph, features, 3), chosen.apply(graph, features)
    assert isinstance(found, FilteredOperator)
    vectors = np.random.default_rng(1).standard_normal((60, 4))
    assert_allclose(found.times(vectors), wanted @ vectors, atol=1e-12)
    assert_allclose(found.normal(vectors[:, 0]), wanted.T @ (wanted @ vectors[:, 0]), atol=1e-11)
    assert_allclose(found.to_dense(), wanted, atol=1e-14)


@given(st.integers(0, 200), st.sampled_from(["unit", "U", "US"]))
def test_a_projection_is_the_same_whether_the_table_is_written_out_or_not(seed, scaling):
    graph, features = table(seed)
    operator, written = filter_for_projection(HalfFilter(2), graph, features, 4), HalfFilter(2).apply(graph, features)
    one, other = fit_projection(operator, 4), fit_projection(written, 4)
    assert_allclose(one.singular_values, other.singular_values, rtol=1e-9)
    assert_allclose(one.transform(operator, scaling), other.transform(written, scaling), atol=1e-6)
    assert one.noise_floor == pytest.approx(other.noise_floor)


@pytest.mark.parametrize("scale", [0.0, 1e-170, 1e170])
def test_where_the_operator_would_lose_digits_the_table_is_written_out(scale):
    graph, features = table()
    features *= scale
    one = fit_projection(filter_for_projection(HalfFilter(2), graph, features, 3), 3)
    other = fit_projection(HalfFilter(2).apply(graph, features), 3)
    assert_allclose(one.basis, other.basis, atol=1e-9)


def test_a_table_of_small_rank_has_no_more_components_than_that():
    graph, features = table()
    narrow = sparse.csr_array(features[:, :2] @ sparse.csr_array(np.ones((2, 60))))
    assert fit_projection(filter_for_projection(HalfFilter(1), graph, narrow, 5), 5).n_components == 1


def test_rows_of_zeros_far_from_everything_stay_zero():
    graph, features = table()
    loose = Graph.from_matrix(sparse.block_diag([graph.adjacency, sparse.csr_array((5, 5))]))
    more = sparse.csr_array(sparse.vstack([features, sparse.csr_array((5, 60))]))
    found = filter_for_projection(HalfFilter(3), loose, more, 3)
    assert_array_equal(fit_projection(found, 3).transform(found, "unit")[-5:], 0)


@given(attributed())
def test_dense_features_are_always_written_out(data):
    graph, features = data
    found = filter_for_projection(HalfFilter(2), Graph.from_matrix(graph), np.asarray(features, dtype=float), 1)
    assert isinstance(found, np.ndarray)


def test_a_filter_that_does_not_say_what_it_costs_is_applied_to_the_table():
    class Half(Filter):
        def response(self, eigenvalues, *, norm=2.0):
            return 1 - eigenvalues / 2

        def prepare(self, graph, dtype):
            return HalfFilter(1).prepare(graph, dtype)

    graph, features = table()
    assert_allclose(filter_for_projection(Half(), graph, features, 3), HalfFilter(1).apply(graph, features))


def test_float32_features_keep_the_noise_of_float32():
    graph, features = table(dtype=np.float32)
    found = filter_for_projection(HalfFilter(2), graph, features, 3)
    assert found.dtype == np.float32
    assert found.times(np.ones(60)).dtype == np.float64
    assert fit_projection(found, 3).noise_floor > 1e3 * fit_projection(found.to_dense(), 3).noise_floor


def test_few_columns_are_written_out_and_many_are_not(monkeypatch):
    monkeypatch.undo()
    graph, features = table(n=2000, m=1500)
    assert isinstance(filter_for_projection(HalfFilter(9), graph, features, 5), FilteredOperator)
    assert isinstance(filter_for_projection(HalfFilter(9), graph, features[:, :40], 5), np.ndarray)
