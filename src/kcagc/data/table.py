"""The typed table that files and in-memory data become, the file it is read from, and the place of every cell."""

from __future__ import annotations

import difflib
import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Literal, TypeAlias

import numpy as np
from scipy import sparse

from kcagc._types import Features, IntArray
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

FILL_IN = "fill it in, or give its column a rule for missing values"
MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none"}  # how people write a missing cell
_COMPRESSED: tuple[Kind, ...] = ("csv", "tsv", "txt", "mtx")  # these may end in .gz
_LONGEST_LINE = 1 << 26  # characters: a small compressed file can expand to a line that fills the memory
_PROBLEMS = {FileNotFoundError: "there is no such file", PermissionError: "there is no permission to read it"}
_LISTED = 20  # columns that an error lists


@dataclass(frozen=True)
class ColumnType:
    """How the cells of a column are read, and whether cells may be missing (`gaps`)."""

    kind: Literal["number", "text", "drop"] = "number"
    gaps: bool = False


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

    def gaps(self, columns: Iterable[str]) -> frozenset[str]:
        """Return the columns in which cells may be missing, and the columns that are not read."""
        types = {column: self.of(column) for column in columns}
        return frozenset(name for name, one in types.items() if one is None or one.gaps or one.kind == "drop")


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
    """The columns that are read, by content; `gaps` are the columns in which cells may be missing."""

    keys: list[str]
    numbers: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    gaps: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Origin:
    """Where a table came from: `where` names the file or the argument, `first` is the number of its first row.

    `first` may also be an array with the number of every row. `unit` is "line" for text files and "row" otherwise.
    """

    where: str
    unit: str = "row"
    first: IntArray | int = 0
    note: str = ""
    ids: NodeIds | None = None
    party: str = ""

    def fail(self, message: str) -> DataError:
        """Return an error about the whole table."""
        return DataError(f"{self.where}: {message}", party=self.party)

    def place(self, row: int) -> str:
        """Return the place of a row in words."""
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

    @classmethod
    def named(cls, path: PathLike, party: str, kinds: tuple[Kind, ...]) -> InputFile:
        """Return the file of this name, whose kind must be one of `kinds`."""
        endings = {f".{kind}{gz}": kind for kind in kinds for gz in ("", ".gz") if not gz or kind in _COMPRESSED}
        for ending, kind in endings.items():
            if Path(path).name.lower().endswith(ending):
                return cls(Path(path), party, kind, ending.endswith(".gz"))
        raise DataError(f"{path}: its name must end in {listed(list(endings), last='or')}", party=party)

    def origin(self, unit: str = "row", first: IntArray | int = 0, note: str = "") -> Origin:
        """Return this file as the origin of a table."""
        return Origin(str(self.path), unit, first, note, party=self.party)

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
        """Open the file as UTF-8, with or without a byte order mark; an error names a line that is not UTF-8."""
        try:
            with self.opened() as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
                yield self._bounded(text)
        except UnicodeDecodeError as error:
            raise self.error(f"line {self._undecodable()}: not UTF-8 ({error.reason}); save it as UTF-8") from error

    def _bounded(self, text: IO[str]) -> Iterator[str]:
        for number, line in enumerate(iter(partial(text.readline, _LONGEST_LINE), ""), start=1):
            if len(line) == _LONGEST_LINE:
                raise self.error(f"line {number} has more than {_LONGEST_LINE:,} characters")
            yield line

    def _undecodable(self) -> int:
        """Find the line: the decoder works on blocks, and its error knows only the place in the block."""
        with self.opened() as stream:
            for number, line in enumerate(stream, start=1):
                try:
                    line.decode()
                except UnicodeDecodeError:
                    return number
        raise AssertionError("every line is UTF-8")  # then so is the whole: no character crosses a line end


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
        source = row if self.rows is None else int(self.rows[row])
        if source >= 0:
            return self.origin.error(source, column, message)
        node = quoted(row if self.ids is None else self.ids.values[row])
        return self.origin.fail(f"there is no row for node {node}; column {column!r}: {message}")

    def node_ids(self, column: str) -> NodeIds:
        """Return a column of distinct ids; the error about a repeated id names both places."""
        values = self.keys[column]
        try:
            return NodeIds(values, where=column)
        except DataError:
            earlier = first_rows(np.asarray(values))
            row = int(np.argmax(earlier != np.arange(len(values))))
            message = f"the id {quoted(values[row])} is already in {self.origin.place(int(earlier[row]))}"
            raise self.origin.error(row, column, f"{message}; give each node one row") from None

    def selected(self, rows: IntArray, ids: NodeIds | None) -> Table:
        """Return the table with these rows and ids; row number -1 gives a row whose cells are all missing."""
        texts: dict[str, Texts] = {
            name: [None if row < 0 else values[row] for row in rows.tolist()] for name, values in self.texts.items()
        }
        source = rows if self.rows is None else np.where(rows < 0, -1, self.rows[rows])
        return replace(self, numbers=take_rows(self.numbers, rows), texts=texts, keys={}, ids=ids, rows=source)

    def checked(self, gaps: frozenset[str]) -> Table:
        """Return this table if it has rows, no infinite number, and missing cells only in the columns `gaps`."""
        if self.n_rows == 0:
            raise self.origin.fail(f"there are no rows{' below the header' if self.origin.unit == 'line' else ''}")
        rows, columns = nonfinite_entries(self.numbers)
        if rows.size:
            strict = np.array([name not in gaps for name in self.number_columns])
            infinite = np.isinf(np.asarray(self.numbers[rows, columns]).ravel())
            wrong = np.flatnonzero(infinite | strict[columns])
            if wrong.size:
                row, column, problem = rows[wrong[0]], columns[wrong[0]], "infinite; correct it"
                if not infinite[wrong[0]]:
                    problem = f"missing (NaN){_more(int((columns[wrong] == column).sum()))}; {FILL_IN}"
                raise self.error(int(row), self.number_columns[column], f"the value is {problem}")
        for name, texts in self.texts.items():
            absent = [] if name in gaps else [row for row, text in enumerate(texts) if text is None]
            if absent:
                raise self.error(absent[0], name, f"the value is missing{_more(len(absent))}; {FILL_IN}")
        return self


