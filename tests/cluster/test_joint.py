"""The steps of the joint method on known rows: those of the protocol, and clusters as good as those of k-means."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kcagc import AGC, KCAGC, metrics
from kcagc.cluster import fit_joint_kmeans, fit_kmeans, joint
from kcagc.datasets import generate
from kcagc.errors import DataError, ParameterError
from kcagc.graph import Graph, HalfFilter
from kcagc.protocol.joint import join_seeds
from kcagc.protocol.messages import restore
from kcagc.protocol.parameters import draw_seed

STRONG = {"homophily": 0.8, "signal": 3.0, "features": (20, 20, 20)}
WEAK = {"homophily": 0.5, "signal": 1.0, "features": (20, 20, 20)}
WORDS = {"homophily": 0.6, "signal": 3.0, "features": (60, 60, 60), "sparsity": 0.9}


def joint_rows(model, data, seed):
    """Return the unit rows of the joint subspace, which no role of a run knows, from the components of all parties."""
    graph, k = Graph.from_matrix(data.adjacency), data.n_classes
    how = zip([one.embedder for one in model.models_.values()], data.parties(), strict=True)
    parts = [model.filter_.apply(graph, table) @ restore(one.basis) / one.divisor for one, table in how]
    components = np.hstack(parts)
    sample = components[joint.clustered_sample(data.n_nodes, k, seed)]
    _, directions = np.linalg.eigh(sample.T @ sample)
    rows = components @ directions[:, -k:]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def common_seed(random_state, n_parties):
    return join_seeds([draw_seed(random_state).to_bytes(8, "big")] * n_parties)


@pytest.mark.parametrize("made", [STRONG, WEAK, WORDS], ids=["strong", "weak", "words"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_labels_are_those_of_the_protocol(made, seed):
    data = generate(400, 5, seed=seed, **made)
    model = KCAGC(n_clusters=5, psi=2, method="joint", random_state=seed)
    model.fit(data.parties(), adjacency=data.adjacency)
    common = common_seed(seed, 3)
    found = fit_joint_kmeans(joint_rows(model, data, common), 5, seed=common)
    assert np.count_nonzero(found.labels != model.labels_) <= 2
    assert found.converged == model.converged_


def test_the_labels_are_those_of_the_protocol_outside_the_sample(monkeypatch):
    monkeypatch.setattr(joint, "SAMPLE_VALUES", 0)
    monkeypatch.setattr(joint, "MIN_SAMPLE", 150)
    data = generate(400, 4, seed=3, **STRONG)
    model = KCAGC(n_clusters=4, psi=2, method="joint", random_state=3)
    model.fit(data.parties(), adjacency=data.adjacency)
    seed = common_seed(3, 3)
    rows = joint_rows(model, data, seed)
    found = fit_joint_kmeans(rows, 4, seed=seed)
    assert np.count_nonzero(found.labels != model.labels_) <= 2
    sample = joint.clustered_sample(400, 4, seed)
    assert len(sample) == 150
    assert_allclose(found.centers, [rows[sample][found.labels[sample] == one].mean(axis=0) for one in range(4)])


@pytest.mark.parametrize("made", [STRONG, WORDS], ids=["strong", "words"])
def test_the_cost_is_near_that_of_far_apart_starts(made):
    data = generate(600, 6, seed=5, **made)
    rows = AGC(6, psi=2, scaling="unit", random_state=0).fit(data.features, adjacency=data.adjacency).embedding_
    best = fit_kmeans(rows, 6, random_state=0, margin=False).inertia
    for seed in range(4):
        found = fit_joint_kmeans(rows, 6, seed=seed)
        assert found.inertia <= best * 1.02
        assert found.inertia == pytest.approx(((rows - found.centers[found.labels]) ** 2).sum())


def test_one_seed_gives_one_result_with_clusters_numbered_by_their_first_node():
    rows = np.random.default_rng(0).standard_normal((300, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    first = fit_joint_kmeans(rows, 5, seed=1)
    assert_array_equal(first.labels, fit_joint_kmeans(rows, 5, seed=1).labels)
    assert (first.labels != fit_joint_kmeans(rows, 5, seed=2).labels).any()
    _, places = np.unique(first.labels, return_index=True)
    assert_array_equal(places, np.sort(places))


@pytest.mark.parametrize("max_iter", [1, 3, 5, 8, 14, 30])
def test_it_ends_after_the_given_number_of_rounds(max_iter):
    rows = np.random.default_rng(0).standard_normal((300, 3))
    found = fit_joint_kmeans(rows / np.linalg.norm(rows, axis=1, keepdims=True), 5, seed=1, max_iter=max_iter)
    assert found.n_iter <= joint.schedule(300, 5, max_iter).rounds <= max_iter
    assert (np.bincount(found.labels, minlength=5) > 0).all()


@pytest.mark.parametrize("rows", [np.zeros((30, 2)), np.eye(3), np.ones((3, 1))], ids=["zeros", "few", "equal"])
def test_rows_that_cannot_be_told_apart_have_a_result(rows):
    assert set(fit_joint_kmeans(rows, 3, seed=0).labels.tolist()) == {0, 1, 2}


def test_bad_input_is_named():
    with pytest.raises(DataError, match="3 clusters requested, but there are 2 rows"):
        fit_joint_kmeans(np.eye(2), 3, seed=0)
    with pytest.raises(ParameterError, match="max_iter"):
        fit_joint_kmeans(np.eye(2), 2, seed=0, max_iter=0)
    with pytest.raises(DataError, match="rows"):
        fit_joint_kmeans([[np.nan], [1.0]], 2, seed=0)


def test_the_estimator_runs_these_steps_on_unit_rows():
    data = generate(300, 3, seed=1, **STRONG)
    model = AGC(3, psi=2, method="joint", scaling="US", n_init=1, random_state=0)
    model.fit(data.features, adjacency=data.adjacency)
    assert_allclose(np.linalg.norm(model.embedding_, axis=1), 1.0)
    assert model.n_iter_ <= joint.schedule(300, 3, joint.MAX_ROUNDS).rounds
    assert metrics.accuracy(data.labels, model.labels_) > 0.95
    smooth = HalfFilter(2).apply(Graph.from_matrix(data.adjacency), data.features)
    exact = np.linalg.svd(smooth, full_matrices=False)
    rows = smooth @ exact[2][:3].T
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert_allclose(model.embedding_ @ model.embedding_.T, rows @ rows.T, atol=1e-8)  # up to a rotation
    with pytest.raises(ParameterError, match="method"):
        AGC(3, method="cells").fit(data.features, adjacency=data.adjacency)


@pytest.mark.parametrize(
    ("n_nodes", "k", "in_shares", "size"),
    [
        (500_000, 16, True, 5_000),  # as many scores as are not yet too many
        (500_001, 16, True, 2_500),
        (500_001, 16, False, 5_000),
        (1_000_000, 9, True, 4_444),
        (1_000_000, 17, True, 5_000),  # half of it would have too few nodes for each cluster
        (2_000_000, 8, True, 10_000),
        (4_000, 16, True, 4_000),
    ],
)
def test_the_sample_is_smaller_where_other_nodes_take_many_bytes(n_nodes, k, in_shares, size):
    sample = joint.clustered_sample(n_nodes, k, 0, in_shares=in_shares)
    assert len(np.unique(sample)) == len(sample) == size
