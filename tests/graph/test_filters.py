import math
import tracemalloc

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from kcagc.datasets import generate
from kcagc.errors import DataError, ParameterError
from kcagc.graph import (
    ChebyshevFilter,
    Graph,
    HalfFilter,
    NormFilter,
    filters,
    laplacian,
    laplacian_norm,
    normalised_laplacian,
)
from kcagc.graph.filters import Filter, StoredFilter
from kcagc.graph.laplacian import BLOCK_COLUMNS, FilterStep
from random_graphs import adjacencies, attributed


def exponential(eigenvalues):
    return np.exp(-3 * eigenvalues)


def rational(eigenvalues):
    return 1 / (1 + 2 * eigenvalues)


FILTERS = [
    HalfFilter(0),
    HalfFilter(1),
    HalfFilter(9),
    NormFilter(1),
    NormFilter(5),
    ChebyshevFilter(exponential),
    ChebyshevFilter(rational),
    ChebyshevFilter(lambda eigenvalues: np.full_like(eigenvalues, 0.5)),
]


def dense_answer(graph, chosen, features, response=None):
    """Q p(Λ) Qᵀ X, as the paper writes it, with the Laplacian built the naive way."""
    looped = graph.adjacency.toarray() + np.eye(graph.n_nodes)
    root = np.diag(1 / np.sqrt(looped.sum(axis=1)))
    values, vectors = np.linalg.eigh(np.eye(graph.n_nodes) - root @ looped @ root)
    norm = values.max() if graph.n_edges else 0.0
    values = np.clip(values, 0, 2)
    wanted = chosen.response(values, norm=norm) if response is None else response(values)
    return vectors @ np.diag(wanted) @ vectors.T @ features


@pytest.mark.parametrize("chosen", FILTERS, ids=repr)
@given(data=attributed())
def test_a_filter_is_the_dense_spectral_formula(chosen, data):
    adjacency, features = data
    graph = Graph.from_matrix(adjacency)
    assert_allclose(chosen.apply(graph, features), dense_answer(graph, chosen, features), atol=1e-8)


@given(adjacencies())
def test_the_laplacian_is_symmetric_with_eigenvalues_from_0_to_2(adjacency):
    laplacian = normalised_laplacian(Graph.from_matrix(adjacency)).toarray()
    assert_array_equal(laplacian, laplacian.T)
    values = np.linalg.eigvalsh(laplacian)
    assert abs(values[0]) < 1e-10
    assert values[-1] < 2


def test_the_norm_by_lanczos_is_the_largest_eigenvalue():
    for seed, degree in ((0, 2.0), (1, 6.0), (2, 20.0)):
        graph = Graph(generate(200, 4, degree=degree, seed=seed, features=1).adjacency)
        largest = np.linalg.eigvalsh(normalised_laplacian(graph).toarray())[-1]
        assert laplacian_norm(graph) == pytest.approx(largest, abs=1e-10)


@pytest.mark.parametrize("chosen", [HalfFilter(7), NormFilter(3), ChebyshevFilter(exponential)], ids=repr)
def test_isolated_nodes_pass_unchanged_times_p_of_zero(chosen):
    graph = Graph.from_edges([0], [1], n_nodes=4)
    features = np.arange(8.0).reshape(4, 2)
    assert_allclose(chosen.apply(graph, features)[2:], features[2:], atol=1e-9)


@pytest.mark.parametrize("n", [3, 100])
def test_a_graph_without_edges_changes_nothing(n):
    features = np.random.default_rng(0).standard_normal((n, 3))
    graph = Graph.from_edges([], [], n_nodes=n)
    for chosen in (HalfFilter(4), NormFilter(4)):
        assert_allclose(chosen.apply(graph, features), features, atol=1e-12)


@pytest.mark.parametrize("chosen", [HalfFilter(5), NormFilter(5), ChebyshevFilter(rational)], ids=repr)
def test_the_result_depends_on_neither_threads_nor_form_nor_neighbouring_columns(chosen):
    data = generate(300, 3, features=3 * BLOCK_COLUMNS + 5, sparsity=0.9, seed=3)
    dense = data.features.toarray()
    wanted = chosen.apply(data.adjacency, dense, n_threads=1)
    assert_array_equal(chosen.apply(data.adjacency, dense, n_threads=4), wanted)
    assert_array_equal(chosen.apply(data.adjacency, data.features), wanted)
    assert_array_equal(chosen.apply(data.adjacency, np.asfortranarray(dense)), wanted)
    assert_array_equal(chosen.apply(data.adjacency, dense[:, 40:41])[:, 0], wanted[:, 40])


