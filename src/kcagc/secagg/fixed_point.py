"""Numbers as words of Z_2^64, so that sums are exact and masks of uniform words hide everything.

Scale and bound are constants of the protocol's version, never proposed from data: a scale that somebody chose after
seeing data would tell something about the data. A squared distance between rows of unit length is at most 4; the bound
leaves room for rows in units that operators agreed on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kcagc._types import FloatArray
from kcagc.errors import DataError, ParameterError

Words = NDArray[np.uint64]
Sums = NDArray[np.int64]

FRACTION_BITS = 44
ONE = 1 << FRACTION_BITS
LARGEST = 2.0**14  # of one party's values; 16 parties' sums stay below 2^62, and so never wrap into the sign
MAX_PARTIES = 16
ROOM_FOR_A_SHIFT = 1 << (10 + FRACTION_BITS)  # one party may shift a row by less than 2^10 (see `blinding`)


def encode(values: FloatArray) -> Words:
    """Round to the nearest multiple of 2^-44; a value out of bounds is refused here, before anything is sent."""
    check_bound(values)
    return encode_times(values, 1.0)


def encode_times(values: FloatArray, factors: FloatArray | float) -> Words:
    """Round values that are within the bound, times factors of at most one."""
    scaled = values * (np.asarray(factors, dtype=np.float64) * ONE)  # exact: ONE is a power of two
    return np.rint(scaled, out=scaled).astype(np.int64).view(np.uint64)


def check_bound(values: FloatArray) -> None:
    """Refuse values that are too large for the protocol, or not numbers."""
    # The least and the largest of what is not a number are none either, and comparisons with them are false.
    if values.size and not (float(values.max()) < LARGEST and float(values.min()) > -LARGEST):
        raise DataError(
            f"a value to be summed is not below {LARGEST:g}, the protocol's bound; rows that are not of unit length "
            'need a larger unit (the parameter "unit", common to all parties)'
        )


def opened(words: Words, n_parties: int) -> Sums | None:
    """Give the sum of `n_parties` encoded vectors as integers, or None if one is beyond what they can add up to."""
    if not 1 <= n_parties <= MAX_PARTIES:
        raise ParameterError(f"a sum of {n_parties} parties: there must be 1 to {MAX_PARTIES}")
    sums = words.view(np.int64)
    limit = n_parties * int(LARGEST) * ONE + ROOM_FOR_A_SHIFT
    if sums.size and (int(sums.max()) > limit or int(sums.min()) < -limit):
        return None
    return sums


def decode(sums: Sums) -> FloatArray:
    """Give the numbers that the integers stand for, to the accuracy of a float: exactly below 2^9."""
    return sums / float(ONE)
