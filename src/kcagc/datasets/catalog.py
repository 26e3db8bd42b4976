"""The public graphs of the paper: where their original files are, what those must hash to, and what is in them.

`catalog.json` keeps the facts; a dataset that does not have the counts written there is not the one it claims to be.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from kcagc.datasets.model import Dataset
from kcagc.errors import DataError
from kcagc.graph.graph import Graph

EMBEDDED = "demo"


@dataclass(frozen=True)
class SourceFile:
    """One original file: its public addresses, first choice first, its size and its SHA-256."""

    name: str
    urls: tuple[str, ...]
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Paper:
    """What the paper uses and prints for a graph: the filter's order, and the accuracy in per cent of its baselines."""

    psi: int
    agc: float
    gcc: float


@dataclass(frozen=True)
class Entry:
    """A public graph, with the counts that identify it and the reason why the paper counts more edges."""

    name: str
    title: str
    nodes: int
    edges: int
    self_loops: int
    isolated: int
    features: int
    feature_kind: str
    classes: int
    paper_edges: int
    paper_edges_why: str
    paper: Paper
    files: tuple[SourceFile, ...]

    def check(self, dataset: Dataset, where: str) -> None:
        """Refuse a dataset whose counts are not this graph's."""
        graph = Graph(dataset.adjacency)
        for what, wanted, found in (
            ("nodes", self.nodes, graph.n_nodes),
            ("edges", self.edges, graph.n_edges),
            ("self loops", self.self_loops, graph.n_self_loops),
            ("isolated nodes", self.isolated, graph.n_isolated),
            ("features", self.features, dataset.features.shape[1]),
            ("classes", self.classes, dataset.n_classes),
        ):
            if wanted != found:
                raise DataError(f"{where}: not the {self.name} graph: it has {found} {what}, and {self.name} {wanted}")


@cache
def entries() -> dict[str, Entry]:
    """Give all public graphs by name, in the paper's order."""
    raw = json.loads(resources.files("kcagc.datasets").joinpath("catalog.json").read_text(encoding="utf-8"))
    return {name: _entry(name, **facts) for name, facts in raw.items()}


def _entry(name: str, *, files: list[dict[str, Any]], paper: dict[str, Any], **facts: Any) -> Entry:
    sources = tuple(SourceFile(file["name"], tuple(file["urls"]), file["bytes"], file["sha256"]) for file in files)
    return Entry(name, files=sources, paper=Paper(**paper), **facts)


def entry(name: str) -> Entry:
    """Give one public graph's facts, or an error that lists the names there are."""
    try:
        return entries()[name]
    except KeyError:
        known = ", ".join(entries())
        raise DataError(f"dataset: no public graph is called {name!r}; there are {known}") from None
