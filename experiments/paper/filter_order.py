"""Figure 5: accuracy against the order ψ of the filter, for kCAGC and AGC."""

from __future__ import annotations

from experiments.paper.configurations import SHOWN, dataset, fit, order_of, scores
from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.plots import COLOURS, MARKERS, Figures
from experiments.paper.store import Book
from experiments.paper.tables import spread, table
from kcagc.baselines import AGC

ORDERS = (1, 2, 3, 5, 7, 9, 12, 15, 20, 30, 45, 60)


def cells(options: Options) -> list[Config]:
    """Return AGC and both configurations of kCAGC (L = 2, k̂ = k) at every order."""
    return [
        {"dataset": name, "psi": psi, "method": method, "configuration": one, "seed": seed}
        for seed in range(1 if options.quick else min(options.seeds, 3))
        for name in options.pick("cora", "citeseer", "pubmed")
        for psi in options.thinned((2, 9), ORDERS)
        for method, one in (("agc", ""), ("kcagc", "paper"), ("kcagc", "default"))
    ]


def compute(cell: Config) -> Result:
    """Cluster at one order."""
    if cell["method"] == "agc":
        data = dataset(cell["dataset"])
        found = AGC(n_clusters=data.n_classes, psi=cell["psi"], weighting="none", random_state=cell["seed"])
        return scores(data, found.fit(data.features, adjacency=data.adjacency).labels_)
    return fit(cell | {"parties": 2, "local": "k"}, psi=cell["psi"])


def render(book: Book, figures: Figures) -> str:
    """Return a panel for each graph, and the numbers."""
    records = book["filter-order"]
    names = records.values("dataset")
    series = {"AGC": ("agc", ""), SHOWN["paper"]: ("kcagc", "paper"), SHOWN["default"]: ("kcagc", "default")}
    size = (3.6 * len(names) + 0.6, 3.4)
    parts = []
    with figures.figure("filter-order", panels=(1, len(names)), size=size, squeeze=False) as (_, axes):
        for axis, name in zip(axes[0], names, strict=True):
            orders = records.values("psi", dataset=name)
            rows = []
            for number, (words, (method, one)) in enumerate(series.items()):
                stats = [
                    records.stat("accuracy", dataset=name, psi=psi, method=method, configuration=one) for psi in orders
                ]
                rows.append([words, *map(spread, stats)])
                known = [(psi, stat) for psi, stat in zip(orders, stats, strict=True) if stat]
                axis.errorbar(
                    [psi for psi, _ in known],
                    [stat.mean for _, stat in known],
                    yerr=[stat.std for _, stat in known],
                    color=COLOURS[number],
                    marker=MARKERS[number],
                    ms=4,
                    lw=1.3,
                    capsize=2,
                    label=words,
                )
            axis.axvline(order_of(name), color="#999999", lw=1, ls=":")
            axis.set(title=name, xlabel="ψ", xscale="log", xticks=orders, xticklabels=[str(psi) for psi in orders])
            axis.minorticks_off()
            axis.tick_params(axis="x", labelsize=7)
            parts.append(f"{name.capitalize()}:\n\n" + table(["ψ", *map(str, orders)], rows))
        axes[0][0].set_ylabel("accuracy, %")
        axes[0][-1].legend(loc="lower right", fontsize=8)
    words = (
        "Accuracy against the filter order, L = 2, k̂ = k; the dotted line is the order in the other tables of the "
        "paper."
    )
    return "\n".join([figures.shown("filter-order", words), "The paper prints this figure without numbers.\n", *parts])


EXPERIMENT = Experiment("filter-order", "Figure 5: the order of the filter", cells, compute, render)