def _more(count: int) -> str:
    return f", and {count - 1} more in this column" if count > 1 else ""


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
        for row, text in enumerate(texts):
            if not text or text.isspace():
                raise table.error(row, name, "the id is missing")
        others = texts if self._as_text else [text for text in texts if text.lower() not in MISSING]
        if 0 < len(others) < len(texts) and whole_numbers(others) is not None:
            row = next(row for row, text in enumerate(texts) if text.lower() in MISSING)
            raise table.error(row, name, f"the id is missing ({quoted(texts[row])}, and all other ids are numbers)")


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
    """Raise an error for a column without a name, and for two columns with the same name."""
    places: dict[str, int] = {}
    for number, name in enumerate(header, start=1):
        if not name.strip():
            raise origin.fail(f"column {number} has no name in the header; name it, or remove it (a saved index?)")
        if places.setdefault(name, number) != number:
            raise origin.fail(f"columns {places[name]} and {number} are both called {quoted(name)}; rename one")


def select_columns(header: list[str], wanted: Wanted, origin: Origin) -> Selection:
    """Return the columns of a header that are read, or raise an error that names a column."""
    schema = wanted.schema
    if wanted.keys is None:
        if len(header) != 1:
            raise origin.fail(f"there must be one column, the ids of the rows, but there are {len(header)}")
        return Selection(header)
    existing = set(header)
    for name in (*wanted.keys, *(() if schema is None else schema.named)):
        if name not in existing:
            raise origin.fail(f"there is no column {name!r}; {_existing(name, header)}")
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
        schema.gaps(used),
    )


def _existing(name: str, header: list[str]) -> str:
    if len(header) == 1 and (found := re.search(r"[;\t|]", header[0])):
        return f"the header is {quoted(header[0])}: separate columns by commas, not by {found.group()!r}"
    folded = {column.strip().casefold(): column for column in header}
    close = difflib.get_close_matches(name.strip().casefold(), folded, n=1)
    columns = ", ".join(map(quoted, header[:_LISTED])) + (", ..." if len(header) > _LISTED else "")
    return f"there are {columns}" + (f"; did you mean {folded[close[0]]!r}?" if close else "")
