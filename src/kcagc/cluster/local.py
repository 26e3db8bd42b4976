"""Protocol 1 whole: filter, project, cluster. What a party does alone before it says anything to anyone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kcagc._types import AnyFloatArray, Features, FloatArray, Labels, Sparse
from kcagc.cluster.kmeans import KMeansResult, kmeans
from kcagc.cluster.projection import Projection, Scaling, fit_projection
from kcagc.errors import DataError, ParameterError
from kcagc.graph.attributed import AttributedGraph
from kcagc.graph.filters import Filter
from kcagc.graph.graph import Graph
from kcagc.graph.smoothed import Smoothed, smoothed
from kcagc.parameters import check_count


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

    def __repr__(self) -> str:
        n, q = self.embedding.shape
        return f"LocalClusters({len(self.clusters.centers)} clusters of {n:,} nodes in {q} dimensions)"


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
    if not isinstance(filter, Filter):
        raise ParameterError(f"filter: must be a filter such as HalfFilter(2), not {filter!r}")
    check_count("n_clusters", n_clusters)
    check_count("n_threads", n_threads, optional=True)
    checked = AttributedGraph.build(graph, features)
    return cluster_filtered(
        smoothed(
            filter,
            checked.graph,
            checked.features,
            n_clusters if n_components is None else n_components,
            n_threads=n_threads,
        ),
        n_clusters,
        n_components=n_components,
        scaling=scaling,
        ninth=ninth,
        n_init=n_init,
        max_iter=max_iter,
        random_state=random_state,
    )


def cluster_filtered(
    filtered: AnyFloatArray | Smoothed,
    n_clusters: int,
    *,
    n_components: int | None = None,
    scaling: Scaling = "unit",
    ninth: bool = True,
    n_init: int = 10,
    max_iter: int = 100,
    random_state: Any = None,
) -> LocalClusters:
    """Run what comes after the filter: projection, seeding, 1/9 step, Lloyd."""
    projection = fit_projection(filtered, n_clusters if n_components is None else n_components)
    embedding = projection.transform(filtered, scaling)
    del filtered  # the largest array there is, and no longer needed
    try:
        found = kmeans(embedding, n_clusters, ninth=ninth, n_init=n_init, max_iter=max_iter, random_state=random_state)
    except DataError as error:
        if scaling == "unit" and projection.n_components == 1:
            hint = 'in one dimension rows of unit length are all 1, -1 or 0: use scaling="US"'
            raise DataError(f"{error}; {hint}") from error
        raise
    return LocalClusters(projection, embedding, found)
