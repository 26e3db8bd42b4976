"""The joint method in the networks of the paper, in both forms: rounds, delays, bytes and seconds."""

from __future__ import annotations

import os
from statistics import median

from benchmarks.harness import run_roles
from benchmarks.presentation import Target, targets_table
from experiments.paper import published
from experiments.paper.configurations import dataset, order_of
from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.network.measure import common_labels, figures_of, parties_of
from experiments.paper.network.relay import NETWORKS
from experiments.paper.plots import Figures
from experiments.paper.store import Book
from experiments.paper.tables import table
from kcagc.metrics import accuracy

ACCEPTED = {"shares": [], "coordinator": ["anonymous-geometry"]}
LIMITS = {"coordinator": 3.0, "shares": 10.0}  # seconds of Cora between two parties, 100 ms one way


def cells(options: Options) -> list[Config]:
    """Return both networks, every number of parties of the paper, and both forms."""
    return [
        {"network": network, "dataset": name, "parties": parties, "joint_rows": form}
        | {"turns": 1 if options.quick or network == "wan" else 3}  # delays hardly vary
        for network in options.thinned(("lan",), ("wan", "lan"))
        for name in options.pick("cora")
        for parties in options.thinned((2,), published.PARTIES)
        for form in ACCEPTED
    ]


def compute(cell: Config) -> Result:
    """Run all roles as processes some times; everything but the seconds is the same in every run."""
    data, form = dataset(cell["dataset"]), cell["joint_rows"]
    settings = {"method": "joint", "joint_rows": form, "accept": ACCEPTED[form], "n_clusters": data.n_classes}
    settings |= {"psi": order_of(cell["dataset"]), "random_state": 0}
    seconds, load = [], os.getloadavg()[0]  # of other work
    for _ in range(cell["turns"]):
        runs = run_roles(data, cell["parties"], settings, NETWORKS[cell["network"]])
        figures, parties = figures_of(runs), parties_of(runs)
        seconds.append(figures["seconds"])
    return {
        "seconds": seconds,
        "load": round(load, 1),
        "rounds": figures["rounds"],
        "delays": max(one.summary["delays"] for one in parties),
        "on_critical_path": figures["critical_path"]["messages"],
        "bytes_sent": figures["bytes_sent"],
        "bytes_on_link": figures["bytes_on_link"],
        "cpu_seconds": round(sum(figures["cpu_seconds"].values()), 2),
        "accuracy": round(100 * accuracy(data.labels, common_labels(parties)), 2),
    }


def render(book: Book, figures: Figures) -> str:
    """Return the targets and the table."""
    found = list(book["joint"].all())
    found.sort(key=lambda one: (one[0]["network"], one[0]["dataset"], one[0]["joint_rows"], one[0]["parties"]))
    rows = [
        [
            config["network"].upper(),
            config["dataset"],
            f"`{config['joint_rows']}`",
            f"L={config['parties']}",
            str(result["rounds"]),
            str(result["delays"]),
            str(result["on_critical_path"]),
            f"{max(sent for name, sent in result['bytes_sent'].items() if name != 'coordinator') / 1e6:.2f}",
            f"{max(map(sum, result['bytes_on_link'].values())) / 1e6:.2f}",
            f"{median(result['seconds']):.2f}",
            f"{result['load']:.1f}",
            f"{result['accuracy']:.1f}",
        ]
        for config, result in found
    ]
    header = ["", "graph", "`joint_rows`", "", "rounds", "delays", "with receipts", "MB sent", "MB on the link"]
    header += ["seconds", "load before", "accuracy, %"]
    wanted = [
        Target(f"Cora between two parties in the WAN, `{form}`", median(result["seconds"]), LIMITS[form], "s")
        for config, result in found
        for form in (config["joint_rows"],)
        if (config["network"], config["dataset"], config["parties"]) == ("wan", "cora", 2)
    ]
    return (
        'The method `"joint"` in both forms: no role sees a joint row (`shares`), or the coordinator sees components '
        "without names (`coordinator`). All roles are processes with mutual TLS and journals, on the networks of the "
        "paper (LAN: 1000 Mbit/s, no delay; WAN: 400 Mbit/s, 100 ms one way). *Rounds* are secure sums, *delays* "
        "messages that must travel one after another until the labels are known, as the run reports them; *with "
        "receipts* are those on the critical path. *MB sent* are messages of the party that sends most; *MB on the "
        "link* both directions of the busiest link, with TLS. Seconds are the median of the runs. *Load before* is the "
        "load average of the last minute when the runs began, with the runs before them.\n\n"
        + (targets_table(wanted) + "\n" if wanted else "")
        + table(header, rows, left=4)
    )


BENCHMARK = Experiment("joint", "The joint method in a LAN and a WAN", cells, compute, render, alone=True)
