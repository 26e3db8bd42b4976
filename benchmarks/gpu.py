"""The engine for a GPU beside the local engine on the same machine: filter, projection, clusters, and a large graph.

A machine with a GPU may lack the rest of what benchmarks need. There, `python -m benchmarks.gpu FILE --commit NAME`
measures and writes a file; here, `python -m benchmarks.gpu FILE --keep` adds it to the kept figures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.tables import NOTHING, table
from kcagc.engines import LOCAL
from kcagc.engines.device_table import DeviceGraph
from kcagc.engines.gpu import GpuEngine
from kcagc.graph.filters import HalfFilter
from kcagc.graph.graph import Graph
from kcagc.metrics import ari

if TYPE_CHECKING:
    from experiments.paper.plots import Figures
    from experiments.paper.store import Book

PSI, COLUMNS, CLUSTERS = 10, 64, 16
NODES, EDGES = 1_000_000, 10_000_000
LARGE_NODES, LARGE_EDGES = 10_000_000, 200_000_000
TURNS = 5


def planted(cupy: Any, nodes: int, edges: int, communities: int, seed: int) -> tuple[Any, Any]:
    """Return a graph with communities, its nodes in random order, and the community of each node.

    Nine of ten edges lie inside a community. The graph is made on the GPU, which sorts faster.
    """
    random = cupy.random.default_rng(seed)
    group = cupy.asarray(np.random.default_rng(seed).integers(communities, size=nodes).astype(np.int32))
    order = cupy.argsort(group)
    starts = cupy.searchsorted(group[order], cupy.arange(communities + 1))
    source = random.integers(0, nodes, size=edges, dtype=np.int64)
    first, count = starts[group[source]], cupy.diff(starts)[group[source]]
    inside = order[first + (random.random(edges, dtype=np.float32) * count).astype(np.int64) % count]
    target = cupy.where(random.random(edges, dtype=np.float32) < 0.9, inside, random.integers(0, nodes, size=edges))
    key = cupy.unique(cupy.concatenate([source * nodes + target, target * nodes + source]))
    del source, target, inside, first, count
    row, column = key // nodes, (key % nodes).astype(np.int32)
    del key
    keep = row != column
    row, column = row[keep], column[keep]
    pointers = cupy.zeros(nodes + 1, dtype=np.int64)
    pointers[1:] = cupy.cumsum(cupy.bincount(row, minlength=nodes))
    indices, starts_of = column.get(), pointers.get()
    del row, column, keep, pointers
    cupy.get_default_memory_pool().free_all_blocks()
    if len(indices) < 2**31:
        starts_of = starts_of.astype(np.int32)
    matrix = sparse.csr_array((np.ones(len(indices), dtype=np.float32), indices, starts_of), shape=(nodes, nodes))
    matrix.has_canonical_format = True
    return matrix, group.get()


def timed(function: Callable[[], Any], times: int = 5) -> dict[str, float]:
    """Return the median and the least of some calls, in seconds; the first one fills caches."""
    function()
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        function()
        taken.append(time.perf_counter() - begin)
    return {"median": round(median(taken), 4), "least": round(min(taken), 4)}


def copy_rate(cupy: Any) -> float:
    """Return the bytes per second that a copy on the GPU reads and writes."""
    source = cupy.zeros(1 << 29, dtype=np.float64)
    target = cupy.empty_like(source)

    def copy() -> None:
        target[...] = source
        cupy.cuda.Device().synchronize()

    return 2 * source.nbytes / timed(copy)["median"]


def measure_filter(cupy: Any, graph: Any, features: Any) -> dict[str, Any]:
    """Time the filter on the GPU, with and without the way there and back."""
    engine, chosen = GpuEngine(xp=cupy), HalfFilter(PSI)
    held = DeviceGraph(cupy, graph, features.dtype)
    block = cupy.asarray(features)

    def on_device() -> None:
        held.smooth(chosen, block)
        cupy.cuda.Device().synchronize()

    def whole() -> None:
        engine.smooth(chosen, graph, features)
        cupy.cuda.Device().synchronize()

    found = timed(on_device)
    entries = graph.adjacency.nnz + graph.n_nodes
    moved = PSI * (entries * features.shape[1] * features.dtype.itemsize + 4 * entries + features.nbytes)
    return {"filter": found, "with_transfers": timed(whole), "gathered_bytes_per_second": moved / found["median"]}


def measure_parts(engine: Any, graph: Any, features: Any, finish: Callable[[], None]) -> tuple[dict[str, float], Any]:
    """Time the filter, the projection and the clusters of an engine; return what it found too."""
    marks = [time.perf_counter()]
    smoothed = engine.smooth(HalfFilter(PSI), graph, features)
    finish()
    marks.append(time.perf_counter())
    rows = engine.project(smoothed, engine.singular_vectors(smoothed, CLUSTERS), "unit")
    marks.append(time.perf_counter())
    clusters = engine.cluster(rows, CLUSTERS, n_init=10, seed=0)
    marks.append(time.perf_counter())
    parts = dict(zip(("filter", "projection", "clusters"), np.diff(marks).round(4).tolist(), strict=True))
    return parts | {"all": round(marks[-1] - marks[0], 4)}, (rows, clusters)


def measure_million(cupy: Any, dtype: str) -> Result:
    """Measure filter, projection and clusters of a million nodes with both engines, and compare what they find."""
    matrix, group = planted(cupy, NODES, EDGES, CLUSTERS, seed=1)
    graph = Graph.from_matrix(matrix)
    random = np.random.default_rng(2)
    features = random.normal(size=(NODES, COLUMNS)) + 0.7 * random.normal(size=(CLUSTERS, COLUMNS))[group]
    features = features.astype(dtype)
    turns = []
    for _ in range(TURNS + 1):  # each with a new engine, to which the graph travels again; the first one compiles
        parts, (rows, clusters) = measure_parts(GpuEngine(xp=cupy), graph, features, cupy.cuda.Device().synchronize)
        turns.append(parts)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:2])
    local, (own_rows, own_clusters) = measure_parts(LOCAL, graph, features, lambda: None)
    os.sched_setaffinity(0, cores)
    return measure_filter(cupy, graph, features) | {
        "gpu": {name: round(median(turn[name] for turn in turns[1:]), 4) for name in local},
        "first": turns[0]["all"],
        "local": local,
        "largest_difference": float(np.abs(rows - own_rows).max()),
        "ari_to_local": ari(own_clusters.labels, clusters.labels),
        "ari_to_truth": ari(group, clusters.labels),
    }


def measure_large(cupy: Any, dtype: str) -> Result:
    """Filter, project and cluster a graph of 10,000,000 nodes and 200,000,000 edges."""
    matrix, group = planted(cupy, LARGE_NODES, LARGE_EDGES, CLUSTERS, seed=3)
    graph = SimpleNamespace(adjacency=matrix, n_nodes=LARGE_NODES)
    random = np.random.default_rng(4)
    features = random.standard_normal((LARGE_NODES, COLUMNS), dtype=np.float32).astype(dtype, copy=False)
    features += (0.7 * random.normal(size=(CLUSTERS, COLUMNS))).astype(dtype)[group]
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    parts, (_, clusters) = measure_parts(GpuEngine(xp=cupy), graph, features, cupy.cuda.Device().synchronize)
    return measure_filter(cupy, graph, features) | {
        "gpu": parts,
        "entries": int(matrix.nnz),
        "bytes_on_gpu": int(pool.total_bytes()),
        "ari_to_truth": ari(group, clusters.labels),
    }


def cells(options: Options) -> list[Config]:
    """Return what is measured with a GPU, and nothing without: a million nodes in both types, and a large graph."""
    if missing():
        return []
    million: list[Config] = [{"size": "million", "dtype": dtype} for dtype in ("float32", "float64")]
    return million[:1] if options.quick else [*million, {"size": "large", "dtype": "float32"}]


def compute(cell: Config) -> Result:
    """Measure one cell on this machine's GPU."""
    cupy = import_module("cupy")
    measure = measure_million if cell["size"] == "million" else measure_large
    return {"copy_bytes_per_second": copy_rate(cupy), **measure(cupy, cell["dtype"])}


