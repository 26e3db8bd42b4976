"""AGC: attributed graph clustering via adaptive graph convolution (Zhang et al., IJCAI 2019)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, get_args

from scipy import sparse

from kcagc._types import AnyFloatArray, Labels, check_choice, check_count
from kcagc.baselines.base import PooledEstimator
from kcagc.cluster.local import LocalClusters, Scaling, cluster_filtered
from kcagc.graph.adaptive import adaptive_order
from kcagc.graph.filters import FilteredOperator, HalfFilter, filter_for_projection


class AGC(PooledEstimator):
    """k-means on the top k left singular vectors of features filtered by (1 - λ/2)^ψ.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters k.
    psi : int, default=None
        The filter order ψ. None chooses it with `kcagc.graph.adaptive_order`.
    max_psi : int, default=60
        The largest order that the adaptive choice tries.
    scaling : {"U", "US", "unit"}, default="U"
        The scaling of the projected rows, see `kcagc.cluster.Projection`.
    n_init : int, default=10
        The number of restarts of k-means.
    max_iter : int, default=300
        The largest number of Lloyd iterations of a restart.
    random_state : int, RandomState or None, default=None
        The seed. None draws a fresh one.

    Attributes
    ----------
    labels_ : ndarray of shape (n_nodes,)
        The cluster of each node.
    psi_ : int
        The filter order; 0 without a graph.
    embedding_ : ndarray of shape (n_nodes, n_clusters)
        The projected rows.
    cluster_centers_ : ndarray of shape (n_clusters, n_clusters)
        The centres in the embedding.
    inertia_ : float
        The sum of squared distances to the centres.
    n_iter_ : int
        The number of Lloyd iterations.
    intra_distances_ : list of float
        The intra-cluster distance at each order that the adaptive choice tried.
    at_limit_ : bool
        Whether that distance was still falling at `max_psi`.

    Examples
    --------
    >>> from kcagc import AGC
    >>> from kcagc.datasets import load
    >>> demo = load("demo")
    >>> AGC(n_clusters=5, psi=2, random_state=0).fit_predict(demo.features, adjacency=demo.adjacency).shape
    (600,)
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
        """Cluster the rows of X, smoothed along the graph.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_nodes, n_features)
            The features. If the nodes of the graph have names, the index of a pandas frame names the rows.
        y : None
            Not used.
        adjacency : Graph, array-like, sparse matrix, networkx or PyTorch Geometric graph, default=None
            The graph with symmetric, non-negative weights. None clusters the features without a graph.
        progress : callable, default=None
            Called with the order and its intra-cluster distance after each order that the method tries.

        Returns
        -------
        AGC
            The fitted estimator.
        """
        self._check_parameters()
        features, graph = self._check_input(X, y, adjacency, "psi")
        seed = self._seed()
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
