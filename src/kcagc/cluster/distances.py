"""Squared distances from rows to centres, a block of rows at a time so that no n × k matrix is ever held."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcagc._types import FloatArray, Labels

_ROWS = 1 << 13  # rows in a block: what is computed for them stays in a core's own cache

# Rounding of ‖x‖² - 2 x·c + ‖c‖² relative to its terms: two distances of a row this close count as equal, and one this
# small as zero. It is a thousand times what a computation loses, and far below any difference that means something.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class TwoNearest:
    """Each row's nearest centre, the squared distance to it, and to the next (infinite where there is none)."""

    owner: Labels
    first: FloatArray
    second: FloatArray


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


def two_nearest(rows: FloatArray, centers: FloatArray, norms: FloatArray) -> TwoNearest:
    """Find the two nearest centres of each row; of those equally near, but for rounding, the lowest number owns it.

    A block has a line for each centre, not for each row, so that every step runs along memory.
    """
    n, k = len(rows), len(centers)
    found = TwoNearest(np.empty(n, dtype=np.intp), np.empty(n), np.empty(n))
    turned, lengths = -2.0 * centers, squared_norms(centers)[:, None]
    # Written into whoever is near enough, so that the largest number is that of the lowest cluster.
    rank = np.arange(k, 0, -1).astype(np.uint8 if k < 1 << 8 else np.uint32)[:, None]
    every = np.arange(min(n, _ROWS))
    for block in blocks_of(rows):
        away = turned @ rows[block].T
        away += lengths  # distances, but for the row's own norm, which decides nothing
        least = away.min(axis=0)
        first = np.maximum(least + norms[block], 0.0)
        near = away <= least + ROUNDING * (3 * norms[block] + 2 * first)
        owner = k - (near * rank).max(axis=0).astype(np.intp)
        away[owner, every[: len(owner)]] = np.inf
        found.owner[block], found.first[block] = owner, first
        np.maximum(away.min(axis=0) + norms[block], 0.0, out=found.second[block])
    return found


def blocks_of(rows: NDArray[Any]) -> Iterator[slice]:
    """Cut the rows into blocks, so that what is computed for each row is never held for all of them."""
    for start in range(0, len(rows), _ROWS):
        yield slice(start, min(start + _ROWS, len(rows)))
