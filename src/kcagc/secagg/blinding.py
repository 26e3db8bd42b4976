"""Blinding: secret orders, factors and shifts that the parties share and the aggregator does not know.

The aggregator needs to learn which value of a row is the smallest, not the values. So the parties shuffle rows and
columns, multiply each row by its own factor, and shift it. All parties do the same, with new random values for every
vector. A factor keeps the order within a row and the ratio of two of its values; a shift keeps the order. A blinded sum
still shows the ratio of differences within a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcagc._types import FloatArray, IntArray
from kcagc.secagg.keys import derive_key
from kcagc.secagg.masks import MAX_SHIFT, RingVector, keystream

OCTAVES = 4  # factors lie between 2^-4 and 1, so a value within the protocol's bound stays within it
_FEW = 1 << 8  # columns that integers of 32 bits can put in order: 24 bits are left to tell them apart


def row_factors(key: bytes, session: bytes, label: bytes, shape: tuple[int, ...]) -> FloatArray:
    """Return numbers from 1/16 to 1, each octave equally likely; all parties get the same to the last bit."""
    stream = _stream(key, session, "factors", label, shape)
    octave = (stream % np.uint64(OCTAVES)).astype(np.int64)
    return np.ldexp(1.0 + _fractions(stream), -1 - octave)


def row_shifts(key: bytes, session: bytes, label: bytes, shape: tuple[int, ...]) -> RingVector:
    """Return encoded numbers from 0 to 2^10, much more than distances between rows of unit length differ by."""
    return _stream(key, session, "shifts", label, shape) % np.uint64(MAX_SHIFT)


def mix_values(key: bytes, session: bytes, label: bytes, values: FloatArray) -> FloatArray:
    """Return as many mixtures of two values each, taken at two secret offsets and in secret shares."""
    count = len(values)
    first, second = (int(word) % count for word in _stream(key, session, "neighbours", label, (2,)))
    halves = _stream(key, session, "shares", label, ((count + 1) // 2,)).view("<u4")
    shares = halves[:count] * 2.0**-32
    # Whole arrays move in place, without an index array: there may be many millions of values.
    found = np.roll(values, second)
    beginning = np.roll(values, first)
    found -= beginning
    found *= shares
    found += beginning
    return found


def draw_mixtures(
    key: bytes, session: bytes, label: bytes, count: int, among: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return pairs of positions below `among` and shares from 0 to 1, for rows that are mixtures of two others."""
    stream = _stream(key, session, "mixtures", label, (3, count))
    first, second = (stream[:2] % np.uint64(among)).astype(np.int64)
    return first, second, _fractions(stream[2])


@dataclass(frozen=True, eq=False)
class Shuffle:
    """For each restart, an order of the rows (s × m), and for each of its rows an order of the columns (s × m × c)."""

    rows: IntArray
    columns: IntArray

    @classmethod
    def from_key(cls, key: bytes, session: bytes, label: bytes, shape: tuple[int, int, int]) -> Shuffle:
        """Derive the orders for one vector: the positions of random integers after sorting."""
        restarts, rows, columns = shape
        keys = {what: derive_key(key, session, f"shuffle {what}", label, *shape) for what in ("rows", "columns")}
        of_rows = _orders(keystream(keys["rows"], restarts * rows).reshape(restarts, rows))
        if columns > _FEW:
            of_columns = _orders(keystream(keys["columns"], restarts * rows * columns).reshape(shape))
        else:
            halves = keystream(keys["columns"], (restarts * rows * columns + 1) // 2).view("<u4")
            of_columns = _orders(halves[: restarts * rows * columns].astype(np.uint32, copy=False).reshape(shape))
        return cls(of_rows, of_columns)

    def apply(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return an s × m × c array in the secret order."""
        restarts, rows, columns = values.shape
        first = (np.arange(restarts)[:, None] * rows + self.rows) * columns  # position of each row's first value
        ordered: NDArray[Any] = np.take(values.ravel(), first[:, :, None] + self.columns)
        return ordered

    def restore_rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return an s × m array, one value for each shuffled row, in the original order of the rows."""
        restored = np.empty_like(values)
        np.put_along_axis(restored, self.rows, values, axis=1)
        return restored


def _stream(key: bytes, session: bytes, purpose: str, label: bytes, shape: tuple[int, ...]) -> RingVector:
    return keystream(derive_key(key, session, purpose, label, *shape), math.prod(shape)).reshape(shape)


def _fractions(stream: RingVector) -> FloatArray:
    return (stream >> np.uint64(12)).astype(np.float64) * 2.0**-52


def _orders(words: NDArray[Any]) -> IntArray:
    """Return the order of random integers along the last axis.

    The low bits of each integer are replaced by its position. Sorting these integers, which is much faster than
    `argsort`, then gives the order. Integers that are equal in the other bits, which is rare, keep their order.
    """
    count = words.shape[-1]
    low = words.dtype.type((1 << max(count - 1, 0).bit_length()) - 1)
    numbered: NDArray[Any] = words & ~low
    numbered |= np.arange(count, dtype=words.dtype)
    numbered.sort(axis=-1)
    numbered &= low
    return np.asarray(numbered, dtype=np.int64)
