"""Node lists that organisations agree on: the nodes that a table, a graph or all tables have, and a list in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kcagc._types import IntArray
from kcagc.data.csv_format import CsvFormat
from kcagc.data.files import LISTS, MATRICES, PRIVATE, TABLES, InputFile, PathLike, csv_text, write_text
from kcagc.data.party_files import ExpectedNodes, edge_ends, kind_and_example
from kcagc.data.table import Wanted
from kcagc.data.table_files import read_table
from kcagc.errors import DataError, ParameterError
from kcagc.graph.ids import NodeIds
from kcagc.text import quoted


def present_nodes(
    features: PathLike,
    graph: PathLike,
    *,
    party: str,
    id_column: str | None = None,
    feature_ids: PathLike | None = None,
    source: str = "source",
    target: str = "target",
    graph_ids: PathLike | None = None,
    csv: CsvFormat | None = None,
    graph_csv: CsvFormat | None = None,
) -> NodeIds:
    """Return the nodes of a graph file for which a table has a row, sorted; other ids of the table are not returned.

    Parameters
    ----------
    features, graph, party, id_column, feature_ids, source, target, graph_ids, csv, graph_csv
        As for `read_party`. Only ids are read, so wrong cells of other columns do not matter.

    Returns
    -------
    NodeIds

    Raises
    ------
    DataError
        A file cannot be used, or the table has none of the nodes.
    ParameterError
        The rows of a file have no ids.

    Examples
    --------
    >>> from kcagc.data import present_nodes, write_text
    >>> write_text("bank.csv", "id,age\\nbob,27\\nann,41\\nzoe,35\\n")
    >>> write_text("edges.csv", "source,target\\nann,bob\\nbob,cid\\n")
    >>> present_nodes("bank.csv", "edges.csv", party="bank", id_column="id").values
    ['ann', 'bob']
    """
    file = InputFile.named(features, party, (*TABLES, *MATRICES))
    ids = table_ids(features, party=party, id_column=id_column, feature_ids=feature_ids, csv=csv)
    if InputFile.named(graph, party, (*TABLES, *MATRICES)).kind not in MATRICES:
        table = read_table(graph, Wanted((source, target), None, ids.are_text, "graph"), party=party, csv=graph_csv)
        nodes = replace(ExpectedNodes.of(ids), only=True)
        found = np.concatenate([edge_ends(table, column, nodes) for column in (source, target)])
    elif graph_ids is not None:
        where = f"{party}: {graph_ids}"
        named = read_ids(graph_ids, party=party)
        found = named.alignment(ids, where=where, whose="the features'", missing=True, extra=True)
    else:
        raise ParameterError(f"{party}: {graph}: is a matrix whose rows have no ids; name their file (graph_ids)")
    rows = np.unique(found[found >= 0])
    if not rows.size:
        raise file.error("has a row for none of the nodes of the graph")
    present = ids.take(rows)
    return present.take(present.sorted_rows())


def graph_nodes(
    graph: PathLike,
    *,
    party: str,
    source: str = "source",
    target: str = "target",
    graph_ids: PathLike | None = None,
    graph_csv: CsvFormat | None = None,
) -> NodeIds:
    """Return all nodes of a graph file, sorted.

    Parameters
    ----------
    graph, party, source, target, graph_ids, graph_csv
        As for `read_party`. A matrix without `graph_ids` has the nodes 0, 1, 2, ...

    Returns
    -------
    NodeIds

    Raises
    ------
    DataError
        A file cannot be used.

    Examples
    --------
    >>> from kcagc.data import graph_nodes, write_text
    >>> write_text("edges.csv", "source,target\\nann,bob\\nbob,cid\\n")
    >>> graph_nodes("edges.csv", party="bank").values
    ['ann', 'bob', 'cid']
    """
    file = InputFile.named(graph, party, (*TABLES, *MATRICES))
    if file.kind in MATRICES:
        from kcagc.data.matrices import read_matrix, row_ids  # noqa: PLC0415 - few parties have matrices

        size = read_matrix(file).shape[0]
        found = NodeIds.numbered(size) if graph_ids is None else row_ids(graph_ids, file, size)
        return found.take(found.sorted_rows())
    ends = _both_ends(graph, party, (source, target), graph_csv)
    return NodeIds.of(sorted({one for end in ends for one in end}), where=f"{party}: {graph}")


def _both_ends(
    graph: PathLike, party: str, columns: tuple[str, str], graph_csv: CsvFormat | None
) -> list[list[int] | list[str]]:
    """Return the ids of both ends of all edges, of one kind: if one column holds strings, both do."""
    for as_text in (False, True):
        table = read_table(graph, Wanted(columns, None, as_text, "graph"), party=party, csv=graph_csv)
        keys = [table.keys[column] for column in columns]
        if len({isinstance(one, list) for one in keys}) == 1:
            break
    return [one if isinstance(one, list) else one.tolist() for one in keys]


def common_nodes(paths: Sequence[PathLike]) -> NodeIds:
    """Return the ids that all node lists have, sorted.

    Parameters
    ----------
    paths : sequence of str or path
        Files of ids, as `write_ids` writes them.

    Returns
    -------
    NodeIds

    Raises
    ------
    DataError
        A list cannot be used, or no id is in all lists.

    Examples
    --------
    >>> from kcagc.data import common_nodes, write_text
    >>> write_text("bank-nodes.csv", "id\\nann\\nbob\\n")
    >>> write_text("shop-nodes.csv", "id\\nbob\\ncid\\n")
    >>> common_nodes(["bank-nodes.csv", "shop-nodes.csv"]).values
    ['bob']
    """
    common = read_ids(paths[0], party="node lists")
    for path in paths[1:]:
        other = read_ids(path, party="node lists", known=common)
        rows = common.alignment(other, where=str(path), whose=f"{paths[0]}'s", missing=True, extra=True)
        common = common.take(np.flatnonzero(rows >= 0))
        if not len(common):
            raise DataError(f"node lists: no id is in all {len(paths)} of them")
    return common.take(common.sorted_rows())


def write_ids(path: PathLike, ids: NodeIds) -> None:
    """Write ids as a CSV file of one column that only its owner may read: the list may be a secret.

    Parameters
    ----------
    path : str or path
        The file; an existing file is replaced.
    ids : NodeIds
        The ids.

    Examples
    --------
    >>> from kcagc.data import write_ids
    >>> from kcagc.graph.ids import NodeIds
    >>> write_ids("nodes.csv", NodeIds.of(["ann", "bob"], where="nodes"))
    """
    write_text(path, csv_text({"id": ids.values}), mode=PRIVATE)


def table_ids(
    features: PathLike,
    *,
    party: str,
    id_column: str | None,
    feature_ids: PathLike | None = None,
    csv: CsvFormat | None = None,
) -> NodeIds:
    """Return the ids of the rows of a table or a matrix, without reading another column."""
    file = InputFile.named(features, party, (*TABLES, *MATRICES))
    if file.kind in MATRICES and feature_ids is not None:
        ids = read_ids(feature_ids, party=party)
    elif file.kind not in MATRICES and id_column is not None:
        ids = read_table(features, Wanted((id_column,), None), party=party, csv=csv).node_ids(id_column)
    else:
        raise ParameterError(f"{party}: {features}: has no ids; name their column (id_column) or file (feature_ids)")
    return ids


def read_ids(path: PathLike, *, party: str, known: NodeIds | None = None) -> NodeIds:
    """Read a list of ids: a table of one column with a header, or plain text with an id on each line.

    A header that is one of the `known` ids is an error: the list has none, and would lose its first node.
    """
    file = InputFile.named(path, party, LISTS)
    table = read_table(path, Wanted(keys=None, role="other"), party=party, kinds=LISTS)
    (header,) = table.keys
    if file.kind != "txt" and known is not None and known.are_text and known.find([header])[0] >= 0:
        raise file.error(f"line 1 {quoted(header)} is an id, but must name the column; write id above all ids")
    return table.node_ids(header)


def listed_rows(ids: NodeIds, nodes: ExpectedNodes, file: InputFile) -> IntArray:
    """Return the row of each node of a node list, or -1; in a text file, an id is of the kind that the list has."""
    listed, own = nodes.ids, ids
    if own.are_text != listed.are_text and file.kind != "parquet":
        listed, own = (NodeIds(list(map(str, one.tolist())), where="ids") for one in (listed, own))
    rows = listed.alignment(own, where=f"{file.party}: {file.path}", whose=nodes.whose, missing=True, extra=True)
    if (rows < 0).all():
        raise file.error(f"none of its ids is in the node list (they are {kind_and_example(ids)}; {nodes.described})")
    return rows
