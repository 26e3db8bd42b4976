"""`kcagc baselines`: AGC and GCC on the public graphs, beside the accuracy that the paper prints."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from kcagc.cli import terminal

if TYPE_CHECKING:
    from rich.progress import Progress

    from kcagc.datasets.catalog import CatalogEntry
    from kcagc.datasets.dataset import Dataset

_METHODS = ("agc", "gcc")


@click.command()
@click.argument("names", nargs=-1, metavar="[DATASET]...")
@click.option("--method", type=click.Choice(_METHODS), multiple=True, help="Only this one; may be repeated.")
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Runs of each cell.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def baselines(names: tuple[str, ...], method: tuple[str, ...], seeds: int, as_json: bool) -> None:
    """Compare AGC and GCC with the paper's figures.

    AGC runs at the paper's filter order, GCC at the power that its authors' rule selects. DATASET is one or more of
    cora, citeseer, pubmed, wiki; all four if none is given. Prints mean accuracy and its standard deviation over the
    seeds, in per cent, and the difference to the paper's figure.
    """
    from kcagc.datasets.catalog import entries, entry, load

    # All graphs before the first run: a missing one must not cost the results of the others.
    chosen = [entry(name) for name in dict.fromkeys(names or entries())]
    graphs = {
        facts.name: load(facts.name, progress=lambda file: click.echo(f"downloading {file}", err=True))
        for facts in chosen
    }
    methods = tuple(dict.fromkeys(method or _METHODS))
    results: list[dict[str, Any]] = []
    try:
        with terminal.progress(len(chosen) * len(methods) * seeds) as bar:
            for facts in chosen:
                for one in methods:
                    results.append(_cell(facts, graphs[facts.name], one, seeds, bar))
                    if bar.disable:  # nobody watches the bar; a log gets a line
                        click.echo(f"{facts.name} {one}: {results[-1]['accuracy']:.2f} %", err=True)
    finally:  # what is finished is shown, whatever ends the rest
        if as_json:
            terminal.print_json(results)
        elif results:
            _show(results)


def _cell(facts: CatalogEntry, dataset: Dataset, method: str, seeds: int, bar: Progress) -> dict[str, Any]:
    import numpy as np

    from kcagc.baselines import AGC, GCC
    from kcagc.metrics import accuracy, macro_f1, nmi

    task, scores, order = bar.task_ids[0], [], None
    begin = time.perf_counter()
    for seed in range(seeds):
        bar.update(task, description=f"{facts.name} {method}")
        if method == "agc":
            model: Any = AGC(n_clusters=dataset.n_classes, psi=facts.paper.psi, random_state=seed)
        else:  # the rule chooses the power once; the other seeds use it
            model = GCC(n_clusters=dataset.n_classes, power=order, random_state=seed)
        model.fit(
            dataset.features,
            adjacency=dataset.adjacency,
            progress=lambda tried, _: bar.update(task, description=f"{facts.name} {method}, power {tried}"),
        )
        order = model.psi_ if method == "agc" else model.power_
        scores.append([measure(dataset.labels, model.labels_) for measure in (accuracy, nmi, macro_f1)])
        bar.advance(task)
    means, deviations = 100 * np.mean(scores, axis=0), 100 * np.std(scores, axis=0)
    paper = getattr(facts.paper, method)
    return {
        "dataset": facts.name,
        "method": method,
        "order": order,
        "accuracy": round(float(means[0]), 2),
        "accuracy_std": round(float(deviations[0]), 2),
        "paper": paper,
        "difference": round(float(means[0]) - paper, 2) + 0.0,  # no minus before a zero
        "nmi": round(float(means[1]), 2),
        "macro_f1": round(float(means[2]), 2),
        "seeds": seeds,
        "seconds_per_run": round((time.perf_counter() - begin) / seeds, 2),
    }


def _show(results: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("dataset", "method", "order", "accuracy %", "paper %", "difference", "NMI %", "F1 %", "s/run"):
        table.add_column(column, justify="left" if column in ("dataset", "method") else "right", no_wrap=True)
    for row in results:
        table.add_row(
            row["dataset"],
            row["method"].upper(),
            str(row["order"]),
            f"{row['accuracy']:.2f} ± {row['accuracy_std']:.2f}",
            f"{row['paper']:.2f}",
            f"{row['difference']:+.2f}",
            f"{row['nmi']:.2f}",
            f"{row['macro_f1']:.2f}",
            f"{row['seconds_per_run']:.2f}",
        )
    terminal.out().print(table)
