"""How the columns of a table are to be read: as numbers, as text, or not at all; and where cells may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

CellKind = Literal["number", "text", "drop"]


@dataclass(frozen=True)
class Cells:
    """How the cells of a column are read, and whether they may be missing."""

    kind: CellKind = "number"
    gaps: bool = False


@dataclass(frozen=True)
class Reading:
    """How to read columns: those in `named`, which must be there, and all `others` (None: there must be none).

    Those in `possible` may be there or not.
    """

    others: Cells | None = Cells()
    named: Mapping[str, Cells] = field(default_factory=dict)
    possible: Mapping[str, Cells] = field(default_factory=dict)

    def of(self, column: str) -> Cells | None:
        """Give how a column is read; None says that it must not be there."""
        return self.named.get(column, self.possible.get(column, self.others))
