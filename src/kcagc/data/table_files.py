"""Files of tables: read CSV, TSV, Parquet and plain text into tables.

CSV files have two readers that return the same table to the last bit. The quick reader gives up on everything that it
does not understand for certain (a quote, an empty line, a cell too many, a word among numbers). The careful reader then
reads the file again, understands all of CSV, and finds the place of an error.
"""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from kcagc._types import IntArray
from kcagc.data.csv_format import CsvFormat, separator_advice
from kcagc.data.files import MATRICES, TABLES, InputFile, Kind, PathLike
from kcagc.data.problems import MOSTLY_NUMBERS, WORDS, Problems
from kcagc.data.table import (
    MISSING,
    ColumnType,
    Schema,
    Selection,
    Table,
    Texts,
    Wanted,
    blank_out,
    check_header,
    select_columns,
)
from kcagc.errors import ParameterError
from kcagc.text import count, quoted

_BLOCK = 20_000  # rows that the quick reader hands to NumPy at once
_LOGICAL = {"true": 1.0, "false": 0.0}


def read_table(
    path: PathLike,
    wanted: Wanted,
    *,
    party: str,
    kinds: tuple[Kind, ...] = TABLES,
    csv: CsvFormat | None = None,
    checked: bool = True,
) -> Table:
    """Read columns of a CSV, TSV or Parquet file, or the lines of a plain text as ids.

    Without `checked`, problems of cells are left in the table, for a caller that finds more of them.
    """
    file = InputFile.named(path, party, kinds, csv, wanted.role)
    if file.kind == "parquet":
        from kcagc.data.parquet import read_parquet  # noqa: PLC0415 - an extra, and slow to import

        table = read_parquet(file, wanted)
    elif file.kind == "txt":
        return _read_lines(file)
    else:
        table = _read_delimited(file, wanted)
    return table if not checked else table.checked((wanted.schema or Schema()).types(table.columns))


def read_features(
    path: PathLike,
    *,
    party: str,
    id_column: str | None = None,
    ids: PathLike | None = None,
    schema: Schema | None = None,
    csv: CsvFormat | None = None,
) -> Table:
    """Read the table of a party, with its rows in the order of the file.

    Parameters
    ----------
    path : str or path
        A table (`.csv`, `.tsv`, `.parquet`) or a matrix (`.npz`, `.mtx`); text files may be compressed (`.gz`).
    party : str
        Name of the party, for errors.
    id_column : str or None, default None
        The column of a table that names the nodes; every other column is a feature. None: rows are called 0, 1, ...
    ids : str, path or None, default None
        The file of one column with the ids of the rows of a matrix. None: rows are called 0, 1, ...
    schema : Schema or None, default None
        How to read each column; None reads all columns as finite numbers.
    csv : CsvFormat or None, default None
        How a text file is written.

    Returns
    -------
    Table

    Raises
    ------
    DataError
        The file cannot be used; the error names party, file, line or row, and column.
    ParameterError
        `id_column` was given for a matrix, or `ids` for a table.

    Examples
    --------
    >>> from kcagc.data import read_features, write_text
    >>> write_text("bank.csv", "id,age\\nbob,27\\nann,41\\n")
    >>> read_features("bank.csv", party="bank", id_column="id").numbers.tolist()
    [[27.0], [41.0]]
    """
    how = Schema() if schema is None else schema
    file = InputFile.named(path, party, (*TABLES, *MATRICES))
    if file.kind in MATRICES:
        from kcagc.data.matrices import matrix_table, row_ids  # noqa: PLC0415 - few parties have matrices

        if id_column is not None:
            raise ParameterError(f"id_column: {path} is a matrix without named columns; give ids, a file with the ids")
        table = matrix_table(file, how)
        return table if ids is None else replace(table, ids=row_ids(ids, file, table.n_rows))
    if ids is not None:
        raise ParameterError(f"ids: {path} is a table; give id_column, the column that holds its ids")
    wanted = Wanted(() if id_column is None else (id_column,), how)
    table = read_table(path, wanted, party=party, csv=csv, checked=False)
    names = None if id_column is None else table.distinct_ids(id_column)
    table = table.checked(how.types(table.columns))
    return table if names is None else replace(table, ids=names)


def _read_lines(file: InputFile) -> Table:
    with file.lines() as stream:
        lines = [line.rstrip("\r\n") for line in stream]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise file.error("the file is empty")
    table, ids = Table(file.origin("line", 1), [], np.empty((len(lines), 0))), IdColumn(as_text=False)
    ids.add(lines)
    ids.store(table, "id")
    return table


def _read_delimited(file: InputFile, wanted: Wanted) -> Table:
    with file.lines() as lines:
        header, _ = read_header(file, lines)
    check_header(header, file.origin())
    columns = select_columns(header, wanted, file.origin())
    try:
        table = _quick(file, columns, as_text=wanted.text_keys)
    except ValueError:  # this includes the errors of NumPy: only the careful reader knows the place of an error
        table = _careful(file, columns, as_text=wanted.text_keys)
    blank_out(table.numbers, table.number_columns, columns.types)
    return table


