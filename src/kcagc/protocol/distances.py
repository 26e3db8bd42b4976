"""Squared distances that come out the same to the last bit every time, on every machine.

What is sent under a mask must be the same when it is computed again. A matrix product may add in another order with
another number of threads; differences, squares and sums one coordinate after the other do not.
"""

from __future__ import annotations

import numpy as np

from kcagc._types import FloatArray
from kcagc.cluster.distances import blocks_of


def reproducible_distances(rows: FloatArray, centers: FloatArray) -> FloatArray:
    """Give ‖x_i - c_r‖² for all i and r."""
    found = np.zeros((len(rows), len(centers)))
    columns = np.ascontiguousarray(centers.T)
    for block in blocks_of(rows):
        into = found[block]
        for coordinate, values in enumerate(np.ascontiguousarray(rows[block].T)):
            away = values[:, None] - columns[coordinate]
            with np.errstate(over="ignore"):  # what is beyond all numbers is beyond the protocol's bound, too
                away *= away
                into += away
    return found
