"""`kcagc demo`: three organisations and a coordinator as four processes, from certificates to clusters."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcagc.cli import terminal
from kcagc.text import percent, size

if TYPE_CHECKING:
    from kcagc.datasets.dataset import Dataset
    from kcagc.deploy.trial import Trial

_PARTIES = ("bank", "telecom", "shop")
_ORDER = 2  # of the filter


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), help="Where the roles' folders go  [default: a new one].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def demo(folder: Path | None, as_json: bool) -> None:
    """Cluster the embedded dataset as three organisations and a coordinator, four processes with mutual TLS."""
    from kcagc.datasets import load
    from kcagc.graph import Graph

    dataset = load("demo")
    graph = Graph.from_matrix(dataset.adjacency)
    where = Path(tempfile.mkdtemp(prefix="kcagc-demo-")) if folder is None else folder
    begin = time.perf_counter()
    trial = _prepared(where, dataset)
    if not as_json:
        _introduce(dataset, graph)
    with trial.running() as processes, _shown(list(trial.configs), processes.ids, as_json) as show:
        alone = _alone(dataset, graph)  # meanwhile
        for name, line in processes.lines():
            show(name, line)
    seconds = time.perf_counter() - begin
    results = [*alone[:-1], _together(dataset, graph, where), alone[-1]]
    learned = _learned(where, list(trial.configs))
    if as_json:
        told = {"clusterings": results, "learned": learned, "folder": str(where), "seconds": round(seconds, 1)}
        terminal.print_json({**told, "reports": {name: str(_page(where, name)) for name in trial.configs}})
    else:
        _report(results, learned, where, seconds)


def _prepared(where: Path, dataset: Dataset) -> Trial:
    """Write what four organisations would have: keys, certificates, configurations and tables of their own."""
    from kcagc.deploy.examples import write_examples
    from kcagc.deploy.trial import Trial

    trial = Trial(where, list(_PARTIES), n_clusters=dataset.n_classes, psi=_ORDER)
    write_examples(dataset, trial.configs, list(_PARTIES))
    trial.set("random_state", 0)  # a demonstration should be repeatable; a run in earnest should not
    return trial


def _introduce(dataset: Dataset, graph: Any) -> None:
    terminal.out().print(
        f"[bold]{graph.n_nodes:,} people, {graph.n_edges:,} links between them, {dataset.n_classes} hidden groups.[/] "
        f"A {_PARTIES[0]}, a {_PARTIES[1]} and a {_PARTIES[2]} all know who is linked to whom; each holds "
        f"{dataset.party_columns[0]} columns of its own about everybody, and shows them to nobody.\n"
    )


@contextlib.contextmanager
def _shown(names: list[str], ids: dict[str, int], as_json: bool) -> Iterator[Any]:
    """Show what each process says: as a table that moves where a person watches, as lines where not."""
    from rich.live import Live
    from rich.table import Table

    console, said = terminal.messages(), dict.fromkeys(names, "starting")

    def drawn() -> Table:
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, style="dim")
        table.add_column(no_wrap=True)
        for name in names:
            table.add_row(name, f"process {ids[name]}", said[name])
        return table

    if not console.is_terminal:

        def say(_: str, line: str) -> None:
            if not as_json:
                click.echo(line, err=True)

        yield say
        return
    with Live(drawn(), console=console, refresh_per_second=12, transient=False) as live:

        def show(name: str, line: str) -> None:
            said[name] = _stage_of(line)
            live.update(drawn())

        yield show
        for name in names:
            said[name] = "done"
        live.update(drawn())


def _stage_of(line: str) -> str:
    """Give what a role said, without the time and its name."""
    return line.partition(": ")[2] or line


def _alone(dataset: Dataset, graph: Any) -> list[dict[str, Any]]:
    """Cluster what each party has, and what all have, as if there were nobody else and no secrets."""
    from kcagc.cluster import cluster_locally
    from kcagc.graph import HalfFilter

    tables = [*dataset.parties(), dataset.features]
    results = []
    for who, features in zip((*_PARTIES, "all pooled"), tables, strict=True):
        found = cluster_locally(graph, features, dataset.n_classes, filter=HalfFilter(_ORDER), random_state=0).labels
        results.append(_judged(who, features.shape[1], dataset, graph, found))
    return results


def _together(dataset: Dataset, graph: Any, where: Path) -> dict[str, Any]:
    """Read the labels that the first party's process wrote; they are in the order of the names."""
    import numpy as np

    lines = (where / _PARTIES[0] / "result" / "labels.csv").read_text(encoding="utf-8").splitlines()[1:]
    found = np.array([int(line.split(",")[1]) for line in lines])
    return _judged("together", dataset.features.shape[1], dataset, graph, found)


