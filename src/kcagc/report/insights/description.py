"""The description of the clusters that a party writes to `clusters.json`, with a map of its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from kcagc import metrics
from kcagc._types import Features, FloatArray, IntArray
from kcagc.graph.graph import Graph
from kcagc.report.folder import CLUSTERS_FORMAT
from kcagc.report.insights.measures import links_between, top_features
from kcagc.report.insights.quality import SILHOUETTE_NODES, sample, silhouette

MAP_NODES = 2_000  # t-SNE places them in seconds, and they show the structure
_FEWEST = 5
_PERPLEXITY = 30.0
_STEPS = 500
_BINS = 10  # of the histogram of confidences


@dataclass(frozen=True, eq=False)
class Description:
    """What a party describes clusters with: rows of the labelled nodes, and its graph if all its nodes are labelled."""

    labels: IntArray
    n_clusters: int
    table: Features
    columns: list[str] | None
    rows: FloatArray
    confidence: FloatArray
    graph: Graph | None
    weights: FloatArray | None = None  # what the columns of the table were multiplied by


def describe(given: Description) -> dict[str, Any]:
    """Return the description for JSON: size, confidence and top features of each cluster, links, quality and a map."""
    features = top_features(given.table, given.labels, given.n_clusters, given.columns, weights=given.weights)
    sizes = np.bincount(given.labels, minlength=given.n_clusters)
    found: dict[str, Any] = {
        "format": CLUSTERS_FORMAT,
        "nodes": len(given.labels),
        "columns": int(given.table.shape[1]),
        "clusters": [
            {
                "cluster": cluster,
                "size": int(sizes[cluster]),
                "share": float(sizes[cluster] / len(given.labels)),
                "confidence": _spread(given.confidence[given.labels == cluster]),
                "top_features": [feature.as_dict() for feature in features[cluster]],
            }
            for cluster in range(given.n_clusters)
        ],
        "confidence": _spread(given.confidence),
        "quality": _quality(given),
    }
    if given.graph is not None:
        found["links"] = links_between(given.graph, given.labels, given.n_clusters).as_dict()
    node_map = map_of(given.rows, given.labels)
    if node_map is not None:
        found["map"] = node_map.as_dict()
    return found


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


def _quality(given: Description) -> dict[str, Any]:
    quality: dict[str, Any] = {}
    if given.graph is not None:
        quality["modularity"] = metrics.modularity(given.graph, given.labels)
    shape = silhouette(given.rows, given.labels)
    if shape is not None:
        quality |= {"silhouette": shape, "silhouette_nodes": min(len(given.labels), SILHOUETTE_NODES)}
    return quality


@dataclass(frozen=True, eq=False)
class NodeMap:
    """Positions (m × 2, from 0 to 1) of a sample of `of` nodes in two dimensions, and the cluster of each."""

    places: FloatArray
    clusters: IntArray
    of: int

    def as_dict(self) -> dict[str, Any]:
        """Return positions with four digits, more than a screen shows, for JSON."""
        return {
            "method": "t-SNE",
            "of": self.of,
            "x": np.round(self.places[:, 0], 4).tolist(),
            "y": np.round(self.places[:, 1], 4).tolist(),
            "cluster": self.clusters.tolist(),
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
        random_state=0,
    )
    # One thread gives the same places on every machine, and is much faster on a busy one than threads that wait.
    with threadpool_limits(1):
        places = tsne.fit_transform(points.astype(np.float32)).astype(np.float64)
    low, high = places.min(axis=0), places.max(axis=0)
    extent = float((high - low).max()) or 1.0
    centred = (places - (low + high) / 2) / extent + 0.5  # one scale for both directions keeps the shape
    return NodeMap(centred, labels[chosen], len(rows))
