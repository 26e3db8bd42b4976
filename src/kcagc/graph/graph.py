"""An undirected weighted graph that has been checked: whatever holds one need not check again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from kcagc._types import FloatArray, IntArray, Sparse
from kcagc.errors import DataError
from kcagc.graph.ids import NodeIds, one_kind
from kcagc.graph.matrices import canonical_csr, entry_at, numbers
from kcagc.parameters import check_choice, check_count, check_weights

Symmetrise = Literal["max", "mean", "sum"]
Repeats = Literal["same", "sum"]

_LISTED = 5  # how many offending places an error names before it only counts


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph: a symmetric CSR `adjacency` of non-negative finite weights, and optional node `ids`.

    Make one with `Graph.from_matrix` or `Graph.from_edges`; both check what they are given and say what is wrong
    where. Self loops that are given are kept (the Laplacian adds one more to every node).
    """

    adjacency: Sparse
    ids: NodeIds | None = None

    @classmethod
    def from_matrix(
        cls,
        adjacency: Sparse | ArrayLike,
        *,
        ids: Iterable[Any] | None = None,
        symmetrise: Symmetrise | None = None,
    ) -> Graph:
        """Check a matrix of edge weights.

        An asymmetric matrix is refused, because a directed graph has no Laplacian of the kind used here; with
        `symmetrise` each pair of weights w(i, j), w(j, i) becomes its "max", "mean" or "sum".
        """
        matrix = canonical_csr(numbers(adjacency, "adjacency")).copy()
        rows, columns = matrix.shape
        if rows != columns:
            raise DataError(f"adjacency: must be square, but has {rows} rows and {columns} columns")
        if rows == 0:
            raise DataError("adjacency: the graph has no nodes")
        _check_weights(matrix)
        check_choice("symmetrise", symmetrise, (*get_args(Symmetrise), None))
        matrix = _symmetric(matrix) if symmetrise is None else _symmetrised(matrix, symmetrise)
        matrix.eliminate_zeros()
        return cls(matrix, _ids_for(ids, rows))

    @classmethod
    def from_edges(
        cls,
        sources: Iterable[Any],
        targets: Iterable[Any],
        weights: ArrayLike | None = None,
        *,
        n_nodes: int | None = None,
        ids: Iterable[Any] | None = None,
        repeats: Repeats = "same",
    ) -> Graph:
        """Build the graph from a list of undirected edges, in either direction or both.

        Without `ids`, ends are node numbers 0..n_nodes-1; with `ids` they are looked up there. An edge that is listed
        again (in either direction) with the same weight counts once; with another weight it is refused, unless
        `repeats="sum"` says that weights add up.
        """
        check_count("n_nodes", n_nodes, optional=True)
        known = _ids_for(ids, n_nodes)
        source, target = _edge_ends(sources, targets, known, n_nodes)
        n = len(known) if known is not None else n_nodes if n_nodes is not None else _implied(source, target)
        if n == 0:
            raise DataError("edges: the graph has no nodes; give n_nodes or ids")
        weight = _edge_weights(weights, len(source))
        low, high, weight = _combine_repeats(np.minimum(source, target), np.maximum(source, target), weight, repeats)
        loop = low == high
        matrix = sparse.coo_array(
            (
                np.concatenate([weight, weight[~loop]]),
                (np.concatenate([low, high[~loop]]), np.concatenate([high, low[~loop]])),
            ),
            shape=(n, n),
        ).tocsr()
        matrix.eliminate_zeros()
        matrix.sort_indices()
        return cls(matrix, known)

    def selected(self, rows: IntArray, ids: NodeIds | None) -> Graph:
        """Return the graph on the nodes `rows`, in that order, with these names and the edges between them."""
        if np.array_equal(rows, np.arange(self.n_nodes)):
            return self if self.ids is ids else Graph(self.adjacency, ids)
        inside = self.adjacency[rows][:, rows]
        inside.sort_indices()
        return Graph(inside, ids)

    @property
    def n_nodes(self) -> int:
        """How many nodes there are, isolated ones included."""
        return int(self.adjacency.shape[0])

    @property
    def n_edges(self) -> int:
        """How many undirected edges there are; self loops are counted in `n_self_loops`."""
        return (int(self.adjacency.nnz) - self.n_self_loops) // 2

    @property
    def n_self_loops(self) -> int:
        """How many nodes have an edge to themselves."""
        return int(np.count_nonzero(self.adjacency.diagonal()))

    @property
    def n_isolated(self) -> int:
        """How many nodes have no edge to another node."""
        others = np.diff(self.adjacency.indptr) - (self.adjacency.diagonal() != 0)
        return int(np.count_nonzero(others == 0))

    def __repr__(self) -> str:
        return f"Graph({self.n_nodes:,} nodes, {self.n_edges:,} edges)"


def as_graph(adjacency: Graph | Sparse | ArrayLike) -> Graph:
    """Take a `Graph` as it is, and check anything else as a matrix."""
    return adjacency if isinstance(adjacency, Graph) else Graph.from_matrix(adjacency)


def _ids_for(ids: Iterable[Any] | None, n_nodes: int | None) -> NodeIds | None:
    if ids is None:
        return None
    known = NodeIds.of(ids, where="graph ids")
    if n_nodes is not None and len(known) != n_nodes:
        raise DataError(f"graph ids: {len(known)} ids for {n_nodes} nodes")
    return known


