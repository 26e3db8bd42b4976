"""Tables 4 and 10: training time of real processes with mutual TLS, on links with the paper's rate and delay."""

from __future__ import annotations

import atexit
from functools import lru_cache, partial

from experiments.paper import published
from experiments.paper.configurations import SHOWN, dataset
from experiments.paper.experiment import PUBLIC, Config, Experiment, Options, Result
from experiments.paper.network.fork_server import ForkServer
from experiments.paper.network.measure import default_settings, measure, paper_settings
from experiments.paper.network.relay import LAN as GIGABIT
from experiments.paper.network.relay import WAN as FAR
from experiments.paper.network.roles import warmed
from experiments.paper.plots import COLOURS, MARKERS, Figures
from experiments.paper.store import Book, Records
from experiments.paper.tables import NOTHING, table

_NETWORKS = {"lan": GIGABIT, "wan": FAR}
_JOINT = {"shares": [], "coordinator": ["anonymous-geometry"]}  # by `joint_rows`, what is accepted by name


def cells(network: str, options: Options) -> list[Config]:
    """Return every cell in the paper's configuration, and our defaults at k̂ = k and 2k, up to eight parties.

    With sixteen parties on a few cores, the defaults' additional sums would measure the cores. The joint method has no
    local clusters; it runs in both forms.
    """
    joint = [
        {"network": network, "dataset": name, "configuration": "joint", "parties": number, "joint_rows": form}
        for number in options.thinned((2,), published.PARTIES)
        for name in (options.pick(*PUBLIC) if options.datasets or not options.quick else ("cora",))
        for form in _JOINT
    ]
    return joint + [
        {"network": network, "dataset": name, "configuration": one, "parties": number, "local": many}
        for number in options.thinned((2, 4), published.PARTIES)
        for many in options.thinned(("k",), published.LOCAL)
        for name in (options.pick(*PUBLIC) if options.datasets or not options.quick else ("cora",))
        for one in ("paper", "default")
        if one == "paper" or (many in ("k", "2k") and number <= 8)
    ]


def compute(cell: Config) -> Result:
    """Run all roles as processes; measure from the last connection to the last labels."""
    data = dataset(cell["dataset"])
    if cell["configuration"] == "joint":
        form = cell["joint_rows"]
        settings = {"method": "joint", "joint_rows": form, "accept": _JOINT[form], "random_state": 0}
    elif cell["configuration"] == "paper":
        settings = paper_settings(data.n_classes, cell["local"], random_state=0)
    else:
        settings = default_settings(cell["local"], random_state=0)
    found = measure(data, cell["parties"], settings, _NETWORKS[cell["network"]], fork_server=_fork_server())
    return {
        "seconds": found["seconds"],
        "accuracy": round(100 * found["accuracy"], 2),
        "rounds": found["rounds"],
        "sums": found["sums"],
        "critical_path": found["critical_path"],
        "local_seconds": max(found["local_seconds"].values()),
        "local_cpu_seconds": round(sum(found["local_cpu_seconds"].values()), 3),
        "cpu_seconds": round(sum(found["cpu_seconds"].values()), 2),
        "megabytes_sent": round(max(found["bytes_sent"].values()) / 1e6, 3),
        "megabytes_on_link": round(max(map(sum, found["bytes_on_link"].values())) / 1e6, 3),  # both ways, of a party
        "peak_megabytes": max(found["peak_megabytes"].values()),
    }


@lru_cache(maxsize=1)
def _fork_server() -> ForkServer:
    """Return the fork server of all roles; modules are imported once."""
    process = warmed().__enter__()
    atexit.register(process.__exit__, None, None, None)
    return process


def render(network: str, book: Book, figures: Figures) -> str:
    """Return the table: seconds of the paper and of kcagc, and their ratio."""
    records = book[network]
    parts = [_summary(network, records)]
    parts += [_table(network, records, name) for name in records.values("dataset")]
    parts.append(_plot(network, records, figures))
    return "\n".join(parts)


def ratios(network: str, records: Records, configuration: str) -> list[tuple[str, str, int, float, float]]:
    """Return the cells of the paper: dataset, k̂, L, our seconds, the paper's."""
    found = []
    for config, result in records.all(configuration=configuration):
        paper = published.seconds(network, config["dataset"], config["local"], config["parties"])
        if paper is not None:
            found.append((config["dataset"], config["local"], config["parties"], result["seconds"], paper))
    return found


