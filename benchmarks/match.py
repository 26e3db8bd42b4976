"""Private matching of ids between processes over TLS: seconds and bytes, and whether the intersection is exact."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.plots import Figures
from experiments.paper.store import Book
from experiments.paper.tables import table
from kcagc.deploy.folders import FolderPlan, write_folders

IDS, OVERLAP = 100_000, 0.6
_PATIENCE = 900.0


def cells(options: Options) -> list[Config]:
    """Return two and three parties."""
    return [
        {"parties": parties, "ids": 1_000 if options.quick else IDS, "overlap": OVERLAP}
        for parties in options.thinned((2,), (2, 3))
    ]


def compute(cell: Config) -> Result:
    """Run all roles as processes, each with a list of ids, and compare what they find with the truth."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        lists, truth = id_lists(cell["parties"], cell["ids"], round(cell["ids"] * cell["overlap"]))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        parties = [f"party-{number}" for number in range(1, cell["parties"] + 1)]
        plan = FolderPlan.of(parties, address=address, listen=address, n_clusters=2, psi=1)
        configs = write_folders(folder, plan)
        commands = {}
        for name, path in configs.items():
            commands[name] = [sys.executable, "-m", "kcagc", "match", "--config", str(path), "--json"]
            if name in parties:
                text = path.read_text(encoding="utf-8").replace("accept = []\n", 'accept = ["partial-matches"]\n')
                path.write_text(text, encoding="utf-8")
                ids = folder / f"{name}.csv"
                ids.write_text("id\n" + "".join(f"{one}\n" for one in lists[parties.index(name)]), encoding="utf-8")
                commands[name] += ["--ids", str(ids)]
        begin = time.perf_counter()
        summaries = _run(commands)
        seconds = time.perf_counter() - begin
        found = [(configs[name].parent / "result" / "match" / "nodes.csv").read_text().split()[1:] for name in parties]
    return {
        "seconds": round(seconds, 2),
        "bytes_sent": {name: one["bytes_sent"] for name, one in summaries.items()},
        "messages_sent": {name: one["messages_sent"] for name, one in summaries.items()},
        "common": len(truth),
        "exact": all(one == truth for one in found),
    }


def id_lists(n_parties: int, count: int, common: int) -> tuple[list[list[str]], list[str]]:
    """Return the ids of each party in random order, and the sorted ids that all have.

    Of three or more parties, each shares a quarter of its other ids with the next one.
    """
    random = np.random.default_rng(0)
    every = [f"person-{number:08}" for number in random.choice(10**8, n_parties * count, replace=False).tolist()]
    truth, rest = every[:common], every[common:]
    own = count - common
    lists = []
    for party in range(n_parties):
        start = party * own if n_parties == 2 else party * own * 3 // 4
        mine = truth + rest[start : start + own]
        random.shuffle(mine)
        lists.append(mine)
    return lists, sorted(set(lists[0]).intersection(*lists[1:]))


def _run(commands: dict[str, list[str]]) -> dict[str, dict[str, Any]]:
    """Run all roles to the end; return what each prints."""
    running = {}
    for name, command in commands.items():
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        running[name] = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
    try:
        found = {}
        for name, process in running.items():
            printed, problem = process.communicate(timeout=_PATIENCE)
            if process.returncode:
                raise RuntimeError(f"{name} ended with exit code {process.returncode}:\n{problem[-2000:]}")
            found[name] = json.loads(printed)
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    return found


def render(book: Book, figures: Figures) -> str:
    """Return the table."""
    rows = [
        [
            f"{config['parties']}",
            f"{config['ids']:,}",
            f"{result['common']:,}",
            "yes" if result["exact"] else "**no**",
            f"{result['seconds']:.1f}",
            f"{_most(result['bytes_sent']) / 1e6:.2f}",
            f"{result['bytes_sent']['coordinator'] / 1e6:.2f}",
            f"{sum(result['messages_sent'].values())}",
        ]
        for config, result in book["match"].all()
    ]
    header = ["parties", "ids of each", "in common", "exact at all", "s", "MB of a party", "MB of the coordinator"]
    return (
        "`kcagc match` by all roles as processes with mutual TLS and journals on this machine, from their start to "
        "their end. *MB of a party* is what the party with most sends. *Exact* compares the list that each party "
        "writes with the true intersection.\n\n" + table([*header, "messages"], rows, left=0)
    )


def _most(of: dict[str, float]) -> float:
    return max(value for name, value in of.items() if name != "coordinator")


BENCHMARK = Experiment("match", "Private matching of ids", cells, compute, render, alone=True)
