"""Blinding: what hides a comparison from the aggregator, which answers its sign and learns neither values nor result.

All parties of a group derive the same secrets from their key; the aggregator does not have it. A comparison is an odd
integer Δ, the sum of one part from each party. Every party multiplies its part by the secret factor ±f. One party also
adds a secret offset ±e with |e| < f, so the aggregator sees ±(f·Δ + e). The sign of that is the sign of Δ, or its
opposite: a coin flip. The factors are spread evenly over at least 25 octaves, so the magnitude says little about Δ. The
offset hides the divisors of Δ: without it, two values of the same Δ would have it as a common divisor. Comparisons
travel in a secret order.

All factors are integers that follow from the key by integer arithmetic, so they are the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcagc._types import Flags, IntArray
from kcagc.secagg.keys import derive_key
from kcagc.secagg.masks import ONE, RingVector, keystream

MIN_OCTAVES = 25
MAX_WEIGHT = 9 / 4  # largest difference of two weighted distances: (D_r - 9·D_w) / 4, in the margin step
_STEPS = 256  # of an octave
_LOWEST = 6  # octaves below the smallest factor, if there is room: an offset then has 127 values or more
_MANTISSA_BITS = 32


def _powers() -> RingVector:
    """Return 2^(i/256) for i from 0 to 256, with 32 fraction bits."""
    with localcontext() as context:
        context.prec = 40
        found = [int(Decimal(2) ** (Decimal(i) / _STEPS) * (1 << _MANTISSA_BITS)) for i in range(_STEPS)]
    return np.array([*found, 2 << _MANTISSA_BITS], dtype=np.uint64)


_POWERS = _powers()


@dataclass(frozen=True)
class FactorRange:
    """The range of secret factors, in steps of 1/256 octave: from `first` up to but not including `last`."""

    first: int
    last: int

    @classmethod
    def of_sum(cls, n_parties: int, bound: float) -> FactorRange:
        """Return the widest range for which no comparison of squared distances up to `bound` leaves the ring."""
        largest = 2 * n_parties * (int(MAX_WEIGHT * bound * ONE * (1 + 2.0**-19)) + 1) + 1
        room = (1 << 63) // (largest + 1)  # f·(|Δ| + 1) stays below 2^63
        octave = room.bit_length() - 1
        place = int(np.searchsorted(_POWERS, np.uint64((room << _MANTISSA_BITS) >> octave), side="right")) - 1
        last = octave * _STEPS + place
        lowest = min(_LOWEST, (last - MIN_OCTAVES * _STEPS) // _STEPS)
        if lowest < 0:
            raise ValueError(f"{n_parties} parties and distances up to {bound:g} leave too few octaves for factors")
        return cls(lowest * _STEPS, last)

    @property
    def octaves(self) -> float:
        """Number of octaves."""
        return (self.last - self.first) / _STEPS


@dataclass(frozen=True, eq=False)
class Blinding:
    """The secrets of one vector: a factor and a sign for each comparison, its offset, and the order of all."""

    factors: RingVector
    negative: Flags
    order: IntArray
    _offset_key: bytes

    @classmethod
    def from_key(cls, key: bytes, session: bytes, label: bytes, length: int, factors: FactorRange) -> Blinding:
        """Derive the secrets of the vector with this label."""
        words = _stream(key, session, "factors", label, length)
        order = _order(_stream(key, session, "order", label, length))
        offsets = derive_key(key, session, "offsets", label, length)
        return cls(_factors(words, factors), (words & np.uint64(1)).astype(bool), order, offsets)

    def apply(self, parts: IntArray, *, with_offsets: bool) -> RingVector:
        """Blind one party's parts of the comparisons; exactly one party adds the offsets."""
        words = np.ascontiguousarray(parts, dtype=np.int64).view(np.uint64) * self.factors
        if with_offsets:
            values = keystream(self._offset_key, len(words)) % (2 * self.factors - np.uint64(1))  # e + f - 1
            words += values - (self.factors - np.uint64(1))
        np.negative(words, out=words, where=self.negative)
        return words[self.order]

    def restore(self, positive: Flags) -> Flags:
        """Return which comparisons are positive, in their own order, from the signs that the aggregator saw."""
        found = np.empty_like(positive)
        found[self.order] = positive
        return found ^ self.negative


def draw_positions(key: bytes, session: bytes, purpose: str, label: bytes, count: int, among: int) -> IntArray:
    """Return secret positions below `among`."""
    return (_stream(key, session, purpose, label, count) % np.uint64(among)).astype(np.int64)


def _factors(words: RingVector, among: FactorRange) -> RingVector:
    """Return one factor for each random word: log-uniform, interpolated between the powers of 2^(1/256)."""
    high, low = words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)
    steps = np.uint64(among.first) + (high * np.uint64(among.last - among.first) >> np.uint64(32))
    octaves, places = steps // np.uint64(_STEPS), steps % np.uint64(_STEPS)
    powers, further = _POWERS[places], _POWERS[places + np.uint64(1)]
    mantissas = powers + ((further - powers) * (low >> np.uint64(1)) >> np.uint64(31))  # the lowest bit is the sign
    bits = np.uint64(_MANTISSA_BITS)
    found: RingVector = mantissas << np.maximum(octaves, bits) - bits >> bits - np.minimum(octaves, bits)
    return found


def _stream(key: bytes, session: bytes, purpose: str, label: bytes, length: int) -> RingVector:
    return keystream(derive_key(key, session, purpose, label, length), length)


def _order(words: RingVector) -> IntArray:
    """Return the order of random integers.

    The low bits of each integer are replaced by its position. Sorting these integers, which is much faster than
    `argsort`, then gives the order. Integers that are equal in the other bits, which is rare, keep their order.
    """
    count = len(words)
    low = np.uint64((1 << max(count - 1, 0).bit_length()) - 1)
    numbered: NDArray[Any] = words & ~low
    numbered |= np.arange(count, dtype=np.uint64)
    numbered.sort()
    numbered &= low
    return numbered.astype(np.int64)