def missing() -> str:
    """Return what this machine lacks."""
    try:
        count = import_module("cupy").cuda.runtime.getDeviceCount()
    except Exception as error:
        return f"no GPU here ({error}); figures of another machine are kept"
    return "" if count else "no GPU here; figures of another machine are kept"


def render(book: Book, figures: Figures) -> str:
    """Return the table."""
    rows = []
    for config, found in book["gpu"].all():
        million = config["size"] == "million"
        gpu, local = found["gpu"], found.get("local")
        rate, limit = found["gathered_bytes_per_second"], found["copy_bytes_per_second"]
        times = local["all"] / gpu["all"] if local else None
        rows.append(
            [
                f"{NODES:,} nodes, {EDGES:,} edges" if million else f"{LARGE_NODES:,} nodes, {LARGE_EDGES:,} edges",
                config["dtype"],
                f"{found['filter']['median']:.4f}",
                f"{rate / 1e12:.2f} ({100 * rate / limit:.0f} %)",
                f"{gpu['filter']:.3f}",
                f"{gpu['projection']:.3f}",
                f"{gpu['clusters']:.3f}",
                f"{gpu['all']:.3f}",
                NOTHING if times is None else f"{local['all']:.1f}",
                NOTHING if times is None else f"{times:.0f} ×",
                f"{found['bytes_on_gpu'] / 2**30:.1f}" if "bytes_on_gpu" in found else NOTHING,
            ]
        )
    header = [
        "",
        "",
        "filter alone, s",
        "gathered, TB/s (of a copy)",
        "filter, s",
        "projection, s",
        "clusters, s",
        "all, s",
        "local engine, s",
        "ratio",
        "memory, GiB",
    ]
    found = [result for _, result in book["gpu"].all()]
    limit = median(one["copy_bytes_per_second"] for one in found)
    difference = max((one["largest_difference"] for one in found if "largest_difference" in one), default=0.0)
    agreement = min((one["ari_to_local"] for one in found if "ari_to_local" in one), default=1.0)
    return (
        f"A party's own work on {COLUMNS} columns with ψ = {PSI} and {CLUSTERS} clusters, on a generated graph with "
        f"communities whose nodes are in random order. *Filter alone*: graph and columns are on the GPU. All other "
        "columns start and end in the memory of the host, with a new engine each time; medians after a first turn that "
        "compiles. *Gathered* counts every row of a neighbour that a product reads. The limit is what a copy on this "
        f"card reads and writes, {limit / 1e12:.1f} TB/s; more is possible, because some rows are read from the cache. "
        "The local engine has two cores of the same machine. The rows of both engines differ by at most "
        f"{difference:.0e}, and their clusters agree with an ARI of {agreement:.4f}.\n\n" + table(header, rows, left=2)
    )


