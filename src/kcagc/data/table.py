"""The typed table that files and in-memory data become: which columns are read, how, and what their cells may be."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from scipy import sparse

from kcagc._types import Features, FloatArray, IntArray
from kcagc.data.csv_format import Role, read_number, setting_of
from kcagc.data.problems import MOSTLY_NUMBERS, PROPOSE, Origin, Problems
from kcagc.errors import DataError
from kcagc.graph.ids import NodeIds, first_rows
from kcagc.text import quoted

Keys: TypeAlias = IntArray | list[str]
Texts: TypeAlias = list[str | None]

MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none"}  # how people write a missing cell
FILL_NUMBERS = 'fill it in, or set missing = "median", "mean", "zero" or "indicator" for the column'
FILL_TEXTS = 'fill it in, or set missing = "indicator" (a level of its own) or "zero" (no level) for the column'
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
        return np.array([value for value in found if not math.isnan(value)])


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
    with ids that are strings. `role` is that of the file, for advice.
    """

    keys: tuple[str, ...] | None = ()
    schema: Schema | None = Schema()
    text_keys: bool = False
    role: Role = "table"


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
        where = self.origin.where
        if self.origin.in_file:
            return self.problems.error(where, self.place, party=self.origin.party, note=PROPOSE)
        column = next((one.column for one in self.problems if one.column is not None), "age")
        rules = f"TablePreprocessor(columns={{{column!r}: {{...}}}})"
        how = f"{rules}.fit_transform(X)" if where == "X" else f"transformers={{{where!r}: {rules}}}"
        return self.problems.error(where, self.place, note=f"In Python, rules are given as {how}", always=True)

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
    names = dict.fromkeys((*wanted.keys, *(() if schema is None else schema.named)))
    lacking = [name for name in names if name not in existing]
    whole = _about_header(header, wanted) if lacking else ""
    for name in lacking[:1] if whole else lacking:
        advice = whole or _existing(name, header)
        problems.add(f"no column {name}", "", None, "", f"there is no column {name!r}", advice=advice)
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


def _about_header(header: list[str], wanted: Wanted) -> str:
    """Return what is wrong with a header of which no column is known; "" if another name may be meant."""
    if len(header) == 1 and (found := re.search(r"[;\t|]", header[0])):
        setting = setting_of(wanted.role, f"delimiter = {_toml_sign(found.group())}")
        advice = (
            "separate columns by commas" if wanted.role == "other" else f"set {setting}, or separate columns by commas"
        )
        return f"the header is {quoted(header[0])}: {advice}"
    if wanted.role == "graph" and len(header) > 1 and not set(wanted.keys or ()) & {one.lower() for one in header}:
        source, target = (one.replace('"', '\\"') for one in header[:2])
        advice = f'set source = "{source}" and target = "{target}"; otherwise, put names above it'
        return f"there are {_columns(header)}. If line 1 names the columns, {advice}"
    return ""


def _columns(header: list[str]) -> str:
    return ", ".join(map(quoted, header[:_LISTED])) + (", ..." if len(header) > _LISTED else "")


def _existing(name: str, header: list[str]) -> str:
    folded = {column.strip().casefold(): column for column in header}
    close = difflib.get_close_matches(name.strip().casefold(), folded, n=1)
    return f"there are {_columns(header)}" + (f"; did you mean {folded[close[0]]!r}?" if close else "")


def _toml_sign(sign: str) -> str:
    return '"\\t"' if sign == "\t" else f'"{sign}"'
