"""The search for the filter order: its rule on known labels, and its choice on graphs whose best order is known."""

from itertools import pairwise

import numpy as np
import pytest

from kcagc import AGC, metrics
from kcagc.cluster.held_out import hold_out_edges
from kcagc.cluster.search import PSI_GRID, choose_psi, search_psi
from kcagc.datasets import generate
from kcagc.errors import DataError, ParameterError
from kcagc.graph.graph import Graph


@pytest.fixture(scope="module")
def planted():
    return generate(400, 4, homophily=0.8, signal=3, features=20, seed=1)


@pytest.fixture(scope="module")
def edges(planted):
    return hold_out_edges(Graph.from_matrix(planted.adjacency), 0)


def spoiled(labels, share, seed=0):
    """Return the labels with a share of them drawn at random."""
    random = np.random.RandomState(seed)
    return np.where(random.rand(len(labels)) < share, random.randint(labels.max() + 1, size=len(labels)), labels)


def test_the_order_whose_clusters_have_most_held_out_edges_within_them_is_chosen(planted, edges):
    shares = {1: 0.6, 2: 0.2, 3: 0.0, 5: 0.4}
    found = choose_psi(edges, {psi: [spoiled(planted.labels, share)] for psi, share in shares.items()})
    assert (found.psi, found.values) == (3, (1, 2, 3, 5))
    assert found.modularity[2] == pytest.approx(edges.without_triangles().modularity(planted.labels), abs=1e-8)
    assert found.modularity[2] > found.modularity[1] > found.modularity[3] > found.modularity[0]
    assert "highest at ψ = 3" in found.reason


def test_neither_the_order_of_the_labels_nor_the_numbers_of_the_clusters_matter(planted, edges):
    labels = {psi: [spoiled(planted.labels, share)] for psi, share in ((1, 0.5), (8, 0.1), (20, 0.3))}
    renumbered = {psi: [np.array([2, 0, 3, 1])[labels[psi][0]]] for psi in (20, 1, 8)}
    assert choose_psi(edges, labels) == choose_psi(edges, renumbered)


def test_the_lowest_of_equal_orders_is_chosen_and_the_others_are_named(planted, edges):
    found = choose_psi(edges, {psi: [planted.labels] for psi in (8, 3, 5)})
    assert found.psi == 3
    assert found.error == (0, 0, 0)
    assert "ψ = 5 and 8 are within one standard error" in found.reason


def test_the_error_is_that_of_the_difference_to_the_best_order(planted, edges):
    labels = {1: [spoiled(planted.labels, 0.05)], 2: [planted.labels], 3: [spoiled(planted.labels, 0.8)]}
    near, best, far = choose_psi(edges, labels).error
    assert 0 == best < near < far
    counted = edges.without_triangles()
    assert near == pytest.approx(counted.error(labels[1][0], labels[2][0]), abs=1e-8)


def test_the_last_order_of_the_grid_is_marked_as_the_end(planted, edges):
    labels = {1: [spoiled(planted.labels, 0.5)], 2: [planted.labels]}
    assert choose_psi(edges, labels).reason.endswith("no larger order was tried")
    assert "no larger" not in choose_psi(edges, {1: labels[2], 2: labels[1]}).reason


def test_the_best_restart_of_an_order_counts(planted, edges):
    worse, middle = (spoiled(planted.labels, share) for share in (0.9, 0.3))
    found = choose_psi(edges, {1: [worse, planted.labels], 2: [middle, middle]})
    assert found.psi == 1
    assert found == choose_psi(edges, {1: [planted.labels], 2: [middle]})


def test_there_must_be_something_to_choose_from(edges):
    with pytest.raises(ParameterError, match="no orders"):
        choose_psi(edges, {})
    with pytest.raises(ParameterError, match="no orders"):
        choose_psi(edges, {1: []})
    assert all(low < high for low, high in pairwise(PSI_GRID))


def searched(data, seed=0, **more):
    return search_psi(data.features, Graph.from_matrix(data.adjacency), data.n_classes, seed, **more)


def test_weak_features_on_a_clear_graph_need_more_smoothing_than_clear_features_on_a_weak_graph():
    weak_features = generate(800, 4, homophily=0.85, signal=0.8, features=40, seed=1)
    weak_graph = generate(800, 4, homophily=0.35, signal=4, features=40, seed=1)
    for seed in range(3):
        assert searched(weak_features, seed).psi >= 5
        assert searched(weak_graph, seed).psi <= 2


