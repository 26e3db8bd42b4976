"""Rules fitted to a table, as plain data: fillings, scales and levels, and how they make numbers of another table.

A party keeps them with its model. A prediction applies them to new rows as the fit did to its own.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np
from scipy import sparse

from kcagc._types import Features, Flags, FloatArray, Sparse
from kcagc.data.table import ColumnType, Schema, Table, nonfinite_entries
from kcagc.data.weighting import apply_weights

if TYPE_CHECKING:  # the rules import this module
    from kcagc.data.preprocessing import ColumnRule, TableRules

Missing = Literal["error", "mean", "median", "zero", "indicator"]

MOST_LEVELS = 100  # a column with more levels looks like a name; `max_levels` overrides it
LOGARITHMS = ("log1p", "log-standard")
_IMPUTER = {"mean": "mean", "median": "median", "zero": "constant", "indicator": "mean"}


class FittedNumbers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fitted rules of the columns of numbers, with an entry for each column.

    A column becomes (log1p(x) or x, minus `centre`) / `divisor`. `fill` replaces a missing number; None: a missing
    number is an error. `indicator` adds a column that marks missing numbers. `blank` and `unreadable` are those of
    `ColumnType`; they are empty if no column has any.
    """

    columns: tuple[str, ...]
    fill: tuple[float | None, ...]
    indicator: tuple[bool, ...]
    log: tuple[bool, ...]
    centre: tuple[float, ...]
    divisor: tuple[float, ...]
    blank: tuple[tuple[str, ...], ...] = ()
    unreadable: tuple[bool, ...] = ()

    @classmethod
    def fit(cls, rules: TableRules, table: Table) -> FittedNumbers:
        """Fit columns with the same rule together; scikit-learn finds fillings and scales."""
        names = tuple(name for name in table.number_columns if rules.of(name).kind == "number")
        each = [rules.of(name) for name in names]
        fill, centre, divisor = np.full(len(names), np.nan), np.zeros(len(names)), np.ones(len(names))
        groups: dict[ColumnRule, list[int]] = {}
        for place, rule in enumerate(each):
            groups.setdefault(rule, []).append(place)
        block = _columns(table, names)
        for rule, places in groups.items():
            if rule.missing == "error" and rule.scale == "none":
                continue
            chosen = block if len(places) == len(names) else block[:, places]
            called = tuple(names[place] for place in places)
            fill[places], centre[places], divisor[places] = _fit_group(rule, table, called, chosen)
        return cls(
            names,
            tuple(None if rule.missing == "error" else value for rule, value in zip(each, fill.tolist(), strict=True)),
            tuple(rule.missing == "indicator" for rule in each),
            tuple(rule.scale in LOGARITHMS for rule in each),
            tuple(centre.tolist()),
            tuple(divisor.tolist()),
            tuple(rule.missing_values for rule in each) if any(rule.missing_values for rule in each) else (),
            tuple(rule.unreadable == "missing" for rule in each) if any(map(_accepts_words, each)) else (),
        )

    def types(self) -> dict[str, ColumnType]:
        """Return how the columns of another table are read."""
        blank, unreadable = self.blank or ((),) * len(self.columns), self.unreadable or (False,) * len(self.columns)
        parts = zip(self.columns, self.fill, self.log, blank, unreadable, strict=True)
        return {
            name: ColumnType("number", fill is not None, texts, words, "log1p" if log else "")
            for name, fill, log, texts, words in parts
        }

    def marked(self) -> list[str]:
        """Return the columns whose missing numbers are marked."""
        return [name for name, wanted in zip(self.columns, self.indicator, strict=True) if wanted]

    def apply(self, table: Table) -> tuple[Features, Sparse]:
        """Return the numbers, and the columns that mark missing numbers."""
        block = _columns(table, self.columns)
        rows, columns = nonfinite_entries(block)
        fill = np.array([np.nan if value is None else value for value in self.fill])
        how = np.array(self.log, dtype=bool), np.array(self.centre), np.array(self.divisor)
        if rows.size or how[0].any() or how[1].any() or (how[2] != 1).any():
            block = _transformed(table, self.columns, block, fill, how)
        marked = np.array(self.indicator, dtype=bool)
        chosen = marked[columns]
        ends = (rows[chosen], (np.cumsum(marked) - 1)[columns[chosen]])
        shape = (table.n_rows, int(marked.sum()))
        return block, sparse.csr_array((np.ones(int(chosen.sum())), ends), shape=shape)


