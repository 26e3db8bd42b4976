"""Common starting centres: sets of nodes or cells that all parties know, found without a round of their own.

Cluster r must be the same cluster for every party, so centres that each party finds alone will not do. For cells the
parties hold a common picture already: the clusters that each cell belongs to. Cells that differ in many of them lie far
apart, and D² sampling on that number (with exchanges that lower the cost, on every other start) gives starts nearly as
good as with all features pooled. All of it in whole numbers, so that every party finds the same.
"""

from __future__ import annotations

import numpy as np

from kcagc._types import IntArray

RandomState = np.random.RandomState  # its stream is the same in all versions of NumPy, which parties may not share

_PLACE_BITS = 24  # of 32, for the place of a chosen cell; the number of children needs few
_PLACE = np.uint32((1 << _PLACE_BITS) - 1)


def random_for(seed: int, *purpose: int) -> RandomState:
    """Give a source of choices that every party makes alike."""
    return RandomState(np.random.MT19937(np.random.SeedSequence([seed, *purpose])))


def draw(mass: IntArray, random: RandomState) -> int:
    """Draw a position with probability proportional to its mass, in whole numbers."""
    cumulative = np.cumsum(mass, dtype=np.int64)
    return int(np.searchsorted(cumulative, random.randint(int(cumulative[-1]), dtype=np.int64), side="right"))


def starts_from_codes(codes: IntArray, sizes: IntArray, k: int, n_starts: int, seed: int) -> IntArray:
    """Give n_starts × k different cells."""
    columns = np.ascontiguousarray(codes.T)  # a line for each child: cells are compared along memory
    found = []
    for start in range(n_starts):
        random = random_for(seed, 0, start)
        chosen = _spread(columns, sizes, k, random)
        found.append(_exchanged(columns, sizes, chosen, k, random) if start % 2 == 0 else chosen)
    return np.array(found, dtype=np.int64)


def _spread(columns: IntArray, sizes: IntArray, k: int, random: RandomState) -> list[int]:
    chosen = [draw(sizes, random)]
    nearest = _differences(columns, chosen[0])
    while len(chosen) < k:
        chosen.append(draw(sizes * nearest, random))  # different codes differ somewhere, so mass is left
        np.minimum(nearest, _differences(columns, chosen[-1]), out=nearest)
    return chosen


def _exchanged(columns: IntArray, sizes: IntArray, chosen: list[int], n_swaps: int, random: RandomState) -> list[int]:
    """Exchange one chosen cell for a drawn one wherever that lowers the cost (as `kcagc.cluster.kmeans` does)."""
    # Differences to a chosen cell, and below them its place: the least is the nearest, of equals the first.
    away = np.stack([_differences(columns, cell) for cell in chosen]).astype(np.uint32) << _PLACE_BITS
    away |= np.arange(len(chosen), dtype=np.uint32)[:, None]
    every = np.arange(columns.shape[1])
    for _ in range(n_swaps):
        nearest = away.min(axis=0)
        owner, first = (nearest & _PLACE).astype(np.int64), (nearest >> _PLACE_BITS).astype(np.int64)
        mass = sizes * first
        if not mass.any():
            break
        candidate = draw(mass, random)
        to_candidate = _differences(columns, candidate)
        away[owner, every] = np.iinfo(np.uint32).max
        second = away.min(axis=0) >> _PLACE_BITS
        away[owner, every] = nearest
        kept = sizes * np.minimum(first, to_candidate)  # cost if the cell's own centre stays
        lost = sizes * np.minimum(second, to_candidate)  # cost if it is the one that leaves
        # Whole numbers far below 2^53, so that floats add them up exactly in any order.
        extra = np.bincount(owner, weights=lost - kept, minlength=len(chosen)).astype(np.int64)
        leaving = int(extra.argmin())
        if int(kept.sum()) + int(extra[leaving]) < int(mass.sum()):
            chosen[leaving] = candidate
            away[leaving] = (to_candidate << _PLACE_BITS) | leaving
    return chosen


def _differences(columns: IntArray, cell: int) -> IntArray:
    """Count in how many of the children's clusterings each cell lies in another cluster than this one."""
    found = np.zeros(columns.shape[1], dtype=np.int64)
    for clusters in columns:
        found += clusters != clusters[cell]
    return found


def distinct(proposal: IntArray, sizes: IntArray, random: RandomState) -> IntArray:
    """Replace what a proposal names twice by rows drawn at random."""
    chosen = list(dict.fromkeys(int(row) for row in proposal))
    left = sizes.copy()
    left[chosen] = 0
    while len(chosen) < len(proposal):
        chosen.append(draw(left, random))
        left[chosen[-1]] = 0
    return np.array(chosen, dtype=np.int64)
