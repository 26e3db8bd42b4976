"""Insights of a party: the description of the clusters, written to `clusters.json`, and what it knows about nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from kcagc._types import Features, FloatArray, IntArray
from kcagc.cluster.lloyd import weighted_means
from kcagc.cluster.local import center_distances
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds
from kcagc.report.folder import CLUSTERS_FORMAT
from kcagc.report.insights.explanation import Explanation, explain_node
from kcagc.report.insights.measures import (
    ClusterLinks,
    ClusterTotals,
    TopFeature,
    Units,
    cluster_totals,
    is_mostly_zero,
    links_between,
    top_features,
)
from kcagc.report.insights.nodes import OTHERS, NodeInsights, neighbours_of, reasons_of
from kcagc.report.insights.quality import SILHOUETTE_NODES, sample, silhouette
from kcagc.report.names import ClusterNames

MAP_NODES = 2_000  # t-SNE places them in seconds, and they show the structure
_FEWEST = 5
_PERPLEXITY = 30.0
_STEPS = 500
_ANGLE = 0.8  # of the Barnes-Hut approximation: as good as 0.5 here, in two thirds of the time
_BINS = 10  # of the histogram of confidences


MEMBERS = 5  # typical and borderline members of a cluster that are listed
MOST_LINKED = 3  # clusters listed as most linked to a cluster


@dataclass(frozen=True, eq=False)
class Description:
    """What a party describes clusters with: rows of the labelled nodes, and its graph if all its nodes are labelled.

    Attributes
    ----------
    labels : ndarray of shape (n_nodes,)
        The joint cluster of each node.
    n_clusters : int
        k; a cluster may be empty.
    table : array or sparse matrix of shape (n_nodes, n_features)
        The party's own columns.
    columns : list of str or None
        Their names.
    rows : ndarray of shape (n_nodes, q)
        The party's filtered and projected rows, `FitResult.rows`.
    confidence : ndarray of shape (n_nodes,) or None
        From `kcagc.cluster.local.confidence`; None computes it.
    graph : Graph or None
        The party's graph; None in a prediction.
    weights : ndarray of shape (n_features,) or None
        What the columns of the table were multiplied by.
    ids : NodeIds or None
        The ids of the nodes; None calls them 0, 1, 2, ...
    party : str
        The name of the party.
    centers, center_clusters : ndarray of shape (c, q), sequence of int, or None
        Centres of a model and their clusters; None takes the means of the rows of each cluster.
    units : Units or None
        How values and means become numbers in the units of the party's file; None leaves them as they are.
    """

    labels: IntArray
    n_clusters: int
    table: Features
    columns: list[str] | None
    rows: FloatArray
    confidence: FloatArray | None
    graph: Graph | None
    weights: FloatArray | None = None
    ids: NodeIds | None = None
    party: str = "this party"
    centers: FloatArray | None = None
    center_clusters: Sequence[int] | None = None
    units: Units | None = None


@dataclass(frozen=True, eq=False)
class Insights:
    """What one party can say about the clusters and their nodes with its own columns and its graph.

    Attributes
    ----------
    clusters : dict
        The description of the clusters, as plain JSON: what `clusters.json` holds.
    nodes : NodeInsights
        What the party knows about each node.
    """

    clusters: dict[str, Any] = field(repr=False)
    nodes: NodeInsights = field(repr=False)

    @classmethod
    def of(cls, given: Description, *, progress: Callable[[str], None] = lambda _: None) -> Insights:
        """Compute the insights of a party; `progress` is called with the name of each step."""
        progress("top features")
        totals = cluster_totals(given.table, given.labels, given.n_clusters)
        features = top_features(
            given.table,
            given.labels,
            given.n_clusters,
            given.columns,
            weights=given.weights,
            totals=totals,
            units=given.units,
        )
        progress("nodes")
        nodes = _nodes(given, totals)
        return cls(_describe(given, nodes, features, progress), nodes)

    def explain(self, node: Any, names: ClusterNames | None = None) -> Explanation:
        """Explain why a node is in its cluster, and which cluster is its nearest alternative."""
        return explain_node(self.nodes, node, names)


def describe(given: Description) -> dict[str, Any]:
    """Return the description of the clusters for JSON, see `Insights`."""
    return Insights.of(given).clusters


def _nodes(given: Description, totals: ClusterTotals) -> NodeInsights:
    centers, clusters = given.centers, given.center_clusters
    if centers is None or clusters is None:
        used, among = np.unique(given.labels, return_inverse=True)
        centers = weighted_means(given.rows, np.ones(len(among)), among, np.zeros((len(used), given.rows.shape[1])))
        clusters = used.tolist()
    away = center_distances(given.rows, centers, clusters, given.labels)
    found = None if given.graph is None else neighbours_of(given.graph, given.labels, given.n_clusters)
    n, width = given.table.shape
    reasons, values, means = reasons_of(given.table, given.labels, away.other, totals)
    chosen = np.unique(reasons[reasons >= 0])
    mostly_zero = is_mostly_zero(totals)
    place = np.full(width + 1, -1, dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    if given.weights is not None:
        values = values / np.where(reasons >= 0, given.weights[reasons], 1.0)
        means = means if mostly_zero else means / given.weights
    if given.units is not None and not mostly_zero:
        values = np.where(reasons >= 0, given.units.restore(values, reasons), 0.0)
        means = given.units.restore(means, np.arange(width))
    names = [f"column {number}" for number in range(width)] if given.columns is None else given.columns
    return NodeInsights(
        party=given.party,
        n_clusters=given.n_clusters,
        ids=given.ids,
        cluster=given.labels.astype(np.int64),
        other=away.other,
        to_own=np.sqrt(away.to_own),
        to_other=np.sqrt(away.to_other),
        edges=None if found is None else found.edges,
        inside=None if found is None else found.inside,
        to_clusters=np.full((n, OTHERS), -1, dtype=np.int64) if found is None else found.to_clusters,
        to_counts=np.zeros((n, OTHERS), dtype=np.int64) if found is None else found.to_counts,
        reasons=place[reasons],
        values=values,
        columns=[names[column] for column in chosen.tolist()],
        means=means[:, chosen],
        mostly_zero=mostly_zero,
        by_logarithm=None if given.units is None or mostly_zero else given.units.log[chosen],
    )


def _describe(
    given: Description, nodes: NodeInsights, features: list[list[TopFeature]], progress: Callable[[str], None]
) -> dict[str, Any]:
    sizes, n = nodes.sizes, len(given.labels)
    confidence = nodes.confidence if given.confidence is None else given.confidence
    links = None if given.graph is None else links_between(given.graph, given.labels, given.n_clusters)
    found: dict[str, Any] = {
        "format": CLUSTERS_FORMAT,
        "nodes": n,
        "columns": int(given.table.shape[1]),
        "clusters": [
            {
                "cluster": cluster,
                "size": sizes[cluster],
                "share": float(sizes[cluster] / n),
                "confidence": _spread(confidence[given.labels == cluster]),
                **_members(nodes, cluster),
                **_cohesion(nodes, cluster, sizes[cluster]),
                **({} if links is None else {"linked": _most_linked(links.shares[cluster], cluster)}),
                "top_features": [feature.as_dict() for feature in features[cluster]],
            }
            for cluster in range(given.n_clusters)
        ],
        "confidence": _spread(confidence),
    }
    progress("quality")
    found["quality"] = _quality(given, links)
    if links is not None:
        found["links"] = links.as_dict()
    progress("map")
    node_map = map_of(given.rows, given.labels, most=MAP_NODES)
    if node_map is not None:
        found["map"] = node_map.as_dict()
    return found


def _members(nodes: NodeInsights, cluster: int) -> dict[str, Any]:
    """Return the ids of members in the middle of a cluster, and of those at its border with the nearest other one."""
    typical = nodes.typical(cluster, MEMBERS)
    border = [row for row in nodes.borderline(cluster, MEMBERS) if row not in typical]
    return {
        "typical": [nodes.id_of(row) for row in typical],
        "borderline": [{"id": nodes.id_of(row), "other": int(nodes.other[row])} for row in border],
    }


def _cohesion(nodes: NodeInsights, cluster: int, size: int) -> dict[str, Any]:
    """Return the edges inside a cluster, and their share of all pairs of its nodes (its density)."""
    if nodes.inside is None or nodes.edges is None:
        return {}
    mine = nodes.cluster == cluster
    inside, pairs = int(nodes.inside[mine].sum()) // 2, size * (size - 1) // 2
    return {
        "edges_inside": inside,
        "edges_outside": int((nodes.edges[mine] - nodes.inside[mine]).sum()),
        "density": inside / pairs if pairs else None,
    }


def _most_linked(shares: Sequence[float | None], cluster: int) -> list[dict[str, Any]]:
    others = [(share, other) for other, share in enumerate(shares) if share and other != cluster]
    most = sorted(others, key=lambda one: (-one[0], one[1]))[:MOST_LINKED]
    return [{"cluster": other, "share": share} for share, other in most]


def _spread(values: FloatArray) -> dict[str, Any] | None:
    if len(values) == 0:
        return None
    bins, _ = np.histogram(values, bins=_BINS, range=(0.0, 1.0))
    return {
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "none": float((values == 0).mean()),
        "bins": bins.tolist(),
    }


def _quality(given: Description, links: ClusterLinks | None) -> dict[str, Any]:
    quality: dict[str, Any] = {}
    if links is not None:
        quality["modularity"] = links.modularity
    shape = silhouette(given.rows, given.labels)
    if shape is not None:
        quality |= {"silhouette": shape, "silhouette_nodes": min(len(given.labels), SILHOUETTE_NODES)}
    return quality


@dataclass(frozen=True, eq=False)
class NodeMap:
    """Positions (m × 2, from 0 to 1) of a sample of `of` nodes in two dimensions, with their clusters and rows."""

    places: FloatArray
    clusters: IntArray
    of: int
    rows: IntArray

    def as_dict(self) -> dict[str, Any]:
        """Return positions with four digits, more than a screen shows, for JSON."""
        return {
            "method": "t-SNE",
            "of": self.of,
            "x": np.round(self.places[:, 0], 4).tolist(),
            "y": np.round(self.places[:, 1], 4).tolist(),
            "cluster": self.clusters.tolist(),
            "row": self.rows.tolist(),
        }


def map_of(rows: FloatArray, labels: IntArray, *, most: int = MAP_NODES) -> NodeMap | None:
    """Place points in two dimensions by t-SNE, always the same way; None for too few or all equal points."""
    chosen = sample(len(rows), most)
    points = np.asarray(rows[chosen], dtype=np.float64)
    if len(points) < _FEWEST or (points == points[0]).all():
        return None
    tsne = TSNE(
        init="pca" if points.shape[1] > 1 else "random",
        perplexity=min(_PERPLEXITY, (len(points) - 1) / 3),
        max_iter=_STEPS,
        angle=_ANGLE,
        random_state=0,
    )
    # One thread gives the same places on every machine, and is much faster on a busy one than threads that wait.
    with threadpool_limits(1):
        places = tsne.fit_transform(points.astype(np.float32)).astype(np.float64)
    low, high = places.min(axis=0), places.max(axis=0)
    extent = float((high - low).max()) or 1.0
    centred = (places - (low + high) / 2) / extent + 0.5  # one scale for both directions keeps the shape
    return NodeMap(centred, labels[chosen], len(rows), chosen)
