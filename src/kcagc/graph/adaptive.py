"""AGC's choice of the filter's order: smooth once more until the clusters stop getting tighter.

Zhang et al., "Attributed graph clustering via adaptive graph convolution", IJCAI 2019: raise ψ by one, cluster, and
stop when the mean intra-cluster distance rises; the order before that is the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from kcagc._types import AnyFloatArray, Features, Labels
from kcagc.graph.attributed import check_features
from kcagc.graph.filters import HalfFilter, filter_columns
from kcagc.graph.structure import Graph, as_graph
from kcagc.parameters import check_count


@dataclass(frozen=True)
class AdaptiveOrder:
    """The order that was chosen, its clusters and filtered features, and the distance seen at each order from 1 on."""

    psi: int
    labels: Labels
    filtered: AnyFloatArray
    distances: list[float] = field(repr=False)
    stopped: bool = True  # False: the largest order was reached while the distance was still falling


def adaptive_order(
    graph: Graph,
    features: Features,
    cluster: Callable[[AnyFloatArray], Labels],
    *,
    max_psi: int = 60,
    progress: Callable[[int, float], None] | None = None,
) -> AdaptiveOrder:
    """Find ψ for p(λ) = (1 - λ/2)^ψ with `cluster`, which gives labels for filtered features."""
    check_count("max_psi", max_psi)
    graph = as_graph(graph)
    features = check_features(features, n_nodes=graph.n_nodes)
    one_step = HalfFilter(1).prepare(graph, features.dtype)
    filtered = filter_columns(one_step, features, features.dtype)
    best = AdaptiveOrder(1, cluster(filtered), filtered, [])
    distances = [intra_cluster_distance(filtered, best.labels)]
    for psi in range(2, max_psi + 1):
        if progress is not None:
            progress(psi - 1, distances[-1])
        filtered = filter_columns(one_step, best.filtered, features.dtype)
        labels = cluster(filtered)
        distances.append(intra_cluster_distance(filtered, labels))
        if distances[-1] > distances[-2]:
            return AdaptiveOrder(best.psi, best.labels, best.filtered, distances)
        best = AdaptiveOrder(psi, labels, filtered, distances)
    return AdaptiveOrder(best.psi, best.labels, best.filtered, distances, stopped=False)


def intra_cluster_distance(features: AnyFloatArray, labels: Labels) -> float:
    """Give the mean over clusters of the mean squared distance between two members drawn with replacement.

    That is twice a cluster's variance, so no pairs are formed: the mean of ‖x_i - x_j‖² is 2 (E‖x‖² - ‖E x‖²).
    """
    _, codes = np.unique(labels, return_inverse=True)
    sizes = np.bincount(codes)
    members = sparse.csr_array((np.ones(len(codes)), (codes, np.arange(len(codes)))), shape=(len(sizes), len(codes)))
    means = (members @ features) / sizes[:, None]
    squares = np.bincount(codes, weights=np.einsum("ij,ij->i", features, features)) / sizes
    return float(np.mean(2 * np.maximum(squares - np.einsum("ij,ij->i", means, means), 0.0)))
