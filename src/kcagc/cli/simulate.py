"""`kcagc simulate`: all parties and the coordinator in this process, with the user's files or a dataset."""

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

_MISSING = ("error", "mean", "median", "zero", "indicator")
_SCALE = ("none", "standard", "minmax", "log1p", "log-standard")
_OF_TABLES = (
    "graph", "id_column", "source", "target", "weight", "node_list", "missing", "scale", "categorical", "drop"
)  # fmt: skip
_REHEARSAL = (
    "configs", "tables", *_OF_TABLES, "split", "n_clusters", "held_out", "classes", "class_id_column", "class_column",
    "page",
)  # fmt: skip
_NO_SETTINGS = ("parties", "paper", "weighting", "accept", "holdout")


@click.command(cls=ParameterCommand, without=("graph",))
@click.option("--dataset", default="demo", show_default=True, help="Name of a dataset (see: kcagc datasets list).")
@click.option("--config", "configs", type=FILE, multiple=True, help="A party's TOML file; repeat it for each party.")
@click.option("--table", "tables", type=FILE, multiple=True, help="A party's table; repeat it for each party.")
@click.option("--graph", type=FILE, help="With --table: the edges that all parties share.")
@click.option("--id-column", help='With --table: the column of ids  [default: "id", if there is one].')
@click.option("--source", default="source", show_default=True, help="With --table: first column of the edges.")
@click.option("--target", default="target", show_default=True, help="With --table: second column of the edges.")
@click.option("--weight", help="With --table: column of edge weights.")
@click.option("--node-list", type=FILE, help="With --table: file of the ids that take part.")
@click.option("--missing", type=click.Choice(_MISSING), help="With --table: what replaces missing cells.")
@click.option("--scale", type=click.Choice(_SCALE), help="With --table: how numbers are scaled.")
@click.option("--categorical", multiple=True, metavar="COLUMN", help="With --table: a column of categories.")
@click.option("--drop", multiple=True, metavar="COLUMN", help="With --table: a column to leave out.")
@click.option("--split", type=click.IntRange(2, 16), help="Split the columns of the only party into so many parts.")
@click.option("--n-clusters", metavar="K", help="Numbers of clusters to try, such as 5 or 4,5,6 or 4-8.")
@click.option("--psi", metavar="PSI", help="Filter orders to try, such as 2 or auto,2,5  [default: auto].")
@click.option("--method", metavar="METHOD", help="Methods to try, such as joint or joint,cells  [default: auto].")
@PARTIES
@PAPER
@WEIGHTING
@click.option("--accept", multiple=True, metavar="NAME", help="Accept this risk; may be repeated.")
@click.option("--holdout", type=click.FloatRange(0, 0.9), default=0.0, help="Share of nodes to predict  [default: 0].")
@click.option("--seed", type=click.IntRange(0, 2**31), default=0, show_default=True, help="Seed of the first run.")
@click.option("--runs", type=click.IntRange(min=1), default=1, show_default=True, help="Runs, each with the next seed.")
@click.option("--held-out/--no-held-out", default=True, help="Compare settings by edges that were left out  [default].")
@click.option("--classes", type=FILE, help="Known classes of some or all nodes: .csv, .tsv or .parquet.")
@click.option("--class-id-column", default="id", show_default=True, help="Column of --classes with the node ids.")
@click.option("--class-column", default="label", show_default=True, help="Column of --classes with the classes.")
@click.option("--page", type=FILE, help="Write curves, bytes and disclosures of all settings to this HTML file.")
@click.option("--ledger", type=FILE, help="Write the disclosure ledger of the last run to this file, as JSON lines.")
@JSON
def simulate(dataset: str, runs: int, seed: int, ledger: Path | None, as_json: bool, **options: Any) -> None:
    """Rehearse a run: all roles in one process, with your own files or a dataset.

    The roles, messages and masks are those of a run between organisations, and nothing leaves this machine. Give the
    configuration of each party (--config), or tables and a graph (--table, --graph). If you have the table of one party
    only, --split 2 splits its columns between two.

    With several values of --n-clusters, --psi or --method, the command runs every combination, prints one table with
    what each needs and discloses, says which are best or equally good, and prints the settings to copy.
    """
    own = {name: options.pop(name) for name in _REHEARSAL}
    swept = {name: options[name] for name in ("psi", "method")} | {"n_clusters": own["n_clusters"]}
    several = own["n_clusters"] is not None or any("," in str(one) or _is_range(one) for one in swept.values())
    if own["configs"] or own["tables"] or several or own["page"] is not None or own["classes"] is not None:
        _rehearse(dataset, range(seed, seed + runs), ledger, own, swept, options, as_json=as_json)
        return
    for name in (*_OF_TABLES, "split"):
        source = click.get_current_context().get_parameter_source(name)
        if own[name] and source is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')}: is for your own files; give --table and --graph")
    if options["psi"] is not None and options["psi"].removeprefix("-").isdecimal():
        options["psi"] = int(options["psi"])
    _simulate_dataset(dataset, runs, seed, ledger, as_json, **options)


def _is_range(text: Any) -> bool:
    return text is not None and "-" in str(text)[1:]


