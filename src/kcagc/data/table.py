"""The typed table that files and in-memory data become, the file it is read from, and the place of every cell."""

from __future__ import annotations

import difflib
import gzip
import io
import math
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Literal, TypeAlias

import numpy as np
from scipy import sparse

from kcagc._types import Features, FloatArray, IntArray
from kcagc.data.csv_format import CsvFormat, read_number
from kcagc.data.problems import MOSTLY_NUMBERS, PROPOSE, Problems
from kcagc.errors import DataError
from kcagc.graph.ids import NodeIds, first_rows
from kcagc.text import listed, quoted

Keys: TypeAlias = IntArray | list[str]
Texts: TypeAlias = list[str | None]

PathLike: TypeAlias = str | os.PathLike[str]
Kind = Literal["csv", "tsv", "txt", "parquet", "npz", "mtx"]

TABLES: tuple[Kind, ...] = ("csv", "tsv", "parquet")
MATRICES: tuple[Kind, ...] = ("npz", "mtx")
LISTS: tuple[Kind, ...] = ("csv", "tsv", "parquet", "txt")

MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none"}  # how people write a missing cell
FILL_NUMBERS = 'fill it in, or set missing = "median", "mean", "zero" or "indicator" for the column'
FILL_TEXTS = 'fill it in, or set missing = "indicator" (a level of its own) or "zero" (no level) for the column'
_COMPRESSED: tuple[Kind, ...] = ("csv", "tsv", "txt", "mtx")  # these may end in .gz
_LONGEST_LINE = 1 << 26  # characters: a small compressed file can expand to a line that fills the memory
_PROBLEMS = {FileNotFoundError: "there is no such file", PermissionError: "there is no permission to read it"}
_LISTED = 20  # columns that an error lists


@dataclass(frozen=True)
class ColumnType:
    """How the cells of a column are read, and what they may be.

    `gaps`: cells may be missing. `blank` are the texts and numbers that count as missing; with `unreadable`, so does
    every cell that is not a number. `bound`: all numbers must be above -1 ("log1p") or 0 and more ("idf").
    `most_levels`: the column may have so many different texts. `filled`: one cell must have a value.
    """

    kind: Literal["number", "text", "drop"] = "number"
    gaps: bool = False
    blank: tuple[str, ...] = ()
    unreadable: bool = False
    bound: Literal["", "log1p", "idf"] = ""
    most_levels: int | None = None
    filled: bool = False

    @cached_property
    def blank_texts(self) -> frozenset[str]:
        """The texts that count as missing, without spaces around them."""
        return frozenset(text.strip() for text in self.blank)

    @cached_property
    def blank_numbers(self) -> FloatArray:
        """The numbers that count as missing."""
        found = [value for value in map(read_number, self.blank_texts) if value is not None]
        return np.array([value for value in found if math.isfinite(value)])


_STRICT = ColumnType()


@dataclass(frozen=True)
class Schema:
    """How to read the columns of a table.

    Columns in `named` must exist, columns in `possible` may exist. All other columns are read as `others`; None means
    that no other column may exist.
    """

    others: ColumnType | None = ColumnType()
    named: Mapping[str, ColumnType] = field(default_factory=dict)
    possible: Mapping[str, ColumnType] = field(default_factory=dict)

    @classmethod
    def only(cls, *numbers: str) -> Schema:
        """Return a schema that reads these columns of numbers and no others."""
        return cls(ColumnType("drop"), dict.fromkeys(numbers, ColumnType()))

    def of(self, column: str) -> ColumnType | None:
        """Return how to read a column; None if the column may not exist."""
        return self.named.get(column, self.possible.get(column, self.others))

    def types(self, columns: Iterable[str]) -> dict[str, ColumnType]:
        """Return how each of the columns is read; cells of columns that are not read may be missing."""
        return {column: self.of(column) or ColumnType("drop", gaps=True) for column in columns}


@dataclass(frozen=True)
class Wanted:
    """The columns to read from a file: `keys` hold node ids (None: the only column), `schema` covers all others.

    Without a `schema`, no other column is read. `text_keys` keeps the ids of a text file as strings, to compare them
    with ids that are strings.
    """

    keys: tuple[str, ...] | None = ()
    schema: Schema | None = Schema()
    text_keys: bool = False


@dataclass(frozen=True)
class Selection:
    """The columns that are read, by content, and how each of them is read."""

    keys: list[str]
    numbers: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    types: Mapping[str, ColumnType] = field(default_factory=dict)

    def type(self, column: str) -> ColumnType:
        """Return how a column is read."""
        return self.types.get(column, _STRICT)


