"""Columns of words: a column of 0 and 1 for each level that the fit kept, one for the rest, one for what is missing."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
from scipy import sparse

from kcagc._types import Sparse
from kcagc.files.raw import RawTable
from kcagc.files.table import PRESENT, Texts
from kcagc.tables.rules import ColumnRule, Missing

MOST_LEVELS = 100  # beyond it a column is a name rather than a category, unless somebody says otherwise


class KeptLevels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The levels of one column; what is none of them counts as `other` where the fit had such, else as no level."""

    column: str
    levels: tuple[str, ...]
    other: bool
    missing: Missing

    @classmethod
    def fit(cls, raw: RawTable, column: str, rule: ColumnRule) -> KeptLevels:
        """Keep the most frequent levels of a column, in the order of their text."""
        counts = Counter(text for text in raw.texts[column] if text is not None)
        if not counts:
            raise raw.error(0, column, "no row has a value in this column; drop it")
        most = MOST_LEVELS if rule.max_levels is None else rule.max_levels
        if len(counts) > most and rule.max_levels is None:
            where = next(row for row, text in enumerate(raw.texts[column]) if text is not None)
            raise raw.error(
                where,
                column,
                f"there are {len(counts):,} different values, more than {MOST_LEVELS}, which looks like a name; drop "
                "the column, or say with max_levels how many to keep (the rest become one, other)",
            )
        # ties by their text, so that the order of rows changes nothing
        ranked = sorted(counts, key=lambda text: (-counts[text], text))
        return cls(column, tuple(sorted(ranked[:most])), len(ranked) > most, rule.missing)

    def names(self) -> list[str]:
        """Give what the columns are called that this one becomes."""
        extra = ["(other)"] * self.other + ["(missing)"] * (self.missing == "indicator")
        return [f"{self.column}={level}" for level in self.levels] + [f"{self.column} {one}" for one in extra]

    def apply(self, raw: RawTable) -> Sparse:
        """Give a row with a single 1, or none, for each row."""
        texts: Texts = raw.texts[self.column]
        place = {level: number for number, level in enumerate(self.levels)}
        unknown = len(self.levels) if self.other else -1
        absent = len(self.levels) + self.other if self.missing == "indicator" else -1
        if self.missing == "error" and None in texts:
            raise raw.error(texts.index(None), self.column, f"the value is missing; {PRESENT}")
        found = np.fromiter(
            (absent if text is None else place.get(text, unknown) for text in texts), np.int64, len(texts)
        )
        rows = np.flatnonzero(found >= 0)
        shape = (len(texts), len(self.names()))
        return sparse.csr_array((np.ones(len(rows)), (rows, found[rows])), shape=shape)
