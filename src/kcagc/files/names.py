"""Node ids in files: when a cell is a number and when a string, and no id twice."""

from __future__ import annotations

import numpy as np

from kcagc._types import IntArray
from kcagc.errors import DataError
from kcagc.files.delimited import read_delimited, read_lines
from kcagc.files.opening import LISTS, InputFile, PathLike
from kcagc.files.parquet import read_parquet
from kcagc.files.table import Names, Table, Wanted
from kcagc.graph.ids import NodeIds
from kcagc.text import quoted


def node_ids(table: Table, column: str) -> NodeIds:
    """Give a column of distinct ids; an id that comes twice is an error that names both places."""
    values = table.names[column]
    try:
        return NodeIds(values, where=column)
    except DataError:
        first, second = _repeat(values)
        message = f"the id {quoted(values[second])} is in {table.place(first)} already; every node has one row"
        raise table.error(second, column, message) from None


def read_ids(path: PathLike, party: str, matrix: InputFile, n_rows: int) -> NodeIds:
    """Read the names of a matrix's rows: one column with a header, or plain text with an id on each line."""
    file = InputFile.named(path, party, LISTS)
    table = _one_column(file)
    if table.n_rows != n_rows:
        raise file.error(f"there are {table.n_rows} ids, but {matrix.path} has {n_rows} rows")
    return node_ids(table, *table.names)


def read_id_list(path: PathLike, party: str) -> NodeIds:
    """Read ids that stand alone: one column with a header, or plain text with an id on each line."""
    table = _one_column(InputFile.named(path, party, LISTS))
    return node_ids(table, *table.names)


def _one_column(file: InputFile) -> Table:
    if file.kind == "txt":
        return read_lines(file)
    return (read_parquet if file.kind == "parquet" else read_delimited)(file, Wanted(names=None))


def kind_and_example(values: Names) -> str:
    """Say what ids are, with one of them, so that two spellings can be compared at a glance."""
    return f"{'strings' if isinstance(values, list) else 'numbers'} (such as {quoted(values[0])})"


def in_order(ids: NodeIds) -> IntArray:
    """Give the rows in the order that all parties share: numbers by size, strings by code point."""
    values = ids.values
    if isinstance(values, list):
        return np.array(sorted(range(len(values)), key=values.__getitem__), dtype=np.int64)
    return np.argsort(values, kind="stable")


def picked(ids: NodeIds, order: IntArray) -> NodeIds:
    """Give the ids of some rows."""
    values = ids.values
    return NodeIds([values[row] for row in order] if isinstance(values, list) else values[order], where="ids")


def _repeat(values: Names) -> tuple[int, int]:
    seen: dict[str | int, int] = {}
    for row, value in enumerate(values if isinstance(values, list) else values.tolist()):
        first = seen.setdefault(value, row)
        if first != row:
            return first, row
    raise AssertionError("no id comes twice")