def _summary(network: str, records: Records) -> str:
    link = "1000 Mbit/s, no delay" if network == "lan" else "400 Mbit/s, 100 ms one way"
    lines = [
        "Seconds from the connection of all roles until every party has the labels, including local work. Every role "
        f"is a process with its own certificate and journal; a relay simulates its link ({link}). Each cell is one run "
        "with all roles on the cores of one machine (see below); the paper used 48 cores. With more roles than cores, "
        "the local work of the parties has to wait for cores.\n"
    ]
    for one in ("paper", "default"):
        found = ratios(network, records, one)
        if found:
            faster = sum(ours < paper for *_, ours, paper in found)
            five = sum(5 * ours <= paper for *_, ours, paper in found)
            least = min(paper / ours for *_, ours, paper in found)
            most = max(paper / ours for *_, ours, paper in found)
            lines.append(
                f"**`{SHOWN[one]}` is faster than the paper in {faster} of {len(found)} cells**, at least five times "
                f"in {five}; from {least:.1f} to {most:.0f} times.\n"
            )
    if records.one(configuration="joint"):
        lines.append(
            "The paper has no joint method. Its rows show seconds, secure sums that follow one another, and what the "
            "party with most sent and received, with TLS.\n"
        )
    return "\n".join(lines)


def _table(network: str, records: Records, name: str) -> str:
    parties = records.values("parties", dataset=name)
    rows = []
    for local in (many for many in published.LOCAL if records.one(dataset=name, local=many)):
        paper = [published.seconds(network, name, local, number) for number in parties]
        rows.append([f"k̂ = {local}", "paper", *(f"{value:.2f}" if value else NOTHING for value in paper)])
        for one in ("paper", "default"):
            shown = []
            for number, theirs in zip(parties, paper, strict=True):
                found = records.one(dataset=name, local=local, parties=number, configuration=one)
                times = f" ({theirs / found['seconds']:.1f}×)" if found and theirs else ""
                shown.append(f"{found['seconds']:.2f}{times}" if found else NOTHING)
            if set(shown) != {NOTHING}:
                rows.append(["", f"`{SHOWN[one]}`", *shown])
    for form in (form for form in _JOINT if records.one(dataset=name, joint_rows=form)):
        joint = [records.one(dataset=name, joint_rows=form, parties=number) for number in parties]
        shown = [_effort(found) if found else NOTHING for found in joint]
        rows.append(["joint method" if form == "shares" else "", f'`joint_rows="{form}"`', *shown])
    return f"### {name.capitalize()}\n\n{table(['', '', *(f'L = {number}' for number in parties)], rows, left=2)}"


def _effort(found: Result) -> str:
    """Return seconds, rounds, and megabytes of the party with most on its link, in both directions."""
    return f"{found['seconds']:.2f} ({found['rounds']} rounds, {found['megabytes_on_link']:.1f} MB)"


def _plot(network: str, records: Records, figures: Figures) -> str:
    found = {one: ratios(network, records, one) for one in ("paper", "default")}
    if not all(found.values()):
        return ""
    with figures.figure(network, panels=(1, 2), size=(9.2, 4.2)) as (_, axes):
        for axis, (one, rows) in zip(axes, found.items(), strict=True):
            for number, name in enumerate(PUBLIC):
                points = [(paper, ours) for other, _, _, ours, paper in rows if other == name]
                if points:
                    across, up = zip(*points, strict=True)
                    axis.scatter(across, up, s=22, c=COLOURS[number], marker=MARKERS[number], label=name, alpha=0.8)
            values = [value for *_, ours, paper in rows for value in (ours, paper)]
            ends = (min(values) * 0.7, max(values) * 1.4)
            axis.plot(ends, ends, c="#666666", lw=1, zorder=0)
            axis.plot(ends, [end / 5 for end in ends], c="#666666", lw=1, ls=":", zorder=0)
            axis.set(xscale="log", yscale="log", xlabel="paper, s", ylabel="ours, s", title=SHOWN[one])
        axes[0].legend(loc="upper left")
    words = "Training time of every cell against the paper; kcagc is faster below the line, five times below the dots."
    return figures.shown(network, words)


def _experiment(network: str, title: str) -> Experiment:
    return Experiment(network, title, partial(cells, network), compute, partial(render, network), alone=True)


LAN = _experiment("lan", "Table 4: training time in a LAN")
WAN = _experiment("wan", "Table 10: training time in a WAN")
