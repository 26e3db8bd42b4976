"""All experiments, in the order of the page."""

from __future__ import annotations

from importlib import import_module

from experiments.paper.experiment import Experiment

NAMES = (
    "datasets",
    "utility",
    "graphsage",
    "lan",
    "wan",
    "agc-time",
    "privacy",
    "split-graph",
    "filter-order",
    "filter-norm",
    "tsne",
    "intuition",
    "theory",
    "claims",
)
_MODULES = {"lan": "training_time", "wan": "training_time"}


def experiment(name: str) -> Experiment:
    """Give one by its name."""
    module = import_module(f"experiments.paper.{_MODULES.get(name, name.replace('-', '_'))}")
    found: Experiment = getattr(module, name.upper() if name in _MODULES else "EXPERIMENT")
    return found
