"""The cost of collaboration: a fit between processes over TLS, divided by the same computation on pooled data."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.harness import CONFIGURATIONS, alone, medians, run_roles, settings_of, turns
from benchmarks.presentation import Target, targets_table
from experiments.paper.configurations import SHOWN, dataset
from experiments.paper.experiment import PUBLIC, Config, Experiment, Options, Result
from experiments.paper.network.measure import common_labels, figures_of, parties_of
from experiments.paper.plots import COLOURS, Figures
from experiments.paper.store import Book, Records
from experiments.paper.tables import table
from kcagc.metrics import accuracy

LIMIT = 2.0
_SHAPES = ((2, "k"), (2, "8k"), (16, "k"), (16, "8k"))
_SCALING = {"default": "unit", "paper": "U"}
_DIVISOR = {(2, "k"): "centralised AGC", (2, "8k"): "the slower party's local work"}
_SUM = "the sum of all local work"


def cells(options: Options) -> list[Config]:
    """Return every public graph, in both configurations, for two and for sixteen parties."""
    return [
        {"dataset": name, "configuration": one, "parties": parties, "local": local, "turns": 2 if options.quick else 5}
        for name in (options.pick(*PUBLIC) if options.datasets or not options.quick else ("cora",))
        for parties, local in options.thinned(((2, "k"), (2, "8k"), (4, "k")), _SHAPES)
        for one in options.thinned(("default",), CONFIGURATIONS)
    ]


def compute(cell: Config) -> Result:
    """Measure in turns: a collaborative fit, centralised AGC, the local work of each party alone."""
    name, n_parties = cell["dataset"], cell["parties"]
    data = dataset(name)
    settings = settings_of(cell["configuration"], name, cell["local"])
    last: dict[str, Any] = {}

    def turn() -> dict[str, float]:
        runs = run_roles(data, n_parties, settings)
        last.update(figures_of(runs), labels=common_labels(parties_of(runs)))
        pooled = alone("agc", name=name, scaling=_SCALING[cell["configuration"]], seed=0)
        local = alone("local_work", all_cores=False, name=name, n_parties=n_parties, settings=settings)
        return {"fit": last["seconds"], "agc": pooled, "slower": max(local), "sum": sum(local)}

    found = turns(turn, least=2 if n_parties > 2 else min(3, cell["turns"]), most=cell["turns"], seconds=15.0)
    return {
        **medians(found),
        "ratio_to_agc": _ratio(found, "agc"),
        "ratio_to_slower": _ratio(found, "slower"),
        "ratio_to_sum": _ratio(found, "sum"),
        "turns": found,
        "accuracy": round(100 * accuracy(data.labels, last["labels"]), 2),
        "rounds": last["rounds"],
        "local_in_run": max(last["local_seconds"].values()),
        "megabytes_sent": round(max(last["bytes_sent"].values()) / 1e6, 3),
        "peak_megabytes": max(last["peak_megabytes"].values()),
    }


def _ratio(found: dict[str, list[float]], below: str) -> float:
    """Return the median of the ratios of all turns."""
    return round(median(fit / other for fit, other in zip(found["fit"], found[below], strict=True)), 3)


def divisor(config: Config) -> tuple[str, str]:
    """Return the divisor of a cell: the name of its ratio, and a description."""
    words = _DIVISOR.get((config["parties"], config["local"]), _SUM)
    return {_SUM: "sum", "centralised AGC": "agc"}.get(words, "slower"), words


def worst(records: Records, configuration: str) -> list[Target]:
    """Return the largest ratio of each shape."""
    found: dict[str, tuple[float, str]] = {}
    for config, result in _in_order(records):
        if config["configuration"] == configuration:
            below, words = divisor(config)
            shape = f"`{SHOWN[configuration]}` L={config['parties']}, k̂={config['local']} ÷ {words}"
            one = (result[f"ratio_to_{below}"], config["dataset"])
            found[shape] = max(found.get(shape, one), one)
    return [Target(f"{shape}, worst of all ({name})", ratio, LIMIT, "×") for shape, (ratio, name) in found.items()]


def render(book: Book, figures: Figures) -> str:
    """Return the targets, and every cell."""
    records = book["fit-over-agc"]
    return (
        "Seconds from the connection of all roles until every party has the labels, with all roles as processes with "
        "mutual TLS and a journal on this machine. The divisors are centralised AGC on the pooled columns (same "
        "filter, same scaling of the projection, k-means with ten restarts, all cores) and the local work of the "
        "parties, each alone on the machine. Each turn measures all of them once; the table shows medians over turns, "
        "and the ratio to the column in brackets is the median of the ratios of the turns. MB sent and held are those "
        "of the role with the most.\n\n"
        + targets_table(target for one in CONFIGURATIONS for target in worst(records, one))
        + "\n"
        + table(_HEADER, [_row(config, result) for config, result in _in_order(records)], left=3)
        + "\n"
        + _plot(records, figures)
    )


_HEADER = ["", "graph", "", "fit, s", "AGC, s", "slower party, s", "all parties, s", "ratio"]
_HEADER += ["rounds", "MB sent", "MB held"]


def _row(config: Config, result: Result) -> list[str]:
    below, _ = divisor(config)
    ratio, column = result[f"ratio_to_{below}"], {"agc": "AGC", "slower": "slower party", "sum": "all parties"}[below]
    return [
        f"L={config['parties']}, k̂={config['local']}",
        config["dataset"],
        f"`{SHOWN[config['configuration']]}`",
        *(f"{result[field]:.3f}" for field in ("fit", "agc", "slower", "sum")),
        f"{ratio:.2f} ({column})" if ratio <= LIMIT else f"**{ratio:.2f}** ({column})",
        str(result["rounds"]),
        f"{result['megabytes_sent']:.2f}",
        f"{result['peak_megabytes']:.0f}",
    ]


def _in_order(records: Records) -> list[tuple[Config, Result]]:
    """Return cells by parties, k̂, graph as in the paper, and configuration."""
    names = records.values("dataset")
    return sorted(
        records.all(),
        key=lambda one: (_shape(one[0]), names.index(one[0]["dataset"]), CONFIGURATIONS.index(one[0]["configuration"])),
    )


def _shape(config: Config) -> tuple[int, int]:
    return config["parties"], int(config["local"].removesuffix("k") or 1)


def _plot(records: Records, figures: Figures) -> str:
    names, found = records.values("dataset"), _in_order(records)
    with figures.figure("fit-over-agc", size=(8.6, 3.6)) as (_, axes):
        place, before = 0.0, None
        ticks: dict[str, list[float]] = {}
        for config, result in found:
            shape = f"L={config['parties']}, k̂={config['local']}"
            place += 2.2 if before not in (None, shape) else 1.0
            before = shape
            ticks.setdefault(shape, []).append(place)
            hatch = {"hatch": "///", "alpha": 0.75} if config["configuration"] == "paper" else {}
            colour = COLOURS[names.index(config["dataset"])]
            ratio = result[f"ratio_to_{divisor(config)[0]}"]
            axes.bar(place, ratio, 0.9, color=colour, edgecolor="white", lw=0.5, **hatch)
        axes.axhline(LIMIT, c="#555555", ls="--", lw=1, label="target")
        for number, name in enumerate(names):
            axes.bar([1], [0], color=COLOURS[number], label=name)
        if any(config["configuration"] == "paper" for config, _ in found):
            axes.bar([1], [0], color="#aaaaaa", hatch="///", edgecolor="white", label=SHOWN["paper"])
        axes.set_xticks([sum(places) / len(places) for places in ticks.values()], list(ticks))
        axes.grid(axis="x", visible=False)
        axes.set_axisbelow(True)
        axes.set(ylabel="times as long", ylim=(0, 1.25 * max(axes.get_ylim()[1], LIMIT)))
        axes.legend(ncols=len(names) + 2, loc="upper left", fontsize=9)
    words = "Time of a collaborative fit divided by centralised AGC (L=2, k̂=k), by the slower party's "
    return figures.shown("fit-over-agc", words + "local work (L=2, k̂=8k), or by the sum of all local work (L=16).")


BENCHMARK = Experiment(
    "fit-over-agc", "A collaborative fit compared with the pooled computation", cells, compute, render, alone=True
)
