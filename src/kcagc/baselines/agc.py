"""AGC: attributed graph clustering via adaptive graph convolution (Zhang et al., IJCAI 2019)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, get_args

from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin

from kcagc._types import AnyFloatArray, Labels, Sparse
from kcagc.baselines._fitting import checked_input, fixed_seed
from kcagc.cluster.kmeans import KMeansResult, kmeans
from kcagc.cluster.projection import Projection, Scaling, fit_projection
from kcagc.graph.adaptive import adaptive_order
from kcagc.graph.filters import HalfFilter
from kcagc.graph.structure import Graph
from kcagc.parameters import check_choice, check_count


class AGC(ClusterMixin, BaseEstimator):
    """k-means on the top k left singular vectors of features filtered by (1 - λ/2)^ψ.

    Parameters: `n_clusters`; `psi`, the filter's order, None meaning AGC's adaptive choice up to `max_psi`; `scaling`
    of the projected rows ("U" is AGC's, see `kcagc.cluster.projection`); `n_init` starts of at most `max_iter` Lloyd
    iterations; `random_state`.

    After `fit(X, adjacency=A)`: `labels_`, `psi_`, `embedding_`, `cluster_centers_` (in the embedding), `inertia_`,
    `n_iter_`, and `intra_distances_`, the distance at each order tried. Without a graph nothing is filtered and
    `psi_` is 0.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        psi: int | None = None,
        max_psi: int = 60,
        scaling: Scaling = "U",
        n_init: int = 10,
        max_iter: int = 300,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.psi = psi
        self.max_psi = max_psi
        self.scaling = scaling
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        adjacency: Graph | Sparse | None = None,
        progress: Callable[[int, float], None] | None = None,
    ) -> Self:
        """Cluster the rows of X; `progress(order, distance)` is called after each order that is tried."""
        self._check_parameters()
        features, graph = checked_input(self, X, adjacency, self.n_clusters)
        # One seed for all orders, so that the adaptive choice compares orders and not starts.
        seed = fixed_seed(self.random_state)
        self.intra_distances_: list[float] = []
        if graph is None:
            self.psi_ = 0
            filtered = features.toarray() if sparse.issparse(features) else features
        elif self.psi is None:
            chosen = adaptive_order(
                graph,
                features,
                lambda smooth: self._cluster(smooth, seed)[1].labels,
                max_psi=self.max_psi,
                progress=progress,
            )
            self.psi_, filtered, self.intra_distances_ = chosen.psi, chosen.filtered, chosen.distances
        else:
            self.psi_ = int(self.psi)
            filtered = HalfFilter(self.psi_).apply(graph, features)
        projection, found = self._cluster(filtered, seed)
        self.embedding_ = projection.transform(filtered, self.scaling)
        self.labels_: Labels = found.labels
        self.cluster_centers_ = found.centers
        self.inertia_ = found.inertia
        self.n_iter_ = found.n_iter
        return self

    def _check_parameters(self) -> None:
        check_count("n_clusters", self.n_clusters)
        check_count("psi", self.psi, least=0, optional=True)
        check_count("max_psi", self.max_psi)
        check_choice("scaling", self.scaling, get_args(Scaling))
        check_count("n_init", self.n_init)
        check_count("max_iter", self.max_iter)

    def _cluster(self, filtered: AnyFloatArray, seed: int) -> tuple[Projection, KMeansResult]:
        projection = fit_projection(filtered, self.n_clusters)
        rows = projection.transform(filtered, self.scaling)
        found = kmeans(
            rows, self.n_clusters, ninth=False, n_init=self.n_init, max_iter=self.max_iter, random_state=seed
        )
        return projection, found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
