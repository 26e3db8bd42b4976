"""Was it worth it? A party's own clustering beside the joint one: without known classes, and without any message.

A party clusters its own points again after the run, with the numbers of clusters and smoothing steps of the run and
the same steps of k-means: once all nodes, then random samples of them. It compares each of these own clusterings with
the joint one. How sure the joint clusters are follows from the restarts of the run, whose clusters every party knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from scipy.optimize import linear_sum_assignment

from kcagc import metrics
from kcagc._types import FloatArray, IntArray
from kcagc.cluster.joint import MAX_ROUNDS, fit_joint_kmeans
from kcagc.cluster.kmeans import fit_kmeans
from kcagc.cluster.lloyd import blocks_of, one_blas_thread, squared_distances
from kcagc.cluster.local import fit_projection
from kcagc.graph.graph import Graph
from kcagc.protocol.fit_result import Restarts
from kcagc.report.insights.quality import sample

OWN_CLUSTERINGS = 5  # the first of all nodes, the others of samples
SAMPLE_SHARE, SAMPLE_NODES = 0.8, 20_000  # of the nodes, and at most
FOUND = 0.5  # overlap (nodes in both, of all nodes in either) above which an own cluster is a joint one
_NAMED = 0.1  # share of an own cluster from which on a joint cluster in it is named
_MOST_NAMED = 3
_OWN_RESTARTS = 5  # of one own clustering, for the methods with local labels

Alone = Literal["found", "merged", "scattered"]


@dataclass(frozen=True, eq=False)
class Together:
    """The joint clusters of a run, and what a party compares them with: its points, and the graph that it knows."""

    labels: IntArray
    n_clusters: int
    rows: FloatArray  # the party's filtered and projected points, in the order of the labels
    method: str
    graph: Graph | None = None
    restarts: Restarts | None = None


@dataclass(frozen=True)
class OwnView:
    """One joint cluster as the party's own columns show it.

    Attributes
    ----------
    cluster, size : int
        Number of the joint cluster, and of its nodes.
    alone : {"found", "merged", "scattered"}
        What the first own clustering made of it. "found": an own cluster overlaps with it by more than `FOUND`;
        "merged": more than half of its nodes are in one own cluster, among many others; "scattered": neither.
    overlap : float
        The largest overlap with an own cluster there: nodes in both, of all nodes in either.
    together_with : list of int
        Other joint clusters of which that own cluster holds many nodes, if it is merged.
    found_in : int
        Number of own clusterings that found it.
    sure : float or None
        Share of the restarts of the run, averaged over its nodes, that put a node into this cluster too.
    """

    cluster: int
    size: int
    alone: Alone
    overlap: float
    together_with: list[int]
    found_in: int
    sure: float | None = None


@dataclass(frozen=True, eq=False)
class Worth:
    """What a party's own columns would have found alone, beside what all parties found together.

    Attributes
    ----------
    nodes : int
        Number of nodes.
    clusterings : int
        Number of own clusterings. Figures are of the first unless they say otherwise.
    sampled : int
        Number of nodes of each of the other own clusterings, which is a random sample.
    agreement : float
        Adjusted Rand index of both clusterings.
    own_agreement : float
        Mean adjusted Rand index of pairs of own clusterings of samples, on the nodes that both have.
    moved : int
        Nodes that are not in the cluster that stands for their own one, after the best matching of the clusters.
    modularity_together, modularity_alone : float or None
        Modularity of both clusterings in the graph; None without a graph.
    clusters : list of OwnView
        The joint clusters that have nodes.
    restarts : int
        Number of restarts of the run that were compared with the joint clusters.
    sure : float or None
        Share of the compared nodes that all these restarts put into the same cluster.
    """

    nodes: int
    clusterings: int
    sampled: int
    agreement: float
    own_agreement: float
    moved: int
    modularity_together: float | None
    modularity_alone: float | None
    clusters: list[OwnView]
    restarts: int = 0
    sure: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Worth:
        """Return what `as_dict` returned."""
        return cls(**{**document, "clusters": [OwnView(**one) for one in document["clusters"]]})

    @property
    def hidden(self) -> list[OwnView]:
        """The joint clusters that only the others' columns separate: most own clusterings did not find them."""
        return [one for one in self.clusters if 2 * one.found_in < self.clusterings]


