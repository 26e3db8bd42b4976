"""AGC's choice of the filter's order: smooth once more until the clusters stop getting tighter.

Zhang et al., "Attributed graph clustering via adaptive graph convolution", IJCAI 2019: raise ψ by one, cluster, and
stop when the mean intra-cluster distance rises; the order before that is the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from kcagc._types import AnyFloatArray, Features, Labels
from kcagc.errors import DataError
from kcagc.graph.attributed import check_features
from kcagc.graph.filters import HalfFilter, filter_columns
from kcagc.graph.graph import Graph, as_graph
from kcagc.parameters import check_count
from kcagc.partition import membership

_ROWS = 1 << 15  # rows compared with their means at a time


class Clustering(Protocol):
    """Whatever a clustering method returns, as long as it has labels."""

    @property
    def labels(self) -> Labels:
        """The cluster of each row."""


Found = TypeVar("Found", bound=Clustering)


@dataclass(frozen=True, eq=False)
class AdaptiveOrder(Generic[Found]):
    """The order that was chosen, its clusters and filtered features, and the distance seen at each order from 1 on."""

    psi: int
    found: Found
    filtered: AnyFloatArray
    distances: list[float]
    stopped: bool  # False: the largest order was reached while the distance was still falling


def adaptive_order(
    graph: Graph,
    features: Features,
    cluster: Callable[[AnyFloatArray], Found],
    *,
    max_psi: int = 60,
    progress: Callable[[int, float], None] | None = None,
) -> AdaptiveOrder[Found]:
    """Find ψ for p(λ) = (1 - λ/2)^ψ with `cluster`, which finds clusters in filtered features.

    Where smoothing has made rows so alike that there are no longer enough of them to cluster, the search ends as well.
    """
    check_count("max_psi", max_psi)
    graph = as_graph(graph)
    features = check_features(features, n_nodes=graph.n_nodes)
    one_step = HalfFilter(1).prepare(graph, features.dtype)
    filtered = filter_columns(one_step, features, features.dtype)
    found = cluster(filtered)
    distances = [intra_cluster_distance(filtered, found.labels)]
    for psi in range(2, max_psi + 1):
        if progress is not None:
            progress(psi - 1, distances[-1])
        smoother = filter_columns(one_step, filtered, features.dtype)
        try:
            found_next = cluster(smoother)
        except DataError:
            return AdaptiveOrder(psi - 1, found, filtered, distances, stopped=True)
        distances.append(intra_cluster_distance(smoother, found_next.labels))
        if distances[-1] > distances[-2]:
            return AdaptiveOrder(psi - 1, found, filtered, distances, stopped=True)
        found, filtered = found_next, smoother
    return AdaptiveOrder(max_psi, found, filtered, distances, stopped=False)


def intra_cluster_distance(features: AnyFloatArray, labels: Labels) -> float:
    """Give the mean over clusters of the mean squared distance between two members drawn with replacement.

    That is twice a cluster's variance, so no pairs are formed: the mean of ‖x_i - x_j‖² is 2 E‖x - E x‖².
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
