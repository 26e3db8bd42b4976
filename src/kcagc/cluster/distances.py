"""Squared distances from rows to centres, a block of rows at a time so that no n × k matrix is ever held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcagc._types import FloatArray

_ROWS = 1 << 15  # rows in a block

# Rounding of ‖x‖² - 2 x·c + ‖c‖² relative to its terms: two distances of a row this close count as equal, and one this
# small as zero. It is a thousand times what a computation loses, and far below any difference that means something.
ROUNDING = 1e-12


def squared_norms(rows: FloatArray) -> FloatArray:
    """Give ‖x_i‖²."""
    norms: FloatArray = np.einsum("ij,ij->i", rows, rows)
    return norms


def squared_distances(rows: FloatArray, centers: FloatArray, *, norms: FloatArray | None = None) -> FloatArray:
    """Give ‖x_i - c_r‖² for all i and r, never negative; `norms` are the rows' squared norms where they are known."""
    found = rows @ (-2.0 * centers.T)
    found += (squared_norms(rows) if norms is None else norms)[:, None]
    found += squared_norms(centers)
    return np.maximum(found, 0.0, out=found)


def distance_blocks(rows: FloatArray, centers: FloatArray) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Give blocks of rows, their squared distances to the centres, and their squared norms."""
    for block in blocks_of(rows):
        norms = squared_norms(rows[block])
        yield block, squared_distances(rows[block], centers, norms=norms), norms


def blocks_of(rows: NDArray[Any]) -> Iterator[slice]:
    """Cut the rows into blocks, so that what is computed for each row is never held for all of them."""
    for start in range(0, len(rows), _ROWS):
        yield slice(start, min(start + _ROWS, len(rows)))
