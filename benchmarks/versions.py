"""Cost of comparisons by sign: the same runs by version 0.5.0, whose aggregator saw rows of blinded distances."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import CONFIGURATIONS
from benchmarks.presentation import Target, targets_table
from experiments.paper.configurations import SHOWN
from experiments.paper.experiment import PUBLIC, Config, Experiment, Options, Result
from experiments.paper.plots import Figures
from experiments.paper.store import ROOT, Book
from experiments.paper.tables import table

COMMIT = "430e9a0"  # version 0.5.0
CHECKOUT = "KCAGC_OLD"  # the environment variable with the folder of a checkout of that commit
LIMIT = 2.0


def cells(options: Options) -> list[Config]:
    """Return both networks and configurations; k̂ is the default of each, 2k for two parties and k for more."""
    return [
        {"network": network, "dataset": name, "configuration": one, "parties": parties, "local": local}
        | {"turns": 1 if options.quick or network == "wan" else 3}  # delays hardly vary
        for network in options.thinned(("lan",), ("wan", "lan"))
        for name in (options.pick("cora", "wiki") if options.datasets or not options.quick else ("cora",))
        for parties in options.thinned((2,), (2, 4, 16))
        for one in options.thinned(("default",), CONFIGURATIONS)
        for local in ("2k" if one == "default" and parties == 2 else "k",)
    ]


def compute(cell: Config) -> Result:
    """Measure both versions in turns, each in processes of its own."""
    folders = {"new": ROOT} | ({"old": Path(os.environ[CHECKOUT])} if not missing() else {})
    found: dict[str, list[dict[str, Any]]] = {version: [] for version in folders}
    for _ in range(cell["turns"]):
        for version, folder in folders.items():
            found[version].append(_measured(folder, cell))
    return {
        version: {
            "seconds": [one["seconds"] for one in runs],
            "rounds": runs[0]["rounds"],
            "messages": runs[0]["critical_path"]["messages"],
            "megabytes": round(sum(runs[0]["bytes_sent"].values()) / 1e6, 3),
            "cpu_seconds": round(median(sum(one["cpu_seconds"].values()) for one in runs), 2),
            "accuracy": runs[0]["accuracy"],
        }
        for version, runs in found.items()
    }


def _measured(folder: Path, cell: Config) -> dict[str, Any]:
    names = ("dataset", "parties", "local", "network", "configuration")
    command = [sys.executable, "-m", "experiments.paper.network", *(str(cell[name]) for name in names)]
    path = os.pathsep.join([str(folder / "src"), str(folder)])
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])} failed in {folder.name}:\n{done.stderr[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def ratios(result: Result) -> dict[str, float]:
    """Return delays, bytes and seconds of a run, divided by those of version 0.5.0."""
    new, old = result["new"], result["old"]
    return {
        "delays": new["messages"] / old["messages"],
        "bytes": new["megabytes"] / old["megabytes"],
        "seconds": median(ours / theirs for ours, theirs in zip(new["seconds"], old["seconds"], strict=True)),
    }


def render(book: Book, figures: Figures) -> str:
    """Return the worst ratios and the table."""
    both = [(config, result) for config, result in book["versions"].all() if "old" in result]
    if not both:
        return f"Not compared: {missing() or 'no run of both versions is stored'}.\n"
    far = [(config, result) for config, result in both if config["network"] == "wan"] or both
    targets = [
        Target("one-way delays ÷ version 0.5.0, most of all", max(ratios(one)["delays"] for _, one in far), LIMIT, "×"),
        Target("bytes ÷ version 0.5.0, most of all", max(ratios(one)["bytes"] for _, one in both), LIMIT, "×"),
    ]
    rows = []
    order = {name: number for number, name in enumerate(("lan", "wan", *PUBLIC))}
    for config, result in sorted(
        both, key=lambda one: (order[one[0]["network"]], one[0]["dataset"], one[0]["parties"], one[0]["configuration"])
    ):
        new, old, ratio = result["new"], result["old"], ratios(result)
        rows.append(
            [
                config["network"].upper(),
                config["dataset"],
                f"L={config['parties']}, k̂={config['local']}",
                f"`{SHOWN[config['configuration']]}`",
                f"{old['rounds']} → {new['rounds']}",
                f"{old['messages']} → {new['messages']} ({ratio['delays']:.2f}×)" if config["network"] == "wan" else "",
                f"{old['megabytes']:.2f} → {new['megabytes']:.2f} ({ratio['bytes']:.2f}×)",
                f"{median(old['seconds']):.2f} → {median(new['seconds']):.2f} ({ratio['seconds']:.2f}×)",
            ]
        )
    return (
        "Since version 0.7.0 the aggregator sees blinded differences in a secret order and answers signs. Version "
        f"0.5.0 (commit `{COMMIT}`) sent whole rows of blinded distances, which takes fewer sums and shows more. Both "
        "ran in turns on this machine, all roles as processes with mutual TLS and journals, on the networks of the "
        "paper (LAN: 1000 Mbit/s, no delay; WAN: 400 Mbit/s, 100 ms one way). *Rounds* are secure sums that follow "
        "one another, *delays* the messages on the critical path with receipts, *MB* what all roles sent.\n\n"
        + targets_table(targets)
        + "\n"
        + table(["", "graph", "", "", "rounds", "delays", "MB", "seconds"], rows, left=4)
    )


def missing() -> str:
    """Return what this machine lacks; the benchmark then measures this version alone."""
    return "" if os.environ.get(CHECKOUT) else f"set {CHECKOUT} to a checkout of commit {COMMIT} to compare with it"


BENCHMARK = Experiment(
    "versions", "Comparisons by sign beside version 0.5.0", cells, compute, render, alone=True, missing=missing
)
