"""Runs whose results must not change by accident: their labels, rounds, secure sums, messages and bytes.

`test_recorded.py` compares the current code with the recording of an earlier version. To record another version, run
`KCAGC_DATA=folder python tests/recorded/record.py tests/recorded/VERSION.json` with that version on the path.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np

import kcagc
from kcagc import KCAGC
from kcagc.datasets import load

# Version 0.5.0 sent local clusters of any size, and weighted no columns.
DEMO_SETTINGS = {"n_clusters": 5, "psi": 2, "min_local_size": 1, "random_state": 0, "method": "cells"}
PUBLIC_SETTINGS = DEMO_SETTINGS | {"n_clusters": 7, "psi": 9, "weighting": "none"}
PARTY_AGGREGATOR = {"aggregator": "party", "accept": ("two-party-sum", "labelled-sums")}
PAPER_SETTINGS = PARTY_AGGREGATOR | {"n_local_clusters": "k", "scaling": "U", "fan_in": 2, "max_iter": 10}

# Name of the run: dataset, number of parties, settings of the estimator, share of the nodes held back for prediction.
RUNS = {
    "demo: cells": ("demo", 3, DEMO_SETTINGS, 0.0),
    "demo: basic": ("demo", 3, DEMO_SETTINGS | {"method": "basic"}, 0.0),
    "demo: party as aggregator": ("demo", 3, DEMO_SETTINGS | PARTY_AGGREGATOR, 0.0),
    "demo: paper": ("demo", 3, DEMO_SETTINGS | PAPER_SETTINGS, 0.0),
    "demo: prediction": ("demo", 3, DEMO_SETTINGS, 0.1),
    "cora: cells, 2 parties": ("cora", 2, PUBLIC_SETTINGS, 0.0),
    "cora: basic, 2 parties": ("cora", 2, PUBLIC_SETTINGS | {"method": "basic"}, 0.0),
    "cora: party as aggregator, 2 parties": ("cora", 2, PUBLIC_SETTINGS | PARTY_AGGREGATOR, 0.0),
    "cora: tree, 4 parties": ("cora", 4, PUBLIC_SETTINGS | {"method": "tree", "fan_in": 2}, 0.0),
    "cora: prediction, 2 parties": ("cora", 2, PUBLIC_SETTINGS, 0.1),
}


def observe(name: str) -> dict[str, dict[str, object]]:
    """Return what a run of this name produces: one entry for the fit and, where nodes are held back, the prediction."""
    dataset, n_parties, settings, held_back = RUNS[name]
    data = load(dataset)
    order = np.random.RandomState(0).permutation(data.n_nodes) if held_back else np.arange(data.n_nodes)
    n_known = round((1 - held_back) * data.n_nodes)
    tables = [table[order] for table in data.parties(n_parties)]
    graph = data.adjacency[order][:, order]
    model = KCAGC(**settings).fit([table[:n_known] for table in tables], adjacency=graph[:n_known, :n_known])
    found = {
        "fit": {
            "labels": digits(model.labels_),
            "rounds": model.rounds_,
            "iterations": model.n_iter_,
            "cells": model.cells_,
            "secure sums": model.secure_sums_,
            **traffic(model.ledger_),
        }
    }
    if held_back:
        labels = model.predict(tables, adjacency=graph)
        sums = {"labels": digits(labels), "secure sums": model.prediction_sums_}
        found["prediction"] = sums | traffic(model.prediction_ledger_)
    return found


def digits(labels: np.ndarray) -> str:
    """Return labels below ten as one string of digits."""
    if labels.min() < 0 or labels.max() > 9:
        raise ValueError("labels outside 0 to 9 have no single digit")
    return "".join(map(str, labels))


def traffic(ledger: object) -> dict[str, dict[str, int]]:
    """Return the number of messages and bytes that each role sent, and their totals."""
    messages: Counter[str] = Counter()
    n_bytes: Counter[str] = Counter()
    for disclosure in ledger:
        if disclosure.kind.startswith("message/"):
            messages[disclosure.sender] += 1
            n_bytes[disclosure.sender] += disclosure.bytes
    return {
        "messages": {"total": messages.total(), **dict(sorted(messages.items()))},
        "bytes": {"total": n_bytes.total(), **dict(sorted(n_bytes.items()))},
    }


def main(target: Path) -> None:
    """Record all runs with the version of kcagc that is imported."""
    source = Path(kcagc.__file__).parent
    commit = subprocess.run(
        ["git", "-C", source, "rev-parse", "HEAD"],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    recording = {"version": kcagc.__version__, "commit": commit, "runs": {name: observe(name) for name in RUNS}}
    target.write_text(json.dumps(recording, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
