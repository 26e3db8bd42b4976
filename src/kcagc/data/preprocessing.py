"""Preprocessing of tables: rules for columns, the rules fitted to a table as plain data, and their application.

A party fits its rules on its own rows alone and keeps the result with its model. A prediction then makes numbers of new
rows in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from scipy import sparse

from kcagc._types import Features, Flags, FloatArray, Sparse, check_choice, check_count
from kcagc.data.table import ColumnType, Schema, Table, nonfinite_entries
from kcagc.data.weighting import Weighting, apply_weights, fit_weights
from kcagc.errors import ParameterError

Kind = Literal["number", "categorical", "drop"]
Missing = Literal["error", "mean", "median", "zero", "indicator"]
Scale = Literal["none", "standard", "minmax", "log1p", "log-standard"]
Unreadable = Literal["error", "missing"]

MOST_LEVELS = 100  # a column with more levels looks like a name; `max_levels` overrides it

_CHOICES = {
    "kind": get_args(Kind), "missing": get_args(Missing), "scale": get_args(Scale), "weighting": get_args(Weighting),
    "unreadable": get_args(Unreadable),
}  # fmt: skip
_LOGARITHMS = ("log1p", "log-standard")
_READ_AS: dict[Kind, Literal["number", "text", "drop"]] = {"number": "number", "categorical": "text", "drop": "drop"}
_IMPUTER = {"mean": "mean", "median": "median", "zero": "constant", "indicator": "mean"}
_SPARSE_BELOW = 0.3  # share of entries that are not zero, as in the ColumnTransformer of scikit-learn


class ColumnRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one column becomes numbers.

    Parameters
    ----------
    kind : {"number", "categorical", "drop"}, default "number"
        "categorical" gives one column of 0 and 1 for each level; "drop" ignores the column.
    missing : {"error", "mean", "median", "zero", "indicator"}, default "error"
        What replaces a missing cell. "mean" and "median" are those of the fit. "zero" is the number 0, or no level.
        "indicator" is the mean and a further column that marks the cell, or a level of its own.
    scale : {"none", "standard", "minmax", "log1p", "log-standard"}, default "none"
        How numbers are scaled after missing cells are replaced. "log-standard" is "log1p", then "standard".
    max_levels : int or None, default None
        The most frequent levels that are kept; all others become one level "other". None: more than 100 levels are an
        error.
    weighting : {"auto", "idf", "none"}, default "auto"
        Whether the numbers that the column has become are multiplied by their inverse document frequency,
        ln((1 + n) / (1 + m)) + 1 for n nodes of which m have a number other than 0. "auto" does so for flags (0 and 1)
        and counts (other whole numbers, none negative, at least half of them 0), unless more columns hold real numbers
        of which at least half are 0, as in a table of tf-idf. "idf" does so for all numbers, and refuses negative ones.
    missing_values : tuple of str, default ()
        Texts that count as missing in this column, such as "-" or "-999"; a number is compared as a number.
    unreadable : {"error", "missing"}, default "error"
        Whether a cell of a column of numbers that is not a number is an error or counts as missing.

    Examples
    --------
    >>> from kcagc.data import ColumnRule
    >>> ColumnRule(missing="mean", scale="standard")
    ColumnRule(missing='mean', scale='standard')
    """

    kind: Kind = "number"
    missing: Missing = "error"
    scale: Scale = "none"
    max_levels: int | None = None
    weighting: Weighting = "auto"
    missing_values: tuple[str, ...] = ()
    unreadable: Unreadable = "error"

    def __repr__(self) -> str:
        """Return the settings that differ from their defaults."""
        return f"ColumnRule({', '.join(f'{name}={value!r}' for name, value in self.settings().items())})"

    def settings(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults."""
        plain = {field.name: field.default for field in msgspec.structs.fields(self)}
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value != plain[name]}

    @classmethod
    def of(cls, given: ColumnRule | Mapping[str, Any], where: str) -> ColumnRule:
        """Return a rule, from a rule or a mapping; `where` opens the message of an error."""
        if isinstance(given, ColumnRule):
            return given.checked(where)
        if not isinstance(given, Mapping):
            raise ParameterError(f"{where}: must be a rule such as {{'missing': 'mean'}}, not {given!r}")
        unknown = sorted(set(map(str, given)) - set(cls.__struct_fields__))
        if unknown:
            known = ", ".join(cls.__struct_fields__)
            raise ParameterError(f"{where}: there is no setting called {unknown[0]!r}; there are {known}")
        return cls(**{**given, "missing_values": _texts(given.get("missing_values", ()), where)}).checked(where)

    def checked(self, where: str) -> ColumnRule:
        """Return this rule, or raise an error for settings that contradict each other."""
        for name, choices in _CHOICES.items():
            check_choice(f"{where}: {name}", getattr(self, name), choices)
        check_count(f"{where}: max_levels", self.max_levels, optional=True)
        if self.kind == "categorical":
            if self.scale != "none":
                raise ParameterError(f"{where}: scale: levels cannot be scaled; remove it")
            if self.missing in ("mean", "median"):
                raise ParameterError(
                    f"{where}: missing: levels have no {self.missing}; use 'error', 'zero' or 'indicator'"
                )
        elif self.max_levels is not None:
            raise ParameterError(f"{where}: max_levels: is for kind = 'categorical', not for {self.kind!r}")
        if self.unreadable != "error" and self.kind != "number":
            raise ParameterError(f"{where}: unreadable: is for kind = 'number', not for {self.kind!r}")
        for name in ("missing_values", "unreadable"):
            if self.missing == "error" and self.kind != "drop" and name in self.settings():
                raise ParameterError(f"{where}: {name}: set missing, too: it fills in these cells")
        return self

    @property
    def type(self) -> ColumnType:
        """How a column with this rule is read."""
        numbers, levels = self.kind == "number", self.kind == "categorical"
        idf = numbers and self.weighting == "idf" and self.scale == "none"
        return ColumnType(
            _READ_AS[self.kind],
            self.missing != "error",
            self.missing_values,
            self.unreadable == "missing",
            "log1p" if numbers and self.scale in _LOGARITHMS else "idf" if idf else "",
            MOST_LEVELS if levels and self.max_levels is None else None,
            levels or (numbers and self.missing in ("mean", "median", "indicator")),
        )


class TableRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of a table.

    Parameters
    ----------
    default : ColumnRule, default ColumnRule()
        The rule of every column that `columns` does not name.
    columns : dict of str to ColumnRule, default {}
        Rules by the name of their column. These columns must exist.

    Examples
    --------
    >>> from kcagc.data import ColumnRule, TableRules
    >>> rules = TableRules(columns={"city": ColumnRule(kind="categorical")})
    >>> rules.of("city").kind, rules.of("age").kind
    ('categorical', 'number')
    """

    default: ColumnRule = ColumnRule()
    columns: dict[str, ColumnRule] = {}

    def checked(self, where: str = "") -> TableRules:
        """Return these rules, or raise an error for a wrong rule; `where` precedes the name of the rule."""
        self.default.checked(f"{where}default")
        for name, rule in self.columns.items():
            rule.checked(f"{where}columns.{name}")
        return self

    def of(self, column: str) -> ColumnRule:
        """Return the rule of a column."""
        return self.columns.get(column, self.default)

    def schema(self) -> Schema:
        """Return how to read a table that has these rules."""
        return Schema(self.default.type, {name: rule.type for name, rule in self.columns.items()})

    def as_dict(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults, for a summary."""
        rules = {"default": self.default, **{f"columns.{name}": rule for name, rule in self.columns.items()}}
        changed = {name: rule.settings() for name, rule in rules.items()}
        return {name: settings for name, settings in changed.items() if settings}

    def weighted(self, weighting: Weighting) -> TableRules:
        """Return these rules with another weighting in place of "auto"."""

        def changed(rule: ColumnRule) -> ColumnRule:
            return msgspec.structs.replace(rule, weighting=weighting) if rule.weighting == "auto" else rule

        return TableRules(changed(self.default), {name: changed(rule) for name, rule in self.columns.items()})

    def fit(self, table: Table) -> FittedRules:
        """Fit the rule of every column to a table."""
        return self.fit_apply(table)[0]

    def fit_apply(self, table: Table) -> tuple[FittedRules, Features]:
        """Fit the rule of every column to a table, and make numbers of it."""
        table.checked(self.schema().types(table.columns))
        numbers = FittedNumbers.fit(self, table)
        levels = tuple(
            FittedLevels.fit(table, name, self.of(name)) for name in table.texts if self.of(name).kind == "categorical"
        )
        dropped = tuple(name for name, rule in self.columns.items() if rule.kind == "drop")
        width, one_hot = len(numbers.columns), sum(len(one.feature_names()) for one in levels)
        is_sparse = (sparse.issparse(table.numbers) and bool(table.number_columns)) or (
            bool(levels) and width + len(levels) < _SPARSE_BELOW * (width + one_hot)
        )
        fitted = FittedRules(numbers, levels, dropped, self.default.kind == "drop", is_sparse)
        made, names = fitted.apply(table), fitted.feature_names()
        weights = fit_weights(
            made,
            [self.of(name).weighting for name in fitted.sources()],
            lambda row, column, message: table.error(row, names[column], message),
        )
        if (weights == 1).all():
            return fitted, made
        return msgspec.structs.replace(fitted, weights=tuple(weights.tolist())), apply_weights(made, weights)


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
            tuple(rule.scale in _LOGARITHMS for rule in each),
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


def _texts(given: Any, where: str) -> tuple[str, ...]:
    """Return the texts that count as missing; in Python, they may be numbers."""
    if isinstance(given, str) or not isinstance(given, list | tuple | set | frozenset):
        raise ParameterError(f"{where}: missing_values: must be a list of texts, not {given!r}")
    return tuple(str(one) for one in given)


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
        fill = np.asarray(imputer.fit(block).statistics_, dtype=np.float64)
    if rule.scale != "none":  # for log1p, an error names a value without a logarithm now
        log = np.full(count, rule.scale in _LOGARITHMS)
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
