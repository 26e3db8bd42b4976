"""The cells of the study of settings, and the computation of one of them.

Most settings are compared on pooled columns, where a fit takes a tenth of a second. The collaboration itself is run for
the last comparison only: the defaults of today with those of version 0.5.0.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from experiments.joint import graphs
from experiments.joint.planted import DRAWN, OTHER, counts, words
from experiments.joint.real import REAL
from experiments.paper.experiment import PUBLIC, Config, Options, Result
from kcagc import AGC, KCAGC
from kcagc.baselines import GCC, MS2CAG, S2GC
from kcagc.cluster.search import PSI_GRID
from kcagc.datasets import Dataset
from kcagc.datasets.catalog import entry
from kcagc.errors import KcagcError
from kcagc.graph.graph import Graph
from kcagc.metrics import accuracy, modularity, nmi

ORDERS = (1, 2, 3, 5, 8, 20, 45, 12, 30, 0, 60)  # those of the search first
SEARCHES = 3  # seeds of the search
SHOWN_SEEDS = 3  # of the baselines
BASELINES: dict[str, Any] = {"AGC": AGC, "GCC": GCC, "S2GC": S2GC, "MS2CAG": MS2CAG}
RESTARTS = (1, 3, 10, 30)
PARTIES = (2, 16)
TODAY, BEFORE = "today", "0.5.0"
_NOT_USED = ("zeros",)  # no method clusters a party of zeros
CHOSEN = tuple(name for name in graphs.GENERATED if name not in _NOT_USED)
KINDS = {
    "public": PUBLIC,
    "chosen": CHOSEN,
    "other": tuple(OTHER),
    "drawn": tuple(DRAWN),
    "real": tuple(REAL),
}
NAMES = tuple(name for names in KINDS.values() for name in names)
LARGE = "wordnet-nouns"  # one seed, and no collaborations
MANY = (PUBLIC[0], *tuple(DRAWN)[::3])  # the graphs of collaborations of 16 parties, which take longest
PARTS = ("order", "search", "run", "baseline", "restarts", "adaptive")


def cells(options: Options) -> list[Config]:
    """Return all cells, so ordered that an interrupted study has a complete smaller table."""
    names = options.datasets or tuple(name for name in NAMES if name not in REAL or REAL[name].available())
    small = tuple(name for name in names if name != LARGE)
    orders = options.thinned((1, 5), ORDERS)
    found: list[Config] = []
    for seed in range(1 if options.quick else SEARCHES):
        some = small if seed else names
        found += [{"part": "search", "graph": name, "weighting": "auto", "seed": seed} for name in some]
    found += _orders(names, orders, "unit", 0) + _runs(small, PARTIES[0])
    found += [{"part": "search", "graph": name, "weighting": "none", "seed": 0} for name in small if weighted(name)]
    public = options.datasets or PUBLIC
    for seed in range(1 if options.quick else SHOWN_SEEDS):
        found += [
            {"part": "baseline", "graph": one, "method": how, "seed": seed} for one in public for how in BASELINES
        ]
    found += _orders(small, [psi for psi in orders if psi in PSI_GRID], "U", 0)
    found += [{"part": "restarts", "graph": name, "restarts": count, "seed": 0} for name in small for count in RESTARTS]
    adaptive = [name for name in names if name in CHOSEN or name not in NAMES]  # it takes long
    found += [{"part": "adaptive", "graph": name, "seed": 0} for name in adaptive]
    if not options.quick:
        found += _runs([name for name in names if name in MANY], PARTIES[1])
    return found + [{"part": "adaptive", "graph": name, "seed": 0} for name in names if name in PUBLIC[:2]]


def weighted(name: str) -> bool:
    """Return whether the default weighting may change a graph's table: generated real numbers are never weighted."""
    planted = OTHER | DRAWN
    if name in planted:
        return planted[name].columns in (words, counts)
    if name in REAL:
        return REAL[name].text
    return name not in graphs.GENERATED or (name.startswith("words") and "heavy" not in name)


def _orders(names: Iterable[str], orders: Iterable[int], scaling: str, seed: int) -> list[Config]:
    """Return fits of pooled columns at each order, with and without weights where these make a difference."""
    common: Config = {"part": "order", "scaling": scaling, "seed": seed}
    return [
        common | {"weighting": weighting, "graph": name, "psi": psi}
        for weighting in ("auto", "none")
        for name in names
        if weighting == "auto" or weighted(name)
        for psi in orders
    ]


def _runs(names: Sequence[str], count: int) -> list[Config]:
    """Return the collaborations of so many parties; a graph whose parties are given has one number only."""
    found: list[Config] = []
    for name in sorted(names, key=lambda one: count > PARTIES[0] and one in PUBLIC):  # they are slow: last
        split = graphs.splits(name)[-1]
        if split == graphs.GIVEN:
            if count != PARTIES[0]:
                continue
            parties = len(graphs.dataset(name).party_columns)
        else:
            parties = count
        where: Config = {"part": "run", "graph": name, "parties": parties, "split": split}
        found += [where | {"defaults": one, "seed": 0} for one in (TODAY, BEFORE)]
    return found


