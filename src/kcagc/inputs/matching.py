"""Which row is which node: by id wherever there are ids, and never by position where ids disagree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kcagc._types import IntArray
from kcagc.errors import DataError, ParameterError
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds
from kcagc.inputs.given import Given

Nodes = str | Iterable[Any]


def matched(graphs: Sequence[Graph], tables: list[Given], nodes: Nodes) -> tuple[list[Graph], list[Given]]:
    """Bring graphs and tables into one order: that of the first graph, less the nodes that do not take part."""
    if isinstance(nodes, str) and nodes not in ("all", "intersection"):
        raise ParameterError(f"nodes: must be 'all', 'intersection' or a list of ids, not {nodes!r}")
    sizes = {table.name: graph.n_nodes for table, graph in zip(tables, graphs, strict=True)}
    if len(set(sizes.values())) > 1:
        raise DataError(f"X: every party must have a row for every node, but there are {sizes}")
    ids = next((graph.ids for graph in graphs if graph.ids is not None), None)
    n = graphs[0].n_nodes
    known, named = _from_tables(tables, n) if ids is None else (ids, True)
    graphs = _aligned(graphs, [table.name for table in tables], known, named=named)
    if isinstance(nodes, str) and nodes == "all":
        return graphs, [_all_rows(table, known, graphs[0].ids) for table in tables]
    found = [_rows(table, known, n) for table in tables]
    if isinstance(nodes, str):
        inside = np.flatnonzero(np.all([rows >= 0 for rows in found], axis=0))
        if not inside.size:
            raise DataError("nodes: no node is in the graph and in all tables")
    else:
        inside = np.sort(known.positions(NodeIds.of(nodes, where="nodes").values, where="nodes"))
    kept = NodeIds.of(np.asarray(known.values, dtype=object)[inside].tolist(), where="nodes")
    one = _restricted(graphs, inside, kept)
    return one, [table.selected(rows[inside], kept) for table, rows in zip(tables, found, strict=True)]


def _from_tables(tables: list[Given], n: int) -> tuple[NodeIds, bool]:
    """Give the names of nodes where the graph has none, and whether they are more than row numbers.

    Tables may have ids then, if all that do have the same in the same order: the order of the graph. Numbers below n
    are row numbers.
    """
    named = [(table.name, table.ids) for table in tables if table.ids is not None]
    if not named or all(_are_rows(ids, n) for _, ids in named):
        return NodeIds(np.arange(n, dtype=np.int64), where="nodes"), False
    first, ids = named[0]
    if len(ids) != n:
        raise DataError(f"{first}: {len(ids)} rows with ids, but the graph has {n} nodes and no ids to look them up in")
    for name, other in named[1:]:
        if _plain(other) != _plain(ids):
            raise DataError(
                f"{name}: ids are not those of {first} in the same order, and the graph has no ids that would say "
                "which row is which node: give Graph.from_matrix(adjacency, ids=...), or name its nodes otherwise"
            )
    return ids, True


def _are_rows(ids: NodeIds, n: int) -> bool:
    values = ids.values
    return not isinstance(values, list) and len(values) > 0 and values.min() >= 0 and int(values.max()) < n


def _aligned(graphs: Sequence[Graph], names: list[str], ids: NodeIds, *, named: bool) -> list[Graph]:
    """Give all graphs in one order; one without ids is in it already."""
    called = ids if named else None
    made: dict[int, Graph] = {}
    for graph, name in zip(graphs, names, strict=True):
        if id(graph) in made:
            continue
        if graph.ids is None or graph.ids is ids:
            made[id(graph)] = graph if graph.ids is called else Graph(graph.adjacency, called)
            continue
        first = next(one for one, other in zip(names, graphs, strict=True) if other.ids is ids)
        order = ids.alignment(graph.ids.values, where=f"{first} and {name} do not have the same node ids: adjacency")
        made[id(graph)] = _restricted([graph], order, ids)[0]
    return [made[id(graph)] for graph in graphs]


def _restricted(graphs: list[Graph], rows: IntArray, ids: NodeIds) -> list[Graph]:
    """Give the graphs on some nodes, each once where several parties share it."""
    made: dict[int, Graph] = {}
    for graph in graphs:
        if id(graph) not in made:
            inside = graph.adjacency[rows][:, rows]
            inside.sort_indices()
            made[id(graph)] = Graph(inside, ids)
    return [made[id(graph)] for graph in graphs]


def _called(table: Given, known: NodeIds) -> NodeIds | None:
    """Give the ids of a table; a frame that counts its rows has ids where the nodes are those numbers."""
    if table.numbered and table.n_rows == len(known) and _are_rows(known, len(known)):
        return NodeIds(np.arange(table.n_rows, dtype=np.int64), where=table.name)
    return table.ids


def _all_rows(table: Given, known: NodeIds, named: NodeIds | None) -> Given:
    ids = _called(table, known)
    if ids is None:
        return table.selected(np.arange(table.n_rows), named)  # whether there are enough is seen when it is checked
    return table.selected(known.alignment(ids.values, where=table.name), named)


def _rows(table: Given, known: NodeIds, n: int) -> IntArray:
    """Give the row of each node, or -1 where a table has none."""
    ids = _called(table, known)
    if ids is None:
        if table.n_rows != n:
            raise DataError(
                f"{table.name}: {table.n_rows} rows without ids, but the graph has {n} nodes: nothing says which are "
                "here; give ids (id_column=..., or an index)"
            )
        return np.arange(n)
    if isinstance(ids.values, list) != isinstance(known.values, list):
        known.positions(ids.values[:1], where=table.name)  # says that these are numbers and those are strings
    place = {value: row for row, value in enumerate(_plain(ids))}
    return np.fromiter((place.get(value, -1) for value in _plain(known)), np.int64, n)


def _plain(ids: NodeIds) -> list[Any]:
    return ids.values if isinstance(ids.values, list) else ids.values.tolist()
