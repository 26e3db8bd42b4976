"""The decisions of k-means, each on distances alone: who wins, who wins clearly, what an empty cluster takes.

They never see a row's coordinates, so the same functions serve one party with its own distances and, later, whoever
holds only sums of distances.
"""

from __future__ import annotations

import numpy as np

from kcagc._types import FloatArray, Labels
from kcagc.cluster.distances import ROUNDING

UNASSIGNED = -1
CLEAR_FACTOR = 9.0  # Protocol 1, line 9


def nearest(distances: FloatArray, *, norms: FloatArray | None = None) -> Labels:
    """Give each row its nearest cluster; among those equally near, the lowest number wins.

    With the rows' squared `norms`, distances that differ by no more than rounding count as equal: which of two equal
    distances comes out smaller must not depend on the number of threads. Without, distances are taken to be exact.
    """
    if norms is None:
        winner: Labels = np.argmin(distances, axis=1)
    else:
        least = distances.min(axis=1)
        winner = np.argmax(distances <= (least + _rounding(least, norms))[:, None], axis=1)
    return winner


def _rounding(least: FloatArray, norms: FloatArray) -> FloatArray:
    """Bound what ‖x‖² - 2 x·c + ‖c‖² may be off; the centre at distance d has ‖c‖² ≤ 2 (‖x‖² + d²)."""
    return ROUNDING * (3 * norms + 2 * least)


def clear_winners(distances: FloatArray, *, factor: float = CLEAR_FACTOR, norms: FloatArray | None = None) -> Labels:
    """Give each row the cluster r with d_r ≤ d_s / 9 for every other s, or UNASSIGNED where there is none.

    Protocol 1, lines 5 to 10: a row that no centre wins by the factor 9 belongs to no S_r. A row that lies on two
    coinciding centres goes to the lower number.
    """
    winner = nearest(distances, norms=norms)
    if distances.shape[1] == 1:
        return winner
    best_two = np.partition(distances, 1, axis=1)
    allowed = best_two[:, 1] if norms is None else best_two[:, 1] + _rounding(best_two[:, 1], norms)
    clear = factor * best_two[:, 0] <= allowed
    return np.where(clear, winner, UNASSIGNED)


def fill_empty(labels: Labels, costs: FloatArray, weights: FloatArray, n_clusters: int) -> Labels:
    """Give each empty cluster the row that costs most where it is, in order of the clusters' numbers.

    `costs` are weighted squared distances to the assigned centre. A row is taken only from a cluster that keeps
    another one, so no cluster is emptied to fill the next. Moving a centre to such a row can only lower the total.
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
