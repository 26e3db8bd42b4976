from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import euclidean_distances

from kcagc.cluster import fit_kmeans
from kcagc.datasets import generate
from kcagc.errors import ParameterError
from kcagc.graph import Graph, HalfFilter, adaptive_order, intra_cluster_distance


@dataclass
class Labelled:
    labels: np.ndarray


@given(st.integers(1, 20), st.integers(1, 4), st.integers(0, 1000))
def test_the_intra_cluster_distance_is_the_mean_over_pairs(n, k, seed):
    random = np.random.default_rng(seed)
    rows, labels = random.standard_normal((n, 3)), random.integers(k, size=n)
    per_cluster = [euclidean_distances(rows[labels == label], squared=True).mean() for label in np.unique(labels)]
    assert intra_cluster_distance(rows, labels) == pytest.approx(np.mean(per_cluster), abs=1e-9)


def test_the_order_before_the_first_rise_is_chosen():
    data = generate(200, 2, homophily=0.95, signal=20, seed=1)
    graph = Graph(data.adjacency)
    # Clusters that are good up to order 3 and random after it make the distance rise at 4.
    asked = []

    def cluster(filtered):
        asked.append(filtered)
        return Labelled(data.labels if len(asked) <= 3 else np.arange(len(filtered)) % 2)

    chosen = adaptive_order(graph, data.features, cluster, max_psi=20)
    assert chosen.psi == 3
    assert chosen.stopped
    assert len(asked) == len(chosen.distances) == 4
    assert chosen.distances[3] > chosen.distances[2]
    assert_allclose(chosen.filtered, HalfFilter(3).apply(graph, data.features), atol=1e-12)
    assert chosen.found.labels is data.labels


def test_a_distance_that_stays_the_same_does_not_stop_the_search():
    features = np.ones((6, 1))
    chosen = adaptive_order(
        Graph.from_edges([], [], n_nodes=6), features, lambda rows: Labelled(np.arange(6) % 2), max_psi=4
    )
    assert (chosen.psi, chosen.stopped) == (4, False)


def test_the_search_ends_where_rows_have_become_too_alike():
    """On a complete graph, smoothing makes all rows equal before long."""
    features = np.random.default_rng(0).standard_normal((40, 3))
    chosen = adaptive_order(Graph.from_matrix(np.ones((40, 40))), features, lambda rows: fit_kmeans(rows, 40, n_init=1))
    assert chosen.stopped
    assert 1 <= chosen.psi < 60


def test_the_distance_loses_no_digits_far_from_the_origin():
    rows = np.random.default_rng(0).normal(1e6, 0.01, (1000, 2))
    wanted = 2 * rows.var(axis=0).sum()
    assert intra_cluster_distance(rows, np.zeros(1000, int)) == pytest.approx(wanted, rel=1e-3)


def test_the_largest_order_is_reported_as_such():
    data = generate(200, 2, seed=1)
    seen = []
    chosen = adaptive_order(
        Graph(data.adjacency),
        data.features,
        lambda filtered: fit_kmeans(filtered, 2, random_state=0),
        max_psi=3,
        progress=lambda order, distance: seen.append((order, distance)),
    )
    assert (chosen.psi, chosen.stopped) == (3, False)
    assert seen == [(1, chosen.distances[0]), (2, chosen.distances[1])]


def test_a_meaningless_limit_is_refused():
    with pytest.raises(ParameterError, match="max_psi"):
        adaptive_order(Graph.from_matrix(np.eye(2)), np.eye(2), lambda rows: Labelled(np.zeros(2)), max_psi=0)
