"""Cells: the non-empty intersections of clusters (Protocol 3, lines 4 to 11), at most n however many are possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.cluster.lloyd import weighted_means
from kcagc.protocol.parameters import VirtualNodes

_LARGEST_CODE = 1 << 62
_TABLE = 4  # codes in a table, for each node: below this, counting is cheaper than sorting


@dataclass(frozen=True, eq=False)
class Cells:
    """Each node's cell, numbered by smallest node; each cell's size, and its cluster in every child (m × children)."""

    of_node: IntArray
    sizes: IntArray
    codes: IntArray

    def __len__(self) -> int:
        return len(self.sizes)


def intersect(labels: Sequence[IntArray]) -> Cells:
    """Intersect clusterings of the same nodes."""
    n = len(labels[0])
    code, bound = np.zeros(n, dtype=np.int64), 1
    for one in labels:
        count = int(one.max()) + 1
        if bound * count > _LARGEST_CODE:
            code, bound = _renumbered(code)
        code *= count
        code += one
        bound *= count
    if bound > _TABLE * n:  # a table of all codes would be larger than the nodes are many
        code, bound = _renumbered(code)
    every = np.bincount(code, minlength=bound)
    used = np.flatnonzero(every)
    first = np.empty(bound, dtype=np.int64)
    first[code[::-1]] = np.arange(n - 1, -1, -1)  # the last to write is the smallest node
    cells = used[np.argsort(first[used])]
    codes = np.stack([np.asarray(one, dtype=np.int64)[first[cells]] for one in labels], axis=1)
    rank = np.empty(bound, dtype=np.int64)
    rank[cells] = np.arange(len(cells))
    return Cells(rank[code], every[cells], codes)


def _renumbered(code: IntArray) -> tuple[IntArray, int]:
    """Give codes without gaps, in the same order, and how many there are."""
    used, code = np.unique(code, return_inverse=True)
    return np.asarray(code, dtype=np.int64), len(used)


def virtual_nodes(rows: FloatArray, cells: Cells, kind: VirtualNodes, own_labels: IntArray) -> FloatArray:
    """Place each cell at its own mean, or (Protocol 3, line 13) at the mean of the party's local cluster around it.

    The paper says both; cell means cost nothing more and are better.
    """
    if kind == "cell":
        return _means(rows, cells.of_node, len(cells))
    centers = _means(rows, own_labels, int(own_labels.max()) + 1)
    first = np.zeros(len(cells), dtype=np.int64)
    first[cells.of_node] = own_labels  # a cell lies within one local cluster, so any of its nodes tells which
    return centers[first]


def _means(rows: FloatArray, labels: IntArray, count: int) -> FloatArray:
    return weighted_means(rows, np.ones(len(rows)), labels, np.zeros((count, rows.shape[1])))