def _rehearse(
    dataset: str,
    seeds: Iterable[int],
    ledger: Path | None,
    own: dict[str, Any],
    swept: dict[str, Any],
    options: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """Run all settings with the parties that the options name."""
    from kcagc.cli.rehearse import rehearse
    from kcagc.rehearsal.parties import from_configs
    from kcagc.rehearsal.settings import Grid, values_of, words_of

    _check_options(own, options)
    given: dict[str, Any] = {name: value for name, value in options.items() if name not in (*swept, *_NO_SETTINGS)}
    if swept["n_clusters"] is not None:
        given["n_clusters"] = values_of(swept["n_clusters"], "n_clusters")
    if swept["psi"] is not None:
        given["psi"] = values_of(swept["psi"], "psi", ("auto",))
    if swept["method"] is not None:
        given["method"] = words_of(swept["method"], "method")
    accept, slow = options["accept"], terminal.SlowStep({"files": "reading the files"})
    for path in (own["page"], ledger):
        if path is not None:
            _check_folder(path)
    if own["tables"]:  # an error about the settings comes before the files are read
        Grid.of({}, given, list(seeds))
    slow.begin("files")
    try:
        if own["configs"]:
            changed = [name for name, value in given.items() if value is not None]
            parties = from_configs(own["configs"], parts=own["split"], changed=changed).accepting(accept)
        elif own["tables"]:
            parties = _parties_of_tables(own, accept)
        else:
            parties, given = _parties_of_dataset(dataset, options, given)
        if own["classes"] is not None:
            parties = parties.with_classes(own["classes"], own["class_id_column"], own["class_column"])
    finally:
        slow.end()
    grid = Grid.of(parties.session, given, list(seeds))
    if ledger is not None and len(grid.settings) > 1:
        raise click.UsageError("--ledger: is for one setting; --page shows what each of several settings discloses")
    rehearse(parties, grid, held_out=own["held_out"], page=own["page"], ledger=ledger, as_json=as_json)


def _check_options(own: dict[str, Any], options: dict[str, Any]) -> None:
    """Raise an error if options contradict each other."""
    context = click.get_current_context()
    dataset_given = context.get_parameter_source("dataset") is click.core.ParameterSource.COMMANDLINE
    sources = [name for name, one in (("--config", own["configs"]), ("--table", own["tables"])) if one]
    sources += ["--dataset"] if dataset_given else []
    if len(sources) > 1:
        raise click.UsageError(f"give either {listed(sources, last='or')}: they are different sources of data")
    if own["tables"] and own["graph"] is None:
        raise click.UsageError(
            "--graph: is missing; give the file with the edges that all parties share. To cluster without a graph, "
            'write configurations with graph = "none", and give them with --config'
        )
    for name in _OF_TABLES:
        default = context.get_parameter_source(name) is click.core.ParameterSource.DEFAULT
        if not own["tables"] and not default and own[name]:
            where = "; the configuration says it" if own["configs"] else ""
            raise click.UsageError(f"--{name.replace('_', '-')}: is for --table{where}")
    if own["configs"] or own["tables"]:
        for name in ("parties", "paper", "weighting"):
            if options[name]:
                raise click.UsageError(f"--{name}: is for a dataset")
    elif own["split"]:
        raise click.UsageError("--split: is for your own table; a dataset has --parties")
    if options["holdout"]:
        raise click.UsageError("--holdout: is for one setting of a dataset, without --page, --config and --table")


def _check_folder(path: Path) -> None:
    from kcagc.errors import ParameterError

    if not path.parent.is_dir():
        raise ParameterError(f"{path}: the folder {path.parent} does not exist; create it, or name another file")


def _parties_of_tables(own: dict[str, Any], accept: tuple[str, ...]) -> Any:
    from kcagc.data.preprocessing import ColumnRule
    from kcagc.rehearsal.parties import TableFiles, from_tables

    rule = ColumnRule(missing=own["missing"] or "error", scale=own["scale"] or "none")
    names = ("graph", "id_column", "source", "target", "weight", "node_list", "categorical", "drop")
    files = TableFiles(own["tables"], default=rule, **{name: own[name] for name in names})
    return from_tables(files, parts=own["split"], accept=accept)


def _parties_of_dataset(dataset: str, options: dict[str, Any], given: dict[str, Any]) -> Any:
    """Return the parties of a dataset, whose known classes count, and its settings: those of the paper if asked."""
    from kcagc.data.party_files import PartyInput
    from kcagc.data.weighting import apply_weights, fit_weights
    from kcagc.disclosure import Policy
    from kcagc.errors import DataError
    from kcagc.graph import Graph
    from kcagc.protocol.parameters import PARAMETERS
    from kcagc.rehearsal.parties import Parties

    data = load_dataset(dataset)
    tables = split(data, options["parties"])
    names = [f"party-{number}" for number in range(1, len(tables) + 1)]
    model = make_model(data, 0, paper=options["paper"], weighting=options["weighting"])
    session = {name: getattr(model, name) for name in PARAMETERS if name != "graph"}
    inputs, graph = {}, Graph.from_matrix(data.adjacency)
    for name, table in zip(names, tables, strict=True):
        weights = fit_weights(table, model.weighting, lambda row, column, text: DataError(f"{row}, {column}: {text}"))
        columns = [str(column) for column in range(table.shape[1])]
        inputs[name] = PartyInput(graph, apply_weights(table, weights), columns, len(columns), weights=weights)
    policy = Policy((*model.accept, *options["accept"]))
    classes: list[str | None] = [str(one) for one in data.labels.tolist()]
    return Parties(inputs, dict.fromkeys(names, policy), session, classes=classes), given


def _simulate_dataset(dataset: str, runs: int, seed: int, ledger: Path | None, as_json: bool, **options: Any) -> None:
    """Run a dataset with known classes with one setting."""
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
