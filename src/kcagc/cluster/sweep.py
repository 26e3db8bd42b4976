"""The sweep over numbers of clusters k: cluster once for each k, assess the clusters, and recommend a range of k.

For each k, restarts of the joint method's k-means find clusters on rows of one joint subspace. The modularity of
held-out edges (`kcagc.cluster.held_out`) assesses them. Few restarts often end in poor clusters, which would make the
modularity of neighbouring k differ by chance. Therefore clusters of larger k are merged along the edges that are not
held out, and the merged clusters are candidates for each smaller k.

The recommended range holds every k that the held-out edges cannot tell from the best one. Neither cost nor stability
changes it: the cost always falls with k, and stability is often highest at another k than that of known classes.
`assess_sweep` needs labels, costs and the graph only, so it is the same for pooled data and for parties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from kcagc._types import Features, FloatArray, IntArray, Sparse
from kcagc.cluster.held_out import HeldOutEdges, hold_out_edges
from kcagc.cluster.joint import Schedule, run_restarts
from kcagc.cluster.local import fit_projection
from kcagc.errors import DataError, ParameterError
from kcagc.graph.filters import HalfFilter, filter_for_projection
from kcagc.graph.graph import AttributedGraph, Graph
from kcagc.text import listed

SWEEP_PLAN = Schedule(2, 2, 8)  # for each k: no restart is dropped
SWEEP_DIMENSIONS = 20  # of the joint subspace at most
MOST_VALUES = 40  # of k in one sweep
NEAR_ERRORS = 2.5  # standard errors below the best modularity that still count as equal
_DIGITS = 9  # of a result, so that all parties have the same


@dataclass(frozen=True)
class Sweep:
    """The curves of a sweep, and the recommended range of k.

    Attributes
    ----------
    ks : tuple of int
        The numbers of clusters that were tried, ascending.
    modularity : tuple of float
        The modularity of the held-out edges for the clusters of each k.
    error : tuple of float
        The standard error of the difference to the highest modularity, for each k; 0 for the highest.
    cost : tuple of float
        The lowest cost of a restart for each k, on one fixed subspace. It falls with k and recommends none.
    stability : tuple of float
        How well the restarts of each k agree: the mean adjusted Rand index of pairs of restarts. 1 is full agreement.
    low, high : int
        The recommended range, with both ends.
    reason : str
        Why this range is recommended, in words.
    clear : bool, default=True
        Whether there is a recommendation. If no k is clearly better than chance, the range is that of all k.

    Examples
    --------
    >>> sweep = Sweep((2, 3), (0.3, 0.4), (0.02, 0.0), (0.5, 0.4), (1.0, 0.9), 3, 3, "why")
    >>> Sweep.from_document(sweep.document()) == sweep
    True
    >>> sweep.recommendation
    '3 clusters'
    """

    ks: tuple[int, ...]
    modularity: tuple[float, ...]
    error: tuple[float, ...]
    cost: tuple[float, ...]
    stability: tuple[float, ...]
    low: int
    high: int
    reason: str
    clear: bool = True

    @property
    def recommendation(self) -> str:
        """The recommended numbers in words, such as "6 to 8 clusters"."""
        if not self.clear:
            return "no number of clusters"
        return f"{self.low} clusters" if self.low == self.high else f"{self.low} to {self.high} clusters"

    def document(self) -> dict[str, Any]:
        """Return the sweep as plain data, for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Sweep:
        """Return the sweep that `document` returned as plain data."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in document.items()
        }
        return cls(**values)

    def table(self) -> str:
        """Return the curves as text for a terminal, and the recommendation; a star is a k of the range."""
        lines = ["  k  modularity  (± error)  stability    cost"]
        for row in zip(self.ks, self.modularity, self.error, self.stability, self.cost, strict=True):
            star = "*" if self.clear and self.low <= row[0] <= self.high else " "
            lines.append(f"{star}{row[0]:2d}  {row[1]:10.3f}  {row[2]:9.3f}  {row[3]:9.2f}  {row[4]:6.4f}")
        return "\n".join([*lines, "", f"Recommended: {self.recommendation}. {self.reason}"])


def check_range(least: int, most: int) -> None:
    """Raise `ParameterError` unless a sweep can run from `least` to `most` clusters."""
    if most < least:
        raise ParameterError(f"n_clusters: the range ({least}, {most}) is empty; pass the smaller number first")
    if least < 2:
        raise ParameterError(
            f"n_clusters: a sweep starts at 2 clusters or more, not {least}, because one cluster holds every node; "
            f"pass (2, {max(most, 3)})"
        )
    if most == least:
        raise ParameterError(f"n_clusters: ({least}, {most}) is a single number; pass n_clusters={least} to cluster")
    if most - least >= MOST_VALUES:
        raise ParameterError(
            f"n_clusters: ({least}, {most}) has {most - least + 1:,} numbers, but a sweep tries at most {MOST_VALUES}; "
            f"pass a smaller range such as ({least}, {least + MOST_VALUES - 1})"
        )


def sweep_dimensions(least: int, most: int) -> int:
    """Return the number of dimensions of the joint subspace of a sweep from `least` to `most` clusters."""
    return min(max(least, most), SWEEP_DIMENSIONS)


def sweep_clusters(features: Features, graph: Graph | Sparse, least: int, most: int, *, psi: int, seed: int) -> Sweep:
    """Run the steps of a sweep on pooled data.

    Parameters
    ----------
    features : array-like or sparse matrix of shape (n_nodes, n_features)
        The features of all parties.
    graph : Graph or sparse matrix of shape (n_nodes, n_nodes)
        The graph.
    least, most : int
        The smallest and the largest number of clusters.
    psi : int
        The filter order.
    seed : int
        The seed of all choices.

    Returns
    -------
    Sweep

    Raises
    ------
    ParameterError
        If the range has fewer than two numbers, more than 40, or a number below 2.
    DataError
        If the graph or the features are unusable, the graph has too few edges, or there are too few nodes.

    Examples
    --------
    >>> from kcagc.datasets import generate
    >>> data = generate(300, 3, signal=3.0, seed=1)
    >>> sweep = sweep_clusters(data.features, data.adjacency, 2, 6, psi=3, seed=0)
    >>> sweep.low <= 3 <= sweep.high
    True
    """
    check_range(least, most)
    data, size = AttributedGraph.build(graph, features), sweep_dimensions(least, most)
    if most > data.graph.n_nodes:
        few = f"but there are {data.graph.n_nodes} nodes; pass a smaller range"
        raise DataError(f"n_clusters: the sweep ends at {most} clusters, {few}")
    edges = hold_out_edges(data.graph, seed)
    filtered = filter_for_projection(HalfFilter(psi), edges.graph, data.features, size)
    rows = fit_projection(filtered, size).transform(filtered, "unit")[edges.nodes]
    found = {k: run_restarts(rows, k, seed, SWEEP_PLAN) for k in range(least, most + 1)}
    labels = {k: [one.labels for one in restarts] for k, restarts in found.items()}
    return assess_sweep(edges, labels, {k: [one.cost for one in restarts] for k, restarts in found.items()})


def assess_sweep(
    edges: HeldOutEdges, labels: Mapping[int, Sequence[IntArray]], costs: Mapping[int, Sequence[float]]
) -> Sweep:
    """Assess the clusters of each k, and recommend a range of k.

    Parameters
    ----------
    edges : HeldOutEdges
        The held-out edges.
    labels : mapping of int to sequence of ndarray
        For each k, the clusters of `edges.nodes` in each restart, at least two restarts.
    costs : mapping of int to sequence of float
        For each k, the cost of each restart.

    Returns
    -------
    Sweep

    Raises
    ------
    ParameterError
        If there is no k, or a k has fewer than two restarts or no cost.
    """
    ks = tuple(sorted(labels))
    if not ks or any(len(labels[k]) < 2 or not costs.get(k) for k in ks):
        raise ParameterError("n_clusters: a sweep needs the labels and costs of two restarts for each number")
    found = _candidates(edges, {k: labels[k] for k in ks})
    modularity = tuple(round(edges.modularity(found[k]), _DIGITS) for k in ks)
    best = modularity.index(max(modularity))
    error = tuple(round(edges.error(found[k], found[ks[best]]), _DIGITS) for k in ks)
    near = [
        k for k, one, away in zip(ks, modularity, error, strict=True) if one >= modularity[best] - NEAR_ERRORS * away
    ]
    clear = modularity[best] > NEAR_ERRORS * edges.error(found[ks[best]])
    low, high = (near[0], near[-1]) if clear else (ks[0], ks[-1])
    return Sweep(
        ks,
        modularity,
        error,
        tuple(round(float(min(costs[k])), _DIGITS) for k in ks),
        tuple(round(_stability(labels[k]), _DIGITS) for k in ks),
        low,
        high,
        _reason(ks, modularity, best, near if clear else []),
        clear,
    )


def _reason(ks: tuple[int, ...], modularity: tuple[float, ...], best: int, near: list[int]) -> str:
    """Return why a range is recommended; `near` are the numbers that are not clearly worse than the best."""
    if not near:
        return (
            "No k has clearly more held-out edges within its clusters than chance, so nothing prefers any of them. "
            "The columns and the graph may have no clusters in common."
        )
    low, high = near[0], near[-1]
    words = f"The modularity of the held-out edges is highest at k = {ks[best]} ({modularity[best]:.3f})"
    if low == high:
        words += ", and clearly lower at every other k."
    elif high == low + 1:
        words += f"; at k = {low + high - ks[best]} it is not clearly lower, so nothing prefers one of the two."
    else:
        worse = [str(k) for k in ks if low < k < high and k not in near]
        apart = f", except k = {listed(worse)}" if worse else ""
        words += f"; from k = {low} to {high}{apart}, it is not clearly lower, so nothing prefers one of them."
    if high == ks[-1]:
        words += " No larger k was tried: a sweep to a larger k may recommend more clusters."
    if low == ks[0] > 2:
        words += " No smaller k was tried: a sweep from a smaller k may recommend fewer clusters."
    return words


def _candidates(edges: HeldOutEdges, labels: Mapping[int, Sequence[IntArray]]) -> dict[int, IntArray]:
    """Return the clusters of each k with the highest modularity of the edges that are not held out.

    Candidates are the restarts of k, and those of larger k merged down to k clusters.
    """
    inside = sparse.csr_array(edges.graph.adjacency)[edges.nodes][:, edges.nodes]
    best: dict[int, float] = {}
    found: dict[int, IntArray] = {}
    for k, restarts in labels.items():
        for one in restarts:
            for count, (modularity, merged) in _merged(inside, np.asarray(one), k, min(labels)).items():
                if count in labels and modularity > best.get(count, -np.inf):
                    best[count], found[count] = modularity, merged[one]
    return found


def _merged(inside: Sparse, labels: IntArray, k: int, fewest: int) -> dict[int, tuple[float, IntArray]]:
    """Merge two of k clusters again and again, those that raise the modularity most.

    Return for each number of clusters the modularity, and the new number of each old cluster.
    """
    ones = np.ones(len(labels))
    members = sparse.csr_array((ones, (np.arange(len(labels)), labels)), shape=(len(labels), k))
    between: FloatArray = (members.T @ inside @ members).toarray()
    between /= between.sum() or 1.0  # the share of the weight of all edges, both ways
    modularity, into = float(np.trace(between) - (between.sum(axis=1) ** 2).sum()), np.arange(k)
    found = {k: (round(modularity, _DIGITS), into)}
    for count in range(k - 1, fewest - 1, -1):
        share = between.sum(axis=1)
        gain = np.round(2.0 * (between - np.outer(share, share)), _DIGITS)
        np.fill_diagonal(gain, -np.inf)
        first, second = sorted(divmod(int(gain.argmax()), count + 1))
        modularity += float(gain[first, second])
        between[first] += between[second]
        between[:, first] += between[:, second]
        between = np.delete(np.delete(between, second, axis=0), second, axis=1)
        into = np.where(into == second, first, into - (into > second))
        found[count] = (round(modularity, _DIGITS), into)
    return found


def _stability(restarts: Sequence[IntArray]) -> float:
    """Return the mean adjusted Rand index of all pairs of restarts."""
    return float(np.mean([_agreement(one, other) for one, other in combinations(restarts, 2)]))


def _agreement(one: IntArray, other: IntArray) -> float:
    """Return the adjusted Rand index; `kcagc.metrics` takes a second to import."""

    def pairs(counts: IntArray) -> float:
        return float((counts.astype(np.float64) * (counts - 1) / 2).sum())

    both = np.bincount(one * (int(other.max()) + 1) + other)
    first, second, all_pairs = pairs(np.bincount(one)), pairs(np.bincount(other)), len(one) * (len(one) - 1) / 2
    expected, most = first * second / all_pairs, (first + second) / 2
    return 1.0 if most == expected else (pairs(both) - expected) / (most - expected)
