"""Cluster the nodes of a graph that several organisations share, without sharing their features.

The public interface is `__all__` of this package and of the modules in `PUBLIC_MODULES`. Everything else may change
from one version to the next.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcagc.analysis import diagnose
    from kcagc.baselines import AGC, GCC, MS2CAG, S2GC
    from kcagc.estimator import KCAGC
    from kcagc.graph import AttributedGraph, Graph

__version__ = "0.11.0"
__all__ = ["AGC", "GCC", "KCAGC", "MS2CAG", "S2GC", "AttributedGraph", "Graph", "__version__", "diagnose"]

PUBLIC_MODULES = (
    "kcagc.graph",
    "kcagc.cluster",
    "kcagc.baselines",
    "kcagc.datasets",
    "kcagc.metrics",
    "kcagc.disclosure",
    "kcagc.analysis.privacy",
    "kcagc.analysis",
    "kcagc.data",
    "kcagc.errors",
)

_HOMES = {
    "AGC": "kcagc.baselines",
    "GCC": "kcagc.baselines",
    "KCAGC": "kcagc.estimator",
    "MS2CAG": "kcagc.baselines",
    "S2GC": "kcagc.baselines",
    "AttributedGraph": "kcagc.graph",
    "Graph": "kcagc.graph",
    "diagnose": "kcagc.analysis",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that the command line starts fast."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the names that are imported on first use, too."""
    return sorted({*globals(), *__all__})
