"""Accuracy next to the figures of the paper: AGC and GCC on the public graphs, the protocols on Cora with two parties.

`make accuracy` runs this. The figures of the protocols are stored in `benchmarks/results/collaboration.json`. The
paper's numbers need ten restarts that run to convergence; ten iterations (its Q) and a single restart are printed too.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from experiments.paper.store import provenance
from kcagc import AGC, GCC, KCAGC
from kcagc.datasets import Dataset, load
from kcagc.datasets.catalog import CatalogEntry, entries, entry
from kcagc.metrics import accuracy, macro_f1, matched_accuracy, matching, nmi

RESULTS = Path(__file__).parent / "results" / "collaboration.json"
BASELINES = ("agc", "gcc")
PAPER = {"basic": 67.6, "cells": 67.81}  # Table 2, Cora, L = 2, k̂ = k
VARIANTS = {
    "10 restarts, converged": {"max_iter": 100},
    "10 restarts, Q=10": {},
    "1 restart, converged": {"max_iter": 100, "n_init": 1},
    "1 restart, Q=10": {"n_init": 1},
}


@click.command()
@click.argument("names", nargs=-1, metavar="[DATASET]...")
@click.option("--only", type=click.Choice(["baselines", "protocols"]), help="One of the two tables.  [default: both]")
@click.option("--baseline-seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Runs of a baseline.")
@click.option("--seeds", type=click.IntRange(min=1), default=10, show_default=True, help="Runs of a protocol.")
def main(names: tuple[str, ...], only: str | None, baseline_seeds: int, seeds: int) -> None:
    """Print the accuracy of the baselines on each DATASET (default: all public graphs) and of the protocols on Cora."""
    if only != "protocols":
        print_baselines([entry(name) for name in names or entries()], baseline_seeds)
    if only != "baselines":
        print_protocols(seeds)


def print_baselines(chosen: list[CatalogEntry], seeds: int) -> None:
    """Print a line for each graph and baseline: AGC at the paper's order, GCC at the power of its authors' rule."""
    graphs = [(facts, load(facts.name)) for facts in chosen]  # all downloads come before the first run
    header = ("dataset", "method", "order", "accuracy %", "paper %", "difference", "NMI %", "F1 %", "s/run")
    line = "{:8}  {:6}  {:>5}  {:>12}  {:>7}  {:>10}  {:>5}  {:>5}  {:>5}"
    click.echo(line.format(*header))
    for facts, data in graphs:
        for method in BASELINES:
            row = baseline(facts, data, method, seeds)
            shown = [f"{row['accuracy']:.2f} ± {row['accuracy_std']:.2f}", f"{row['paper']:.2f}"]
            shown.append(f"{row['difference']:+.2f}")
            shown += [f"{row[name]:.2f}" for name in ("nmi", "macro_f1", "seconds_per_run")]
            click.echo(line.format(facts.name, method.upper(), row["order"], *shown))


def baseline(facts: CatalogEntry, data: Dataset, method: str, seeds: int) -> dict[str, Any]:
    """Return the mean scores of one baseline over the seeds, in per cent."""
    scores, order = [], None
    begin = time.perf_counter()
    for seed in range(seeds):
        if method == "agc":
            model: Any = AGC(n_clusters=data.n_classes, psi=facts.paper.psi, weighting="none", random_state=seed)
        else:  # the rule chooses the power once; the other seeds use it
            model = GCC(n_clusters=data.n_classes, power=order, random_state=seed)
        model.fit(data.features, adjacency=data.adjacency)
        order = model.psi_ if method == "agc" else model.power_
        scores.append([measure(data.labels, model.labels_) for measure in (accuracy, nmi, macro_f1)])
    means, deviations = 100 * np.mean(scores, axis=0), 100 * np.std(scores, axis=0)
    paper = getattr(facts.paper, method)
    return {
        "order": order,
        "accuracy": round(float(means[0]), 2),
        "accuracy_std": round(float(deviations[0]), 2),
        "paper": paper,
        "difference": round(float(means[0]) - paper, 2) + 0.0,  # + 0.0 turns -0.0 into 0.0
        "nmi": round(float(means[1]), 2),
        "macro_f1": round(float(means[2]), 2),
        "seconds_per_run": round((time.perf_counter() - begin) / seeds, 2),
    }


def print_protocols(seeds: int) -> None:
    """Print the accuracy of each protocol on Cora in the paper's configuration, and store the figures."""
    cora, psi = load("cora"), entry("cora").paper.psi
    rows = []
    click.echo("\nCora, two parties, the paper's configuration (k̂ = k), accuracy in per cent")
    click.echo(f"{'method':8} {'variant':24} {'ours':>13} {'paper':>7} {'rounds':>7} {'s/run':>6}")
    for method, paper in PAPER.items():
        for variant, changes in VARIANTS.items():
            row = protocol(cora, psi, method, changes, seeds)
            rows.append({"method": method, "variant": variant, "paper": paper} | row)
            click.echo(
                f"{method:8} {variant:24} {row['accuracy']:6.2f} ± {row['accuracy_std']:4.2f} {paper:7.2f} "
                f"{row['rounds']:7.1f} {row['seconds_per_run']:6.2f}"
            )
    predicted = [_held_back(cora, psi, seed) for seed in range(seeds)]
    fitted, new = (round(float(np.mean(column)), 2) for column in zip(*predicted, strict=True))
    click.echo(f"\na tenth of the nodes held back, method cells: fit {fitted:.2f}, predicted {new:.2f}")
    held_back = {"fit": fitted, "predicted": new, "share": 0.1}
    stored = {**provenance(), "seeds": seeds, "rows": rows, "held_back": held_back}
    RESULTS.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")


def protocol(data: Dataset, psi: int, method: str, changes: dict[str, Any], seeds: int) -> dict[str, Any]:
    """Return the mean accuracy of a protocol between two parties over the seeds, in per cent."""
    begin = time.perf_counter()
    models = [
        KCAGC.paper(n_clusters=data.n_classes, psi=psi, method=method, random_state=seed, **changes).fit(
            data.parties(2), adjacency=data.adjacency
        )
        for seed in range(seeds)
    ]
    found = [100 * accuracy(data.labels, model.labels_) for model in models]
    return {
        "accuracy": round(float(np.mean(found)), 2),
        "accuracy_std": round(float(np.std(found)), 2),
        "rounds": round(float(np.mean([model.rounds_ for model in models])), 1),
        "seconds_per_run": round((time.perf_counter() - begin) / seeds, 2),
    }


def _held_back(data: Dataset, psi: int, seed: int) -> tuple[float, float]:
    """Return the accuracy of a fit without a tenth of the nodes, and of their prediction under the same matching."""
    order = np.random.RandomState(seed).permutation(data.n_nodes)
    n_known = round(0.9 * data.n_nodes)
    tables = [table[order] for table in data.parties(2)]
    graph, truth = data.adjacency[order][:, order], data.labels[order]
    settings = {"method": "cells", "accept": ("revealing-labels",), "random_state": seed}
    model = KCAGC(n_clusters=data.n_classes, psi=psi, **settings)
    model.fit([table[:n_known] for table in tables], adjacency=graph[:n_known, :n_known])
    found = model.predict(tables, adjacency=graph)
    predicted = matched_accuracy(matching(truth[:n_known], model.labels_), truth[n_known:], found)
    return 100 * accuracy(truth[:n_known], model.labels_), 100 * predicted


if __name__ == "__main__":
    main()
