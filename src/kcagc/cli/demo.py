"""`kcagc demo`: three organisations and a coordinator as four processes, from certificates to clusters."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcagc.cli import terminal
from kcagc.cli.options import JSON
from kcagc.cli.simulate import disclosure_table, learned_about_data
from kcagc.text import count, listed, percent, printable, size

if TYPE_CHECKING:
    from kcagc.datasets.dataset import Dataset
    from kcagc.deploy.trial import LogRecord

_PARTIES = ("bank", "telecom", "shop")


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), help="Folder for the roles  [default: a new temporary one].")
@JSON
def demo(folder: Path | None, as_json: bool) -> None:
    """Cluster the embedded dataset as three organisations and a coordinator: four processes with mutual TLS."""
    from kcagc.datasets import load
    from kcagc.deploy.trial import Trial
    from kcagc.graph import Graph

    dataset = load("demo")
    graph = Graph.from_matrix(dataset.adjacency)
    where = Path(tempfile.mkdtemp(prefix="kcagc-demo-")) if folder is None else folder
    start = time.perf_counter()
    # A demonstration should be repeatable; a real run should not set random_state.
    trial = Trial(where, list(dataset.party_names), examples=dataset, n_clusters=dataset.n_classes, random_state=0)
    if not as_json:
        _introduce(dataset, graph)
    with trial.running() as processes, _shown(processes.ids, as_json) as show:
        alone = _cluster_alone(dataset, graph)  # meanwhile
        for name, record in processes.records():
            show(name, record)
    duration = time.perf_counter() - start
    results = [*alone[:-1], _read_together(dataset, graph, where), alone[-1]]
    disclosed = _disclosed(where, list(trial.configs))
    reports = {name: str(where / name / "result" / "report.html") for name in trial.configs}
    if as_json:
        rest = {"folder": str(where), "seconds": round(duration, 1), "reports": reports}
        terminal.print_json({"clusterings": results, "disclosed": disclosed, **rest})
    else:
        _show(results, disclosed, where, reports[_PARTIES[0]], duration)


def _introduce(dataset: Dataset, graph: Any) -> None:
    terminal.out().print(
        f"[bold]{count(graph.n_nodes)} people, {count(graph.n_edges)} links between them, {dataset.n_classes} hidden "
        f"groups.[/] A {_PARTIES[0]}, a {_PARTIES[1]} and a {_PARTIES[2]} know all links. Each of them also has "
        f"{dataset.party_columns[0]} columns of its own about each person, which it does not show to the others."
    )


@contextlib.contextmanager
def _shown(ids: dict[str, int], as_json: bool) -> Iterator[Callable[[str, LogRecord], None]]:
    """Show the log of each process: as a table on a terminal, otherwise as lines."""
    console = terminal.messages()
    if not console.is_terminal:

        def write(name: str, record: LogRecord) -> None:
            if not as_json:
                click.echo(f"{record.clock} {name}: {printable(record.message)}", err=True)

        yield write
        return
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    last = dict.fromkeys(ids, "starting")

    def table() -> Table:
        grid = Table.grid(padding=(0, 2, 0, 0))
        for style in ("", "dim", ""):
            grid.add_column(no_wrap=True, style=style)
        for name, number in ids.items():
            grid.add_row(name, f"process {number}", Text(printable(last[name])))
        return grid

    with Live(console=console, get_renderable=table, refresh_per_second=12):
        yield lambda name, record: last.update({name: record.message})
        last.update(dict.fromkeys(ids, "done"))


def _cluster_alone(dataset: Dataset, graph: Any) -> list[dict[str, Any]]:
    """Cluster the columns of each party alone, and all columns pooled, without any protocol.

    The rule for columns is that of the parties' configurations.
    """
    from dataclasses import replace

    from kcagc.baselines import AGC
    from kcagc.data import TablePreprocessor

    scaled = replace(
        dataset, features=TablePreprocessor(default={"scale": "standard"}).fit_transform(dataset.in_units())
    )
    results = []
    for who, features in zip((*_PARTIES, "all pooled"), [*scaled.parties(), scaled.features], strict=True):
        model = AGC(dataset.n_classes, psi="auto", method="joint", random_state=0)
        found = model.fit(features, adjacency=graph).labels_
        results.append(_measured(who, features.shape[1], dataset, graph, found))
    return results


def _read_together(dataset: Dataset, graph: Any, where: Path) -> dict[str, Any]:
    """Read the labels that the first party's process wrote, in the order of the ids."""
    import csv

    import numpy as np

    with (where / _PARTIES[0] / "result" / "labels.csv").open(encoding="utf-8", newline="") as file:
        found = np.array([int(row["cluster"]) for row in csv.DictReader(file)])
    return _measured("together", dataset.features.shape[1], dataset, graph, found)


def _measured(who: str, columns: int, dataset: Dataset, graph: Any, found: Any) -> dict[str, Any]:
    import numpy as np

    from kcagc.metrics import table

    sizes = np.bincount(found).tolist()
    return {"who": who, "columns": columns, "cluster_sizes": sizes, **table(dataset.labels, found, graph)}


def _disclosed(where: Path, names: list[str]) -> dict[str, Any]:
    """Return the bytes that each role sent, and what roles learned about data, from the ledgers of all roles."""
    from kcagc.disclosure import Ledger

    ledgers = {}
    for name in names:
        ledgers[name] = Ledger.load(where / name / "result" / "ledger.jsonl")
    everything = [one for ledger in ledgers.values() for one in ledger]
    learned = [{"receivers": who, "text": text} for who, text in learned_about_data(everything, list(_PARTIES))]
    return {"bytes_sent": {name: ledger.bytes_sent(name) for name, ledger in ledgers.items()}, "learned": learned}


def _show(results: list[dict[str, Any]], disclosed: dict[str, Any], where: Path, report: str, duration: float) -> None:
    from rich.markup import escape
    from rich.table import Table

    console = terminal.out()
    wide = console.width >= 75
    table = Table(box=None, pad_edge=False)
    table.add_column("clustered by", no_wrap=True)
    table.add_column("columns", justify="right")
    table.add_column("accuracy", justify="right", no_wrap=True)
    if wide:
        table.add_column("", no_wrap=True)
        table.add_column("NMI", justify="right")
        table.add_column("cluster sizes", no_wrap=True)
    names = {"together": "[bold]together[/]", "all pooled": "all pooled"}
    for row in results:
        cells = [names.get(row["who"], f"{row['who']} alone"), str(row["columns"]), percent(row["accuracy"])]
        if wide:
            sizes = " ".join(map(str, sorted(row["cluster_sizes"], reverse=True)))
            cells += ["█" * round(15 * row["accuracy"]), f"{row['nmi']:.2f}", sizes]
        table.add_row(*cells)
    console.print()
    console.print(table)
    console.print("\nAccuracy is the share of people whose cluster matches their hidden group.")
    console.print("\n[bold]Disclosures: what each role learned about the data[/]")
    console.print(disclosure_table([(row["receivers"], row["text"]) for row in disclosed["learned"]]))
    sent = [f"{name} {size(n_bytes)}" for name, n_bytes in disclosed["bytes_sent"].items()]
    console.print(f"\nFour processes with mutual TLS took {duration:.1f} s. Bytes sent: {listed(sent)}.")
    console.print("The folder of each role contains its configuration, keys, labels, model, ledger and report:")
    console.print(f"[bold]{escape(str(where))}[/]", soft_wrap=True)
    console.print(f"The report of the {_PARTIES[0]}, for a browser:\n[bold]{escape(report)}[/]", soft_wrap=True)
