"""The engine for a GPU beside the local engine on the same machine: filter, projection, clusters, and a large graph.

It needs a GPU and CuPy, and nothing of the other benchmarks: `python -m benchmarks.gpu FILE`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse

from kcagc.engines import LOCAL, LocalEngine
from kcagc.engines.device_table import DeviceGraph
from kcagc.engines.gpu import GpuEngine
from kcagc.graph.filters import HalfFilter
from kcagc.graph.graph import Graph
from kcagc.metrics import ari

PSI, COLUMNS, CLUSTERS = 10, 64, 16
NODES, EDGES = 1_000_000, 10_000_000
LARGE_NODES, LARGE_EDGES = 10_000_000, 200_000_000


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
    return {"filter": found, "with transfers": timed(whole), "gathered bytes per second": moved / found["median"]}


def main(path: Path, *, large: bool) -> None:
    """Measure and write the figures."""
    import cupy  # noqa: PLC0415 - only where there is a GPU

    result: dict[str, Any] = {
        "card": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "cores": os.cpu_count(),
        "copy bytes per second": copy_rate(cupy),
    }
    print(result, flush=True)
    matrix, group = planted(cupy, NODES, EDGES, CLUSTERS, seed=1)
    graph = Graph.from_matrix(matrix)
    random = np.random.default_rng(2)
    table = random.normal(size=(NODES, COLUMNS)) + 0.7 * random.normal(size=(CLUSTERS, COLUMNS))[group]
    for dtype in (np.float32, np.float64):
        name, features = np.dtype(dtype).name, table.astype(dtype)
        result[name] = measure_filter(cupy, graph, features)
        print(name, result[name], flush=True)
        result[name] |= compare(cupy, graph, features, group)
        print(name, result[name], flush=True)
        path.write_text(json.dumps(result, indent=1))
    if large:
        del table, features, matrix, graph
        result["large"] = measure_large(cupy)
        print(result["large"], flush=True)
    path.write_text(json.dumps(result, indent=1))


def compare(cupy: Any, graph: Any, features: Any, group: Any) -> dict[str, Any]:
    """Time filter, projection and clusters by both engines, and compare what they return."""
    found: dict[str, Any] = {}
    labels = {}
    own = LocalEngine()
    own.name = "local on two cores"  # type: ignore[misc]
    for engine in (GpuEngine(xp=cupy), LOCAL, own):
        if engine is own:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
        for turn in range(3 if engine.name == "gpu" else 1):
            if engine.name == "gpu":
                engine = GpuEngine(xp=cupy)  # the graph must travel again  # noqa: PLW2901
            marks = [time.perf_counter()]
            smoothed = engine.smooth(HalfFilter(PSI), graph, features)
            cupy.cuda.Device().synchronize()
            marks.append(time.perf_counter())
            projection = engine.singular_vectors(smoothed, CLUSTERS)
            rows = engine.project(smoothed, projection, "unit")
            marks.append(time.perf_counter())
            clusters = engine.cluster(rows, CLUSTERS, n_init=10, seed=0)
            marks.append(time.perf_counter())
            parts = dict(zip(("filter", "projection", "clusters"), np.diff(marks).round(4).tolist(), strict=True))
            found[engine.name] = parts | {"all": round(marks[-1] - marks[0], 4)}
            labels[engine.name], found[f"inertia {engine.name}"] = clusters.labels, clusters.inertia
            print(engine.name, turn, found[engine.name], flush=True)
        if engine.name == "gpu":
            other = rows
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    found["largest difference of rows"] = float(np.abs(other - rows).max())
    found["ari of both"] = ari(labels["gpu"], labels["local"])
    found["ari of truth"] = ari(group, labels["gpu"])
    return found


def measure_large(cupy: Any) -> dict[str, Any]:
    """Filter, project and cluster a graph of 10,000,000 nodes and 200,000,000 edges in float32."""
    begin = time.perf_counter()
    matrix, group = planted(cupy, LARGE_NODES, LARGE_EDGES, CLUSTERS, seed=3)
    graph = SimpleNamespace(adjacency=matrix, n_nodes=LARGE_NODES, nodes=None)
    random = np.random.default_rng(4)
    features = random.standard_normal((LARGE_NODES, COLUMNS), dtype=np.float32)
    features += (0.7 * random.normal(size=(CLUSTERS, COLUMNS))).astype(np.float32)[group]
    print("large graph made", round(time.perf_counter() - begin, 1), matrix.nnz, flush=True)
    cupy.get_default_memory_pool().free_all_blocks()
    engine = GpuEngine(xp=cupy)
    pool = cupy.get_default_memory_pool()
    begin = time.perf_counter()
    smoothed = engine.smooth(HalfFilter(PSI), graph, features)
    cupy.cuda.Device().synchronize()
    filtered = time.perf_counter() - begin
    rows = engine.project(smoothed, engine.singular_vectors(smoothed, CLUSTERS), "unit")
    projected = time.perf_counter() - begin
    memory = pool.total_bytes()
    clusters = engine.cluster(rows, CLUSTERS, n_init=10, seed=0)
    seconds = {"filter": filtered, "projection": projected - filtered, "all": time.perf_counter() - begin}
    held = DeviceGraph(cupy, graph, features.dtype)
    block = cupy.asarray(features)

    def on_device() -> None:
        held.smooth(HalfFilter(PSI), block)
        cupy.cuda.Device().synchronize()

    return {
        "entries": int(matrix.nnz),
        "seconds": {name: round(one, 3) for name, one in seconds.items()},
        "filter on the device": timed(on_device, 3),
        "bytes on the device": int(max(memory, pool.total_bytes())),
        "ari of truth": ari(group, clusters.labels),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), large="--large" in sys.argv)
