"""How often the recommended range of a sweep holds the number of classes: `python -m experiments.sweep [SET...]`.

The graphs of the set "choose" were used to choose the rule: the number of dimensions and restarts, the merging of
clusters, and the number of standard errors. Those of "check" have other seeds and other kinds, and were not used to
choose. Structure is clear if the pooled columns give 85 % of the nodes the right cluster with the true number. All
columns are pooled; the parties of a session take the same steps.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from experiments.paper.experiment import PUBLIC, Config, Result
from experiments.paper.store import RESULTS, Records
from kcagc import metrics
from kcagc._types import Features, FloatArray, IntArray, Sparse
from kcagc.cluster.joint import fit_joint_kmeans
from kcagc.cluster.local import fit_projection
from kcagc.cluster.search import search_psi
from kcagc.cluster.sweep import sweep_clusters
from kcagc.data.weighting import apply_weights, fit_weights
from kcagc.datasets import Dataset, generate, load
from kcagc.errors import DataError
from kcagc.graph.filters import HalfFilter, filter_for_projection
from kcagc.graph.graph import Graph

LEAST, MOST = 2, 20
MORE = {"wiki": 30}  # the largest number of a graph with many classes
SETS = {"choose": 90, "check": 96}
KINDS = {
    "choose": ("equal", "heavy", "hubs", "unbalanced"),
    "check": ("equal", "heavy", "hubs, unbalanced", "long tails", "mixed homophily", "heavy, unbalanced"),
}
CLEAR = 0.85  # accuracy from which on structure is clear
SEARCHED = 8  # clusters of the search for the filter order, as in a session
_DENSE, _WORDS, _SPARSITY = 96, 400, 0.95
_LARGE = 5_000


@dataclass(frozen=True)
class Case:
    """A generated graph: its kind, and the settings that are drawn for it."""

    kind: str
    n_nodes: int
    n_classes: int
    degree: float
    homophily: float
    signal: float
    words: bool
    seed: int

    @classmethod
    def draw(cls, name: str, number: int) -> Case:
        """Draw a graph of a set."""
        random = np.random.RandomState(1000 * list(SETS).index(name) + number)
        n_classes, homophily = int(random.randint(2, 13)), float(random.uniform(0.6, 0.9))
        words, degree = bool(random.randint(2)), float(random.uniform(5, 20))
        n_nodes = max(round(10 ** random.uniform(np.log10(300), np.log10(20_000))), 25 * n_classes)
        signal = float(random.choice((1.0, 2.0, 4.0) if words else (1.0, 1.8, 3.0)))
        kind = KINDS[name][number % len(KINDS[name])]
        return cls(kind, n_nodes, n_classes, degree, homophily, signal, words, int(random.randint(1 << 30)))

    def build(self) -> Dataset:
        """Generate the graph."""
        if self.kind not in ("equal", "heavy"):
            return self._unequal()
        data = generate(
            self.n_nodes,
            self.n_classes,
            degree=min(self.degree, (self.n_nodes // self.n_classes - 1) / 2),
            homophily=self.homophily,
            signal=self.signal,
            features=_WORDS if self.words else _DENSE,
            sparsity=_SPARSITY if self.words else 0.0,
            seed=self.seed,
        )
        if self.kind == "equal":
            return data
        return replace(data, features=_stretched(data.features, 1.2, np.random.RandomState(self.seed)))

    def _unequal(self) -> Dataset:
        """Generate classes of different sizes, hubs, long tails, or classes of different homophily."""
        random, k = np.random.RandomState(self.seed), self.n_classes
        share = np.exp(0.5 * random.standard_normal(k)) if "unbalanced" in self.kind else np.ones(k)
        share = np.maximum(share / share.sum(), 0.35 / k)
        sizes = np.maximum(np.round(share / share.sum() * self.n_nodes).astype(int), 5)
        labels = random.permutation(np.repeat(np.arange(k), sizes))
        adjacency = self._edges(labels, random)
        table: Features
        if self.words:
            topics, base = random.randint(k, size=_WORDS), 0.03 * np.exp(0.7 * random.standard_normal(_WORDS))
            rates = base * np.where(topics == np.arange(k)[:, None], 1 + self.signal, 1)
            table = sparse.csr_array((random.rand(len(labels), _WORDS) < np.clip(rates, 0, 0.9)[labels]).astype(float))
        else:
            means = random.standard_normal((k, _DENSE)) * self.signal / np.sqrt(_DENSE)
            shape = (len(labels), _DENSE)
            tails = self.kind == "long tails"
            table = means[labels] + (
                random.standard_t(3, size=shape) / np.sqrt(3) if tails else random.standard_normal(shape)
            )
        if "heavy" in self.kind:
            table = _stretched(table, 1.0, random)
        return Dataset("generated", adjacency, table, labels, k, (table.shape[1],), {})

    def _edges(self, labels: IntArray, random: np.random.RandomState) -> Sparse:
        n, k = len(labels), self.n_classes
        mass = np.exp((0.8 if "hubs" in self.kind else 0.0) * random.standard_normal(n))
        wanted = int(n * self.degree / 2)
        source = random.choice(n, int(1.3 * wanted), p=mass / mass.sum())
        homophily = np.full(k, self.homophily)
        if self.kind == "mixed homophily":
            homophily = np.clip(homophily + 0.15 * (2 * random.rand(k) - 1), 0.45, 0.97)
        inside, target = random.rand(len(source)) < homophily[labels[source]], np.empty_like(source)
        for label in range(k):
            for chosen in (True, False):
                nodes = np.flatnonzero((labels == label) == chosen)
                edges = np.flatnonzero((labels[source] == label) & (inside == chosen))
                target[edges] = random.choice(nodes, len(edges), p=mass[nodes] / mass[nodes].sum())
        low, high = np.minimum(source, target), np.maximum(source, target)
        codes = random.permutation(np.unique((low * n + high)[low != high]))[:wanted]
        half = sparse.csr_array((np.ones(len(codes)), (codes // n, codes % n)), shape=(n, n))
        return sparse.csr_array(half + half.T)


def _stretched(table: Features, spread: float, random: np.random.RandomState) -> Features:
    """Multiply every row by a factor of a log-normal distribution."""
    factors = np.exp(spread * random.standard_normal(table.shape[0]))
    return sparse.csr_array(sparse.diags_array(factors) @ table) if sparse.issparse(table) else table * factors[:, None]


def weighted(table: Features) -> Features:
    """Weight columns by the default rule."""

    def fail(row: int, column: int, message: str) -> DataError:
        return DataError(f"row {row}, column {column}: {message}")

    return apply_weights(table, fit_weights(table, "auto", fail))


def measure(data: Dataset, most: int = MOST, seed: int = 0) -> Result:
    """Run the sweep, and cluster the pooled columns with the true number."""
    graph, table = Graph.from_matrix(data.adjacency), weighted(data.features)
    psi = search_psi(table, graph, SEARCHED, seed).psi
    begin = time.perf_counter()
    sweep = sweep_clusters(table, graph, LEAST, most, psi=psi, seed=seed)
    seconds = time.perf_counter() - begin
    labels = fit_joint_kmeans(_rows(graph, table, data.n_classes, psi), data.n_classes, seed=seed).labels
    best = sweep.ks[int(np.argmax(sweep.modularity))]
    return {
        "classes": data.n_classes,
        "nodes": data.n_nodes,
        "psi": psi,
        "accuracy": round(metrics.accuracy(data.labels, labels), 4),
        "low": sweep.low,
        "high": sweep.high,
        "clear": sweep.clear,
        "best": best,
        "stable": sweep.ks[int(np.argmax(sweep.stability))],
        "seconds": round(seconds, 2),
    }


def _rows(graph: Graph, table: Features, k: int, psi: int) -> FloatArray:
    filtered = filter_for_projection(HalfFilter(psi), graph, table, k)
    return fit_projection(filtered, k).transform(filtered, "unit")


def table_of(found: Sequence[dict[str, Any]]) -> str:
    """Return how often ranges hold the true number, and how wide they are, by kind."""
    clear = [one for one in found if one["accuracy"] >= CLEAR]
    rows = {"all with clear structure": clear}
    rows |= {kind: [one for one in clear if one["kind"] == kind] for kind in sorted({one["kind"] for one in clear})}
    rows["fewer than 1,000 nodes"] = [one for one in clear if one["nodes"] < 1000]
    rows[f"more than {_LARGE:,} nodes"] = [one for one in clear if one["nodes"] > _LARGE]
    rows["without clear structure"] = [one for one in found if one["accuracy"] < CLEAR]
    lines = [
        "| graphs | number | range holds the true k | best k is the true k | most stable k is | width, median | mean |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, group in rows.items():
        if not group:
            continue
        right = [
            [one["low"] <= one["classes"] <= one["high"] for one in group],
            [one["best"] == one["classes"] for one in group],
            [one["stable"] == one["classes"] for one in group],
        ]
        widths = [one["high"] - one["low"] + 1 for one in group]
        shares = " | ".join(f"{100 * np.mean(one):.1f} %" for one in right)
        lines.append(f"| {name} | {len(group)} | {shares} | {np.median(widths):g} | {np.mean(widths):.1f} |")
    return "\n".join(lines)


def main(names: Sequence[str] = (*SETS, "public")) -> None:
    """Compute what is missing, and print the tables."""
    records = Records(RESULTS / "sweep.json")
    for name in names:
        cases: list[Config] = [{"set": name, "graph": one} for one in PUBLIC]
        if name in SETS:
            cases = [{"set": name, "graph": number} for number in range(SETS[name])]
        found = []
        for config in cases:
            if config not in records:
                begin = time.perf_counter()
                if name in SETS:
                    case = Case.draw(name, int(config["graph"]))
                    result = {"kind": case.kind} | measure(case.build())
                else:
                    graph = str(config["graph"])
                    result = {"kind": graph} | measure(load(graph), MORE.get(graph, MOST))
                records.add(config, result, time.perf_counter() - begin)
            found.append(dict(records.one(**config) or {}))
        words = table_of(found) if name in SETS else "\n".join(map(_line, found))
        sys.stdout.write(f"\n{name}\n\n{words}\n")


def _line(one: Result) -> str:
    return f"{one['kind']}: {one['low']} to {one['high']} (highest at {one['best']}), {one['classes']} classes"


if __name__ == "__main__":
    main(*[tuple(sys.argv[1:])] if sys.argv[1:] else [])
