"""The input of a party from its files: its table and the shared graph, in one order of nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kcagc._types import Features, Flags, FloatArray, IntArray, check_count
from kcagc.data.csv_format import CsvFormat
from kcagc.data.edge_lists import SAME_WAY
from kcagc.data.files import LISTS, MATRICES, TABLES, InputFile, PathLike
from kcagc.data.fitted_rules import FittedRules
from kcagc.data.preprocessing import TableRules
from kcagc.data.table import Schema, Table, Wanted
from kcagc.data.table_files import read_features, read_table, whole_numbers
from kcagc.errors import DataError, ParameterError
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds, first_rows
from kcagc.text import listed, quoted

_LISTED = 3  # unknown ids that an error names


@dataclass(frozen=True, eq=False)
class PartyInput:
    """The data of one party for a run: a graph, a table of numbers on its nodes, and how the table was made.

    Attributes
    ----------
    graph : Graph
        The graph; its nodes are in the order that all parties share.
    features : ndarray or csr_array of shape (n_nodes, n_features)
        Row i belongs to node i of the graph.
    columns : list of str
        Names of the columns of `features`.
    n_columns : int
        The number of columns that were read.
    preprocessing : FittedRules, transformer or None
        What made `features` from the columns that were read.
    rules : TableRules or None
        The rules that `preprocessing` was fitted by; None in a prediction, which uses those of the fit.
    weights : ndarray of shape (n_features,) or None
        What the columns were multiplied by, see `ColumnRule.weighting`; None if no column was.
    listed : int or None
        The number of nodes in the node list; None without a node list.
    rows_left_out, rows_filled_in, edges_left_out : int
        What the node list changed: rows of other nodes, nodes without a row, and edges to other nodes.

    Examples
    --------
    >>> from kcagc.data import read_party, write_text
    >>> write_text("shop.csv", "id,spend\\nann,3\\nbob,5\\n")
    >>> write_text("edges.csv", "source,target\\nann,bob\\n")
    >>> data = read_party("shop.csv", "edges.csv", party="shop", id_column="id")
    >>> data.columns, data.features.tolist()
    (['spend'], [[3.0], [5.0]])
    """

    graph: Graph
    features: Features
    columns: list[str]
    n_columns: int
    preprocessing: Any = None
    rules: TableRules | None = None
    weights: FloatArray | None = None
    listed: int | None = None
    rows_left_out: int = 0
    rows_filled_in: int = 0
    edges_left_out: int = 0

    def summary(self) -> dict[str, Any]:
        """Return which nodes take part and how the columns changed, for the summary of a run."""
        found: dict[str, Any] = {"nodes": "all" if self.listed is None else "list"}
        if self.listed is not None:
            counts = ("listed", "rows_left_out", "rows_filled_in", "edges_left_out")
            found |= {name: getattr(self, name) for name in counts}
        found |= {"columns_read": self.n_columns, "columns_made": len(self.columns)}
        found["columns_weighted"] = 0 if self.weights is None else int((self.weights != 1).sum())
        return found if self.rules is None else {**found, "rules": self.rules.as_dict()}


def read_party(
    features: PathLike,
    graph: PathLike | None,
    *,
    party: str,
    id_column: str | None = None,
    feature_ids: PathLike | None = None,
    source: str = "source",
    target: str = "target",
    weight: str | None = None,
    graph_ids: PathLike | None = None,
    node_list: PathLike | None = None,
    rules: TableRules | None = None,
    fitted: FittedRules | None = None,
    csv: CsvFormat | None = None,
    graph_csv: CsvFormat | None = None,
) -> PartyInput:
    """Read the table and the graph of a party, sort the nodes by id, and make numbers of the table.

    Numbers are sorted by size and strings by code point, so parties that read the same nodes and edges in different
    orders get the same graph. Without ids, the rows stay in the order of the file, which must then be the same at all
    parties.

    Parameters
    ----------
    features, graph : str or path
        The files, as for `read_features` and `read_graph`. Without a graph (None), the nodes are those of the table.
    party : str
        Name of the party, for errors.
    id_column : str or None, default None
        The column of a table that names the nodes.
    feature_ids : str, path or None, default None
        The file with the ids of the rows of a matrix.
    source, target : str, default "source", "target"
        The columns of an edge list.
    weight : str or None, default None
        The column with edge weights; None gives every edge the weight 1.
    graph_ids : str, path or None, default None
        The file with the ids of the rows of a matrix of edges.
    node_list : str, path or None, default None
        A file of ids. Only these nodes take part; a node without a row gets a row of missing cells.
    rules : TableRules or None, default None
        How columns become numbers; None accepts numbers only.
    fitted : FittedRules or None, default None
        The rules of an earlier fit, for a prediction. They take the place of `rules`.
    csv, graph_csv : CsvFormat or None, default None
        How the text files of the table and of the graph are written.

    Returns
    -------
    PartyInput

    Raises
    ------
    DataError
        A file cannot be used; the error names party, file, line or row, and column.
    ParameterError
        A parameter does not fit the kind of a file.

    Examples
    --------
    >>> from kcagc.data import read_party, write_text
    >>> write_text("bank.csv", "id,age\\nbob,27\\nann,41\\n")
    >>> write_text("edges.csv", "source,target\\nann,bob\\n")
    >>> data = read_party("bank.csv", "edges.csv", party="bank", id_column="id")
    >>> data.graph.ids.values, data.features.tolist()
    (['ann', 'bob'], [[41.0], [27.0]])
    """
    asked = TableRules() if rules is None else rules
    schema = asked.schema() if fitted is None else fitted.schema()
    try:
        table = read_features(features, party=party, id_column=id_column, ids=feature_ids, schema=schema, csv=csv)
    except DataError as error:
        if error.problems and node_list is None and graph is not None:  # report that of the graph, too
            from kcagc.data.node_lists import table_ids  # noqa: PLC0415 - only for an error

            own = partial(table_ids, features, party=party, id_column=id_column, feature_ids=feature_ids, csv=csv)
            read = partial(_read_edges, graph, party, columns=(source, target, weight), ids=graph_ids, csv=graph_csv)
            raise _with_problem_of_graph(error, own, read) from None
        raise
    n_read, listed = table.n_rows, None
    if node_list is not None:
        from kcagc.data.node_lists import listed_rows, read_ids  # noqa: PLC0415 - many runs have no node list

        if table.ids is None:
            raise ParameterError(
                f"node_list: {features} has no ids to look up in {node_list}; name the column that holds them "
                "(id_column), or for a matrix the file (feature_ids)"
            )
        listed = read_ids(node_list, party=party, known=table.ids)
        nodes = ExpectedNodes.listed(listed.take(listed.sorted_rows()))
        file = InputFile.named(feature_ids or features, party, (*LISTS, *MATRICES))
        table = table.selected(listed_rows(table.ids, nodes, file), nodes.ids)
    else:
        if table.ids is not None:
            order = table.ids.sorted_rows()
            table = table.selected(order, table.ids.take(order))
        nodes = ExpectedNodes.of(table.n_rows if table.ids is None else table.ids)
    found, edges_left_out = Graph.without_edges(table.n_rows), 0
    if graph is not None:
        found, edges_left_out = _read_edges(graph, party, nodes, (source, target, weight), graph_ids, graph_csv)
    preprocessing, made = asked.fit_apply(table) if fitted is None else (fitted, fitted.apply(table))
    return PartyInput(
        Graph(found.adjacency, table.ids),
        made,
        preprocessing.feature_names(),
        len(preprocessing.columns),
        preprocessing,
        rules=asked if fitted is None else None,
        weights=preprocessing.column_weights(),
        listed=None if listed is None else len(listed),
        rows_left_out=n_read - (table.n_rows - table.n_filled_in),
        rows_filled_in=table.n_filled_in,
        edges_left_out=edges_left_out,
    )


def _with_problem_of_graph(error: DataError, own: Callable[[], NodeIds], read: Callable[..., Any]) -> DataError:
    """Return the error about a table with the problem of the graph, if the ids of the table can be read."""
    try:
        nodes = ExpectedNodes.of(own())
    except (DataError, ParameterError):
        return error
    try:
        read(nodes=nodes)
    except DataError as other:
        more = other.problems or ({"kind": "graph", "column": None, "count": 1, "examples": [], "do": str(other)},)
        return DataError(f"{error.args[0]}\n{other}", party=error.party, problems=(*error.problems, *more))
    return error


@dataclass(frozen=True, eq=False)
class ExpectedNodes:
    """The nodes that a graph file may name. Another node is an error; with `only`, it is left out with its edges."""

    ids: NodeIds
    described: str
    whose: str = "the features'"
    only: bool = False
    named: bool = True

    @classmethod
    def of(cls, nodes: NodeIds | int) -> ExpectedNodes:
        """Take the ids of the features, or the number of their rows."""
        if isinstance(nodes, NodeIds):
            if len(nodes) == 0:
                raise DataError("nodes: there are none")
            return cls(nodes, f"the ids of the features are {kind_and_example(nodes)}")
        check_count("nodes", nodes)
        return cls(
            NodeIds.numbered(nodes), f"the features have no ids, so nodes are called 0 to {nodes - 1}", named=False
        )

    @classmethod
    def listed(cls, nodes: NodeIds) -> ExpectedNodes:
        """Take the ids of a node list."""
        return cls(nodes, f"the ids of the node list are {kind_and_example(nodes)}", "the node list's", only=True)


def kind_and_example(ids: NodeIds) -> str:
    """Describe ids with an example, so that a reader sees two spellings side by side."""
    return f"{ids.kind} (such as {quoted(ids.values[0])})"


def read_graph(
    path: PathLike,
    *,
    party: str,
    nodes: NodeIds | int,
    source: str = "source",
    target: str = "target",
    weight: str | None = None,
    ids: PathLike | None = None,
    csv: CsvFormat | None = None,
) -> Graph:
    """Read a graph, with its nodes in the order of `nodes`.

    Parameters
    ----------
    path : str or path
        A table (`.csv`, `.tsv`, `.parquet`) with a row for each edge, in either direction or in both, or a matrix
        (`.npz`, `.mtx`) with a row for each node.
    party : str
        Name of the party, for errors.
    nodes : NodeIds or int
        The ids of the features, or the number of their rows.
    source, target : str, default "source", "target"
        The columns of an edge list.
    weight : str or None, default None
        The column with edge weights; None gives every edge the weight 1.
    ids : str, path or None, default None
        The file of one column with the ids of the rows of a matrix. None: rows are called 0, 1, 2, ...
    csv : CsvFormat or None, default None
        How a text file is written.

    Returns
    -------
    Graph

    Raises
    ------
    DataError
        The file cannot be used; the error names party, file, line or row, and column.
    ParameterError
        `ids` was given for an edge list, or two columns are the same.

    Examples
    --------
    >>> from kcagc.data import read_graph, write_text
    >>> write_text("edges.csv", "source,target\\n0,1\\n1,2\\n")
    >>> read_graph("edges.csv", party="bank", nodes=3)
    Graph(3 nodes, 2 edges)
    """
    graph, _ = _read_edges(path, party, ExpectedNodes.of(nodes), (source, target, weight), ids, csv)
    return Graph(graph.adjacency, nodes if isinstance(nodes, NodeIds) else None)


def _read_edges(
    path: PathLike,
    party: str,
    nodes: ExpectedNodes,
    columns: tuple[str, str, str | None],
    ids: PathLike | None,
    csv: CsvFormat | None,
) -> tuple[Graph, int]:
    """Read the edges between `nodes`, and count the edges that were left out."""
    source, target, weight = columns
    file = InputFile.named(path, party, (*TABLES, *MATRICES))
    if file.kind in MATRICES:
        from kcagc.data.matrices import matrix_graph  # noqa: PLC0415 - few parties have matrices

        return matrix_graph(file, ids, nodes)
    if ids is not None:
        raise ParameterError(f"ids: {path} is a list of edges, which name their nodes; ids are for a matrix")
    if source == target or weight in (source, target):
        raise ParameterError(f"source, target, weight: must be different columns, not {list(columns)}")
    # A text file does not say whether 12 is a number or a string, so it is of the kind that the features have.
    wanted = Wanted((source, target), None if weight is None else Schema.only(weight), nodes.ids.are_text, "graph")
    table = read_table(path, wanted, party=party, csv=csv)
    ends = edge_ends(table, source, nodes), edge_ends(table, target, nodes)
    _check_rows(table, (source, target), ends, nodes)
    inside = (ends[0] >= 0) & (ends[1] >= 0)
    if table.n_rows and not inside.any():
        example = quoted(table.keys[source][0])
        message = f"none of the {table.n_rows:,} edges joins two nodes of the list (the first begins at {example}"
        raise file.error(f"{message}; {nodes.described}); {SAME_WAY}")
    weights = np.ones(table.n_rows) if weight is None else table.numbers[:, 0]
    for row in np.flatnonzero(weights < 0)[:1].tolist():
        raise table.error(row, str(weight), f"the weight is negative ({weights[row]:g}); weights must be 0 or more")
    try:
        graph = Graph.from_edges(ends[0][inside], ends[1][inside], weights[inside], n_nodes=len(nodes.ids))
    except DataError:
        raise _conflict(table, ends, weights, inside) from None
    return graph, int(np.count_nonzero(~inside))


def edge_ends(table: Table, column: str, nodes: ExpectedNodes) -> IntArray:
    """Return the node of each edge end; -1 for a node that is left out."""
    values = table.keys[column]
    if isinstance(values, list) != nodes.ids.are_text:
        row = 0
        if isinstance(values, list) and table.origin.unit == "line":  # in a text file, one string makes all strings
            row = next((row for row, value in enumerate(values) if whole_numbers([value]) is None), 0)
        kind = "a string" if isinstance(values, list) else "a number"
        message = f"the id {quoted(values[row])} is {kind}, but {nodes.described}"
        raise table.error(row, column, f"{message}; write them the same way in both files")
    return nodes.ids.find(values)


def _check_rows(table: Table, columns: tuple[str, str], ends: tuple[IntArray, IntArray], nodes: ExpectedNodes) -> None:
    """Raise an error that counts the nodes of an edge list for which the features have no row."""
    unknown = (ends[0] < 0) | (ends[1] < 0)
    if nodes.only or not unknown.any():
        return
    first: dict[Any, tuple[int, str]] = {}
    for row in np.flatnonzero(unknown).tolist():
        for column, end in zip(columns, ends, strict=True):
            if end[row] < 0:
                first.setdefault(table.keys[column][row], (row, column))
    all_nodes = {node for column in columns for node in np.asarray(table.keys[column], dtype=object).tolist()}
    node, (row, column) = next(iter(first.items()))
    others = [f"{quoted(other)} in {table.origin.place(where)}" for other, (where, _) in list(first.items())[1:]]
    also = f", nor for {listed(others, at_most=_LISTED)}" if others else ""
    share = (
        f"{len(first):,} of {len(all_nodes):,} nodes of the graph have none, on {int(unknown.sum()):,} of "
        f"{table.n_rows:,} edges"
    )
    advice = (
        "To cluster all nodes of the graph: `kcagc nodes all` writes their list; set node_list to it at every party, "
        "and give the columns rules for missing values (`kcagc columns` proposes them). To cluster the nodes that all "
        "parties have: `kcagc nodes have`"
    )
    if len(first) == len(all_nodes) or not nodes.named:
        advice = "Is another column the id_column, or are the ids written in another way?"
    message = f"there is no row for node {quoted(node)}{also} ({nodes.described}). {share}. {advice}"
    raise table.error(row, column, message)


def _conflict(table: Table, ends: tuple[IntArray, IntArray], weights: FloatArray, inside: Flags) -> DataError:
    """Return the error about the first edge that is repeated with another weight."""
    low, high = np.minimum(*ends), np.maximum(*ends)
    earlier = first_rows(low * (high.max() + 1) + high)
    row = int(np.argmax(inside & (weights != weights[earlier])))
    first = int(earlier[row])
    message = f"the edge is already in {table.origin.place(first)}, with the weight {weights[first]}"
    advice = "give each edge one weight"
    return table.error(row, table.number_columns[0], f"{message} instead of {weights[row]}; {advice}")
