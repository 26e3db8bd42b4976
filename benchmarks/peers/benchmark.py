"""The same k-means between parties, by kcagc and by other systems, in one run."""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np

from benchmarks.peers import ours
from benchmarks.peers.job import N_COLUMNS, N_ROWS, Job
from benchmarks.peers.theirs import BEFORE, PEERS, Peer
from benchmarks.presentation import Target, log_seconds, targets_table
from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.plots import COLOURS, Figures
from experiments.paper.store import Book
from experiments.paper.tables import NOTHING, table

SECONDS, MEGABYTES = 0.76, 2.0
_OURS = (("basic", 2), ("cells", 2), ("basic", 3), ("cells", 3))
_TITLES = {"basic": "kcagc, basic (Protocol 2)", "cells": "kcagc, cells (Protocol 3)"}


def cells(options: Options) -> list[Config]:
    """Return the job; all systems do it within one cell, because their times are compared."""
    return [{"rows": 300 if options.quick else N_ROWS, "columns": N_COLUMNS, "turns": 2 if options.quick else 7}]


def compute(cell: Config) -> Result:
    """Run the job with kcagc, and with the other systems from the initial centres that its parties agreed on."""
    job = Job.make(cell["rows"], cell["columns"])
    found: list[Result] = []
    starts: dict[int, list[int]] = {}
    for method, n_parties in _OURS:  # the basic method first, because it provides the initial centres
        found.append(_ours(job, method, n_parties, cell["turns"], starts))
    found += [_theirs(job, peer, starts[peer.n_parties]) for peer in PEERS]
    return {"systems": found, "iterations": job.n_iterations, "clusters": job.n_clusters}


def _ours(job: Job, method: str, n_parties: int, turns: int, starts: dict[int, list[int]]) -> Result:
    runs = [ours.run(job, method, n_parties)[0] for _ in range(turns)]
    counted, labels, start = ours.run(job, method, n_parties, counted=True)
    starts.setdefault(n_parties, start)
    parties = [name for name in counted["bytes_sent"] if name != "coordinator"]
    return {
        "title": _TITLES[method],
        "parties": f"{n_parties} + coordinator",
        "seconds": median(figures["seconds"] for figures in runs),
        "all_seconds": [figures["seconds"] for figures in runs],
        "megabytes_sent": max(counted["bytes_on_link"][name][0] for name in parties) / 1e6,
        "megabytes_in_messages": max(counted["bytes_sent"][name] for name in parties) / 1e6,
        "megabytes_held": max(counted["peak_megabytes"].values()),
        "rounds": counted["rounds"],
        **_compared_with_lloyd(job, labels, starts[n_parties], margin=True),
    }


def _compared_with_lloyd(job: Job, labels: np.ndarray, start: list[int], *, margin: bool) -> Result:
    """Compare with plain Lloyd from the same initial centres."""
    reference, changing = job.lloyd(np.array(start), margin=margin)
    return {
        "same_labels": bool(np.array_equal(labels, reference)),
        "cost_ratio": round(job.cost(labels) / job.cost(reference), 5),
        "changing_iterations": changing,
    }


def _theirs(job: Job, peer: Peer, start: list[int]) -> Result:
    common: dict[str, Any] = {"title": peer.title, "parties": str(peer.n_parties), "note": peer.note}
    if not peer.installed:
        return common | {"missing": f"{peer.environment} is not installed; run make setup-peers"}
    found = peer.run(job, start)
    return common | {
        "title": f"{peer.title} (version {found['version']})",
        "seconds": round(found["seconds"], 3),
        "megabytes_sent": found["bytes_sent"] / 1e6,
        "megabytes_held": found["peak_bytes"] / 1e6,
        **_compared_with_lloyd(job, np.array(found["labels"]), start, margin=False),
    }


