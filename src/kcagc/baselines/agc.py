"""AGC: attributed graph clustering via adaptive graph convolution (Zhang et al., IJCAI 2019)."""

from __future__ import annotations

from typing import Any, Literal, get_args

from scipy import sparse

from kcagc._types import Features, Labels, check_choice
from kcagc.baselines.base import PooledEstimator, Progress
from kcagc.cluster.joint import fit_joint_kmeans
from kcagc.cluster.local import LocalClusters, Scaling, cluster_rows
from kcagc.cluster.search import PsiSearch, check_search, search_psi
from kcagc.data.weighting import Weighting
from kcagc.engines import LOCAL, Engine, Smoothed
from kcagc.engines.choice import choose_engine
from kcagc.errors import ParameterError
from kcagc.graph.adaptive import adaptive_order
from kcagc.graph.filters import HalfFilter
from kcagc.graph.graph import Graph

Method = Literal["agc", "joint"]


class AGC(PooledEstimator):
    """k-means on the top k left singular vectors of features filtered by (1 - λ/2)^ψ.

    With ``method="joint"``, the steps are those of ``KCAGC(method="joint")`` on pooled data: what a collaboration loses
    against it comes from the split of the columns, and not from another k-means.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters k.
    psi : int or "auto", default=None
        The filter order ψ. None is the rule of the paper (`kcagc.graph.adaptive_order`), which takes many times as long
        as one order. "auto" takes the order of `kcagc.cluster.PSI_GRID` whose clusters predict held-out edges best
        (`kcagc.cluster.search_psi`): the rule of ``KCAGC``, more accurate and faster.
    max_psi : int, default=60
        The largest order that the adaptive choice tries.
    scaling : {"U", "US", "unit"}, default="U"
        The scaling of the projected rows, see `kcagc.cluster.Projection`. Not used by the method "joint", which always
        scales rows to unit length.
    weighting : {"auto", "idf", "none"}, default="auto"
        The weighting of columns by their inverse document frequency, see `kcagc.data.ColumnRule`. "none" is the
        published method.
    method : {"agc", "joint"}, default="agc"
        The k-means: "agc" starts from nodes that are far apart (`kcagc.cluster.fit_kmeans`), "joint" from means of
        random sets of nodes, with the schedule of the joint method (`kcagc.cluster.fit_joint_kmeans`).
    n_init : int, default=10
        The number of restarts of k-means. Not used by the method "joint", which has its own number.
    max_iter : int, default=300
        The largest number of Lloyd iterations of a restart. The method "joint" never takes more than 18.
    random_state : int, RandomState or None, default=None
        The seed. None draws a fresh one.
    engine : str or Engine, default="auto"
        Where the filter of a given order and the projection run: "local", "dask", "gpu", "auto", which takes a GPU if
        there is one and the table is large, or an engine. The search for an order runs in this process.

    Attributes
    ----------
    labels_ : ndarray of shape (n_nodes,)
        The cluster of each node.
    node_ids_ : list or None
        The node ids in the order of `labels_`; None if nodes are row numbers.
    column_weights_ : ndarray of shape (n_features,)
        What the columns were multiplied by; 1 for a column that is not weighted.
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
    psi_search_ : PsiSearch or None
        The orders that "auto" tried, the modularity of the held-out edges at each, and the reason for the choice.
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

    Let held-out edges choose the order, and see the curve:

    >>> found = AGC(n_clusters=5, psi="auto", random_state=0).fit(demo.features, adjacency=demo.adjacency)
    >>> found.psi_ == found.psi_search_.psi
    True

    Compare a collaboration with the same steps on pooled data:

    >>> from kcagc import KCAGC, metrics
    >>> joint = KCAGC(n_clusters=5, psi=2, method="joint", random_state=0).fit(demo.parties(), adjacency=demo.adjacency)
    >>> pooled = AGC(n_clusters=5, psi=2, method="joint", random_state=0).fit(demo.features, adjacency=demo.adjacency)
    >>> metrics.ari(pooled.labels_, joint.labels_) > 0.8
    True
    """

    _order = "psi"
    _searched = True

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        psi: int | Literal["auto"] | None = None,
        max_psi: int = 60,
        scaling: Scaling = "U",
        weighting: Weighting = "auto",
        method: Method = "agc",
        n_init: int = 10,
        max_iter: int = 300,
        random_state: Any = None,
        engine: Any = "auto",
    ) -> None:
        self.n_clusters = n_clusters
        self.psi = psi
        self.max_psi = max_psi
        self.scaling = scaling
        self.weighting = weighting
        self.method = method
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state
        self.engine = engine

    def _fit(self, features: Features, graph: Graph | None, seed: int, progress: Progress) -> None:
        check_choice("scaling", self.scaling, get_args(Scaling))
        check_choice("method", self.method, get_args(Method))

        def cluster(smoothed: Smoothed, engine: Engine = LOCAL) -> LocalClusters:
            projection = engine.singular_vectors(smoothed, self.n_clusters)
            if self.method == "joint":
                rows = engine.project(smoothed, projection, "unit")
                clusters = fit_joint_kmeans(rows, self.n_clusters, seed=seed, max_iter=self.max_iter)
                return LocalClusters(projection, rows, clusters)
            rows = engine.project(smoothed, projection, self.scaling)
            del smoothed  # the largest array
            options = {"margin": False, "n_init": self.n_init, "max_iter": self.max_iter, "random_state": seed}
            return cluster_rows(projection, rows, self.n_clusters, scaling=self.scaling, **options)

        self.intra_distances_: list[float] = []
        self.at_limit_ = False
        self.psi_search_: PsiSearch | None = None
        self.psi_ = int(self.psi) if graph is not None and self.psi not in (None, "auto") else 0
        if self.psi == "auto":
            if graph is None:
                raise ParameterError('psi: "auto" compares edges; pass adjacency=..., or set psi to a number or None')
            check_search(self.n_clusters)
            self.psi_search_ = search_psi(features, graph, self.n_clusters, seed)
            self.psi_ = self.psi_search_.psi
        if graph is None:
            found = cluster(features.toarray() if sparse.issparse(features) else features)
        elif self.psi is None:
            chosen = adaptive_order(graph, features, cluster, max_psi=self.max_psi, progress=progress)
            self.psi_, found = chosen.psi, chosen.found
            self.intra_distances_, self.at_limit_ = chosen.distances, not chosen.stopped
        else:
            engine = choose_engine(self.engine, features.shape).engine
            found = cluster(engine.smooth(HalfFilter(self.psi_), graph, features, self.n_clusters), engine)
        self.embedding_ = found.embedding
        self.labels_: Labels = found.labels
        self.cluster_centers_ = found.clusters.centers
        self.inertia_ = found.clusters.inertia
        self.n_iter_ = found.clusters.n_iter
