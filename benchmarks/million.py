"""Up to a million nodes and ten million edges between three parties and a coordinator: cells and the joint method."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import alone, run_roles
from benchmarks.presentation import Target, against_nodes, targets_table
from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.network.measure import common_labels, figures_of, merges_of, parties_of
from experiments.paper.network.roles import Files, MeasuredRole
from experiments.paper.plots import COLOURS, MARKERS, Figures
from experiments.paper.store import Book
from experiments.paper.tables import table
from kcagc.metrics import accuracy

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
N_PARTIES, DEGREE, COLUMNS, CLUSTERS, LOCAL, ORDER, STARTS = 3, 20, 64, 16, 32, 5, 10
MOST_HELD, MOST_TIMES, MOST_FILTER, MOST_GROWTH = 4.0, 1.5, 3.0, 1.15
MOST_MEGABYTES, MOST_TIMES_CELLS = 200.0, 2.0  # of the joint method: sent and received by a party, and time ÷ cells
_WORD, _FRAME = 8, 512  # bytes of a value, and of a message without its values


def cells(options: Options) -> list[Config]:
    """Return every size."""
    return [
        {"nodes": nodes, "degree": DEGREE, "columns": COLUMNS, "clusters": CLUSTERS, "local": LOCAL, "psi": ORDER}
        for nodes in options.thinned((10_000, 20_000, 50_000), SIZES)
    ]


def compute(cell: Config) -> Result:
    """Write the parties' files, run all roles on them with each method, then every party's local work alone."""
    common = {"n_clusters": cell["clusters"], "psi": cell["psi"], "n_init": STARTS, "random_state": 0}
    settings = common | {
        "method": "cells",
        "n_local_clusters": cell["local"],
        "accept": ["revealing-labels"],  # generated data; the small form has few columns
    }
    forms = {
        "shares": common | {"method": "joint"},
        "coordinator": common | {"method": "joint", "joint_rows": "coordinator", "accept": ["anonymous-geometry"]},
    }
    with tempfile.TemporaryDirectory() as folder:
        tables = alone(
            "write_tables",
            folder=folder,
            n_nodes=cell["nodes"],
            degree=cell["degree"],
            columns=cell["columns"],
            n_parties=N_PARTIES,
            n_clusters=cell["clusters"],
        )
        graph = str(Path(folder) / "graph.npz")
        files = [Files(one, graph) for one in tables]
        with np.load(Path(folder) / "labels.npz") as kept:
            truth = kept["labels"]
        found = _figures(run_roles(files, N_PARTIES, settings), truth, settings)
        joint = {form: joint_figures(run_roles(files, N_PARTIES, chosen), truth) for form, chosen in forms.items()}
        local = [
            alone(
                "local_work_of_files",
                all_cores=False,
                features=one,
                graph=graph,
                n_parties=N_PARTIES,
                settings=settings,
            )
            for one in tables
        ]
        filter_ns = alone("filter_time", features=tables[0], graph=graph, psi=cell["psi"])
    return found | {
        "joint": joint,
        "local_alone": [round(one["seconds"], 3) for one in local],
        "reading_alone": [round(one["reading"], 3) for one in local],
        "filter_ns": round(filter_ns, 4),
        "edges": round(cell["nodes"] * cell["degree"] / 2),
    }


def _figures(runs: list[MeasuredRole], truth: np.ndarray, settings: dict[str, Any]) -> Result:
    figures, parties = figures_of(runs), parties_of(runs)
    (merge,) = merges_of(parties).values()
    sent = max(bytes_after_labels(one) for one in parties)
    limit = most_bytes(merge["rows"], settings["n_clusters"], merge["rounds"])
    if sent > limit:
        raise RuntimeError(f"{sent:,} bytes were sent after the labels, where cells, k and rounds allow {limit:,}")
    return {
        "seconds": figures["seconds"],
        "local_in_run": figures["local_seconds"],
        "reading": figures["reading_seconds"],
        "to_the_end": figures["seconds_to_the_end"],
        "peak_megabytes": figures["peak_megabytes"],
        "bytes_sent": figures["bytes_sent"],
        "bytes_after_labels": sent,
        "most_bytes_after_labels": limit,
        "cells": merge["rows"],
        "rounds": merge["rounds"],
        "accuracy": round(100 * accuracy(truth, common_labels(parties)), 2),
        "cpu_seconds": figures["cpu_seconds"],
        "critical_path": figures["critical_path"],
    }


def joint_figures(runs: list[MeasuredRole], truth: np.ndarray) -> Result:
    """Return the figures of a run of the joint method; a party's bytes are those of its messages in both directions."""
    figures, parties = figures_of(runs), parties_of(runs)
    return {
        "seconds": figures["seconds"],
        "cpu_seconds": figures["cpu_seconds"],
        "peak_megabytes": figures["peak_megabytes"],
        "bytes_sent": figures["bytes_sent"],
        "bytes_both_ways": {one.name: bytes_both_ways(one) for one in runs},
        "rounds": figures["rounds"],
        "delays": max(one.summary["delays"] for one in parties),
        "accuracy": round(100 * accuracy(truth, common_labels(parties)), 2),
    }


