"""A map of the nodes in two dimensions, from one party's own points: t-SNE, on a sample, always the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from kcagc._types import FloatArray, IntArray
from kcagc.report.insights.quality import sample

MOST_NODES = 2_000  # placed in seconds, and enough to see what lies where
_FEWEST = 5
_PERPLEXITY = 30.0
_STEPS = 500


@dataclass(frozen=True, eq=False)
class Scatter:
    """Places (m × 2, within 0 to 1) of some nodes, their clusters, and of how many nodes they are a sample."""

    places: FloatArray
    clusters: IntArray
    of: int

    def as_dict(self) -> dict[str, Any]:
        """Give all of it, for JSON; four digits are more than a screen shows."""
        return {
            "method": "t-SNE",
            "of": self.of,
            "x": np.round(self.places[:, 0], 4).tolist(),
            "y": np.round(self.places[:, 1], 4).tolist(),
            "cluster": self.clusters.tolist(),
        }


def scatter_of(rows: FloatArray, labels: IntArray, *, most: int = MOST_NODES) -> Scatter | None:
    """Place the points so that near ones stay near; None where there are too few, or all are the same."""
    chosen = sample(len(rows), most)
    points = np.asarray(rows[chosen], dtype=np.float64)
    if len(points) < _FEWEST or (points == points[0]).all():
        return None
    placing = TSNE(
        init="pca" if points.shape[1] > 1 else "random",
        perplexity=min(_PERPLEXITY, (len(points) - 1) / 3),
        max_iter=_STEPS,
        random_state=0,
    )
    # One thread: the same places on any machine, and on a busy one many times faster than threads that wait in turn.
    with threadpool_limits(1):
        places = placing.fit_transform(points.astype(np.float32)).astype(np.float64)
    low, high = places.min(axis=0), places.max(axis=0)
    extent = float((high - low).max()) or 1.0
    centred = (places - (low + high) / 2) / extent + 0.5  # one scale for both directions: distances keep their shape
    return Scatter(centred, labels[chosen], len(rows))
