import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kcagc import metrics
from kcagc.cluster import cluster_locally, fit_kmeans
from kcagc.cluster.local import confidence
from kcagc.datasets import generate, load
from kcagc.errors import DataError, ParameterError
from kcagc.graph import ChebyshevFilter, HalfFilter, NormFilter


@pytest.mark.parametrize("scaling", ["unit", "U", "US"])
@pytest.mark.parametrize("chosen", [HalfFilter(3), NormFilter(3), ChebyshevFilter(lambda x: np.exp(-2 * x))], ids=repr)
def test_planted_communities_are_found(scaling, chosen):
    data = generate(400, 4, homophily=0.8, signal=6, features=12, seed=2)
    found = cluster_locally(data.adjacency, data.features, 4, filter=chosen, scaling=scaling, random_state=0)
    assert metrics.accuracy(data.labels, found.labels) > 0.98


def test_on_the_demo_no_party_does_alone_what_all_do_together():
    data = load("demo")
    scores = [
        metrics.accuracy(
            data.labels,
            cluster_locally(data.adjacency, features, 5, filter=HalfFilter(2), random_state=0).labels,
        )
        for features in [*data.parties(), data.features]
    ]
    assert max(scores[:3]) < 0.8
    assert scores[3] > 0.9


def test_the_graph_helps():
    data = load("demo")
    with_graph, without = (
        metrics.accuracy(
            data.labels,
            cluster_locally(data.adjacency, data.parties()[0], 5, filter=HalfFilter(psi), random_state=0).labels,
        )
        for psi in (2, 0)
    )
    assert with_graph > without + 0.1


def test_what_is_kept_places_the_rows_again():
    data = load("demo")
    found = cluster_locally(
        data.adjacency, data.features, 5, filter=HalfFilter(2), n_components=9, max_iter=300, random_state=0
    )
    again = found.projection.transform(HalfFilter(2).apply(data.adjacency, data.features))
    assert again.shape == (600, 9)
    assert_allclose(again, found.embedding, atol=1e-12)
    away = ((again[:, None] - found.clusters.centers) ** 2).sum(axis=2)
    assert (away.argmin(axis=1) == found.labels).all()


@pytest.mark.parametrize("wrong", ["half", HalfFilter, None])
def test_what_is_no_filter_is_refused(wrong):
    with pytest.raises(ParameterError, match=r"filter: must be a filter such as HalfFilter\(2\)"):
        cluster_locally(np.eye(3), np.eye(3), 2, filter=wrong)


def test_the_result_is_described_in_a_line():
    found = cluster_locally(np.eye(9), np.eye(9), 2, filter=HalfFilter(0))
    assert repr(found) == "LocalClusters(2 clusters of 9 nodes in 2 dimensions)"


def test_the_order_of_the_nodes_does_not_matter():
    data = generate(300, 4, homophily=0.6, signal=2, features=20, seed=3)
    plain = cluster_locally(data.adjacency, data.features, 4, filter=HalfFilter(3), random_state=0)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(300)
        moved = cluster_locally(
            data.adjacency[order][:, order], data.features[order], 4, filter=HalfFilter(3), random_state=0
        )
        assert (moved.labels == plain.labels[order]).all()


def test_every_parameter_arrives(monkeypatch):
    data = load("demo")
    found = {}

    def recorded(rows, k, **more):
        found.update(more, q=rows.shape[1])
        return fit_kmeans(rows, k, **more)

    monkeypatch.setattr("kcagc.cluster.local.fit_kmeans", recorded)
    chosen = {"margin": False, "n_init": 2, "max_iter": 3, "random_state": 4}
    cluster_locally(data.adjacency, data.features, 5, filter=HalfFilter(1), n_components=6, **chosen)
    assert found == {**chosen, "q": 6}


@pytest.mark.parametrize("k", [2, 3])
def test_one_positive_column_at_unit_length_is_one_row_and_the_error_says_what_to_do(k):
    with pytest.raises(DataError, match=f'{k} clusters requested, but there are 1 distinct rows; .* use scaling="US"'):
        cluster_locally(np.zeros((9, 9)), np.arange(1.0, 10.0)[:, None], k, filter=HalfFilter(1))


def test_one_column_is_enough():
    data = generate(200, 2, signal=9, features=1, seed=0)
    found = cluster_locally(data.adjacency, data.features, 2, filter=HalfFilter(1), scaling="US", random_state=0)
    assert found.projection.n_components == 1
    assert metrics.accuracy(data.labels, found.labels) > 0.9


# Confidence


def points_centers_labels(seed, n=50, k=4, q=3):
    random = np.random.default_rng(seed)
    return random.normal(size=(n, q)), random.normal(size=(k, q)), random.integers(k, size=n)


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 5))
def test_confidence_is_the_margin_of_the_definition_and_within_0_and_1(seed, k, q):
    rows, centers, labels = points_centers_labels(seed, k=k, q=q)
    found = confidence(rows, centers, range(k), labels)
    assert ((found >= 0) & (found <= 1)).all()
    away = np.linalg.norm(rows[:, None] - centers, axis=2)
    for node, label in enumerate(labels):
        other = np.delete(away[node], label).min()
        assert found[node] == pytest.approx(max(0.0, 1 - away[node, label] / other), abs=1e-6)


def test_a_tie_is_0_and_a_node_on_its_centre_is_1():
    centers = np.array([[-1.0, 0.0], [1.0, 0.0]])
    rows = np.array([[0.0, 5.0], [-1.0, 0.0], [1.0, 0.0], [0.9, 0.0]])
    assert confidence(rows, centers, [0, 1], np.array([0, 0, 0, 0])).tolist() == [0.0, 1.0, 0.0, 0.0]


def test_two_centres_in_one_place_leave_nothing_to_be_sure_of():
    centers = np.ones((2, 3)) / 3
    assert confidence(centers, centers, [0, 1], np.array([0, 1])).tolist() == [0.0, 0.0]


def test_one_centre_cannot_be_taken_for_another():
    assert confidence(np.eye(3), np.zeros((1, 3)), [7], np.array([7, 7, 7])).tolist() == [1.0, 1.0, 1.0]


@given(st.integers(0, 10_000))
def test_clusters_may_be_numbered_in_any_way_and_some_may_be_empty(seed):
    rows, centers, labels = points_centers_labels(seed)
    names = np.array([9, 2, 5, 0])
    np.testing.assert_array_equal(
        confidence(rows, centers, names.tolist(), names[labels]), confidence(rows, centers, range(4), labels)
    )


def test_a_label_without_a_centre_is_refused():
    with pytest.raises(DataError, match="cluster 3 has no centre"):
        confidence(np.eye(2), np.eye(2), [0, 1], np.array([0, 3]))
