"""Cells, their virtual nodes, and initial cells for k-means that every party chooses alike.

A cell is a non-empty intersection of local clusters (Protocol 3, lines 4 to 11). There are at most n of them, however
many intersections are possible.

Cluster r must be the same cluster at every party, so the parties cannot choose initial centres alone. They all know the
local clusters of each cell. Cells that differ in many of them are far apart, and D² sampling on that number (with
exchanges that lower the cost, in every other restart) gives initial centres nearly as good as with all features pooled.
All of it is integer arithmetic, so every party computes the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.cluster.joint import RandomState, draw, random_for
from kcagc.cluster.lloyd import weighted_means
from kcagc.protocol.parameters import VirtualNodes

_MAX_CODE = 1 << 62
_TABLE_SIZE = 4  # codes per node: below this, counting in a table is cheaper than sorting
_POSITION_BITS = 24  # of 32, for the position of a chosen cell; the number of children needs few bits
_POSITION = np.uint32((1 << _POSITION_BITS) - 1)


@dataclass(frozen=True, eq=False)
class Cells:
    """Each node's cell, numbered by smallest node; each cell's size, and its cluster in every child (m × children)."""

    of_node: IntArray
    sizes: IntArray
    codes: IntArray

    def __len__(self) -> int:
        return len(self.sizes)


def intersect(labels: Sequence[IntArray]) -> Cells:
    """Intersect clusterings of the same nodes (Protocol 3, lines 4 to 9)."""
    n = len(labels[0])
    code, bound = np.zeros(n, dtype=np.int64), 1
    for one in labels:
        count = int(one.max()) + 1
        if bound * count > _MAX_CODE:
            code, bound = _renumbered(code)
        code *= count
        code += one
        bound *= count
    if bound > _TABLE_SIZE * n:
        code, bound = _renumbered(code)
    every = np.bincount(code, minlength=bound)
    used = np.flatnonzero(every)
    first = np.empty(bound, dtype=np.int64)
    first[code[::-1]] = np.arange(n - 1, -1, -1)  # the last assignment is the smallest node
    cells = used[np.argsort(first[used])]
    codes = np.stack([np.asarray(one, dtype=np.int64)[first[cells]] for one in labels], axis=1)
    rank = np.empty(bound, dtype=np.int64)
    rank[cells] = np.arange(len(cells))
    return Cells(rank[code], every[cells], codes)


def _renumbered(code: IntArray) -> tuple[IntArray, int]:
    """Return codes without gaps, in the same order, and how many there are."""
    used, code = np.unique(code, return_inverse=True)
    return np.asarray(code, dtype=np.int64), len(used)


def virtual_nodes(rows: FloatArray, cells: Cells, kind: VirtualNodes, own_labels: IntArray) -> FloatArray:
    """Return each cell as one point: its own mean, or the mean of the party's local cluster (Protocol 3, line 13).

    Section 3.4.2 of the paper says the first, Protocol 3 the second. Cell means cost the same and are better.
    """
    if kind == "cell":
        return _means(rows, cells.of_node, len(cells))
    centers = _means(rows, own_labels, int(own_labels.max()) + 1)
    own = np.zeros(len(cells), dtype=np.int64)
    own[cells.of_node] = own_labels  # all nodes of a cell are in the same local cluster
    return centers[own]


def _means(rows: FloatArray, labels: IntArray, count: int) -> FloatArray:
    return weighted_means(rows, np.ones(len(rows)), labels, np.zeros((count, rows.shape[1])))


def initial_cells(codes: IntArray, sizes: IntArray, k: int, n_restarts: int, seed: int) -> IntArray:
    """Return n_restarts × k different cells."""
    columns = np.ascontiguousarray(codes.T)  # one line per child, so that comparisons run along memory
    found = []
    for restart in range(n_restarts):
        random = random_for(seed, 0, restart)
        chosen = _sampled(columns, sizes, k, random)
        found.append(_exchanged(columns, sizes, chosen, k, random) if restart % 2 == 0 else chosen)
    return np.array(found, dtype=np.int64)


def _sampled(columns: IntArray, sizes: IntArray, k: int, random: RandomState) -> list[int]:
    """Draw k cells by D² sampling."""
    chosen = [draw(sizes, random)]
    nearest = _differences(columns, chosen[0])
    while len(chosen) < k:
        chosen.append(draw(sizes * nearest, random))  # all codes are different, so some mass is left
        np.minimum(nearest, _differences(columns, chosen[-1]), out=nearest)
    return chosen


def _exchanged(columns: IntArray, sizes: IntArray, chosen: list[int], n_swaps: int, random: RandomState) -> list[int]:
    """Exchange a chosen cell for a drawn one whenever that lowers the cost, as `kcagc.cluster.seeding` does."""
    # The high bits hold the differences to a chosen cell, the low bits its position: the minimum is the nearest cell,
    # and among equals the first.
    coded = np.stack([_differences(columns, cell) for cell in chosen]).astype(np.uint32) << _POSITION_BITS
    coded |= np.arange(len(chosen), dtype=np.uint32)[:, None]
    every = np.arange(columns.shape[1])
    for _ in range(n_swaps):
        nearest = coded.min(axis=0)
        owner, first = (nearest & _POSITION).astype(np.int64), (nearest >> _POSITION_BITS).astype(np.int64)
        mass = sizes * first
        if not mass.any():
            break
        candidate = draw(mass, random)
        to_candidate = _differences(columns, candidate)
        coded[owner, every] = np.iinfo(np.uint32).max
        second = coded.min(axis=0) >> _POSITION_BITS
        coded[owner, every] = nearest
        kept = sizes * np.minimum(first, to_candidate)  # cost if the nearest chosen cell stays
        lost = sizes * np.minimum(second, to_candidate)  # cost if it is removed
        # Integers far below 2^53: floats add them exactly, in any order.
        extra = np.bincount(owner, weights=lost - kept, minlength=len(chosen)).astype(np.int64)
        removed = int(extra.argmin())
        if int(kept.sum()) + int(extra[removed]) < int(mass.sum()):
            chosen[removed] = candidate
            coded[removed] = (to_candidate << _POSITION_BITS) | removed
    return chosen


def _differences(columns: IntArray, cell: int) -> IntArray:
    """Count for each cell in how many children it lies in another cluster than this cell."""
    found = np.zeros(columns.shape[1], dtype=np.int64)
    for clusters in columns:
        found += clusters != clusters[cell]
    return found


def without_duplicates(proposal: IntArray, sizes: IntArray, random: RandomState) -> IntArray:
    """Replace repeated rows of a proposal by rows drawn at random."""
    chosen = list(dict.fromkeys(int(row) for row in proposal))
    left = sizes.copy()
    left[chosen] = 0
    while len(chosen) < len(proposal):
        chosen.append(draw(left, random))
        left[chosen[-1]] = 0
    return np.array(chosen, dtype=np.int64)
