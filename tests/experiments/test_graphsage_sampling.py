"""The samples of GraphSAGE are on edges, far away, or neighbours, as intended."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import shortest_path

from experiments.paper import graphsage_sampling as sampling
from kcagc.datasets import load


@pytest.fixture(scope="module")
def graph() -> sparse.csr_array:
    return sampling.without_loops(load("demo").adjacency)


def _path(n_nodes: int) -> sparse.csr_array:
    ones = np.ones(n_nodes - 1)
    return sparse.csr_array(sparse.diags_array([ones, ones], offsets=[-1, 1]))


def test_self_loops_are_dropped_and_nothing_else() -> None:
    looped = sparse.csr_array(_path(5) + sparse.diags_array([1.0, 0, 0, 2.0, 0]))

    assert (sampling.without_loops(looped) != _path(5)).nnz == 0
    assert looped.diagonal().sum() == 3  # the caller's graph is as it was


def test_every_step_of_a_walk_follows_an_edge(graph: sparse.csr_array) -> None:
    starts = np.flatnonzero(np.diff(graph.indptr) > 0)[:200]

    walked = sampling.walk(graph, starts, walks=4, steps=4, rng=np.random.default_rng(0)).reshape(200, 4, 4)

    before = np.concatenate([np.broadcast_to(starts[:, None, None], (200, 4, 1)), walked[:, :, :-1]], axis=2)
    assert (graph[before.ravel(), walked.ravel()] > 0).all()


def test_steps_are_as_likely_to_every_neighbour() -> None:
    star = sparse.csr_array(np.array([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]))

    walked = sampling.walk(star, np.zeros(3000, dtype=np.int64), walks=1, steps=1, rng=np.random.default_rng(0))

    assert np.bincount(walked.ravel(), minlength=4)[1:] == pytest.approx(1000, abs=120)


def test_a_node_without_neighbours_stays() -> None:
    lonely = sparse.csr_array(sparse.block_diag([_path(3), np.zeros((1, 1))]))

    walked = sampling.walk(lonely, np.array([3, 0]), walks=2, steps=3, rng=np.random.default_rng(0))

    assert (walked[0] == 3).all()
    assert (walked[1] != 3).all()


@pytest.mark.parametrize("hops", [0, 1, 3, 5])
def test_reach_is_the_distance_in_edges(graph: sparse.csr_array, hops: int) -> None:
    reach = np.unpackbits(sampling.within_reach(graph, hops), axis=1, count=graph.shape[0])

    np.testing.assert_array_equal(reach == 1, shortest_path(graph, unweighted=True) <= hops)


def test_far_nodes_are_different_and_out_of_reach() -> None:
    path = _path(40)
    starts = np.arange(40)

    far = sampling.far_away(sampling.within_reach(path, 5), starts, count=6, rng=np.random.default_rng(0))

    assert (np.abs(far - starts[:, None]) > 5).all()
    assert all(len(set(row)) == 6 for row in far.tolist())


def test_far_nodes_may_be_few() -> None:
    far = sampling.far_away(
        sampling.within_reach(_path(8), 5), np.array([0, 1, 3]), count=6, rng=np.random.default_rng(0)
    )

    assert [sorted(node for node in row if node >= 0) for row in far.tolist()] == [[6, 7], [7], []]


def test_up_to_so_many_different_neighbours_are_drawn(graph: sparse.csr_array) -> None:
    nodes = np.random.default_rng(1).permutation(graph.shape[0])[:300]

    owner, neighbour = sampling.neighbours(graph, nodes, at_most=4, rng=np.random.default_rng(0))

    assert (graph[nodes[owner], neighbour] > 0).all()
    assert len(set(zip(owner.tolist(), neighbour.tolist(), strict=True))) == len(owner)
    np.testing.assert_array_equal(np.bincount(owner, minlength=300), np.minimum(np.diff(graph.indptr)[nodes], 4))


def test_all_neighbours_are_as_likely_to_be_drawn() -> None:
    star = sparse.csr_array(np.vstack([[0] + [1] * 12, np.pad(np.ones((12, 1)), ((0, 0), (0, 12)))]))

    drawn = sampling.neighbours(star, np.zeros(3000, dtype=np.int64), at_most=4, rng=np.random.default_rng(0))[1]

    assert np.bincount(drawn, minlength=13)[1:] == pytest.approx(1000, abs=120)
