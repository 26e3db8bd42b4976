"""What a party says about its columns: numbers, words or nothing; what to do about gaps; how to scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from kcagc.errors import ParameterError
from kcagc.files.reading import CellKind, Cells, Reading
from kcagc.parameters import check_choice, check_count

Kind = Literal["number", "categorical", "drop"]
Missing = Literal["error", "mean", "median", "zero", "indicator"]
Scale = Literal["none", "standard", "minmax", "log1p"]

_CHOICES = {"kind": get_args(Kind), "missing": get_args(Missing), "scale": get_args(Scale)}
_READ_AS: dict[Kind, CellKind] = {"number": "number", "categorical": "text", "drop": "drop"}


class ColumnRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one column becomes numbers.

    - `kind`: a "number", "categorical" (one column of 0 and 1 for each level), or "drop".
    - `missing`: "error", or for numbers the "mean" or "median" of the fit; "zero", which is no level for categorical
      ones; "indicator": the mean and a further column that says where, or a level of its own.
    - `scale` of numbers, after gaps are filled: "none", "standard", "minmax" or "log1p".
    - `max_levels`: how many levels are kept, the most frequent; all others become one, "other". Without it, more than
      100 are an error.
    """

    kind: Kind = "number"
    missing: Missing = "error"
    scale: Scale = "none"
    max_levels: int | None = None

    @classmethod
    def of(cls, given: ColumnRule | Mapping[str, Any], where: str) -> ColumnRule:
        """Take a rule, or what makes one; an error names `where` it stands."""
        if isinstance(given, ColumnRule):
            return given.checked(where)
        if not isinstance(given, Mapping):
            raise ParameterError(f"{where}: must be a rule such as {{'missing': 'mean'}}, not {given!r}")
        unknown = sorted(set(map(str, given)) - set(cls.__struct_fields__))
        if unknown:
            known = ", ".join(cls.__struct_fields__)
            raise ParameterError(f"{where}: there is no setting called {unknown[0]!r}; there are {known}")
        return cls(**given).checked(where)

    def checked(self, where: str) -> ColumnRule:
        """Refuse a rule that means nothing."""
        for name, choices in _CHOICES.items():
            check_choice(f"{where}: {name}", getattr(self, name), choices)
        check_count(f"{where}: max_levels", self.max_levels, optional=True)
        if self.kind == "categorical":
            if self.scale != "none":
                raise ParameterError(f"{where}: scale: levels cannot be scaled; leave it out")
            if self.missing in ("mean", "median"):
                raise ParameterError(
                    f"{where}: missing: levels have no {self.missing}; 'error', 'zero' and 'indicator' are possible"
                )
        elif self.max_levels is not None:
            raise ParameterError(f"{where}: max_levels: is for kind = 'categorical', and this is {self.kind!r}")
        return self

    @property
    def cells(self) -> Cells:
        """How a column under this rule is read."""
        return Cells(_READ_AS[self.kind], self.missing != "error")


class TableRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule for each column that is named, and one for all others."""

    default: ColumnRule = ColumnRule()
    columns: dict[str, ColumnRule] = {}

    def checked(self, where: str = "") -> TableRules:
        """Refuse rules that mean nothing; `where` comes before their names."""
        self.default.checked(f"{where}default")
        for name, rule in self.columns.items():
            rule.checked(f"{where}columns.{name}")
        return self

    def of(self, column: str) -> ColumnRule:
        """Give the rule of a column."""
        return self.columns.get(column, self.default)

    def reading(self) -> Reading:
        """Give how a file is read under these rules."""
        return Reading(self.default.cells, {name: rule.cells for name, rule in self.columns.items()})

    def as_dict(self) -> dict[str, Any]:
        """Give what differs from doing nothing, for a summary."""
        plain = ColumnRule()

        def told(rule: ColumnRule) -> dict[str, Any]:
            fields = msgspec.structs.asdict(rule)
            return {name: value for name, value in fields.items() if value != getattr(plain, name)}

        rules = {"default": self.default, **{f"columns.{name}": rule for name, rule in self.columns.items()}}
        return {name: told(rule) for name, rule in rules.items() if told(rule)}
