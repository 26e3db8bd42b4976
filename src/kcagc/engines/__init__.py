"""Engines: where a party's own work runs. The protocol asks for filtered rows, projections, clusters and means."""

from kcagc.engines.engine import LOCAL, Engine, LocalEngine, Smoothed

__all__ = ["LOCAL", "Engine", "LocalEngine", "Smoothed"]
