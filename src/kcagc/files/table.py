"""A table out of a file, CSV or Parquet alike: columns of ids, of numbers and of text, and where each row stood."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.errors import DataError
from kcagc.files.opening import InputFile
from kcagc.files.reading import Cells, Reading
from kcagc.text import quoted

Names: TypeAlias = IntArray | list[str]
Texts: TypeAlias = list[str | None]

FINITE = "every cell needs a finite number, or its column a rule for what is missing"
PRESENT = "fill it in, or give its column a rule for what is missing"
_LISTED = 20  # columns that a message lists


@dataclass(frozen=True)
class Wanted:
    """Which columns to read: those with node ids (None: the only one), and those with numbers (None: all the others).

    `as_text` leaves ids in a CSV file as they are written, for comparing them with ids that are strings. Where all
    other columns are read, `reading` says how.
    """

    names: tuple[str, ...] | None = ()
    numbers: tuple[str, ...] | None = None
    as_text: bool = False
    reading: Reading = field(default_factory=Reading)


@dataclass(frozen=True)
class Columns:
    """The columns of a header that are read, by what they hold; cells may be missing in those of `gaps`."""

    names: list[str]
    numbers: list[str]
    texts: list[str] = field(default_factory=list)
    gaps: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Table:
    """What was read: `names[column]` are ids, `numbers` has a column for each of `columns`, `texts` are as written.

    A number that is missing is NaN, and a text None.
    """

    file: InputFile
    names: dict[str, Names]
    columns: list[str]
    numbers: FloatArray
    lines: IntArray | int  # where each row stood, or where the first did, the others following it
    word: str  # what a place is called: "line" of a text, "row" of a Parquet file
    texts: dict[str, Texts] = field(default_factory=dict)

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

    def lacking(self, node: object, column: str, message: str) -> DataError:
        """Give the error that says `message` about a column of a node that has no row."""
        return self.file.error(f"there is no row for node {quoted(node)}; column {column!r}: {message}")


def checked(table: Table, gaps: Iterable[str] = ()) -> Table:
    """Refuse a table without rows, infinite numbers, and cells that are missing outside of the columns in `gaps`."""
    if table.n_rows == 0:
        raise table.file.error("there are no rows below the header" if table.word == "line" else "there are no rows")
    allowed = set(gaps)
    for column, name in enumerate(table.columns):  # by column: the test of a whole table would be a second table
        values = table.numbers[:, column]
        wrong = np.flatnonzero(np.isinf(values) if name in allowed else ~np.isfinite(values))
        if wrong.size:
            problem = f"the value is {'missing' if np.isnan(values[wrong[0]]) else 'infinite'}"
            raise table.error(int(wrong[0]), name, f"{problem}{_more(wrong.size)}; {FINITE}")
    for name, texts in table.texts.items():
        absent = [] if name in allowed else [row for row, text in enumerate(texts) if text is None]
        if absent:
            raise table.error(absent[0], name, f"the value is missing{_more(len(absent))}; {PRESENT}")
    return table


def _more(count: int) -> str:
    return f" (and {count - 1} more in this column)" if count > 1 else ""


def columns_of(file: InputFile, header: list[str], wanted: Wanted) -> Columns:
    """Check a header, and give the columns that hold ids, numbers and text."""
    unnamed = [number for number, name in enumerate(header, start=1) if not name.strip()]
    if unnamed:
        raise file.error(f"column {unnamed[0]} has no name in the header; a saved index, perhaps? Name it")
    repeated = [name for name, count in Counter(header).items() if count > 1]
    if repeated:
        where = [number for number, name in enumerate(header, start=1) if name == repeated[0]]
        raise file.error(f"columns {where[0]} and {where[1]} are both called {quoted(repeated[0])}; rename one")
    if wanted.names is None:
        if len(header) != 1:
            raise file.error(f"there must be one column, the ids of the rows, but there are {len(header)}")
        return Columns(header, [])
    asked = wanted.reading.named if wanted.numbers is None else wanted.numbers
    for name in (*wanted.names, *asked):
        if name not in header:
            raise file.error(f"there is no column {name!r}; {_existing(name, header)}")
    if wanted.numbers is not None:
        return Columns(list(wanted.names), list(wanted.numbers))
    others = [name for name in header if name not in wanted.names]
    if not others:
        raise file.error(f"there are no feature columns, only {', '.join(map(quoted, header)) or 'nothing'}")
    return _features(file, list(wanted.names), others, wanted.reading)


def _features(file: InputFile, names: list[str], others: list[str], reading: Reading) -> Columns:
    cells: dict[str, Cells] = {}
    for name in others:
        found = reading.of(name)
        if found is None:
            raise file.error(f"column {name!r} was not in the table that was fitted; take it out, or fit anew")
        cells[name] = found
    for name in set(names) & set(reading.named):
        raise file.error(f"column {name!r} holds the ids of the nodes, and cannot be a feature with a rule as well")
    used = {name: one for name, one in cells.items() if one.kind != "drop"}
    if not used:
        raise file.error("all columns are dropped by their rules: nothing is left to cluster by")
    return Columns(
        names,
        [name for name, one in used.items() if one.kind == "number"],
        [name for name, one in used.items() if one.kind == "text"],
        frozenset(name for name, one in used.items() if one.gaps),
    )


def _existing(name: str, header: list[str]) -> str:
    if len(header) == 1 and (found := re.search(r"[;\t|]", header[0])):
        return f"the header is {quoted(header[0])}: separate columns by commas, not by {found.group()!r}"
    folded = {column.strip().casefold(): column for column in header}
    close = difflib.get_close_matches(name.strip().casefold(), folded, n=1)
    listed = ", ".join(map(quoted, header[:_LISTED])) + (", ..." if len(header) > _LISTED else "")
    return f"there are {listed}" + (f"; did you mean {folded[close[0]]!r}?" if close else "")
