"""The engine on a Dask cluster: a table larger than all workers together, one lost worker, and the local engine."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from distributed import Client, LocalCluster
from scipy import sparse

from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.tables import NOTHING, table
from kcagc.engines import LOCAL
from kcagc.engines.dask import FILTERING, DaskEngine
from kcagc.graph.filters import HalfFilter
from kcagc.graph.graph import Graph
from kcagc.metrics import ari

if TYPE_CHECKING:
    from experiments.paper.plots import Figures
    from experiments.paper.store import Book

CLUSTERS, WORKERS, MEMORY = 16, 2, "2.5GiB"
_ROWS = 1 << 15  # rows of the table that are drawn at a time


def planted(nodes: int, edges: int, seed: int) -> tuple[Graph, np.ndarray]:
    """Return a graph with communities, its nodes in random order, and the community of each node.

    Nine of ten edges lie inside a community.
    """
    random = np.random.default_rng(seed)
    group = random.integers(CLUSTERS, size=nodes)
    order, sizes = np.argsort(group, kind="stable"), np.bincount(group)
    first = np.cumsum(sizes) - sizes
    source = random.integers(nodes, size=edges)
    inside = order[first[group[source]] + (random.random(edges) * sizes[group[source]]).astype(np.int64)]
    target = np.where(random.random(edges) < 0.9, inside, random.integers(nodes, size=edges))
    del inside
    apart = source != target
    key = np.unique(np.minimum(source, target)[apart] * nodes + np.maximum(source, target)[apart])
    low, high = (key // nodes).astype(np.int32), (key % nodes).astype(np.int32)
    del key, source, target
    half = sparse.csr_array((np.ones(len(low)), (low, high)), shape=(nodes, nodes))
    matrix = sparse.csr_array(half + half.T)
    matrix.sort_indices()
    return Graph(matrix), group


def write_table(path: Path, group: np.ndarray, columns: int, seed: int) -> np.ndarray:
    """Write a table as a file, some rows at a time, and return it mapped from there."""
    random = np.random.default_rng(seed)
    centers = 0.7 * random.normal(size=(CLUSTERS, columns))
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (len(group), columns)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(group), _ROWS):
            some = group[start : start + _ROWS]
            file.write((random.standard_normal((len(some), columns)) + centers[some]).data)
    found: np.ndarray = np.load(path, mmap_mode="r")
    return found


def own_memory(name: str) -> int:
    """Return a figure of this process in bytes: "VmHWM", the peak, or "RssAnon", what no file holds."""
    line = next(one for one in Path("/proc/self/status").read_text("utf-8").splitlines() if one.startswith(name))
    return int(line.split()[1]) << 10


class PeakMemory:
    """The largest memory of this process without mapped files, inside a block."""

    def __enter__(self) -> PeakMemory:
        self.bytes, self._end = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.1):
            self.bytes = max(self.bytes, own_memory("RssAnon"))


def worker_memory() -> tuple[int, int]:
    """Return, on a worker, the number of its process and its peak memory."""
    return own_memory("Pid") >> 10, own_memory("VmHWM")


def measure(engine: Any, graph: Graph, features: np.ndarray, psi: int) -> tuple[dict[str, float], Any]:
    """Time filter, projection and clusters; return what was found too."""
    marks = [time.perf_counter()]
    smoothed = engine.smooth(HalfFilter(psi), graph, features, CLUSTERS)
    marks.append(time.perf_counter())
    rows = engine.project(smoothed, engine.singular_vectors(smoothed, CLUSTERS), "unit")
    marks.append(time.perf_counter())
    clusters = engine.cluster(rows, CLUSTERS, n_init=10, seed=0)
    marks.append(time.perf_counter())
    parts = dict(zip(("filter", "projection", "clusters"), np.diff(marks).round(2).tolist(), strict=True))
    return parts | {"all": round(marks[-1] - marks[0], 2)}, (rows, clusters)


def on_cluster(graph: Graph, features: np.ndarray, folder: Path, psi: int, *, kill: bool = False) -> tuple[Result, Any]:
    """Run the engine on two limited workers; with `kill`, one is killed after the first filtered columns."""
    cluster = LocalCluster(
        n_workers=WORKERS,
        threads_per_worker=1,
        memory_limit=MEMORY,
        security=True,
        dashboard_address="127.0.0.1:0",
        local_directory=str(folder),
    )
    with cluster, Client(cluster, set_as_default=False) as client, PeakMemory() as party:
        before = {found[0] for found in client.run(worker_memory).values()}
        engine = DaskEngine(client=client)
        totals: dict[str, int] = {}

        def progress(stage: str, done: int, total: int) -> None:
            totals[stage] = total
            if kill and stage == FILTERING and done == 1:
                os.kill(min(before), signal.SIGKILL)

        engine.on_progress = progress
        parts, found = measure(engine, graph, features, psi)
        after = client.run(worker_memory).values()
        engine.close()
    result = {
        "seconds": parts,
        "worker_bytes": sorted(held for _, held in after),
        "workers_lost": len(before - {number for number, _ in after}),
        "party_bytes": party.bytes,
        "slices": totals[FILTERING],
    }
    return result, found


def compute(cell: Config) -> Result:
    """Measure one size."""
    nodes, edges, columns, psi = cell["nodes"], cell["edges"], cell["columns"], cell["psi"]
    with tempfile.TemporaryDirectory() as folder:
        graph, group = planted(nodes, edges, seed=1)
        features = write_table(Path(folder) / "table.npy", group, columns, seed=2)
        result, (rows, clusters) = on_cluster(graph, features, Path(folder), psi)
        result |= {"edges": graph.n_edges, "bytes": features.nbytes, "ari_to_truth": ari(group, clusters.labels)}
        if not cell["compare"]:
            return result
        killed, (_, other) = on_cluster(graph, features, Path(folder), psi, kill=True)
        local, (own_rows, own) = measure(LOCAL, graph, np.asarray(features), psi)
    return result | {
        "killed": killed,
        "local": local,
        "largest_difference": float(np.abs(rows - own_rows).max()),
        "ari_to_local": ari(own.labels, clusters.labels),
        "ari_after_kill": ari(clusters.labels, other.labels),
        "same_after_kill": bool(np.array_equal(clusters.labels, other.labels)),
    }


def cells(options: Options) -> list[Config]:
    """Return the sizes: one that the local engine can do too, and one larger than all workers together."""
    if options.quick:
        return [{"nodes": 20_000, "edges": 200_000, "columns": 64, "psi": 10, "compare": True}]
    return [
        {"nodes": 200_000, "edges": 2_000_000, "columns": 128, "psi": 10, "compare": True},
        {"nodes": 2_000_000, "edges": 20_000_000, "columns": 512, "psi": 2, "compare": False},
    ]


def render(book: Book, figures: Figures) -> str:
    """Return the table."""
    rows = []
    for config, found in sorted(book["dask"].all(), key=lambda one: one[0]["nodes"]):
        seconds, local = found["seconds"], found.get("local")
        size = f"{config['nodes']:,} nodes, {config['edges']:,} edges, {config['columns']} columns"
        rows.append(
            [
                f"{size}, ψ = {config['psi']}",
                f"{found['bytes'] / 2**30:.2f}",
                f"{seconds['filter']:.1f}",
                f"{seconds['projection']:.1f}",
                f"{seconds['clusters']:.1f}",
                f"{seconds['all']:.1f}",
                NOTHING if local is None else f"{local['all']:.1f}",
                " and ".join(f"{held / 2**30:.2f}" for held in found["worker_bytes"]),
                f"{found['party_bytes'] / 2**30:.2f}",
                NOTHING if local is None else f"{found['ari_to_local']:.4f}",
                NOTHING if local is None else f"{found['ari_after_kill']:.4f}",
                f"{found['ari_to_truth']:.4f}",
            ]
        )
    header = ["", "table, GiB", "filter, s", "projection, s", "clusters, s", "all, s", "local engine, s"]
    header += ["peak of each worker, GiB", "party, GiB", "ARI to local", "ARI after a kill", "ARI to the truth"]
    compared = [found for _, found in book["dask"].all() if "local" in found]
    difference = max((one["largest_difference"] for one in compared), default=0.0)
    return (
        f"A party's own work with {CLUSTERS} clusters in float64, on a generated graph with communities "
        f"whose nodes are in random order: a cluster on this machine with {WORKERS} workers of one thread, limited to "
        f"{MEMORY[:-3]} GiB of memory each. Party and workers share the cores of this machine, so the times say what "
        "the way over files costs, and not what a cluster gains; other work used the machine "
        "too. The party maps its table from a file; its memory is "
        "that of the graph and of the projected rows, without mapped files. Projected rows differ from those of the "
        f"local engine by at most {difference:.0e}. *After a kill*: a worker was killed when the first columns were "
        "filtered, and the labels are compared with those of the run without.\n\n" + table(header, rows, left=1)
    )


BENCHMARK = Experiment("dask", "A party's own work on a Dask cluster", cells, compute, render, alone=True)
