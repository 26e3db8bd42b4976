"""Figure 4: the accuracy if each of two parties knows only a part of the edges."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import sparse

from experiments.paper.configurations import SHOWN, dataset, estimator, order_of, scores
from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.plots import COLOURS, MARKERS, Figures
from experiments.paper.store import Book, Records
from experiments.paper.tables import spread, table
from kcagc._types import Sparse
from kcagc.baselines import AGC

SHARES = (50, 60, 70, 80, 90, 100)
_SERIES = (
    ("kcagc", "default"),
    ("basic", "default"),
    ("kcagc", "paper"),
    ("basic", "paper"),
    ("agc-A", ""),
    ("agc-B", ""),
    ("agc", ""),
)


def cells(options: Options) -> list[Config]:
    """Return all methods at every share of the edges; pooled AGC has all of them."""
    found: list[Config] = []
    for name in options.pick("cora"):
        for seed in range(1 if options.quick else options.seeds):
            for share in options.thinned((50, 70, 100), SHARES):
                found += [
                    {"dataset": name, "share": share, "method": method, "configuration": one, "seed": seed}
                    for method, one in _SERIES
                    if method != "agc" or share == 100
                ]
    return found


def compute(cell: Config) -> Result:
    """Cluster with the part of the graph that each party knows."""
    data = dataset(cell["dataset"])
    first, second = split_edges(data.adjacency, cell["share"] / 100, cell["seed"])
    tables = data.parties(2)
    method = cell["method"]
    if method.startswith("agc"):
        graph, features = {
            "agc-A": (first, tables[0]),
            "agc-B": (second, tables[1]),
            "agc": (data.adjacency, data.features),
        }[method]
        found = AGC(n_clusters=data.n_classes, psi=order_of(data.name), weighting="none", random_state=cell["seed"])
        return scores(data, found.fit(features, adjacency=graph).labels_)
    chosen = {"method": "basic"} if method == "basic" else {"n_local_clusters": "k"}
    model = estimator(cell["configuration"], data, seed=cell["seed"], **chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(tables, adjacency=[first, second])
    return scores(data, model.labels_)


def split_edges(adjacency: Sparse, share: float, seed: int) -> tuple[Sparse, Sparse]:
    """Split the edges so that each of two parties has this share, and both together have all.

    At one half they have none in common. For a larger share, each also gets random edges of the other.
    """
    upper = sparse.coo_array(sparse.triu(adjacency, k=0))
    n_edges = upper.nnz
    order = np.random.RandomState(seed).permutation(n_edges)
    half = n_edges // 2
    own_first, own_second = order[:half], order[half:]
    wanted = round(share * n_edges)
    first = np.concatenate([own_first, own_second[: max(wanted - len(own_first), 0)]])
    second = np.concatenate([own_second, own_first[: max(wanted - len(own_second), 0)]])
    return _of_edges(upper, first), _of_edges(upper, second)


def _of_edges(upper: sparse.coo_array, chosen: np.ndarray) -> Sparse:
    rows, columns = (side[chosen] for side in upper.coords)
    one_way = sparse.coo_array((upper.data[chosen], (rows, columns)), shape=upper.shape)
    apart = sparse.coo_array((upper.data[chosen] * (rows != columns), (columns, rows)), shape=upper.shape)
    found = sparse.csr_array(one_way + apart)
    found.eliminate_zeros()
    return found


def label(method: str, configuration: str) -> str:
    """Return the name of a line of the figure."""
    names = {"agc-A": "AGC, party A alone", "agc-B": "AGC, party B alone", "agc": "AGC, all pooled"}
    if method in names:
        return names[method]
    return f"{'basic' if method == 'basic' else 'k̂ = k'}, {SHOWN[configuration]}"


def render(book: Book, figures: Figures) -> str:
    """Return the figure and its numbers."""
    records = book["split-graph"]
    return "\n".join(_of(records, name, figures) for name in records.values("dataset"))


def _of(records: Records, name: str, figures: Figures) -> str:
    shares = records.values("share", dataset=name)
    pooled = records.stat("accuracy", dataset=name, method="agc")
    lines = {
        label(method, one): [
            records.stat("accuracy", dataset=name, method=method, configuration=one, share=share) for share in shares
        ]
        for method, one in _SERIES
        if method != "agc"
    }
    with figures.figure(f"split-graph-{name}") as (_, axes):
        for number, (words, stats) in enumerate(lines.items()):
            axes.errorbar(
                shares,
                [stat.mean if stat else np.nan for stat in stats],
                yerr=[stat.std if stat else 0 for stat in stats],
                color=COLOURS[number],
                marker=MARKERS[number],
                ms=5,
                lw=1.4,
                capsize=2,
                label=words,
            )
        if pooled:
            axes.axhline(pooled.mean, color="#333333", ls="--", lw=1, label="AGC, all pooled, all edges")
        axes.set(xlabel="edges that each party knows, %", ylabel="accuracy, %", xticks=shares)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    words = f"{name.capitalize()}, two parties, each with its own part of the edges and half of the columns."
    rows = [[line, *map(spread, stats)] for line, stats in lines.items()]
    found = [figures.shown(f"split-graph-{name}", words), table(["", *(f"{share} %" for share in shares)], rows)]
    if pooled:
        found.append(
            f"AGC on all edges and all columns: {spread(pooled)}. The paper prints this figure without numbers.\n"
        )
    return "\n".join(found)


EXPERIMENT = Experiment("split-graph", "Figure 4: parties with different graphs", cells, compute, render)
