"""The time of a run by role: local work, masks, encoding, journal, network, waiting."""

from __future__ import annotations

from benchmarks.harness import UNLIMITED, run_roles, settings_of
from benchmarks.instruments import ORDER
from benchmarks.shares import shares
from experiments.paper.configurations import SHOWN, dataset
from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.network.measure import figures_of, interval
from experiments.paper.plots import Figures
from experiments.paper.store import Book
from experiments.paper.tables import table

_ROLE_FUNCTION = "benchmarks.instruments:run_role"
_RUNS = (
    ("cora", "default", 2, "k"),
    ("cora", "paper", 2, "8k"),
    ("pubmed", "default", 2, "k"),
    ("pubmed", "default", 4, "k"),
    ("wiki", "default", 4, "8k"),
    ("wiki", "paper", 16, "8k"),
)
_QUICK = (("cora", "default", 2, "k"), ("cora", "paper", 4, "k"))
_COLOURS = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#CC79A7", "#999999", "#009E73", "#DDDDDD")  # as ORDER


def cells(options: Options) -> list[Config]:
    """Return small and large runs, with a coordinator or a party as aggregator."""
    return [
        {"dataset": name, "configuration": one, "parties": parties, "local": local}
        for graph, one, parties, local in (_QUICK if options.quick else _RUNS)
        for name in (options.datasets or (graph,))
    ]


def compute(cell: Config) -> Result:
    """Run once with clocks in every role, on links that count bytes, and once without clocks."""
    settings = settings_of(cell["configuration"], cell["dataset"], cell["local"])
    data, n_parties = dataset(cell["dataset"]), cell["parties"]
    plain = figures_of(run_roles(data, n_parties, settings, UNLIMITED))
    runs = run_roles(data, n_parties, settings, UNLIMITED, function=_ROLE_FUNCTION)
    figures = figures_of(runs)
    found = shares(runs, *interval(runs))
    return {
        "seconds": figures["seconds"],
        "seconds_without_clocks": plain["seconds"],
        "rounds": figures["rounds"],
        "shares": {name: {kind: round(spent, 4) for kind, spent in one.items()} for name, one in found.items()},
        "bytes_sent": figures["bytes_sent"],
        "bytes_on_wire": {name: sum(both) for name, both in figures["bytes_on_link"].items()},
        "peak_megabytes": figures["peak_megabytes"],
    }


def render(book: Book, figures: Figures) -> str:
    """Return a table for each run, and all runs as bars."""
    records = book["breakdown"]
    parts = [
        "Wall-clock time of the thread that steps a role, from the connection of all roles to the last labels. *Local "
        "work* is filter, projection and local clusters. *Joint work* is distances, means, cells and comparisons of "
        "sums. *Masking* is key streams, blinding, shuffles, fixed point and encryption. *Encoding* is messages, "
        "packing and digests. *Journal* is SQLite with its commits. A role without work counts as *network* while a "
        "message from it or to it is in transit (frames, TLS, gRPC, sockets), and as *waiting* while others compute. "
        "All roles share the cores of one machine, so that every column contains waiting for a core. With more than "
        "two parties, the table shows their mean. Bytes are both directions of the link, with TLS; a role that "
        "listens has no link.\n"
    ]
    bars = []
    for config, result in _in_order(book):
        title = f"{config['dataset']}, `{SHOWN[config['configuration']]}`, L={config['parties']}, k̂={config['local']}"
        parts.append(
            f"**{title}**: {result['seconds']:.3f} s ({result['seconds_without_clocks']:.3f} s without clocks), "
            f"{result['rounds']} rounds\n"
        )
        rows = []
        for words, names in _groups(result):
            spent = {kind: sum(result["shares"][name][kind] for name in names) / len(names) for kind in ORDER}
            bars.append((f"{title.replace('`', '')}: {words}", spent))
            wire = [result["bytes_on_wire"][name] for name in names if name in result["bytes_on_wire"]]
            rows.append(
                [words]
                + [f"{spent[kind]:.3f}" for kind in ORDER]
                + [
                    f"{max(result['bytes_sent'][name] for name in names) / 1e6:.2f}",
                    f"{max(wire) / 1e6:.2f}" if wire else "–",
                    f"{max(result['peak_megabytes'][name] for name in names):.0f}",
                ]
            )
        parts.append(table(["", *(f"{kind}, s" for kind in ORDER), "MB sent", "MB on the link", "MB held"], rows))
    parts.append(_plot(bars, figures) if len(records) else "")
    return "\n".join(parts)


def _in_order(book: Book) -> list[tuple[Config, Result]]:
    order = [(name, one, parties, local) for name, one, parties, local in (*_RUNS, *_QUICK)]

    def place(found: tuple[Config, Result]) -> int:
        config = found[0]
        key = (config["dataset"], config["configuration"], config["parties"], config["local"])
        return order.index(key) if key in order else len(order)

    return sorted(book["breakdown"].all(), key=place)


def _groups(result: Result) -> list[tuple[str, list[str]]]:
    """Return the roles of a table: each role where there are few, else all parties except the aggregator."""
    names = list(result["shares"])
    aggregator = next(name for name in names if name not in result["bytes_on_wire"])
    others = [name for name in names if name != aggregator]
    title = aggregator if aggregator == "coordinator" else f"{aggregator}, aggregator"
    if len(others) <= 2:
        return [*((name, [name]) for name in others), (title, [aggregator])]
    return [(f"mean of {len(others)} parties", others), (title, [aggregator])]


def _plot(bars: list[tuple[str, dict[str, float]]], figures: Figures) -> str:
    with figures.figure("breakdown", size=(8.6, 0.9 + 0.32 * len(bars))) as (_, axes):
        for place, (_, spent) in enumerate(bars):
            total, left = sum(spent.values()), 0.0
            for kind, colour in zip(ORDER, _COLOURS, strict=True):
                share = 100 * spent[kind] / total
                label = kind if place == 0 else None
                axes.barh(place, share, left=left, height=0.78, color=colour, label=label)
                left += share
        axes.set_yticks(range(len(bars)), [words for words, _ in bars], fontsize=8)
        axes.invert_yaxis()
        axes.set(xlim=(0, 100), xlabel="per cent of the run")
        axes.grid(visible=False)
        axes.legend(ncols=len(ORDER) // 2, loc="lower center", bbox_to_anchor=(0.3, 1.0), fontsize=8)
    return figures.shown("breakdown", "The work of every role during a run, in per cent of its time.")


BENCHMARK = Experiment("breakdown", "Where the time goes", cells, compute, render, alone=True)