def bytes_both_ways(one: MeasuredRole) -> int:
    """Return the bytes of all messages that a role sent and received."""
    return sum(detail[2] for _, what, detail in one.events if what in ("sends", "receives"))


def bytes_after_labels(one: MeasuredRole) -> int:
    """Return the bytes that a party sent after its local labels."""
    sent = [detail for _, what, detail in one.events if what == "sends"]
    last = max(place for place, (_, words, _) in enumerate(sent) if "labels" in words.split(" "))
    return sum(size for _, _, size in sent[last + 1 :])


def most_bytes(cells_: int, k: int, rounds: int) -> int:
    """Return the largest number of bytes after the local labels: the distances of every restart in every round."""
    return (rounds + 2) * (_WORD * STARTS * cells_ * k + _FRAME)


def render(book: Book, figures: Figures) -> str:
    """Return the targets, every size, and how time and memory grow."""
    found = sorted(((config["nodes"], result) for config, result in book["million"].all()), key=lambda one: one[0])
    rows = [
        [
            f"{nodes:,}",
            f"{result['edges']:,}",
            f"{result['seconds']:.2f}",
            f"{sum(result['local_alone']):.2f}",
            f"{_times(result):.2f}×",
            f"{sum(result['local_in_run'].values()):.2f}",
            f"{max(result['reading'].values()):.2f}",
            f"{_held(result):.2f}",
            f"{result['peak_megabytes']['coordinator'] * 1e6 / 2**30:.2f}",
            f"{result['cells']:,}",
            str(result["rounds"]),
            f"{max(result['bytes_sent'].values()) / 1e6:.1f}",
            f"{result['bytes_after_labels'] / 1e6:.1f}",
            f"{result['filter_ns']:.2f}",
            f"{result['accuracy']:.1f}",
        ]
        for nodes, result in found
    ]
    header = ["nodes", "edges", "fit, s", "local work alone, s", "ratio", "in the run, s", "reading, s", "GiB a party"]
    header += ["GiB coordinator", "cells", "rounds", "MB sent", "MB after labels", "filter, ns", "accuracy, %"]
    return (
        f"Three parties with {COLUMNS} columns each and a coordinator, as processes over TLS on this machine; average "
        f"degree {DEGREE}, k={CLUSTERS}, k̂={LOCAL}, ψ={ORDER}, {STARTS} restarts, the default configuration. Each "
        "party reads its Parquet table and the graph before the measured time. The ratio is the fit divided by the sum "
        "of the three local computations, each alone on the machine in the same run; *in the run* is their time while "
        "all run together. Filter: nanoseconds for each edge, column and step. The benchmark checks that a party sends "
        "at most 8 bytes for each restart, cell, cluster and round after its local labels: the size does not depend "
        "on the number of nodes.\n\n"
        + targets_table(targets(found))
        + "\n"
        + table(header, rows, left=1)
        + "\n"
        + _joint_table(found)
        + _plot(found, figures)
    )


