"""What an experiment is: cells that can be computed one by one, and a section of the page made from their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.paper.plots import Figures
    from experiments.paper.store import Book

Config = dict[str, Any]  # what identifies a cell: plain JSON
Result = dict[str, Any]  # what came out: plain JSON

PUBLIC = ("cora", "citeseer", "pubmed", "wiki")


@dataclass(frozen=True)
class Options:
    """What was asked for: `datasets` is empty where each experiment takes those of the paper."""

    datasets: tuple[str, ...] = ()
    seeds: int = 5
    quick: bool = False

    def pick(self, *papers: str) -> tuple[str, ...]:
        """Give the datasets to use where the paper used these.

        A dataset that the paper does not know stands in for any of its own; one that it knows, only where it was used.
        """
        return tuple(name for name in self.datasets if name in papers or name not in PUBLIC) or (
            () if self.datasets else papers
        )

    def thinned(self, few: tuple[Any, ...], many: tuple[Any, ...]) -> tuple[Any, ...]:
        """Give the short list in a quick run."""
        return few if self.quick else many


@dataclass(frozen=True)
class Experiment:
    """One table or figure.

    `compute` must be a function of a module, because it runs in another process; cells of a timed experiment run
    `alone`, one after the other. `missing` says what this machine lacks for it, in words, or nothing.
    """

    name: str
    title: str
    cells: Callable[[Options], list[Config]]
    compute: Callable[[Config], Result]
    render: Callable[[Book, Figures], str]
    alone: bool = False
    missing: Callable[[], str] = lambda: ""