def read_header(file: InputFile, lines: Iterator[str]) -> tuple[list[str], int]:
    """Return the names of the columns, and the number of the last line of the header."""
    reader = csv.reader(lines, delimiter=file.delimiter, strict=True)
    try:
        header = next(reader, None)
    except csv.Error as error:
        raise file.error(f"line 1: {error}") from error
    if header is None:
        raise file.error("the file is empty; its first line must name the columns")
    if not header:
        raise file.error("line 1 is empty; it must name the columns")
    if _is_data(header):
        raise file.error(f"line 1 holds numbers ({quoted(', '.join(header))}) and must name the columns")
    return header, reader.line_num


def _is_data(header: list[str]) -> bool:
    """Return whether all names are numbers, other than the consecutive numbers that programs give unnamed columns."""
    if not all(re.fullmatch(r"\s*[-+]?[0-9.]+(e[-+]?[0-9]+)?\s*", name, flags=re.IGNORECASE) for name in header):
        return False
    return not header[0].isdecimal() or header != [str(int(header[0]) + step) for step in range(len(header))]


class _UnusualError(ValueError):
    """The quick reader leaves the file to the careful reader."""


def _quick(file: InputFile, columns: Selection, *, as_text: bool) -> Table:
    if columns.texts or not file.csv.plain:
        raise _UnusualError
    keys, numbers = columns.keys, columns.numbers
    ids = {name: IdColumn(as_text=as_text) for name in keys}
    blocks = [np.empty((0, len(numbers)))]
    fields = [("keys", object, (len(keys),)), ("numbers", np.float64, (len(numbers),))]
    kinds = np.dtype([field for field in fields if field[2] != (0,)])
    separator = file.delimiter
    with file.lines() as stream:
        header, last = read_header(file, stream)
        if last != 1:
            raise _UnusualError
        places = {name: place for place, name in enumerate(header)}
        wanted = [places[name] for name in (*keys, *numbers)]
        lines = _plain_lines(stream, separator, len(header))
        while some := list(islice(lines, _BLOCK)):
            block = np.loadtxt(some, delimiter=separator, dtype=kinds, usecols=wanted, comments=None, ndmin=1)
            for place, name in enumerate(keys):
                ids[name].add(block["keys"][:, place].tolist())
            blocks.append(np.ascontiguousarray(block["numbers"]) if numbers else np.empty((len(block), 0)))
    table = Table(file.origin("line", 2), numbers, np.concatenate(blocks))
    for name, column in ids.items():
        column.store(table, name)
    return table


def _plain_lines(lines: Iterator[str], separator: str, width: int) -> Iterator[str]:
    """Pass on lines in which every separator separates two cells; empty lines may only end the file."""
    for line in lines:
        if not line.strip("\r\n"):
            if any(rest.strip("\r\n") for rest in lines):
                raise _UnusualError
            return
        if '"' in line or line.count(separator) != width - 1:
            raise _UnusualError
        yield line


def _careful(file: InputFile, columns: Selection, *, as_text: bool) -> Table:
    problems = Problems()
    with file.lines() as stream:
        header, last = read_header(file, stream)
        places = {name: place for place, name in enumerate(header)}
        kept: dict[str, list[str]] = {name: [] for name in (*columns.keys, *columns.texts)}
        cells_of = [(kept[name], places[name]) for name in kept]
        numbers = [NumberColumn(file, name, places[name], columns.type(name), problems) for name in columns.numbers]
        lines = array("q")
        for line, cells in delimited_records(file, stream, last, problems):
            if len(cells) != len(header):
                first = f"has {count(len(cells), 'cell')}, but the header has {len(header)}"
                advice = "" if len(cells) < len(header) else "put quotes around a cell that contains the delimiter"
                problems.add("row length", "rows", None, f"line {line}", first, advice=advice)
                continue
            for found, place in cells_of:
                found.append(cells[place])
            for column in numbers:
                column.add(cells[column.place])
            lines.append(line)
    values = np.empty((len(lines), len(numbers)))
    for place, column in enumerate(numbers):
        values[:, place] = column.finished()
    # Only an empty cell is a missing text, unless a rule lists others: "NA" may be Namibia.
    texts: dict[str, Texts] = {}
    for name in columns.texts:
        blank = columns.type(name).blank_texts
        texts[name] = [
            None if not cell or cell.isspace() or (blank and cell.strip() in blank) else cell for cell in kept[name]
        ]
    origin = file.origin("line", np.asarray(lines, dtype=np.int64))
    table = Table(origin, columns.numbers, values, texts, problems=problems)
    for name in columns.keys:
        ids = IdColumn(as_text=as_text)
        ids.add(kept[name])
        ids.store(table, name)
    return table