@dataclass(frozen=True, eq=False)
class Origin:
    """Where a table came from: `where` names the file or the argument, `first` is the number of its first row.

    `first` may also be an array with the number of every row. `unit` is "line" for text files, "node" for rows that
    have been sorted by their ids, and "row" otherwise. `in_file`: the table was read from a file, for which there are
    settings.
    """

    where: str
    unit: str = "row"
    first: IntArray | int = 0
    note: str = ""
    ids: NodeIds | None = None
    party: str = ""
    in_file: bool = False

    def fail(self, message: str) -> DataError:
        """Return an error about the whole table."""
        return DataError(f"{self.where}: {message}", party=self.party)

    def place(self, row: int) -> str:
        """Return the place of a row in words."""
        if self.unit == "node" and self.ids is not None:  # rows in memory are sorted, so their numbers mean nothing
            return f"node {quoted(self.ids.values[row])}"
        number = self.first + row if isinstance(self.first, int) else self.first[row]
        called = "" if self.ids is None else f" (id {quoted(self.ids.values[row])})"
        return f"{self.unit} {number}{self.note}{called}"

    def error(self, row: int, column: str, message: str) -> DataError:
        """Return an error about one cell."""
        return self.fail(f"{self.place(row)}, column {column!r}: {message}")


@dataclass(frozen=True)
class InputFile:
    """A file that a party reads; its kind is the ending of its name."""

    path: Path
    party: str
    kind: Kind
    compressed: bool = False
    csv: CsvFormat = field(default_factory=CsvFormat)

    @classmethod
    def named(cls, path: PathLike, party: str, kinds: tuple[Kind, ...], csv: CsvFormat | None = None) -> InputFile:
        """Return the file of this name, whose kind must be one of `kinds`; `csv` is how a text file is written."""
        endings = {f".{kind}{gz}": kind for kind in kinds for gz in ("", ".gz") if not gz or kind in _COMPRESSED}
        for ending, kind in endings.items():
            if Path(path).name.lower().endswith(ending):
                return cls(Path(path), party, kind, ending.endswith(".gz"), csv or CsvFormat())
        raise DataError(f"{path}: its name must end in {listed(list(endings), last='or')}", party=party)

    def origin(self, unit: str = "row", first: IntArray | int = 0, note: str = "") -> Origin:
        """Return this file as the origin of a table."""
        return Origin(str(self.path), unit, first, note, party=self.party, in_file=True)

    @property
    def delimiter(self) -> str:
        """The character between two cells."""
        return self.csv.delimiter or ("\t" if self.kind == "tsv" else ",")

    def error(self, message: str) -> DataError:
        """Return an error about this file."""
        return self.origin().fail(message)

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Open the file and decompress it; errors of the disk and of the compression inside the block name the file."""
        try:
            mode = self.path.stat().st_mode
            if stat.S_ISDIR(mode):
                raise self.error("this is a folder, not a file")
            if not stat.S_ISREG(mode):  # a pipe can be read only once, and the careful reader is a second pass
                raise self.error("this is not a regular file")
            with gzip.open(self.path) if self.compressed else self.path.open("rb") as stream:
                yield stream  # type: ignore[misc]  # a GzipFile has all of IO[bytes] but the name
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise self.error(f"damaged, or cut off ({error})") from error
        except OSError as error:
            raise self.error(_PROBLEMS.get(type(error), f"cannot be read ({error.strerror or error})")) from error

    @contextmanager
    def lines(self) -> Iterator[Iterator[str]]:
        """Open the file as text, with or without a byte order mark; an error names a line that has another encoding."""
        encoding = self.csv.encoding
        try:
            with self.opened() as stream, io.TextIOWrapper(stream, encoding=self.csv.codec, newline="") as text:
                yield self._bounded(text)
        except UnicodeError as error:
            reason = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
            name = "UTF-8" if encoding == "utf-8" else encoding
            advice = "save it as UTF-8, or set encoding (`kcagc columns` proposes it)"
            raise self.error(f"{self._undecodable()}not {name} ({reason}); {advice}") from error

    def _bounded(self, text: IO[str]) -> Iterator[str]:
        for number, line in enumerate(iter(partial(text.readline, _LONGEST_LINE), ""), start=1):
            if len(line) == _LONGEST_LINE:
                raise self.error(f"line {number} has more than {_LONGEST_LINE:,} characters")
            yield line

    def _undecodable(self) -> str:
        """Find the line: the decoder works on blocks, and its error knows only the place in the block."""
        if "16" in self.csv.encoding or "32" in self.csv.encoding:  # a line end is more than one byte
            return ""
        with self.opened() as stream:
            for number, line in enumerate(stream, start=1):
                try:
                    line.decode(self.csv.encoding)
                except UnicodeError:
                    return f"line {number}: "
        return ""


@dataclass(frozen=True, eq=False)
class Table:
    """A table of a party: columns of numbers, columns of text, and the origin of every row.

    Attributes
    ----------
    origin : Origin
        The file or the argument that the table came from. Errors use it to name party, file, row and column.
    number_columns : list of str
        Names of the columns of `numbers`.
    numbers : ndarray or csr_array of shape (n_rows, len(number_columns))
        Numbers in float64; a missing number is NaN.
    texts : dict of str to list
        Columns of text by name; a missing text is None.
    keys : dict of str to ndarray of int64 or list of str
        Columns of node ids by name, as they were read.
    ids : NodeIds or None
        The id of every row. None: rows are called 0, 1, 2, ...
    rows : ndarray of int64 or None
        The row of the origin that each row came from; -1 for a node without a row, all of whose cells are missing.
        None: the rows are those of the origin.
    problems : Problems
        What the reader found wrong; `checked` raises one error about all of it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kcagc.data import read_features
    >>> _ = Path("customers.csv").write_text("id,age\\nann,41\\nbob,27\\n")
    >>> table = read_features("customers.csv", party="bank", id_column="id")
    >>> table.columns, table.ids.values
    (['age'], ['ann', 'bob'])
    >>> str(table.error(1, "age", "the value is too small"))
    "bank: customers.csv: line 3, column 'age': the value is too small"
    """

    origin: Origin
    number_columns: list[str]
    numbers: Features
    texts: dict[str, Texts] = field(default_factory=dict)
    keys: dict[str, Keys] = field(default_factory=dict)
    ids: NodeIds | None = None
    rows: IntArray | None = None
    problems: Problems = field(default_factory=Problems)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.numbers.shape[0])

    @property
    def columns(self) -> list[str]:
        """Names of all columns: the columns of numbers, then the columns of text."""
        return [*self.number_columns, *self.texts]

    @property
    def n_filled_in(self) -> int:
        """The number of nodes without a row, all of whose cells are missing."""
        return 0 if self.rows is None else int((self.rows < 0).sum())

    def error(self, row: int, column: str, message: str) -> DataError:
        """Return an error about one cell, which names the place of the cell in the origin."""
        return self.origin.fail(f"{self.place(row)}, column {column!r}: {message}")

    def place(self, row: int | str) -> str:
        """Return the place of a row in words."""
        if isinstance(row, str):
            return row
        source = row if self.rows is None else int(self.rows[row])
        if source >= 0:
            return self.origin.place(source)
        return f"node {quoted(row if self.ids is None else self.ids.values[row])} (it has no row)"

    def node_ids(self, column: str) -> NodeIds:
        """Return a column of distinct ids; the error about repeated ids names the places."""
        found = self.distinct_ids(column)
        if found is None:
            raise self.all_problems()
        return found

    def distinct_ids(self, column: str) -> NodeIds | None:
        """Return a column of ids; None if some are missing or repeated, which is then among the problems."""
        values = self.keys[column]
        if self.problems.known("id", column):
            return None
        try:
            return NodeIds(values, where=column)
        except DataError:
            earlier = first_rows(np.asarray(values, dtype=object if isinstance(values, list) else None))
            for row in np.flatnonzero(earlier != np.arange(len(values))).tolist():
                first = f"the id {quoted(values[row])} is already in {self.origin.place(int(earlier[row]))}"
                advice = "give each node one row"
                self.problems.add(
                    "repeated id", "repeated ids", column, row, first, advice=advice, value=str(values[row])
                )
            return None

    def all_problems(self) -> DataError:
        """Return one error about all problems that were found."""
        note = f"  {PROPOSE}" if self.origin.in_file else ""
        return self.problems.error(self.origin.where, self.place, party=self.origin.party, note=note)

    def selected(self, rows: IntArray, ids: NodeIds | None) -> Table:
        """Return the table with these rows and ids; row number -1 gives a row whose cells are all missing."""
        texts: dict[str, Texts] = {
            name: [None if row < 0 else values[row] for row in rows.tolist()] for name, values in self.texts.items()
        }
        source = rows if self.rows is None else np.where(rows < 0, -1, self.rows[rows])
        return replace(self, numbers=take_rows(self.numbers, rows), texts=texts, keys={}, ids=ids, rows=source)

    def checked(self, types: Mapping[str, ColumnType]) -> Table:
        """Return this table if it has rows and each column is as its type requires; else raise one error about all."""
        if self.n_rows == 0 and not self.problems:
            raise self.origin.fail(f"there are no rows{' below the header' if self.origin.unit == 'line' else ''}")
        self._check_gaps(types)
        for place, name in enumerate(self.number_columns):
            if types.get(name, _STRICT).bound:
                self._check_bound(place, name, types[name].bound)
        for name in self.texts:
            self._check_texts(name, types.get(name, _STRICT))
        if self.problems:
            raise self.all_problems()
        return self

    def _check_gaps(self, types: Mapping[str, ColumnType]) -> None:
        rows, columns = nonfinite_entries(self.numbers)
        if not rows.size:
            return
        infinite = np.isinf(np.asarray(self.numbers[rows, columns]).ravel())
        order = np.argsort(columns, kind="stable")
        ends = np.flatnonzero(np.diff(columns[order])) + 1
        for some in np.split(order, ends):
            name = self.number_columns[columns[some[0]]]
            kind = types.get(name, _STRICT)
            for row in rows[some[infinite[some]]].tolist():
                first = "the value is infinite"
                self.problems.add("infinite", "infinite numbers", name, row, first, advice="correct it")
            absent = rows[some[~infinite[some]]].tolist()
            words = self.problems.known("word", name)
            if words is not None and words.advice != MOSTLY_NUMBERS:
                continue  # the column will not be one of numbers
            if not kind.gaps:
                for row in absent:
                    first = "the value is missing" if self.origin.unit == "line" else "the value is missing (NaN)"
                    self.problems.add("missing", "missing values", name, row, first, advice=FILL_NUMBERS)
            elif kind.filled and len(absent) == self.n_rows:
                self._add_empty(name, 'drop it, or set missing = "zero"')

    def _add_empty(self, name: str, advice: str) -> None:
        first = "no row has a value in this column"
        self.problems.add("empty", "columns without any value", name, 0, first, advice=advice, more=self.n_rows - 1)

    def _check_bound(self, place: int, name: str, bound: str) -> None:
        if sparse.issparse(self.numbers):
            column = self.numbers[:, [place]].tocoo()
            values, where = column.data, column.row
        else:
            values, where = self.numbers[:, place], np.arange(self.n_rows)
        low = values <= -1 if bound == "log1p" else values < 0
        for row, value in zip(where[low].tolist(), values[low].tolist(), strict=True):
            if bound == "log1p":
                first = f"a logarithm (log1p) needs values above -1, not {value:g}"
                title, advice = "numbers without a logarithm", 'set scale = "standard" for the column'
            else:
                first = f"weighting 'idf' is for numbers of 0 or more, not {value:g}"
                title, advice = "negative numbers with the weighting 'idf'", "use 'auto' or 'none'"
            self.problems.add(bound, title, name, row, first, advice=advice, value=f"{value:g}")

    def _check_texts(self, name: str, kind: ColumnType) -> None:
        texts = self.texts[name]
        if not kind.gaps:
            for row in (row for row, text in enumerate(texts) if text is None):
                self.problems.add("missing", "missing values", name, row, "the value is missing", advice=FILL_TEXTS)
        if kind.most_levels is None and not kind.filled:
            return
        levels = set(texts) - {None}
        if kind.filled and not levels and kind.gaps:
            self._add_empty(name, "drop it")
        if kind.most_levels is not None and len(levels) > kind.most_levels:
            row = next(row for row, text in enumerate(texts) if text is not None)
            first = f"there are {len(levels):,} different values, more than {kind.most_levels}, as in a column of names"
            advice = (
                "drop the column, or set max_levels to the number of levels to keep (the rest become one level, "
                '"other")'
            )
            title = f"columns with more than {kind.most_levels} different values"
            self.problems.add("levels", title, name, row, first, advice=advice)


def blank_out(numbers: Features, names: list[str], types: Mapping[str, ColumnType]) -> Features:
    """Replace the numbers that count as missing by NaN, in place in a dense table."""
    chosen = [(place, types[name].blank_numbers) for place, name in enumerate(names) if name in types]
    chosen = [(place, values) for place, values in chosen if len(values)]
    for place, values in chosen:
        if sparse.issparse(numbers):
            rows = np.flatnonzero((numbers.indices == place) & np.isin(numbers.data, values))
            numbers.data[rows] = np.nan
        else:
            numbers[np.isin(numbers[:, place], values), place] = np.nan
    return numbers


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


def take_rows(values: Features, rows: IntArray) -> Features:
    """Return rows of an array or a CSR matrix; row number -1 gives a row of NaN."""
    absent = rows < 0
    if not absent.any():
        return values if np.array_equal(rows, np.arange(values.shape[0])) else values[rows]
    if sparse.issparse(values):
        empty = sparse.csr_array(np.full((1, values.shape[1]), np.nan))
        return sparse.vstack([values, empty], format="csr")[np.where(absent, values.shape[0], rows)]
    taken = values[np.maximum(rows, 0)].astype(np.float64 if values.dtype.kind in "biuf" else object)
    taken[absent] = np.nan
    return taken


def nonfinite_entries(values: Features) -> tuple[IntArray, IntArray]:
    """Return the rows and columns of the entries that are NaN or infinite, row by row."""
    with np.errstate(over="ignore", invalid="ignore"):  # the sum needs no memory; it is finite for nearly all tables
        if np.isfinite((values.data if sparse.issparse(values) else values).sum()):
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if not sparse.issparse(values):
        rows, columns = np.nonzero(~np.isfinite(values))
        return rows, columns
    places = np.flatnonzero(~np.isfinite(values.data))
    return np.searchsorted(values.indptr, places, side="right") - 1, values.indices[places].astype(np.int64)


def check_header(header: list[str], origin: Origin) -> None:
    """Raise one error about all columns without a name, and all columns with the same name."""
    places: dict[str, int] = {}
    problems = Problems()
    for number, name in enumerate(header, start=1):
        if not name.strip():
            first = f"column {number} has no name in the header"
            problems.add("no name", "", None, "", first, advice="name it, or remove it (a saved index?)")
        elif places.setdefault(name, number) != number:
            first = f"columns {places[name]} and {number} are both called {quoted(name)}"
            problems.add(f"same name {name}", "", None, "", first, advice="rename one")
    if problems:
        raise problems.error(origin.where, str, party=origin.party)


def select_columns(header: list[str], wanted: Wanted, origin: Origin) -> Selection:
    """Return the columns of a header that are read, or raise an error that names a column."""
    schema = wanted.schema
    if wanted.keys is None:
        if len(header) != 1:
            raise origin.fail(f"there must be one column, the ids of the rows, but there are {len(header)}")
        return Selection(header)
    existing, problems = set(header), Problems()
    for name in dict.fromkeys((*wanted.keys, *(() if schema is None else schema.named))):
        if name not in existing:
            problems.add(
                f"no column {name}", "", None, "", f"there is no column {name!r}", advice=_existing(name, header)
            )
    if problems:
        raise problems.error(origin.where, str, party=origin.party)
    if schema is None:
        return Selection(list(wanted.keys))
    others = [name for name in header if name not in wanted.keys]
    if not others:
        raise origin.fail(f"there are no feature columns, only {', '.join(map(quoted, header)) or 'nothing'}")
    for name in set(wanted.keys) & set(schema.named):
        raise origin.fail(f"column {name!r} holds the ids of the nodes, so it cannot have a rule as a feature")
    used: dict[str, ColumnType] = {}
    for name in others:
        found = schema.of(name)
        if found is None:
            raise origin.fail(f"column {name!r} was not in the table that was fitted; remove it, or fit again")
        if found.kind != "drop":
            used[name] = found
    if not used:
        raise origin.fail("all columns are dropped by their rules: nothing is left to cluster by")
    return Selection(
        list(wanted.keys),
        [name for name, one in used.items() if one.kind == "number"],
        [name for name, one in used.items() if one.kind == "text"],
        used,
    )


def _existing(name: str, header: list[str]) -> str:
    if len(header) == 1 and (found := re.search(r"[;\t|]", header[0])):
        advice = f"set delimiter = {_toml_sign(found.group())}, or separate columns by commas"
        return f"the header is {quoted(header[0])}: {advice}"
    folded = {column.strip().casefold(): column for column in header}
    close = difflib.get_close_matches(name.strip().casefold(), folded, n=1)
    columns = ", ".join(map(quoted, header[:_LISTED])) + (", ..." if len(header) > _LISTED else "")
    return f"there are {columns}" + (f"; did you mean {folded[close[0]]!r}?" if close else "")


def _toml_sign(sign: str) -> str:
    return '"\\t"' if sign == "\t" else f'"{sign}"'
