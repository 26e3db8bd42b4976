"""`kcagc demo`: the embedded dataset clustered by each party alone, by all together without pooling, and pooled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from kcagc.cli import screen

_PARTIES = ("bank", "telecom", "shop")
_ORDER = 2  # of the filter


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def demo(as_json: bool) -> None:
    """Cluster the embedded dataset and say what was done."""
    import time

    import numpy as np
    from rich.table import Table

    from kcagc.cluster import cluster_locally
    from kcagc.datasets import load
    from kcagc.estimators import KCAGC
    from kcagc.graph import Graph, HalfFilter
    from kcagc.metrics import table

    dataset = load("demo")
    graph = Graph.from_matrix(dataset.adjacency)
    model = KCAGC(n_clusters=dataset.n_classes, psi=_ORDER, random_state=0)

    def alone(features: Any) -> Any:
        return cluster_locally(graph, features, dataset.n_classes, filter=HalfFilter(_ORDER), random_state=0).labels

    runs: list[tuple[str, int, Callable[[], Any]]] = [
        (who, features.shape[1], partial(alone, features))
        for who, features in zip(_PARTIES, dataset.parties(), strict=True)
    ]
    columns = dataset.features.shape[1]
    runs.append(("together", columns, lambda: model.fit(dataset.parties(), adjacency=graph).labels_))
    runs.append(("all pooled", columns, partial(alone, dataset.features)))
    results = []
    for who, width, cluster in runs:
        begin = time.perf_counter()
        found = cluster()
        results.append(
            {
                "who": who,
                "columns": width,
                "cluster_sizes": np.bincount(found).tolist(),
                **table(dataset.labels, found, graph),
                "seconds": round(time.perf_counter() - begin, 3),
            }
        )
    if as_json:
        screen.print_json(results)
        return

    console = screen.out()
    console.print(
        f"[bold]{graph.n_nodes:,} nodes, {graph.n_edges:,} edges, {dataset.n_classes} hidden classes.[/] "
        f"A {_PARTIES[0]}, a {_PARTIES[1]} and a {_PARTIES[2]} know the same nodes and the same graph; "
        f"each holds {dataset.party_columns[0]} columns of its own about them.\n"
    )
    wide = console.width >= 75
    shown = Table(box=None, pad_edge=False)
    shown.add_column("clustered by", no_wrap=True)
    shown.add_column("columns", justify="right")
    shown.add_column("accuracy", justify="right", no_wrap=True)
    if wide:
        shown.add_column("", no_wrap=True)
        shown.add_column("NMI", justify="right")
        shown.add_column("cluster sizes", no_wrap=True)
    for row in results:
        cells = [
            {"together": "[bold]together[/]", "all pooled": "all pooled"}.get(row["who"], f"{row['who']} alone"),
            str(row["columns"]),
            screen.percent(row["accuracy"]),
        ]
        if wide:
            cells += [
                "█" * round(15 * row["accuracy"]),
                f"{row['nmi']:.2f}",
                " ".join(map(str, sorted(row["cluster_sizes"], reverse=True))),
            ]
        shown.add_row(*cells)
    console.print(shown)
    console.print(
        f"\nEach table was smoothed along the graph ({_ORDER} steps of the filter 1 - λ/2), projected on its leading "
        "singular vectors and clustered by k-means. Together, the three exchanged cluster numbers encrypted, and a "
        f"coordinator without data saw sums of masked distances, in an order it does not know: {model.rounds_} rounds, "
        f"{screen.size(model.bytes_sent_)}. [bold]Who learned what: kcagc simulate[/]"
    )
