"""Measurements without other roles: centralised AGC, the local work of parties, filter and projection by size.

Every function runs in a separate process of a fork server and returns plain JSON.
"""

from __future__ import annotations

import gc
import json
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from experiments.paper.configurations import order_of
from kcagc.baselines import AGC
from kcagc.cluster import fit_kmeans, fit_projection
from kcagc.data import read_party
from kcagc.datasets import generate, load
from kcagc.graph import Graph, HalfFilter
from kcagc.metrics import accuracy
from kcagc.protocol.local import PartyData, compute_local
from kcagc.protocol.parameters import RunSettings


def call(asked: dict[str, Any]) -> int:
    """Call a function by its name and write its result."""
    function: Callable[..., Any] = globals()[asked["function"]]
    Path(asked["result"]).write_text(json.dumps(function(**asked["plan"])), encoding="utf-8")
    return 0


def agc(name: str, scaling: str, seed: int) -> float:
    """Return the seconds of centralised AGC on all columns pooled: filter, projection, k-means with ten restarts."""
    data = load(name)
    model = AGC(n_clusters=data.n_classes, psi=order_of(name), scaling=scaling, random_state=seed)
    graph, warm = Graph(data.adjacency), min(100, data.n_nodes)
    model.fit(data.features[:warm], adjacency=data.adjacency[:warm][:, :warm])  # loads the libraries
    begin = time.perf_counter()
    model.fit(data.features, adjacency=graph)
    return time.perf_counter() - begin


def local_work(name: str, n_parties: int, settings: dict[str, Any]) -> list[float]:
    """Return the seconds of every party's local work, one party after the other, alone on the machine."""
    data = load(name)
    graph = Graph(data.adjacency)
    return [_local(graph, table, n_parties, settings) for table in data.parties(n_parties)]


def local_work_of_files(features: str, graph: str, n_parties: int, settings: dict[str, Any]) -> dict[str, float]:
    """Return the seconds of one party's local work on its files, and of reading them."""
    begin = time.perf_counter()
    files = read_party(features, graph, party="alone")
    read = time.perf_counter() - begin
    return {"reading": read, "seconds": _local(files.graph, files.features, n_parties, settings)}


def _local(graph: Graph, table: Any, n_parties: int, settings: dict[str, Any]) -> float:
    known = {name: value for name, value in settings.items() if name not in ("accept", "random_state")}
    session = RunSettings.read(known)
    parameters = session.resolve(n_parties)
    data = PartyData.build("alone", graph, table, session.graph_filter())
    gc.collect()
    begin = time.perf_counter()
    compute_local(data, parameters, 0)
    return time.perf_counter() - begin


def write_tables(folder: str, n_nodes: int, degree: int, columns: int, n_parties: int, n_clusters: int) -> list[str]:
    """Generate a graph and a table for each party, and write them as files: Parquet and a sparse matrix."""
    import pyarrow as arrow  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415

    where = Path(folder)
    data = generate(
        n_nodes, n_clusters, degree=degree, features=(columns,) * n_parties, homophily=0.5, signal=2.0, seed=0
    )
    sparse.save_npz(where / "graph.npz", data.adjacency, compressed=False)
    np.savez(where / "labels.npz", labels=data.labels)
    names = []
    for number, table in enumerate(data.parties()):
        names.append(str(where / f"party-{number + 1}.parquet"))
        content = arrow.table({f"f{column}": np.ascontiguousarray(table[:, column]) for column in range(columns)})
        parquet.write_table(content, names[-1], compression="none", use_dictionary=False)
    return names


def filter_time(features: str, graph: str, psi: int) -> float:
    """Return the nanoseconds of the filter for each edge, column and step, on all cores."""
    files = read_party(features, graph, party="alone")
    gc.collect()
    begin = time.perf_counter()
    HalfFilter(psi).apply(files.graph, files.features)
    spent = time.perf_counter() - begin
    return 1e9 * spent / (files.graph.n_edges * files.features.shape[1] * psi)


def stages(n_nodes: int, degree: int, columns: int, n_clusters: int, psi: int, dtype: str) -> dict[str, Any]:
    """Return the seconds and the memory of filter, projection and k-means on a generated graph."""
    base = peak_bytes()
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(stage: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        seconds[stage] = round(time.perf_counter() - begin, 4)

    with timed("generate"):
        data = generate(n_nodes, n_clusters, degree=degree, features=columns, homophily=0.5, signal=2, seed=0)
    graph, labels = Graph(data.adjacency), data.labels
    features = data.features.astype(dtype, copy=False)
    del data
    held = features.nbytes + sum(
        part.nbytes for part in (graph.adjacency.data, graph.adjacency.indices, graph.adjacency.indptr)
    )
    with timed("filter"):
        filtered = HalfFilter(psi).apply(graph, features)
    with timed("projection"):
        rows = fit_projection(filtered, n_clusters).transform(filtered)
    del filtered
    with timed("k-means"):
        found = fit_kmeans(rows, n_clusters, n_init=10, random_state=0)
    return {
        "edges": graph.n_edges,
        "seconds": seconds,
        "filter_ns": 1e9 * seconds["filter"] / (graph.n_edges * columns * psi),
        "accuracy": round(100 * accuracy(labels, found.labels), 2),
        "input_bytes": held,
        "base_bytes": base,
        "peak_bytes": peak_bytes(),
        "numpy": np.__version__,
    }


def peak_bytes() -> int:
    """Return the largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
