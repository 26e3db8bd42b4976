"""Squared distances from rows to centres, a block of rows at a time so that no n × k matrix is ever held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcagc._types import FloatArray

# A fixed block, so that the arithmetic of a row does not depend on how many rows there are around it.
_ROWS = 1 << 15

# Rounding of ‖x‖² - 2 x·c + ‖c‖² relative to its terms: two distances this close count as equal.
RELATIVE_SLACK = 1e-12


def squared_distances(rows: FloatArray, centers: FloatArray) -> FloatArray:
    """Give ‖x_i - c_r‖² for all i and r, never negative."""
    found = rows @ (-2.0 * centers.T)
    found += np.einsum("ij,ij->i", rows, rows)[:, None]
    found += np.einsum("ij,ij->i", centers, centers)
    return np.maximum(found, 0.0, out=found)


def distance_blocks(rows: FloatArray, centers: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    """Give the same in blocks of rows."""
    for block in blocks_of(rows):
        yield block, squared_distances(rows[block], centers)


def blocks_of(rows: NDArray[Any]) -> Iterator[slice]:
    """Cut the rows into blocks, so that what is computed for each row is never held for all of them."""
    for start in range(0, len(rows), _ROWS):
        yield slice(start, min(start + _ROWS, len(rows)))


def rounding_slack(rows: FloatArray) -> float:
    """Give the difference below which two distances among these rows count as equal."""
    return RELATIVE_SLACK * float(np.einsum("ij,ij->i", rows, rows).max(initial=0.0))
