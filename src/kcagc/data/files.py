"""Files: open them with errors that name party and file, read CSV and TSV into tables, write files atomically.

CSV files have two readers that return the same table to the last bit. The quick reader gives up on everything that it
does not understand for certain (a quote, an empty line, a cell too many, a word among numbers). The careful reader then
reads the file again, understands all of CSV, and finds the place of an error.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
import uuid
from array import array
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from kcagc._types import FloatArray
from kcagc.data.csv_format import CsvFormat, separator_advice
from kcagc.data.problems import MOSTLY_NUMBERS, WORDS, Problems
from kcagc.data.table import (
    MISSING,
    TABLES,
    ColumnType,
    IdColumn,
    InputFile,
    Keys,
    Kind,
    PathLike,
    Schema,
    Selection,
    Table,
    Texts,
    Wanted,
    blank_out,
    check_header,
    select_columns,
)
from kcagc.errors import DataError, ParameterError
from kcagc.graph.ids import NodeIds
from kcagc.text import quoted

S = TypeVar("S", bound=msgspec.Struct)

PUBLIC = 0o644
PRIVATE = 0o600

_DIGITS = 4  # of a confidence
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
    file = InputFile.named(path, party, kinds, csv)
    if file.kind == "parquet":
        from kcagc.data.parquet import read_parquet  # noqa: PLC0415 - an extra, and slow to import

        table = read_parquet(file, wanted)
    elif file.kind == "txt":
        return _read_lines(file)
    else:
        table = _read_delimited(file, wanted)
    return table if not checked else table.checked((wanted.schema or Schema()).types(table.columns))


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
                first = f"there are {len(cells)} cells, but the header has {len(header)}"
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
        self._read = file.csv.number_reader()
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
        advice = separator_advice(text)
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


def csv_cell(text: str) -> str:
    """Return a text as a cell of a CSV file, in quotes if needed (also for a carriage return, unlike `csv` of 3.11)."""
    return '"' + text.replace('"', '""') + '"' if re.search(r'[,"\r\n]', text) else text


def write_bytes(path: PathLike, data: bytes, *, mode: int = PUBLIC) -> None:
    """Write a file atomically: readers see the old content or the new content, never a part.

    Parameters
    ----------
    path : str or path
        The file; an existing file is replaced. If writing fails, the existing file stays as it was.
    data : bytes
        The content.
    mode : int, default 0o644
        Permissions of the file from its first byte on, less those that the umask takes away.

    Examples
    --------
    >>> from kcagc.data import write_bytes
    >>> write_bytes("key.bin", b"secret", mode=0o600)
    """
    target = Path(path)
    partial_file = target.with_name(f".{uuid.uuid4().hex}.part")  # same folder: a rename across disks is a copy
    try:
        # The file is opened with its permissions: to restrict them later would leave it readable in between.
        with open(partial_file, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial_file.replace(target)
    except BaseException:
        partial_file.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


class _SavedFormat(msgspec.Struct):
    """The field of a saved file that shows whether this version can read the file."""

    format: str


def read_saved(path: PathLike, kind: type[S], form: str, what: str, *, party: str = "") -> S:
    """Read a file that holds a struct; its field `format` must be `form`. Errors call such a file `what`."""
    where = f"{party}: {path}" if party else path
    try:
        content = Path(path).read_bytes()
        found = msgspec.msgpack.decode(content, type=_SavedFormat).format
        if found == form:
            return msgspec.msgpack.decode(content, type=kind)
    except OSError as error:
        raise ParameterError(f"{where}: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{where}: is not {what}, or is damaged: {error}") from error
    raise DataError(f"{where}: has the format {found!r}, but this version reads {form!r}; fit the model again")


def write_text(path: PathLike, text: str, *, mode: int = PUBLIC) -> None:
    """Write a text in UTF-8 atomically, with its line ends unchanged.

    Parameters
    ----------
    path, mode
        As for `write_bytes`.
    text : str
        The content.

    Examples
    --------
    >>> from kcagc.data import write_text
    >>> write_text("notes.txt", "two lines\\nof text\\n")
    """
    write_bytes(path, text.encode(), mode=mode)


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut; Windows does so itself and cannot open folders."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_labels_path(path: PathLike) -> None:
    """Raise an error for a path that `write_labels` does not accept, before a long run.

    Parameters
    ----------
    path : str or path
        The file for the labels.

    Raises
    ------
    ParameterError
        The name ends neither in `.csv` nor in `.parquet`, or pyarrow is not installed.

    Examples
    --------
    >>> from kcagc.data import check_labels_path
    >>> check_labels_path("labels.csv")
    """
    ending = Path(path).suffix.lower()
    if ending not in (".csv", ".parquet"):
        raise ParameterError(f"{path}: labels are written to a file whose name ends in .csv or .parquet")
    if ending == ".parquet":
        from kcagc.data.parquet import pyarrow_for  # noqa: PLC0415 - an extra

        pyarrow_for(path)


def write_labels(
    path: PathLike, ids: NodeIds | None, labels: ArrayLike, *, confidence: FloatArray | None = None, mode: int = PUBLIC
) -> None:
    """Write a row `id, cluster` for each node, sorted by id, atomically.

    Parameters
    ----------
    path : str or path
        A file whose name ends in `.csv` or `.parquet`. A CSV file does not distinguish the string "7" from the number
        7; a Parquet file does. Ids are written unchanged, also those that a spreadsheet takes for a formula.
    ids : NodeIds or None
        The ids of the nodes; None calls them 0, 1, 2, ...
    labels : array-like of int of shape (n_nodes,)
        The cluster of each node.
    confidence : ndarray of shape (n_nodes,) or None, default None
        A third column `confidence`, from 0 to 1, with four digits.
    mode : int, default 0o644
        Permissions of the file, less those that the umask takes away.

    Raises
    ------
    DataError
        `labels`, `ids` and `confidence` do not fit together.
    ParameterError
        The name of the file has another ending.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kcagc.data import write_labels
    >>> write_labels("labels.csv", None, [1, 0])
    >>> Path("labels.csv").read_text()
    'id,cluster\\n0,1\\n1,0\\n'
    """
    check_labels_path(path)
    clusters = np.asarray(labels)
    if clusters.ndim != 1 or clusters.dtype.kind not in "iu":
        raise DataError(f"labels: must be one column of whole numbers, not {clusters.dtype} of shape {clusters.shape}")
    known = NodeIds.numbered(len(clusters)) if ids is None else ids
    if len(known) != len(clusters):
        raise DataError(f"labels: {len(clusters)} labels for {len(known)} ids")
    if confidence is not None and len(confidence) != len(clusters):
        raise DataError(f"labels: {len(confidence)} confidences for {len(clusters)} labels")
    order = known.sorted_rows()
    columns: dict[str, Any] = {"id": known.take(order).values, "cluster": clusters[order].astype(np.int64)}
    if confidence is not None:
        columns["confidence"] = np.round(confidence[order], _DIGITS)
    if Path(path).suffix.lower() == ".csv":
        write_text(path, csv_text(columns), mode=mode)
        return
    from kcagc.data.parquet import pyarrow_for  # noqa: PLC0415 - an extra

    arrow, parquet = pyarrow_for(path)
    content = io.BytesIO()
    parquet.write_table(arrow.table(columns), content)
    write_bytes(path, content.getvalue(), mode=mode)


def csv_text(columns: dict[str, Keys | FloatArray]) -> str:
    """Return columns of ids, whole numbers and fractions as the text of a CSV file."""
    cells = [
        map(csv_cell, values)
        if isinstance(values, list)
        else (f"{value:.{_DIGITS}f}" for value in values.tolist())
        if values.dtype.kind == "f"
        else map(str, values.tolist())
        for values in columns.values()
    ]
    return "".join(f"{','.join(row)}\n" for row in (columns, *zip(*cells, strict=True)))