def test_float32_stays_float32_and_is_close():
    data = generate(300, 3, features=8, seed=3)
    single = HalfFilter(10).apply(data.adjacency, data.features.astype(np.float32))
    assert single.dtype == np.float32
    assert_allclose(single, HalfFilter(10).apply(data.adjacency, data.features), atol=1e-5)
    assert HalfFilter(10).apply(data.adjacency, data.features, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize("width", [1, BLOCK_COLUMNS])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_in_reused_memory_are_those_of_scipy(dtype, width, monkeypatch):
    data = generate(300, 3, features=width, seed=3)
    weights = sparse.csr_array(data.adjacency) * 0.5 + sparse.diags_array(np.arange(300.0) % 3)  # with self loops
    graph = Graph.from_matrix(sparse.csr_array(weights))
    block = data.features.astype(dtype)
    before = block.copy()
    step = FilterStep(graph, 2.0, dtype)
    found = [step.power(block, count) for count in range(5)]
    assert_array_equal(block, before)
    assert found[0] is block
    assert len({id(one) for one in found}) == 5  # no result lies in memory that another product uses
    dense = np.eye(300) - normalised_laplacian(graph).toarray() / 2
    near = 1e-5 if dtype == np.float32 else 1e-13
    for count, one in enumerate(found):
        assert one.dtype == dtype
        assert_allclose(one, np.linalg.matrix_power(dense, count) @ before, atol=near)
    monkeypatch.setattr("kcagc.graph.laplacian.csr_matvecs", None)
    assert_allclose(step.power(block, 4), found[4], atol=near)
    assert_allclose(step.power(block[:, 0], 4), found[4][:, 0], atol=near)


@pytest.mark.parametrize("faster", ["narrow", "wide", "timed"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("chosen", [HalfFilter(5), NormFilter(1), HalfFilter(0), ChebyshevFilter(rational)], ids=repr)
def test_blocks_that_threads_share_give_the_same_bits_at_any_width(chosen, dtype, faster, monkeypatch):
    """Half of the cache has room for 300 rows of 16 bytes."""
    data = generate(300, 3, features=2 * laplacian.SHARED_COLUMNS + 5, sparsity=0.9, seed=3)
    weights = sparse.csr_array(data.adjacency) * 0.5 + sparse.diags_array(np.arange(300.0) % 3)  # with self loops
    graph, columns = Graph.from_matrix(sparse.csr_array(weights)), data.features.astype(dtype)
    dense, before, some = columns.toarray(), columns.toarray(), np.array([7, 0, 299])
    wanted = chosen.apply(graph, dense)
    widths = set()

    class Noted(laplacian.PowerOfStep):
        def faster_width(self, block, narrow, pool):
            timed = super().faster_width(block, narrow, pool)
            assert timed in (narrow, block.shape[1])
            widths.add({"narrow": narrow, "wide": block.shape[1], "timed": timed}[faster])
            return max(widths)

    monkeypatch.setattr(laplacian, "_cache_bytes", lambda: 2 * 300 * 16)
    monkeypatch.setattr(filters, "MANY_PRODUCTS", 0)
    monkeypatch.setattr(filters, "PowerOfStep", Noted)
    found = [chosen.apply(graph, columns)] + [chosen.apply(graph, dense, n_threads=count) for count in (1, 3)]
    part = filters.filter_columns(chosen.prepare(graph, dtype), dense, dtype, rows=some)
    for one in found:
        assert one.dtype == dtype
        assert_array_equal(one, wanted)
    assert_array_equal(part, wanted[some])
    assert_array_equal(dense, before)
    if faster == "narrow" and chosen in (HalfFilter(5), NormFilter(1)):
        assert widths == {16 // np.dtype(dtype).itemsize}


def test_blocks_are_shared_where_those_of_all_threads_do_not_fit_in_the_cache(monkeypatch):
    monkeypatch.setattr(laplacian, "_cache_bytes", lambda: 32 << 20)
    assert [laplacian.fits_in_cache(8 * nodes, 2) for nodes in (1_000, 60_000, 70_000, 10**6)] == [
        True,
        True,
        False,
        False,
    ]
    assert [laplacian.narrow_width(8 * nodes, 8) for nodes in (100_000, 200_000, 10**6, 3 * 10**6)] == [16, 8, 2, 0]
    assert laplacian.narrow_width(4 * 10**6, 4) == 4


def test_the_size_of_the_cache_is_read_from_the_system(monkeypatch, tmp_path):
    for text, size in (("8192K\n", 8 << 20), ("1048576K\n", 32 << 20), ("a lot", 32 << 20)):
        (tmp_path / "size").write_text(text)
        monkeypatch.setattr(laplacian, "_CACHE_FILE", tmp_path / "size")
        laplacian._cache_bytes.cache_clear()
        assert laplacian._cache_bytes() == size
    laplacian._cache_bytes.cache_clear()


def test_memory_is_the_result_and_a_few_blocks():
    data = generate(20_000, 4, degree=4, features=16 * BLOCK_COLUMNS, seed=0)
    graph = Graph(data.adjacency)
    block = data.features.nbytes / 16
    tracemalloc.start()
    try:
        HalfFilter(5).apply(graph, data.features, n_threads=2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    matrices = 6 * 12 * (data.adjacency.nnz + graph.n_nodes)
    assert peak < data.features.nbytes + 2 * 3 * block + matrices


def test_columns_on_disk_are_filtered_without_a_table_in_memory(tmp_path):
    data = generate(20_000, 4, degree=4, features=16 * BLOCK_COLUMNS, seed=0)
    graph, path = Graph(data.adjacency), tmp_path / "columns.npy"
    np.save(path, data.features)
    columns = np.load(path, mmap_mode="r")
    wanted = HalfFilter(3).apply(graph, data.features)
    tracemalloc.start()
    try:
        found = HalfFilter(3).apply(graph, columns, n_threads=2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert_array_equal(found, wanted)
    assert peak < 0.7 * data.features.nbytes


def test_sparse_features_are_never_dense_as_a_whole_but_for_the_result():
    data = generate(20_000, 4, degree=2, features=16 * BLOCK_COLUMNS, sparsity=0.99, seed=0)
    result = data.n_nodes * 16 * BLOCK_COLUMNS * 8
    tracemalloc.start()
    try:
        HalfFilter(2).apply(data.adjacency, data.features, n_threads=2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.7 * result


@pytest.mark.parametrize("weight", [1.0, 1e-9, 1e-15, 1e-100])
def test_the_second_filter_keeps_its_digits_where_edges_are_light(weight):
    """Two nodes and one edge: at ψ = 1 the filter is the mean of both, however light the edge."""
    graph = Graph.from_edges([0], [1], [weight])
    assert_allclose(NormFilter(1).apply(graph, [[1.0], [0.0]]), [[0.5], [0.5]], atol=1e-8)


def test_the_norm_of_a_long_path_takes_no_time():
    n = 5000
    path = Graph.from_edges(np.arange(n - 1), np.arange(1, n))
    assert laplacian_norm(path) == pytest.approx(4 / 3, abs=1e-3)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_tolerance_is_relative_to_the_response(scale):
    chosen = ChebyshevFilter(lambda eigenvalues: scale * np.exp(-eigenvalues), tolerance=1e-8)
    assert 0 < chosen.error <= 1e-8 * scale


@pytest.mark.parametrize("psi", [-1, 1.5, True, None, "2"])
def test_a_meaningless_order_is_refused(psi):
    for kind in (HalfFilter, NormFilter):
        with pytest.raises(ParameterError, match="psi: must be a whole number, 0 or more"):
            kind(psi)


def test_other_number_types_are_refused():
    with pytest.raises(ParameterError, match="dtype: must be"):
        HalfFilter(1).apply(np.eye(2), np.eye(2), dtype=np.int64)


# Chebyshev expansions


@given(st.floats(0.1, 20), st.floats(1e-12, 1e-3))
def test_the_stated_error_holds_between_the_points_of_the_grid(rate, tolerance):
    chosen = ChebyshevFilter(lambda eigenvalues: np.exp(-rate * eigenvalues), tolerance=tolerance)
    points = np.random.default_rng(0).uniform(0, 2, 5000)
    expansion = np.polynomial.chebyshev.chebval(points - 1, chosen.coefficients)
    assert chosen.error <= tolerance
    assert np.abs(expansion - np.exp(-rate * points)).max() <= chosen.error * 1.01 + 1e-15


@given(data=attributed(), tolerance=st.sampled_from([1e-2, 1e-5]))
def test_filtered_features_are_off_by_at_most_the_error_times_their_norm(data, tolerance):
    adjacency, features = data
    graph = Graph.from_matrix(adjacency)
    chosen = ChebyshevFilter(exponential, tolerance=tolerance)
    off = np.linalg.norm(chosen.apply(graph, features) - dense_answer(graph, chosen, features, exponential))
    assert off <= chosen.error * np.linalg.norm(features) + 1e-10


def test_the_degree_is_no_larger_than_the_tolerance_needs():
    rough, fine = (ChebyshevFilter(exponential, tolerance=tolerance) for tolerance in (1e-2, 1e-10))
    assert rough.degree < 8 < fine.degree < 32
    assert ChebyshevFilter(lambda x: (1 - x / 2) ** 6).degree == 6


def test_sparse_products_only():
    """The engine must not fall back to a dense n × n matrix: at this size one would need 80 GB."""
    graph = Graph.from_edges(np.arange(99_999), np.arange(1, 100_000))
    features = sparse.csr_array(([1.0], ([50_000], [0])), shape=(100_000, 1))
    smooth = ChebyshevFilter(rational, tolerance=1e-6).apply(graph, features)
    assert np.argmax(smooth) == 50_000


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (lambda x: x, "must not rise on .* between 0 and 0.0001"),
        (lambda x: 1 - x, "must not be negative"),
        (lambda x: 1 / (x - 0), "not finite"),
        (lambda x: np.where(x < 1, 1.0, 0.0), "degree 1024 has an error of .* above the tolerance"),
        (lambda x: np.ones(3), "returned shape"),
        (math.exp, "must take an array of eigenvalues"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_response_that_is_no_low_pass_filter_is_refused(response, message):
    with pytest.raises(DataError, match=message):
        ChebyshevFilter(response)


def test_a_norm_that_is_given_takes_the_place_of_the_graphs_own():
    graph = Graph.from_matrix(np.ones((4, 4)) - np.eye(4))
    features = np.arange(8.0).reshape(4, 2)
    fixed = NormFilter(3).fixed_on(graph)
    np.testing.assert_array_equal(fixed.apply(graph, features), NormFilter(3).apply(graph, features))
    larger = Graph.from_edges(range(5), range(1, 6), n_nodes=6)
    more = np.arange(12.0).reshape(6, 2)
    assert not np.allclose(fixed.apply(larger, more), NormFilter(3).apply(larger, more))
    with pytest.raises(ParameterError, match="norm"):
        NormFilter(3, norm=2.5)


# Filters as plain data


@pytest.mark.parametrize(
    "chosen", [HalfFilter(3), NormFilter(2), NormFilter(2, 1.5), ChebyshevFilter(rational)], ids=repr
)
def test_a_stored_filter_is_restored_to_the_last_bit(chosen):
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(chosen.stored()), type=StoredFilter)
    again = stored.restore()
    assert again == chosen
    assert repr(again) == repr(chosen)
    assert hash(again) == hash(chosen)
    data = generate(100, 3, features=5, seed=1)
    assert_array_equal(again.apply(data.adjacency, data.features), chosen.apply(data.adjacency, data.features))


def test_expansions_that_differ_have_different_names():
    one, other = ChebyshevFilter(rational), ChebyshevFilter(rational, tolerance=1e-4)
    assert one != other
    assert repr(one) != repr(other)
    assert repr(one) == repr(ChebyshevFilter.from_coefficients(one.coefficients))


@pytest.mark.parametrize("wrong", [[], [np.nan], [[1.0]], [np.inf, 1.0]])
def test_coefficients_that_are_not_finite_numbers_are_refused(wrong):
    with pytest.raises(DataError, match="coefficients"):
        ChebyshevFilter.from_coefficients(wrong)


def test_a_filter_class_of_the_caller_is_stored_by_kind_only():
    class Identity(Filter):
        def response(self, eigenvalues, *, norm=2.0):
            return np.ones_like(eigenvalues)

        def prepare(self, graph, dtype):
            return lambda block: block

    chosen = Identity()
    assert chosen.stored() == StoredFilter("custom")
    assert chosen.stored().restore(chosen) is chosen
    with pytest.raises(ParameterError, match=r"^filter: a Filter subclass cannot be stored"):
        chosen.stored().restore()
