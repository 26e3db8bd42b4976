"""One party alone: projection, seeding, the 1/9 step and weighted Lloyd, each a piece of its own (Protocol 1)."""

from kcagc.cluster.kmeans import KMeansResult, kmeans
from kcagc.cluster.lloyd import lloyd, weighted_means
from kcagc.cluster.local import LocalClusters, cluster_locally
from kcagc.cluster.projection import Projection, Scaling, fit_projection
from kcagc.cluster.rules import clear_winners, fill_empty, nearest
from kcagc.cluster.seeding import approximation_bound, local_search, plus_plus

__all__ = [
    "KMeansResult",
    "LocalClusters",
    "Projection",
    "Scaling",
    "approximation_bound",
    "clear_winners",
    "cluster_locally",
    "fill_empty",
    "fit_projection",
    "kmeans",
    "lloyd",
    "local_search",
    "nearest",
    "plus_plus",
    "weighted_means",
]
