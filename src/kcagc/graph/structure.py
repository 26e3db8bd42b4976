"""An undirected weighted graph that has been checked: whatever holds one need not check again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kcagc._types import IntArray, Sparse
from kcagc.errors import DataError
from kcagc.graph.ids import NodeIds
from kcagc.parameters import check_choice

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
        matrix = _as_csr(adjacency)
        rows, columns = matrix.shape
        if rows != columns:
            raise DataError(f"adjacency: must be square, but has {rows} rows and {columns} columns")
        if rows == 0:
            raise DataError("adjacency: the graph has no nodes")
        _check_weights(matrix)
        check_choice("symmetrise", symmetrise, (*get_args(Symmetrise), None))
        if symmetrise is not None:
            matrix = _symmetrised(matrix, symmetrise)
        _check_symmetric(matrix)
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
        known = _ids_for(ids, n_nodes)
        source, target = _edge_ends(sources, targets, known, n_nodes)
        n = len(known) if known is not None else n_nodes if n_nodes is not None else _largest(source, target) + 1
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


def _as_csr(adjacency: Sparse | ArrayLike) -> Sparse:
    """Give a canonical CSR copy: floats, sorted indices, no stored zeros, repeated entries added up."""
    given: Any = adjacency if sparse.issparse(adjacency) else np.asarray(adjacency)
    if given.ndim != 2:
        raise DataError(f"adjacency: must have two dimensions, but has {given.ndim}")
    if given.dtype.kind not in "biuf":
        raise DataError(f"adjacency: weights must be real numbers, but their type is {given.dtype}")
    dtype = np.float32 if given.dtype == np.float32 else np.float64
    matrix = sparse.csr_array(given, dtype=dtype, copy=True)
    matrix.sum_duplicates()
    if not np.isnan(matrix.data).any():  # a stored NaN is to be found, not dropped
        matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def _places(matrix: Sparse, wrong: NDArray[np.bool_]) -> str:
    """Name the first few (row, column) of the stored entries marked in `wrong`."""
    at = np.flatnonzero(wrong)
    rows = np.searchsorted(matrix.indptr, at[:_LISTED], side="right") - 1
    named = ", ".join(f"({row}, {column})" for row, column in zip(rows, matrix.indices[at[:_LISTED]], strict=True))
    return named if len(at) <= _LISTED else f"{named} and {len(at) - _LISTED} more"


def _check_weights(matrix: Sparse) -> None:
    for problem, wrong in (
        ("is not a number", np.isnan(matrix.data)),
        ("is infinite", np.isinf(matrix.data)),
        ("is negative", matrix.data < 0),
    ):
        if wrong.any():
            raise DataError(f"adjacency: the weight {problem} at (row, column) {_places(matrix, wrong)}")


def _symmetrised(matrix: Sparse, how: Symmetrise) -> Sparse:
    other = matrix.T.tocsr()
    if how == "max":
        result = sparse.csr_array(matrix.maximum(other))
    else:
        result = sparse.csr_array(matrix + other)
        if how == "mean":
            result /= 2
    result.sort_indices()
    return result


def _check_symmetric(matrix: Sparse) -> None:
    """Compare with the transpose entry by entry; sums in another order may differ in the last bits."""
    difference = sparse.csr_array(matrix - matrix.T)
    scale = float(matrix.data.max()) if matrix.nnz else 0.0
    wrong = np.abs(difference.data) > scale * (1e-12 if matrix.dtype == np.float64 else 1e-6)
    if not wrong.any():
        return
    first = int(np.flatnonzero(wrong)[0])
    row = int(np.searchsorted(difference.indptr, first, side="right")) - 1
    column = int(difference.indices[first])
    raise DataError(
        f"adjacency: must be symmetric, but weight ({row}, {column}) is {matrix[row, column]:g} and "
        f"({column}, {row}) is {matrix[column, row]:g} ({int(wrong.sum()) // 2} such pairs); "
        'pass symmetrise="max", "mean" or "sum" to make it so'
    )


def _edge_ends(
    sources: Iterable[Any], targets: Iterable[Any], known: NodeIds | None, n_nodes: int | None
) -> tuple[IntArray, IntArray]:
    ends = []
    for name, values in (("source", sources), ("target", targets)):
        array = values if isinstance(values, np.ndarray) else np.asarray(list(values))
        if known is not None:
            ends.append(known.positions(array, where=f"edges: {name}"))
        else:
            ends.append(_node_numbers(array, name, n_nodes))
    if len(ends[0]) != len(ends[1]):
        raise DataError(f"edges: {len(ends[0])} sources but {len(ends[1])} targets")
    return ends[0], ends[1]


def _node_numbers(array: NDArray[Any], name: str, n_nodes: int | None) -> IntArray:
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise DataError(f"edges: {name} must be node numbers (or give ids), but the type is {array.dtype}")
    wrong = array < 0 if n_nodes is None else (array < 0) | (array >= n_nodes)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        limit = "" if n_nodes is None else f", and nodes are 0 to {n_nodes - 1}"
        raise DataError(f"edges: row {row} has {name} {array[row]}{limit}")
    return array.astype(np.int64)


def _largest(*ends: IntArray) -> int:
    return max((int(end.max()) for end in ends if end.size), default=-1)


def _edge_weights(weights: ArrayLike | None, n_edges: int) -> NDArray[np.float64]:
    if weights is None:
        return np.ones(n_edges)
    weight = np.asarray(weights)
    if weight.dtype.kind not in "biuf":
        raise DataError(f"edges: weights must be real numbers, but their type is {weight.dtype}")
    if weight.shape != (n_edges,):
        raise DataError(f"edges: {n_edges} edges but weights of shape {weight.shape}")
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(f"edges: row {row} has weight {weight[row]}; weights must be finite and not negative")
    return weight.astype(np.float64)


def _combine_repeats(
    low: IntArray, high: IntArray, weight: NDArray[np.float64], repeats: Repeats
) -> tuple[IntArray, IntArray, NDArray[np.float64]]:
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
        combined = np.add.reduceat(sorted_weight, starts)
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
