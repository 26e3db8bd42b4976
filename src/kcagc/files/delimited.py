"""CSV and TSV: a quick reader for plain files, and a careful one that reads everything else and finds what is wrong.

Both give the same table to the last bit: the quick one gives up on whatever it does not understand for certain (a
quote, an empty line, a cell too many, a word among numbers), and the careful one then reads the file anew.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Iterator
from itertools import islice
from typing import IO

import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.files.cells import IdColumn, Numbers, texts_of
from kcagc.files.opening import InputFile
from kcagc.files.table import Columns, Names, Table, Texts, Wanted, checked, columns_of
from kcagc.text import quoted

_SEPARATOR = {"csv": ",", "tsv": "\t"}
_AT_ONCE = 20_000  # rows: few enough to stay small as text, many enough for numpy's start not to count


class _UnusualError(ValueError):
    """A file that the quick reader leaves to the careful one."""


def read_delimited(file: InputFile, wanted: Wanted) -> Table:
    """Read the columns `wanted`; a header in the first line gives their names."""
    with file.text() as stream:
        header, _ = _header(file, stream)
        columns = columns_of(file, header, wanted)
    try:
        table = _quick(file, columns, as_text=wanted.as_text)
    except ValueError:  # numpy's too; none is for the user yet, because only the careful reader knows the place
        table = _careful(file, columns, as_text=wanted.as_text)
    return checked(table, columns.gaps)


def read_lines(file: InputFile) -> Table:
    """Read a plain text: each line is an id."""
    ids = IdColumn(as_text=False)
    with file.text() as stream:
        lines = [line.rstrip("\r\n") for line in stream]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise file.error("the file is empty")
    ids.add(lines)
    table = Table(file, {"id": ids.values()}, [], np.empty((len(lines), 0)), 1, "line")
    ids.check(table, "id")
    return table


def _header(file: InputFile, stream: IO[str]) -> tuple[list[str], int]:
    """Give the names of the columns, and the number of the last line they take."""
    reader = csv.reader(stream, delimiter=_SEPARATOR[file.kind], strict=True)
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
    """Tell whether the names are numbers, and not those that programs count unnamed columns with."""
    if not all(re.fullmatch(r"\s*[-+]?[0-9.]+(e[-+]?[0-9]+)?\s*", name, flags=re.IGNORECASE) for name in header):
        return False
    counted = header[0].isdecimal() and header == [str(int(header[0]) + step) for step in range(len(header))]
    return not counted


def _quick(file: InputFile, columns: Columns, *, as_text: bool) -> Table:
    if columns.texts:
        raise _UnusualError
    names, numbers = columns.names, columns.numbers
    ids = {name: IdColumn(as_text=as_text) for name in names}
    blocks: list[FloatArray] = []
    fields = [("ids", object, (len(names),))] if names else []
    kinds = np.dtype([*fields, ("numbers", np.float64, (len(numbers),))] if numbers else fields)
    separator = _SEPARATOR[file.kind]
    with file.text() as stream:
        header, last = _header(file, stream)
        if last != 1:
            raise _UnusualError
        wanted = [header.index(name) for name in (*names, *numbers)]
        lines = _plain_lines(stream, separator, len(header))
        while some := list(islice(lines, _AT_ONCE)):
            block = np.loadtxt(some, delimiter=separator, dtype=kinds, usecols=wanted, comments=None, ndmin=1)
            for place, name in enumerate(names):
                ids[name].add(block["ids"][:, place].tolist())
            blocks.append(np.ascontiguousarray(block["numbers"]) if numbers else np.empty((len(block), 0)))
    values = np.concatenate(blocks) if blocks else np.empty((0, len(numbers)))
    return _table(file, ids, numbers, values, 2, {})


def _plain_lines(stream: IO[str], separator: str, width: int) -> Iterator[str]:
    """Pass on lines in which every separator separates; empty lines may only end the file."""
    for line in stream:
        if not line.strip("\r\n"):
            if any(rest.strip("\r\n") for rest in stream):
                raise _UnusualError
            return
        if '"' in line or line.count(separator) != width - 1:
            raise _UnusualError
        yield line


def _careful(file: InputFile, columns: Columns, *, as_text: bool) -> Table:
    ids = {name: IdColumn(as_text=as_text) for name in columns.names}
    with file.text() as stream:
        header, last = _header(file, stream)
        kept: dict[str, list[str]] = {name: [] for name in (*columns.names, *columns.texts)}
        places = [(kept[name], header.index(name)) for name in kept]
        parser = Numbers(file, [(header.index(name), name) for name in columns.numbers], columns.gaps)
        lines = array("q")
        for line, cells in _records(file, stream, last):
            if len(cells) != len(header):
                raise file.error(f"line {line}: there are {len(cells)} cells, but the header has {len(header)}")
            for found, place in places:
                found.append(cells[place])
            parser.add(line, cells)
            lines.append(line)
    for name, column in ids.items():
        column.add(kept[name])
    values = np.asarray(parser.values, dtype=np.float64).reshape(len(lines), len(columns.numbers))
    texts = {name: texts_of(kept[name]) for name in columns.texts}
    return _table(file, ids, columns.numbers, values, np.asarray(lines, dtype=np.int64), texts)


def _records(file: InputFile, stream: IO[str], last: int) -> Iterator[tuple[int, list[str]]]:
    """Give each record and the line it begins in; a quoted cell may go over several."""
    reader = csv.reader(stream, delimiter=_SEPARATOR[file.kind], strict=True)
    empty = None
    while True:
        line = last + reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise file.error(f"line {line}: {error}; a quote that is not closed, perhaps") from error
        if cells is None:
            return
        if not cells:
            empty = empty or line
        elif empty:  # to pass it over would move the rows below it, where rows are known by their order alone
            raise file.error(f"line {empty} is empty, and line {line} is not; take the empty line out")
        else:
            yield line, cells


def _table(
    file: InputFile,
    ids: dict[str, IdColumn],
    numbers: list[str],
    values: FloatArray,
    lines: IntArray | int,
    texts: dict[str, Texts],
) -> Table:
    names: dict[str, Names] = {name: column.values() for name, column in ids.items()}
    table = Table(file, names, numbers, values, lines, "line", texts)
    for name, column in ids.items():
        column.check(table, name)
    return table
