"""Experiments: cells that are computed one by one, and a section of the page that is rendered from their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.paper.plots import Figures
    from experiments.paper.store import Book

Config = dict[str, Any]  # identifies a cell: plain JSON
Result = dict[str, Any]  # plain JSON

PUBLIC = ("cora", "citeseer", "pubmed", "wiki")

# All experiments, in the order of the page.
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


@dataclass(frozen=True)
class Options:
    """The options of a run; without `datasets`, each experiment uses those of the paper."""

    datasets: tuple[str, ...] = ()
    seeds: int = 5
    quick: bool = False

    def pick(self, *papers: str) -> tuple[str, ...]:
        """Return the datasets to use where the paper used `papers`.

        A dataset that is not in the paper may replace any of them; a dataset of the paper is used only where it was.
        """
        return tuple(name for name in self.datasets if name in papers or name not in PUBLIC) or (
            () if self.datasets else papers
        )

    def thinned(self, few: tuple[Any, ...], many: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the short list in a quick run, and else the long one."""
        return few if self.quick else many


@dataclass(frozen=True)
class Experiment:
    """One table or figure.

    `compute` must be a module-level function, because it runs in another process. The cells of a timed experiment run
    `alone`, one after the other. `missing` returns what this machine lacks for it, or an empty text.
    """

    name: str
    title: str
    cells: Callable[[Options], list[Config]]
    compute: Callable[[Config], Result]
    render: Callable[[Book, Figures], str]
    alone: bool = False
    missing: Callable[[], str] = lambda: ""


def experiment(name: str) -> Experiment:
    """Return an experiment by its name."""
    module = import_module(f"experiments.paper.{_MODULES.get(name, name.replace('-', '_'))}")
    found: Experiment = getattr(module, name.upper() if name in _MODULES else "EXPERIMENT")
    return found