def delimited_records(
    file: InputFile, lines: Iterator[str], last: int, problems: Problems
) -> Iterator[tuple[int, list[str]]]:
    """Yield each record and the line in which it begins; a quoted cell may contain line ends."""
    reader = csv.reader(lines, delimiter=file.delimiter, strict=True)
    empty = None
    while True:
        line = last + reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise file.error(f"line {line}: {error}; is a quote not closed?") from error
        if cells is None:
            return
        if not cells:
            empty = empty or line
            continue
        if empty:  # to skip the empty line would move the rows below it, and their order may be their only name
            first = f"line {empty} is empty, but line {line} is not"
            problems.add("empty line", "empty lines", None, "", first, advice="remove the empty line")
            empty = None
        yield line, cells


class NumberColumn:
    """The numbers of a column that arrive cell by cell; a missing cell becomes NaN.

    A column holds either numbers, or true and false; its first value decides. A cell that is neither is a problem, and
    becomes 0 so that no later check finds it again.
    """

    def __init__(self, file: InputFile, name: str, place: int, kind: ColumnType, problems: Problems) -> None:
        self.place = place
        self._values = array("d")
        self._name, self._kind, self._problems = name, kind, problems
        self._read, self._role = file.csv.number_reader(), file.role
        self._logical: bool | None = None
        self._numbers = 0

    def add(self, cell: str) -> None:
        """Append a cell."""
        text = cell.strip()
        value = self._read(text)
        if value is None:
            self._values.append(self._other(text))
            return
        self._numbers += 1
        if self._logical is not False:
            value = self._unmixed(text, value, logical=False)
        self._values.append(value)

    def finished(self) -> array[float]:
        """Return the numbers; correct the advice about words, which depends on their share."""
        found = self._problems.known("word", self._name)
        if found is not None and found.count < self._numbers:
            found.advice = MOSTLY_NUMBERS
        return self._values

    def _other(self, text: str) -> float:
        if text.lower() in MISSING or text in self._kind.blank_texts:
            return math.nan
        value = _LOGICAL.get(text.lower())
        if value is not None:
            return self._unmixed(text, value, logical=True)
        if self._kind.unreadable:
            return math.nan
        advice = separator_advice(text, role=self._role)
        row, first = len(self._values), f"{quoted(text)} is not a number"
        if advice:
            title = "numbers with other separators"
            self._problems.add("separator", title, self._name, row, first, advice=advice, value=text)
        else:
            advice = WORDS if self.place else f"if this column names the nodes, set id_column to it; or {WORDS}"
            self._problems.add("word", "cells that are not numbers", self._name, row, first, advice=advice, value=text)
        return 0.0

    def _unmixed(self, text: str, value: float, *, logical: bool) -> float:
        if self._logical is None:
            self._logical = logical
        if self._logical == logical:
            return value
        if self._kind.unreadable and logical:
            return math.nan
        first = f"{quoted(text)} in a column that begins with {'numbers' if logical else 'true or false'}"
        advice = "write 1 and 0 for true and false"
        title = "numbers beside true and false"
        self._problems.add("mixed", title, self._name, len(self._values), first, advice=advice, value=text)
        return 0.0


class IdColumn:
    """Ids that arrive in pieces: numbers while all are written as whole numbers are printed, otherwise strings.

    "7" is a number. "007", "+7" and "7.0" are strings, because as numbers they would equal "7". One string makes the
    whole column strings.
    """

    def __init__(self, *, as_text: bool) -> None:
        self._as_text = as_text
        self._numbers = [np.empty(0, dtype=np.int64)]
        self._texts: list[str] | None = [] if as_text else None  # None: numbers so far

    def add(self, cells: list[str]) -> None:
        """Append cells."""
        if self._texts is None:
            numbers = whole_numbers(cells)
            if numbers is not None:
                self._numbers.append(numbers)
                return
            self._texts = [str(value) for piece in self._numbers for value in piece.tolist()]
        self._texts += cells

    def store(self, table: Table, name: str) -> None:
        """Store the ids as a column of a table.

        An empty id is an error, and so is "NA" if all other ids are numbers; elsewhere it is a name.
        """
        texts = self._texts or []
        table.keys[name] = np.concatenate(self._numbers) if self._texts is None else texts
        advice = "give the row an id, or remove it"
        for row, text in enumerate(texts):
            if not text or text.isspace():
                table.problems.add("id", "missing ids", name, row, "the id is missing", advice=advice)
        others = texts if self._as_text else [text for text in texts if text.lower() not in MISSING]
        if 0 < len(others) < len(texts) and whole_numbers(others) is not None:
            for row, text in enumerate(texts):
                if text.lower() in MISSING and text and not text.isspace():
                    first = f"the id is missing ({quoted(text)}, and all other ids are numbers)"
                    table.problems.add("id", "missing ids", name, row, first, advice=advice, value=text)


def whole_numbers(cells: list[str]) -> IntArray | None:
    """Return the numbers if each cell is a whole number, written as Python prints it; otherwise None."""
    try:
        numbers = list(map(int, cells))
        return np.array(numbers, dtype=np.int64) if list(map(str, numbers)) == cells else None
    except (ValueError, OverflowError):
        return None
