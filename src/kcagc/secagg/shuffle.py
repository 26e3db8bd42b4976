"""Orders that only the parties know: rows, and the columns within each row, change places before a sum opens.

Whoever receives the sum sees which numbers occur, and neither which node or cell a row belongs to nor which cluster a
column stands for. A new order for every vector, from a key that the parties share and the receiver does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcagc._types import IntArray
from kcagc.secagg.masks import keystream
from kcagc.secagg.pairs import derived

_FEW = 1 << 8  # columns that words of 32 bits put in order: 24 bits are left to tell them apart


@dataclass(frozen=True, eq=False)
class Shuffle:
    """For each start, an order of the rows (s × m), and for each of its rows an order of the columns (s × m × c)."""

    rows: IntArray
    columns: IntArray

    @classmethod
    def from_key(cls, key: bytes, session: bytes, label: bytes, shape: tuple[int, int, int]) -> Shuffle:
        """Derive the orders for one vector: where random words sort to."""
        starts, rows, columns = shape
        keys = {what: derived(key, session, f"shuffle {what}", label, *shape) for what in ("rows", "columns")}
        of_rows = _orders(keystream(keys["rows"], starts * rows).reshape(starts, rows))
        if columns > _FEW:
            of_columns = _orders(keystream(keys["columns"], starts * rows * columns).reshape(shape))
        else:
            halves = keystream(keys["columns"], (starts * rows * columns + 1) // 2).view("<u4")
            of_columns = _orders(halves[: starts * rows * columns].astype(np.uint32, copy=False).reshape(shape))
        return cls(of_rows, of_columns)

    def apply(self, values: NDArray[Any]) -> NDArray[Any]:
        """Bring an s × m × c array into the secret order."""
        starts, rows, columns = values.shape
        first = (np.arange(starts)[:, None] * rows + self.rows) * columns  # of each row's values, among all
        ordered: NDArray[Any] = np.take(values.ravel(), first[:, :, None] + self.columns)
        return ordered

    def restore_rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """Bring an s × m array, one value for each shuffled row, back into the rows' own order."""
        restored = np.empty_like(values)
        np.put_along_axis(restored, self.rows, values, axis=1)
        return restored


def _orders(words: NDArray[Any]) -> IntArray:
    """Give the order of random words along the last axis.

    Positions stand in the low bits, so that sorting the words themselves, which is much faster than finding out where
    they would go, gives the order. Words that are equal in the other bits, which hardly occurs, keep their order.
    """
    count = words.shape[-1]
    low = words.dtype.type((1 << max(count - 1, 0).bit_length()) - 1)
    numbered: NDArray[Any] = words & ~low
    numbered |= np.arange(count, dtype=words.dtype)
    numbered.sort(axis=-1)
    numbered &= low
    return np.asarray(numbered, dtype=np.int64)
