"""Columns of numbers: gaps filled, logarithms taken, scaled; dense or sparse, and sparse stays so."""

from __future__ import annotations

import msgspec
import numpy as np
from scipy import sparse

from kcagc._types import Features, Flags, FloatArray, IntArray, Sparse
from kcagc.errors import DataError
from kcagc.files.raw import RawTable
from kcagc.files.table import PRESENT


class KeptNumbers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was fitted to columns of numbers, an entry for each: log1p where `log` is set, less `centre`, by `divisor`.

    `fill` takes the place of what is missing, None where nothing may be; `indicator` adds a column that says where.
    """

    columns: tuple[str, ...]
    fill: tuple[float | None, ...]
    indicator: tuple[bool, ...]
    log: tuple[bool, ...]
    centre: tuple[float, ...]
    divisor: tuple[float, ...]

    def apply(self, raw: RawTable) -> tuple[Features, Sparse]:
        """Give the numbers, and the columns that say where one was missing."""
        block = picked(raw, self.columns)
        rows, columns = missing_entries(block)
        fill = np.array([np.nan if value is None else value for value in self.fill])
        refuse_gaps(raw, self.columns, rows, columns, np.isnan(fill))
        log, centre, divisor = np.array(self.log, dtype=bool), np.array(self.centre), np.array(self.divisor)
        if rows.size or log.any() or centre.any() or (divisor != 1).any():
            block = filled(block, fill)
            block = logged(raw, self.columns, block, log)
            block = scaled(block, centre, divisor)
        return block, _indicators(rows, columns, np.array(self.indicator, dtype=bool), raw.n_rows)


def picked(raw: RawTable, columns: tuple[str, ...]) -> Features:
    """Give columns of numbers by their names; those of the table itself where that is all of them."""
    if list(columns) == raw.number_columns:
        return raw.numbers
    place = {name: number for number, name in enumerate(raw.number_columns)}
    return raw.numbers[:, [place[name] for name in columns]]


def missing_entries(block: Features) -> tuple[IntArray, IntArray]:
    """Give rows and columns of the entries that are missing, by rows."""
    with np.errstate(over="ignore", invalid="ignore"):  # a sum needs no second table, as a test of every entry would
        total = (block.data if sparse.issparse(block) else block).sum()
    if not np.isnan(total):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if not sparse.issparse(block):
        rows, columns = np.nonzero(np.isnan(block))
        return rows, columns
    places = np.flatnonzero(np.isnan(block.data))
    return np.searchsorted(block.indptr, places, side="right") - 1, block.indices[places].astype(np.int64)


def refuse_gaps(raw: RawTable, names: tuple[str, ...], rows: IntArray, columns: IntArray, refused: Flags) -> None:
    """Name the first entry that is missing in a column where none may be."""
    wrong = np.flatnonzero(refused[columns])
    if wrong.size:
        row, column = int(rows[wrong[0]]), names[columns[wrong[0]]]
        raise raw.error(row, column, f"the value is missing (NaN); {PRESENT}")


def filled(block: Features, fill: FloatArray) -> Features:
    """Give a copy in which what is missing has the value of its column."""
    block = block.copy()
    if sparse.issparse(block):
        places = np.flatnonzero(np.isnan(block.data))
        block.data[places] = fill[block.indices[places]]
        return block
    rows, columns = missing_entries(block)
    block[rows, columns] = fill[columns]
    return block


def logged(raw: RawTable, names: tuple[str, ...], block: Features, log: Flags) -> Features:
    """Take log(1 + x) of some columns, in place; zero stays zero."""
    if not log.any():
        return block
    if sparse.issparse(block):
        chosen = log[block.indices]
        places = np.flatnonzero(chosen & (block.data <= -1))
        if places.size:
            row = int(np.searchsorted(block.indptr, places[0], side="right")) - 1
            raise _no_logarithm(raw, row, names[block.indices[places[0]]], block.data[places[0]])
        block.data[chosen] = np.log1p(block.data[chosen])
        return block
    for column in np.flatnonzero(log).tolist():
        low = np.flatnonzero(block[:, column] <= -1)
        if low.size:
            raise _no_logarithm(raw, int(low[0]), names[column], block[low[0], column])
        block[:, column] = np.log1p(block[:, column])
    return block


def scaled(block: Features, centre: FloatArray, divisor: FloatArray) -> Features:
    """Subtract and divide, in place; nothing is subtracted from a sparse block, which would fill it."""
    if sparse.issparse(block):
        block.data /= divisor[block.indices]
        block.eliminate_zeros()
        return block
    if centre.any():
        block -= centre
    if (divisor != 1).any():
        block /= divisor
    return block


def _indicators(rows: IntArray, columns: IntArray, wanted: Flags, n_rows: int) -> Sparse:
    place = np.cumsum(wanted) - 1
    chosen = wanted[columns]
    ends = (rows[chosen], place[columns[chosen]])
    return sparse.csr_array((np.ones(int(chosen.sum())), ends), shape=(n_rows, int(wanted.sum())))


def _no_logarithm(raw: RawTable, row: int, column: str, value: float) -> DataError:
    return raw.error(row, column, f"log1p needs values above -1, and this is {value:g}; choose another scale")
