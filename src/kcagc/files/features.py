"""A party's features: a table with names for its columns, or a matrix, which may be sparse and stays so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from kcagc._types import Features
from kcagc.errors import DataError, ParameterError
from kcagc.files.delimited import read_delimited
from kcagc.files.matrix import read_matrix
from kcagc.files.names import node_ids, read_ids
from kcagc.files.opening import MATRICES, TABLES, InputFile, PathLike
from kcagc.files.parquet import read_parquet
from kcagc.files.raw import RawTable
from kcagc.files.reading import Reading
from kcagc.files.table import Table, Wanted
from kcagc.graph.ids import NodeIds, canonical_csr, entry_at
from kcagc.text import quoted


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Finite float64 `values`, dense or CSR, a row for each node; `ids` is None where rows are called 0, 1, 2, ..."""

    values: Features
    ids: NodeIds | None
    columns: list[str]


@dataclass(frozen=True)
class _MatrixRows:
    """The places of a matrix, whose columns have numbers for names."""

    file: InputFile

    def error(self, row: int, column: str, message: str) -> DataError:
        return self.file.error(f"row {row}, column {column} (counted from 0): {message}")

    def lacking(self, node: object, column: str, message: str) -> DataError:
        return self.file.error(f"there is no row for node {quoted(node)}; column {column}: {message}")


def read_features(
    path: PathLike, *, party: str, id_column: str | None = None, ids: PathLike | None = None
) -> FeatureTable:
    """Read a party's features, rows in the order of the file, every cell a finite number.

    In a table (`.csv`, `.tsv`, `.parquet`) `id_column` names the nodes and every other column is a feature. The rows of
    a matrix (`.npz`, `.mtx`) are named by the one-column file `ids`. Without either, rows are called 0, 1, 2, ...
    """
    table = read_raw(path, party=party, id_column=id_column, ids=ids)
    return FeatureTable(table.numbers, table.ids, table.columns)


def read_raw(
    path: PathLike,
    *,
    party: str,
    id_column: str | None = None,
    ids: PathLike | None = None,
    reading: Reading | None = None,
) -> RawTable:
    """Read a party's features as `read_features` does, text and gaps included where `reading` has them."""
    how = Reading() if reading is None else reading
    file = InputFile.named(path, party, (*TABLES, *MATRICES))
    if file.kind in MATRICES:
        if id_column is not None:
            raise ParameterError(f"id_column: {path} is a matrix without named columns; give ids, a file with the ids")
        return _matrix(file, ids, how)
    if ids is not None:
        raise ParameterError(f"ids: {path} is a table; give id_column, the column that holds its ids")
    table = read_columns(file, Wanted(names=() if id_column is None else (id_column,), reading=how))
    named = None if id_column is None else node_ids(table, id_column)
    rows = np.arange(table.n_rows)
    return RawTable([*table.columns, *table.texts], table.columns, table.numbers, table.texts, rows, named, table)


def read_columns(file: InputFile, wanted: Wanted) -> Table:
    """Read some columns of a table of either kind."""
    return read_parquet(file, wanted) if file.kind == "parquet" else read_delimited(file, wanted)


def _matrix(file: InputFile, ids: PathLike | None, reading: Reading) -> RawTable:
    given = read_matrix(file)
    rows, width = given.shape
    if rows == 0 or width == 0:
        raise file.error(f"there are no {'columns' if rows else 'rows'}: the shape is {rows} × {width}")
    exact = given.astype(np.float64, copy=False)
    values = canonical_csr(exact) if sparse.issparse(exact) else np.ascontiguousarray(exact)
    columns, gaps = _matrix_columns(file, width, reading)
    if len(columns) < width:
        values = values[:, [int(name) for name in columns]]
    _check_matrix(file, values, columns, gaps)
    known = None if ids is None else read_ids(ids, file.party, file, rows)
    return RawTable(columns, columns, values, {}, np.arange(rows), known, _MatrixRows(file))


def _matrix_columns(file: InputFile, width: int, reading: Reading) -> tuple[list[str], set[str]]:
    """Give the columns that are kept, called by their numbers, and those that may have gaps."""
    names = [str(column) for column in range(width)]
    for name in reading.named.keys() - set(names):
        raise file.error(f'there is no column {name!r}; columns are called "0" to "{width - 1}"')
    cells = {name: reading.of(name) for name in names}
    for name, one in cells.items():
        if one is None:
            raise file.error(f"column {name!r} was not in the matrix that was fitted")
        if one.kind == "text":
            raise file.error(f"column {name!r} cannot be categorical: a matrix holds numbers only")
    kept = [name for name, one in cells.items() if one is not None and one.kind != "drop"]
    if not kept:
        raise file.error("all columns are dropped by their rules: nothing is left to cluster by")
    return kept, {name for name, one in cells.items() if one is not None and one.gaps}


def _check_matrix(file: InputFile, values: Features, columns: list[str], gaps: set[str]) -> None:
    entries = values.data if sparse.issparse(values) else values.ravel()
    for place in np.flatnonzero(~np.isfinite(entries)).tolist():
        row, column = entry_at(values, place)
        missing = bool(np.isnan(entries[place]))
        if missing and columns[column] in gaps:
            continue
        problem = "missing (NaN)" if missing else "infinite"
        raise _MatrixRows(file).error(row, columns[column], f"the value is {problem}")
