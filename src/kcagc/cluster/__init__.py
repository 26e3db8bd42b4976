"""The clustering of one party: projection, seeding, the step with margin 9 and weighted Lloyd (Protocol 1)."""

from kcagc.cluster.joint import fit_joint_kmeans
from kcagc.cluster.kmeans import fit_kmeans, local_search, plus_plus
from kcagc.cluster.lloyd import KMeansResult, fill_empty, run_lloyd, weighted_means
from kcagc.cluster.local import LocalClusters, Projection, Scaling, cluster_locally, fit_projection
from kcagc.cluster.search import PSI_GRID, PsiSearch, search_psi
from kcagc.cluster.sweep import Sweep, sweep_clusters

__all__ = [
    "PSI_GRID",
    "KMeansResult",
    "LocalClusters",
    "Projection",
    "PsiSearch",
    "Scaling",
    "Sweep",
    "cluster_locally",
    "fill_empty",
    "fit_joint_kmeans",
    "fit_kmeans",
    "fit_projection",
    "local_search",
    "plus_plus",
    "run_lloyd",
    "search_psi",
    "sweep_clusters",
    "weighted_means",
]
