"""Runs that `kcagc plan` is fitted to, and runs that it is checked on; `python -m benchmarks.plan` fits it again."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy.optimize import nnls

from benchmarks.harness import alone, run_roles
from benchmarks.million import bytes_both_ways
from benchmarks.page import RESULTS, book
from benchmarks.presentation import Target, targets_table
from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.network.measure import figures_of, merges_of, parties_of
from experiments.paper.network.relay import NETWORKS
from experiments.paper.network.roles import Files
from experiments.paper.plots import Figures
from experiments.paper.store import ROOT, Book
from experiments.paper.tables import table
from kcagc.planning.forecast import COORDINATOR, Forecast, Link, forecast
from kcagc.planning.model import Coefficients, Counts, coordinator_work, held, held_by_coordinator, party_work, probe
from kcagc.planning.traffic import Task, traffic
from kcagc.protocol.parameters import RunSettings

COEFFICIENTS = ROOT / "src" / "kcagc" / "planning" / "coefficients.json"
LIMIT = 25.0  # per cent of what a run needed
_WAN = (0.1, 400e6 / 8)  # seconds one way and bytes per second, as in experiments/paper/network/relay.py
_CORES = 2
_REFINEMENTS, _RIDGE = 20, 0.6
TURNS = 3
_ACCEPT = {"shares": [], "coordinator": ["anonymous-geometry"]}


def _run(use: str, nodes: int, degree: int, columns: int, parties: int, k: int, psi: int | str, **more: Any) -> Config:
    own = {"use": use, "nodes": nodes, "degree": degree, "columns": columns, "parties": parties, "clusters": k}
    return own | {"psi": psi, "method": "joint", "joint_rows": "shares", "network": "none"} | more


FITTED = (
    _run("fit", 5_000, 10, 32, 4, 4, 5),
    _run("fit", 20_000, 20, 64, 2, 8, 5),
    _run("fit", 100_000, 10, 128, 3, 16, 2),
    _run("fit", 30_000, 20, 64, 2, 6, "auto"),
    _run("fit", 300_000, 20, 64, 2, 16, 5),
    _run("fit", 50_000, 20, 64, 3, 10, 5, joint_rows="coordinator"),
    _run("fit", 100_000, 20, 200, 2, 20, 10, joint_rows="coordinator"),
    _run("fit", 20_000, 20, 64, 3, 16, 5, method="cells"),
    _run("fit", 100_000, 10, 32, 2, 8, 10, method="cells"),
    _run("fit", 100_000, 20, 128, 3, 8, 3, method="cells"),
    _run("fit", 300_000, 20, 64, 2, 16, 8, method="cells"),
    _run("fit", 20_000, 20, 32, 8, 6, 5, method="tree"),
    _run("fit", 3_000, 10, 32, 2, 5, 5, network="wan"),
)
CHECKED = (
    _run("check", 150_000, 16, 96, 3, 12, 4),
    _run("check", 200_000, 16, 48, 2, 12, 8, method="cells"),
    _run("check", 400_000, 10, 100, 2, 8, 3, joint_rows="coordinator"),
    _run("check", 10_000, 16, 40, 2, 7, 5, network="wan"),
)
_QUICK = (
    _run("fit", 1_000, 10, 16, 2, 4, 5),
    _run("fit", 2_000, 10, 16, 2, 4, 5, method="cells"),
    _run("check", 1_500, 10, 16, 2, 4, 5),
)


def cells(options: Options) -> list[Config]:
    """Return all runs."""
    return list(options.thinned(_QUICK, (*FITTED, *CHECKED)))


def compute(cell: Config) -> Result:
    """Run all roles as processes on files, and return the least time of some runs: other work makes them longer."""
    with tempfile.TemporaryDirectory() as folder:
        tables = alone(
            "write_tables",
            folder=folder,
            n_nodes=cell["nodes"],
            degree=cell["degree"],
            columns=cell["columns"],
            n_parties=cell["parties"],
            n_clusters=cell["clusters"],
        )
        files = [Files(one, str(Path(folder) / "graph.npz")) for one in tables]
        network = NETWORKS["wan"] if cell["network"] == "wan" else None
        settings = _settings(cell) | {"random_state": 0, "accept": _accepted(cell)}
        every = [run_roles(files, cell["parties"], settings, network) for _ in range(TURNS)]
    each = [figures_of(runs) for runs in every]
    seconds = [figures["seconds"] for figures in each]
    runs = every[0]
    figures, parties = each[0], parties_of(runs)
    reading = [figures["reading_seconds"] for figures in each]
    return {
        "seconds": min(seconds),
        "all_seconds": seconds,
        # The processor time of a run, without that of reading its files.
        "cpu_seconds": {
            name: round(
                min(one["cpu_seconds"][name] - read.get(name, 0.0) for one, read in zip(each, reading, strict=True)), 3
            )
            for name in figures["cpu_seconds"]
        },
        "peak_megabytes": figures["peak_megabytes"],
        "bytes_sent": figures["bytes_sent"],
        "bytes_both_ways": {one.name: bytes_both_ways(one) for one in runs},
        "rounds": figures["rounds"],
        "delays": max(one.summary["delays"] for one in parties),
        "rows": [merge["rows"] for merge in merges_of(parties).values()],
        "probes": {name: round(spent, 5) for name, spent in probe().items()},
    }


def _settings(cell: Config) -> dict[str, Any]:
    found = {"n_clusters": cell["clusters"], "psi": cell["psi"], "method": cell["method"]}
    return found | ({"joint_rows": cell["joint_rows"]} if cell["method"] == "joint" else {})


def _accepted(cell: Config) -> list[str]:
    return _ACCEPT[cell["joint_rows"]] if cell["method"] == "joint" else ["revealing-labels"]


def task_of(cell: Config) -> Task:
    """Return what the forecast knows about a run."""
    parameters = RunSettings.read(_settings(cell)).resolve(cell["parties"])
    edges = cell["nodes"] * cell["degree"] // 2
    return Task(cell["nodes"], edges, cell["columns"], cell["parties"], parameters)


def predicted(cell: Config, stored: Coefficients | None = None) -> Forecast:
    """Return the forecast of a run of all roles on this machine."""
    link = Link(*_WAN) if cell["network"] == "wan" else Link()
    return forecast(task_of(cell), link, cores=_CORES, memory=math.inf, together=True, stored=stored)


def errors(cell: Config, result: Result, stored: Coefficients | None = None) -> dict[str, float]:
    """Return what was predicted divided by what was measured, for the party with most."""
    found = predicted(cell, stored)
    parties = [name for name in result["bytes_both_ways"] if name != COORDINATOR]
    own = [one for one in found.roles if one.name != COORDINATOR]
    hub = next(one for one in found.roles if one.name == COORDINATOR)
    return {
        "run": found.seconds / result["seconds"],
        "processor": max(one.processor for one in own) / max(result["cpu_seconds"][name] for name in parties),
        "bytes": max(one.sent + one.received for one in own) / max(result["bytes_both_ways"][name] for name in parties),
        "bytes of the coordinator": (hub.sent + hub.received) / result["bytes_both_ways"][COORDINATOR],
        "memory": max(one.memory for one in own) / (1e6 * max(result["peak_megabytes"][name] for name in parties)),
    }


# The fit


def fitted(runs: list[tuple[Config, Result]], origin: dict[str, Any]) -> Coefficients:
    """Fit all coefficients to runs, each weighted so that relative errors count; none is negative."""
    party, coordinator, memory = [], [], []
    for cell, result in runs:
        task = task_of(cell)
        found = traffic(task)
        names = [name for name in result["cpu_seconds"] if name != "coordinator"]
        for number, name in enumerate(names):
            party.append((party_work(task, found, number), result["cpu_seconds"][name]))
        coordinator.append((coordinator_work(found), result["cpu_seconds"]["coordinator"]))
        most = 1e6 * max(result["peak_megabytes"][name] for name in names)
        memory += [
            (held(task, found), most),
            (held_by_coordinator(found), 1e6 * result["peak_megabytes"]["coordinator"]),
        ]
    known = Coefficients(
        commit=origin["commit"],
        when=origin["when"],
        machine=origin["machine"],
        party=_least_squares(party, _RIDGE),
        coordinator=_least_squares(coordinator),
        waiting={},
        memory=_least_squares(memory),
        probes={name: float(np.median([result["probes"][name] for _, result in runs])) for name in probe()},
    )
    left = [max(result["seconds"] - (one := predicted(cell, known)).seconds, 0.0) / one.sums for cell, result in runs]
    return msgspec.structs.replace(known, waiting={"sums": float(f"{np.quantile(left, 0.25):.5g}")})


def _least_squares(rows: list[tuple[Counts, float]], ridge: float = 0.0) -> dict[str, float]:
    """Return non-negative coefficients for rows of counts and a value, such that ratios of both count.

    The errors are relative to the geometric mean of the value and what is predicted for it: twice as much is as wrong
    as half as much. Counts that grow together share what they explain, instead of one having all of it: the penalty is
    the least whose error is nearly the lowest if each run of the fit is predicted from the others.
    """
    names = list(dict.fromkeys(name for counts, _ in rows for name in counts))
    matrix = np.array([[counts.get(name, 0.0) for name in names] for counts, _ in rows])
    values = np.array([value for _, value in rows])
    matrix /= (scale := np.maximum(np.linalg.norm(matrix / values[:, None], axis=0), 1e-300))
    weights, found, penalty = 1.0 / values, np.zeros(len(names)), ridge * np.eye(len(names))
    for _ in range(_REFINEMENTS):
        weighted = np.vstack([matrix * weights[:, None], penalty])
        found, _ = nnls(weighted, np.append(values * weights, np.zeros(len(names))))
        weights = 1.0 / np.sqrt(values * np.maximum(matrix @ found, 0.1 * values))
    found *= np.exp(np.mean(np.log(values / (matrix @ found))))
    return {name: float(f"{value:.5g}") for name, value in zip(names, found / scale, strict=True)}


def render(book: Book, figures: Figures) -> str:
    """Return how near the forecasts are: for runs of the fit, and for others."""
    found = book["plan"].all()
    order = {json.dumps(one, sort_keys=True): number for number, one in enumerate((*FITTED, *CHECKED))}
    found = sorted(found, key=lambda one: order.get(json.dumps(one[0], sort_keys=True), 0))
    rows: list[list[str]] = []
    worst = dict.fromkeys(_CHECKED_FOR, 0.0)
    for config, result in found:
        off = errors(config, result)
        if config["use"] == "check":
            counted = [name for name in worst if name != "bytes" or config["method"] == "joint"]
            worst |= {name: max(worst[name], 100 * abs(off[name] - 1)) for name in counted}
        rows.append(
            [
                "fitted" if config["use"] == "fit" else "**checked**",
                _method(config),
                f"{config['nodes']:,} × {config['columns']}, degree {config['degree']}",
                f"L={config['parties']}, k={config['clusters']}, ψ={config['psi']}",
                config["network"].upper() if config["network"] != "none" else "",
                f"{result['seconds']:.2f}",
                f"{off['run']:.2f} ×",
                f"{_most(result['cpu_seconds']):.2f}",
                f"{off['processor']:.2f} ×",
                f"{_most(result['bytes_both_ways']) / 1e6:.1f}",
                f"{off['bytes']:.3f} ×",
                f"{off['bytes of the coordinator']:.3f} ×",
                f"{_most(result['peak_megabytes']):.0f}",
                f"{off['memory']:.2f} ×",
            ]
        )
    header = ["", "method", "nodes × columns of a party", "", "", "run, s", "predicted", "processor of a party, s"]
    header += ["predicted", "MB of a party", "predicted", "of the coordinator", "MB held", "predicted"]
    wanted = [
        Target(f"{_CHECKED_FOR[name]}: largest difference", value, LIMIT, "%", digits=0)
        for name, value in worst.items()
    ]
    return (
        "`kcagc plan` before runs of all roles on this machine. *Predicted* is the forecast divided by what the run "
        "needed. Bytes are counted from the messages of the protocol, in both directions, for the party with most. "
        "Time and memory are counts of work times coefficients, which `python -m benchmarks.plan` fits to the runs "
        f"marked so. {_CORES} cores; reading files is not included. *Run* is the least of {TURNS} runs, *processor* "
        "the time of the process without its reading of files; other work on the machine affects the first most. The "
        "bytes of the method `cells` depend on the number of cells, which the forecast assumes.\n\n"
        + targets_table(wanted)
        + "\n"
        + table(header, rows, left=5)
    )


def _method(config: Config) -> str:
    return f"`{config['method']}`" + (f", {config['joint_rows']}" if config["method"] == "joint" else "")


def _most(of: dict[str, float]) -> float:
    return max(value for name, value in of.items() if name != "coordinator")


_CHECKED_FOR = {
    "processor": "processor time of a party in runs that were not used in the fit",
    "run": "their time from the connection to the labels",
    "memory": "their memory of a party",
    "bytes": "their bytes of a party, method joint",
}

BENCHMARK = Experiment("plan", "Forecasts of `kcagc plan`", cells, compute, render, alone=True)


def main(folder: Path = RESULTS) -> None:
    """Fit the coefficients to the stored runs, and print how near all forecasts are."""
    kept = book(folder)["plan"]
    runs = [(config, result) for config, result in kept.all() if config["use"] == "fit"]
    origin = list(kept.runs.values())[-1]
    found = fitted(runs, origin)
    COEFFICIENTS.write_text(json.dumps(msgspec.to_builtins(found), indent=1) + "\n", encoding="utf-8")
    for config, result in kept.all():
        off = {name: round(value, 3) for name, value in errors(config, result, found).items()}
        print(config["use"], config["method"], config["nodes"], config["columns"], config["parties"], off)


if __name__ == "__main__":
    main()
