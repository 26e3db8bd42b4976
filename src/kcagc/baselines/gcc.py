"""GCC: graph convolutional clustering (Fettal, Labiod and Nadif, WSDM 2022).

Smoothed features X̄ = Tᵖ X are approximated by G F Wᵀ: an assignment G of nodes to clusters, k centroids F, and a
projection W with orthonormal columns. The three are updated in turn; each update is the exact minimiser of
‖X̄ - G F Wᵀ‖ with the other two fixed.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize

from kcagc._types import AnyFloatArray, Features, FloatArray, Labels, check_between
from kcagc.baselines.base import PooledEstimator, Progress
from kcagc.cluster.kmeans import fit_kmeans
from kcagc.cluster.lloyd import assign, fill_empty, weighted_means
from kcagc.cluster.local import fit_projection
from kcagc.data.weighting import Weighting
from kcagc.graph.adaptive import search_order
from kcagc.graph.filters import BlockFilter, filter_columns
from kcagc.graph.graph import Graph
from kcagc.graph.ids import membership
from kcagc.graph.laplacian import normalised_adjacency
from kcagc.text import count

_FEW = (
    0.05  # of the nodes of a cluster, if all had the same number: if half of the clusters have less, they mean little
)


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
        nodes, or until rows are too similar to cluster, and use the power before that. This may smooth too far; then
        nearly all nodes are in one cluster, and a warning says so.
    max_power : int, default=150
        The largest power that this rule tries.
    weighting : {"auto", "idf", "none"}, default="auto"
        The weighting of columns by their inverse document frequency, see `kcagc.data.ColumnRule`. "auto" does what the
        authors do for tables of 0 and 1 (tf-idf), and also weights counts.
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
    node_ids_ : list or None
        The node ids in the order of `labels_`; None if nodes are row numbers.
    column_weights_ : ndarray of shape (n_features,)
        What the columns were multiplied by; 1 for a column that is not weighted.
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

    _order = "power"

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        power: int | None = None,
        max_power: int = 150,
        weighting: Weighting = "auto",
        n_init: int = 10,
        max_iter: int = 30,
        tol: float = 1e-6,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.power = power
        self.max_power = max_power
        self.weighting = weighting
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _fit(self, features: Features, graph: Graph | None, seed: int, progress: Progress) -> None:
        check_between("tol", self.tol, 0, np.inf)

        def factorised(smooth: AnyFloatArray) -> tuple[_Factors, float]:
            # The first assignment comes from k-means on the principal directions, the singular vectors of the centred
            # features.
            first = fit_projection(smooth - smooth.mean(axis=0), self.n_clusters).basis
            start = fit_kmeans(smooth @ first, self.n_clusters, margin=False, n_init=self.n_init, random_state=seed)
            factors = self._alternate(smooth, start.labels, start.centers)
            return factors, factors.loss

        dense = features.toarray() if sparse.issparse(features) else features
        smooth: AnyFloatArray = np.asarray(normalize(dense.astype(np.float64, copy=False)))  # rows of unit length
        self.losses_: list[float] = []
        self.at_limit_ = False
        if graph is not None and self.power is None:
            n, m = smooth.shape
            self.power_, best, smooth, self.losses_, settled = search_order(
                _smoothing_step(graph),
                smooth,
                factorised,
                lambda before, now: abs(now - before) < m / n,
                self.max_power,
                progress,
            )
            self.at_limit_ = not settled
        else:
            self.power_ = 0 if graph is None or self.power is None else int(self.power)
            if graph is not None:
                step = _smoothing_step(graph)
                for _ in range(self.power_):
                    smooth = filter_columns(step, smooth, smooth.dtype)
            best, _ = factorised(smooth)
        self.labels_: Labels = best.labels
        self.components_ = best.basis
        self.embedding_ = smooth @ best.basis
        self.cluster_centers_ = best.centroids
        self.loss_ = best.loss
        sizes, n = np.sort(np.bincount(best.labels, minlength=self.n_clusters)), len(smooth)
        usual = sizes[(self.n_clusters - 1) // 2]  # half of the clusters have no more nodes
        if self.power is None and usual < _FEW * n / self.n_clusters:
            warnings.warn(
                f"smoothed too far at power {self.power_}: half of the clusters have at most {count(usual, 'node')}, "
                f"and one has {sizes[-1]:,} of {n:,}; set power to a smaller number, such as power=2",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.n_iter_ = best.n_iter

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


def _smoothing_step(graph: Graph) -> BlockFilter:
    """Return the product with T, the rows of I + Â divided by their sums; T is not symmetric."""
    looped = sparse.csr_array(normalised_adjacency(graph) + sparse.eye_array(graph.n_nodes, format="csr"))
    looped.data /= np.repeat(looped.sum(axis=1), np.diff(looped.indptr))
    return lambda block: looped @ block
