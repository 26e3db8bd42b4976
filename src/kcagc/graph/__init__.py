"""The shared graph: validation, the normalised Laplacian, and low-pass filters that smooth features along edges."""

from kcagc.graph.adaptive import AdaptiveOrder, adaptive_order, intra_cluster_distance
from kcagc.graph.attributed import AttributedGraph, check_features
from kcagc.graph.chebyshev import ChebyshevFilter
from kcagc.graph.filters import Filter, HalfFilter, NormFilter
from kcagc.graph.graph import Graph
from kcagc.graph.laplacian import laplacian_norm, normalised_adjacency, normalised_laplacian

__all__ = [
    "AdaptiveOrder",
    "AttributedGraph",
    "ChebyshevFilter",
    "Filter",
    "Graph",
    "HalfFilter",
    "NormFilter",
    "adaptive_order",
    "check_features",
    "intra_cluster_distance",
    "laplacian_norm",
    "normalised_adjacency",
    "normalised_laplacian",
]