def render(book: Book, figures: Figures) -> str:
    """Return the targets, the systems of this run, and those of other runs."""
    parts = []
    for config, result in book["peers"].all():
        systems = [one for one in result["systems"] if "missing" not in one]
        own = {(one["title"], one["parties"]): one for one in systems if one["title"] in _TITLES.values()}
        slowest = max(one["seconds"] for one in own.values())
        most = max(one["megabytes_sent"] for one in own.values())
        peers = [one for one in systems if one["title"] not in _TITLES.values()]
        parts.append(
            f"k-means on {config['rows']:,} rows of {config['columns']} columns that are split among the parties, "
            f"{result['clusters']} clusters, {result['iterations']} iterations from common initial centres (those of "
            "kcagc's basic method, which its parties propose; the job needs all iterations). kcagc runs as processes "
            "over gRPC with mutual TLS and journals: from the connection of all roles to the last labels, median of "
            f"{config['turns']}; it also runs the initial assignment with margin 9. The other systems run once, in the "
            "same run on the same machine, from their PyPI packages; compiling and connecting are not measured. Plain "
            "Lloyd takes the same steps from the same centres in NumPy; the basic method must return the same labels. "
            "MB sent are those of the party that sends most (for kcagc with TLS and gRPC).\n"
        )
        targets = [
            Target(
                "slowest of kcagc: 20 times as fast as 15.3 s, the fastest other system before",
                slowest,
                SECONDS,
                "s",
            ),
            Target("most sent by one party", most, MEGABYTES, "MB"),
        ]
        if peers:
            fastest = min(peers, key=lambda one: one["seconds"])
            times = slowest / fastest["seconds"]
            words = f"slowest of kcagc ÷ fastest other system of this run ({fastest['title']})"
            targets.append(Target(words, times, 1 / 20, "×", 3))
        parts.append(targets_table(targets))
        parts.append(table(_HEADER, [_row(one) for one in result["systems"]], left=2))
        parts.append(_plot(systems, figures))
    parts.append(
        "Measured earlier on another machine with two cores, not in this run:\n\n"
        + table(
            ["system", "parties", "s", "MB sent", "MB held", ""],
            [
                [
                    one.title,
                    one.parties,
                    f"{one.seconds:.1f}",
                    _number(one.megabytes_sent),
                    _number(one.megabytes_held),
                    one.note,
                ]
                for one in BEFORE
            ],
            left=2,
        )
    )
    return "\n".join(parts)


_HEADER = ["system", "parties", "s", "MB sent by a party", "MB held", "labels of plain Lloyd", ""]


def _row(one: Result) -> list[str]:
    if "missing" in one:
        return [one["title"], one["parties"], *[NOTHING] * 4, one["missing"]]
    return [
        one["title"],
        one["parties"],
        f"{one['seconds']:.3f}",
        f"{one['megabytes_sent']:.2f}",
        f"{one['megabytes_held']:.0f}",
        "identical" if one["same_labels"] else f"cost {one['cost_ratio']:.3f}×",
        one.get("note", f"{one.get('rounds')} rounds"),
    ]


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}" if value >= 100 else f"{value:g}"


def _plot(systems: list[Result], figures: Figures) -> str:
    every = [(f"{one['title']}, {one['parties']}", one["seconds"], one["title"] in _TITLES.values()) for one in systems]
    every += [(f"{one.title}, {one.parties} *", one.seconds, False) for one in BEFORE]
    every.sort(key=lambda one: one[1])
    with figures.figure("peers", size=(8.0, 0.8 + 0.27 * len(every))) as (_, axes):
        for place, (_, seconds, own) in enumerate(every):
            axes.barh(place, seconds, color=COLOURS[0 if own else 7], height=0.7)
            axes.text(
                seconds * 1.05,
                place,
                f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s",
                va="center",
                fontsize=8,
            )
        axes.set_yticks(range(len(every)), [words for words, *_ in every], fontsize=8)
        axes.invert_yaxis()
        log_seconds(axes)
        axes.set_xlim(min(one[1] for one in every) / 2, max(one[1] for one in every) * 2)
        axes.set_axisbelow(True)
        axes.grid(axis="y", visible=False)
    return figures.shown("peers", "Seconds for the same k-means, logarithmic; * measured earlier on another machine.")


def missing() -> str:
    """Return what this machine lacks; the benchmark runs without it."""
    lacking = sorted({peer.environment for peer in PEERS if not peer.installed})
    return f"{' and '.join(lacking)}: not installed, systems left out; run make setup-peers" if lacking else ""


BENCHMARK = Experiment(
    "peers", "The same k-means by other systems", cells, compute, render, alone=True, missing=missing
)