class FittedLevels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The levels of one column; another text counts as the level "other" if the fit had one, else as no level."""

    column: str
    levels: tuple[str, ...]
    other: bool
    missing: Missing
    blank: tuple[str, ...] = ()

    @classmethod
    def fit(cls, table: Table, column: str, rule: ColumnRule) -> FittedLevels:
        """Keep the most frequent levels of a column, sorted by their text."""
        texts = table.texts[column]
        counts = Counter(text for text in texts if text is not None)  # the check of the table limits their number
        most = MOST_LEVELS if rule.max_levels is None else rule.max_levels
        # ties are broken by text, so the order of rows changes nothing
        ranked = sorted(counts, key=lambda text: (-counts[text], text))
        return cls(column, tuple(sorted(ranked[:most])), len(ranked) > most, rule.missing, rule.missing_values)

    def feature_names(self) -> list[str]:
        """Return the names of the columns that this column becomes."""
        extra = ["(other)"] * self.other + ["(missing)"] * (self.missing == "indicator")
        return [f"{self.column}={level}" for level in self.levels] + [f"{self.column} {one}" for one in extra]

    def apply(self, table: Table) -> Sparse:
        """Return a row with a single 1, or with none, for each row of the table."""
        texts = table.texts[self.column]
        place = {level: number for number, level in enumerate(self.levels)}
        unknown = len(self.levels) if self.other else -1
        absent = len(self.levels) + self.other if self.missing == "indicator" else -1
        cells = (absent if text is None else place.get(text, unknown) for text in texts)
        found = np.fromiter(cells, np.int64, len(texts))
        rows = np.flatnonzero(found >= 0)
        shape = (len(texts), len(self.feature_names()))
        return sparse.csr_array((np.ones(len(rows)), (rows, found[rows])), shape=shape)


class FittedRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules fitted to a table, as plain data; `TableRules.fit` makes them.

    Attributes
    ----------
    numbers : FittedNumbers
        The columns of numbers, which come first in the result, followed by the columns that mark missing numbers.
    levels : tuple of FittedLevels
        The columns of categories, which come last.
    dropped : tuple of str
        Columns that may exist and are ignored.
    drops_others : bool
        Whether any other column may exist and is ignored.
    sparse : bool
        Whether the result is a CSR matrix.
    weights : tuple of float
        What the columns of the result are multiplied by, last of all; empty if no column has a weight other than 1.

    Examples
    --------
    >>> from kcagc.data import TableRules, read_features, write_text
    >>> write_text("bank.csv", "age,income\\n41,5\\n27,3\\n")
    >>> table = read_features("bank.csv", party="bank")
    >>> TableRules().fit(table).apply(table).tolist()
    [[41.0, 5.0], [27.0, 3.0]]
    """

    numbers: FittedNumbers
    levels: tuple[FittedLevels, ...] = ()
    dropped: tuple[str, ...] = ()
    drops_others: bool = False
    sparse: bool = False
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Raise an error for weights of other columns, as in a damaged file."""
        if self.weights and len(self.weights) != len(self.sources()):
            raise ValueError(f"{len(self.weights)} weights for {len(self.sources())} columns")

    def schema(self) -> Schema:
        """Return how to read a table that these rules are applied to."""
        named = self.numbers.types()
        named |= {one.column: ColumnType("text", one.missing != "error", one.blank) for one in self.levels}
        others = dict.fromkeys(self.dropped, ColumnType("drop"))
        return Schema(ColumnType("drop") if self.drops_others else None, named, others)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        return (*self.numbers.columns, *(one.column for one in self.levels))

    def feature_names(self) -> list[str]:
        """Return the names of the columns of the result."""
        names = [*self.numbers.columns, *(f"{name} (missing)" for name in self.numbers.marked())]
        return [*names, *(name for one in self.levels for name in one.feature_names())]

    def sources(self) -> list[str]:
        """Return for each column of the result the column that it was made from."""
        levels = (one.column for one in self.levels for _ in one.feature_names())
        return [*self.numbers.columns, *self.numbers.marked(), *levels]

    def column_weights(self) -> FloatArray:
        """Return the weight of each column of the result; 1 for a column that is not weighted."""
        return np.array(self.weights) if self.weights else np.ones(len(self.sources()))

    def apply(self, table: Table) -> Features:
        """Make numbers of a table; an error names the cell that does not fit the rules."""
        for name in self.columns:
            if name not in table.texts and name not in table.number_columns:
                raise table.origin.fail(f"there is no column {name!r}, but the table that was fitted had one")
        table.checked(self.schema().types(table.columns))
        numbers, gaps = self.numbers.apply(table)
        parts = [part for part in (numbers, gaps, *(one.apply(table) for one in self.levels)) if part.shape[1]]
        if len(parts) == 1 and sparse.issparse(parts[0]) == self.sparse:
            made = parts[0]
        elif self.sparse:
            made = sparse.csr_array(sparse.hstack([sparse.csr_array(part) for part in parts], format="csr"))
        else:
            made = np.hstack([part.toarray() if sparse.issparse(part) else part for part in parts])
        return apply_weights(made, np.array(self.weights)) if self.weights else made


def _accepts_words(rule: ColumnRule) -> bool:
    return rule.unreadable == "missing"


def _columns(table: Table, names: tuple[str, ...]) -> Features:
    """Return columns of numbers by name, without a copy if these are all of them."""
    if list(names) == table.number_columns:
        return table.numbers
    place = {name: number for number, name in enumerate(table.number_columns)}
    return table.numbers[:, [place[name] for name in names]]


def _fit_group(
    rule: ColumnRule, table: Table, names: tuple[str, ...], block: Features
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return filling, centre and divisor of columns that have the same rule."""
    count = len(names)
    fill, centre, divisor = np.full(count, np.nan), np.zeros(count), np.ones(count)
    if rule.missing != "error":
        from sklearn.impute import SimpleImputer  # noqa: PLC0415 - slow to import, and often not needed

        imputer = SimpleImputer(strategy=_IMPUTER[rule.missing], fill_value=0.0, keep_empty_features=True)
        # A gap takes the mean on the scale that is clustered: far from it, gaps would be like nodes of large values.
        by_log = rule.scale in LOGARITHMS and _IMPUTER[rule.missing] == "mean"
        seen = _transformed(table, names, block, fill, (np.full(count, by_log), centre, divisor)) if by_log else block
        fill = np.asarray(imputer.fit(seen).statistics_, dtype=np.float64)
        fill = np.expm1(fill) if by_log else fill
    if rule.scale != "none":  # for log1p, an error names a value without a logarithm now
        log = np.full(count, rule.scale in LOGARITHMS)
        filled = _transformed(table, names, block, fill, (log, centre, divisor))
        if rule.scale != "log1p":
            centre, divisor = _fit_scale(rule, filled)
    finite = np.isfinite(centre) & np.isfinite(divisor)
    if not finite.all():
        raise table.error(0, names[int(np.argmin(finite))], "the values of this column are too large to be scaled")
    return fill, centre, divisor


