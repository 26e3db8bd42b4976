"""The cells of the study, and the computation of one of them.

The reference is AGC on the pooled columns: exact projection to k dimensions, rows of unit length, ten restarts. A
method is as good as it can be if it agrees with the reference as well as the reference with another seed does.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from experiments.joint import graphs
from experiments.paper.experiment import PUBLIC, Config, Options, Result
from kcagc import AGC, KCAGC
from kcagc._types import IntArray
from kcagc.errors import KcagcError
from kcagc.metrics import accuracy, ari

METHODS: dict[str, dict[str, Any]] = {
    "shares": {"method": "joint"},
    "coordinator": {"method": "joint", "joint_rows": "coordinator"},
    "cells": {"method": "cells"},
    "tree": {"method": "tree"},
    "basic": {"method": "basic"},
}
ALONE, POOLED, REFERENCE = "alone", "pooled", "reference"
PARTIES = (2, 16, 4, 8)  # the ends first
REFERENCES = 5  # runs of the reference, with different seeds
FAN_IN = 4  # a tree of fewer parties is one merge, as with cells
LARGE = ("pubmed",)  # too large for the method basic, which also takes minutes with more than four parties
SEEDS = 3
# Public data. Narrow tables are revealed by local labels; rows without names open to the coordinator.
_PLAIN = {"weighting": "none"}  # the study compares ways to join parties on the same numbers
_ACCEPT = ("revealing-labels", "anonymous-geometry")


def cells(options: Options) -> list[Config]:
    """Return all cells: seed by seed, public graphs first, so that an interrupted run has what matters most."""
    names = options.datasets or graphs.NAMES
    found: list[Config] = []
    for seed in range(1 if options.quick else options.seeds):
        if seed == 0:
            found += [{"graph": name, "method": REFERENCE} for name in names]
        found += [{"graph": name, "method": POOLED, "seed": seed} for name in names]
        for public in (True, False):
            for count in options.thinned((2,), PARTIES):
                for name in names:
                    if (name in PUBLIC) == public:
                        found += [one | {"seed": seed} for one in _of_graph(name, count)]
    return found


def _of_graph(name: str, count: int) -> Iterator[Config]:
    """Yield the cells of a graph for one number of parties; a graph whose parties are given has one number only."""
    for split in graphs.splits(name):
        if split == graphs.GIVEN:
            if count != PARTIES[0]:
                continue
            count = len(graphs.dataset(name).party_columns)
        common: Config = {"graph": name, "parties": count, "split": split}
        yield common | {"method": ALONE}
        for method in METHODS:
            small = name not in LARGE and count <= FAN_IN
            if (method != "tree" or count > FAN_IN) and (method != "basic" or small):
                yield common | {"method": method}


def compute(cell: Config) -> Result:
    """Compute one cell: agreement with the reference (ARI), and accuracy in per cent."""
    name, method = cell["graph"], cell["method"]
    if method == REFERENCE:
        own = [ari(one, other) for one, other in combinations(reference(name), 2)]
        return {"self": float(np.mean(own)), "accuracy": _mean_accuracy(name, reference(name))}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # runs that stop before they converge
            found = _labels(cell)
    except KcagcError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    own = [ari(one, labels) for one in reference(name) for labels in found]
    return {"ari": float(np.mean(own)), "accuracy": _mean_accuracy(name, found)}


def _labels(cell: Config) -> list[IntArray]:
    """Return the labels of a method, or those of every party alone."""
    name, seed = cell["graph"], cell["seed"]
    data = graphs.dataset(name)
    common: dict[str, Any] = {"n_clusters": data.n_classes, "psi": graphs.order(name), "random_state": seed} | _PLAIN
    if cell["method"] == POOLED:
        return [AGC(**common, method="joint").fit(data.features, adjacency=data.adjacency).labels_]
    tables = graphs.parties(name, cell["parties"], cell["split"])
    if cell["method"] == ALONE:
        return [AGC(**common, scaling="unit").fit(table, adjacency=data.adjacency).labels_ for table in tables]
    model = KCAGC(**common, **METHODS[cell["method"]], accept=_ACCEPT)
    return [model.fit(tables, adjacency=data.adjacency).labels_]


@lru_cache(maxsize=4)
def reference(name: str) -> list[IntArray]:
    """Return the labels of the reference for several seeds, which no other run uses."""
    data = graphs.dataset(name)
    options: dict[str, Any] = {"n_clusters": data.n_classes, "psi": graphs.order(name), "scaling": "unit"} | _PLAIN
    return [
        AGC(**options, random_state=1000 + seed).fit(data.features, adjacency=data.adjacency).labels_
        for seed in range(REFERENCES)
    ]


def _mean_accuracy(name: str, found: list[IntArray]) -> float:
    return round(100 * float(np.mean([accuracy(graphs.dataset(name).labels, labels) for labels in found])), 3)
