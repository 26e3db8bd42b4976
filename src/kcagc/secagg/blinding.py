"""Blinding: what hides a comparison from the aggregator, which answers its sign and learns neither values nor result.

All parties of a group derive the same secrets from their key; the aggregator does not have it. A comparison is an odd
integer Δ, the sum of one part from each party. Every party multiplies its part by the secret factor ±f. One party also
adds a secret offset ±e with |e| < f, so the aggregator sees ±(f·Δ + e). The sign of that is the sign of Δ, or its
opposite: a coin flip. The factors are spread evenly over at least 25 octaves, so the magnitude says little about Δ. A
factor is no integer, and products are rounded: with integers, values of the same Δ would have common divisors near it.
Comparisons travel in a secret order.

Factors are integers of 2^-30 that follow from the key by integer arithmetic: they are the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcagc._types import Flags, IntArray
from kcagc.secagg.keys import derive_key
from kcagc.secagg.masks import MAX_ENCODED, RingVector, keystream

MAX_WEIGHT = 9 / 4  # largest difference of two weighted distances: (D_r - 9·D_w) / 4, in the margin step
_PROBE_OCTAVES = 22, 28  # as large as differences are: a size tells them apart with an AUC of 0.55 or less
_STEPS = 256  # of an octave
_MANTISSA_BITS = 30


def _powers() -> IntArray:
    """Return 2^(i/256) for i from 0 to 256, with 30 fraction bits."""
    with localcontext() as context:
        context.prec = 40
        found = [int(Decimal(2) ** (Decimal(i) / _STEPS) * (1 << _MANTISSA_BITS)) for i in range(_STEPS)]
    return np.array([*found, 2 << _MANTISSA_BITS], dtype=np.int64)


_POWERS = _powers()


@dataclass(frozen=True)
class FactorRange:
    """The range of secret factors, in steps of 1/256 octave: from `first` up to but not including `last`."""

    first: int
    last: int

    @classmethod
    def of_sum(cls, n_parties: int) -> FactorRange:
        """Return the widest range for which no comparison leaves the ring, and rounding cannot change a sign.

        Each party rounds its product by less than one; the smallest factor exceeds all of that and the offset.
        """
        largest = 2 * n_parties * (int(MAX_WEIGHT * MAX_ENCODED) + 1) + 1
        room = (1 << 63) // (largest + 1)  # f·(|Δ| + 1) stays below 2^63
        octave = room.bit_length() - 1
        place = int(np.searchsorted(_POWERS, (room << _MANTISSA_BITS) >> octave, side="right")) - 1
        return cls((n_parties + 2).bit_length() * _STEPS, octave * _STEPS + place)

    @classmethod
    def of_octaves(cls, first: int, last: int) -> FactorRange:
        """Return the range from 2^first to 2^last."""
        return cls(first * _STEPS, last * _STEPS)

    @property
    def octaves(self) -> float:
        """Number of octaves."""
        return (self.last - self.first) / _STEPS


@dataclass(frozen=True, eq=False)
class Blinding:
    """The secrets of one vector: a factor and a sign for each comparison, its offset, and the order of all.

    A factor is `mantissas` · 2^(`octaves` - 30).
    """

    mantissas: IntArray
    octaves: IntArray
    negative: Flags
    order: IntArray
    n_parties: int
    _offset_key: bytes

    @classmethod
    def from_key(cls, key: bytes, session: bytes, label: bytes, length: int, n_parties: int) -> Blinding:
        """Derive the secrets of the vector with this label."""
        words = _stream(key, session, "factors", label, length)
        mantissas, octaves = log_uniform(words, FactorRange.of_sum(n_parties))
        order = _order(_stream(key, session, "order", label, length))
        offsets = derive_key(key, session, "offsets", label, length)
        return cls(mantissas, octaves, (words & np.uint64(1)).astype(bool), order, n_parties, offsets)

    def apply(self, parts: IntArray, *, with_offsets: bool) -> RingVector:
        """Blind one party's parts of the comparisons; exactly one party adds the offsets."""
        products = times_factors(parts, self.mantissas, self.octaves)
        if with_offsets:
            largest = _scaled(self.mantissas, self.octaves) - self.n_parties - 1  # of an offset
            drawn = keystream(self._offset_key, len(products)) % (2 * largest + 1).astype(np.uint64)
            products += drawn.astype(np.int64) - largest
        np.negative(products, out=products, where=self.negative)
        return products[self.order].view(np.uint64)

    def restore(self, positive: Flags) -> Flags:
        """Return which comparisons are positive, in their own order, from the signs that the aggregator saw."""
        found = np.empty_like(positive)
        found[self.order] = positive
        return found ^ self.negative


def draw_probes(key: bytes, session: bytes, label: bytes, count: int) -> IntArray:
    """Return positive odd integers of the usual size of differences, which have nothing to do with data."""
    first, last = _PROBE_OCTAVES
    words = _stream(key, session, "probes", label, count)
    return _scaled(*log_uniform(words, FactorRange.of_octaves(first, last))) | 1


def draw_positions(key: bytes, session: bytes, label: bytes, count: int, among: int) -> IntArray:
    """Return at most `count` different secret positions below `among`, in ascending order."""
    if among <= count:
        return np.arange(among)
    return np.unique(_stream(key, session, "positions", label, count) % np.uint64(among)).astype(np.int64)


def secret_order(key: bytes, session: bytes, label: bytes, count: int) -> IntArray:
    """Return a secret order of `count` rows."""
    return _order(_stream(key, session, "rows", label, count))


def log_uniform(words: RingVector, among: FactorRange) -> tuple[IntArray, IntArray]:
    """Return mantissa and octave of a log-uniform number for each random word; the lowest bit is not used."""
    high, low = (words >> np.uint64(32)).astype(np.int64), (words & np.uint64(0xFFFFFFFF)).astype(np.int64)
    steps = among.first + (high * (among.last - among.first) >> 32)
    octaves, places = steps // _STEPS, steps % _STEPS
    powers, further = _POWERS[places], _POWERS[places + 1]
    return powers + ((further - powers) * (low >> 1) >> 31), octaves  # between two powers of 2^(1/256)


def times_factors(parts: IntArray, mantissas: IntArray, octaves: IntArray) -> IntArray:
    """Return parts · mantissas · 2^(octaves - 30), rounded down, modulo 2^64; parts may have up to 63 bits.

    The lower 32 bits of a part are multiplied separately: their product keeps all its bits. Octaves are -32 or more;
    below -2 the result may be less by one.
    """
    bits, half = np.int64(_MANTISSA_BITS), np.int64(32)
    up, down = np.maximum(octaves, bits) - bits, bits - np.minimum(octaves, bits)
    high, low = (parts >> half) * mantissas, (parts & np.int64(0xFFFFFFFF)) * mantissas
    found: IntArray = (high << np.maximum(half - down, 0) >> np.maximum(down - half, 0)) + (low >> down)
    return found << up


def _scaled(values: IntArray, octaves: IntArray) -> IntArray:
    """Return values · 2^(octaves - 30), rounded down; bits beyond the ring are lost, as they should be."""
    bits = np.int64(_MANTISSA_BITS)
    found: IntArray = values << np.maximum(octaves, bits) - bits >> bits - np.minimum(octaves, bits)
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
