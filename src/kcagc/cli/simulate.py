"""`kcagc simulate`: all parties and the coordinator in this process, on a dataset with known classes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcagc.cli import terminal
from kcagc.cli.options import FILE, JSON, PAPER, PARTIES, WEIGHTING, ParameterCommand, load_dataset, make_model, split
from kcagc.text import count, listed, seconds, size

if TYPE_CHECKING:
    from kcagc.datasets.dataset import Dataset


@click.command(cls=ParameterCommand, without=("n_clusters", "graph"))
@click.option("--dataset", default="demo", show_default=True, help="Name of a dataset (see: kcagc datasets list).")
@PARTIES
@PAPER
@WEIGHTING
@click.option("--accept", multiple=True, metavar="NAME", help="Accept this risk; may be repeated.")
@click.option("--holdout", type=click.FloatRange(0, 0.9), default=0.0, help="Share of nodes to predict  [default: 0].")
@click.option("--seed", type=click.IntRange(0, 2**31), default=0, show_default=True, help="Seed of the first run.")
@click.option("--runs", type=click.IntRange(min=1), default=1, show_default=True, help="Runs, each with the next seed.")
@click.option("--ledger", type=FILE, help="Write the disclosure ledger of the last run to this file, as JSON lines.")
@JSON
def simulate(dataset: str, runs: int, seed: int, ledger: Path | None, as_json: bool, **options: Any) -> None:
    """Cluster collaboratively, with all roles in one process.

    The roles, messages and masks are those of a run between organisations. Prints accuracy against the known classes,
    rounds, comparisons, bytes and seconds.
    """
    from kcagc.disclosure import Ledger

    if ledger is not None:  # an error about the file must come before the run
        ledger.touch()
    data = load_dataset(dataset)
    results, model = [], None
    with terminal.steps(dataset, runs) as step:
        for number in range(runs):
            step("starting")

            def watch(_: str, progress: Any) -> None:
                step(terminal.progress_text(progress), new=False)

            result, model = _run(data, seed + number, watch, **options)
            results.append(result)
    if ledger is not None and model is not None:
        predicted = getattr(model, "prediction_ledger_", [])
        Ledger([*model.ledger_, *predicted]).save(ledger)
    if as_json:
        terminal.print_json(_summary(results))
    else:
        _show(results, model)


def _run(
    data: Dataset, seed: int, watch: Any, *, parties: int | None, holdout: float, accept: tuple[str, ...], **given: Any
) -> tuple[Any, Any]:
    import numpy as np

    from kcagc.metrics import accuracy, macro_f1, matched_accuracy, matching, nmi

    tables = split(data, parties)
    model = make_model(data, seed, callbacks=[watch], **given)
    model.set_params(accept=(*model.accept, *accept))
    hidden = np.sort(np.random.RandomState(seed).permutation(data.n_nodes)[: round(holdout * data.n_nodes)])
    known = np.setdiff1d(np.arange(data.n_nodes), hidden)
    start = time.perf_counter()
    model.fit([table[known] for table in tables], adjacency=data.adjacency[known][:, known])
    duration = time.perf_counter() - start
    truth = data.labels[known]
    parameters = model.models_["party-1"].parameters
    has_cells = parameters.method != "joint"
    result: dict[str, Any] = {
        "dataset": data.name,
        "parties": len(tables),
        "method": model.method_,
        "method_reason": model.method_reason_,
        "joint_rows": None if has_cells else parameters.joint_rows,
        "local_clusters": parameters.n_local_clusters or None,
        "aggregator": model.aggregator,
        "seed": seed,
        "accuracy": round(100 * accuracy(truth, model.labels_), 2),
        "nmi": round(100 * nmi(truth, model.labels_), 2),
        "macro_f1": round(100 * macro_f1(truth, model.labels_), 2),
        "cells": model.cells_ if has_cells else None,
        "cells_of_one_node": model.single_node_cells_ if has_cells else None,
        "iterations": model.n_iter_,
        "converged": bool(model.converged_),
        "rounds": model.rounds_,
        "secure_sums": model.secure_sums_,
        "further_sums": model.further_sums_,
        "bytes": model.bytes_sent_,
        "bytes_by_role": model.bytes_by_role_,
        "seconds": round(duration, 3),
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


def _summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first run's facts with the means over all runs, their deviations, and every run."""
    import numpy as np

    columns: dict[str, list[float]] = {
        key: [result[key] for result in results]
        for key in ("accuracy", "nmi", "macro_f1", "cells", "iterations", "rounds", "secure_sums", "bytes", "seconds")
        if results[0][key] is not None
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
    local = f" ({count(last['local_clusters'], 'local cluster')})" if last["local_clusters"] else ""
    if last["joint_rows"]:
        local = f" (joint_rows {last['joint_rows']})"
    aggregator = "the coordinator" if last["aggregator"] == "coordinator" else "the last party"
    console.print(f"[bold]{last['dataset']}[/]: {last['parties']} parties, {aggregator} aggregates")
    console.print(f"Method {last['method']}{local}, because {last['method_reason']}.\n", soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    has_cells = last["cells"] is not None
    for column in ("seed", "accuracy", "NMI", "cells", "iter", "rounds", "comparisons", "sent", "time"):
        if has_cells or column != "cells":
            table.add_column(column, justify="right", no_wrap=True)
    for row in results:
        table.add_row(
            str(row["seed"]),
            f"{row['accuracy']:.1f} %",
            f"{row['nmi']:.1f} %",
            *([f"{row['cells']:,}"] if has_cells else []),
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
        console.print(f"\n{count(predicted[-1]['nodes'], 'node')} left out and predicted: accuracy {mean:.2f} %{over}")
    notes = [f"{value:,} for {what}" for what, value in last["further_sums"].items() if value]
    if notes:
        console.print(f"\nComparisons are those of the best restart; others: {listed(notes)}.", soft_wrap=False)
    if last["cells_of_one_node"] and last["method"] in ("cells", "tree"):
        console.print(f"{last['cells_of_one_node']:,} of {count(last['cells'], 'cell')} contain one node only.")
    console.print("\n[bold]Disclosures[/] (last run; --ledger FILE writes all of them)")
    parties = list(model.models_)
    ledger = [*model.ledger_, *getattr(model, "prediction_ledger_", ())]
    console.print(disclosure_table(learned_about_data(ledger, parties)))


def disclosure_table(learned: list[tuple[str, str]]) -> Any:
    """Return a table of receivers and what they learned; a name is shown in the first of its rows."""
    from rich.markup import escape
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    before = ""
    for receivers, text in learned:
        table.add_row(f"[bold]{escape(receivers)}[/]" if receivers != before else "", escape(text))
        before = receivers
    return table


def learned_about_data(disclosures: Iterable[Any], parties: list[str]) -> list[tuple[str, str]]:
    """Return the disclosures about data, each text with its receivers; sorted by receivers."""
    from kcagc.disclosure import summarise

    found = []
    for one in summarise(disclosures, by_sender=False, by_receiver=False):
        if one.about_data:
            receivers = "every party" if set(one.receivers) == set(parties) else listed(list(one.receivers))
            found.append((receivers, f"{one.learns} (more than the default)" if one.weaker else one.learns))
    return sorted(found, key=lambda one: one[0])
