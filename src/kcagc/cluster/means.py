"""Weighted means of clusters, from nothing or from what changed."""

from __future__ import annotations

import numpy as np

from kcagc._types import FloatArray, IntArray, Labels
from kcagc.cluster.distances import blocks_of
from kcagc.partition import membership

_SHARE = 4  # where more than one row in so many changed, all are added up again
_SHRUNK = 16  # a cluster that lost so much of its weight has sums of little accuracy


class Means:
    """The clusters' weighted means as labels change; a cluster of no weight keeps its centre."""

    def __init__(self, rows: FloatArray, weights: FloatArray, labels: Labels, previous: FloatArray) -> None:
        self._rows, self._weights = rows, weights
        self.centers = previous
        self._sums = self._totals = self._peaks = np.zeros(0)
        self._from_nothing(labels)

    def update(self, changed: IntArray, before: Labels, labels: Labels) -> None:
        """Move the weight of the `changed` rows from the clusters `before` to those in `labels`."""
        if changed.size * _SHARE > len(labels):
            self._from_nothing(labels)
            return
        for block in blocks_of(changed):
            rows, every = changed[block], np.arange(len(changed[block]))
            moved = np.zeros((len(self.centers), len(rows)))
            moved[labels[rows], every] = self._weights[rows]
            moved[before[block], every] -= self._weights[rows]
            self._sums += moved @ self._rows[rows]
            self._totals += moved.sum(axis=1)
        self._peaks = np.maximum(self._peaks, self._totals)
        if (self._totals * _SHRUNK < self._peaks).any():
            self._from_nothing(labels)
        else:
            self._divide()

    def _from_nothing(self, labels: Labels) -> None:
        k = len(self.centers)
        self._totals = np.asarray(np.bincount(labels, weights=self._weights, minlength=k), dtype=np.float64)
        self._sums = membership(labels, k, self._weights).T @ self._rows
        self._peaks = self._totals
        self._divide()

    def _divide(self) -> None:
        used = self._totals > 0
        centers = self.centers.copy()
        centers[used] = self._sums[used] / self._totals[used, None]
        self.centers = centers


def weighted_means(rows: FloatArray, weights: FloatArray, labels: Labels, previous: FloatArray) -> FloatArray:
    """Give each cluster's weighted mean; a cluster of no weight keeps its `previous` centre."""
    return Means(rows, weights, labels, previous).centers
