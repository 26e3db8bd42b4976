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


@dataclass(frozen=True, eq=False)
class Shuffle:
    """For each start, an order of the rows (s × m), and for each of its rows an order of the columns (s × m × c)."""

    rows: IntArray
    columns: IntArray

    @classmethod
    def from_key(cls, key: bytes, session: bytes, label: bytes, shape: tuple[int, int, int]) -> Shuffle:
        """Derive the orders for one vector: where random words sort to.

        Two equal words of 64 bits do not occur, so any way of sorting gives the same, and the fastest will do.
        """
        starts, rows, columns = shape
        words = keystream(derived(key, session, "shuffle", label, *shape), starts * rows * (1 + columns))
        of_rows, of_columns = words[: starts * rows], words[starts * rows :]
        return cls(
            np.argsort(of_rows.reshape(starts, rows), axis=1),
            np.argsort(of_columns.reshape(shape), axis=2),
        )

    def apply(self, values: NDArray[Any]) -> NDArray[Any]:
        """Bring an s × m × c array into the secret order."""
        ordered = np.take_along_axis(values, self.rows[:, :, None], axis=1)
        return np.take_along_axis(ordered, self.columns, axis=2)

    def restore_rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """Bring an s × m array, one value for each shuffled row, back into the rows' own order."""
        restored = np.empty_like(values)
        np.put_along_axis(restored, self.rows, values, axis=1)
        return restored
