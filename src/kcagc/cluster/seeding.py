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
from kcagc.cluster.distances import distance_blocks, squared_distances

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
    owner, first, second = _two_nearest(rows, rows[chosen])
    for _ in range(n_swaps):
        # One number is drawn whether or not it is used, so that swaps never shift what is drawn after them.
        place = random.random_sample()
        mass = np.cumsum(weights * first)
        if mass[-1] <= 0:  # every row lies on a centre: nothing left to gain
            continue
        candidate = int(min(np.searchsorted(mass, place * mass[-1], side="right"), len(rows) - 1))
        to_candidate = squared_distances(rows, rows[candidate : candidate + 1])[:, 0]
        kept = weights * np.minimum(first, to_candidate)  # cost if the row's own centre stays
        lost = weights * np.minimum(second, to_candidate)  # cost if it is the one that leaves
        cost_without = kept.sum() + np.bincount(owner, weights=lost - kept, minlength=len(chosen))
        leaving = int(cost_without.argmin())
        if cost_without[leaving] < mass[-1] * (1 - 1e-12):
            chosen[leaving] = candidate
            owner, first, second = _two_nearest(rows, rows[chosen])
    return chosen


def approximation_bound(rows: FloatArray, weights: FloatArray, k: int, cost: float) -> float:
    """Certify a factor: `cost` is at most this many times the optimal k-means cost of these rows.

    The k-1 leading directions of the centred rows explain at least as much as any k centres can, so the rest of the
    spectrum is a lower bound of the optimum. Infinite where that bound is zero.
    """
    total = weights.sum()
    centred = rows - (weights @ rows) / total
    spectrum = np.linalg.eigvalsh((centred * weights[:, None]).T @ centred)[::-1]
    rounding = 1e-12 * float(spectrum.sum())
    lower = float(spectrum[k - 1 :].sum())
    if lower <= rounding:
        return 1.0 if cost <= rounding else float("inf")
    return max(cost / lower, 1.0)


def _two_nearest(rows: FloatArray, centers: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Give each row's nearest centre and its squared distances to the nearest and the second nearest."""
    owner = np.empty(len(rows), dtype=np.int64)
    first = np.empty(len(rows))
    second = np.empty(len(rows))
    for block, distances in distance_blocks(rows, centers):
        owner[block] = distances.argmin(axis=1)
        first[block] = np.take_along_axis(distances, owner[block, None], axis=1)[:, 0]
        np.put_along_axis(distances, owner[block, None], np.inf, axis=1)
        second[block] = distances.min(axis=1)
    return owner, first, second
