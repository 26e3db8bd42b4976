"""The graph filter beside that of version 0.5.0, in turns, and its share of this machine's memory bandwidth.

`KCAGC_OLD=FOLDER make bench NAME=filter` measures both; it needs a machine without other work.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from benchmarks.presentation import Target, targets_table
from benchmarks.versions import CHECKOUT, COMMIT, missing
from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.plots import Figures
from experiments.paper.store import ROOT, Book
from experiments.paper.tables import table
from kcagc.datasets import generate

NODES, DEGREE, COLUMNS, COMMUNITIES, ORDER = 1_000_000, 20, 64, 16, 10
LIMIT = 1 / 1.5
_COPY = 1 << 26  # numbers of each thread that measures the bandwidth
# Runs in a process of each version: reads the graph and the columns, filters, prints the seconds.
_SCRIPT = """
import sys, time
import numpy as np
from scipy import sparse
from kcagc.graph import Graph, HalfFilter
folder, dtype, psi = sys.argv[1], sys.argv[2], int(sys.argv[3])
graph = Graph(sparse.csr_array(sparse.load_npz(folder + "/graph.npz")))
columns = np.load(folder + "/columns.npy").astype(dtype)
HalfFilter(1).apply(Graph.from_edges([0], [1]), np.ones((2, 2), dtype=dtype))
begin = time.perf_counter()
found = HalfFilter(psi).apply(graph, columns)
spent = time.perf_counter() - begin
np.save(sys.argv[4], found[:: max(1, len(found) // 1000)])
print(spent)
"""


def cells(options: Options) -> list[Config]:
    """Return both types of numbers."""
    nodes = 20_000 if options.quick else NODES
    turns = 1 if options.quick else 6
    return [
        {"nodes": nodes, "dtype": dtype, "degree": DEGREE, "columns": COLUMNS, "psi": ORDER, "turns": turns}
        for dtype in ("float32", "float64")
    ]


def compute(cell: Config) -> Result:
    """Run both versions in turns, each in a process of its own, on the same files."""
    versions = {"new": ROOT} | ({"old": Path(os.environ[CHECKOUT])} if not missing() else {})
    spent: dict[str, list[float]] = {name: [] for name in versions}
    bandwidth = []
    with tempfile.TemporaryDirectory() as folder:
        data = generate(
            cell["nodes"], COMMUNITIES, degree=cell["degree"], features=cell["columns"], homophily=0.5, signal=2, seed=0
        )
        sparse.save_npz(Path(folder) / "graph.npz", data.adjacency, compressed=False)
        np.save(Path(folder) / "columns.npy", data.features)
        entries = data.adjacency.nnz + cell["nodes"]
        del data
        for _ in range(cell["turns"]):
            bandwidth.append(copy_bandwidth())
            for name, place in versions.items():
                spent[name].append(_seconds(place, folder, cell, name))
        rows = {name: np.load(Path(folder) / f"{name}.npy") for name in versions}
    size = np.dtype(cell["dtype"]).itemsize
    moved = cell["psi"] * cell["columns"] * size * (entries + 2 * cell["nodes"])  # rows of neighbours, and results
    result: Result = {
        "seconds": {name: [round(one, 3) for one in several] for name, several in spent.items()},
        "bandwidth": round(max(bandwidth)),
        "gathered": round(moved / min(spent["new"])),
        "threads": os.cpu_count(),
    }
    if "old" in rows:
        result["largest_difference"] = float(np.abs(rows["new"] - rows["old"]).max() / np.abs(rows["old"]).max())
    return result


def _seconds(place: Path, folder: str, cell: Config, name: str) -> float:
    command = [sys.executable, "-c", _SCRIPT, folder, cell["dtype"], str(cell["psi"]), f"{folder}/{name}.npy"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(place / "src")}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the filter of {place.name} failed:\n{done.stderr[-2000:]}")
    return float(done.stdout)


def copy_bandwidth() -> float:
    """Return the bytes per second that all cores together read and write while they copy memory."""
    count = os.cpu_count() or 1
    pairs = [(np.ones(_COPY // count), np.zeros(_COPY // count)) for _ in range(count)]
    spent = []
    for _ in range(4):
        threads = [threading.Thread(target=np.copyto, args=(into, of)) for of, into in pairs]
        begin = time.perf_counter()
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        spent.append(time.perf_counter() - begin)
    return 16 * (_COPY // count) * count / min(spent)


def ratio(result: Result) -> float:
    """Return the least time of this version divided by that of version 0.5.0: other work only makes them longer."""
    return min(result["seconds"]["new"]) / min(result["seconds"]["old"])


def render(book: Book, figures: Figures) -> str:
    """Return the targets and the table."""
    found = sorted(book["filter"].all(), key=lambda one: one[0]["dtype"])
    wanted = [
        Target(f"filter in {config['dtype']}: time ÷ version 0.5.0", ratio(result), LIMIT, "×")
        for config, result in found
        if "old" in result["seconds"]
    ]
    rows = []
    for config, result in found:
        old = result["seconds"].get("old")
        rows.append(
            [
                f"{config['nodes']:,} nodes, {config['nodes'] * config['degree'] // 2:,} edges",
                config["dtype"],
                f"{min(old):.2f}" if old else "–",
                f"{min(result['seconds']['new']):.2f}",
                f"{1 / ratio(result):.2f} ×" if old else "–",
                f"{result['gathered'] / 1e9:.1f}",
                f"{result['bandwidth'] / 1e9:.1f}",
                f"{100 * result['gathered'] / result['bandwidth']:.0f} %",
                f"{result['largest_difference']:.0e}" if old else "–",
            ]
        )
    header = ["", "", "0.5.0, s", "now, s", "faster", "gathered, GB/s", "copy, GB/s", "share", "largest difference"]
    cores = found[0][1]["threads"]
    return (
        f"{COLUMNS} columns, ψ={ORDER}, {cores} cores, on a generated graph with communities whose nodes are in random "
        f"order. Both versions ran in turns on the same files, in processes of their own; version 0.5.0 is commit "
        f"`{COMMIT}`. The seconds are the least of all turns, since other work on the machine only makes them longer. "
        "*Gathered* counts every row of a neighbour that a product reads, and the results. *Copy* is what all cores "
        "together read and write while they copy memory. A row of a neighbour lies anywhere in memory: one or two "
        "lines of the cache for each access. The largest difference is relative to the largest value. The cache of "
        "this machine is shared with other guests. At another hour, when they left room there, narrow blocks were "
        "faster: 6.0 s instead of 9.9 s of version 0.5.0 in float32, 12.3 s instead of 16.0 s in float64 (commit "
        "`73f5d65`).\n\n" + (targets_table(wanted) + "\n" if wanted else "") + table(header, rows, left=2)
    )


BENCHMARK = Experiment(
    "filter", "The graph filter beside version 0.5.0", cells, compute, render, alone=True, missing=missing
)