def _judged(who: str, columns: int, dataset: Dataset, graph: Any, found: Any) -> dict[str, Any]:
    import numpy as np

    from kcagc.metrics import table

    sizes = np.bincount(found).tolist()
    return {"who": who, "columns": columns, "cluster_sizes": sizes, **table(dataset.labels, found, graph)}


def _learned(where: Path, names: list[str]) -> list[dict[str, Any]]:
    """Give, for each role, what left it and what it learned about data, as the ledgers of all roles have it."""
    import json

    learned: dict[str, dict[str, None]] = {name: {} for name in names}
    sent = dict.fromkeys(names, 0)
    for name in names:
        for line in (where / name / "result" / "ledger.jsonl").read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry["kind"].startswith("message/") and entry["sender"] == name:
                sent[name] += entry["bytes"]
            about_data = entry["kind"].startswith(("opened/", "inside/labels", "output/"))
            if about_data and entry["receiver"] in learned:
                words = entry["learns"].partition(":")[0].partition(";")[0]
                learned[entry["receiver"]][words.replace("the sender's", "each other party's")] = None
    return [{"role": name, "bytes_sent": sent[name], "learned": sorted(learned[name])} for name in names]


def _page(where: Path, name: str) -> Path:
    return where / name / "result" / "report.html"


def _report(results: list[dict[str, Any]], learned: list[dict[str, Any]], where: Path, seconds: float) -> None:
    from rich.table import Table

    console = terminal.out()
    wide = console.width >= 75
    shown = Table(box=None, pad_edge=False)
    shown.add_column("clustered by", no_wrap=True)
    shown.add_column("columns", justify="right")
    shown.add_column("accuracy", justify="right", no_wrap=True)
    if wide:
        shown.add_column("", no_wrap=True)
        shown.add_column("NMI", justify="right")
        shown.add_column("cluster sizes", no_wrap=True)
    names = {"together": "[bold]together[/]", "all pooled": "all pooled"}
    for row in results:
        cells = [names.get(row["who"], f"{row['who']} alone"), str(row["columns"]), percent(row["accuracy"])]
        if wide:
            sizes = " ".join(map(str, sorted(row["cluster_sizes"], reverse=True)))
            cells += ["█" * round(15 * row["accuracy"]), f"{row['nmi']:.2f}", sizes]
        shown.add_row(*cells)
    console.print()
    console.print(shown)
    console.print("\n[bold]Who learned what about the data[/]")
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column()
    told: dict[str, list[str]] = {}
    for row in learned:
        told.setdefault("; ".join(row["learned"]), []).append(row["role"])
    sent = {row["role"]: row["bytes_sent"] for row in learned}
    for words, roles in told.items():
        each = " each" if len(roles) > 1 else ""
        grid.add_row(", ".join(roles), f"sent {size(max(sent[role] for role in roles))}{each}", words)
    console.print(grid)
    console.print(
        f"\nFour processes, mutual TLS, {seconds:.1f} s. Each role's configuration, keys, labels, model, ledger and "
        "report are in its own folder under"
    )
    console.print(f"[bold]{where}[/]", soft_wrap=True)
    console.print(f"\nThe report of the {_PARTIES[0]}, for a browser:")
    console.print(f"[bold]{_page(where, _PARTIES[0])}[/]", soft_wrap=True)
