"""Lists of nodes that organisations agree on: which of them a table has, and what several tables have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kcagc._types import IntArray
from kcagc.errors import DataError, ParameterError
from kcagc.files.atomic import PRIVATE, write_text
from kcagc.files.cells import csv_cell, whole_numbers
from kcagc.files.edges import edge_ends
from kcagc.files.features import read_columns
from kcagc.files.names import in_order, kind_and_example, node_ids, picked, read_id_list
from kcagc.files.nodes import Known
from kcagc.files.opening import MATRICES, TABLES, InputFile, PathLike
from kcagc.files.table import Wanted
from kcagc.graph.ids import NodeIds


def matched(ids: NodeIds, known: Known, file: InputFile) -> IntArray:
    """Give, for each node of an agreed list, its row among `ids` of a file, or -1 where it has none.

    Nothing in a text file says whether 12 is a number or a string, so it is what the list has.
    """
    values = ids.values
    if isinstance(values, list) != known.are_text:
        if file.kind == "parquet":
            raise file.error(f"ids are {kind_and_example(values)}, but {known.said}; write them the same way in both")
        values = _numbers(values) if isinstance(values, list) else [str(value) for value in values.tolist()]
    found = known.rows(values)
    rows = np.full(len(known.ids), -1, dtype=np.int64)
    inside = np.flatnonzero(found >= 0)
    rows[found[inside]] = inside
    if not inside.size:
        raise file.error(f"none of its ids is in the node list (they are {kind_and_example(values)}; {known.said})")
    return rows


def _numbers(texts: list[str]) -> IntArray:
    """Give whole numbers; what is none cannot be in a list of numbers, and becomes one that is in no list."""
    read = [whole_numbers([text]) for text in texts]
    return np.array([np.iinfo(np.int64).min if one is None else one[0] for one in read], dtype=np.int64)


def read_present(
    features: PathLike,
    graph: PathLike,
    *,
    party: str,
    id_column: str | None = None,
    feature_ids: PathLike | None = None,
    source: str = "source",
    target: str = "target",
    graph_ids: PathLike | None = None,
) -> NodeIds:
    """Give the nodes of a graph file for which a table has a row, in order; of other ids nothing is told."""
    named = InputFile.named(features, party, (*TABLES, *MATRICES))
    if named.kind in MATRICES and feature_ids is not None:
        ids = read_id_list(feature_ids, party)
    elif named.kind not in MATRICES and id_column is not None:
        ids = node_ids(read_columns(named, Wanted((id_column,), ())), id_column)
    else:
        raise ParameterError(f"{party}: {features}: has no ids; say which column (id_column) or file (feature_ids) has")
    known = Known.of(ids)
    file = InputFile.named(graph, party, (*TABLES, *MATRICES))
    if file.kind not in MATRICES:
        found = edge_ends(file, known, source, target)
    elif graph_ids is not None:
        found = known.rows(_same_kind(read_id_list(graph_ids, party), known, graph_ids, party).values)
    else:
        raise ParameterError(f"{party}: {graph}: is a matrix whose rows have no ids; say which file has (graph_ids)")
    rows = np.unique(found[found >= 0])
    if not rows.size:
        raise named.error("has a row for none of the nodes of the graph")
    present = picked(ids, rows)
    return picked(present, in_order(present))


def _same_kind(ids: NodeIds, known: Known, path: PathLike, party: str) -> NodeIds:
    if isinstance(ids.values, list) != known.are_text:
        raise DataError(f"{path}: ids are {kind_and_example(ids.values)}, but {known.said}", party=party)
    return ids


def common_ids(paths: Sequence[PathLike]) -> NodeIds:
    """Give the ids that all lists have, in order."""
    lists = [read_id_list(path, "node lists") for path in paths]
    first = lists[0]
    for path, other in zip(paths, lists, strict=True):
        _same_kind(other, Known.of(first), path, "node lists")
    shared = set(_plain(first)).intersection(*(_plain(other) for other in lists[1:]))
    if not shared:
        raise DataError(f"node lists: no id is in all {len(lists)} of them")
    return NodeIds.of(sorted(shared), where="node lists")


def write_ids(path: PathLike, ids: NodeIds) -> None:
    """Write ids as a CSV file of one column, for its owner only: who is on it may be a secret."""
    rows = (f"{csv_cell(value) if isinstance(value, str) else value}\n" for value in _plain(ids))
    write_text(path, "".join(("id\n", *rows)), mode=PRIVATE)


def _plain(ids: NodeIds) -> list[str] | list[int]:
    return ids.values if isinstance(ids.values, list) else ids.values.tolist()
