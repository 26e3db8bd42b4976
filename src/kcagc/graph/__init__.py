"""The shared graph: validation, the normalised Laplacian, and low-pass filters that smooth features along edges."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kcagc.graph.filters import Filter, HalfFilter, NormFilter
from kcagc.graph.graph import AttributedGraph, Graph, check_features
from kcagc.graph.laplacian import laplacian_norm, normalised_adjacency, normalised_laplacian

if TYPE_CHECKING:
    from kcagc.graph.adaptive import AdaptiveOrder, adaptive_order, intra_cluster_distance
    from kcagc.graph.chebyshev import ChebyshevFilter

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

_LAZY = {
    "AdaptiveOrder": "kcagc.graph.adaptive",
    "ChebyshevFilter": "kcagc.graph.chebyshev",
    "adaptive_order": "kcagc.graph.adaptive",
    "intra_cluster_distance": "kcagc.graph.adaptive",
}


def __getattr__(name: str) -> Any:
    """Import what a run of a party does not need on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    """List the lazily imported names, too."""
    return sorted({*globals(), *__all__})
