"""Everything that one party can say about the clusters of a run, in one file for its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kcagc import metrics
from kcagc._types import Features, FloatArray, IntArray
from kcagc.graph.graph import Graph
from kcagc.report.insights.links import links_between
from kcagc.report.insights.marks import marks_of_clusters
from kcagc.report.insights.quality import SILHOUETTE_NODES, silhouette
from kcagc.report.insights.scatter import scatter_of

FORMAT = "kcagc clusters 1"
_BINS = 10  # of the confidences


@dataclass(frozen=True, eq=False)
class Description:
    """What a party has to look at: its table (rows of the labelled nodes), its points, its graph if they are all."""

    labels: IntArray
    n_clusters: int
    table: Features
    columns: list[str] | None
    rows: FloatArray
    confidence: FloatArray
    graph: Graph | None


def describe(given: Description) -> dict[str, Any]:
    """Give, as JSON, size, confidence and marks of each cluster, links between them, quality, and a map."""
    marks = marks_of_clusters(given.table, given.labels, given.n_clusters, given.columns)
    sizes = np.bincount(given.labels, minlength=given.n_clusters)
    found: dict[str, Any] = {
        "format": FORMAT,
        "nodes": len(given.labels),
        "columns": int(given.table.shape[1]),
        "clusters": [
            {
                "cluster": cluster,
                "size": int(sizes[cluster]),
                "share": float(sizes[cluster] / len(given.labels)),
                "confidence": _spread(given.confidence[given.labels == cluster]),
                "marks": [mark.as_dict() for mark in marks[cluster]],
            }
            for cluster in range(given.n_clusters)
        ],
        "confidence": _spread(given.confidence),
        "quality": _quality(given),
    }
    if given.graph is not None:
        found["links"] = links_between(given.graph, given.labels, given.n_clusters).as_dict()
    drawn = scatter_of(given.rows, given.labels)
    if drawn is not None:
        found["map"] = drawn.as_dict()
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
