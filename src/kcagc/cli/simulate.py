"""`kcagc simulate`: all parties and the coordinator in this process, on a dataset with known classes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcagc.cli import terminal
from kcagc.text import seconds, size

if TYPE_CHECKING:
    from kcagc.datasets.dataset import Dataset


@click.command()
@click.option("--dataset", default="demo", show_default=True, help="A dataset's name (see: kcagc datasets list).")
@click.option("--parties", type=click.IntRange(2, 16), help="Among how many to split the columns  [default: 3].")
@click.option("--local-clusters", metavar="N|Mk", help='Clusters of each party alone: a number, or "2k".')
@click.option(
    "--method",
    type=click.Choice(["auto", "cells", "basic", "tree"]),
    default="auto",
    show_default=True,
    help="cells for up to 3 parties, tree for more.",
)
@click.option("--psi", type=click.IntRange(min=0), help="Order of the graph filter  [default: the paper's].")
@click.option(
    "--filter",
    "filter_",
    type=click.Choice(["half", "norm"]),
    default="half",
    show_default=True,
    help="(1-λ/2)^ψ or (1-λ/‖L‖)^ψ.",
)
@click.option("--components", type=click.IntRange(min=1), help="Singular vectors that each party projects on.")
@click.option("--scaling", type=click.Choice(["unit", "U", "US"]), help="Of projected rows  [default: unit].")
@click.option("--unit", type=float, help="What rows are divided by with --scaling US  [default: 1].")
@click.option(
    "--virtual-nodes",
    type=click.Choice(["cell", "local"]),
    default="cell",
    show_default=True,
    help="Where cells stand.",
)
@click.option(
    "--seeding",
    type=click.Choice(["common", "d2"]),
    default="common",
    show_default=True,
    help="How starts are found.",
)
@click.option("--fan-in", type=click.IntRange(min=2), help="Children of a merge in the tree  [default: 4].")
@click.option("--aggregator", type=click.Choice(["coordinator", "party"]), help="Who sums  [default: coordinator].")
@click.option("--accept", multiple=True, metavar="NAME", help="A disclosure that is meant; may be repeated.")
@click.option("--max-iter", type=click.IntRange(min=1), help="Lloyd iterations  [default: 100].")
@click.option("--starts", type=click.IntRange(min=1), help="Starts side by side  [default: 10].")
@click.option("--paper", is_flag=True, help="The paper's configuration; other options change it.")
@click.option(
    "--holdout",
    type=click.FloatRange(0, 0.9),
    default=0.0,
    show_default=True,
    help="Share of nodes to hold back and predict.",
)
@click.option("--seed", type=click.IntRange(0, 2**31), default=0, show_default=True, help="Of the first run.")
@click.option("--runs", type=click.IntRange(min=1), default=1, show_default=True, help="Each with the next seed.")
@click.option(
    "--ledger", type=click.Path(dir_okay=False, path_type=Path), help="Write the last run's ledger here, as JSON lines."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def simulate(dataset: str, runs: int, seed: int, ledger: Path | None, as_json: bool, **options: Any) -> None:
    """Cluster collaboratively, with all roles in one process.

    The same roles, messages and masks as between organisations. Prints accuracy against the known classes, rounds,
    summed values, bytes and seconds.
    """
    from kcagc.datasets.catalog import load
    from kcagc.disclosure import Ledger

    if ledger is not None:  # better now than after the run
        ledger.touch()
    data = load(dataset, progress=lambda file: click.echo(f"downloading {file}", err=True))
    results, model = [], None
    with terminal.progress(runs) as bar:
        task = bar.task_ids[0]
        bar.update(task, description=f"{dataset}: starting")
        for number in range(runs):

            def watch(_: str, step: Any) -> None:
                count = f" {step.done}" if step.done else ""
                bar.update(task, description=f"{dataset}: {step.stage}{count}")

            result, model = _run(data, seed + number, watch, **options)
            results.append(result)
            bar.advance(task)
    if ledger is not None and model is not None:
        predicted = getattr(model, "prediction_ledger_", [])
        Ledger([*model.ledger_, *predicted]).save(ledger)
    if as_json:
        terminal.print_json(_summary(results))
    else:
        _show(results, model)


def _run(
    data: Dataset, seed: int, watch: Any, *, parties: int | None, holdout: float, **options: Any
) -> tuple[Any, Any]:
    import numpy as np

    from kcagc.metrics import accuracy, macro_f1, matched_accuracy, matching, nmi

    tables = data.parties(parties or (None if data.party_columns else 3))
    model = _model(data, seed, watch, **options)
    hidden = np.sort(np.random.RandomState(seed).permutation(data.n_nodes)[: round(holdout * data.n_nodes)])
    known = np.setdiff1d(np.arange(data.n_nodes), hidden)
    begin = time.perf_counter()
    model.fit([table[known] for table in tables], adjacency=data.adjacency[known][:, known])
    seconds = time.perf_counter() - begin
    truth = data.labels[known]
    result: dict[str, Any] = {
        "dataset": data.name,
        "parties": len(tables),
        "method": model.models_["party-1"].parameters.method,
        "local_clusters": model.models_["party-1"].parameters.n_local_clusters or None,
        "aggregator": model.aggregator,
        "seed": seed,
        "accuracy": round(100 * accuracy(truth, model.labels_), 2),
        "nmi": round(100 * nmi(truth, model.labels_), 2),
        "macro_f1": round(100 * macro_f1(truth, model.labels_), 2),
        "cells": model.cells_,
        "cells_of_one_node": model.single_node_cells_,
        "iterations": model.n_iter_,
        "converged": bool(model.converged_),
        "rounds": model.rounds_,
        "secure_sums": model.secure_sums_,
        "further_sums": model.further_sums_,
        "bytes": model.bytes_sent_,
        "bytes_by_role": model.bytes_by_role_,
        "seconds": round(seconds, 3),
    }
    if hidden.size:
        order = np.concatenate([known, hidden])
        found = model.predict([table[order] for table in tables], adjacency=data.adjacency[order][:, order])
        result["predicted"] = {
            "nodes": int(hidden.size),
            "accuracy": round(100 * matched_accuracy(matching(truth, model.labels_), data.labels[hidden], found), 2),
            "secure_sums": model.prediction_sums_,
        }
    return result, model


def _model(
    data: Dataset, seed: int, watch: Any, *, paper: bool, filter_: str, accept: tuple[str, ...], **given: Any
) -> Any:
    from kcagc.datasets.catalog import EMBEDDED, entry
    from kcagc.estimator import KCAGC

    names = {
        "local_clusters": "n_local_clusters",
        "components": "n_components",
        "starts": "n_init",
    }
    chosen = {names.get(option, option): value for option, value in given.items() if value is not None}
    chosen.setdefault("psi", 2 if data.name == EMBEDDED else entry(data.name).paper.psi)
    make = KCAGC.paper if paper else KCAGC
    model = make(n_clusters=data.n_classes, filter=filter_, random_state=seed, callbacks=[watch], **chosen)
    return model.set_params(accept=(*model.accept, *accept))


def _summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Give the first run's facts with the means over all runs, their deviations, and every run."""
    import numpy as np

    columns: dict[str, list[float]] = {
        key: [result[key] for result in results]
        for key in ("accuracy", "nmi", "macro_f1", "cells", "iterations", "rounds", "secure_sums", "bytes", "seconds")
    }
    if "predicted" in results[0]:
        columns["predicted_accuracy"] = [result["predicted"]["accuracy"] for result in results]
    means = {key: round(float(np.mean(values)), 3) for key, values in columns.items()}
    exact = means if len(results) > 1 else {key: values[0] for key, values in columns.items()}
    deviations = {key: round(float(np.std(values)), 3) for key, values in columns.items()}
    return {**results[0], **exact, "std": deviations, "runs": results}


