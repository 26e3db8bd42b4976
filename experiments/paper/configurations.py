"""The configurations that every table compares, and the clustering of a dataset with one of them."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

from experiments.paper.experiment import Config, Result
from kcagc import KCAGC
from kcagc.datasets import Dataset, load
from kcagc.datasets.catalog import EMBEDDED, entry
from kcagc.metrics import accuracy, macro_f1, nmi

CONFIGURATIONS = {
    "paper": (
        "`KCAGC.paper`: U, q = k, ten restarts of at most ten iterations, binary tree, the last party as aggregator"
    ),
    "converged": "`KCAGC.paper(max_iter=100)`: the same, run to convergence",
    "default": (
        "`KCAGC` with local clusters: rows of unit length, tree of fan-in 4, to convergence, a coordinator that "
        "learns no labels, no weights of columns"
    ),
    "joint": (
        "`KCAGC` as it is by default, with the paper's ψ: joint method, weights of columns. It has no local "
        "clusters, so the same figure is compared with all rows of the paper"
    ),
    "auto": "`KCAGC(n_clusters=k)`, nothing else set: the same, with ψ by search",
}
SHOWN = {"paper": "KCAGC.paper", "converged": "… converged", "default": "KCAGC"}


@lru_cache(maxsize=4)
def dataset(name: str) -> Dataset:
    """Load a graph once for each process."""
    return load(name)


def order_of(name: str) -> int:
    """Return the paper's ψ for a dataset; 2 for a dataset that the paper does not use."""
    return 2 if name == EMBEDDED else entry(name).paper.psi


def estimator(configuration: str, data: Dataset, *, seed: int, **changes: Any) -> KCAGC:
    """Return the estimator of a configuration for a dataset."""
    chosen = {"n_clusters": data.n_classes, "psi": order_of(data.name), "random_state": seed} | changes
    if configuration == "default":
        # Many parties have few columns each, and their labels reveal some of them: the data are public.
        return KCAGC(**({"accept": ("revealing-labels",), "weighting": "none"} | chosen))
    if configuration == "auto":
        chosen["psi"] = "auto"
    if configuration in ("joint", "auto"):
        return KCAGC(**chosen)
    if configuration == "converged":
        chosen |= {"max_iter": 100}
    return KCAGC.paper(**chosen)


def fit(cell: Config, **changes: Any) -> Result:
    """Cluster as a cell describes: `dataset`, `configuration`, `parties`, `method`, `local` (k̂) and `seed`."""
    data = dataset(cell["dataset"])
    chosen = {"method": cell["method"]}
    if cell["method"] not in ("basic", "joint"):
        chosen = {"n_local_clusters": cell["local"]}
    if cell["method"] not in ("basic", "joint", "kcagc"):  # "kcagc" chooses between flat cells and a tree by L
        chosen["method"] = {"flat": "cells", "tree": "tree"}[cell["method"]]
    model = estimator(cell["configuration"], data, seed=cell["seed"], **(chosen | changes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # with the paper's Q, runs stop before they converge
        model.fit(data.parties(cell["parties"]), adjacency=data.adjacency)
    return scores(data, model.labels_) | {
        "iterations": model.n_iter_,
        "converged": bool(model.converged_),
        "rounds": model.rounds_,
        "cells": model.cells_,
        "secure_sums": sum(one.distances for one in model.merges_),
        "megabytes": round(model.bytes_sent_ / 1e6, 3),
    }


def scores(data: Dataset, labels: Any) -> Result:
    """Return accuracy, NMI and macro F1 in per cent."""
    truth = data.labels
    return {
        "accuracy": round(100 * accuracy(truth, labels), 3),
        "nmi": round(100 * nmi(truth, labels), 3),
        "f1": round(100 * macro_f1(truth, labels), 3),
    }
