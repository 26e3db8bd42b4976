"""Generated graphs of other kinds than `kcagc.datasets.generate` makes: hubs, triangles, unbalanced classes, documents.

Of all settings, only the rule for ψ was chosen with the graphs of `OTHER` in view. Those of `DRAWN` have settings drawn
at random, and were generated after the rule was fixed: they check that it holds in general.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from kcagc._types import Features, FloatArray, IntArray, Sparse
from kcagc.datasets import Dataset

Random = np.random.Generator
Columns = Callable[[IntArray, "Planted", Random], Features]


def dense(labels: IntArray, graph: Planted, random: Random) -> Features:
    """Return the mean of a class plus noise, as `generate` does."""
    means = random.standard_normal((graph.classes, graph.width)) * (graph.signal / np.sqrt(graph.width))
    return means[labels] + random.standard_normal((len(labels), graph.width))


def counts(labels: IntArray, graph: Planted, random: Random) -> Features:
    """Return counts of words: frequencies of words and lengths of documents differ widely, as in texts."""
    frequency = 1.0 / (5.0 + random.permutation(graph.width))
    topic = random.integers(graph.classes, size=graph.width)
    rate = frequency * (1.0 + graph.signal * (topic == np.arange(graph.classes)[:, None]))
    rate /= rate.sum(axis=1, keepdims=True)
    lengths = 25.0 * np.exp(0.6 * random.standard_normal(len(labels)))
    return sparse.csr_array(random.poisson(rate[labels] * lengths[:, None]).astype(np.float64))


def words(labels: IntArray, graph: Planted, random: Random) -> Features:
    """Return which words occur."""
    found = counts(labels, graph, random)
    return sparse.csr_array((np.ones(found.nnz), found.indices, found.indptr), shape=found.shape)


def weighted_words(labels: IntArray, graph: Planted, random: Random) -> Features:
    """Return counts times inverse document frequency, rows of length one: real numbers that are weighted already."""
    found = counts(labels, graph, random)
    rows = np.bincount(found.indices, minlength=graph.width)
    found.data *= np.log(len(labels) / np.maximum(rows, 1))[found.indices]
    length = np.sqrt((found * found).sum(axis=1))
    return sparse.csr_array(sparse.diags_array(1.0 / np.where(length > 0, length, 1.0)) @ found)


def embeddings(labels: IntArray, graph: Planted, random: Random) -> Features:
    """Return rows as an encoder makes them: few strong directions, which are not those of the classes, and a mean."""
    strength = 3.0 / np.sqrt(1.0 + np.arange(graph.width))
    turned, _ = np.linalg.qr(random.standard_normal((graph.width, graph.width)))
    noise = (random.standard_normal((len(labels), graph.width)) * strength) @ turned
    means = random.standard_normal((graph.classes, graph.width)) * (graph.signal / np.sqrt(graph.width))
    return noise + means[labels] + 0.5


@dataclass(frozen=True)
class Planted:
    """A degree-corrected block model with features of a chosen kind."""

    text: str  # what it is, in words
    columns: Columns = words
    nodes: int = 1500
    classes: int = 5
    degree: float = 6.0
    homophily: float = 0.6
    signal: float = 4.0
    width: int = 400
    hubs: bool = False  # degrees as different as in citation graphs
    triangles: float = 0.0  # the share of edges that join two neighbours of a node
    unbalanced: bool = False  # each class has 0.6 times the nodes of the one before
    heavy: bool = False  # rows of very different lengths
    noise: int = 0  # columns without information, which the last of three parties has
    seed: int = 101

    @property
    def parties(self) -> bool:
        """Whether the columns of the parties are given."""
        return self.noise > 0

    @property
    def words(self) -> str:
        """What the graph is, in words."""
        return self.text

    def build(self, name: str) -> Dataset:
        """Generate the graph."""
        random = np.random.default_rng(self.seed)
        share = 0.6 ** np.arange(self.classes) if self.unbalanced else np.ones(self.classes)
        labels = random.choice(self.classes, self.nodes, p=share / share.sum())
        labels[: self.classes * 20] = np.arange(self.classes * 20) % self.classes  # no class is nearly empty
        labels = random.permutation(labels)
        adjacency = _edges(labels, self, random)
        table = self.columns(labels, self, random)
        widths: tuple[int, ...] = (self.width,)
        if self.heavy:
            factors = np.exp(random.standard_normal(self.nodes))
            table = (
                sparse.csr_array(sparse.diags_array(factors) @ table)
                if sparse.issparse(table)
                else (table * factors[:, None])
            )
        if self.noise:
            single = replace(self, classes=1, width=self.noise)
            more = self.columns(np.zeros_like(labels), single, random)
            both = (table, more)
            table = sparse.csr_array(sparse.hstack(both)) if sparse.issparse(table) else np.hstack(both)
            widths = (self.width // 2, self.width - self.width // 2, self.noise)
        return Dataset(name, adjacency, table, labels, self.classes, widths, {"generator": self.text})


def _edges(labels: IntArray, graph: Planted, random: Random) -> Sparse:
    """Draw edges by class and by the weights of the nodes, then edges between neighbours of a node."""
    n, wanted = len(labels), round(len(labels) * graph.degree / 2)
    mass = 1.0 + random.pareto(1.6, size=n) if graph.hubs else np.ones(n)
    mass = np.minimum(mass, 0.05 * mass.sum())
    drawn: set[tuple[int, int]] = set()
    first = round(wanted * (1.0 - graph.triangles))
    while len(drawn) < first:
        source = _drawn(mass, np.arange(n), first - len(drawn), random)
        same = random.random(len(source)) < graph.homophily
        for label in range(graph.classes):
            for within in (True, False):
                own = source[(labels[source] == label) & (same == within)]
                others = np.flatnonzero((labels == label) == within)
                target = _drawn(mass, others, len(own), random)
                drawn.update(_pairs(own, target))
    low, high = np.array(sorted(drawn)).T
    adjacency = _symmetric(low, high, n)
    while len(drawn) < wanted:
        middle = random.integers(n, size=wanted - len(drawn))
        begin, length = adjacency.indptr[middle], np.diff(adjacency.indptr)[middle]
        middle = length > 1
        ends = [
            adjacency.indices[begin[middle] + (random.random(middle.sum()) * length[middle]).astype(int)]
            for _ in range(2)
        ]
        drawn.update(_pairs(*ends))
    low, high = np.array(sorted(drawn)).T
    return _symmetric(low, high, n)


def _drawn(mass: FloatArray, nodes: IntArray, count: int, random: Random) -> IntArray:
    return np.asarray(random.choice(nodes, count, p=mass[nodes] / mass[nodes].sum()))


def _pairs(source: IntArray, target: IntArray) -> list[tuple[int, int]]:
    """Return the edges between different nodes, the lower node first."""
    low, high = np.minimum(source, target), np.maximum(source, target)
    return [(int(one), int(other)) for one, other in zip(low, high, strict=True) if one != other]


def _symmetric(low: IntArray, high: IntArray, n: int) -> Sparse:
    half = sparse.csr_array((np.ones(len(low)), (low, high)), shape=(n, n))
    return sparse.csr_array(half + half.T)


_DENSE = {"columns": dense, "width": 64, "signal": 2.0}
_CLOSED = {"triangles": 0.7, "homophily": 0.75}
OTHER: dict[str, Planted] = {
    "hubs": Planted("words, hubs", hubs=True, seed=101),
    "hubs-dense": Planted("dense, hubs", **_DENSE, hubs=True, seed=102),
    "triangles": Planted("words, half of the edges close triangles", triangles=0.5, homophily=0.7, seed=103),
    "triangles-dense": Planted("dense, half of the edges close triangles", **_DENSE, triangles=0.5, seed=104),
    "unbalanced": Planted("words, classes of different sizes", unbalanced=True, seed=105),
    "unbalanced-dense": Planted("dense, classes of different sizes", **_DENSE, unbalanced=True, seed=106),
    "k-3": Planted("words, k = 3", classes=3, seed=107),
    "k-8": Planted("words, k = 8", classes=8, seed=108),
    "k-12": Planted("words, k = 12, 3,000 nodes", classes=12, nodes=3000, width=800, seed=109),
    "k-3-dense": Planted("dense, k = 3", **_DENSE | {"classes": 3, "signal": 1.2}, seed=110),
    "k-8-dense": Planted("dense, k = 8", **_DENSE | {"classes": 8}, seed=111),
    "k-12-dense": Planted("dense, k = 12, 3,000 nodes", **_DENSE | {"classes": 12, "nodes": 3000}, seed=112),
    "denser": Planted("words, 30 edges of a node", degree=30.0, homophily=0.45, seed=113),
    "denser-dense": Planted("dense, 30 edges of a node", **_DENSE, degree=30.0, homophily=0.4, seed=114),
    "few-edges": Planted("words, 2.5 edges of a node", degree=2.5, homophily=0.8, seed=115),
    "counts": Planted("counts of words", columns=counts, seed=116),
    "counts-heavy": Planted("counts of words, heavy-tailed row lengths", columns=counts, heavy=True, seed=117),
    "weighted-words": Planted("words weighted already (tf-idf)", columns=weighted_words, seed=118),
    "embeddings": Planted("embeddings", columns=embeddings, width=128, signal=3.0, seed=119),
    "embeddings-weak": Planted("embeddings, hubs", columns=embeddings, width=64, signal=2.0, hubs=True, seed=120),
    "low-0.3": Planted("words, homophily 0.3", homophily=0.3, signal=6.0, seed=121),
    "low-0.4": Planted("words, homophily 0.4", homophily=0.4, seed=122),
    "low-0.3-dense": Planted("dense, homophily 0.3", **_DENSE | {"signal": 3.0}, homophily=0.3, seed=123),
    "low-0.4-dense": Planted("dense, homophily 0.4", **_DENSE, homophily=0.4, seed=124),
    "noise-words": Planted("words, one of three parties of noise", noise=200, seed=125),
    "noise-dense": Planted("dense, one of three parties of noise", **_DENSE, noise=32, seed=126),
    "heavy-dense": Planted("dense, hubs, heavy-tailed row lengths", **_DENSE, hubs=True, heavy=True, seed=127),
    "small": Planted("words, 300 nodes", nodes=300, seed=128),
    "triangles-hubs": Planted(
        "words, hubs, some edges close triangles", hubs=True, triangles=0.3, homophily=0.7, seed=201
    ),
    "triangles-many": Planted("dense, most edges close triangles", **_DENSE | _CLOSED, degree=12.0, seed=202),
    "triangles-k-8": Planted("words, k = 8, triangles", classes=8, triangles=0.5, homophily=0.7, degree=10.0, seed=203),
    "triangles-hubs-dense": Planted(
        "dense, hubs, half of the edges close triangles",
        **_DENSE,
        triangles=0.5,
        hubs=True,
        homophily=0.8,
        degree=16.0,
        seed=204,
    ),
    "weak-0.8": Planted("dense, homophily 0.8, weak signal", **_DENSE | {"signal": 1.0}, homophily=0.8, seed=205),
    "embeddings-hubs": Planted(
        "embeddings, hubs, k = 7",
        columns=embeddings,
        width=96,
        signal=3.0,
        classes=7,
        hubs=True,
        homophily=0.7,
        seed=206,
    ),
    "counts-k-10": Planted("counts, k = 10", columns=counts, classes=10, nodes=2500, homophily=0.65, seed=207),
    "large": Planted("words, hubs, 12,000 nodes", nodes=12000, hubs=True, classes=6, degree=8.0, seed=208),
    "large-dense": Planted(
        "dense, triangles, 8,000 nodes",
        **_DENSE | {"signal": 1.5},
        nodes=8000,
        triangles=0.4,
        homophily=0.7,
        degree=10.0,
        seed=209,
    ),
    "weighted-hubs": Planted("tf-idf, hubs", columns=weighted_words, hubs=True, homophily=0.5, seed=210),
    "k-2-dense": Planted("dense, k = 2", **_DENSE | {"signal": 0.8}, classes=2, homophily=0.75, seed=211),
    "k-20": Planted("words, k = 20", classes=20, nodes=4000, width=1200, seed=212),
    "degree-60": Planted("words, 60 edges of a node", degree=60.0, homophily=0.35, signal=2.5, seed=213),
    "unbalanced-hubs": Planted(
        "words, hubs, classes of different sizes", unbalanced=True, hubs=True, homophily=0.65, signal=3.0, seed=214
    ),
    "noise-hubs": Planted("words, a larger party of noise", noise=300, signal=3.0, homophily=0.7, seed=215),
    "small-dense": Planted("dense, 400 nodes", **_DENSE, nodes=400, homophily=0.7, seed=216),
}


def _draw(number: int) -> Planted:
    """Draw the settings of a graph."""
    random = np.random.default_rng([2026, number])
    columns = (words, dense, counts, weighted_words, embeddings)[int(random.integers(5))]
    text = columns in (words, counts, weighted_words)
    wide = {words: 400, counts: 400, weighted_words: 400, dense: 64, embeddings: 96}[columns]
    classes = int(random.integers(2, 16))
    settings: dict[str, Any] = {
        "columns": columns,
        "nodes": int(max(40 * classes, round(10 ** random.uniform(2.5, 3.9)))),
        "classes": classes,
        "degree": float(round(10 ** random.uniform(0.5, 1.5), 1)),
        "homophily": float(round(random.uniform(0.35, 0.9), 2)),
        "signal": float(round(random.uniform(2, 6) if text else random.uniform(1, 3), 1)),
        "width": wide,
        "hubs": bool(random.integers(2)),
        "triangles": float(random.choice([0.0, 0.0, 0.3, 0.6])),
        "unbalanced": bool(random.random() < 0.3) and classes <= 8,
        "heavy": bool(random.random() < 0.2),
        "seed": int(random.integers(1 << 30)),
    }
    kinds = {words: "words", counts: "counts", weighted_words: "tf-idf", dense: "dense", embeddings: "embeddings"}
    parts = [kinds[columns], f"{settings['nodes']:,} nodes", f"k = {classes}"]
    parts += [f"{settings['degree']:g} edges of a node", f"homophily {settings['homophily']:g}"]
    parts += [f"{settings['triangles']:.0%} triangles".replace("%", " %")] if settings["triangles"] else []
    parts += [text for name, text in _PROPERTIES.items() if settings[name]]
    return Planted(", ".join(parts), **settings)


_PROPERTIES = {"hubs": "hubs", "unbalanced": "classes of different sizes", "heavy": "heavy-tailed row lengths"}
DRAWN: dict[str, Planted] = {f"drawn-{number:02}": _draw(number) for number in range(24)}