def test_the_modularity_of_all_edges_would_smooth_too_much():
    """On a graph of low homophily, clusters that follow its noise have more of its own edges within them."""
    data = generate(800, 5, homophily=0.4, signal=3, features=40, seed=2)
    graph = Graph.from_matrix(data.adjacency)
    all_edges = {}
    for psi in PSI_GRID:
        labels = AGC(5, psi=psi, method="joint", random_state=0).fit(data.features, adjacency=graph).labels_
        all_edges[psi] = metrics.modularity(data.adjacency, labels), metrics.accuracy(data.labels, labels)
    best = max(accuracy for _, accuracy in all_edges.values())
    assert max(all_edges.values())[1] < best - 0.1
    assert all_edges[searched(data).psi][1] > best - 0.03


def test_sparse_and_dense_columns_lead_to_the_same_search():
    data = generate(500, 3, homophily=0.7, signal=5, features=120, sparsity=0.9, seed=3)
    dense = search_psi(data.features.toarray(), Graph.from_matrix(data.adjacency), 3, 0)
    found = searched(data)
    assert (found.psi, found.values) == (dense.psi, PSI_GRID)
    np.testing.assert_allclose(found.modularity, dense.modularity, atol=0.02)


def test_the_same_seed_leads_to_the_same_search_and_the_scale_of_the_columns_does_not_matter(planted):
    found = searched(planted, 5)
    assert found == searched(planted, 5)
    scaled = search_psi(planted.features * 1024, Graph.from_matrix(planted.adjacency), 4, 5)
    assert scaled == found
    assert found.modularity != searched(planted, 6).modularity


def test_only_the_values_that_were_asked_for_are_tried(planted):
    assert searched(planted, values=(4, 2)).values == (2, 4)
    assert searched(planted, values=(7,)).psi == 7


@pytest.mark.parametrize(
    ("k", "values", "message"),
    [
        (1, PSI_GRID, "one cluster is the same at every order"),
        (3, (), "no orders to choose from"),
        (3, (1, -2), "psi"),
    ],
)
def test_what_cannot_be_searched_is_refused(planted, k, values, message):
    with pytest.raises(ParameterError, match=message):
        search_psi(planted.features, Graph.from_matrix(planted.adjacency), k, 0, values=values)


def test_a_graph_with_too_few_edges_or_nodes_is_refused(planted):
    few = Graph.from_edges(list(range(50)), list(range(1, 51)))
    with pytest.raises(DataError, match="has 50 edges, and a search needs 100"):
        search_psi(planted.features[:51], few, 3, 0)
    with pytest.raises(DataError, match="401 clusters requested, but there are 400 nodes in"):
        search_psi(planted.features, Graph.from_matrix(planted.adjacency), 401, 0)


def test_edges_that_close_triangles_do_not_count():
    """Cliques across clusters: whatever follows neighbourhoods has their edges within it."""
    random, planted = np.random.RandomState(3), generate(400, 4, homophily=0.9, signal=3, features=20, seed=2)
    cliques = random.permutation(400).reshape(-1, 16)  # of nodes of all clusters
    ends = np.array([(one, other) for clique in cliques for one in clique for other in clique if one < other])
    whole = Graph.from_matrix(planted.adjacency)
    added = Graph.from_edges(*ends.T, n_nodes=400)
    edges = hold_out_edges(Graph.from_matrix((whole.adjacency + added.adjacency) > 0), 0)
    by_clique = (np.argsort(cliques.ravel()) // 16) % 4
    assert edges.modularity(by_clique) > edges.modularity(planted.labels)
    assert choose_psi(edges, {1: [planted.labels], 45: [by_clique]}).psi == 1
    open_ones = edges.without_triangles()
    assert 20 <= len(open_ones.ends) < len(edges.ends)
    left = edges.graph.adjacency.toarray() > 0
    for one, other in edges.nodes[open_ones.ends]:
        assert not (left[one] & left[other]).any()


def test_if_nearly_all_edges_close_triangles_all_of_them_count():
    cliques = np.arange(120).reshape(-1, 12)
    ends = np.array([(one, other) for clique in cliques for one in clique for other in clique if one < other])
    edges = hold_out_edges(Graph.from_edges(*ends.T, n_nodes=120), 0)
    assert edges.without_triangles() is edges
