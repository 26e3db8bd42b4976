"""`kcagc datasets`: list the datasets, describe one, download one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kcagc.cli import terminal
from kcagc.cli.options import JSON, load_dataset
from kcagc.text import size


@click.group()
def datasets() -> None:
    """List, describe and download datasets by name."""


@datasets.command("list")
@JSON
def list_(as_json: bool) -> None:
    """List all datasets and the files that hold them."""
    from rich.markup import escape
    from rich.table import Table

    from kcagc.datasets.catalog import EMBEDDED, embedded_path, entries, load, local_path
    from kcagc.graph.graph import Graph

    small = load(EMBEDDED)
    counts = ("nodes", "edges", "features", "classes")
    sizes = (small.n_nodes, Graph(small.adjacency).n_edges, small.features.shape[1], small.n_classes)
    rows = [_row(small.name, dict(zip(counts, sizes, strict=True)), embedded_path(), 0)]
    for name, facts in entries().items():
        found = local_path(name)
        download = 0 if found else sum(file.bytes for file in facts.files)
        rows.append(_row(name, {one: getattr(facts, one) for one in counts}, found, download))
    if as_json:
        terminal.print_json(rows)
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("name")
    for column in counts:
        table.add_column(column, justify="right")
    table.add_column("where", overflow="fold")
    for row in rows:
        place = row["path"] or f"to download, {size(row['download_bytes'])}"
        place = "comes with kcagc" if row["name"] == EMBEDDED else place
        table.add_row(row["name"], *(f"{row[column]:,}" for column in counts), escape(place))
    terminal.out().print(table)


def _row(name: str, counts: dict[str, int], path: Path | None, download: int) -> dict[str, Any]:
    return {"name": name, **counts, "path": str(path) if path else None, "download_bytes": download}


@datasets.command()
@click.argument("name")
@JSON
def info(name: str, as_json: bool) -> None:
    """Describe the dataset NAME: nodes, edges, features, classes.

    If the paper counts edges in another way, the note explains the difference.
    """
    import numpy as np

    from kcagc.datasets.catalog import EMBEDDED, entry
    from kcagc.graph.graph import Graph

    dataset = load_dataset(name)
    graph = Graph(dataset.adjacency)
    row, column = dataset.adjacency.nonzero()
    proper = row != column
    facts: dict[str, Any] = {
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "features": dataset.features.shape[1],
        "classes": dataset.n_classes,
        "feature_values": "numbers" if name == EMBEDDED else entry(name).feature_kind,
        "self_loops": graph.n_self_loops,
        "isolated_nodes": graph.n_isolated,
        "mean_degree": round(2 * graph.n_edges / graph.n_nodes, 2),
        "edges_within_a_class": round(float(np.mean(dataset.labels[row[proper]] == dataset.labels[column[proper]])), 3),
        "class_sizes": np.bincount(dataset.labels).tolist(),
    }
    if name == EMBEDDED:
        title = "five communities that no party can find alone: a generated stochastic block model"
        note = f"Three parties hold {', '.join(map(str, dataset.party_columns))} of the columns."
    else:
        described = entry(name)
        title = described.title
        facts["edges_in_the_paper"] = described.paper_edges
        note = (
            f"The paper counts {described.paper_edges:,} edges: {described.paper_edges_why}. "
            f"Counted here: undirected edges between different nodes, each once."
        )
    if as_json:
        terminal.print_json({"name": name, "title": title, **facts, "note": note})
        return
    console = terminal.out()
    console.print(f"[bold]{name}[/]: {title}")
    for what, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int | float) else value
        shown = ", ".join(map(str, value)) if isinstance(value, list) else shown
        console.print(f"  {what.replace('_', ' '):22}{shown}", soft_wrap=True)
    console.print(note)


@datasets.command()
@click.argument("name")
def fetch(name: str) -> None:
    """Download the dataset NAME unless this machine has it, and print its path.

    Environment variables: KCAGC_DATA is a folder that is searched first, KCAGC_CACHE the folder of downloads, and
    KCAGC_DATA_URL a web folder of your own with copies of the original files, instead of the public addresses.
    """
    from kcagc.datasets.catalog import EMBEDDED, embedded_path, local_path

    load_dataset(name)
    click.echo(embedded_path() if name == EMBEDDED else local_path(name))
