"""Weighted Lloyd iterations and the 1/9 step (Protocol 1, lines 5 to 24), deterministic for given centres."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kcagc._types import FloatArray, Labels
from kcagc.cluster.distances import blocks_of, distance_blocks, squared_norms
from kcagc.cluster.rules import UNASSIGNED, clear_winners, fill_empty, nearest
from kcagc.partition import membership


@dataclass(frozen=True, eq=False)
class LloydResult:
    """Where the iterations ended; `centers` are the weighted means of `labels`, `inertia` the cost around them."""

    labels: Labels
    centers: FloatArray
    inertia: float
    n_iter: int
    converged: bool


def lloyd(rows: FloatArray, weights: FloatArray, centers: FloatArray, *, max_iter: int = 100) -> LloydResult:
    """Assign to the nearest centre and move centres to means until no label changes, at most `max_iter` times.

    Ties go to the lowest cluster number; an empty cluster takes the row that costs most (see `rules`).
    """
    labels = np.full(len(rows), UNASSIGNED)
    n_iter, converged = 0, False
    while n_iter < max_iter and not converged:
        before = labels
        labels, distances = assign(rows, centers)
        labels = fill_empty(labels, distances * weights, weights, len(centers))
        n_iter += 1
        converged = np.array_equal(before, labels)
        if not converged:
            centers = weighted_means(rows, weights, labels, centers)
    return LloydResult(labels, centers, _inertia(rows, weights, labels, centers), n_iter, converged)


def assign(rows: FloatArray, centers: FloatArray) -> tuple[Labels, FloatArray]:
    """Give each row's nearest centre and its squared distance to it."""
    labels = np.empty(len(rows), dtype=np.intp)
    to_own = np.empty(len(rows))
    for block, distances, norms in distance_blocks(rows, centers):
        labels[block] = nearest(distances, norms=norms)
        to_own[block] = np.take_along_axis(distances, labels[block, None], axis=1)[:, 0]
    return labels, to_own


def ninth_step(rows: FloatArray, weights: FloatArray, centers: FloatArray) -> FloatArray:
    """Move each centre to the mean of the rows that it wins by the factor 9 (Protocol 1, lines 5 to 13).

    A centre that wins none so clearly stays where it is.
    """
    winners = np.empty(len(rows), dtype=np.intp)
    for block, distances, norms in distance_blocks(rows, centers):
        winners[block] = clear_winners(distances, norms=norms)
    clear = winners != UNASSIGNED
    return weighted_means(rows[clear], weights[clear], winners[clear], centers)


def weighted_means(rows: FloatArray, weights: FloatArray, labels: Labels, previous: FloatArray) -> FloatArray:
    """Give each cluster's weighted mean; a cluster of no weight keeps its `previous` centre."""
    k = len(previous)
    total = np.bincount(labels, weights=weights, minlength=k)
    sums = membership(labels, k, weights).T @ rows
    used = total > 0
    means = previous.copy()
    means[used] = sums[used] / total[used, None]
    return means


def _inertia(rows: FloatArray, weights: FloatArray, labels: Labels, centers: FloatArray) -> float:
    total = 0.0
    for block in blocks_of(rows):
        away = rows[block] - centers[labels[block]]
        total += float(weights[block] @ squared_norms(away))
    return total
