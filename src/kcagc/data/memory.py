"""The inputs of all parties from memory: tables and graphs brought into one order of nodes, and made into numbers.

Rows are matched by id wherever there are ids, and by position only where there are none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from kcagc._types import Features, FloatArray, GraphSharing, IntArray
from kcagc.data import interop
from kcagc.data.edge_lists import EdgeList
from kcagc.data.fitted_rules import FittedRules
from kcagc.data.party_files import PartyInput
from kcagc.data.problems import Origin
from kcagc.data.table import Schema
from kcagc.data.weighting import Weighting, apply_weights, check_weighting, fit_weights
from kcagc.errors import DataError, ParameterError
from kcagc.graph.graph import AttributedGraph, Graph, check_features
from kcagc.graph.ids import NodeIds
from kcagc.secagg.masks import MAX_PARTIES
from kcagc.text import count, listed, quoted

GraphSource = Graph | EdgeList | None  # None: the run has no graph


def named_tables(X: Any, y: Any = None) -> dict[str, Any]:
    """Return the tables by the names of their parties: those of a dictionary, or party-1, party-2, ... for a list.

    Raises
    ------
    DataError
        If there are not two or more tables, or a name cannot be that of a party.
    ParameterError
        If `y` is a graph: the second argument of an estimator is not used.
    """
    if _is_graph(y):
        raise ParameterError("y: the second argument is not used; give the graph by name, as adjacency=...")
    if isinstance(X, Mapping):
        tables = dict(X)
        for name in tables:
            if not isinstance(name, str) or not 1 <= len(name) <= 64 or not name.isprintable():
                raise DataError(f"X: invalid name of a party {name!r}: use a string of 1 to 64 printable characters")
    elif isinstance(X, list | tuple):
        tables = {f"party-{number}": table for number, table in enumerate(X, start=1)}
    else:
        raise DataError(
            "X: must be a dictionary or a list with one table for each party, such as {'bank': table, 'shop': table}, "
            f"not {type(X).__name__}"
        )
    if not 2 <= len(tables) <= MAX_PARTIES:
        found = count(len(tables), "table")
        raise DataError(f"X: {found}; there must be 2 to {MAX_PARTIES}, one for each party")
    for name, table in tables.items():
        if isinstance(table, str | PurePath):
            raise DataError(f"{name}: must be a table, not the name of a file; read {str(table)!r} first, as a frame")
    return tables


def _is_graph(given: Any) -> bool:
    known = isinstance(given, Graph | EdgeList) or sparse.issparse(given)
    return known or interop.is_networkx(given) or interop.is_geometric(given) or getattr(given, "ndim", 1) == 2


def graphs_of(adjacency: Any, tables: Mapping[str, Any]) -> tuple[list[GraphSource], GraphSharing]:
    """Return the graph of every party, and whether all share one, each has its own, or there is none.

    A dictionary, or a list that is no list of edges, has a graph for each party.
    """
    if adjacency is None:
        for name, table in tables.items():
            if isinstance(table, AttributedGraph) or interop.is_geometric(table):
                raise ParameterError(
                    f"adjacency: is missing, but the table of {name} comes with a graph; give adjacency=..., or only "
                    "the features to cluster without a graph"
                )
        return [None] * len(tables), "none"
    if isinstance(adjacency, Mapping):
        if set(adjacency) != set(tables):
            raise DataError(f"adjacency: has the parties {_names(adjacency)}, but the tables are of {_names(tables)}")
        return [_own_graph(adjacency[name], f"adjacency[{name!r}]") for name in tables], "own"
    if not isinstance(adjacency, list | tuple) or interop.is_nested_list(adjacency):
        return [interop.graph_of(adjacency)] * len(tables), "shared"
    if len(adjacency) != len(tables):
        raise DataError(f"adjacency: {len(adjacency)} graphs for {len(tables)} parties")
    return [_own_graph(one, f"adjacency[{number}]") for number, one in enumerate(adjacency)], "own"


def _own_graph(given: Any, where: str) -> Graph | EdgeList:
    if given is None:
        raise DataError(f"{where}: is missing; every party needs a graph, or none (adjacency=None)")
    return interop.graph_of(given, where)


def _names(mapping: Mapping[Any, Any]) -> str:
    return listed([repr(name) for name in mapping])


def prepare_parties(
    tables: Mapping[str, Any],
    graphs: Sequence[GraphSource],
    *,
    id_column: str | None = None,
    nodes: str | Iterable[Any] = "all",
    transformers: Any = None,
    weighting: Weighting = "auto",
    fitted: Mapping[str, tuple[Any, FloatArray | None]] | None = None,
) -> dict[str, PartyInput]:
    """Bring tables and graphs into one order of nodes, and make numbers of the tables.

    The order is that of the first graph or, if no graph lists its nodes, that of the first table. `transformers` is one
    transformer for all parties, or a list or dictionary with one for each; each party fits its own copy. `weighting` is
    that of the columns; a rule of a `TablePreprocessor` other than "auto" precedes it. `fitted` are the transformers
    and the weights of an earlier fit, which take the place of both.
    """
    check_weighting(weighting)
    made = fitted
    if made is None:
        from kcagc.data.transformer import transformers_for  # noqa: PLC0415 - it imports scikit-learn

        made = transformers_for(transformers, list(tables), weighting)
    read = [_MemoryTable.of(name, table, id_column) for name, table in tables.items()]
    known = next((one for one in graphs if isinstance(one, Graph)), None)
    whose = "the graph's" if known is not None else f"{read[0].name}'s"
    ordered, aligned = _align(_with_nodes(graphs, read, nodes), read, nodes, whose)
    inputs = {}
    for graph, table in zip(ordered, aligned, strict=True):
        transformer, weights = made[table.name]
        features, columns = _to_numbers(table, transformer, fit=fitted is None)
        features, weights = _weighted(table, features, columns, transformer, weighting if weights is None else weights)
        n_columns = int(table.content.shape[1])
        inputs[table.name] = PartyInput(graph, features, columns, n_columns, transformer, weights=weights)
    return inputs


def ids_of_tables(tables: Mapping[str, Any], id_column: str | None) -> list[Any]:
    """Return the ids of all tables, in the order in which they first appear."""
    found: dict[Any, None] = {}
    for name, table in tables.items():
        ids = _MemoryTable.of(name, table, id_column).ids
        found |= dict.fromkeys([] if ids is None else ids.tolist())
    return list(found)


def rows_to_predict(
    graph: Graph, fitted: NodeIds | None, n_fitted: int, nodes: ArrayLike | None = None, *, where: str = "X"
) -> IntArray:
    """Return the rows of a graph that a prediction is about: the rows `nodes`, or all that were not fitted.

    If nodes have ids, `nodes` are ids, and all `fitted` ids must still exist. Otherwise `nodes` are row numbers, and
    the fitted rows come first.
    """
    if (fitted is None) != (graph.ids is None):
        kinds = ("row numbers", "ids") if fitted is None else ("ids", "row numbers")
        raise DataError(f"{where}: the model was made with {kinds[0]}, but these nodes have {kinds[1]}")
    listed: Any = list(nodes) if isinstance(nodes, range | set) else [nodes] if isinstance(nodes, str | int) else nodes
    if fitted is None or graph.ids is None:
        if listed is not None:
            return _row_numbers(listed, graph.n_nodes)
        known = np.arange(n_fitted)
        if graph.n_nodes < n_fitted:
            raise DataError(f"{where}: {graph.n_nodes} rows, but {n_fitted} were fitted and must come first")
    else:
        known = graph.ids.positions(fitted.values, where=f"{where}: nodes that were fitted are missing")
        if listed is not None:
            return graph.ids.positions(listed, where="nodes")
    rows = np.setdiff1d(np.arange(graph.n_nodes), known)
    if not rows.size:
        raise DataError(f"{where}: there is no node other than the {n_fitted} that were fitted: append the new rows")
    return rows


def _row_numbers(nodes: Any, n_nodes: int) -> IntArray:
    wanted = np.atleast_1d(np.asarray(nodes))
    sound = wanted.ndim == 1 and wanted.dtype.kind in "iu" and wanted.size > 0
    if not sound or wanted.min() < 0 or wanted.max() >= n_nodes:
        raise ParameterError(f"nodes: must be row numbers from 0 to {n_nodes - 1}")
    return wanted.astype(np.int64)


@dataclass(frozen=True, eq=False)
class _MemoryTable:
    """A table as its party gave it, without the column of ids; a transformer may need the original type.

    `numbered`: rows are named 0, 1, 2, ..., as by the index of a pandas frame, and not only in an order.
    `absent` marks nodes without a row.
    """

    name: str
    content: Any
    ids: NodeIds | None
    n_rows: int
    numbered: bool = False
    absent: Any = ()

    @classmethod
    def of(cls, name: str, table: Any, id_column: str | None) -> _MemoryTable:
        if isinstance(table, AttributedGraph):
            return cls(name, table.features, table.graph.ids, table.features.shape[0])
        if interop.is_geometric(table):
            if getattr(table, "x", None) is None:
                raise DataError(f"{name}: the graph has no features (x)")
            return cls.of(name, table.x, None)
        if interop.is_frame(table):
            ids, features = interop.frame_ids(table, id_column, name), interop.without_column(table, id_column)
            return cls(name, features, ids, len(table), ids is None and interop.is_pandas(table))
        content = interop.from_tensor(table, name)
        if not sparse.issparse(content):
            try:
                content = np.asarray(content)
            except ValueError as error:
                raise DataError(f"{name}: features: not a matrix ({error})") from error
        elif content.format != "csr":
            content = sparse.csr_array(content)
        if content.ndim != 2:
            raise DataError(f"{name}: features: must have two dimensions, but has {content.ndim}")
        return cls(name, content, None, content.shape[0])

    def ids_among(self, known: NodeIds) -> NodeIds | None:
        """Return the ids of the rows; the numbers of a numbered frame are ids if they are the names of the nodes."""
        if self.numbered and self.n_rows == len(known) and _are_rows(known, len(known)):
            return NodeIds.numbered(self.n_rows)
        return self.ids

    def selected(self, rows: IntArray, ids: NodeIds | None) -> _MemoryTable:
        if np.array_equal(rows, np.arange(self.n_rows)):
            return replace(self, ids=ids)
        return replace(
            self,
            content=interop.rows_of(self.content, rows),
            ids=ids,
            n_rows=len(rows),
            absent=np.flatnonzero(rows < 0),
        )


def _with_nodes(graphs: Sequence[GraphSource], tables: list[_MemoryTable], nodes: str | Iterable[Any]) -> list[Graph]:
    """Make a graph of each list of edges, and an empty one where there is none; their nodes are those of the tables."""
    open_ended = [one for one in graphs if not isinstance(one, Graph)]
    if not open_ended:
        return [one for one in graphs if isinstance(one, Graph)]
    complete = isinstance(nodes, str) and nodes == "all"
    known, named = _nodes_of(graphs, tables, nodes)
    made: dict[int, Graph] = {}  # parties that share a list of edges share the graph
    for one in open_ended:
        if one is None:
            made[id(one)] = Graph.without_edges(len(known), known if named else None)
        else:
            each = {table.name: table.ids or NodeIds.numbered(table.n_rows) for table in tables}
            made[id(one)] = one.graph(known, named=named, outside=not complete, tables=each)
    return [one if isinstance(one, Graph) else made[id(one)] for one in graphs]


def _nodes_of(
    graphs: Sequence[GraphSource], tables: list[_MemoryTable], nodes: str | Iterable[Any]
) -> tuple[NodeIds, bool]:
    """Return the nodes where a graph does not list them, and whether they are more than row numbers.

    They are those of another graph, of the list `nodes`, or of the first table. All tables must then have ids, or none.
    """
    for one in graphs:
        if isinstance(one, Graph):
            return (NodeIds.numbered(one.n_nodes), False) if one.ids is None else (one.ids, True)
    named = [(table.name, table.ids) for table in tables if table.ids is not None]
    n = max(table.n_rows for table in tables)
    if all(_are_rows(ids, n) for _, ids in named):
        sizes = {table.name: table.n_rows for table in tables if table.ids is None}
        if len(set(sizes.values())) > 1:
            counts = listed([f"{name} has {size:,}" for name, size in sizes.items()])
            raise DataError(
                f"X: every party must have a row for every node, but {counts} rows; give ids (id_column=..., or an "
                "index), and nodes='intersection' takes the nodes that all tables have"
            )
        return NodeIds.numbered(n), False
    if not isinstance(nodes, str):
        return NodeIds.of(nodes, where="nodes"), True
    for table in tables:
        if table.ids is None:
            raise DataError(
                f"{table.name}: rows have no ids, but those of {named[0][0]} have: nothing says which rows belong "
                "together; give ids (id_column=..., or an index) to all tables, or to none"
            )
    return named[0][1], True


def _align(
    graphs: Sequence[Graph], tables: list[_MemoryTable], nodes: str | Iterable[Any], whose: str
) -> tuple[list[Graph], list[_MemoryTable]]:
    """Bring graphs and tables into the order of the first graph, without the nodes that do not take part.

    Errors call the expected ids `whose`.
    """
    if isinstance(nodes, str) and nodes not in ("all", "intersection"):
        raise ParameterError(f"nodes: must be 'all', 'intersection' or a list of ids, not {nodes!r}")
    sizes = {table.name: graph.n_nodes for table, graph in zip(tables, graphs, strict=True)}
    if len(set(sizes.values())) > 1:
        raise DataError(f"X: every party must have a row for every node, but there are {sizes}")
    if graphs[0].n_nodes == 2 and nodes == "all" and all(table.n_rows > 2 for table in tables):
        raise DataError(
            f"adjacency: is a graph of 2 nodes, but {tables[0].name} has {tables[0].n_rows:,} rows. A 2 × 2 array is a "
            "matrix of weights; for a list of two edges, give a list of pairs such as [(0, 1), (1, 2)]"
        )
    ids = next((graph.ids for graph in graphs if graph.ids is not None), None)
    known, named = _ids_of_tables(tables, graphs[0].n_nodes) if ids is None else (ids, True)
    ordered = _ordered(graphs, [table.name for table in tables], known, named=named)
    if isinstance(nodes, str) and nodes == "all":
        ids = known if named else None
        return ordered, [table.selected(_rows(table, known, complete=True, whose=whose), ids) for table in tables]
    found = [_rows(table, known, complete=False, whose=whose) for table in tables]
    if isinstance(nodes, str):
        inside = np.flatnonzero(np.all([rows >= 0 for rows in found], axis=0))
        if not inside.size:
            where = "the graph and in all tables" if whose == "the graph's" else "all tables"
            raise DataError(f"nodes: no node is in {where}")
    else:
        inside = np.sort(known.positions(NodeIds.of(nodes, where="nodes").values, where="nodes"))
    kept = known.take(inside)
    cut = {id(graph): graph.selected(inside, kept) for graph in {id(graph): graph for graph in ordered}.values()}
    taking_part = [table.selected(rows[inside], kept) for table, rows in zip(tables, found, strict=True)]
    return [cut[id(graph)] for graph in ordered], taking_part


def _ids_of_tables(tables: list[_MemoryTable], n: int) -> tuple[NodeIds, bool]:
    """Return the ids of the nodes of a graph without ids, and whether they are more than row numbers.

    All tables with ids must have the same ids in the same order, the order of the graph. Numbers below n are row
    numbers.
    """
    named = [(table.name, table.ids) for table in tables if table.ids is not None]
    if not named or all(_are_rows(ids, n) for _, ids in named):
        return NodeIds.numbered(n), False
    first, ids = named[0]
    if len(ids) != n:
        raise DataError(f"{first}: {len(ids)} rows with ids, but the graph has {n} nodes and no ids to match them with")
    for name, other in named[1:]:
        if other.tolist() != ids.tolist():
            raise DataError(
                f"{name}: ids are not those of {first} in the same order, and the graph has no ids that match rows "
                "with nodes: give Graph.from_matrix(adjacency, ids=...), or a graph whose nodes have names"
            )
    return ids, True


def _are_rows(ids: NodeIds, n: int) -> bool:
    values = ids.values
    return not isinstance(values, list) and len(values) > 0 and values.min() >= 0 and int(values.max()) < n


def _ordered(graphs: Sequence[Graph], names: list[str], ids: NodeIds, *, named: bool) -> list[Graph]:
    """Bring all graphs into one order; a graph without ids is already in it."""
    first = next((name for name, graph in zip(names, graphs, strict=True) if graph.ids is ids), "")
    made: dict[int, Graph] = {}  # a graph that several parties share is ordered once
    for name, graph in zip(names, graphs, strict=True):
        if id(graph) in made:
            continue
        if graph.ids is None or graph.ids is ids:
            made[id(graph)] = graph if named == (graph.ids is not None) else Graph(graph.adjacency, ids)
        else:
            where = f"{first} and {name} do not have the same node ids: adjacency"
            made[id(graph)] = graph.selected(ids.alignment(graph.ids, where=where), ids)
    return [made[id(graph)] for graph in graphs]


def _rows(table: _MemoryTable, known: NodeIds, *, complete: bool, whose: str) -> IntArray:
    """Return the row of each node; -1 for a node without a row, which is an error if the table must be `complete`."""
    ids = table.ids_among(known)
    if ids is not None:
        return known.alignment(ids, where=table.name, whose=whose, missing=not complete, extra=not complete)
    if not complete and table.n_rows != len(known):
        raise DataError(
            f"{table.name}: {table.n_rows} rows without ids, but the graph has {len(known)} nodes: nothing says which "
            "nodes they are; give ids (id_column=..., or an index)"
        )
    return np.arange(table.n_rows)  # too few or too many rows are an error when the features are checked


def _to_numbers(table: _MemoryTable, transformer: Any, *, fit: bool) -> tuple[Features, list[str]]:
    """Return the numbers of a party, and the names of their columns."""
    from kcagc.data.transformer import rows_called  # noqa: PLC0415 - it imports scikit-learn

    content = table.content
    if transformer is None:
        if len(table.absent):
            node = table.absent[0] if table.ids is None else table.ids.values[table.absent[0]]
            raise DataError(
                f"{table.name}: there is no row for node {quoted(node)} (and {len(table.absent) - 1} more); give a "
                "transformer that fills in missing values, or nodes='intersection'"
            )
        return _named_columns(table, content)
    try:
        with rows_called(transformer, table.name, table.ids):
            made = transformer.fit(content).transform(content) if fit else transformer.transform(content)
    except (ValueError, TypeError) as error:
        if isinstance(error, DataError) and error.problems:
            raise  # it names the party and its nodes
        raise DataError(f"{table.name}: transformers: {error}") from error
    features, columns = _named_columns(table, made)
    if features.shape[0] != table.n_rows:
        raise DataError(f"{table.name}: transformers: {table.n_rows} rows became {features.shape[0]}")
    with contextlib.suppress(AttributeError, ValueError, TypeError):  # not every transformer knows its columns
        columns = [str(name) for name in transformer.get_feature_names_out()]
    return features, columns


def _weighted(
    table: _MemoryTable, features: Features, columns: list[str], transformer: Any, how: Weighting | FloatArray
) -> tuple[Features, FloatArray | None]:
    """Weight columns by the weights of the fit, or fit them; a `TablePreprocessor` has done it by its own rules."""
    fitted = getattr(transformer, "fitted_", None)
    if isinstance(fitted, FittedRules):
        return features, fitted.column_weights()
    try:
        checked = check_features(features)
    except DataError:
        return features, None  # the error is raised, with the name of the party, when the features are checked
    if isinstance(how, str):

        def fail(row: int, column: int, message: str) -> DataError:
            return Origin(table.name, ids=table.ids).error(row, columns[column], message)

        how = fit_weights(checked, how, fail)
    return (apply_weights(checked, how), how) if len(how) == checked.shape[1] else (features, None)


def _named_columns(table: _MemoryTable, content: Any) -> tuple[Features, list[str]]:
    if interop.is_frame(content):
        found = interop.table_of(content, Schema(), Origin(table.name, ids=table.ids))
        return found.numbers, found.columns
    values = content if sparse.issparse(content) else np.asarray(content)
    return values, [str(column) for column in range(values.shape[1] if values.ndim == 2 else 0)]
