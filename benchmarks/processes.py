"""Many organisations on one machine: each party a process with mutual TLS and a journal, on a public graph.

Usage: python benchmarks/processes.py [--parties 16] [--dataset cora] [--local-clusters k] [--keep]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from kcagc.datasets import load
from kcagc.datasets.catalog import EMBEDDED, entry
from kcagc.deployment.examples import write_examples
from kcagc.deployment.trial import Trial
from kcagc.metrics import accuracy

RESULTS = Path(__file__).parent / "results" / "processes.json"


def main() -> None:
    """Measure what was asked for, and print it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--dataset", default="cora")
    options.add_argument("--parties", type=int, default=16)
    options.add_argument("--local-clusters", default="k")
    options.add_argument("--keep", action="store_true", help="keep the figures in benchmarks/results")
    asked = options.parse_args()
    figures, _ = measure(asked.dataset, asked.parties, asked.local_clusters)
    for name, value in figures.items():
        print(f"{name:28} {value}")
    if asked.keep:
        RESULTS.write_text(json.dumps(figures, indent=2) + "\n")


def measure(name: str, parties: int, local_clusters: str) -> tuple[dict[str, object], np.ndarray]:
    """Run all roles as processes, and read what they left; give the figures, and the cluster of each node."""
    data = load(name)
    psi = 2 if name == EMBEDDED else entry(name).paper.psi
    names = [f"party-{number:02}" for number in range(1, parties + 1)]
    # One thread a process: there are more processes than cores.
    os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        trial = Trial(where, names, n_clusters=data.n_classes, psi=psi)
        trial.set("random_state", 0)
        trial.set("n_local_clusters", local_clusters)
        write_examples(data, trial.configs, names)
        begin = time.perf_counter()
        with trial.running() as processes:
            for _ in processes.lines():
                pass
        seconds = time.perf_counter() - begin
        runs = [json.loads((where / one / "result" / "run.json").read_text()) for one in names]
        found = {}
        for one in names:
            lines = (where / one / "result" / "labels.csv").read_text().splitlines()[1:]
            found[one] = tuple(lines)
        if len(set(found.values())) != 1:
            raise RuntimeError("the parties do not have the same labels")
        clusters = {line.rpartition(",")[0]: int(line.rpartition(",")[2]) for line in found[names[0]]}
    labels = np.array([clusters[f"person-{number:03}"] for number in range(data.n_nodes)])
    rounds = max(run["rounds"] for run in runs)
    in_sums = max(run["seconds_in_sums"] for run in runs)
    figures = {
        "dataset": name,
        "parties": parties,
        "local clusters": local_clusters,
        "accuracy %": round(100 * accuracy(data.labels, labels), 2),
        "seconds, processes included": round(seconds, 2),
        "seconds of the slowest run": max(run["seconds"] for run in runs),
        "seconds in sums": in_sums,
        "rounds of a party": rounds,
        "milliseconds a round": round(1000 * in_sums / max(rounds, 1), 2),
        "MB sent by a party, at most": round(max(run["bytes_sent"] for run in runs) / 1e6, 3),
        "commit": _commit(),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
    }
    return figures, labels


def _commit() -> str:
    asked = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    main()