BENCHMARK = Experiment("gpu", "A party's own work on a GPU", cells, compute, render, alone=True, missing=missing)


def origin(commit: str) -> dict[str, Any]:
    """Return where figures of this machine come from."""
    cupy = import_module("cupy")
    card = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    return {
        "commit": commit,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("numpy", "scipy")} | {"cupy": cupy.__version__},
        "machine": f"one {card}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "when": datetime.now(UTC).date().isoformat(),
    }


def keep(path: Path) -> None:
    """Add the figures of a file to those of this repository."""
    from benchmarks.page import RESULTS  # noqa: PLC0415 - not on a machine that only measures
    from experiments.paper.store import Records  # noqa: PLC0415

    measured = json.loads(path.read_text(encoding="utf-8"))
    records = Records(RESULTS / "gpu.json", lambda: measured["origin"])
    for one in measured["cells"]:
        records.add(one["config"], one["result"], one["seconds"])


def main() -> None:
    """Measure, or keep what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--commit", default="unknown", help="the commit that is measured")
    parser.add_argument("--keep", action="store_true", help="add the figures of FILE to benchmarks/results")
    asked = parser.parse_args()
    if asked.keep:
        keep(asked.file)
        return
    done: list[dict[str, Any]] = []
    for cell in cells(Options()):
        begin = time.perf_counter()
        result = compute(cell)
        print(cell, result, flush=True)
        done.append({"config": cell, "result": result, "seconds": time.perf_counter() - begin})
        asked.file.write_text(json.dumps({"origin": origin(asked.commit), "cells": done}), encoding="utf-8")


if __name__ == "__main__":
    main()
