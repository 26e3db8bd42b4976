"""Fitted rules as plain data: what a party keeps with its model, so that new rows become numbers as old ones did."""

from __future__ import annotations

import msgspec
import numpy as np
from scipy import sparse

from kcagc._types import Features
from kcagc.errors import DataError
from kcagc.files.raw import RawTable
from kcagc.files.reading import Cells, Reading
from kcagc.tables.levels import KeptLevels
from kcagc.tables.numbers import KeptNumbers


class KeptTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a table becomes numbers: its columns of numbers first, then where these were missing, then the levels.

    `dropped` columns may be in a table and are not read; `drops_others` lets any other be there as well.
    """

    numbers: KeptNumbers
    levels: tuple[KeptLevels, ...] = ()
    dropped: tuple[str, ...] = ()
    drops_others: bool = False
    sparse: bool = False

    def reading(self) -> Reading:
        """Give how a file is read that is to become numbers in this way."""
        named = dict(
            zip(self.numbers.columns, (Cells(gaps=fill is not None) for fill in self.numbers.fill), strict=True)
        )
        named |= {one.column: Cells("text", one.missing != "error") for one in self.levels}
        others = dict.fromkeys(self.dropped, Cells("drop"))
        return Reading(Cells("drop") if self.drops_others else None, named, others)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are needed."""
        return (*self.numbers.columns, *(one.column for one in self.levels))

    @property
    def unchanged(self) -> bool:
        """Whether the numbers stay as they are."""
        kept = self.numbers
        plain = (any(kept.indicator), any(kept.log), any(kept.centre), any(value != 1 for value in kept.divisor))
        return not self.levels and not any(plain) and all(value is None for value in kept.fill)

    def names(self) -> list[str]:
        """Give what the columns are called that come out."""
        marked = zip(self.numbers.columns, self.numbers.indicator, strict=True)
        names = [*self.numbers.columns, *(f"{name} (missing)" for name, wanted in marked if wanted)]
        return [*names, *(name for one in self.levels for name in one.names())]

    def apply(self, raw: RawTable) -> Features:
        """Make numbers of a table; a cell that does not fit the rules is named."""
        lacking = [name for name in self.columns if name not in raw.columns]
        if lacking:
            raise DataError(f"there is no column {lacking[0]!r}, which the table that was fitted had")
        numbers, gaps = self.numbers.apply(raw)
        parts = [numbers, gaps, *(one.apply(raw) for one in self.levels)]
        parts = [part for part in parts if part.shape[1]]
        if len(parts) == 1 and sparse.issparse(parts[0]) == self.sparse:
            return parts[0]
        if self.sparse:
            return sparse.csr_array(sparse.hstack([sparse.csr_array(part) for part in parts], format="csr"))
        return np.hstack([part.toarray() if sparse.issparse(part) else part for part in parts])
