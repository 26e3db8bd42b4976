"""What a cell of a text file means, where nothing but its letters says so."""

from __future__ import annotations

import math
import re
from array import array

import numpy as np

from kcagc._types import IntArray
from kcagc.errors import DataError
from kcagc.files.opening import InputFile
from kcagc.files.table import FINITE, Names, Table, Texts
from kcagc.text import quoted

_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none"}
_TRUTH = {"true": 1.0, "false": 0.0}


class IdColumn:
    """Ids that arrive in pieces: numbers while all are whole numbers as one writes them, otherwise strings.

    "7" is a number. "007", "+7" and "7.0" are not, because as numbers they could not be told from "7"; one of them
    makes the whole column strings.
    """

    def __init__(self, *, as_text: bool) -> None:
        self._as_text = as_text
        self._whole = not as_text  # so far
        self._numbers: list[IntArray] = []
        self._texts: list[str] = []

    def add(self, cells: list[str]) -> None:
        """Take some more cells."""
        if self._whole:
            numbers = whole_numbers(cells)
            if numbers is not None:
                self._numbers.append(numbers)
                return
            self._whole = False
            self._texts = [str(value) for piece in self._numbers for value in piece.tolist()]
        self._texts += cells

    def values(self) -> Names:
        """Give all of them."""
        if not self._whole:
            return self._texts
        return np.concatenate(self._numbers) if self._numbers else np.empty(0, dtype=np.int64)

    def check(self, table: Table, name: str) -> None:
        """Refuse a cell without an id; "NA" is one where all other ids are numbers, and elsewhere a name."""
        for row, text in enumerate(self._texts):
            if not text or text.isspace():
                raise table.error(row, name, "the id is missing")
        missing = [] if self._as_text else [row for row, text in enumerate(self._texts) if text.lower() in _MISSING]
        if missing:
            absent = set(missing)
            others = [text for row, text in enumerate(self._texts) if row not in absent]
            if others and whole_numbers(others) is not None:
                word = quoted(self._texts[missing[0]])
                raise table.error(missing[0], name, f"the id is missing ({word}, and all other ids are numbers)")


def whole_numbers(cells: list[str]) -> IntArray | None:
    """Give the numbers if each cell is one, written in the one way that a number is printed."""
    try:
        numbers = list(map(int, cells))
        return np.array(numbers, dtype=np.int64) if list(map(str, numbers)) == cells else None
    except (ValueError, OverflowError):
        return None


class Numbers:
    """Numbers that arrive row by row; the first cell that is none ends it, with its line and column.

    In the columns of `gaps` a cell may be missing, which makes it NaN.
    """

    def __init__(self, file: InputFile, columns: list[tuple[int, str]], gaps: frozenset[str] = frozenset()) -> None:
        self.values = array("d")
        self._file = file
        self._columns = columns
        self._gaps = gaps
        self._truth: set[str] = set()  # columns of true and false
        self._begun: set[str] = set()  # columns that have had a value

    def add(self, line: int, cells: list[str]) -> None:
        """Take the cells of one line."""
        for place, name in self._columns:
            text = cells[place].strip()
            if name in self._gaps and text.lower() in _MISSING:
                self.values.append(math.nan)
                continue
            try:
                # as numpy's reader has it: Python's float would also take 1_000 and digits of other scripts
                if "_" in text or not text.isascii():
                    raise ValueError
                value = float(text)
                if name in self._truth:
                    raise self._mixed(line, name, text)
            except DataError:
                raise
            except ValueError:
                value = self._word(line, name, text)
            self._begun.add(name)
            self.values.append(value)

    def _word(self, line: int, name: str, text: str) -> float:
        value = _TRUTH.get(text.lower())
        if value is None:
            problem = "the value is missing" + (f" ({quoted(text)})" if text else "")
            if text.lower() not in _MISSING:
                problem = f"{quoted(text)} is not a number" + self._hint(name, text)
            raise self._file.error(f"line {line}, column {name!r}: {problem}; {FINITE}")
        if name not in self._begun:
            self._truth.add(name)
        elif name not in self._truth:
            raise self._mixed(line, name, text)
        return value

    def _hint(self, name: str, text: str) -> str:
        if re.fullmatch(r"[-+]?\d+,\d+", text):
            return f" (write {text.replace(',', '.')})"
        if (0, name) in self._columns:
            return " (if this column names the nodes, set id_column to it)"
        return ' (a column of words needs a rule, kind = "categorical" or "drop")'

    def _mixed(self, line: int, name: str, text: str) -> DataError:
        return self._file.error(
            f"line {line}, column {name!r}: {quoted(text)} in a column that begins with "
            f"{'true or false' if name in self._truth else 'numbers'}; write 1 and 0 for true and false"
        )


def texts_of(cells: list[str]) -> Texts:
    """Give text as it is written; only a cell without a letter is missing, because "NA" may be Namibia."""
    return [None if not cell or cell.isspace() else cell for cell in cells]


def csv_cell(text: str) -> str:
    """Write a text as a cell of a CSV file, in quotes where it needs them."""
    return '"' + text.replace('"', '""') + '"' if re.search(r'[,"\r\n]', text) else text
