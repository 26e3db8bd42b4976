"""Table 5: the time of centralised AGC."""

from __future__ import annotations

import time

from experiments.paper.configurations import dataset, order_of
from experiments.paper.experiment import PUBLIC, Config, Experiment, Options, Result
from experiments.paper.plots import Figures
from experiments.paper.published import PUBLISHED
from experiments.paper.store import Book
from experiments.paper.tables import printed, spread, table
from kcagc.baselines import AGC


def cells(options: Options) -> list[Config]:
    """Return each graph once for each seed."""
    seeds = range(1 if options.quick else options.seeds)
    return [{"dataset": name, "seed": seed} for name in options.pick(*PUBLIC) for seed in seeds]


def compute(cell: Config) -> Result:
    """Measure filter, projection and k-means, after a small run that loads the libraries."""
    data = dataset(cell["dataset"])
    model = AGC(n_clusters=data.n_classes, psi=order_of(data.name), weighting="none", random_state=cell["seed"])
    model.fit(data.features[:100], adjacency=data.adjacency[:100][:, :100])
    begin = time.perf_counter()
    model.fit(data.features, adjacency=data.adjacency)
    return {"seconds": round(time.perf_counter() - begin, 4), "iterations": model.n_iter_}


def render(book: Book, figures: Figures) -> str:
    """Return the table."""
    records = book["agc-time"]
    rows = []
    for name in records.values("dataset"):
        paper = PUBLISHED["centralised_agc_seconds"].get(name)
        rows.append([name, printed(tuple(paper) if paper else None), spread(records.stat("seconds", dataset=name))])
    return (
        "Seconds for filter, projection and k-means with ten restarts at the paper's ψ, on all columns pooled. The "
        "paper's machine has 48 cores.\n\n" + table(["", "paper, s", "ours, s"], rows)
    )


EXPERIMENT = Experiment("agc-time", "Table 5: time of centralised AGC", cells, compute, render, alone=True)
