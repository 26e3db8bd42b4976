"""How good a clustering is: against known classes, and against the graph alone.

All functions take labels of any kind (numbers or strings); clusters are matched to classes so as to agree on the most
nodes, one to one. Where there are more clusters than classes the surplus clusters match nothing, and the other way
round.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from kcagc._types import FloatArray, Sparse
from kcagc.errors import DataError
from kcagc.graph.graph import Graph, as_graph
from kcagc.graph.ids import membership

NAMES = {
    "accuracy": "accuracy, best matching",
    "nmi": "normalised mutual information",
    "ari": "adjusted Rand index",
    "macro_f1": "macro F1, best matching",
    "modularity": "modularity of the clusters",
}


def accuracy(true: ArrayLike, found: ArrayLike) -> float:
    """Give the share of nodes whose cluster is matched to their class, under the best one-to-one matching."""
    counts = _contingency(true, found)
    classes, clusters = linear_sum_assignment(counts, maximize=True)
    return float(counts[classes, clusters].sum() / counts.sum())


def matching(true: ArrayLike, found: ArrayLike) -> dict[Any, Any]:
    """Give the class that each cluster stands for under that matching; surplus clusters stand for none."""
    classes, clusters = (np.unique(labels) for labels in _pair(true, found))
    matched = linear_sum_assignment(_contingency(true, found), maximize=True)
    return {clusters[cluster].item(): classes[one].item() for one, cluster in zip(*matched, strict=True)}


def matched_accuracy(stands_for: dict[Any, Any], true: ArrayLike, found: ArrayLike) -> float:
    """Give the share of nodes whose cluster stands for their class, under a matching made on other nodes."""
    pairs = zip(np.asarray(true).tolist(), np.asarray(found).tolist(), strict=True)
    return float(np.mean([stands_for.get(cluster) == label for label, cluster in pairs]))


def nmi(true: ArrayLike, found: ArrayLike) -> float:
    """Give mutual information divided by the mean of the two entropies: 1 for equal partitions, 0 for unrelated."""
    return float(normalized_mutual_info_score(*_pair(true, found)))


def ari(true: ArrayLike, found: ArrayLike) -> float:
    """Give the share of node pairs on which both partitions agree, corrected for chance."""
    return float(adjusted_rand_score(*_pair(true, found)))


def macro_f1(true: ArrayLike, found: ArrayLike) -> float:
    """Give the mean over classes of the F1 score of the matched cluster; a class without a cluster counts as 0."""
    counts = _contingency(true, found)
    # F1 = 2 |both| / (|class| + |cluster|)
    scores = 2 * counts / (counts.sum(axis=1)[:, None] + counts.sum(axis=0))
    # Among matchings that agree on equally many nodes the best F1 is taken: all scores together stay below one node.
    matched = linear_sum_assignment(counts + scores / (len(counts) + 1), maximize=True)
    return float(scores[matched].sum() / len(counts))


def modularity(adjacency: Graph | Sparse, found: ArrayLike) -> float:
    """Give the share of edge weight inside clusters, less what random edges between the same degrees would give."""
    graph = as_graph(adjacency)
    _, codes = np.unique(np.asarray(found), return_inverse=True)
    if len(codes) != graph.n_nodes:
        raise DataError(f"labels: {len(codes)} labels for a graph of {graph.n_nodes} nodes")
    members = membership(codes, int(codes.max()) + 1)
    links = (members.T @ graph.adjacency @ members).toarray()
    total = links.sum()
    if total == 0:
        return 0.0
    return float(np.trace(links) / total - ((links.sum(axis=0) / total) ** 2).sum())


def table(true: ArrayLike | None, found: ArrayLike, adjacency: Graph | Sparse | None = None) -> dict[str, float]:
    """Give all measures that the arguments allow, in a fixed order; `NAMES` says in words what each is."""
    measures: dict[str, float] = {}
    if true is not None:
        for measure in (accuracy, nmi, ari, macro_f1):
            measures[measure.__name__] = measure(true, found)
    if adjacency is not None:
        measures["modularity"] = modularity(adjacency, found)
    return measures


def _pair(true: ArrayLike, found: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    first, second = np.asarray(true), np.asarray(found)
    if first.ndim != 1 or first.shape != second.shape:
        raise DataError(f"labels: both must be one column of equal length, not {first.shape} and {second.shape}")
    if len(first) == 0:
        raise DataError("labels: there are none")
    for labels in (first, second):
        if labels.dtype.kind in "fO":  # the kinds that can hold a NaN, which differs from itself, or a None
            missing = [row for row, label in enumerate(labels.tolist()) if label is None or label != label]  # noqa: PLR0124
            if missing:
                raise DataError(f"labels: the label in row {missing[0]} is missing")
    return first, second


def _contingency(true: ArrayLike, found: ArrayLike) -> FloatArray:
    """Count the nodes of each class (row) in each cluster (column)."""
    first, second = _pair(true, found)
    classes, row = np.unique(first, return_inverse=True)
    clusters, column = np.unique(second, return_inverse=True)
    counts = np.zeros((len(classes), len(clusters)))
    np.add.at(counts, (row, column), 1)
    return counts