def targets(found: list[tuple[int, Result]]) -> list[Target]:
    """Return the targets for the largest size and for the growth towards it."""
    by_size = dict(found)
    nodes, largest = found[-1]
    wanted = [
        Target(f"memory of a party at {nodes:,} nodes", _held(largest), MOST_HELD, "GiB"),
        Target(f"time ÷ sum of the local work at {nodes:,} nodes", _times(largest), MOST_TIMES, "×"),
    ]
    if "joint" in largest:
        one, where = largest["joint"]["shares"], f"joint method in shares at {nodes:,} nodes"
        wanted += [
            Target(f"{where}: sent and received by a party", _most(one, "bytes_both_ways"), MOST_MEGABYTES, "MB"),
            Target(f"{where}: time ÷ cells", one["seconds"] / largest["seconds"], MOST_TIMES_CELLS, "×"),
            Target(f"{where}: memory of a party", _held(one), MOST_HELD, "GiB"),
        ]
    found = [one for one in found if ("joint" in one[1]) == ("joint" in largest)]  # measured in the same run
    if len(found) >= 3:
        before, between = found[-3], found[-2]
        middle = before[0]
        faster = largest["filter_ns"] / by_size[middle]["filter_ns"]
        wanted.append(
            Target(f"filter for each edge, column and step, {nodes:,} ÷ {middle:,} nodes", faster, MOST_FILTER, "×")
        )
        wanted.append(
            Target(
                f"memory for each additional node, to {nodes:,} ÷ to {between[0]:,}, where linear is 1",
                _growth(between, found[-1]) / _growth(before, between),
                MOST_GROWTH,
                "×",
            )
        )
    return wanted


def _joint_table(found: list[tuple[int, Result]]) -> str:
    """Return the runs of the joint method, beside those with cells."""
    rows = [
        [
            f"{nodes:,}",
            f"`{form}`",
            f"{one['seconds']:.2f}",
            f"{one['seconds'] / result['seconds']:.2f}×",
            f"{sum(one['cpu_seconds'].values()) / sum(result['cpu_seconds'].values()):.2f}×",
            f"{_held(one):.2f}",
            f"{one['peak_megabytes']['coordinator'] * 1e6 / 2**30:.2f}",
            f"{_most(one, 'bytes_sent'):.1f}",
            f"{_most(one, 'bytes_both_ways'):.1f}",
            str(one["rounds"]),
            str(one["delays"]),
            f"{one['accuracy']:.1f}",
        ]
        for nodes, result in found
        for form, one in result.get("joint", {}).items()
    ]
    if not rows:
        return ""
    header = ["nodes", "`joint_rows`", "fit, s", "÷ cells", "processor time ÷ cells", "GiB a party", "GiB coordinator"]
    header += ["MB sent", "MB sent and received", "rounds", "delays", "accuracy, %"]
    words = "The joint method on the same files, in the same run; MB are those of the party with most. "
    words += "Sizes without it were measured earlier, by the first of the commits below.\n\n"
    return words + table(header, rows, left=2) + "\n"


def _most(one: Result, kind: str) -> float:
    """Return the megabytes of the party with most."""
    return max(count for name, count in one[kind].items() if name != "coordinator") / 1e6


def _growth(small: tuple[int, Result], large: tuple[int, Result]) -> float:
    return (_held(large[1]) - _held(small[1])) / (large[0] - small[0])


def _held(result: Result) -> float:
    """Return the peak memory of a party, in GiB."""
    return max(held for name, held in result["peak_megabytes"].items() if name != "coordinator") * 1e6 / 2**30


def _times(result: Result) -> float:
    return float(result["seconds"]) / float(sum(result["local_alone"]))


def _plot(found: list[tuple[int, Result]], figures: Figures) -> str:
    sizes = [nodes for nodes, _ in found]
    with figures.figure("million", panels=(1, 2), size=(8.6, 3.4)) as (_, (time, memory)):
        for number, (words, values) in enumerate(
            {
                "collaborative fit": [result["seconds"] for _, result in found],
                "local work of all, alone": [sum(result["local_alone"]) for _, result in found],
                "reading files": [max(result["reading"].values()) for _, result in found],
            }.items()
        ):
            time.plot(sizes, values, marker=MARKERS[number], c=COLOURS[number], label=words)
        against_nodes(time, sizes)
        time.set(ylabel="seconds")
        time.legend()
        memory.plot(sizes, [_held(result) for _, result in found], marker=MARKERS[0], c=COLOURS[0], label="a party")
        held = [result["peak_megabytes"]["coordinator"] * 1e6 / 2**30 for _, result in found]
        memory.plot(sizes, held, marker=MARKERS[1], c=COLOURS[1], label="the coordinator")
        memory.axhline(MOST_HELD, c="#555555", ls="--", lw=1)
        memory.text(sizes[0], MOST_HELD, "target", va="bottom", color="#555555")
        against_nodes(memory, sizes)
        memory.set(ylabel="GiB held")
        memory.legend(loc="center left")
    return figures.shown("million", "Time and memory of a run between three parties against the number of nodes.")


BENCHMARK = Experiment("million", "Up to a million nodes", cells, compute, render, alone=True)
