"""Held-out edges: how they are drawn, and what the graph without them keeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from kcagc.cluster.held_out import HELD_OUT_SHARE, MOST_NODES, hold_out_edges
from kcagc.graph.graph import Graph


def symmetric(matrix):
    return sparse.csr_array(matrix.maximum(matrix.T))


def parts(graph):
    return connected_components(graph.adjacency)[0]


@st.composite
def graphs(draw):
    """Weighted graphs of a few parts, with enough cycles."""
    random = np.random.RandomState(draw(st.integers(0, 2**31)))
    n, more = draw(st.integers(120, 300)), draw(st.sampled_from([90, 300, 2000]))
    ends = [(node, random.randint(node)) for node in range(1, n) if random.rand() < 0.95]
    ends += [tuple(random.choice(n, 2, replace=False)) for _ in range(more)]
    rows, columns = np.array(ends).T
    weights = sparse.coo_array((random.uniform(0.1, 5.0, len(rows)), (rows, columns)), shape=(n, n))
    return Graph.from_matrix(symmetric(sparse.csr_array(weights)))


@given(graphs(), st.integers(0, 2**32 - 1))
def test_no_node_is_cut_off_and_held_out_edges_with_the_rest_are_the_graph(graph, seed):
    held = hold_out_edges(graph, seed)
    assert parts(held.graph) == parts(graph)
    spare = graph.n_edges - (graph.n_nodes - parts(graph))
    assert len(held.ends) == min(round(HELD_OUT_SHARE * graph.n_edges), spare // 2)
    first, second = held.nodes[held.ends].T
    back = sparse.coo_array((held.weights, (first, second)), shape=graph.adjacency.shape)
    whole = held.graph.adjacency + back + back.T
    assert abs(whole - graph.adjacency).max() < 1e-12


@given(graphs(), st.integers(0, 2**32 - 1))
def test_the_same_edges_are_drawn_however_the_matrix_is_stored(graph, seed):
    coordinates = graph.adjacency.tocoo()
    order = np.random.RandomState(seed).permutation(coordinates.nnz)
    again = sparse.coo_array(
        (coordinates.data[order], (coordinates.row[order], coordinates.col[order])), shape=coordinates.shape
    )
    one, other = hold_out_edges(graph, seed), hold_out_edges(Graph.from_matrix(again), seed)
    np.testing.assert_array_equal(one.ends, other.ends)
    assert not np.array_equal(one.ends, hold_out_edges(graph, seed ^ 1).ends)


def test_every_edge_on_a_cycle_is_held_out_about_equally_often():
    """A ring with a chord for each node: the draw prefers no place of the ring."""
    n = 200
    nodes = np.arange(n)
    graph = Graph.from_edges(np.tile(nodes, 2), np.concatenate([(nodes + 1) % n, (nodes + 7) % n]), n_nodes=n)
    count = np.zeros((n, n))
    for seed in range(200):
        held = hold_out_edges(graph, seed)
        count[tuple(held.nodes[held.ends].T)] += 1
    found = count[count > 0]
    assert len(found) == graph.n_edges
    assert found.mean() == pytest.approx(200 * HELD_OUT_SHARE, rel=0.05)
    assert found.min() > 0.4 * found.mean()


@pytest.mark.parametrize("more", [0, 39])
def test_nearly_a_tree_gives_edges_of_any_place(more):
    random = np.random.RandomState(0)
    ends = [(node, random.randint(node)) for node in range(1, 400)] + [(node, node + 200) for node in range(more)]
    tree = Graph.from_edges(*np.array(ends).T, n_nodes=400)
    held = hold_out_edges(tree, 0)
    assert len(held.ends) == round(HELD_OUT_SHARE * tree.n_edges)
    assert parts(held.graph) > 1


def test_of_a_large_graph_only_the_ends_of_some_held_out_edges_are_clustered():
    random = np.random.RandomState(0)
    n = 3 * MOST_NODES
    graph = Graph.from_edges(random.randint(n, size=8 * n), random.randint(n, size=8 * n), n_nodes=n)
    held = hold_out_edges(graph, 0)
    assert len(held.ends) == MOST_NODES // 2
    assert len(held.nodes) <= MOST_NODES
    np.testing.assert_array_equal(np.unique(held.ends), np.arange(len(held.nodes)))
    assert parts(held.graph) == parts(graph)
