"""How often a run waits for the network: one-way delays that follow one another, counted in three ways."""

from __future__ import annotations

from benchmarks.causal import allowed, delays, iterations
from benchmarks.harness import CONFIGURATIONS, played, settings_of
from experiments.paper.configurations import SHOWN, dataset
from experiments.paper.experiment import PUBLIC, Config, Experiment, Options, Result
from experiments.paper.network.critical_path import critical_path
from experiments.paper.network.measure import figures_of, interval
from experiments.paper.network.relay import Network
from experiments.paper.plots import Figures
from experiments.paper.store import Book
from experiments.paper.tables import NOTHING, table

_FAR = Network("far", delay=0.05, rate=1e9)  # long beside what a message costs to make and to read


def cells(options: Options) -> list[Config]:
    """Give two parties, and trees of one, two and four layers."""
    return [
        {"dataset": name, "configuration": one, "parties": parties, "local": "k"}
        for name in (options.pick(*PUBLIC) if options.datasets or not options.quick else ("cora",))
        for parties in options.thinned((2, 4), (2, 4, 16))
        for one in options.thinned(("default",), CONFIGURATIONS)
    ]


def compute(cell: Config) -> Result:
    """Run once on links with a delay."""
    settings = settings_of(cell["configuration"], cell["dataset"], cell["local"])
    runs = played(dataset(cell["dataset"]), cell["parties"], settings, _FAR)
    begun, ended = interval(runs)
    by_layer = iterations(runs)
    told = [one.summary["delays"] for one in runs if one.summary.get("delays") is not None]
    found = delays(runs)
    return {
        "delays": found.known,
        "with_receipts": found.confirmed,
        "on_critical_path": len(critical_path(runs, begun)),
        "told_by_the_run": max(told) if told else None,
        "iterations": [count for _, count in sorted(by_layer.items())],
        "wanted": allowed(by_layer),
        "seconds": round(ended - begun, 3),
        "delay": _FAR.delay,
        "local_seconds": max(figures_of(runs)["local_seconds"].values()),
    }


def render(book: Book, figures: Figures) -> str:
    """Give the table."""
    rows, met = [], 0
    found = sorted(
        book["delays"].all(),
        key=lambda one: (
            one[0]["parties"],
            [*PUBLIC, one[0]["dataset"]].index(one[0]["dataset"]),
            one[0]["configuration"],
        ),
    )
    for config, result in found:
        good = result["delays"] <= result["wanted"]
        met += good
        told = result["told_by_the_run"]
        rows.append(
            [
                f"L={config['parties']}",
                config["dataset"],
                f"`{SHOWN[config['configuration']]}`",
                " + ".join(map(str, result["iterations"])),
                str(result["delays"]),
                f"≤ {result['wanted']}",
                "met" if good else "**missed**",
                str(result["with_receipts"]),
                str(result["on_critical_path"]),
                NOTHING if told is None else str(told),
                f"{result['seconds'] / result['delay']:.1f}",
            ]
        )
    header = [
        "",
        "graph",
        "",
        "iterations",
        "delays",
        "wanted",
        "",
        "with receipts",
        "critical path",
        "run.json",
        "seconds ÷ delay",
    ]
    return (
        f"**{met} of {len(found)} runs are within 4 + 2 · iterations one-way delays for each layer of the tree** (the "
        "1/9 step counts as an iteration). *Delays* is the longest chain of messages of which each was sent after the "
        "one before was heard, until the last party knows its labels; *with receipts* also until it knows that all "
        "have the same. Both are counted from all roles' traces without any clock. *Critical path* is the chain, with "
        f"receipts, that took the time when every link has a delay of {_FAR.delay * 1e3:.0f} ms: a delay that passes "
        "while the receiver computes is not on it. *run.json* is what the run says of itself. Setting up connections "
        "is in none of them. Iterations are listed for each layer.\n\n" + table(header, rows, left=3)
    )


BENCHMARK = Experiment("delays", "One-way delays that follow one another", cells, compute, render, alone=True)
