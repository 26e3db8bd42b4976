"""The choice of the filter order ψ by AGC (Zhang et al., "Attributed graph clustering via adaptive graph convolution",
IJCAI 2019): raise ψ by one, cluster, and stop when the mean intra-cluster distance rises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kcagc._types import AnyFloatArray, Features, Labels, check_count
from kcagc.errors import DataError
from kcagc.graph.filters import BlockFilter, HalfFilter, filter_columns
from kcagc.graph.graph import Graph, as_graph, check_features
from kcagc.graph.ids import membership

_ROWS = 1 << 15  # rows compared with their means at a time


@dataclass(frozen=True, eq=False)
class AdaptiveOrder:
    """The result of `adaptive_order`.

    Attributes
    ----------
    psi : int
        The chosen order.
    found : object
        The clusters at this order, as `cluster` returned them.
    filtered : ndarray of shape (n_nodes, n_features)
        The filtered features at this order.
    distances : list of float
        The intra-cluster distance at each order from 1 on.
    stopped : bool
        False if the distance was still falling at the largest order.

    Examples
    --------
    >>> adaptive_order(graph, features, cluster).psi  # doctest: +SKIP
    3
    """

    psi: int
    found: Any
    filtered: AnyFloatArray
    distances: list[float]
    stopped: bool


def adaptive_order(
    graph: Graph,
    features: Features,
    cluster: Callable[[AnyFloatArray], Any],
    *,
    max_psi: int = 60,
    progress: Callable[[int, float], None] | None = None,
) -> AdaptiveOrder:
    """Choose ψ for p(λ) = (1 - λ/2)^ψ: the last order before the intra-cluster distance rises.

    The search also stops where the filtered rows have become too similar to cluster.

    Parameters
    ----------
    graph : Graph
        The graph.
    features : array-like or sparse matrix of shape (n_nodes, n_features)
        The features.
    cluster : callable
        Takes filtered features and returns an object with `labels`.
    max_psi : int, default=60
        The largest order to try.
    progress : callable, default=None
        Called with the order and its distance after each order.

    Returns
    -------
    AdaptiveOrder

    Examples
    --------
    >>> found = adaptive_order(graph, features, lambda rows: fit_kmeans(rows, 5))  # doctest: +SKIP
    >>> found.psi, found.stopped  # doctest: +SKIP
    (3, True)
    """
    check_count("max_psi", max_psi)
    graph = as_graph(graph)
    features = check_features(features, n_nodes=graph.n_nodes)

    def measured(filtered: AnyFloatArray) -> tuple[Any, float]:
        found = cluster(filtered)
        return found, intra_cluster_distance(filtered, found.labels)

    one_step = HalfFilter(1).prepare(graph, features.dtype)
    return AdaptiveOrder(
        *search_order(one_step, features, measured, lambda before, now: now > before, max_psi, progress)
    )


def search_order(
    one_step: BlockFilter,
    features: Features,
    measured: Callable[[AnyFloatArray], tuple[Any, float]],
    ends: Callable[[float, float], bool],
    max_order: int,
    progress: Callable[[int, float], None] | None,
) -> tuple[int, Any, AnyFloatArray, list[float], bool]:
    """Filter and cluster again until `ends` accepts two successive measures, or rows are too similar to cluster.

    `measured` clusters filtered features and returns the result and its measure. Return the order before the last,
    its result, its filtered features, the measure at each order, and whether the search ended before `max_order`.
    """
    filtered = filter_columns(one_step, features, features.dtype)
    found, measure = measured(filtered)
    measures = [measure]
    for order in range(1, max_order):
        if progress is not None:
            progress(order, measures[-1])
        smoother = filter_columns(one_step, filtered, features.dtype)
        try:
            found_next, measure = measured(smoother)
        except DataError:
            return order, found, filtered, measures, True
        measures.append(measure)
        if ends(measures[-2], measure):
            return order, found, filtered, measures, True
        found, filtered = found_next, smoother
    return max_order, found, filtered, measures, False


def intra_cluster_distance(features: AnyFloatArray, labels: Labels) -> float:
    """Mean over clusters of E‖x - y‖², where x and y are two members drawn with replacement.

    Computed as twice the variance of a cluster, so that no pairs are formed: E‖x - y‖² = 2 E‖x - E x‖².

    Parameters
    ----------
    features : ndarray of shape (n_nodes, n_features)
        The rows.
    labels : ndarray of shape (n_nodes,)
        The cluster of each row.

    Returns
    -------
    float

    Examples
    --------
    >>> intra_cluster_distance(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1]))
    1.0
    """
    _, codes = np.unique(labels, return_inverse=True)
    sizes = np.bincount(codes)
    means = (membership(codes, len(sizes)).T @ features) / sizes[:, None]
    spread = np.zeros(len(sizes))
    for start in range(0, len(codes), _ROWS):
        block = codes[start : start + _ROWS]
        away = features[start : start + _ROWS] - means[block]
        spread += np.bincount(block, weights=np.einsum("ij,ij->i", away, away), minlength=len(sizes))
    return float(np.mean(2 * spread / sizes))