def _check_weights(matrix: Sparse) -> None:
    for problem, wrong in (
        ("is not a number", np.isnan(matrix.data)),
        ("is infinite", np.isinf(matrix.data)),
        ("is negative", matrix.data < 0),
    ):
        if wrong.any():
            at = np.flatnonzero(wrong)
            named = ", ".join(str(entry_at(matrix, int(place))) for place in at[:_LISTED])
            more = f" and {len(at) - _LISTED} more" if len(at) > _LISTED else ""
            raise DataError(f"adjacency: the weight {problem} at (row, column) {named}{more}")


def _symmetrised(matrix: Sparse, how: Symmetrise) -> Sparse:
    other = matrix.T.tocsr()
    if how == "max":
        result = sparse.csr_array(matrix.maximum(other))
    else:
        with np.errstate(over="ignore"):
            result = sparse.csr_array(matrix + other)
        if how == "mean":
            result /= 2
        _check_weights(result)  # a sum of finite weights can be infinite
    result.sort_indices()
    return result


def _symmetric(matrix: Sparse) -> Sparse:
    """Refuse an asymmetric matrix; weights that differ in their last bits alone are made equal.

    Two programs that add up the same edge in different orders differ by that much.
    """
    difference = sparse.coo_array(matrix - matrix.T)
    if difference.nnz == 0:
        return matrix
    row, column = difference.row, difference.col
    one, other = (np.asarray(matrix[ends]).ravel() for ends in ((row, column), (column, row)))
    wrong = np.abs(one - other) > 8 * np.finfo(matrix.dtype).eps * np.maximum(one, other)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"adjacency: must be symmetric, but weight ({row[at]}, {column[at]}) is {one[at]:g} and "
            f"({column[at]}, {row[at]}) is {other[at]:g} (pairs that differ: {int(wrong.sum()) // 2}); "
            'Graph.from_matrix(adjacency, symmetrise="max") makes it so, as do "mean" and "sum"'
        )
    return _symmetrised(matrix, "mean")


def _edge_ends(
    sources: Iterable[Any], targets: Iterable[Any], known: NodeIds | None, n_nodes: int | None
) -> tuple[IntArray, IntArray]:
    ends = []
    for name, values in (("source", sources), ("target", targets)):
        where = f"edges: {name}"
        ends.append(_node_numbers(values, where, n_nodes) if known is None else known.positions(values, where=where))
    if len(ends[0]) != len(ends[1]):
        raise DataError(f"edges: {len(ends[0])} sources but {len(ends[1])} targets")
    return ends[0], ends[1]


def _node_numbers(values: Iterable[Any], where: str, n_nodes: int | None) -> IntArray:
    array = one_kind(values, where)
    if isinstance(array, list):
        raise DataError(
            f"{where}: row 0 is {array[0]!r}, and without ids nodes are numbered from 0; "
            "give ids, such as sorted({*sources, *targets})"
        )
    wrong = array < 0 if n_nodes is None else (array < 0) | (array >= n_nodes)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        limit = "" if n_nodes is None else f", and nodes are 0 to {n_nodes - 1}"
        raise DataError(f"{where}: row {row} is {array[row]}{limit}")
    return array


def _implied(*ends: IntArray) -> int:
    """Take the number of nodes from the largest number used, unless that looks like an id rather than a count."""
    largest = max((int(end.max()) for end in ends if end.size), default=-1)
    if largest > max(1_000_000, 1000 * len(ends[0])):
        raise DataError(
            f"edges: the largest node number is {largest} for {len(ends[0])} edges; "
            "if these are ids, give ids, and if there are so many nodes, give n_nodes"
        )
    return largest + 1


def _edge_weights(weights: ArrayLike | None, n_edges: int) -> FloatArray:
    if weights is None:
        return np.ones(n_edges)
    given = np.asarray(list(weights) if isinstance(weights, Iterator) else weights)
    if given.dtype.kind not in "biuf":
        raise DataError(f"edges: weights must be real numbers, but their type is {given.dtype}")
    return check_weights(given, n_edges, "edges")


def _combine_repeats(
    low: IntArray, high: IntArray, weight: FloatArray, repeats: Repeats
) -> tuple[IntArray, IntArray, FloatArray]:
    """Keep each undirected edge once."""
    check_choice("repeats", repeats, get_args(Repeats))
    order = np.lexsort((high, low))
    first = np.ones(len(order), dtype=bool)
    first[1:] = (np.diff(low[order]) != 0) | (np.diff(high[order]) != 0)
    starts = np.flatnonzero(first)
    if len(starts) == len(order):
        return low, high, weight
    sorted_weight = weight[order]
    if repeats == "sum":
        with np.errstate(over="ignore"):
            combined = np.add.reduceat(sorted_weight, starts)
        check_weights(combined, len(starts), "edges, added up")
    else:
        combined = sorted_weight[starts]
        differs = sorted_weight != np.repeat(combined, np.diff(np.append(starts, len(order))))
        if differs.any():
            again = int(np.flatnonzero(differs)[0])
            earlier = order[starts[np.searchsorted(starts, again, side="right") - 1]]
            raise DataError(
                f"edges: rows {earlier} and {order[again]} give the same edge the weights {weight[earlier]:g} and "
                f'{weight[order[again]]:g}; pass repeats="sum" if repeated edges add up'
            )
    kept = order[starts]
    return low[kept], high[kept], combined