def _fit_scale(rule: ColumnRule, block: Features) -> tuple[FloatArray, FloatArray]:
    """Return centre and divisor; a sparse block is only divided, because a centre would fill it."""
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler  # noqa: PLC0415 - slow to import

    nothing = np.zeros(block.shape[1])
    if rule.scale in ("standard", "log-standard"):
        fitted = StandardScaler(with_mean=not sparse.issparse(block)).fit(block)
        return nothing if sparse.issparse(block) else fitted.mean_, fitted.scale_
    if sparse.issparse(block):
        return nothing, MaxAbsScaler().fit(block).scale_
    bounds = MinMaxScaler().fit(block)
    return bounds.data_min_, np.where(bounds.data_range_ > 0, bounds.data_range_, 1.0)


def _transformed(
    table: Table, names: tuple[str, ...], block: Features, fill: FloatArray, how: tuple[Flags, FloatArray, FloatArray]
) -> Features:
    """Return a copy in which missing numbers are filled, then columns transformed by `how`: log1p, centre, divisor."""
    log, centre, divisor = how
    block = block.tocsc(copy=True) if sparse.issparse(block) else np.array(block, order="F")  # columns lie together
    for place in range(len(names)):
        stored = slice(*block.indptr[place : place + 2]) if sparse.issparse(block) else (slice(None), place)
        values = block.data[stored] if sparse.issparse(block) else block[stored]
        values[np.isnan(values)] = fill[place]
        if log[place]:
            np.log1p(values, out=values)
        if centre[place]:
            values -= centre[place]
        if divisor[place] != 1:
            values /= divisor[place]
    if not sparse.issparse(block):
        return np.ascontiguousarray(block)
    block.eliminate_zeros()
    return block.tocsr()