def compare_with_own(given: Together) -> Worth | None:
    """Compare the joint clusters with own clusterings of the same nodes; None if there is only one cluster."""
    labels, k = np.asarray(given.labels), given.n_clusters
    if k < 2 or len(labels) < k:
        return None
    with one_blas_thread():
        every = list(_own_clusterings(given))
    first = every[0][1]
    pairs = [_counts(labels[nodes], found, k) for nodes, found in every]
    found_in = np.sum([_overlaps(one).max(axis=1) > FOUND for one in pairs], axis=0)
    between = [_agreement(one, other) for one, other in combinations(every[1:], 2)]
    counts, graph = pairs[0], given.graph
    shares = None if given.restarts is None else shares_of_restarts(labels, given.restarts, k)
    return Worth(
        nodes=len(labels),
        clusterings=len(every),
        sampled=len(every[1][0]),
        agreement=metrics.ari(labels, first),
        own_agreement=float(np.mean(between)),
        moved=len(labels) - int(counts[linear_sum_assignment(-counts)].sum()),
        modularity_together=None if graph is None else metrics.modularity(graph, labels),
        modularity_alone=None if graph is None else metrics.modularity(graph, first),
        clusters=_views(counts, found_in.tolist(), labels, shares),
        restarts=0 if given.restarts is None else len(given.restarts.labels),
        sure=None if shares is None else float((shares[1] >= 1.0).mean()),
    )


def _own_clusterings(given: Together) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the nodes of each own clustering and their clusters: first all nodes, then random samples."""
    rows, k = given.rows, given.n_clusters
    if given.method == "joint":  # its rows are components, of which it keeps k, scaled to length one
        rows = fit_projection(rows, k).transform(rows, "unit")
    n = len(rows)
    size = max(min(int(SAMPLE_SHARE * n), SAMPLE_NODES), k)
    for seed in range(OWN_CLUSTERINGS):
        random = np.random.RandomState(seed)
        nodes = np.arange(n) if seed == 0 else np.sort(random.choice(n, size, replace=False))
        points = rows if seed == 0 else rows[nodes]
        if given.method == "joint":
            yield nodes, fit_joint_kmeans(points, k, seed=seed, max_iter=MAX_ROUNDS).labels.astype(np.int64)
            continue
        fitted = points if len(points) <= SAMPLE_NODES else points[sample(n, SAMPLE_NODES)]
        centers = fit_kmeans(fitted, k, n_init=_OWN_RESTARTS, random_state=seed, fewer=True).centers
        nearest = [squared_distances(points[block], centers).argmin(axis=1) for block in blocks_of(points)]
        yield nodes, np.concatenate(nearest).astype(np.int64)


def _agreement(one: tuple[IntArray, IntArray], other: tuple[IntArray, IntArray]) -> float:
    """Return the adjusted Rand index of two clusterings on the nodes that both have; 0 if they have none."""
    both, first, second = np.intersect1d(one[0], other[0], assume_unique=True, return_indices=True)
    return metrics.ari(one[1][first], other[1][second]) if len(both) else 0.0


def _counts(labels: IntArray, found: IntArray, k: int) -> IntArray:
    """Count the nodes of each joint cluster (row) in each own cluster (column)."""
    return np.bincount(labels * k + found, minlength=k * k).reshape(k, k)


def _overlaps(counts: IntArray) -> FloatArray:
    """Return for each joint and own cluster the nodes in both, of all nodes in either."""
    either = counts.sum(axis=1)[:, None] + counts.sum(axis=0)[None, :] - counts
    return np.asarray(counts / np.maximum(either, 1))


def _views(
    counts: IntArray, found_in: list[int], labels: IntArray, shares: tuple[IntArray, FloatArray] | None
) -> list[OwnView]:
    overlaps, views = _overlaps(counts), []
    for cluster, size in enumerate(counts.sum(axis=1).tolist()):
        if not size:
            continue
        sure = None if shares is None else shares[1][labels[shares[0]] == cluster]
        own = int(counts[cluster].argmax())
        merged = 2 * int(counts[cluster, own]) > size
        alone: Alone = "found" if overlaps[cluster].max() > FOUND else "merged" if merged else "scattered"
        views.append(
            OwnView(
                cluster,
                size,
                alone,
                float(overlaps[cluster].max()),
                _in_own_cluster(counts[:, own], cluster) if alone == "merged" else [],
                found_in[cluster],
                float(sure.mean()) if sure is not None and len(sure) else None,
            )
        )
    return views


def _in_own_cluster(column: IntArray, cluster: int) -> list[int]:
    """Return the other joint clusters with many nodes in an own cluster, the largest first."""
    largest = np.argsort(-column, kind="stable").tolist()
    named = [one for one in largest if one != cluster and column[one] >= _NAMED * column.sum()]
    return named[:_MOST_NAMED]


def shares_of_restarts(labels: IntArray, restarts: Restarts, k: int) -> tuple[IntArray, FloatArray]:
    """Return nodes that were clustered, at most a sample, and the share of the restarts that agree with each label.

    The clusters of each restart are matched with the joint ones so that as many nodes as possible agree.
    """
    nodes = np.flatnonzero(restarts.row_of_node >= 0)
    nodes = nodes[sample(len(nodes), SAMPLE_NODES)]
    agree = np.zeros(len(nodes))
    for every in restarts.labels:
        found = every[restarts.row_of_node[nodes]]
        kept, others = linear_sum_assignment(-_counts(labels[nodes], found, k))
        stands_for = np.empty(k, dtype=np.int64)
        stands_for[others] = kept
        agree += stands_for[found] == labels[nodes]
    return nodes, agree / len(restarts.labels)
