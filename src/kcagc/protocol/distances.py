"""Squared distances that come out the same to the last bit every time, on every machine.

What is sent under a mask must be the same when it is computed again. A matrix product may add in another order with
another number of threads; differences, squares and sums one coordinate after the other do not.
"""

from __future__ import annotations

import numpy as np

from kcagc._types import FloatArray

_ROWS, _CENTERS = 1 << 12, 4  # of one tile, which stays in a core's own cache


def reproducible_distances(rows: FloatArray, centers: FloatArray) -> FloatArray:
    """Give ‖x_i - c_r‖² for all i and r."""
    n, k = len(rows), len(centers)
    found = np.empty((n, k))
    by_row, by_center = np.ascontiguousarray(rows.T), np.ascontiguousarray(centers.T)[:, :, None]
    total, away = np.empty((2, min(k, _CENTERS), min(n, _ROWS)))
    with np.errstate(over="ignore"):  # what is beyond all numbers is beyond the protocol's bound, too
        for start in range(0, n, _ROWS):
            some = slice(start, min(start + _ROWS, n))
            for first in range(0, k, _CENTERS):
                few = slice(first, min(first + _CENTERS, k))
                tile = (slice(0, few.stop - first), slice(0, some.stop - start))
                into, square = total[tile], away[tile]
                into[:] = 0.0
                for x, c in zip(by_row, by_center, strict=True):
                    np.subtract(x[some], c[few], out=square)
                    np.multiply(square, square, out=square)
                    np.add(into, square, out=into)
                found[some, few] = into.T
    return found
