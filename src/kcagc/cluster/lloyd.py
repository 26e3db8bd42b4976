"""Weighted Lloyd iterations and the 1/9 step (Protocol 1, lines 5 to 24), deterministic for given centres."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kcagc._types import Flags, FloatArray, IntArray, Labels
from kcagc.cluster.distances import ROUNDING, TwoNearest, blocks_of, squared_norms, two_nearest
from kcagc.cluster.means import Means, weighted_means
from kcagc.cluster.rules import CLEAR_FACTOR, fill_empty

__all__ = ["LloydResult", "assign", "lloyd", "margin_step", "weighted_means"]

# A centre is settled for a row when it is nearer than any other by this share of the lengths involved. Squared, that is
# more than `ROUNDING` lets pass for equal: whoever is settled would win the full comparison, too.
_SETTLED = 4 * ROUNDING**0.5


@dataclass(frozen=True, eq=False)
class LloydResult:
    """Where the iterations ended; `centers` are the weighted means of `labels`, `inertia` the cost around them."""

    labels: Labels
    centers: FloatArray
    inertia: float
    n_iter: int
    converged: bool


def lloyd(
    rows: FloatArray, weights: FloatArray, centers: FloatArray, *, max_iter: int = 100, settled: float = 0.0
) -> LloydResult:
    """Assign to the nearest centre and move centres to means until no label changes, at most `max_iter` times.

    Ties go to the lowest cluster number; an empty cluster takes the row that costs most (see `rules`). A share of rows
    that may still change when the iterations end is `settled`.
    """
    run = _Run(rows, weights, centers)
    n_iter, converged = 1, False
    while n_iter < max_iter and not converged:
        changed = run.iterate()
        n_iter += 1
        converged = changed <= settled * len(rows)
        if changed == 0 and run.recentre():  # the means again from nothing, in case small errors have added up
            converged = run.iterate() == 0
    run.recentre()
    inertia = _inertia(rows, weights, run.labels, run.means.centers)
    return LloydResult(run.labels, run.means.centers, inertia, n_iter, converged)


class _Run:
    """Lloyd iterations that compare a row with all centres only where its label may have changed.

    For each row `lead` is a lower bound on how much nearer its own centre is than any other (Hamerly, SDM 2010). When
    centres move, it shrinks by how far its own and the fastest other went; while it is positive the label stands.
    """

    def __init__(self, rows: FloatArray, weights: FloatArray, centers: FloatArray) -> None:
        """Assign every row, and move the centres for the first time."""
        self.rows, self.weights, self.norms = rows, weights, squared_norms(rows)
        self.counted = weights > 0
        found = two_nearest(rows, centers, self.norms)
        self.labels, self.lead = found.owner, _lead(found, self.norms)
        self.sizes = self._count(self.labels, self.counted, len(centers))
        self._fill(found.first)
        self.means = Means(rows, weights, self.labels, centers)
        self._exact = True  # the means have been computed from nothing
        self._shrink(centers)

    def iterate(self) -> int:
        """Assign again and move the centres; give how many labels changed."""
        centers = self.means.centers
        unsettled = np.flatnonzero(self.lead <= 0)
        before, norms = self.labels[unsettled], self.norms[unsettled]
        found = two_nearest(self.rows[unsettled], centers, norms)
        self.labels[unsettled], self.lead[unsettled] = found.owner, _lead(found, norms)
        changes = found.owner != before
        changed, before = unsettled[changes], before[changes]
        self._recount(changed, before)
        if not self.sizes.all():
            every = self.labels.copy()
            every[changed] = before
            self._fill(two_nearest(self.rows, centers, self.norms).first)
            changed = np.flatnonzero(self.labels != every)
            before = every[changed]
        if changed.size:
            self.means.update(changed, before, self.labels)
            self._exact = False
            self._shrink(centers)
        return int(changed.size)

    def recentre(self) -> bool:
        """Compute all means from nothing, unless they are; say whether that moved any."""
        if self._exact:
            return False
        self._exact, centers = True, self.means.centers
        self.means = Means(self.rows, self.weights, self.labels, centers)
        self._shrink(centers)
        return not np.array_equal(centers, self.means.centers)

    def _shrink(self, before: FloatArray) -> None:
        """Take from every lead how far its own centre and the fastest of the others went."""
        moved = np.sqrt(squared_norms(self.means.centers - before)) * (1 + 1e-9)
        fastest = int(moved.argmax())
        others = np.full(len(moved), moved[fastest])
        others[fastest] = np.delete(moved, fastest).max(initial=0.0)
        self.lead -= ((moved + others) * (1 + _SETTLED))[self.labels]

    def _fill(self, distances: FloatArray) -> None:
        """Give every empty cluster a row; that row's label holds for this iteration only."""
        filled = fill_empty(self.labels, distances * self.weights, self.weights, len(self.sizes))
        if filled is not self.labels:
            taken = np.flatnonzero(filled != self.labels)
            before, self.labels = self.labels, filled
            self._recount(taken, before[taken])
            self.lead[taken] = -np.inf

    def _recount(self, changed: IntArray, before: Labels) -> None:
        counted, k = self.counted[changed], len(self.sizes)
        self.sizes += self._count(self.labels[changed], counted, k) - self._count(before, counted, k)

    @staticmethod
    def _count(labels: Labels, counted: Flags, k: int) -> IntArray:
        return np.bincount(labels[counted], minlength=k)


def _lead(found: TwoNearest, norms: FloatArray) -> FloatArray:
    """Give how much nearer the own centre is, less what rounding may be off and `ROUNDING` lets pass for equal."""
    first = np.sqrt(found.first)
    lead: FloatArray = np.sqrt(found.second) - first
    lead -= _SETTLED * (np.sqrt(norms) + first)
    return lead


def assign(rows: FloatArray, centers: FloatArray) -> tuple[Labels, FloatArray]:
    """Give each row's nearest centre and its squared distance to it."""
    found = two_nearest(rows, centers, squared_norms(rows))
    return found.owner, found.first


def margin_step(rows: FloatArray, weights: FloatArray, centers: FloatArray) -> FloatArray:
    """Move each centre to the mean of the rows that it wins by the factor 9 (Protocol 1, lines 5 to 13).

    A centre that wins none so clearly stays where it is.
    """
    norms = squared_norms(rows)
    found = two_nearest(rows, centers, norms)
    allowed = found.second + ROUNDING * (3 * norms + 2 * found.second)
    clear = np.flatnonzero(found.first * CLEAR_FACTOR <= allowed)
    return weighted_means(rows[clear], weights[clear], found.owner[clear], centers)


def _inertia(rows: FloatArray, weights: FloatArray, labels: Labels, centers: FloatArray) -> float:
    total = 0.0
    for block in blocks_of(rows):
        away = rows[block] - centers[labels[block]]
        total += float(weights[block] @ squared_norms(away))
    return total
