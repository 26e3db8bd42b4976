"""Held-out edges: edges that smoothing does not use, so that a search can judge clusters by them.

Clusters that follow the noise of a graph have many of its own edges within them, but not more edges that they have not
seen. The modularity of held-out edges therefore falls where smoothing goes too far or clusters are too many; that of
all edges does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import minimum_spanning_tree

from kcagc._types import Flags, FloatArray, IntArray, Sparse
from kcagc.cluster.joint import random_for
from kcagc.errors import DataError
from kcagc.graph.graph import Graph

HELD_OUT_SHARE = 0.2  # of all edges
MOST_NODES = 5_000  # of a large graph, only ends of held-out edges are clustered
LEAST_EDGES = 20  # fewer say nothing
_PURPOSE = 11  # of the common seed


@dataclass(frozen=True, eq=False)
class HeldOutEdges:
    """A graph without its held-out edges, the nodes that a search clusters, and the held-out edges among them."""

    graph: Graph
    nodes: IntArray  # ascending: all nodes, or the ends of the held-out edges of a large graph
    ends: IntArray  # edges × 2, as positions in `nodes`
    weights: FloatArray

    def scores(self, labels: IntArray) -> FloatArray:
        """Return what each held-out edge adds to the modularity of labels of `nodes`, relative to its weight.

        The weighted mean over the edges is the modularity. The spread of the scores, or of the difference of two sets
        of labels, tells how exact it is.
        """
        first, second = labels[self.ends].T
        ends, weights = np.concatenate([first, second]), np.tile(self.weights, 2)
        share = np.bincount(ends, weights) / weights.sum()
        expected = float((share**2).sum())
        return np.asarray((first == second) - share[first] - share[second] + expected)

    def without_triangles(self) -> HeldOutEdges:
        """Return the held-out edges whose ends have no common neighbour in the graph that is left, if these suffice.

        Smoothing makes the ends of other edges similar through their common neighbours, as if it had used the edge.
        """
        first, second = self.nodes[self.ends].T
        adjacency = self.graph.adjacency
        common = np.asarray(adjacency[first].multiply(adjacency[second]).sum(axis=1)).ravel()
        chosen = common == 0
        if np.count_nonzero(chosen) < LEAST_EDGES:
            return self
        return HeldOutEdges(self.graph, self.nodes, self.ends[chosen], self.weights[chosen])

    def modularity(self, labels: IntArray) -> float:
        """Return the modularity of the held-out edges: the share within clusters, less its expectation."""
        return float(np.average(self.scores(labels), weights=self.weights))

    def error(self, labels: IntArray, others: IntArray | None = None) -> float:
        """Return the standard error of the modularity, or of its difference to that of other labels."""
        scores = self.scores(labels) - (0.0 if others is None else self.scores(others))
        weights = self.weights / self.weights.sum()
        away = scores - weights @ scores
        return float(np.sqrt((weights**2) @ away**2))


def hold_out_edges(graph: Graph, seed: int) -> HeldOutEdges:
    """Draw the held-out edges of a graph; all parties with the same graph and seed draw the same.

    No node is cut off: all held-out edges are outside a random spanning forest, and at most half of these edges are
    held out. Smoothing would not reach nodes that are cut off, and less smoothing would seem better than it is. In a
    graph that is nearly a tree, where these edges are too few, all edges can be drawn.

    Raises
    ------
    DataError
        If the graph has too few edges for a search.
    """
    check_edges(graph)
    upper = sparse.coo_array(sparse.triu(graph.adjacency, 1))
    wanted = round(HELD_OUT_SHARE * upper.nnz)
    if graph.n_nodes > MOST_NODES:
        wanted = min(wanted, MOST_NODES // 2)
    order = np.lexsort((upper.col, upper.row))  # the same everywhere, however the matrix is stored
    rank = np.empty(upper.nnz)
    rank[order] = 1.0 + random_for(seed, _PURPOSE).permutation(upper.nnz)
    spare = np.flatnonzero(~_in_forest(upper, rank))
    if len(spare) < 2 * LEAST_EDGES:
        spare = np.arange(upper.nnz)
    else:
        wanted = min(wanted, len(spare) // 2)
    held = np.sort(spare[np.argsort(rank[spare])[-wanted:]])
    row, column, weights = upper.row[held], upper.col[held], np.asarray(upper.data[held], dtype=np.float64)
    left = graph.adjacency - sparse.csr_array(
        (np.tile(upper.data[held], 2), (np.concatenate([row, column]), np.concatenate([column, row]))),
        shape=graph.adjacency.shape,
    )
    left = sparse.csr_array(left)
    left.eliminate_zeros()
    nodes = np.arange(graph.n_nodes)
    if graph.n_nodes > MOST_NODES:
        nodes = np.unique(np.concatenate([row, column])).astype(np.int64)
    ends = np.searchsorted(nodes, np.stack([row, column], axis=1)).astype(np.int64)
    return HeldOutEdges(Graph(left, graph.ids), nodes, ends, weights)


def _in_forest(edges: Sparse, rank: FloatArray) -> Flags:
    """Return whether each edge belongs to the spanning forest of the lowest ranks, which are 1, 2, 3, ..."""
    ranked = sparse.csr_array((rank, (edges.row, edges.col)), shape=edges.shape)
    in_forest = np.zeros(len(rank) + 1, dtype=bool)
    in_forest[minimum_spanning_tree(ranked).data.astype(np.int64)] = True
    return np.asarray(in_forest[rank.astype(np.int64)])


def check_edges(graph: Graph) -> None:
    """Raise `DataError` if a graph has too few edges for a search."""
    least = round(LEAST_EDGES / HELD_OUT_SHARE)
    if graph.n_edges < least:
        raise DataError(
            f"psi, n_clusters: the graph has {graph.n_edges} edges, and a search needs {least}; set psi and n_clusters "
            "to numbers"
        )
