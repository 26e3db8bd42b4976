"""All benchmarks, in the order of the page."""

from __future__ import annotations

from importlib import import_module

from experiments.paper.experiment import Experiment

MODULES = {
    "fit-over-agc": "benchmarks.fit_over_agc",
    "breakdown": "benchmarks.breakdown",
    "delays": "benchmarks.delays",
    "peers": "benchmarks.peers.benchmark",
    "million": "benchmarks.million",
    "scaling": "benchmarks.scaling",
    "startup": "benchmarks.startup",
}
NAMES = tuple(MODULES)


def benchmark(name: str) -> Experiment:
    """Give one by its name."""
    found: Experiment = import_module(MODULES[name]).BENCHMARK
    return found
