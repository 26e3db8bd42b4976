"""The page: how near each method comes to the pooled data, by graph and number of parties, with one picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from experiments.joint import graphs
from experiments.joint.study import ALONE, POOLED, REFERENCE, REFERENCES, SEEDS, cells
from experiments.paper.experiment import PUBLIC, Options
from experiments.paper.plots import COLOURS, MARKERS, Figures
from experiments.paper.store import Records
from experiments.paper.tables import NOTHING, table

SHOWN = {
    "shares": "joint, in shares",
    "coordinator": "joint, rows to the coordinator",
    "cells": "cells",
    "tree": "tree",
    "basic": "basic",
    ALONE: "one party alone",
    POOLED: "joint steps on pooled data",
}
JOINT = ("shares", "coordinator")
MEAN, LEAST = 0.95, 0.85  # wanted of the joint method: in the mean, and in every run
POINTS = 1  # and the difference of accuracy between 2 and 16 parties, at most

_HEAD = f"""## The methods

How near do parties come to the clusters of their pooled data, with the same fixed ψ?

The reference is `AGC(scaling="unit")` on the pooled columns: an exact projection to k dimensions, rows of unit length,
ten restarts. No method weights columns (`weighting="none"`). Two runs of the reference with different seeds do not
agree fully either. The *ratio* is therefore the adjusted Rand index (ARI) of a method and the reference, divided by
that of two reference runs; both are means over {REFERENCES} seeds. A ratio of 1 means: as near as pooled data with
another seed. Columns are split among L parties, contiguous or at random. Every run counts for the means and the lowest
values.
"""


class Run(NamedTuple):
    """One run of a method."""

    graph: str
    parties: int
    split: str
    method: str
    ari: float
    ratio: float
    accuracy: float


def runs(records: Records) -> list[Run]:
    """Return all runs with a result, of graphs that have a reference."""
    own = {config["graph"]: result["self"] for config, result in records.all(method=REFERENCE)}
    found = []
    for config, result in records.all():
        if config["method"] != REFERENCE and "error" not in result and config["graph"] in own:
            where = (config["graph"], config.get("parties", 1), config.get("split", ""), config["method"])
            found.append(Run(*where, result["ari"], result["ari"] / own[config["graph"]], result["accuracy"]))
    return found


def sections(records: Records, figures: Figures) -> list[str]:
    """Return the sections of the page on methods; draw the picture."""
    found = runs(records)
    return [
        _HEAD,
        _computed(records),
        _summary(found),
        _picture(found, figures),
        _public(found, records),
        _parties(found),
        _generated(found, records),
        _special(found, records),
        _worst(found),
        origin(records, "experiments.joint"),
    ]


def _computed(records: Records) -> str:
    """Return how much of the study is stored, in words; empty if all of it is, or none of its graphs."""
    wanted = cells(Options(seeds=SEEDS))
    missing = [cell for cell in wanted if cell not in records]
    if not missing or len(missing) == len(wanted):
        return ""
    joint = [cell for cell in wanted if cell["method"] in JOINT]
    counts = [
        f"{sum(cell in records for cell in joint if cell['parties'] == one)} of "
        f"{sum(cell['parties'] == one for cell in joint)} with L = {one}"
        for one in sorted({cell["parties"] for cell in joint})
    ]
    done = len(wanted) - len(missing)
    words = f"**The study is not complete:** {done:,} of {len(wanted):,} cells are computed, with 1 to {SEEDS} seeds."
    return f"{words} Runs of the joint method: {', '.join(counts)}.\n"


def _summary(found: list[Run]) -> str:
    rows = []
    for method, words in SHOWN.items():
        some = [run for run in found if run.method == method]
        if some:
            ratios = [run.ratio for run in some]
            below = [_share(sum(ratio < bound for ratio in ratios), len(ratios)) for bound in (MEAN, LEAST)]
            rows.append([words, str(len(some)), f"{np.mean(ratios):.3f}", f"{min(ratios):.3f}", *below])
    header = ["", "runs", "mean ratio", "lowest ratio", f"runs below {MEAN}", f"runs below {LEAST}"]
    return f"## All graphs\n\n{_claim(found)}\n\n{table(header, rows)}"


def _claim(found: list[Run]) -> str:
    ratios = [run.ratio for run in found if run.method in JOINT]
    if not ratios:
        return "The joint method was not computed."
    mean, least = float(np.mean(ratios)), min(ratios)
    met = "These runs meet both." if mean >= MEAN and least >= LEAST else "**These runs do not meet both.**"
    return (
        f"The joint method should have a mean ratio of at least {MEAN} and no run below {LEAST}. "
        f"The mean of {len(ratios)} runs is {mean:.3f}, the lowest ratio is {least:.3f}. {met}"
    )


def _picture(found: list[Run], figures: Figures) -> str:
    kinds: list[tuple[str, Callable[[str], bool]]] = [
        ("public graphs", lambda name: name in PUBLIC),
        ("generated graphs", lambda name: name not in PUBLIC),
    ]
    shown = [run for run in found if run.method != POOLED and run.split != graphs.GIVEN]
    counts = sorted({run.parties for run in shown})
    with figures.figure("ratio", panels=(1, 2), size=(9.0, 3.8), sharey=True) as (_, axes):
        for axis, (title, belongs) in zip(axes, kinds, strict=True):
            for number, (method, words) in enumerate(SHOWN.items()):
                own = [run for run in shown if run.method == method and belongs(run.graph)]
                each = {place: [run.ratio for run in own if run.parties == one] for place, one in enumerate(counts)}
                each = {place: ratios for place, ratios in each.items() if ratios}
                if each:
                    colour, marker = COLOURS[number], MARKERS[number]
                    means = [float(np.mean(ratios)) for ratios in each.values()]
                    axis.plot(list(each), means, color=colour, marker=marker, label=words)
                    ends = [min(ratios) for ratios in each.values()], [max(ratios) for ratios in each.values()]
                    axis.fill_between(list(each), *ends, color=colour, alpha=0.08, linewidth=0)
            axis.set_xticks(range(len(counts)), [str(count) for count in counts])
            axis.set(title=title, xlabel="parties")
        axes[0].set(ylabel="ratio to pooled data", ylim=(0, 1.1))
        handles = {label: one for axis in axes for one, label in zip(*axis.get_legend_handles_labels(), strict=True)}
        axes[0].figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
    words = "Mean ratio by number of parties; the shaded area reaches from the lowest to the highest run."
    return figures.shown("ratio", words)


def _public(found: list[Run], records: Records) -> str:
    parts = ["## Public graphs\n\nMean ratio, and accuracy in per cent, over splits and seeds."]
    for name in (*PUBLIC, *sorted({run.graph for run in found} - {*PUBLIC, *graphs.GENERATED})):
        some = [run for run in found if run.graph == name]
        if not some:
            continue
        counts = sorted({run.parties for run in some if run.method != POOLED})
        rows = []
        for method, words in SHOWN.items():
            own = [run for run in some if run.method == method]
            if own and method == POOLED:
                rows.append([words, *[NOTHING] * len(counts), _cell(own)])
            elif own:
                rows.append([words, *[_cell([run for run in own if run.parties == one]) for one in counts], _cell(own)])
        reference = records.one(graph=name, method=REFERENCE) or {}
        own_ari, own_accuracy = f"{reference['self']:.3f}", f"{reference['accuracy']:.2f}"
        words = f"Two reference runs have an ARI of {own_ari}. The accuracy of the reference is {own_accuracy}."
        header = ["", *(f"L = {count}" for count in counts), "all"]
        parts.append(f"### {name.capitalize()}\n\n{words}\n\n{table(header, rows)}")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _cell(some: list[Run]) -> str:
    if not some:
        return NOTHING
    return f"{np.mean([run.ratio for run in some]):.3f} ({np.mean([run.accuracy for run in some]):.2f})"


def _parties(found: list[Run]) -> str:
    rows = []
    for name in PUBLIC:
        row = [name]
        for method in (*JOINT, "cells"):
            few, many = (
                [run.accuracy for run in found if (run.graph, run.method, run.parties) == (name, method, count)]
                for count in (2, 16)
            )
            row.append(_signed(float(np.mean(many) - np.mean(few))) if few and many else NOTHING)
        if row[1:] != [NOTHING] * 3:
            rows.append(row)
    if not rows:
        return ""
    words = (
        "Accuracy with 16 parties minus accuracy with 2 parties, in points, means over splits and seeds. The joint "
        f"method should stay within {POINTS} point; bold where a difference is larger."
    )
    header = ["", *(SHOWN[method] for method in (*JOINT, "cells"))]
    return f"## From 2 to 16 parties\n\n{words}\n\n{table(header, rows)}"


def _signed(value: float) -> str:
    text = f"{round(value, 2) + 0.0:+.2f}".replace("-", "−")
    return text if abs(value) <= POINTS else f"**{text}**"


def _generated(found: list[Run], records: Records) -> str:
    rows = []
    methods = ("shares", "coordinator", "cells", "tree", "basic", ALONE)
    for name in graphs.GENERATED:
        some = [run for run in found if run.graph == name]
        if some:
            reference = records.one(graph=name, method=REFERENCE) or {}
            ratios = [[run.ratio for run in some if run.method == method] for method in methods]
            each = [f"{np.mean(one):.3f} / {min(one):.3f}" if one else NOTHING for one in ratios]
            rows.append([graphs.described(name), f"{reference['self']:.3f}", f"{reference['accuracy']:.1f}", *each])
    if not rows:
        return ""
    words = (
        "The ARI of two reference runs, the accuracy of the reference, and for each method the mean / lowest ratio "
        "over numbers of parties, splits and seeds."
    )
    header = ["", "reference, ARI", "accuracy", *(SHOWN[method] for method in methods)]
    return f"## Generated graphs\n\n{words}\n\n{table(header, rows)}"


def _special(found: list[Run], records: Records) -> str:
    lines = []
    for method in JOINT:
        with_noise, without = (
            [run.accuracy for run in found if (run.graph, run.method) == (name, method)]
            for name in ("noise", "no-noise")
        )
        if with_noise and without:
            cost = float(np.mean(without) - np.mean(with_noise))
            lines.append(f"- A party of pure noise among three costs {cost:.2f} points of accuracy ({SHOWN[method]}).")
    errors: dict[tuple[str, str], list[str]] = {}
    for config, result in records.all():
        if "error" in result:
            errors.setdefault((config["graph"], result["error"]), []).append(SHOWN[config["method"]])
    for (name, error), methods in errors.items():
        refused = ", ".join(dict.fromkeys(methods))
        lines.append(f"- {graphs.described(name).capitalize()}: refused with `{error}` ({refused}).")
    return "## Special cases\n\n" + "\n".join(lines) + "\n" if lines else ""


def _worst(found: list[Run]) -> str:
    lowest = sorted((run for run in found if run.method in JOINT), key=lambda run: run.ratio)[:8]
    if not lowest:
        return ""
    rows = [[run.graph, SHOWN[run.method], run.split, str(run.parties), *_figures(run)] for run in lowest]
    header = ["graph", "", "split", "L", "ratio", "ARI", "accuracy"]
    return f"## The lowest ratios of the joint method\n\n{table(header, rows, left=3)}"


def _figures(run: Run) -> list[str]:
    return [f"{run.ratio:.3f}", f"{run.ari:.3f}", f"{run.accuracy:.2f}"]


def _share(count: int, total: int) -> str:
    return f"{count} ({100 * count / total:.0f} %)"


def origin(records: Records, module: str) -> str:
    """Return which commits and machines computed the results."""
    about = [
        f"commit `{run['commit']}`, {run['when']}, {run['machine']}, Python {run['python']}"
        for run in records.runs.values()
    ]
    return f"<small>`python -m {module}`; {len(records)} cells; {'; '.join(about)}</small>\n"
