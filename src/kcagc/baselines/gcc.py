"""GCC: graph convolutional clustering (Fettal, Labiod and Nadif, WSDM 2022).

Smoothed features X̄ = Tᵖ X are approximated by G F Wᵀ: an assignment G of nodes to clusters, k centroids F, and a
projection W with orthonormal columns. The three are updated in turn; each update is the exact minimiser of
‖X̄ - G F Wᵀ‖ with the other two fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from kcagc._types import AnyFloatArray, Features, FloatArray, Labels, check_between, check_choice, check_count
from kcagc.baselines.base import PooledEstimator
from kcagc.cluster.kmeans import fit_kmeans
from kcagc.cluster.lloyd import assign, fill_empty, weighted_means
from kcagc.cluster.local import fit_projection
from kcagc.graph.filters import filter_columns, normalised_adjacency
from kcagc.graph.graph import Graph
from kcagc.graph.ids import membership


@dataclass(frozen=True, eq=False)
class _Factors:
    labels: Labels
    centroids: FloatArray
    basis: FloatArray
    loss: float
    n_iter: int


class GCC(PooledEstimator):
    """Minimise ‖Tᵖ X - G F Wᵀ‖: joint embedding and clustering of smoothed features.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters.
    power : int, default=None
        The power p. None follows the authors: smooth until the loss changes by less than m/n, for m features and n
        nodes, and use the power before that.
    max_power : int, default=150
        The largest power that this rule tries.
    tfidf : bool or "auto", default="auto"
        Whether to weigh features by tf-idf. "auto" does so for binary features, as the authors do.
    n_init : int, default=10
        The number of restarts of the k-means that provides the first assignment.
    max_iter : int, default=30
        The largest number of rounds of updates.
    tol : float, default=1e-6
        Updates end when the loss falls by less than this.
    random_state : int, RandomState or None, default=None
        The seed. None draws a fresh one.

    Attributes
    ----------
    labels_ : ndarray of shape (n_nodes,)
        The cluster of each node (G).
    power_ : int
        The power p; 0 without a graph.
    components_ : ndarray of shape (n_features, n_clusters)
        The projection W.
    embedding_ : ndarray of shape (n_nodes, n_clusters)
        The projected rows Tᵖ X W.
    cluster_centers_ : ndarray of shape (n_clusters, n_clusters)
        The centroids F.
    loss_ : float
        The value of the norm.
    n_iter_ : int
        The number of rounds.
    losses_ : list of float
        The loss at each power that the rule tried.
    at_limit_ : bool
        Whether the loss was still changing at `max_power`.

    Examples
    --------
    >>> from kcagc import GCC
    >>> from kcagc.datasets import load
    >>> demo = load("demo")
    >>> GCC(n_clusters=5, power=2, random_state=0).fit_predict(demo.features, adjacency=demo.adjacency).shape
    (600,)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        power: int | None = None,
        max_power: int = 150,
        tfidf: bool | str = "auto",
        n_init: int = 10,
        max_iter: int = 30,
        tol: float = 1e-6,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.power = power
        self.max_power = max_power
        self.tfidf = tfidf
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
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
            Called with the power and its loss after each power that the method tries.

        Returns
        -------
        GCC
            The fitted estimator.
        """
        self._check_parameters()
        features, graph = self._check_input(X, y, adjacency, "power")
        seed = self._seed()
        smooth = self._prepared(features)
        self.losses_: list[float] = []
        self.at_limit_ = False
        if graph is not None and self.power is None:
            self.power_, smooth, best = self._authors_rule(smooth, graph, seed, progress)
        else:
            self.power_ = 0 if graph is None or self.power is None else int(self.power)
            if graph is not None:
                step = _smoothing_step(graph)
                for _ in range(self.power_):
                    smooth = filter_columns(step, smooth, smooth.dtype)
            best = self._factorise(smooth, seed)
        self.labels_: Labels = best.labels
        self.components_ = best.basis
        self.embedding_ = smooth @ best.basis
        self.cluster_centers_ = best.centroids
        self.loss_ = best.loss
        self.n_iter_ = best.n_iter
        return self

    def _check_parameters(self) -> None:
        check_count("n_clusters", self.n_clusters)
        check_count("power", self.power, least=0, optional=True)
        check_count("max_power", self.max_power)
        check_choice("tfidf", self.tfidf, ("auto", True, False))
        check_count("n_init", self.n_init)
        check_count("max_iter", self.max_iter)
        check_between("tol", self.tol, 0, np.inf)

    def _prepared(self, features: Features) -> AnyFloatArray:
        """Weigh binary words by tf-idf and scale rows to unit length."""
        values = features.data if sparse.issparse(features) else features
        binary = bool(np.isin(values, (0, 1)).all())
        if binary if self.tfidf == "auto" else self.tfidf:
            features = TfidfTransformer().fit_transform(sparse.csr_array(features))
        dense = features.toarray() if sparse.issparse(features) else features
        return np.asarray(normalize(dense.astype(np.float64, copy=False)))

    def _authors_rule(
        self,
        features: AnyFloatArray,
        graph: Graph,
        seed: int,
        progress: Callable[[int, float], None] | None,
    ) -> tuple[int, AnyFloatArray, _Factors]:
        step = _smoothing_step(graph)
        n, m = features.shape
        smooth = filter_columns(step, features, features.dtype)
        found = self._factorise(smooth, seed)
        self.losses_.append(found.loss)
        for power in range(2, self.max_power + 1):
            if progress is not None:
                progress(power - 1, found.loss)
            before, found_before = smooth, found
            smooth = filter_columns(step, before, before.dtype)
            found = self._factorise(smooth, seed)
            self.losses_.append(found.loss)
            if abs(found.loss - found_before.loss) < m / n:
                return power - 1, before, found_before
        self.at_limit_ = True
        return self.max_power, smooth, found

    def _factorise(self, smooth: AnyFloatArray, seed: int) -> _Factors:
        """Initialise with k-means on the principal directions, the singular vectors of the centred features."""
        first = fit_projection(smooth - smooth.mean(axis=0), self.n_clusters).basis
        start = fit_kmeans(smooth @ first, self.n_clusters, margin=False, n_init=self.n_init, random_state=seed)
        return self._alternate(smooth, start.labels, start.centers)

    def _alternate(self, smooth: AnyFloatArray, labels: Labels, centroids: FloatArray) -> _Factors:
        k, ones = self.n_clusters, np.ones(len(smooth))
        squares = float(np.einsum("ij,ij->", smooth, smooth))
        loss, n_iter = np.inf, 0
        while n_iter < self.max_iter:
            n_iter += 1
            # W: the orthonormal matrix nearest to X̄ᵀ G F, through its singular vectors
            sums = membership(labels, k).T @ smooth
            left, _, right = np.linalg.svd(sums.T @ centroids, full_matrices=False)
            basis = left @ right
            projected = smooth @ basis
            # G: the nearest centroid; F: the means. An empty cluster takes the row with the largest distance.
            labels, to_own = assign(projected, centroids)
            labels = fill_empty(labels, to_own, ones, k)
            centroids = weighted_means(projected, ones, labels, centroids)
            # ‖X̄ - G F Wᵀ‖² = ‖X̄‖² - ‖G F‖², F being means and W orthonormal
            explained = np.bincount(labels, minlength=k) @ np.einsum("ij,ij->i", centroids, centroids)
            previous, loss = loss, float(np.sqrt(max(squares - explained, 0.0)))
            if previous - loss < self.tol:
                break
        return _Factors(labels, centroids, basis, loss, n_iter)


def _smoothing_step(graph: Graph) -> Callable[[AnyFloatArray], AnyFloatArray]:
    """Return the product with T, the rows of I + Â divided by their sums; T is not symmetric."""
    looped = sparse.csr_array(normalised_adjacency(graph) + sparse.eye_array(graph.n_nodes, format="csr"))
    looped.data /= np.repeat(looped.sum(axis=1), np.diff(looped.indptr))
    return lambda block: looped @ block