def compute(cell: Config) -> Result:
    """Compute one cell: accuracy in per cent, and what belongs to its part."""
    data = graphs.dataset(cell["graph"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # runs that stop before they converge
        try:
            return _PARTS[cell["part"]](cell, data)
        except KcagcError as error:
            return {"error": f"{type(error).__name__}: {error}"}


def refused(result: Result) -> bool:
    """Return whether a cell ended with an error; the standard errors of a search are no text."""
    return isinstance(result.get("error"), str)


def _order(cell: Config, data: Dataset) -> Result:
    """Fit pooled columns at one order."""
    how: dict[str, Any] = {"method": "joint"} if cell["scaling"] == "unit" else {"scaling": cell["scaling"]}
    model = AGC(data.n_classes, psi=cell["psi"], weighting=cell["weighting"], random_state=cell["seed"], **how)
    labels = model.fit(data.features, adjacency=data.adjacency).labels_
    return _scores(data, labels) | {"modularity": round(float(modularity(data.adjacency, labels)), 5)}


def _search(cell: Config, data: Dataset) -> Result:
    """Search for the order, and measure the time of a fit with the search and of one without."""
    model = AGC(data.n_classes, weighting=cell["weighting"], method="joint", random_state=cell["seed"])
    graph = Graph.from_matrix(data.adjacency)
    fixed = model.set_params(psi=5).fit(data.features, adjacency=graph)
    seconds = []
    for psi in ("auto", 5):
        fixed = model.set_params(psi=psi)
        begin = time.perf_counter()
        fixed.fit(data.features, adjacency=graph)
        seconds.append(round(time.perf_counter() - begin, 4))
        if psi == "auto":
            found, labels = asdict(fixed.psi_search_), fixed.labels_
    return _scores(data, labels) | {**found, "auto_seconds": seconds[0], "fixed_seconds": seconds[1]}


def _adaptive(cell: Config, data: Dataset) -> Result:
    """Choose the order by the rule of AGC's paper, with its settings."""
    begin = time.perf_counter()
    model = AGC(data.n_classes, weighting="none", random_state=cell["seed"])
    model.fit(data.features, adjacency=data.adjacency)
    return _scores(data, model.labels_) | {"psi": model.psi_, "auto_seconds": round(time.perf_counter() - begin, 3)}


def _baseline(cell: Config, data: Dataset) -> Result:
    """Fit a baseline at the order of its authors."""
    order: dict[str, Any] = {}
    if cell["method"] == "AGC":
        order = {"psi": entry(data.name).paper.psi if data.name in PUBLIC else 5, "weighting": "none"}
    elif cell["method"] == "GCC":
        order = {"power": {"cora": 12, "citeseer": 5, "wiki": 4, "pubmed": 150}.get(data.name, 5)}
    model = BASELINES[cell["method"]](n_clusters=data.n_classes, random_state=cell["seed"], **order)
    return _scores(data, model.fit(data.features, adjacency=data.adjacency).labels_)


def _restarts(cell: Config, data: Dataset) -> Result:
    """Fit pooled columns with so many restarts of k-means."""
    model = AGC(data.n_classes, psi=5, scaling="unit", n_init=cell["restarts"], random_state=cell["seed"])
    return _scores(data, model.fit(data.features, adjacency=data.adjacency).labels_)


def _run(cell: Config, data: Dataset) -> Result:
    """Run a collaboration with the defaults of today or of version 0.5.0."""
    tables = graphs.parties(data.name, cell["parties"], cell["split"])
    how: dict[str, Any] = {}
    if cell["defaults"] == BEFORE:
        how = {"method": "cells" if cell["parties"] <= 3 else "tree", "psi": 5, "weighting": "none"}
    # Public data: local labels of narrow tables may be revealed.
    model = KCAGC(n_clusters=data.n_classes, random_state=cell["seed"], accept=("revealing-labels",), **how)
    model.fit(tables, adjacency=data.adjacency)
    search = getattr(model, "psi_search_", None)
    return _scores(data, model.labels_) | {"psi": 5 if search is None else search.psi}


def _scores(data: Dataset, labels: Any) -> Result:
    return {
        "accuracy": round(100 * float(accuracy(data.labels, labels)), 3),
        "nmi": round(100 * float(nmi(data.labels, labels)), 3),
    }


_PARTS = {
    "order": _order,
    "search": _search,
    "adaptive": _adaptive,
    "baseline": _baseline,
    "restarts": _restarts,
    "run": _run,
}
