"""The decisions of k-means, each on distances alone: who wins, who wins clearly, what an empty cluster takes.

They never see a row's coordinates, so the same functions serve one party with its own distances and, later, whoever
holds only sums of distances.
"""

from __future__ import annotations

import numpy as np

from kcagc._types import FloatArray, Labels

UNASSIGNED = -1
CLEAR_FACTOR = 9.0  # Protocol 1, line 9


def nearest(distances: FloatArray, *, slack: float = 0.0) -> Labels:
    """Give each row its nearest cluster; among those within `slack` of the nearest, the lowest number wins.

    The slack absorbs rounding: which of two equal distances comes out smaller must not depend on the number of threads.
    """
    if slack == 0.0:
        winner: Labels = np.argmin(distances, axis=1)
    else:
        winner = np.argmax(distances <= distances.min(axis=1, keepdims=True) + slack, axis=1)
    return winner


def clear_winners(distances: FloatArray, *, factor: float = CLEAR_FACTOR, slack: float = 0.0) -> Labels:
    """Give each row the cluster r with d_r ≤ d_s / 9 for every other s, or UNASSIGNED where there is none.

    Protocol 1, lines 5 to 10: a row that no centre wins by the factor 9 belongs to no S_r. A row that lies on two
    coinciding centres goes to the lower number.
    """
    winner = nearest(distances, slack=slack)
    if distances.shape[1] == 1:
        return winner
    best_two = np.partition(distances, 1, axis=1)
    clear = factor * best_two[:, 0] <= best_two[:, 1] + slack
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
