"""Graphs of networkx and of PyTorch Geometric, as checked graphs of ours."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from kcagc._types import FloatArray
from kcagc.errors import DataError
from kcagc.foreign.tensors import plain
from kcagc.graph.graph import AttributedGraph, Graph, as_graph
from kcagc.graph.ids import NodeIds


def graph_of(given: Any, where: str = "adjacency") -> Graph:
    """Give a graph out of a matrix, an edge list of PyTorch Geometric, a graph of networkx, or one of ours."""
    if isinstance(given, AttributedGraph):
        return given.graph
    if is_networkx(given):
        return _from_networkx(given, where)
    if is_geometric(given):
        return _from_geometric(given, where)
    return as_graph(plain(given, where))


def is_networkx(given: Any) -> bool:
    """Tell whether it is a graph of networkx."""
    return all(callable(getattr(given, name, None)) for name in ("nodes", "edges", "is_directed", "is_multigraph"))


def is_geometric(given: Any) -> bool:
    """Tell whether it is a graph of PyTorch Geometric."""
    return not isinstance(given, Graph) and hasattr(given, "edge_index") and hasattr(given, "num_nodes")


def _from_networkx(given: Any, where: str) -> Graph:
    """Nodes are called what they are called there; numbers from 0 on are rows, whatever the order they came in.

    Weights are in `weight`, 1 where there is none; those of parallel edges add up, as they do there.
    """
    names = list(given.nodes())
    if not names:
        raise DataError(f"{where}: the graph has no nodes")
    try:
        ids = NodeIds.of(names, where=f"{where}: nodes")
    except DataError as error:
        raise DataError(f"{error} (networkx.convert_node_labels_to_integers gives them numbers)") from error
    numbered = not isinstance(ids.values, list) and set(ids.values.tolist()) == set(range(len(names)))
    if numbered:
        ids = NodeIds(np.arange(len(names), dtype=np.int64), where=where)
    edges = [(one, two, 1 if weight is None else weight) for one, two, weight in given.edges(data="weight")]
    source, target = (ids.positions([edge[end] for edge in edges], where=where) for end in (0, 1))
    weights = _weights([edge[2] for edge in edges], where)
    called = None if numbered else ids
    if not given.is_directed():
        joined = Graph.from_edges(source, target, weights, n_nodes=len(names), repeats="sum")
        return Graph(joined.adjacency, called)
    matrix = sparse.coo_array((weights, (source, target)), shape=(len(names), len(names)))
    try:
        return Graph(Graph.from_matrix(matrix.tocsr()).adjacency, called)
    except DataError as error:
        raise DataError(f"{error}. The graph is directed; graph.to_undirected() makes it otherwise") from error


def _from_geometric(given: Any, where: str) -> Graph:
    """Edges may be listed in one direction or in both; weights are `edge_weight`, or `edge_attr` of one column."""
    ends = np.asarray(plain(given.edge_index, f"{where}: edge_index"))
    if ends.ndim != 2 or ends.shape[0] != 2 or ends.dtype.kind not in "iu":
        raise DataError(
            f"{where}: edge_index: must be whole numbers of shape (2, edges), not {ends.dtype} {ends.shape}"
        )
    weights = None
    for name in ("edge_weight", "edge_attr"):
        found = getattr(given, name, None)
        if found is not None:
            values = np.asarray(plain(found, f"{where}: {name}"))
            if values.size != ends.shape[1]:
                raise DataError(f"{where}: {name}: has shape {values.shape}; one weight for each edge is needed")
            weights = _weights(values.ravel(), where)
            break
    return Graph.from_edges(ends[0], ends[1], weights, n_nodes=int(given.num_nodes))


def _weights(values: Any, where: str) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: a weight is not a number ({error})") from error
