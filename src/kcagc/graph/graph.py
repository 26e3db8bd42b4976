"""Undirected graphs and the features of their nodes, checked once so that later code can rely on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from kcagc._types import Features, FloatArray, IntArray, Sparse, check_choice, check_count, check_weights
from kcagc.errors import DataError, ParameterError
from kcagc.graph.ids import NodeIds, canonical_csr, entry_at, float_type, numbers, one_kind
from kcagc.text import listed

Symmetrise = Literal["max", "mean", "sum"]
Repeats = Literal["same", "sum"]

_LISTED = 5  # entries that an error names; further ones are counted
_CHECKED = 1 << 16  # rows that are checked at a time: a table may be larger than the memory


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected weighted graph.

    Build one with `from_matrix` or `from_edges`: both check their input. Self loops in the input are kept; the
    Laplacian adds one more to every node.

    Attributes
    ----------
    adjacency : scipy.sparse.csr_array of shape (n_nodes, n_nodes)
        Symmetric matrix of finite, non-negative weights.
    ids : NodeIds or None, default=None
        The name of each node, in row order.

    Examples
    --------
    >>> Graph.from_edges([0, 1], [1, 2])
    Graph(3 nodes, 2 edges)
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
        """Build a graph from a matrix of edge weights.

        Parameters
        ----------
        adjacency : array-like or sparse matrix of shape (n_nodes, n_nodes)
            Finite, non-negative weights.
        ids : iterable of int or str, default=None
            The name of each node, in row order.
        symmetrise : {"max", "mean", "sum"}, default=None
            How to combine the weights of (i, j) and (j, i). None rejects an asymmetric matrix.

        Returns
        -------
        Graph

        Raises
        ------
        DataError
            If the matrix is not square, not symmetric, or has an unusable weight.
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
        """Build a graph from a list of undirected edges.

        Parameters
        ----------
        sources, targets : iterable of int or str
            The two ends of each edge: entries of `ids`, or node numbers from 0 where `ids` is None.
        weights : array-like of shape (n_edges,), default=None
            The weight of each edge. None means 1.
        n_nodes : int, default=None
            The number of nodes. None takes it from `ids` or from the largest node number.
        ids : iterable of int or str, default=None
            The name of each node, in row order.
        repeats : {"same", "sum"}, default="same"
            What to do with an edge that is listed again, in either direction. "same" counts it once and rejects a
            different weight; "sum" adds the weights.

        Returns
        -------
        Graph

        Raises
        ------
        DataError
            If an end is unknown, a weight is unusable, or repeated edges disagree.
        """
        check_count("n_nodes", n_nodes, optional=True)
        known = _ids_for(ids, n_nodes)
        source, target = _edge_ends(sources, targets, known, n_nodes)
        n = len(known) if known is not None else n_nodes if n_nodes is not None else _implied(source, target)
        if n == 0:
            raise DataError("edges: the graph has no nodes; pass n_nodes or ids")
        weight = np.ones(len(source)) if weights is None else check_weights(weights, len(source), "edges")
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

    @classmethod
    def without_edges(cls, n_nodes: int, ids: NodeIds | None = None) -> Graph:
        """Return the graph of a run that has no edges; its nodes still have an order and names.

        Parameters
        ----------
        n_nodes : int
            The number of nodes.
        ids : NodeIds, default=None
            The name of each node.

        Returns
        -------
        Graph

        Examples
        --------
        >>> Graph.without_edges(3)
        Graph(3 nodes, 0 edges)
        """
        return cls(sparse.csr_array((n_nodes, n_nodes), dtype=np.float64), ids)

    def selected(self, rows: IntArray, ids: NodeIds | None) -> Graph:
        """Return the graph on the nodes `rows`, in that order, with these names and the edges between them."""
        if np.array_equal(rows, np.arange(self.n_nodes)):
            return self if self.ids is ids else Graph(self.adjacency, ids)
        inside = self.adjacency[rows][:, rows]
        inside.sort_indices()
        return Graph(inside, ids)

    @property
    def n_nodes(self) -> int:
        """The number of nodes, including isolated ones."""
        return int(self.adjacency.shape[0])

    @property
    def n_edges(self) -> int:
        """The number of undirected edges, without self loops."""
        return (int(self.adjacency.nnz) - self.n_self_loops) // 2

    @property
    def n_self_loops(self) -> int:
        """The number of nodes with an edge to themselves."""
        return int(np.count_nonzero(self.adjacency.diagonal()))

    @property
    def n_isolated(self) -> int:
        """The number of nodes without an edge to another node."""
        others = np.diff(self.adjacency.indptr) - (self.adjacency.diagonal() != 0)
        return int(np.count_nonzero(others == 0))

    def __repr__(self) -> str:
        return f"Graph({self.n_nodes:,} nodes, {self.n_edges:,} edges)"


