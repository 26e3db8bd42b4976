"""Weighted Lloyd iterations and the initial assignment with margin 9 (Protocol 1, lines 5 to 24).

Everything here is deterministic for given centres. The parts are squared distances (in blocks of rows, so that no
n × k matrix is held), weighted means, the rule for empty clusters, the iterations, and rows in canonical order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from kcagc._types import FloatArray, IntArray, Labels
from kcagc.graph.ids import membership

MARGIN = 9.0  # Protocol 1, line 9

# The rounding error of ‖x‖² - 2 x·c + ‖c‖² relative to its terms: distances of a row that differ by less are equal, and
# a smaller distance is zero. It is a thousand times the true error, and far below any meaningful difference.
ROUNDING = 1e-12

# A label is certain where the own centre is nearer than any other by this share of the lengths involved. Squared, that
# exceeds `ROUNDING`: a certain label also wins the full comparison.
_CERTAIN = 4 * ROUNDING**0.5

_ROWS = 1 << 13  # rows in a block: what is computed for them fits in the cache of one core
_SHARE = 4  # if more than one row in `_SHARE` changed, all sums are computed again
_SHRUNK = 16  # if a cluster has lost all but 1 / `_SHRUNK` of its weight, its sums have lost accuracy


class TwoNearest(NamedTuple):
    """The nearest centre of each row, the squared distance to it, and to the second nearest (infinite if k = 1)."""

    owner: Labels
    first: FloatArray
    second: FloatArray


def squared_norms(rows: FloatArray) -> FloatArray:
    """Return ‖x_i‖² for each row."""
    norms: FloatArray = np.einsum("ij,ij->i", rows, rows)
    return norms


def squared_distances(rows: FloatArray, centers: FloatArray) -> FloatArray:
    """Return ‖x_i - c_r‖² for all i and r, never negative."""
    found = rows @ (-2.0 * centers.T)
    found += squared_norms(rows)[:, None]
    found += squared_norms(centers)
    return np.maximum(found, 0.0, out=found)


def two_nearest(rows: FloatArray, centers: FloatArray, norms: FloatArray) -> TwoNearest:
    """Find the two nearest centres of each row; ties (up to rounding) go to the lowest cluster number.

    Arrays have one line for each centre and not for each row, so that every step reads memory in order.
    """
    n, k = len(rows), len(centers)
    found = TwoNearest(np.empty(n, dtype=np.intp), np.empty(n), np.empty(n))
    turned, lengths = -2.0 * centers, squared_norms(centers)[:, None]
    # The lowest cluster has the largest rank, so that a maximum over near centres finds it.
    rank = np.arange(k, 0, -1).astype(np.uint8 if k < 1 << 8 else np.uint32)[:, None]
    every = np.arange(min(n, _ROWS))
    for block in blocks_of(rows):
        away = turned @ rows[block].T
        away += lengths  # distances without the norm of the row, which is the same for all centres
        least = away.min(axis=0)
        first = np.maximum(least + norms[block], 0.0)
        near = away <= least + ROUNDING * (3 * norms[block] + 2 * first)
        owner = k - (near * rank).max(axis=0).astype(np.intp)
        away[owner, every[: len(owner)]] = np.inf
        found.owner[block], found.first[block] = owner, first
        np.maximum(away.min(axis=0) + norms[block], 0.0, out=found.second[block])
    return found


def blocks_of(rows: NDArray[Any]) -> Iterator[slice]:
    """Yield slices that cover all rows, so that temporary arrays have the size of a block."""
    for start in range(0, len(rows), _ROWS):
        yield slice(start, min(start + _ROWS, len(rows)))


class Means:
    """Weighted means of clusters, updated as labels change; a cluster without weight keeps its centre."""

    def __init__(self, rows: FloatArray, weights: FloatArray, labels: Labels, previous: FloatArray) -> None:
        self._rows, self._weights = rows, weights
        self.centers, self._peaks = previous, np.zeros(len(previous))
        self._compute(labels)

    def update(self, changed: IntArray, before: Labels, labels: Labels) -> None:
        """Move the weight of the `changed` rows from the clusters `before` to the clusters in `labels`."""
        if changed.size * _SHARE > len(labels):
            self._compute(labels)
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
            self._compute(labels)
        else:
            self._divide()

    def _compute(self, labels: Labels) -> None:
        k = len(self.centers)
        self._totals = np.asarray(np.bincount(labels, weights=self._weights, minlength=k), dtype=np.float64)
        self._sums = membership(labels, k, self._weights).T @ self._rows
        self._peaks = self._totals
        self._divide()

    def _divide(self) -> None:
        totals = self._totals[:, None]
        self.centers = np.divide(self._sums, totals, out=self.centers.copy(), where=totals > 0)


def weighted_means(rows: FloatArray, weights: FloatArray, labels: Labels, previous: FloatArray) -> FloatArray:
    """μ_r = Σ w_i x_i / Σ w_i over the rows of cluster r.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        The rows x_i.
    weights : ndarray of shape (n,)
        The weights w_i ≥ 0.
    labels : ndarray of shape (n,)
        The cluster of each row.
    previous : ndarray of shape (k, d)
        The centres to keep for clusters without weight.

    Returns
    -------
    ndarray of shape (k, d)

    Examples
    --------
    >>> weighted_means(np.array([[1.0], [4.0]]), np.array([2.0, 1.0]), np.array([0, 0]), np.zeros((2, 1)))
    array([[2.],
           [0.]])
    """
    return Means(rows, weights, labels, previous).centers


def fill_empty(labels: Labels, costs: FloatArray, weights: FloatArray, n_clusters: int) -> Labels:
    """Move the row with the largest cost to each empty cluster, in the order of cluster numbers.

    A row is taken only from a cluster that keeps another row. Moving a centre to such a row cannot raise the total.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        The cluster of each row.
    costs : ndarray of shape (n,)
        The weighted squared distance of each row to its centre.
    weights : ndarray of shape (n,)
        The weight of each row; a row without weight does not fill a cluster.
    n_clusters : int
        The number of clusters.

    Returns
    -------
    ndarray of shape (n,)
        The new labels, or `labels` itself where no cluster is empty.

    Examples
    --------
    >>> fill_empty(np.array([0, 0, 0]), np.array([1.0, 5.0, 3.0]), np.ones(3), 2)
    array([0, 1, 0])
    """
    sizes = np.bincount(labels, weights=weights > 0, minlength=n_clusters)
    empty = np.flatnonzero(sizes == 0)
    if empty.size == 0:
        return labels
    labels = labels.copy()
    by_cost = iter(np.argsort(-costs, kind="stable"))
    for cluster in empty:
        for row in by_cost:
            if sizes[labels[row]] > 1 and weights[row] > 0:
                sizes[labels[row]] -= 1
                labels[row] = cluster
                sizes[cluster] = 1
                break
    return labels


@dataclass(frozen=True, eq=False)
class KMeansResult:
    """The clusters that k-means found.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        The cluster of each row, from 0 to k - 1.
    centers : ndarray of shape (k, d)
        The weighted mean of each cluster.
    inertia : float
        The weighted sum of squared distances to the centres.
    n_iter : int
        The number of Lloyd iterations.
    converged : bool
        Whether labels stopped changing within the allowed number of iterations.

    Examples
    --------
    >>> fit_kmeans([[0.0], [1.0], [9.0]], 2, random_state=0).inertia
    0.5
    """

    labels: Labels
    centers: FloatArray
    inertia: float
    n_iter: int
    converged: bool


def run_lloyd(
    rows: FloatArray, weights: FloatArray, centers: FloatArray, *, max_iter: int = 100, tolerance: float = 0.0
) -> KMeansResult:
    """Assign rows to the nearest centre and move centres to weighted means, until labels no longer change.

    Ties go to the lowest cluster number. An empty cluster takes the row with the largest cost.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        The rows.
    weights : ndarray of shape (n,)
        The weight of each row.
    centers : ndarray of shape (k, d)
        The initial centres.
    max_iter : int, default=100
        The largest number of iterations.
    tolerance : float, default=0.0
        The share of rows that may still change in the last iteration.

    Returns
    -------
    KMeansResult

    Examples
    --------
    >>> run_lloyd(np.array([[0.0], [1.0], [9.0]]), np.ones(3), np.array([[0.0], [9.0]])).labels
    array([0, 0, 1])
    """
    run = _LloydState(rows, weights, centers)
    n_iter, converged = 1, False
    while n_iter < max_iter and not converged:
        changed = run.iterate()
        n_iter += 1
        converged = changed <= tolerance * len(rows)
        if changed == 0 and run.recompute_means():  # removes rounding errors of the updates
            converged = run.iterate() == 0
    run.recompute_means()
    inertia = _inertia(rows, weights, run.labels, run.means.centers)
    return KMeansResult(run.labels, run.means.centers, inertia, n_iter, converged)


class _LloydState:
    """Lloyd iterations that compare a row with all centres only if its label may have changed.

    For each row, `lead` is a lower bound on how much nearer its own centre is than any other (Hamerly, SDM 2010). When
    centres move, it shrinks by the movement of its own centre and of the fastest other centre. While it is positive,
    the label cannot change.
    """

    def __init__(self, rows: FloatArray, weights: FloatArray, centers: FloatArray) -> None:
        """Assign every row and move the centres once."""
        self.rows, self.weights, self.norms = rows, weights, squared_norms(rows)
        self.counted = weights > 0
        found = two_nearest(rows, centers, self.norms)
        self.labels, self.lead = found.owner, _lead(found, self.norms)
        self._fill(centers)
        self.means = Means(rows, weights, self.labels, centers)
        self._exact = True  # the means contain no updates
        self._shrink(centers)

    def iterate(self) -> int:
        """Assign rows again and move the centres; return the number of labels that changed."""
        centers, before = self.means.centers, self.labels.copy()
        uncertain = np.flatnonzero(self.lead <= 0)
        norms = self.norms[uncertain]
        found = two_nearest(self.rows[uncertain], centers, norms)
        self.labels[uncertain], self.lead[uncertain] = found.owner, _lead(found, norms)
        self._fill(centers)
        changed = np.flatnonzero(self.labels != before)
        if changed.size:
            self.means.update(changed, before[changed], self.labels)
            self._exact = False
            self._shrink(centers)
        return int(changed.size)

    def recompute_means(self) -> bool:
        """Compute all means from all rows, if they contain updates; return whether a centre moved."""
        if self._exact:
            return False
        self._exact, centers = True, self.means.centers
        self.means = Means(self.rows, self.weights, self.labels, centers)
        self._shrink(centers)
        return not np.array_equal(centers, self.means.centers)

    def _shrink(self, before: FloatArray) -> None:
        """Subtract the movement of the own centre and of the fastest other centre from every lead."""
        moved = np.sqrt(squared_norms(self.means.centers - before)) * (1 + 1e-9)
        fastest = int(moved.argmax())
        others = np.full(len(moved), moved[fastest])
        others[fastest] = np.delete(moved, fastest).max(initial=0.0)
        self.lead -= ((moved + others) * (1 + _CERTAIN))[self.labels]

    def _fill(self, centers: FloatArray) -> None:
        """Move a row to every empty cluster; the label of that row is compared again in the next iteration."""
        if np.bincount(self.labels[self.counted], minlength=len(centers)).all():
            return
        costs = two_nearest(self.rows, centers, self.norms).first * self.weights
        filled = fill_empty(self.labels, costs, self.weights, len(centers))
        self.lead[filled != self.labels] = -np.inf
        self.labels = filled


def _lead(found: TwoNearest, norms: FloatArray) -> FloatArray:
    """Return how much nearer the own centre is, less the rounding error."""
    first = np.sqrt(found.first)
    lead: FloatArray = np.sqrt(found.second) - first
    lead -= _CERTAIN * (np.sqrt(norms) + first)
    return lead


def assign(rows: FloatArray, centers: FloatArray) -> tuple[Labels, FloatArray]:
    """Return the nearest centre of each row and the squared distance to it."""
    found = two_nearest(rows, centers, squared_norms(rows))
    return found.owner, found.first


def won_by_margin(rows: FloatArray, centers: FloatArray) -> tuple[IntArray, Labels]:
    """Return the rows in S_r = {i : 9 d_ir ≤ d_is for all s ≠ r}, and r for each (Protocol 1, lines 5 to 10).

    d are squared distances. A row whose nearest centre does not win by the margin 9 belongs to no set.
    """
    norms = squared_norms(rows)
    found = two_nearest(rows, centers, norms)
    allowed = found.second + ROUNDING * (3 * norms + 2 * found.second)
    won = np.flatnonzero(found.first * MARGIN <= allowed)
    return won, found.owner[won]


def margin_step(rows: FloatArray, weights: FloatArray, centers: FloatArray) -> FloatArray:
    """Move each centre to the mean of its S_r; a centre with an empty set does not move (Protocol 1, lines 5 to 13)."""
    won, owner = won_by_margin(rows, centers)
    return weighted_means(rows[won], weights[won], owner, centers)


def _inertia(rows: FloatArray, weights: FloatArray, labels: Labels, centers: FloatArray) -> float:
    total = 0.0
    for block in blocks_of(rows):
        away = rows[block] - centers[labels[block]]
        total += float(weights[block] @ squared_norms(away))
    return total


def canonical_rows(rows: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return distinct rows in lexicographic order, their total weights, and the place of each original row among them.

    Results computed from these (drawn rows, sums, ties) are the same for every order of the input, and a row of weight
    w equals w copies of the row to the last bit.
    """
    rows = rows + 0.0  # turns -0.0 into 0.0, so that both are one row
    order = np.argsort(rows[:, 0], kind="stable")
    same = np.diff(rows[order, 0]) == 0
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))  # equal to the row before or after
    if tied.size:
        # Only rows that agree in the first column need the other columns. The weight is the last key, so that the
        # weights of equal rows are added in the same order for every order of the input.
        among = order[tied]
        order[tied] = among[np.lexsort((weights[among], *rows[among].T[::-1]))]
    first = np.ones(len(order), dtype=bool)
    later = tied[tied > 0]
    first[later] = (rows[order[later]] != rows[order[later - 1]]).any(axis=1)
    inverse = np.empty(len(order), dtype=np.int64)
    inverse[order] = np.cumsum(first) - 1
    starts = np.flatnonzero(first)
    return rows[order[starts]], np.add.reduceat(weights[order], starts), inverse


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context manager that keeps linear algebra on one core.

    Threads that wait for the next small product spin. They take a core from another party on the same machine, or from
    the threads that filter.
    """
    limit: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limit


@lru_cache(maxsize=1)
def _libraries() -> Any:
    return ThreadpoolController()  # inspects all libraries of the process, which takes milliseconds
