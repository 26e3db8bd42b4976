"""Cluster the nodes of a graph that several organisations share, using features that each holds and none may show."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcagc.estimators import KCAGC
    from kcagc.theory import diagnose

__version__ = "0.4.0"
__all__ = ["KCAGC", "__version__", "diagnose"]


def __getattr__(name: str) -> Any:
    """Import what is heavy when it is first asked for, so that the command line answers at once."""
    if name == "KCAGC":
        return import_module("kcagc.estimators").KCAGC
    if name == "diagnose":
        return import_module("kcagc.theory").diagnose
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
