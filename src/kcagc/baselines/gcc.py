"""GCC: graph convolutional clustering (Fettal, Labiod and Nadif, WSDM 2022).

Smoothed features X̄ = Tᵖ X are approximated by G F Wᵀ: an assignment G of nodes to clusters, k centroids F, and a
projection W with orthonormal columns. Each is the exact minimiser of ‖X̄ - G F Wᵀ‖ when the other two are fixed, and
they are updated in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from kcagc._types import AnyFloatArray, Features, FloatArray, Labels
from kcagc.baselines._fitting import checked_input, fixed_seed
from kcagc.cluster.kmeans import fit_kmeans
from kcagc.cluster.lloyd import assign, fill_empty, weighted_means
from kcagc.cluster.local import fit_projection
from kcagc.graph.filters import filter_columns, normalised_adjacency
from kcagc.graph.graph import Graph
from kcagc.graph.ids import membership
from kcagc.parameters import check_between, check_choice, check_count


@dataclass(frozen=True, eq=False)
class _Factors:
    labels: Labels
    centroids: FloatArray
    basis: FloatArray
    loss: float
    n_iter: int


class GCC(ClusterMixin, BaseEstimator):
    """Joint embedding and clustering of smoothed features.

    Parameters: `n_clusters`; `power`, how often features are smoothed, None meaning the authors' rule (smooth until the
    loss changes by less than m/n, for m features and n nodes, and take the power before, at most `max_power`); `tfidf`,
    "auto" meaning tf-idf for binary features, as the authors do; `n_init` starts of the k-means that gives the first
    assignment; at most `max_iter` rounds of updates, until the loss falls by less than `tol`; `random_state`.

    After `fit(X, adjacency=A)`: `labels_`, `power_`, `components_` (W), `embedding_` (X̄ W), `cluster_centers_` (F),
    `loss_`, `n_iter_`; after the authors' rule also `losses_`, the loss at each power tried, and `at_limit_`, true
    where it was still changing at `max_power`. Without a graph `power_` is 0.
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
        """Cluster the rows of X, smoothed along the graph `adjacency`; `y` is ignored.

        `adjacency` is a symmetric matrix of non-negative weights, dense or sparse, a `Graph`, or one of networkx or
        PyTorch Geometric; None smooths nothing. Where nodes have names, the index of a pandas frame says which row is
        which.
        `progress(power, loss)` is called after each power that is tried.
        """
        self._check_parameters()
        features, graph = checked_input(self, X, y, adjacency, "power")
        seed = fixed_seed(self.random_state)
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
        """Weigh binary words by tf-idf and bring rows to unit length."""
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
        """Start from k-means on the principal directions, the singular vectors of the centred features."""
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
            # G: the nearest centroid; F: the means. An empty cluster takes the row that fits worst.
            labels, to_own = assign(projected, centroids)
            labels = fill_empty(labels, to_own, ones, k)
            centroids = weighted_means(projected, ones, labels, centroids)
            # ‖X̄ - G F Wᵀ‖² = ‖X̄‖² - ‖G F‖², F being means and W orthonormal
            explained = np.bincount(labels, minlength=k) @ np.einsum("ij,ij->i", centroids, centroids)
            previous, loss = loss, float(np.sqrt(max(squares - explained, 0.0)))
            if previous - loss < self.tol:
                break
        return _Factors(labels, centroids, basis, loss, n_iter)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _smoothing_step(graph: Graph) -> Callable[[AnyFloatArray], AnyFloatArray]:
    """Give the product with T, the rows of I + Â divided by their sums: their filter is not symmetric."""
    looped = sparse.csr_array(normalised_adjacency(graph) + sparse.eye_array(graph.n_nodes, format="csr"))
    looped.data /= np.repeat(looped.sum(axis=1), np.diff(looped.indptr))
    return lambda block: looped @ block
