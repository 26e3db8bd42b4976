"""The number of one-way delays that follow one another in a run, counted in three ways."""

from __future__ import annotations

from benchmarks.causal import allowed, delays, sums_by_layer
from benchmarks.harness import CONFIGURATIONS, run_roles, settings_of
from experiments.paper.configurations import SHOWN, dataset
from experiments.paper.experiment import PUBLIC, Config, Experiment, Options, Result
from experiments.paper.network.critical_path import critical_path
from experiments.paper.network.measure import figures_of, interval
from experiments.paper.network.relay import Network
from experiments.paper.plots import Figures
from experiments.paper.store import Book
from experiments.paper.tables import NOTHING, table

_FAR = Network("far", delay=0.05, rate=1e9)  # long compared with writing and reading a message


def cells(options: Options) -> list[Config]:
    """Return two parties, and trees of one, two and four layers."""
    return [
        {"dataset": name, "configuration": one, "parties": parties, "local": "k"}
        for name in (options.pick(*PUBLIC) if options.datasets or not options.quick else ("cora",))
        for parties in options.thinned((2, 4), (2, 4, 16))
        for one in options.thinned(("default",), CONFIGURATIONS)
    ]


def compute(cell: Config) -> Result:
    """Run once on links with a delay."""
    settings = settings_of(cell["configuration"], cell["dataset"], cell["local"])
    runs = run_roles(dataset(cell["dataset"]), cell["parties"], settings, _FAR)
    start_time, ended = interval(runs)
    by_layer = sums_by_layer(runs)
    reported = [one.summary["delays"] for one in runs if one.summary.get("delays") is not None]
    found = delays(runs)
    return {
        "delays": found.known,
        "with_receipts": found.confirmed,
        "on_critical_path": len(critical_path(runs, start_time)),
        "reported": max(reported) if reported else None,
        "sums": [count for _, count in sorted(by_layer.items())],
        "wanted": allowed(by_layer),
        "seconds": round(ended - start_time, 3),
        "delay": _FAR.delay,
        "local_seconds": max(figures_of(runs)["local_seconds"].values()),
    }


def render(book: Book, figures: Figures) -> str:
    """Return the table."""
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
        reported = result["reported"] if "reported" in result else result["told_by_the_run"]  # the name before
        sums = result["sums"] if "sums" in result else result["iterations"]  # the name before
        rows.append(
            [
                f"L={config['parties']}",
                config["dataset"],
                f"`{SHOWN[config['configuration']]}`",
                " + ".join(map(str, sums)),
                str(result["delays"]),
                f"≤ {result['wanted']}",
                "met" if good else "**missed**",
                str(result["with_receipts"]),
                str(result["on_critical_path"]),
                NOTHING if reported is None else str(reported),
                f"{result['seconds'] / result['delay']:.1f}",
            ]
        )
    header = [
        "",
        "graph",
        "",
        "secure sums",
        "delays",
        "wanted",
        "",
        "with receipts",
        "critical path",
        "run.json",
        "seconds ÷ delay",
    ]
    return (
        f"**{met} of {len(found)} runs are within 4 + 2 · S one-way delays for each layer of the tree**, where S is "
        "the number of its secure sums. *Delays* is the longest chain of messages in which "
        "each was sent after the one before was received, until the last party knows its labels; *with receipts* "
        "until it knows that all parties have the same labels. Both are counted from the traces of all roles without "
        "a clock. *Critical path* is the chain, with receipts, that took the time with a delay of "
        f"{_FAR.delay * 1e3:.0f} ms on every link; a delay that passes while the receiver computes is not on it. "
        "*run.json* is the number that the run reports. Connecting is not included. Secure sums are listed for each "
        "layer.\n\n" + table(header, rows, left=3)
    )


BENCHMARK = Experiment("delays", "One-way delays that follow one another", cells, compute, render, alone=True)
