"""A party's features: a table with names for its columns, or a matrix, which may be sparse and stays so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from kcagc._types import Features
from kcagc.errors import ParameterError
from kcagc.files.delimited import read_delimited
from kcagc.files.matrix import read_matrix
from kcagc.files.names import node_ids, read_ids
from kcagc.files.opening import MATRICES, TABLES, InputFile, PathLike
from kcagc.files.parquet import read_parquet
from kcagc.files.table import Wanted
from kcagc.graph.ids import NodeIds
from kcagc.graph.matrices import canonical_csr, entry_at


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Finite float64 `values`, dense or CSR, a row for each node; `ids` is None where rows are called 0, 1, 2, ..."""

    values: Features
    ids: NodeIds | None
    columns: list[str]


def read_features(
    path: PathLike, *, party: str, id_column: str | None = None, ids: PathLike | None = None
) -> FeatureTable:
    """Read a party's features, rows in the order of the file.

    In a table (`.csv`, `.tsv`, `.parquet`) `id_column` names the nodes and every other column is a feature. The rows of
    a matrix (`.npz`, `.mtx`) are named by the one-column file `ids`. Without either, rows are called 0, 1, 2, ...
    """
    file = InputFile.named(path, party, (*TABLES, *MATRICES))
    if file.kind in MATRICES:
        if id_column is not None:
            raise ParameterError(f"id_column: {path} is a matrix without named columns; give ids, a file with the ids")
        return _matrix(file, ids)
    if ids is not None:
        raise ParameterError(f"ids: {path} is a table; give id_column, the column that holds its ids")
    read = read_parquet if file.kind == "parquet" else read_delimited
    table = read(file, Wanted(names=() if id_column is None else (id_column,)))
    return FeatureTable(table.numbers, None if id_column is None else node_ids(table, id_column), table.columns)


def _matrix(file: InputFile, ids: PathLike | None) -> FeatureTable:
    given = read_matrix(file)
    rows, columns = given.shape
    if rows == 0 or columns == 0:
        raise file.error(f"there are no {'columns' if rows else 'rows'}: the shape is {rows} × {columns}")
    exact = given.astype(np.float64, copy=False)
    values = canonical_csr(exact) if sparse.issparse(exact) else np.ascontiguousarray(exact)
    entries = values.data if sparse.issparse(values) else values.ravel()
    wrong = np.flatnonzero(~np.isfinite(entries))
    if wrong.size:
        row, column = entry_at(values, int(wrong[0]))
        problem = "missing (NaN)" if np.isnan(entries[wrong[0]]) else "infinite"
        raise file.error(f"row {row}, column {column} (counted from 0): the value is {problem}")
    known = None if ids is None else read_ids(ids, file.party, file, rows)
    return FeatureTable(values, known, [str(column) for column in range(columns)])
