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


def random_for(seed: int, *purpose: int) -> RandomState:
    """Give a source of choices that every party makes alike."""
    return RandomState(np.random.MT19937(np.random.SeedSequence([seed, *purpose])))


def draw(mass: IntArray, random: RandomState) -> int:
    """Draw a position with probability proportional to its mass, in whole numbers."""
    cumulative = np.cumsum(mass, dtype=np.int64)
    return int(np.searchsorted(cumulative, random.randint(int(cumulative[-1]), dtype=np.int64), side="right"))


def starts_from_codes(codes: IntArray, sizes: IntArray, k: int, n_starts: int, seed: int) -> IntArray:
    """Give n_starts × k different cells."""
    found = []
    for start in range(n_starts):
        random = random_for(seed, 0, start)
        chosen = _spread(codes, sizes, k, random)
        found.append(_exchanged(codes, sizes, chosen, k, random) if start % 2 == 0 else chosen)
    return np.array(found, dtype=np.int64)


def _spread(codes: IntArray, sizes: IntArray, k: int, random: RandomState) -> list[int]:
    chosen = [draw(sizes, random)]
    nearest = _differences(codes, chosen[0])
    while len(chosen) < k:
        chosen.append(draw(sizes * nearest, random))  # different codes differ somewhere, so mass is left
        nearest = np.minimum(nearest, _differences(codes, chosen[-1]))
    return chosen


def _exchanged(codes: IntArray, sizes: IntArray, chosen: list[int], n_swaps: int, random: RandomState) -> list[int]:
    """Exchange one chosen cell for a drawn one wherever that lowers the cost (as `kcagc.cluster.seeding` does)."""
    # One byte holds a number of children, and rows of one chosen cell each are compared many cells at a time.
    away = np.stack([_differences(codes, cell) for cell in chosen]).astype(np.uint8)
    every = np.arange(len(codes))
    for _ in range(n_swaps):
        owner = away.argmin(axis=0)
        first = away[owner, every]
        mass = sizes * first
        if not mass.any():
            break
        candidate = draw(mass, random)
        to_candidate = _differences(codes, candidate)
        others = away.copy()
        others[owner, every] = np.iinfo(np.uint8).max
        second = others.min(axis=0)
        kept = sizes * np.minimum(first, to_candidate)  # cost if the cell's own centre stays
        lost = sizes * np.minimum(second, to_candidate)  # cost if it is the one that leaves
        extra = np.zeros(len(chosen), dtype=np.int64)
        np.add.at(extra, owner, lost - kept)
        leaving = int(extra.argmin())
        if int(kept.sum()) + int(extra[leaving]) < int(mass.sum()):
            chosen[leaving] = candidate
            away[leaving] = to_candidate
    return chosen


def _differences(codes: IntArray, cell: int) -> IntArray:
    """Count in how many of the children's clusterings each cell lies in another cluster than this one."""
    return np.asarray((codes != codes[cell]).sum(axis=1), dtype=np.int64)


def distinct(proposal: IntArray, sizes: IntArray, random: RandomState) -> IntArray:
    """Replace what a proposal names twice by rows drawn at random."""
    chosen = list(dict.fromkeys(int(row) for row in proposal))
    left = sizes.copy()
    left[chosen] = 0
    while len(chosen) < len(proposal):
        chosen.append(draw(left, random))
        left[chosen[-1]] = 0
    return np.array(chosen, dtype=np.int64)
