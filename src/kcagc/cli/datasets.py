"""`kcagc datasets`: which graphs there are, what is in one, and fetching one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kcagc.cli import screen

if TYPE_CHECKING:
    from kcagc.datasets.model import Dataset


@click.group()
def datasets() -> None:
    """List, describe and fetch graphs by name."""


@datasets.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def list_(as_json: bool) -> None:
    """Show all graphs and where each is."""
    from rich.table import Table

    from kcagc.datasets.catalog import EMBEDDED, entries
    from kcagc.datasets.loading import load, where
    from kcagc.graph.structure import Graph

    small = load(EMBEDDED)
    rows = [
        {
            "name": small.name,
            "nodes": small.n_nodes,
            "edges": Graph(small.adjacency).n_edges,
            "features": small.features.shape[1],
            "classes": small.n_classes,
            "at": "comes with kcagc",
        }
    ]
    for name, facts in entries().items():
        found = where(name)
        size = sum(file.bytes for file in facts.files) / 1e6
        rows.append(
            {
                "name": name,
                "nodes": facts.nodes,
                "edges": facts.edges,
                "features": facts.features,
                "classes": facts.classes,
                "at": str(found) if found else f"to download, {size:.1f} MB",
            }
        )
    if as_json:
        screen.print_json(rows)
        return
    table = Table(box=None, pad_edge=False)
    for column in rows[0]:
        table.add_column(column, justify="left" if column in ("name", "at") else "right")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()))
    screen.out.print(table)


@datasets.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def info(name: str, as_json: bool) -> None:
    """Count what is in the graph NAME.

    Where the paper counts edges otherwise, say why.
    """
    import numpy as np

    from kcagc.datasets.catalog import EMBEDDED, entry
    from kcagc.graph.structure import Graph

    dataset = _load(name)
    graph = Graph(dataset.adjacency)
    row, column = dataset.adjacency.nonzero()
    proper = row != column
    counts = {
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "features": dataset.features.shape[1],
        "classes": dataset.n_classes,
        "self_loops": graph.n_self_loops,
        "isolated_nodes": graph.n_isolated,
        "mean_degree": round(2 * graph.n_edges / graph.n_nodes, 2),
        "edges_within_a_class": round(float(np.mean(dataset.labels[row[proper]] == dataset.labels[column[proper]])), 3),
        "class_sizes": np.bincount(dataset.labels).tolist(),
    }
    if name == EMBEDDED:
        title = "five communities that no party can tell apart alone: a generated stochastic block model"
        note = f"Three parties hold {', '.join(map(str, dataset.party_columns))} of the columns."
    else:
        facts = entry(name)
        title = facts.title
        counts["edges_in_the_paper"] = facts.paper_edges
        note = (
            f"The paper counts {facts.paper_edges:,} edges: {facts.paper_edges_why}. "
            f"Counted here: undirected edges between different nodes, each once."
        )
    if as_json:
        screen.print_json({"name": name, "title": title, **counts, "note": note})
        return
    screen.out.print(f"[bold]{name}[/]: {title}", soft_wrap=True)
    for what, value in counts.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else f"{value:,}"
        screen.out.print(f"  {what.replace('_', ' '):22}{shown}", soft_wrap=True)
    screen.out.print(note, soft_wrap=True)


@datasets.command()
@click.argument("name")
def fetch(name: str) -> None:
    """Download the graph NAME unless it is here, and print its path.

    KCAGC_DATA names a folder that is looked into first, KCAGC_CACHE where downloads are kept, and KCAGC_DATA_URL a
    web folder of your own with copies of the original files, used instead of the public addresses.
    """
    from kcagc.datasets.catalog import EMBEDDED
    from kcagc.datasets.loading import where

    _load(name)
    click.echo("comes with kcagc" if name == EMBEDDED else where(name))


def _load(name: str) -> Dataset:
    """Load with a line of progress for each file that is downloaded."""
    from kcagc.datasets.loading import load

    return load(name, progress=lambda file: screen.messages.print(f"downloading {file}"))
