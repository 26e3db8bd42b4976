"""A table out of a file, CSV or Parquet alike: columns of ids, columns of numbers, and where each row stood."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.errors import DataError
from kcagc.files.opening import InputFile, shown

Names: TypeAlias = IntArray | list[str]

_LISTED = 20  # columns that a message lists


@dataclass(frozen=True)
class Wanted:
    """Which columns to read: those with node ids (None: the only one), and those with numbers (None: all the others).

    `as_text` leaves ids in a CSV file as they are written, for comparing them with ids that are strings.
    """

    names: tuple[str, ...] | None = ()
    numbers: tuple[str, ...] | None = None
    as_text: bool = False


@dataclass(frozen=True, eq=False)
class Table:
    """What was read: `names[column]` are ids, `numbers` has a column for each of `columns`."""

    file: InputFile
    names: dict[str, Names]
    columns: list[str]
    numbers: FloatArray
    lines: IntArray | int  # where each row stood, or where the first did, the others following it
    word: str  # what a place is called: "line" of a text, "row" of a Parquet file

    @property
    def n_rows(self) -> int:
        """How many rows there are below the header."""
        return len(self.numbers)

    def place(self, row: int) -> str:
        """Say where a row stood in the file."""
        return f"{self.word} {self.lines + row if isinstance(self.lines, int) else self.lines[row]}"

    def error(self, row: int, column: str, message: str) -> DataError:
        """Give the error that says `message` about one cell."""
        return self.file.error(f"{self.place(row)}, column {column!r}: {message}")


def checked(table: Table) -> Table:
    """Refuse a table without rows, and numbers that are missing or infinite."""
    if table.n_rows == 0:
        raise table.file.error("there are no rows below the header" if table.word == "line" else "there are no rows")
    for column, name in enumerate(table.columns):  # by column: the test of a whole table would be a second table
        wrong = np.flatnonzero(~np.isfinite(table.numbers[:, column]))
        if wrong.size:
            value = table.numbers[wrong[0], column]
            problem = f"the value is {'missing' if np.isnan(value) else 'infinite'}"
            more = f" (and {wrong.size - 1} more in this column)" if wrong.size > 1 else ""
            raise table.error(int(wrong[0]), name, f"{problem}{more}; every cell needs a finite number")
    return table


def columns_of(file: InputFile, header: list[str], wanted: Wanted) -> tuple[list[str], list[str]]:
    """Check a header, and give the columns that hold ids and those that hold numbers."""
    unnamed = [number for number, name in enumerate(header, start=1) if not name.strip()]
    if unnamed:
        raise file.error(f"column {unnamed[0]} has no name in the header; a saved index, perhaps? Name it")
    repeated = [name for name, count in Counter(header).items() if count > 1]
    if repeated:
        where = [number for number, name in enumerate(header, start=1) if name == repeated[0]]
        raise file.error(f"columns {where[0]} and {where[1]} are both called {shown(repeated[0])}; rename one")
    if wanted.names is None:
        if len(header) != 1:
            raise file.error(f"there must be one column, the ids of the rows, but there are {len(header)}")
        return header, []
    for name in (*wanted.names, *(wanted.numbers or ())):
        if name not in header:
            raise file.error(f"there is no column {name!r}; {_existing(name, header)}")
    if wanted.numbers is not None:
        return list(wanted.names), list(wanted.numbers)
    others = [name for name in header if name not in wanted.names]
    if not others:
        raise file.error(f"there are no feature columns, only {', '.join(map(shown, header)) or 'nothing'}")
    return list(wanted.names), others


def _existing(name: str, header: list[str]) -> str:
    if len(header) == 1 and (found := re.search(r"[;\t|]", header[0])):
        return f"the header is {shown(header[0])}: separate columns by commas, not by {found.group()!r}"
    folded = {column.strip().casefold(): column for column in header}
    close = difflib.get_close_matches(name.strip().casefold(), folded, n=1)
    listed = ", ".join(map(shown, header[:_LISTED])) + (", ..." if len(header) > _LISTED else "")
    return f"there are {listed}" + (f"; did you mean {folded[close[0]]!r}?" if close else "")
