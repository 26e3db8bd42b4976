"""Theorem 1 and its conditions on the public graphs, and on planted data where they hold."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from experiments.paper.configurations import SHOWN, dataset, estimator
from experiments.paper.experiment import PUBLIC, Config, Experiment, Options, Result
from experiments.paper.plots import Figures
from experiments.paper.store import Book
from experiments.paper.tables import table
from kcagc import KCAGC, diagnose
from kcagc.metrics import accuracy

PLANTED = {"far": 4000.0, "near": 300.0, "touching": 4.0}  # distance of the centres, in deviations of a cluster


def cells(options: Options) -> list[Config]:
    """Return the classes and the found clusters of each graph, and planted clusters at three distances."""
    found: list[Config] = [
        {"data": name, "configuration": one, "target": target, "local": local, "parties": 2}
        for name in options.pick(*(("cora",) if options.quick else PUBLIC))
        for one in ("paper", "default")
        for target in ("classes", "found")
        for local in options.thinned(("k",), ("k", "2k"))
    ]
    return found + [{"data": "planted", "distance": name, "seed": seed} for name in PLANTED for seed in range(3)]


def compute(cell: Config) -> Result:
    """Measure the conditions and the number of misclassified nodes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if cell["data"] == "planted":
            return _planted(PLANTED[cell["distance"]], cell["seed"])
        data = dataset(cell["data"])
        model = estimator(cell["configuration"], data, seed=0, n_local_clusters=cell["local"])
        model.fit(data.parties(cell["parties"]), adjacency=data.adjacency)
        target = data.labels if cell["target"] == "classes" else model.labels_
        return _measured(model, data.parties(cell["parties"]), target, data.adjacency)


def _planted(distance: float, seed: int) -> Result:
    """Generate four clusters that both parties see, with centres on separate axes at the given distance."""
    random = np.random.RandomState(seed)
    k, size = 4, 150
    target = np.repeat(np.arange(k), size)
    tables = [distance * np.eye(k)[target] + random.normal(size=(k * size, k)) for _ in range(2)]
    alone = np.zeros((k * size, k * size))  # no edges, so the filter changes nothing
    chosen: dict[str, Any] = {"scaling": "US", "unit": distance, "psi": 1, "random_state": seed}
    model = KCAGC(n_clusters=k, n_local_clusters="k", **chosen).fit(tables, adjacency=alone)
    return _measured(model, tables, target, alone)


def _measured(model: KCAGC, tables: list[Any], target: Any, adjacency: Any) -> Result:
    found = diagnose(model, tables, target, adjacency=adjacency)
    wrong = round((1 - accuracy(target, model.labels_)) * len(target))
    return {
        "c": found.joint.c,
        "good": found.joint.good,
        "local_c": [party.own.c for party in found.parties],
        "local_good": [party.own.good for party in found.parties],
        "restricted_a": found.restricted.share_a,
        "restricted_b": found.restricted.share_b,
        "holds": found.bound.holds,
        "bound": found.bound.nodes,
        "misclassified": int(wrong),
        "nodes": len(target),
        "verdict": list(found.conclusions),
    }


def render(book: Book, figures: Figures) -> str:
    """Return a table of planted data, one of the public graphs, and the tool's own words for the first."""
    records = book["theory"]
    parts = [
        "`kcagc.diagnose` (and `kcagc diagnose`) measures the conditions of Theorem 1 on the rows that the parties "
        "cluster: the separation constant c (the theorem requires more than 100), the share of 1-good nodes, "
        "Definition 2's two conditions, and the bound on misclassified nodes. Where "
        "the conditions hold, no node may be misclassified.\n",
        _planted_table(records),
    ]
    rows = []
    graphs = [(config, found) for config, found in records.all() if config["data"] != "planted"]
    order = {name: number for number, name in enumerate((*PUBLIC, "paper", "default"))}
    graphs.sort(key=lambda pair: [order.get(pair[0][part], 9) for part in ("data", "configuration")])
    for config, found in graphs:
        rows.append(
            [
                config["data"],
                f"`{SHOWN[config['configuration']]}`",
                f"k̂ = {config['local']}",
                config["target"],
                *(f"{value:.3f}" for value in (*found["local_c"], found["c"])),
                *(f"{100 * value:.1f}" for value in (*found["local_good"], found["good"])),
                f"{100 * found['restricted_a']:.1f} / {100 * found['restricted_b']:.1f}",
                f"{found['misclassified']:,}",
            ]
        )
    heads = ["", "", "", "target", "c, A", "c, B", "c, joint", "good A, %", "B", "joint", "(a) / (b), %", "differ"]
    words = (
        "\nOn the public graphs (L = 2), c is hundreds of times smaller than the theorem requires. The theorem "
        "therefore guarantees nothing there, neither for kCAGC nor for the pooled method; the accuracy has other "
        "reasons. `differ` is the number of nodes on which the clusters and the target disagree.\n"
    )
    parts += [words, table(heads, rows, left=4)]
    if graphs:
        config, found = next(pair for pair in graphs if pair[0]["target"] == "classes")
        words = "\n>\n".join(f"> {line}" for line in found["verdict"])
        parts.append(f"\nThe output of the tool for {config['data']} and its classes:\n\n{words}\n")
    return "\n".join(parts)


def _planted_table(records: Any) -> str:
    rows = []
    for name, distance in PLANTED.items():
        found = [result for _, result in records.all(data="planted", distance=name)]
        if found:
            least = min(min(result["c"], *result["local_c"]) for result in found)
            good = min(min(result["good"], *result["local_good"]) for result in found)
            holds = sum(result["holds"] for result in found)
            rows.append(
                [
                    f"{distance:g}",
                    f"{least:.1f}",
                    f"{100 * good:.1f}",
                    f"{holds} of {len(found)}",
                    f"{max(result['bound'] for result in found):.0f}",
                    f"{max(result['misclassified'] for result in found)} of {found[0]['nodes']}",
                ]
            )
    heads = ["distance, deviations", "least c", "1-good, %", "conditions hold", "bound, nodes", "misclassified, most"]
    return table(heads, rows)


EXPERIMENT = Experiment("theory", "Theorem 1 and its conditions", cells, compute, render)
