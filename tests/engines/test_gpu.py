"""The engine for a GPU: with NumPy as its array library everywhere, and with CuPy where there is a GPU."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from kcagc.cluster.kmeans import fit_kmeans
from kcagc.datasets.generator import generate
from kcagc.engines import LOCAL, gpu
from kcagc.engines.device_kmeans import MANY, cluster_on_device
from kcagc.engines.device_table import DeviceGraph, smooth_on_device
from kcagc.engines.gpu import GpuEngine
from kcagc.errors import ParameterError
from kcagc.graph.chebyshev import ChebyshevFilter
from kcagc.graph.filters import Filter, HalfFilter, NormFilter
from kcagc.graph.graph import Graph, as_graph
from kcagc.metrics import ari


def libraries():
    """Return NumPy, and CuPy where there is a GPU."""
    found = [pytest.param(np, id="numpy")]
    try:
        import cupy

        cupy.zeros(1)
    except Exception as error:  # no CuPy, no driver, no GPU
        skip = pytest.mark.skip(reason=f"no GPU here: {type(error).__name__}")
        return [*found, pytest.param(None, id="cupy", marks=skip)]
    return [*found, pytest.param(cupy, id="cupy")]


XP = pytest.mark.parametrize("xp", libraries())
FILTERS = [HalfFilter(0), HalfFilter(7), NormFilter(3), ChebyshevFilter(lambda x: np.exp(-2 * x), tolerance=1e-6)]


@pytest.fixture(scope="module")
def data():
    found = generate(700, 4, features=70, seed=5)
    return SimpleNamespace(graph=as_graph(found.adjacency), features=np.asarray(found.features, dtype=np.float64))


def weighted(graph, seed=0):
    """Return the same edges with weights, and self loops."""
    matrix = sparse.triu(graph.adjacency, k=1).tocoo()
    weights = np.random.default_rng(seed).uniform(0.1, 5, size=matrix.nnz)
    loops = np.arange(0, graph.n_nodes, 7)
    both = sparse.coo_array(
        (
            np.concatenate([weights, weights, np.full(len(loops), 2.5)]),
            (
                np.concatenate([matrix.row, matrix.col, loops]),
                np.concatenate([matrix.col, matrix.row, loops]),
            ),
        ),
        shape=graph.adjacency.shape,
    )
    return Graph(sparse.csr_array(both))


@XP
@pytest.mark.parametrize("chosen", FILTERS, ids=repr)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-6)])
@pytest.mark.parametrize("weigh", [False, True])
def test_the_filter_agrees_with_the_local_engine(xp, data, chosen, dtype, tolerance, weigh):
    graph = weighted(data.graph) if weigh else data.graph
    features = data.features.astype(dtype)
    expected = LOCAL.smooth(chosen, graph, features)
    found = GpuEngine(xp=xp).smooth(chosen, graph, features)
    assert found.dtype == dtype
    assert np.abs(found.to_host() - expected).max() <= tolerance * np.abs(expected).max()


@XP
@pytest.mark.parametrize("columns", [70, 64, 1, 3])
@pytest.mark.parametrize("room", [None, 80, 40, 7, 1])
def test_a_table_larger_than_the_memory_is_filtered_in_slices(xp, data, columns, room):
    """`room` counts columns of the table."""
    features = data.features[:, :columns]
    memory = None if room is None else room * len(features) * 8
    graph = DeviceGraph(xp, data.graph, np.float64)
    found = smooth_on_device(xp, HalfFilter(3), graph, features, room=memory)
    assert np.allclose(found.to_host(), LOCAL.smooth(HalfFilter(3), data.graph, features), rtol=1e-12, atol=1e-14)
    nodes = np.array([3, 699, 0])
    assert np.array_equal(found.take(nodes), found.to_host()[nodes])
    assert np.allclose(found.gram().tolist(), found.to_host().T @ found.to_host())


@XP
def test_sparse_features_are_filtered_too(xp, data):
    table = sparse.csr_array(np.where(data.features > 0.5, data.features, 0.0))
    found = GpuEngine(xp=xp).smooth(HalfFilter(2), data.graph, table)
    assert np.allclose(found.to_host(), HalfFilter(2).apply(data.graph, table), rtol=1e-12, atol=1e-14)


@XP
@pytest.mark.parametrize("scaling", ["U", "US", "unit"])
@pytest.mark.parametrize("memory", [None, 700 * 8 * 20])
def test_projected_rows_agree_with_the_local_engine(xp, data, scaling, memory):
    engine = GpuEngine(xp=xp, memory=memory)
    smoothed = engine.smooth(HalfFilter(4), data.graph, data.features)
    own = LOCAL.smooth(HalfFilter(4), data.graph, data.features)
    found, expected = engine.singular_vectors(smoothed, 5), LOCAL.singular_vectors(own, 5)
    assert np.allclose(found.singular_values, expected.singular_values, rtol=1e-10)
    rows = engine.project(smoothed, found, scaling)
    assert isinstance(rows, np.ndarray)
    assert np.allclose(rows, LOCAL.project(own, expected, scaling), atol=1e-8 * np.abs(rows).max())


@XP
def test_tables_that_a_gram_matrix_would_spoil_are_left_to_the_local_engine(xp):
    graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4])
    engine = GpuEngine(xp=xp)
    scales = 10.0 ** np.array([0, -3, -6])
    for features in (np.random.default_rng(0).normal(size=(5, 3)) * scales, np.ones((5, 9)) * 1e150, np.zeros((5, 2))):
        smoothed = engine.smooth(HalfFilter(1), graph, features)
        found = engine.singular_vectors(smoothed, 3)
        expected = LOCAL.singular_vectors(LOCAL.smooth(HalfFilter(1), graph, features), 3)
        assert np.allclose(found.singular_values, expected.singular_values, rtol=1e-6)


class OwnFilter(Filter):
    """A filter of a user's own class."""

    def response(self, eigenvalues, *, norm=2.0):
        return (1 - eigenvalues / 2) ** 2

    def prepare(self, graph, dtype):
        return HalfFilter(2).prepare(graph, dtype)


