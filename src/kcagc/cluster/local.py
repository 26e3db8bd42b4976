"""Protocol 1 whole: filter, project, cluster. What a party does alone before it says anything to anyone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kcagc._types import Features, FloatArray, Labels, Sparse
from kcagc.cluster.kmeans import KMeansResult, kmeans
from kcagc.cluster.projection import Projection, Scaling, fit_projection
from kcagc.graph.filters import Filter
from kcagc.graph.structure import Graph


@dataclass(frozen=True, eq=False)
class LocalClusters:
    """A party's own clusters, with what it needs to place further rows among them."""

    projection: Projection
    embedding: FloatArray
    clusters: KMeansResult

    @property
    def labels(self) -> Labels:
        """The cluster of each node, numbered from 0."""
        return self.clusters.labels


def cluster_locally(
    graph: Graph | Sparse,
    features: Features,
    n_clusters: int,
    *,
    filter: Filter,  # noqa: A002 - the word the paper and the estimators use
    n_components: int | None = None,
    scaling: Scaling = "unit",
    ninth: bool = True,
    n_init: int = 10,
    max_iter: int = 100,
    random_state: Any = None,
    n_threads: int | None = None,
) -> LocalClusters:
    """Run Protocol 1 on one party's features; `n_components=None` projects on as many vectors as there are clusters.

    Lloyd runs inside the projection. The protocols print it on the unprojected features, but the paper's figures
    need the projection.
    """
    filtered = filter.apply(graph, features, n_threads=n_threads)
    projection = fit_projection(filtered, n_clusters if n_components is None else n_components)
    embedding = projection.transform(filtered, scaling)
    del filtered  # the largest array there is, and no longer needed
    found = kmeans(embedding, n_clusters, ninth=ninth, n_init=n_init, max_iter=max_iter, random_state=random_state)
    return LocalClusters(projection, embedding, found)
