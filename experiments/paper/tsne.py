"""Figure 3: Cora in the plane, coloured by class and by three clusterings."""

from __future__ import annotations

import warnings

import numpy as np

from experiments.paper.configurations import dataset, estimator, order_of, scores
from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.plots import Figures
from experiments.paper.store import Book
from experiments.paper.tables import table
from kcagc.baselines import AGC
from kcagc.metrics import matching

PANELS = {
    "labels": "true classes",
    "agc": "AGC, all pooled",
    "basic": "basic kCAGC (Protocol 2)",
    "kcagc": "kCAGC, k̂ = k (Protocol 3)",
}


def cells(options: Options) -> list[Config]:
    """Return one cell for each graph and configuration; all panels share the projection."""
    return [
        {"dataset": name, "configuration": one, "seed": 0}
        for name in options.pick("cora")
        for one in options.thinned(("paper",), ("paper", "default"))
    ]


def compute(cell: Config) -> Result:
    """Project the pooled embedding once and cluster with each method; clusters get the number of their class."""
    from sklearn.manifold import TSNE  # noqa: PLC0415 - slow to import, and only needed here

    data = dataset(cell["dataset"])
    agc = AGC(n_clusters=data.n_classes, psi=order_of(data.name), weighting="none", random_state=cell["seed"])
    agc.fit(data.features, adjacency=data.adjacency)
    found = {"labels": data.labels, "agc": agc.labels_}
    for method in ("basic", "kcagc"):
        chosen = {"method": "basic"} if method == "basic" else {"n_local_clusters": "k"}
        model = estimator(cell["configuration"], data, seed=cell["seed"], **chosen)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[method] = model.fit(data.parties(2), adjacency=data.adjacency).labels_
    points = TSNE(random_state=0, init="pca", perplexity=30).fit_transform(agc.embedding_)
    points = 100 * (points - points.min(axis=0)) / np.ptp(points, axis=0)
    matched = {}
    for name, labels in found.items():
        stands_for = matching(data.labels, labels)
        matched[name] = [int(stands_for.get(label, label)) for label in labels]
    return {
        "x": [round(float(value), 1) for value in points[:, 0]],
        "y": [round(float(value), 1) for value in points[:, 1]],
        "clusters": matched,
        "accuracy": {name: scores(data, labels)["accuracy"] for name, labels in found.items()},
    }


def render(book: Book, figures: Figures) -> str:
    """Draw four panels for each configuration."""
    parts = []
    every = {(config["dataset"], config["configuration"]): found for config, found in book["tsne"].all()}
    for (name, one), found in sorted(every.items(), key=lambda item: (item[0][0], item[0][1] != "paper")):
        file = f"tsne-{name}-{one}.png"
        with figures.figure(file, panels=(1, 4), size=(14, 3.8)) as (_, axes):
            for axis, (panel, words) in zip(axes, PANELS.items(), strict=True):
                clusters = np.array(found["clusters"][panel])
                axis.scatter(found["x"], found["y"], c=clusters, cmap="tab10", vmin=0, vmax=9.5, s=3, lw=0)
                score = "" if panel == "labels" else f"\naccuracy {found['accuracy'][panel]:.1f} %"
                axis.set_title(words + score, fontsize=10)
                axis.set(xticks=[], yticks=[])
                axis.grid(visible=False)
        shown = "the paper's configuration" if one == "paper" else "our defaults"
        words = (
            f"{name.capitalize()}, L = 2, {shown}: one t-SNE projection of the filtered, pooled features; a cluster "
            "has the colour of the class that it matches best."
        )
        parts.append(figures.shown(file, words))
        rows = [[PANELS[panel], f"{value:.2f}"] for panel, value in found["accuracy"].items() if panel != "labels"]
        parts.append(table(["", "accuracy, %"], rows))
    return "\n".join(parts)


EXPERIMENT = Experiment("tsne", "Figure 3: Cora in the plane", cells, compute, render)
