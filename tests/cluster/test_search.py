"""The search for the filter order: its rule on known labels, and its choice on graphs whose best order is known."""

from itertools import pairwise

import numpy as np
import pytest

from kcagc.cluster.held_out import hold_out_edges
from kcagc.cluster.search import PSI_GRID, choose_psi
from kcagc.datasets import generate
from kcagc.errors import ParameterError
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
    assert found.modularity[2] == pytest.approx(0.55, abs=0.05)
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
    assert near == pytest.approx(edges.error(labels[1][0], labels[2][0]), abs=1e-8)


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
