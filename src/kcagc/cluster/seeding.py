"""Starting centres with a proven constant factor: k-means++ followed by local-search swaps.

What is proven for what is built here. k-means++ alone is within 8 (ln k + 2) of the optimum in expectation (Arthur and
Vassilvitskii, SODA 2007). Each swap draws a row as k-means++ would and exchanges it for the centre whose loss costs
least, if that lowers the cost (Lattanzi and Sohler, ICML 2019). With ε k swaps, for any fixed ε > 0, the result is
within a constant factor of the optimum with high probability in k (Choo, Grunau, Portmann and Rozhoň, ICML 2020); their
constant is not explicit. An explicit one, 509 in expectation, is proven only for 100,000 k log log k swaps. We make k
swaps unless told otherwise: a constant factor, and not a proven 10. The paper's footnote allows any t-approximation
where c/t is large; `approximation_bound` certifies, for a given result, a factor that it cannot exceed.
"""

from __future__ import annotations

import numpy as np
from sklearn.cluster import kmeans_plusplus

from kcagc._types import FloatArray, IntArray
from kcagc.cluster.distances import ROUNDING, blocks_of, squared_distances, squared_norms

# sklearn's own name for the sampler it accepts; seeds for clustering have nothing to do with keys.
RandomState = np.random.RandomState


def plus_plus(rows: FloatArray, weights: FloatArray, k: int, random: RandomState) -> IntArray:
    """Draw k row numbers, each with probability proportional to weight times squared distance to those before."""
    _, chosen = kmeans_plusplus(rows, k, sample_weight=weights, random_state=random, n_local_trials=1)
    return np.asarray(chosen, dtype=np.int64)


def local_search(
    rows: FloatArray, weights: FloatArray, chosen: IntArray, n_swaps: int, random: RandomState
) -> IntArray:
    """Try `n_swaps` exchanges of one chosen row for one drawn by squared distance, and keep those that pay."""
    chosen = chosen.copy()
    near = _TwoNearest(rows, rows[chosen])
    for _ in range(n_swaps):
        mass = np.cumsum(weights * near.first)
        if mass[-1] <= 0:  # every row lies on a centre: nothing left to gain
            break
        candidate = int(min(np.searchsorted(mass, random.random_sample() * mass[-1], side="right"), len(rows) - 1))
        to_candidate = squared_distances(rows, rows[candidate : candidate + 1], norms=near.norms)[:, 0]
        kept = weights * np.minimum(near.first, to_candidate)  # cost if the row's own centre stays
        lost = weights * np.minimum(near.second, to_candidate)  # cost if it is the one that leaves
        cost_without = kept.sum() + np.bincount(near.owner, weights=lost - kept, minlength=len(chosen))
        leaving = int(cost_without.argmin())
        if cost_without[leaving] < mass[-1] * (1 - 1e-12):
            chosen[leaving] = candidate
            near.exchange(leaving, rows[chosen], to_candidate)
    return chosen


class _TwoNearest:
    """Each row's nearest and second nearest centre, kept up to date while centres are exchanged one by one."""

    def __init__(self, rows: FloatArray, centers: FloatArray) -> None:
        self.rows = rows
        self.norms = squared_norms(rows)
        self.owner = np.empty(len(rows), dtype=np.int64)
        self.runner_up = np.empty(len(rows), dtype=np.int64)
        self.first = np.empty(len(rows))
        self.second = np.empty(len(rows))
        for block in blocks_of(rows):
            self._compare(block, centers)

    def exchange(self, leaving: int, centers: FloatArray, to_new: FloatArray) -> None:
        """Put the centre whose distances are `to_new` in the place of `leaving`.

        Only rows that had it among their two nearest need all distances anew, about 2 in k of them.
        """
        affected = (self.owner == leaving) | (self.runner_up == leaving)
        nearer = ~affected & (to_new < self.first)
        self.second[nearer], self.runner_up[nearer] = self.first[nearer], self.owner[nearer]
        self.first[nearer], self.owner[nearer] = to_new[nearer], leaving
        between = ~affected & ~nearer & (to_new < self.second)
        self.second[between], self.runner_up[between] = to_new[between], leaving
        again = np.flatnonzero(affected)
        for part in blocks_of(again):
            self._compare(again[part], centers)

    def _compare(self, which: slice | IntArray, centers: FloatArray) -> None:
        norms = self.norms[which]
        distances = squared_distances(self.rows[which], centers, norms=norms)
        every = np.arange(len(distances))
        self.owner[which] = owner = distances.argmin(axis=1)
        # A row on its centre is at distance zero, not at a rounding error that swaps could chase.
        least = distances[every, owner]
        self.first[which] = np.where(least > ROUNDING * norms, least, 0.0)
        distances[every, owner] = np.inf
        self.runner_up[which] = runner_up = distances.argmin(axis=1)
        self.second[which] = distances[every, runner_up]


def approximation_bound(rows: FloatArray, weights: FloatArray, k: int, cost: float) -> float:
    """Certify a factor: `cost` is at most this many times the optimal k-means cost of these rows.

    The k-1 leading directions of the centred rows explain at least as much as any k centres can, so the rest of the
    spectrum is a lower bound of the optimum. Infinite where that bound is zero.
    """
    if cost == 0 or k >= len(rows):
        return 1.0
    centred = rows - (weights @ rows) / weights.sum()
    spectrum = np.linalg.eigvalsh((centred * weights[:, None]).T @ centred)[::-1]
    # What the eigenvalues may be off is taken away, so that rounding cannot make the certificate too good.
    rounding = 1e-14 * len(spectrum) * float(spectrum[0])
    lower = float(spectrum[k - 1 :].sum()) - rounding
    return max(cost / lower, 1.0) if lower > 0 else float("inf")