@XP
def test_a_filter_of_an_own_class_runs_in_this_process(xp, data):
    engine = GpuEngine(xp=xp)
    smoothed = engine.smooth(OwnFilter(), data.graph, data.features)
    assert np.array_equal(smoothed, LOCAL.smooth(HalfFilter(2), data.graph, data.features))
    assert np.array_equal(engine.take(smoothed, np.array([4])), smoothed[[4]])
    projection = engine.singular_vectors(smoothed, 3)
    assert engine.project(smoothed, projection, "unit").shape == (700, 3)


def blobs(n, k, seed, spread=0.05, columns=6):
    random = np.random.default_rng(seed)
    centers = random.normal(size=(k, columns))
    labels = random.integers(k, size=n)
    return centers[labels] + spread * random.normal(size=(n, columns)), labels


@XP
@pytest.mark.parametrize("seed", range(3))
def test_clear_clusters_of_many_rows_are_found(xp, seed):
    rows, labels = blobs(MANY + 5_000, 12, seed)
    found = GpuEngine(xp=xp).cluster(rows, 12, n_init=4, seed=seed)
    assert ari(labels, found.labels) == 1.0
    assert np.allclose(found.centers, LOCAL.means(rows, found.labels, 12))


@XP
def test_the_cost_is_that_of_the_local_engine_on_rows_without_clusters(xp):
    rows = np.random.default_rng(3).normal(size=(MANY + 1, 3))
    found = GpuEngine(xp=xp).cluster(rows, 5, n_init=3, seed=1)
    local = fit_kmeans(rows, 5, n_init=1, random_state=1)
    assert found.inertia <= 1.01 * local.inertia
    assert set(found.labels.tolist()) == set(range(5))


@XP
@pytest.mark.parametrize("k", [1, 2])
def test_few_distinct_rows_are_left_to_the_local_engine(xp, k):
    rows = np.repeat([[0.0, 1.0], [2.0, 3.0]], MANY, axis=0)
    assert cluster_on_device(xp, rows, k, n_init=2, seed=0) is None
    found = GpuEngine(xp=xp).cluster(rows, 5, n_init=2, seed=0)
    assert len(found.centers) == 2


@XP
def test_one_cluster_of_many_rows(xp):
    rows = np.random.default_rng(0).normal(size=(MANY + 1, 2))
    found = cluster_on_device(xp, rows, 1, n_init=2, seed=0)
    assert not found.labels.any()
    assert np.allclose(found.centers, rows.mean(axis=0))


def test_without_a_gpu_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    gpu._cupy.cache_clear()
    with pytest.raises(ParameterError, match=r"engine: 'gpu' needs CuPy.*kcagc\[gpu\].*engine = \"local\""):
        GpuEngine()
    gpu._cupy.cache_clear()