def as_graph(adjacency: Graph | Sparse | ArrayLike) -> Graph:
    """Return a `Graph` unchanged; build one from any other matrix."""
    return adjacency if isinstance(adjacency, Graph) else Graph.from_matrix(adjacency)


@dataclass(frozen=True, eq=False)
class AttributedGraph:
    """A graph with the features of its nodes.

    Attributes
    ----------
    graph : Graph
        The checked graph.
    features : ndarray or scipy.sparse.csr_array of shape (n_nodes, n_features)
        The checked features; row i belongs to node i.

    Examples
    --------
    >>> data = AttributedGraph.build([[0, 1], [1, 0]], [[0.5], [1.5]])
    >>> data.features.shape
    (2, 1)
    """

    graph: Graph
    features: Features

    @classmethod
    def build(
        cls,
        adjacency: Graph | Sparse | ArrayLike,
        features: Features,
        *,
        ids: Iterable[Any] | None = None,
        feature_ids: Iterable[Any] | None = None,
        symmetrise: Symmetrise | None = None,
    ) -> AttributedGraph:
        """Check a graph and its features.

        Parameters
        ----------
        adjacency : Graph, array-like or sparse matrix of shape (n_nodes, n_nodes)
            The graph, or its edge weights.
        features : array-like or sparse matrix of shape (n_nodes, n_features)
            One row for each node.
        ids : iterable of int or str, default=None
            The name of each node, where `adjacency` is a matrix.
        feature_ids : iterable of int or str, default=None
            The node of each row of `features`. None means that rows are in the order of the nodes.
        symmetrise : {"max", "mean", "sum"}, default=None
            See `Graph.from_matrix`.

        Returns
        -------
        AttributedGraph

        Raises
        ------
        DataError
            If the graph or the features are unusable, or their nodes differ.
        ParameterError
            If `ids` or `symmetrise` is given together with a `Graph`.
        """
        if not isinstance(adjacency, Graph):
            graph = Graph.from_matrix(adjacency, ids=ids, symmetrise=symmetrise)
        elif ids is None and symmetrise is None:
            graph = adjacency
        else:
            raise ParameterError("ids, symmetrise: not allowed with a Graph; pass them to Graph.from_matrix")
        checked = check_features(features, n_nodes=graph.n_nodes)
        if feature_ids is not None:
            if graph.ids is None:
                raise DataError("features: rows have ids, but the graph has none; build the graph with ids")
            checked = checked[graph.ids.alignment(feature_ids, where="features")]
        return cls(graph, checked)


