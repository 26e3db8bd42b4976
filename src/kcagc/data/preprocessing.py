"""Preprocessing of tables: the rules by which columns become numbers, as a party states them.

A party fits its rules on its own rows alone; `fitted_rules` holds the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from scipy import sparse

from kcagc._types import Features, check_choice, check_count
from kcagc.data.fitted_rules import LOGARITHMS, MOST_LEVELS, FittedLevels, FittedNumbers, FittedRules, Missing
from kcagc.data.table import ColumnType, Schema, Table
from kcagc.data.weighting import Weighting, apply_weights, fit_weights
from kcagc.errors import ParameterError

Kind = Literal["number", "categorical", "drop"]
Scale = Literal["none", "standard", "minmax", "log1p", "log-standard"]
Unreadable = Literal["error", "missing"]

_CHOICES = {
    "kind": get_args(Kind), "missing": get_args(Missing), "scale": get_args(Scale), "weighting": get_args(Weighting),
    "unreadable": get_args(Unreadable),
}  # fmt: skip
_READ_AS: dict[Kind, Literal["number", "text", "drop"]] = {"number": "number", "categorical": "text", "drop": "drop"}
_SPARSE_BELOW = 0.3  # share of entries that are not zero, as in the ColumnTransformer of scikit-learn


class ColumnRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one column becomes numbers.

    Parameters
    ----------
    kind : {"number", "categorical", "drop"}, default "number"
        "categorical" gives one column of 0 and 1 for each level; "drop" ignores the column.
    missing : {"error", "mean", "median", "zero", "indicator"}, default "error"
        What replaces a missing cell. "mean" and "median" are those of the fit; with a logarithmic scale, "mean" is the
        mean of the logarithms, converted back. "zero" is the number 0, or no level. "indicator" is the mean and a
        further column that marks the cell, or a level of its own.
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

    def __post_init__(self) -> None:
        """Make a whole number of NumPy one of Python, which can be compared and saved like any other."""
        given: Any = self.max_levels
        if isinstance(given, np.integer):
            msgspec.structs.force_setattr(self, "max_levels", int(given))

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
            "log1p" if numbers and self.scale in LOGARITHMS else "idf" if idf else "",
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


def _texts(given: Any, where: str) -> tuple[str, ...]:
    """Return the texts that count as missing; in Python, they may be numbers."""
    if isinstance(given, str) or not isinstance(given, list | tuple | set | frozenset):
        raise ParameterError(f"{where}: missing_values: must be a list of texts, not {given!r}")
    return tuple(str(one) for one in given)
