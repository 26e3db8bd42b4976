"""What one party's local work costs: filter, projection, k-means on generated graphs of 10,000 to 1,000,000 nodes.

Each size runs in a process of its own, so that its peak memory is its own. Prints a table, checks the promises that
belong to it, and keeps the figures with the commit and the machine in benchmarks/results/foundation.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "foundation.json"
SIZES = (10_000, 100_000, 1_000_000)
DEGREE, FEATURES, CLUSTERS, ORDER = 20, 64, 16, 10
GIB = 2**30


def measure(n_nodes: int, dtype: str, starts: int) -> dict[str, Any]:
    """Run the three stages on one graph and take the time of each and the peak memory of all."""
    import numpy as np  # noqa: PLC0415 - in the child alone

    from kcagc.cluster import fit_projection, kmeans  # noqa: PLC0415
    from kcagc.datasets import generate  # noqa: PLC0415
    from kcagc.graph import Graph, HalfFilter  # noqa: PLC0415
    from kcagc.metrics import accuracy  # noqa: PLC0415

    base = peak_bytes()
    seconds = {}

    @contextmanager
    def timed(stage: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        seconds[stage] = time.perf_counter() - begin

    with timed("generate"):
        data = generate(n_nodes, CLUSTERS, degree=DEGREE, features=FEATURES, homophily=0.5, signal=2, seed=0)
    graph = Graph(data.adjacency)
    features = data.features.astype(dtype, copy=False)
    labels = data.labels
    del data
    input_bytes = features.nbytes + sum(
        part.nbytes for part in (graph.adjacency.data, graph.adjacency.indices, graph.adjacency.indptr)
    )
    generated = peak_bytes()
    with timed("filter"):
        filtered = HalfFilter(ORDER).apply(graph, features)
    with timed("projection"):
        rows = fit_projection(filtered, CLUSTERS).transform(filtered)
    del filtered
    with timed("kmeans"):
        found = kmeans(rows, CLUSTERS, n_init=starts, random_state=0)
    return {
        "nodes": n_nodes,
        "edges": graph.n_edges,
        "features": FEATURES,
        "psi": ORDER,
        "clusters": CLUSTERS,
        "starts": starts,
        "dtype": dtype,
        "seconds": {stage: round(value, 3) for stage, value in seconds.items()},
        "filter_ns_per_edge_feature_psi": 1e9 * seconds["filter"] / (graph.n_edges * FEATURES * ORDER),
        "kmeans_iterations_of_best_start": found.n_iter,
        "accuracy": round(accuracy(labels, found.labels), 4),
        "import_bytes": base,
        "input_bytes": input_bytes,
        "peak_after_generating_bytes": generated,
        "peak_bytes": peak_bytes(),
        "numpy": np.__version__,
    }


def peak_bytes() -> int:
    """Give the largest resident size of this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def run_child(n_nodes: int, dtype: str, starts: int) -> dict[str, Any]:
    """Measure in a fresh process."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", str(n_nodes), dtype, str(starts)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def show(row: dict[str, Any]) -> None:
    """Print one line of the table."""
    took = row["seconds"]
    print(
        f"{row['nodes']:>9,} {row['edges']:>10,}  {row['dtype']:7} {took['generate']:8.2f} {took['filter']:8.2f} "
        f"{took['projection']:8.2f} {took['kmeans']:8.2f} "
        f"{row['filter_ns_per_edge_feature_psi']:7.2f} {row['input_bytes'] / GIB:7.2f} {row['peak_bytes'] / GIB:7.2f} "
        f"{100 * row['accuracy']:7.1f}",
        flush=True,
    )


def check(rows: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Compare with what is promised for the float64 runs."""
    by_size = {row["nodes"]: row for row in rows if row["dtype"] == "float64"}
    if not set(SIZES) <= set(by_size):
        return []
    middle, large = by_size[100_000], by_size[1_000_000]
    slower = large["filter_ns_per_edge_feature_psi"] / middle["filter_ns_per_edge_feature_psi"]
    grown = (large["peak_bytes"] - large["import_bytes"]) / (middle["peak_bytes"] - middle["import_bytes"])
    return [
        (
            f"peak memory at 1,000,000 nodes: {large['peak_bytes'] / GIB:.2f} GiB, at most 6",
            large["peak_bytes"] <= 6 * GIB,
        ),
        (f"filter time per edge, feature and step, 1M against 100k: {slower:.2f} times, at most 3", slower <= 3),
        (f"memory from 100k to 1M nodes: {grown:.1f} times, linear is 10", grown <= 11),
    ]


def git_commit() -> str:
    """Name the commit that was measured, with + where the tree has changes."""
    here = Path(__file__).parent
    try:
        commit = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],  # noqa: S607
            cwd=here,
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit.stdout.strip()


def main() -> int:
    """Measure every size, print as it goes, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of nodes")
    parser.add_argument("--starts", type=int, default=10, help="starts of k-means (its default is 10)")
    parser.add_argument("--child", nargs=3, metavar=("NODES", "DTYPE", "STARTS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        nodes, dtype, starts = options.child
        print(json.dumps(measure(int(nodes), dtype, int(starts))))
        return 0

    print(
        f"{FEATURES} features, degree {DEGREE}, filter order {ORDER}, k = {CLUSTERS}, {options.starts} starts; "
        f"{os.cpu_count()} cores; seconds and GiB\n"
        f"{'nodes':>9} {'edges':>10}  {'type':7} {'generate':>8} {'filter':>8} {'project':>8} {'k-means':>8} "
        f"{'ns/efψ':>7} {'input':>7} {'peak':>7} {'acc %':>7}"
    )
    rows = []
    for nodes, dtype in [(nodes, "float64") for nodes in options.sizes] + [(max(options.sizes), "float32")]:
        rows.append(run_child(nodes, dtype, options.starts))
        show(rows[-1])
    promises = check(rows)
    for promise, kept in promises:
        print(f"{'ok  ' if kept else 'MISS'} {promise}")
    if promises:  # a run of all sizes; others are for looking only
        RESULTS.parent.mkdir(exist_ok=True)
        about = {
            "commit": git_commit(),
            "measured": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "scipy": metadata.version("scipy"),
            "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        }
        RESULTS.write_text(
            json.dumps(about | {"promises": [list(one) for one in promises], "rows": rows}, indent=2) + "\n"
        )
        print(f"kept in {RESULTS.relative_to(Path(__file__).parent.parent)}")
    return 0 if all(kept for _, kept in promises) else 1


if __name__ == "__main__":
    sys.exit(main())