def _show(results: list[dict[str, Any]], model: Any) -> None:
    from rich.table import Table

    console, last = terminal.out(), results[-1]
    local = f", {last['local_clusters']} local clusters" if last["local_clusters"] else ""
    console.print(
        f"[bold]{last['dataset']}[/]: {last['parties']} parties, {last['method']}{local}, "
        f"{'a coordinator' if last['aggregator'] == 'coordinator' else 'the last party'} sums\n"
    )
    table = Table(box=None, pad_edge=False)
    for column in ("seed", "accuracy", "NMI", "cells", "iter", "rounds", "sums", "sent", "time"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in results:
        table.add_row(
            str(row["seed"]),
            f"{row['accuracy']:.1f} %",
            f"{row['nmi']:.1f} %",
            f"{row['cells']:,}",
            f"{row['iterations']}{'' if row['converged'] else '+'}",
            str(row["rounds"]),
            f"{row['secure_sums']:,}",
            size(row["bytes"]),
            seconds(row["seconds"]),
        )
    console.print(table)
    if len(results) > 1:
        means = _summary(results)
        console.print(f"\nmean accuracy {means['accuracy']:.2f} ± {means['std']['accuracy']:.2f} %")
    predicted = [row["predicted"] for row in results if "predicted" in row]
    if predicted:
        mean = sum(one["accuracy"] for one in predicted) / len(predicted)
        over = f", mean of {len(predicted)} runs" if len(predicted) > 1 else ""
        console.print(f"\n{predicted[-1]['nodes']} nodes held back and predicted: accuracy {mean:.2f} %{over}")
    notes = [f"{value:,} for {what}" for what, value in last["further_sums"].items() if value]
    if notes:
        console.print(f"\nSums are the winning start's; beside them: {', '.join(notes)}.", soft_wrap=False)
    if last["cells_of_one_node"] and last["method"] != "basic":
        console.print(f"{last['cells_of_one_node']:,} of {last['cells']:,} cells hold one node alone.")
    console.print("\n[bold]Who learned what[/] (last run; --ledger FILE keeps every entry)")
    learned = Table.grid(padding=(0, 2, 0, 0))
    learned.add_column(no_wrap=True)
    learned.add_column()
    for who, words in _learned(model):
        learned.add_row(f"[bold]{who}[/]", words)
    console.print(learned)


def _learned(model: Any) -> list[tuple[str, str]]:
    """Give, by receiver, what was learned about data."""
    kinds: dict[str, dict[str, None]] = {}
    for ledger in (model.ledger_, getattr(model, "prediction_ledger_", None)):
        for line in ledger.summary() if ledger else ():
            if line.kind.startswith(("inside/", "opened/", "output/")) or line.weaker:
                words = f"{line.learns} (weaker than the default)" if line.weaker else line.learns
                kinds.setdefault(words, {})[line.receiver] = None
    everybody = set(model.models_)
    found = [("every party" if set(who) == everybody else ", ".join(who), words) for words, who in kinds.items()]
    found.sort(key=lambda one: one[0])
    before = ["", *(who for who, _ in found)]  # a name stands beside the first of its lines only
    return [(who if who != last else "", words) for (who, words), last in zip(found, before, strict=False)]
