"""Factors and shifts that only the parties know: of a sum, its receiver needs to know who is least, not how much it is.

Every row is multiplied by a factor of its own, which changes neither the order within the row nor the ratio of two of
its values, and may be shifted, which does not change the order either. Nothing repeats from one row or one sum to the
next that would give away how the parties' shares add up.
"""

from __future__ import annotations

import math

import numpy as np

from kcagc._types import FloatArray
from kcagc.secagg.fixed_point import Words
from kcagc.secagg.masks import keystream
from kcagc.secagg.pairs import derived

OCTAVES = 4  # factors lie from 1 to 2^4
LARGEST_SHIFT = 2.0**10


def factors(key: bytes, session: bytes, label: bytes, shape: tuple[int, ...]) -> FloatArray:
    """Give numbers from 1 to 16 of which every octave is as likely; all parties get the same to the last bit."""
    words = _words(key, session, "factors", label, shape)
    return np.ldexp(1.0 + _fraction(words), (words % np.uint64(OCTAVES)).astype(np.int64)).reshape(shape)


def shifts(key: bytes, session: bytes, label: bytes, shape: tuple[int, ...]) -> FloatArray:
    """Give numbers from 0 to 2^10, far beyond what distances differ by."""
    return (LARGEST_SHIFT * _fraction(_words(key, session, "shifts", label, shape))).reshape(shape)


def _words(key: bytes, session: bytes, purpose: str, label: bytes, shape: tuple[int, ...]) -> Words:
    return keystream(derived(key, session, purpose, label, *shape), math.prod(shape))


def _fraction(words: Words) -> FloatArray:
    return (words >> np.uint64(12)).astype(np.float64) * 2.0**-52
