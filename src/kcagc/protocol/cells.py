"""Cells: the non-empty intersections of clusters (Protocol 3, lines 4 to 11), at most n however many are possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.cluster.lloyd import weighted_means
from kcagc.protocol.agreement import VirtualNodes


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
    code = np.zeros(len(labels[0]), dtype=np.int64)
    for one in labels:
        # Renumbered after each step, so that codes stay below n² whatever the number of clusterings.
        _, code = np.unique(code * (int(one.max()) + 1) + one, return_inverse=True)
    _, first, of_node, sizes = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    codes = np.stack([np.asarray(one, dtype=np.int64)[first[order]] for one in labels], axis=1)
    return Cells(rank[of_node], sizes[order].astype(np.int64), codes)


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
