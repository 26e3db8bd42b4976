"""Tables 8 and 9: the second filter, (1 - λ/‖L_s‖)^5, with accuracy, NMI and F1."""

from __future__ import annotations

from experiments.paper.configurations import SHOWN, dataset, fit, scores
from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.plots import Figures
from experiments.paper.published import PARTIES, PUBLISHED, row_name
from experiments.paper.store import Book, Records
from experiments.paper.tables import printed, table, with_difference
from kcagc.cluster.local import cluster_locally
from kcagc.graph.filters import NormFilter

ORDER = 5
_METRICS = {"ACC": "accuracy", "NMI": "nmi", "F1": "f1"}
_SCALING = {"paper": "U", "default": "unit"}


def cells(options: Options) -> list[Config]:
    """Return both configurations, and centralised Protocol 1 with the scaling of each."""
    found: list[Config] = []
    for seed in range(1 if options.quick else options.seeds):
        for name in options.pick("cora", "citeseer"):
            for one in ("paper", "default"):
                found.append({"dataset": name, "configuration": one, "method": "baseline", "seed": seed})
                found += [
                    {
                        "dataset": name,
                        "configuration": one,
                        "method": "kcagc",
                        "parties": number,
                        "local": many,
                        "seed": seed,
                    }
                    for number in options.thinned((2, 4), PARTIES)
                    for many in ("k", "2k")
                ]
    return found


def compute(cell: Config) -> Result:
    """Cluster with the second filter."""
    if cell["method"] == "baseline":
        data = dataset(cell["dataset"])
        found = cluster_locally(
            data.adjacency,
            data.features,
            data.n_classes,
            filter=NormFilter(ORDER),
            scaling=_SCALING[cell["configuration"]],
            random_state=cell["seed"],
        )
        return scores(data, found.labels)
    return fit(cell, filter="norm", psi=ORDER)


def render(book: Book, figures: Figures) -> str:
    """Return a table for each graph."""
    records = book["filter-norm"]
    parts = [
        "Per cent, mean ± standard deviation; in brackets the difference to the paper. The baseline is Protocol 1 on "
        "the pooled columns.\n"
    ]
    parts += [_table(records, name) for name in records.values("dataset")]
    return "\n".join(parts)


def _table(records: Records, name: str) -> str:
    published = PUBLISHED["filter_norm_psi5"].get(name, {})
    parties = records.values("parties", dataset=name, method="kcagc")
    rows = []
    for local in ("k", "2k"):
        for metric, field in _METRICS.items():
            paper = [_pair(published, row_name(local), f"L={number}", metric) for number in parties]
            rows.append([f"k̂ = {local}", metric, "paper", *map(printed, paper)])
            for one in ("paper", "default"):
                stats = [
                    records.stat(field, dataset=name, configuration=one, method="kcagc", parties=number, local=local)
                    for number in parties
                ]
                shown = [with_difference(stat, there) for stat, there in zip(stats, paper, strict=True)]
                rows.append(["", "", f"`{SHOWN[one]}`", *shown])
    found = table(["", "", "", *(f"L = {number}" for number in parties)], rows, left=3)
    baseline = []
    for metric, field in _METRICS.items():
        paper_value = _pair(published, "baseline", metric)
        ours = [
            with_difference(records.stat(field, dataset=name, configuration=one, method="baseline"), paper_value)
            for one in ("paper", "default")
        ]
        baseline.append([metric, printed(paper_value), *ours])
    heads = ["baseline", "paper", "scaling U", "rows of unit length"]
    return f"### {name.capitalize()}\n\n{found}\n{table(heads, baseline)}"


def _pair(published: dict, *path: str) -> tuple[float, float] | None:
    for step in path:
        published = published.get(step, {})
    return (published[0], published[1]) if published else None


EXPERIMENT = Experiment("filter-norm", "Tables 8 and 9: another filter", cells, compute, render)