def check_features(features: Features, *, n_nodes: int | None = None, where: str = "features") -> Features:
    """Return features as a float CSR array or a C-contiguous float ndarray.

    Dense features of the right type are not copied.

    Parameters
    ----------
    features : array-like or sparse matrix of shape (n_nodes, n_features)
        Real, finite numbers. float32 stays float32; any other type becomes float64.
    n_nodes : int, default=None
        The number of rows to require. None accepts any number.
    where : str, default="features"
        The name of the table in error messages.

    Returns
    -------
    ndarray or scipy.sparse.csr_array of shape (n_nodes, n_features)

    Raises
    ------
    DataError
        If the table has the wrong number of rows, no columns, or a value that is not a finite number.

    Examples
    --------
    >>> check_features([[1, 2]]).dtype
    dtype('float64')
    """
    given = numbers(features, where)
    if sparse.issparse(given):
        checked = canonical_csr(given)
        values = checked.data
    else:
        checked = values = np.ascontiguousarray(given, dtype=float_type(given.dtype))
    if n_nodes is not None and checked.shape[0] != n_nodes:
        raise DataError(f"{where}: {checked.shape[0]} rows, but the graph has {n_nodes} nodes")
    if checked.shape[1] == 0:
        raise DataError(f"{where}: there are no columns")
    if not all(np.isfinite(values[start : start + _CHECKED]).all() for start in range(0, len(values), _CHECKED)):
        row, column = entry_at(checked, int(np.flatnonzero(~np.isfinite(values))[0]))
        raise DataError(f"{where}: the value in row {row}, column {column} is {checked[row, column]}")
    return checked


def _ids_for(ids: Iterable[Any] | None, n_nodes: int | None) -> NodeIds | None:
    if ids is None:
        return None
    known = NodeIds.of(ids, where="graph ids")
    if n_nodes is not None and len(known) != n_nodes:
        raise DataError(f"graph ids: {len(known)} ids for {n_nodes} nodes")
    return known


def _check_weights(matrix: Sparse) -> None:
    wrong = np.flatnonzero(~(np.isfinite(matrix.data) & (matrix.data >= 0)))
    if wrong.size:
        entries = ((matrix.data[place], *entry_at(matrix, int(place))) for place in wrong)
        named = listed([f"{weight:g} (row {row}, column {column})" for weight, row, column in entries], at_most=_LISTED)
        raise DataError(f"adjacency: weights must be finite and not negative, not {named}")


def _symmetrised(matrix: Sparse, how: Symmetrise) -> Sparse:
    other = matrix.T.tocsr()
    if how == "max":
        result = sparse.csr_array(matrix.maximum(other))
    else:
        with np.errstate(over="ignore"):
            result = sparse.csr_array(matrix + other)
        if how == "mean":
            result /= 2
        _check_weights(result)  # the sum of finite weights can be infinite
    result.sort_indices()
    return result


def _symmetric(matrix: Sparse) -> Sparse:
    """Raise `DataError` for an asymmetric matrix; make weights equal that differ by rounding only."""
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
            'use Graph.from_matrix(adjacency, symmetrise="max"), or "mean" or "sum"'
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
            f"{where}: row 0 is {array[0]!r}, but without ids nodes are numbered from 0; "
            "pass ids, such as sorted({*sources, *targets})"
        )
    wrong = array < 0 if n_nodes is None else (array < 0) | (array >= n_nodes)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        limit = "" if n_nodes is None else f", but nodes are 0 to {n_nodes - 1}"
        raise DataError(f"{where}: row {row} is {array[row]}{limit}")
    return array


def _implied(*ends: IntArray) -> int:
    """Return the largest node number plus one; raise `DataError` if that number looks like an id."""
    largest = max((int(end.max()) for end in ends if end.size), default=-1)
    if largest > max(1_000_000, 1000 * len(ends[0])):
        raise DataError(
            f"edges: the largest node number is {largest} for {len(ends[0])} edges; "
            "if these are ids, pass ids; if the graph has that many nodes, pass n_nodes"
        )
    return largest + 1


def _combine_repeats(
    low: IntArray, high: IntArray, weight: FloatArray, repeats: Repeats
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return each undirected edge once."""
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
        check_weights(combined, len(starts), "edges, summed")
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
