"""How good the clusters are as one party can tell: without known labels from its own points, with them from those."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import silhouette_score

from kcagc import metrics
from kcagc._types import FloatArray, IntArray

SILHOUETTE_NODES = 2_000  # its cost is their square


def silhouette(rows: FloatArray, labels: IntArray, *, most: int = SILHOUETTE_NODES) -> float | None:
    """Give the mean silhouette of the points (or of a fixed sample of them), or None where it has no meaning."""
    chosen = sample(len(rows), most)
    points, clusters = rows[chosen], labels[chosen]
    if not 2 <= len(np.unique(clusters)) < len(clusters):
        return None
    return float(silhouette_score(points, clusters))


def sample(n: int, most: int) -> IntArray:
    """Draw at most so many of n rows, in their order, and always the same ones."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.RandomState(0).permutation(n)[:most])


@dataclass(frozen=True)
class KnownQuality:
    """Agreement with labels that somebody knows: measures, and nodes by class (row) and cluster (column)."""

    nodes: int
    measures: dict[str, float]
    classes: list[str]
    counts: list[list[int]]
    matched: dict[int, str]

    def as_dict(self) -> dict[str, Any]:
        """Give all of it, for JSON."""
        matched = {str(cluster): name for cluster, name in self.matched.items()}
        return {
            "nodes": self.nodes,
            "measures": self.measures,
            "classes": self.classes,
            "counts": self.counts,
            "matched": matched,
        }


def against_known(known: list[str], found: IntArray, n_clusters: int) -> KnownQuality:
    """Compare clusters with known classes of the same nodes."""
    classes, codes = np.unique(np.array(known, dtype=object).astype(str), return_inverse=True)
    counts = np.zeros((len(classes), n_clusters), dtype=np.int64)
    np.add.at(counts, (codes, found), 1)
    stands_for = metrics.matching(codes, found)
    return KnownQuality(
        nodes=len(found),
        measures=metrics.table(codes, found),
        classes=[str(one) for one in classes],
        counts=counts.tolist(),
        matched={int(cluster): str(classes[one]) for cluster, one in stands_for.items()},
    )
