"""Table 1: the contents of the four graphs, as loaded here and as printed."""

from __future__ import annotations

from experiments.paper.configurations import dataset, order_of
from experiments.paper.experiment import PUBLIC, Config, Experiment, Options, Result
from experiments.paper.plots import Figures
from experiments.paper.published import PUBLISHED
from experiments.paper.store import Book
from experiments.paper.tables import NOTHING, table


def cells(options: Options) -> list[Config]:
    """Return a cell for each graph."""
    return [{"dataset": name} for name in options.pick(*PUBLIC)]


def compute(cell: Config) -> Result:
    """Count."""
    data = dataset(cell["dataset"])
    loops = int((data.adjacency.diagonal() != 0).sum())
    return {
        "nodes": data.n_nodes,
        "edges": int((data.adjacency.nnz - loops) // 2) + loops,
        "self_loops": loops,
        "features": int(data.features.shape[1]),
        "classes": data.n_classes,
        "isolated": int((data.adjacency.sum(axis=1) == 0).sum()),
        "psi": order_of(data.name),
    }


def render(book: Book, figures: Figures) -> str:
    """Return the table, the paper's count in brackets where it differs."""
    rows = []
    for name in book["datasets"].values("dataset"):
        found = book["datasets"].one(dataset=name)
        paper = PUBLISHED["datasets"].get(name, [None] * 4)
        counts = [found[field] for field in ("nodes", "edges", "features", "classes")]
        shown = [
            f"{ours:,}" if theirs in (ours, None) else f"{ours:,} ({theirs:,})"
            for ours, theirs in zip(counts, paper, strict=True)
        ]
        rows.append([name, *shown, f"{found['isolated']:,}" if found["isolated"] else NOTHING, str(found["psi"])])
    return (
        "Undirected edges are counted once. Where the paper's count differs, it is in brackets: the paper counts links "
        "as listed, so that a link in both directions or a repeated link counts twice.\n\n"
        + table(["", "nodes", "edges", "features", "classes", "isolated nodes", "ψ"], rows)
    )


EXPERIMENT = Experiment("datasets", "Table 1: the graphs", cells, compute, render)
