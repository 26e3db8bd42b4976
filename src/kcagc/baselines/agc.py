"""AGC: attributed graph clustering via adaptive graph convolution (Zhang et al., IJCAI 2019)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, get_args

from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin

from kcagc._types import AnyFloatArray, Labels
from kcagc.baselines._fitting import checked_input, fixed_seed
from kcagc.cluster.local import LocalClusters, Scaling, cluster_filtered
from kcagc.graph.adaptive import adaptive_order
from kcagc.graph.filters import FilteredOperator, HalfFilter, filter_for_projection
from kcagc.parameters import check_choice, check_count


class AGC(ClusterMixin, BaseEstimator):
    """k-means on the top k left singular vectors of features filtered by (1 - λ/2)^ψ.

    Parameters: `n_clusters`; `psi`, the filter's order, None meaning AGC's adaptive choice up to `max_psi`; `scaling`
    of the projected rows ("U" is AGC's, see `kcagc.cluster.local`); `n_init` starts of at most `max_iter` Lloyd
    iterations; `random_state`.

    After `fit(X, adjacency=A)`: `labels_`, `psi_`, `embedding_`, `cluster_centers_` (in the embedding), `inertia_`,
    `n_iter_`; after an adaptive choice also `intra_distances_`, the distance at each order tried, and `at_limit_`, true
    where it was still falling at `max_psi`. Without a graph nothing is filtered and `psi_` is 0.
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
        adjacency: Any = None,
        progress: Callable[[int, float], None] | None = None,
    ) -> Self:
        """Cluster the rows of X, smoothed along the graph `adjacency`; `y` is ignored.

        `adjacency` is a symmetric matrix of non-negative weights, dense or sparse, a `Graph`, or one of networkx or
        PyTorch Geometric; None filters nothing. Where nodes have names, the index of a pandas frame says which row is
        which.
        `progress(order, distance)` is called after each order that is tried.
        """
        self._check_parameters()
        features, graph = checked_input(self, X, y, adjacency, "psi")
        # One seed for all orders, so that the adaptive choice compares orders and not starts.
        seed = fixed_seed(self.random_state)
        self.intra_distances_: list[float] = []
        self.at_limit_ = False
        if graph is not None and self.psi is None:
            chosen = adaptive_order(
                graph,
                features,
                lambda filtered: self._cluster(filtered, seed),
                max_psi=self.max_psi,
                progress=progress,
            )
            self.psi_, found = chosen.psi, chosen.found
            self.intra_distances_, self.at_limit_ = chosen.distances, not chosen.stopped
        elif graph is not None and self.psi is not None:
            self.psi_ = int(self.psi)
            found = self._cluster(filter_for_projection(HalfFilter(self.psi_), graph, features, self.n_clusters), seed)
        else:
            self.psi_ = 0
            found = self._cluster(features.toarray() if sparse.issparse(features) else features, seed)
        self.embedding_ = found.embedding
        self.labels_: Labels = found.labels
        self.cluster_centers_ = found.clusters.centers
        self.inertia_ = found.clusters.inertia
        self.n_iter_ = found.clusters.n_iter
        return self

    def _check_parameters(self) -> None:
        check_count("n_clusters", self.n_clusters)
        check_count("psi", self.psi, least=0, optional=True)
        check_count("max_psi", self.max_psi)
        check_choice("scaling", self.scaling, get_args(Scaling))
        check_count("n_init", self.n_init)
        check_count("max_iter", self.max_iter)

    def _cluster(self, filtered: AnyFloatArray | FilteredOperator, seed: int) -> LocalClusters:
        return cluster_filtered(
            filtered,
            self.n_clusters,
            scaling=self.scaling,
            margin=False,
            n_init=self.n_init,
            max_iter=self.max_iter,
            random_state=seed,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
