"""The graphs of the study: the public ones, and generated ones that differ in one property at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from experiments.joint.planted import DRAWN, OTHER, Planted
from experiments.joint.real import REAL, Real
from experiments.paper.configurations import order_of
from experiments.paper.experiment import PUBLIC
from kcagc._types import Features
from kcagc.datasets import Dataset, generate, load, split_columns
from kcagc.datasets.catalog import EMBEDDED

GIVEN = "given"  # the split of a graph whose parties are part of its definition
_ORDER, _CLASSES, _NODES = 5, 5, 1500
_WEAK, _STRONG = 1.0, 3.0
_DENSE, _WORDS = 64, 320


@dataclass(frozen=True)
class Generated:
    """A generated graph: arguments of `generate`, and a change of its table afterwards."""

    words: str
    settings: dict[str, Any]
    change: Callable[[Dataset], Dataset] = lambda data: data
    parties: bool = False  # whether the columns of the parties are given

    def build(self, name: str) -> Dataset:
        """Generate the graph."""
        common = {"n_nodes": _NODES, "n_classes": _CLASSES, "degree": 8.0, "homophily": 0.7, "signal": _STRONG}
        return self.change(generate(**(common | {"features": _DENSE, "seed": 1, "name": name} | self.settings)))


def heavy_tailed(data: Dataset) -> Dataset:
    """Multiply every row by a factor of a log-normal distribution: the longest is thousands of times the shortest."""
    factors = np.exp(1.5 * np.random.RandomState(7).standard_normal(data.n_nodes))
    table = data.features
    rows = sparse.diags_array(factors) @ table if sparse.issparse(table) else table * factors[:, None]
    return replace(data, features=sparse.csr_array(rows) if sparse.issparse(table) else rows)


def _last_party(values: Callable[[tuple[int, int]], Any]) -> Callable[[Dataset], Dataset]:
    def change(data: Dataset) -> Dataset:
        width = data.party_columns[-1]
        kept = data.features[:, :-width]
        return replace(data, features=np.hstack([kept, values((data.n_nodes, width))]))

    return change


def _noise(shape: tuple[int, int]) -> Any:
    return np.random.RandomState(8).standard_normal(shape)


def _without_last(data: Dataset) -> Dataset:
    width = data.party_columns[-1]
    return replace(data, features=data.features[:, :-width], party_columns=data.party_columns[:-1])


def _grid() -> dict[str, Generated]:
    """Return homophily × signal × dense or sparse, and rows of very different lengths."""
    found = {}
    for kind, columns in (("dense", {}), ("words", {"features": _WORDS, "sparsity": 0.95})):
        for signal, strength in (("weak", _WEAK), ("strong", _STRONG)):
            for homophily in (0.5, 0.7, 0.9):
                settings = columns | {"homophily": homophily, "signal": strength}
                words = f"{'sparse words' if columns else 'dense'}, homophily {homophily}, {signal} signal"
                found[f"{kind}-{signal}-{homophily}"] = Generated(words, settings)
            settings = columns | {"signal": strength}
            words = f"{'sparse words' if columns else 'dense'}, {signal} signal, heavy-tailed row lengths"
            found[f"{kind}-{signal}-heavy"] = Generated(words, settings, heavy_tailed)
    return found


_THREE = {"features": (20, 20, 20), "homophily": 0.5}
GENERATED: dict[str, Generated] = _grid() | {
    "noise": Generated("three parties, one of pure noise", _THREE, _last_party(_noise), parties=True),
    "no-noise": Generated("the same without the party of noise", _THREE, _without_last, parties=True),
    "zeros": Generated("three parties, one of zeros", _THREE, _last_party(np.zeros), parties=True),
    "narrow": Generated("parties of 24, 1, 2 and 3 columns", {"features": (24, 1, 2, 3)}, parties=True),
    "thin": Generated("16 parties of 1 to 3 columns", {"features": (1, 2, 3, 2) * 4}, parties=True),
    "two-classes": Generated("k = 2", {"n_classes": 2, "homophily": 0.8}),
    "few-nodes": Generated("200 nodes, fewer than 50 for each component", {"n_nodes": 200}),
}
NAMES = (*PUBLIC, *GENERATED)
_MADE: dict[str, Generated | Planted | Real] = GENERATED | OTHER | DRAWN | REAL


@lru_cache(maxsize=4)
def dataset(name: str) -> Dataset:
    """Load or generate a graph once for each process."""
    return _MADE[name].build(name) if name in _MADE else load(name)


def order(name: str) -> int:
    """Return the order ψ of the filter of a graph."""
    return _ORDER if name in _MADE else order_of(name)


def splits(name: str) -> tuple[str, ...]:
    """Return the ways in which the columns of a graph are split among parties."""
    return (GIVEN,) if name in _MADE and _MADE[name].parties else ("contiguous", "random")


def parties(name: str, count: int, split: str) -> list[Features]:
    """Return the tables of the parties."""
    data = dataset(name)
    if split == GIVEN:
        return data.parties()
    table = data.features
    if split == "random":
        place = np.random.RandomState(count).permutation(table.shape[1])
        table = sparse.csr_array(sparse.csc_array(table)[:, place]) if sparse.issparse(table) else table[:, place]
    return split_columns(table, count)


def described(name: str) -> str:
    """Return what a graph is, in words."""
    if name in _MADE:
        return _MADE[name].words
    return "the embedded graph" if name == EMBEDDED else "public"
