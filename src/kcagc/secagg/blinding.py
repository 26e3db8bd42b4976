"""Factors and shifts that only the parties know: of a sum, its receiver needs to know who is least, not how much it is.

Every row is multiplied by a factor of its own, which changes neither the order within the row nor the ratio of two of
its values, and may be shifted, which does not change the order either. So distances do not repeat from one row or one
sum to the next, as they would where a centre has not moved; what still does is the ratio of differences within a row.
"""

from __future__ import annotations

import math

import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.secagg.fixed_point import ROOM_FOR_A_SHIFT, Words
from kcagc.secagg.masks import keystream
from kcagc.secagg.pairs import derived

OCTAVES = 4  # factors lie from 2^-4 to 1, so that a value within the protocol's bound stays within it


def factors(key: bytes, session: bytes, label: bytes, shape: tuple[int, ...]) -> FloatArray:
    """Give numbers from 1/16 to 1 of which every octave is as likely; all parties get the same to the last bit."""
    words = _words(key, session, "factors", label, shape)
    octave = (words % np.uint64(OCTAVES)).astype(np.int64)
    return np.ldexp(1.0 + _fractions(words), -1 - octave)


def shifts(key: bytes, session: bytes, label: bytes, shape: tuple[int, ...]) -> Words:
    """Give encoded numbers from 0 to 2^10, far beyond what distances between rows of unit length differ by."""
    return _words(key, session, "shifts", label, shape) % np.uint64(ROOM_FOR_A_SHIFT)


def mixed(key: bytes, session: bytes, label: bytes, values: FloatArray) -> FloatArray:
    """Give as many mixtures of two values each: of the two at secret distances from each, in secret shares."""
    count = len(values)
    first, second = (int(word) % count for word in _words(key, session, "neighbours", label, (2,)))
    halves = _words(key, session, "shares", label, ((count + 1) // 2,)).view("<u4")
    shares = halves[:count] * 2.0**-32
    # Whole arrays move, and nothing is looked up: values may be many millions.
    found = np.roll(values, second)
    beginning = np.roll(values, first)
    found -= beginning
    found *= shares
    found += beginning
    return found


def mixtures(key: bytes, session: bytes, label: bytes, count: int, among: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Give pairs of positions below `among`, and shares from 0 to 1: for rows made up from two others."""
    words = _words(key, session, "mixtures", label, (3, count))
    first, second = (words[:2] % np.uint64(among)).astype(np.int64)
    return first, second, _fractions(words[2])


def _words(key: bytes, session: bytes, purpose: str, label: bytes, shape: tuple[int, ...]) -> Words:
    return keystream(derived(key, session, purpose, label, *shape), math.prod(shape)).reshape(shape)


def _fractions(words: Words) -> FloatArray:
    return (words >> np.uint64(12)).astype(np.float64) * 2.0**-52
