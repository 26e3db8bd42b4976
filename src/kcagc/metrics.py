"""Measures of the quality of a clustering, against known classes or against the graph.

Labels are numbers or strings. Clusters are matched with classes one to one, such that they agree on as many nodes as
possible. Surplus clusters or classes have no match.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from kcagc._types import FloatArray, Sparse
from kcagc.errors import DataError
from kcagc.graph.graph import Graph, as_graph

__all__ = ["accuracy", "ari", "macro_f1", "matched_accuracy", "matching", "modularity", "nmi", "table"]

_ROWS = 1 << 16  # of the graph that are read at a time

NAMES = {
    "accuracy": "accuracy, best matching",
    "nmi": "normalised mutual information",
    "ari": "adjusted Rand index",
    "macro_f1": "macro F1, best matching",
    "modularity": "modularity of the clusters",
}


def accuracy(true: ArrayLike, found: ArrayLike) -> float:
    """`max_π Σ_r |class π(r) ∩ cluster r| / n`: the share of correct nodes under the best one-to-one matching.

    Parameters
    ----------
    true : array-like of shape (n_nodes,)
        The class of each node.
    found : array-like of shape (n_nodes,)
        The cluster of each node.

    Returns
    -------
    float

    Examples
    --------
    >>> accuracy([0, 0, 1, 1], [1, 1, 0, 1])
    0.75
    """
    counts = _contingency(true, found)
    classes, clusters = linear_sum_assignment(counts, maximize=True)
    return float(counts[classes, clusters].sum() / counts.sum())


def matching(true: ArrayLike, found: ArrayLike) -> dict[Any, Any]:
    """Return the class that `accuracy` matches with each cluster; surplus clusters are absent.

    Parameters
    ----------
    true : array-like of shape (n_nodes,)
        The class of each node.
    found : array-like of shape (n_nodes,)
        The cluster of each node.

    Returns
    -------
    dict

    Examples
    --------
    >>> matching(["a", "a", "b"], [1, 1, 0])
    {1: 'a', 0: 'b'}
    """
    classes, clusters = (np.unique(labels) for labels in _pair(true, found))
    matched = linear_sum_assignment(_contingency(true, found), maximize=True)
    return {clusters[cluster].item(): classes[one].item() for one, cluster in zip(*matched, strict=True)}


def matched_accuracy(stands_for: dict[Any, Any], true: ArrayLike, found: ArrayLike) -> float:
    """Return the share of correct nodes under a matching computed on other nodes.

    Parameters
    ----------
    stands_for : dict
        The class of each cluster, as `matching` returns it.
    true : array-like of shape (n_nodes,)
        The class of each node.
    found : array-like of shape (n_nodes,)
        The cluster of each node.

    Returns
    -------
    float

    Examples
    --------
    >>> matched_accuracy({1: "a", 0: "b"}, ["a", "b"], [1, 1])
    0.5
    """
    pairs = zip(np.asarray(true).tolist(), np.asarray(found).tolist(), strict=True)
    return float(np.mean([stands_for.get(cluster) == label for label, cluster in pairs]))


def nmi(true: ArrayLike, found: ArrayLike) -> float:
    """2 I(true; found) / (H(true) + H(found)): 1 for equal partitions, 0 for independent ones.

    Parameters
    ----------
    true : array-like of shape (n_nodes,)
        The class of each node.
    found : array-like of shape (n_nodes,)
        The cluster of each node.

    Returns
    -------
    float

    Examples
    --------
    >>> nmi([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    return float(normalized_mutual_info_score(*_pair(true, found)))


def ari(true: ArrayLike, found: ArrayLike) -> float:
    """(R - E R) / (1 - E R), where R is the share of node pairs on which both partitions agree.

    Parameters
    ----------
    true : array-like of shape (n_nodes,)
        The class of each node.
    found : array-like of shape (n_nodes,)
        The cluster of each node.

    Returns
    -------
    float

    Examples
    --------
    >>> ari([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    return float(adjusted_rand_score(*_pair(true, found)))


def macro_f1(true: ArrayLike, found: ArrayLike) -> float:
    """Mean over classes of `2 |class ∩ cluster| / (|class| + |cluster|)` for the matched cluster, 0 without one.

    Parameters
    ----------
    true : array-like of shape (n_nodes,)
        The class of each node.
    found : array-like of shape (n_nodes,)
        The cluster of each node.

    Returns
    -------
    float

    Examples
    --------
    >>> macro_f1([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    counts = _contingency(true, found)
    # F1 = 2 |both| / (|class| + |cluster|)
    scores = 2 * counts / (counts.sum(axis=1)[:, None] + counts.sum(axis=0))
    # Among matchings that agree on equally many nodes, take the best F1: all scores together count less than one node.
    matched = linear_sum_assignment(counts + scores / (len(counts) + 1), maximize=True)
    return float(scores[matched].sum() / len(counts))


def modularity(adjacency: Graph | Sparse, found: ArrayLike) -> float:
    """Σ_r (w_rr / w - (w_r / w)²): the share of edge weight within clusters, less its expectation for random edges.

    Parameters
    ----------
    adjacency : Graph or sparse matrix of shape (n_nodes, n_nodes)
        The graph.
    found : array-like of shape (n_nodes,)
        The cluster of each node.

    Returns
    -------
    float

    Examples
    --------
    >>> modularity(Graph.from_edges([0, 2], [1, 3]), [0, 0, 1, 1])
    0.5
    """
    graph = as_graph(adjacency)
    _, codes = np.unique(np.asarray(found), return_inverse=True)
    if len(codes) != graph.n_nodes:
        raise DataError(f"labels: {len(codes)} labels for a graph of {graph.n_nodes} nodes")
    matrix, inside = graph.adjacency, 0.0
    for start in range(0, graph.n_nodes, _ROWS):  # a product of sparse matrices would take ten times as long
        ends = matrix.indptr[start : start + _ROWS + 1]
        edges = slice(ends[0], ends[-1])
        same = np.repeat(codes[start : start + _ROWS], np.diff(ends)) == codes[matrix.indices[edges]]
        inside += float(matrix.data[edges][same].sum())
    strengths = np.bincount(codes, weights=np.asarray(matrix.sum(axis=1)).ravel())
    total = strengths.sum()
    if total == 0:
        return 0.0
    return float(inside / total - ((strengths / total) ** 2).sum())


def table(true: ArrayLike | None, found: ArrayLike, adjacency: Graph | Sparse | None = None) -> dict[str, float]:
    """Return all measures that the arguments allow; `NAMES` describes each.

    Parameters
    ----------
    true : array-like of shape (n_nodes,) or None
        The class of each node.
    found : array-like of shape (n_nodes,)
        The cluster of each node.
    adjacency : Graph or sparse matrix of shape (n_nodes, n_nodes), default=None
        The graph, for modularity.

    Returns
    -------
    dict of str to float

    Examples
    --------
    >>> table([0, 0, 1, 1], [1, 1, 0, 0])
    {'accuracy': 1.0, 'nmi': 1.0, 'ari': 1.0, 'macro_f1': 1.0}
    """
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
        raise DataError("labels: empty; pass one label for each node")
    for labels in (first, second):
        if labels.dtype.kind in "fO":  # types that can hold NaN, which differs from itself, or None
            missing = [row for row, label in enumerate(labels.tolist()) if label is None or label != label]  # noqa: PLR0124
            if missing:
                raise DataError(f"labels: the label in row {missing[0]} is missing")
    return first, second


def _contingency(true: ArrayLike, found: ArrayLike) -> FloatArray:
    """Count the nodes of each class (row) in each cluster (column)."""
    counts: FloatArray = contingency_matrix(*_pair(true, found), dtype=np.float64)
    return counts
