"""S²GC and M-S²CAG against their formulas written out densely."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from kcagc import metrics
from kcagc.baselines import MS2CAG, S2GC
from kcagc.datasets import generate
from kcagc.errors import DataError


@pytest.fixture(scope="module")
def planted():
    return generate(300, 3, homophily=0.8, signal=4, features=20, seed=1)


def looped(data):
    """Return A + I and its row sums."""
    matrix = data.adjacency.toarray() + np.eye(data.n_nodes)
    return matrix, matrix.sum(axis=1)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def mean_of_powers(data, power, alpha):
    """1/K Σ ((1 - α) Tᵗ X + α X), as the authors of S²GC write it."""
    matrix, degrees = looped(data)
    step = matrix / np.sqrt(np.outer(degrees, degrees))
    terms = [
        (1 - alpha) * np.linalg.matrix_power(step, t) @ data.features + alpha * data.features
        for t in range(1, power + 1)
    ]
    return np.mean(terms, axis=0)


def modularity_matrix(data, power, alpha, gamma):
    """Z Zᵀ - γ d dᵀ / 1ᵀd for rows of Z of unit length, as M-S²CAG defines it."""
    matrix, degrees = looped(data)
    step = matrix / degrees[:, None]
    weights = alpha ** np.arange(power + 1.0)
    series = sum(weight * np.linalg.matrix_power(step, t) for t, weight in enumerate(weights))
    rows = unit(series @ unit(data.features))
    similarity = rows @ rows.T
    total = similarity.sum(axis=1)
    return similarity - gamma * np.outer(total, total) / total.sum()


def same_geometry(rows, others):
    """Compare rows up to a rotation."""
    assert_allclose(rows @ rows.T, others @ others.T, atol=1e-9)


@pytest.mark.parametrize(("power", "alpha"), [(1, 0.0), (5, 0.05), (12, 0.5), (3, 1.0)])
def test_s2gc_clusters_the_mean_of_powers(power, alpha, planted):
    model = S2GC(3, power=power, alpha=alpha, n_components=None, random_state=0)
    found = model.fit(planted.features, adjacency=planted.adjacency)
    assert_allclose(found.embedding_, unit(mean_of_powers(planted, power, alpha)), atol=1e-12)


def test_s2gc_projects_on_the_top_singular_vectors(planted):
    found = S2GC(3, power=4, n_components=5, random_state=0).fit(planted.features, adjacency=planted.adjacency)
    left, values, _ = np.linalg.svd(mean_of_powers(planted, 4, 0.05), full_matrices=False)
    same_geometry(found.embedding_, unit(left[:, :5] * values[:5]))


@pytest.mark.parametrize(("power", "alpha", "gamma"), [(0, 1.0, 1.0), (3, 0.8, 0.9), (6, 1.2, 1.0), (4, 1.0, 0.0)])
def test_ms2cag_clusters_the_eigenvectors_of_largest_modularity(power, alpha, gamma, planted):
    model = MS2CAG(3, power=power, alpha=alpha, gamma=gamma, random_state=0)
    found = model.fit(planted.features, adjacency=planted.adjacency)
    _, vectors = np.linalg.eigh(modularity_matrix(planted, power, alpha, gamma))
    same_geometry(found.embedding_, unit(vectors[:, -3:]))


@pytest.mark.parametrize("alpha", [0.0, 1e-3, 100.0])
def test_weights_of_many_powers_stay_finite(alpha, planted):
    ring = np.roll(np.eye(300), 1, axis=1)
    found = MS2CAG(3, power=200, alpha=alpha, random_state=0).fit(planted.features, adjacency=ring + ring.T)
    assert np.isfinite(found.embedding_).all()
    assert_allclose(np.linalg.norm(found.embedding_, axis=1), 1)


@pytest.mark.parametrize("make", [S2GC, MS2CAG])
def test_the_attributes_describe_the_clusters(make, planted):
    seen = []
    model = make(3, power=5, random_state=0)
    model.fit(planted.features, adjacency=planted.adjacency, progress=lambda *given: seen.append(given))
    assert model.power_ == 5
    assert sorted(np.unique(model.labels_)) == [0, 1, 2]
    assert_allclose(np.linalg.norm(model.embedding_, axis=1), 1)
    for label in range(3):
        assert_allclose(model.embedding_[model.labels_ == label].mean(axis=0), model.cluster_centers_[label])
    away = model.embedding_ - model.cluster_centers_[model.labels_]
    assert model.inertia_ == pytest.approx(np.sum(away**2))
    assert seen == [(5, model.inertia_)]


@pytest.mark.parametrize("make", [S2GC, MS2CAG])
def test_labels_do_not_depend_on_the_order_of_columns(make, planted):
    order = np.random.default_rng(0).permutation(planted.features.shape[1])
    one, other = (
        make(3, random_state=0).fit(features, adjacency=planted.adjacency)
        for features in (planted.features, planted.features[:, order])
    )
    assert_array_equal(one.labels_, other.labels_)


@pytest.mark.parametrize("make", [S2GC, MS2CAG])
def test_a_fit_is_repeated_by_its_seed(make, planted):
    one, other = (make(3, random_state=7).fit(planted.features, adjacency=planted.adjacency) for _ in range(2))
    assert_array_equal(one.labels_, other.labels_)


@pytest.mark.parametrize("make", [S2GC, MS2CAG])
def test_nodes_without_neighbours_keep_their_features(make, planted):
    """Without edges, T and P are the identity: the rows are those of a fit without a graph."""
    nothing = sparse.csr_array(planted.adjacency.shape)
    alone = make(3, random_state=0).fit(planted.features)
    lonely = make(3, random_state=0).fit(planted.features, adjacency=nothing)
    same_geometry(lonely.embedding_, alone.embedding_)
    assert (lonely.power_, alone.power_) == (make().power, 0)
    graph = planted.adjacency.tolil()
    graph[:5], graph[:, :5] = 0, 0
    found = make(3, random_state=0).fit(planted.features, adjacency=sparse.csr_array(graph))
    assert metrics.accuracy(planted.labels, found.labels_) > 0.9


@pytest.mark.parametrize("model", [S2GC(3, alpha=1.0, random_state=0), MS2CAG(3, alpha=0.0, random_state=0)])
def test_the_features_alone_can_have_all_weight(model, planted):
    smoothed, alone = (
        clone(model).fit(planted.features, adjacency=graph).embedding_ for graph in (planted.adjacency, None)
    )
    same_geometry(smoothed, alone)


@pytest.mark.parametrize("make", [S2GC, MS2CAG])
def test_rows_of_zeros_get_a_cluster(make, planted):
    features = planted.features.copy()
    features[:10] = 0
    found = make(3, power=0, random_state=0).fit(features, adjacency=planted.adjacency)
    assert np.isfinite(found.embedding_).all()
    assert len(found.labels_) == 300
    assert set(found.labels_) == {0, 1, 2}


@pytest.mark.parametrize("make", [S2GC, MS2CAG])
def test_the_default_power_needs_no_graph_but_a_chosen_one_does(make, planted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(3, random_state=0).fit(planted.features)
    with pytest.warns(UserWarning, match="power=5 has no effect without adjacency"):
        make(3, power=5, random_state=0).fit(planted.features)


@pytest.mark.parametrize("make", [S2GC, MS2CAG])
def test_equal_rows_cannot_be_clustered(make, planted):
    with pytest.raises(DataError, match=r"3 clusters requested, but there (is|are) 1 distinct row"):
        make(3).fit(np.ones((300, 4)) / 3)


def test_one_eigenvector_keeps_its_length():
    """Two columns less their common direction leave one column; its sign alone cannot separate three clusters."""
    angles = np.concatenate([np.full(20, 0.1), np.full(20, 0.7), np.full(20, 1.4)])
    angles += np.random.default_rng(0).normal(scale=0.02, size=60)
    found = MS2CAG(3, random_state=0).fit(np.column_stack([np.cos(angles), np.sin(angles)]))
    assert found.embedding_.shape == (60, 1)
    assert metrics.accuracy(np.repeat([0, 1, 2], 20), found.labels_) == 1.0
