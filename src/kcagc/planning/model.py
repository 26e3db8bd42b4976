"""Time and memory of every role: counts of what it computes, times coefficients that were fitted to measured runs.

`coefficients.json` holds the coefficients, the commit and the machine of the runs; `benchmarks/plan.py` fits them.
`calibrate` measures in about a second how much faster or slower this machine is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from importlib import resources
from typing import Any

import msgspec
import numpy as np

from kcagc.cluster.kmeans import KMEANS_ALL, KMEANS_SAMPLE
from kcagc.cluster.lloyd import one_blas_thread
from kcagc.graph.filters import HalfFilter
from kcagc.graph.graph import Graph
from kcagc.graph.laplacian import BLOCK_COLUMNS
from kcagc.planning.traffic import Task, Traffic
from kcagc.protocol.label_policy import MEASURED_COLUMNS, MEASURED_NODES

Counts = dict[str, float]

ASSUMED_PSI = 5  # of the fit, if the parties search for ψ
_CACHE = 12_800_000  # bytes of a block of columns from which on a product waits for memory
_VALUE = 8  # bytes of a number
_FILTER = ("products", "far products")  # work that several cores share
_PROBED = {"products": "near", "far products": "far"}  # which probe tells the speed; all others: "algebra"


class Coefficients(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds and bytes for each unit of what is counted, and where they come from.

    `party` and `coordinator` are seconds of one core for each unit of work, `waiting` seconds in which no role
    computes, `memory` bytes for each unit, and `probes` the seconds of the probes of `calibrate` on that machine.
    """

    commit: str
    when: str
    machine: str
    party: dict[str, float]
    coordinator: dict[str, float]
    waiting: dict[str, float]
    memory: dict[str, float]
    probes: dict[str, float]


@lru_cache(maxsize=1)
def coefficients() -> Coefficients:
    """Return the stored coefficients."""
    text = resources.files("kcagc.planning").joinpath("coefficients.json").read_bytes()
    return msgspec.json.decode(text, type=Coefficients)


def steps(task: Task) -> tuple[int, int]:
    """Return how many times all columns, and how many times the components, are multiplied by the graph."""
    parameters = task.parameters
    if parameters.orders:
        return 1 + ASSUMED_PSI, max(parameters.orders)
    digits = parameters.filter.partition("psi=")[2].partition(",")[0].rstrip(")")
    return (int(digits) if digits.isdecimal() else ASSUMED_PSI), 0


def party_work(task: Task, found: Traffic, number: int) -> Counts:
    """Count what a party computes, and reads from memory."""
    parameters, n, columns, q = task.parameters, task.nodes, task.columns, task.components
    entries = n + 2 * task.edges
    of_columns, of_components = steps(task)
    products = float(entries) * (columns * of_columns + q * of_components)
    block = _VALUE * n * min(columns, BLOCK_COLUMNS)
    far = max(0.0, 1.0 - _CACHE / block)
    counts = {
        "start": 1.0,
        "products": products,
        "far products": products * far,  # what they take more
        "algebra": float(n) * columns * (min(columns, n) + q),
        "nodes": float(n),
        "graph": float(entries),
        "values": float(n) * columns,
        "words": float(found.words[number]),
        "blinded words": float(found.blinded[number]),
        "multiplications": float(found.products[number]),
        "sums": float(found.sums),
    }
    if parameters.has_local_clusters:
        k = parameters.n_local_clusters
        restarts = n if n <= KMEANS_ALL else KMEANS_SAMPLE
        observed = min(n, MEASURED_NODES * (1.0 + 2.0 * task.edges / n))
        counts["restarts"] = float(restarts) * k * q
        counts["assignments"] = float(n) * k
        counts["measured labels"] = observed * k
        counts["measured columns"] = float(min(columns, MEASURED_COLUMNS)) * min(n, MEASURED_NODES)
    if parameters.method == "joint" and task.sample < n:  # mixtures with an exact covariance, and scores
        counts["algebra"] += float(n) * q * (2 * q + parameters.n_clusters)
    return counts


def coordinator_work(found: Traffic) -> Counts:
    """Count what the coordinator computes."""
    return {
        "start": 1.0,
        "words": float(found.words[-1]),
        "multiplications": float(found.products[-1]),
        "bytes": float(found.sent[-1] + found.received[-1]),
        "sums": float(found.sums),
    }


def held(task: Task, found: Traffic) -> Counts:
    """Count what a party holds in memory at its peak."""
    return {
        "start": 1.0,
        "table": float(_VALUE * task.nodes * task.columns),
        "graph": 12.0 * (task.nodes + 2 * task.edges),
        "rows": float(_VALUE * task.nodes * task.components),
        "nodes": float(_VALUE * task.nodes),
        "messages": float(found.sent[0] + found.received[0]),
    }


def held_by_coordinator(found: Traffic) -> Counts:
    """Count what the coordinator holds in memory at its peak."""
    return {"coordinator": 1.0, "of coordinator": float(found.sent[-1] + found.received[-1])}


def total(counts: Counts, each: Mapping[str, float], faster: Mapping[str, float] | None = None) -> float:
    """Return the sum of counts times coefficients; `faster` holds the factors of a machine by probe."""
    return sum(
        count * each.get(name, 0.0) * (faster or {}).get(_PROBED.get(name, "algebra"), 1.0)
        for name, count in counts.items()
    )


def shared_by_cores(counts: Counts) -> tuple[Counts, Counts]:
    """Return the work that several cores share, and the rest."""
    shared = {name: count for name, count in counts.items() if name in _FILTER}
    return shared, {name: count for name, count in counts.items() if name not in _FILTER}


# The speed of this machine


def calibrate() -> dict[str, float]:
    """Return by what factor this machine is slower than the one of the coefficients, for each kind of work."""
    stored = coefficients().probes
    return {name: spent / stored[name] for name, spent in probe().items() if stored.get(name)}


def probe() -> dict[str, float]:
    """Return the seconds of three small tasks of one core: products within a cache, beyond it, and dense algebra."""
    random = np.random.default_rng(0)
    found = {}
    for name, n, psi in (("near", 20_000, 8), ("far", 400_000, 1)):
        graph = Graph.from_edges(random.integers(n, size=6 * n), random.integers(n, size=6 * n), n_nodes=n)
        columns = random.standard_normal((n, BLOCK_COLUMNS))
        found[name] = _least(partial(HalfFilter(psi).apply, graph, columns, n_threads=1))
    rows = random.standard_normal((60_000, 96))
    with one_blas_thread():
        found["algebra"] = _least(partial(np.matmul, rows.T, rows))
    return found


def _least(call: Callable[[], Any]) -> float:
    """Return the seconds of the fastest of three times: others may use the machine."""
    spent = []
    for _ in range(3):
        begin = time.perf_counter()
        call()
        spent.append(time.perf_counter() - begin)
    return min(spent)
