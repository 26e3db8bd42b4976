"""Random attributed graphs of any size (stochastic block model); a million nodes take seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from kcagc._types import Features, FloatArray, IntArray, Sparse, check_between, check_count
from kcagc.datasets.dataset import Dataset
from kcagc.errors import ParameterError


def generate(
    n_nodes: int = 1000,
    n_classes: int = 4,
    *,
    degree: float = 10.0,
    homophily: float = 0.8,
    signal: float = 1.0,
    features: int | Sequence[int] = (32, 32, 32),
    sparsity: float = 0.0,
    seed: int = 0,
    name: str = "generated",
) -> Dataset:
    """Generate a stochastic block model of n nodes in k classes of near-equal size, with n · degree / 2 edges.

    Dense features are a class mean, drawn from N(0, signal²/m) in each of the m columns of a party, plus N(0, 1) noise:
    two means are about √2 · signal apart for every m. Sparse features are binary words, on average (1 - sparsity) m of
    them in a row. Each word belongs to one class, where it is 1 + signal times as frequent as elsewhere.

    Parameters
    ----------
    n_nodes : int, default=1000
        The number of nodes n.
    n_classes : int, default=4
        The number of classes k.
    degree : float, default=10.0
        The mean number of edges of a node.
    homophily : float, default=0.8
        The share of edges within a class. At 1/k the graph contains no information.
    signal : float, default=1.0
        The strength of the features.
    features : int or sequence of int, default=(32, 32, 32)
        The number of columns of each party.
    sparsity : float, default=0.0
        The share of zeros. 0 generates dense features, a larger number binary words in CSR form.
    seed : int, default=0
        The seed.
    name : str, default="generated"
        The name of the dataset.

    Returns
    -------
    Dataset

    Raises
    ------
    ParameterError
        If the parameters contradict each other.

    Examples
    --------
    >>> generate(100, 2, features=(3, 4))
    Dataset('generated', 100 nodes, 7 features, k=2)
    """
    widths = (features,) if isinstance(features, int | np.integer) else tuple(features)
    check_count("n_nodes", n_nodes)
    check_count("n_classes", n_classes)
    check_count("seed", seed, least=0)
    for width in widths:
        check_count("features", width)
    if not widths:
        raise ParameterError("features: pass the number of columns of at least one party")
    if n_classes > n_nodes:
        raise ParameterError(f"n_classes: {n_nodes} nodes are too few for {n_classes} classes")
    check_between("signal", signal, 0, 1e6)
    check_between("homophily", homophily, 0, 1)
    if n_classes == 1 and homophily < 1:
        raise ParameterError(f"homophily: must be 1 for one class, not {homophily}")
    check_between("sparsity", sparsity, 0, 0.999999)
    # At most half of all pairs within a class, and between classes, may be edges: edges are drawn at random and
    # repeated ones are rejected, which would not end for a dense graph.
    check_between("degree", degree, 0, max((n_nodes // n_classes - 1) / 2, 0))
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(n_nodes) % n_classes)
    adjacency = _edges(labels, n_classes, round(n_nodes * degree / 2), homophily, random)
    if sparsity > 0:
        words = [_words(labels, n_classes, width, signal, sparsity, random) for width in widths]
        joined = sparse.csr_array(sparse.hstack(words))
    else:
        joined = np.hstack([_gaussian(labels, n_classes, width, signal, random) for width in widths])
    settings = {"degree": degree, "homophily": homophily, "signal": signal, "sparsity": sparsity, "seed": seed}
    about = {"generator": "attributed stochastic block model", **settings}
    return Dataset(name, adjacency, joined, labels, n_classes, widths, about)


def _edges(labels: IntArray, k: int, n_edges: int, homophily: float, random: np.random.Generator) -> Sparse:
    """Draw distinct edges until the number is exact."""
    n = len(labels)
    by_class = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels, minlength=k)
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    found = np.zeros(0, dtype=np.int64)  # an edge {i < j} as the number i n + j
    for share, count in ((True, round(n_edges * homophily)), (False, n_edges - round(n_edges * homophily))):
        drawn = np.zeros(0, dtype=np.int64)
        while len(drawn) < count:
            source = random.integers(n, size=int((count - len(drawn)) * 1.02) + 16)
            group = labels[source]
            if not share:  # another class, all equally likely
                group = (group + 1 + random.integers(k - 1, size=len(group))) % k
            target = by_class[offsets[group] + random.integers(sizes[group])]
            low, high = np.minimum(source, target), np.maximum(source, target)
            codes = (low * n + high)[low != high]
            if len(drawn):
                codes = np.concatenate([drawn, codes])
            codes.sort()  # np.unique would take ten times as long
            drawn = codes[np.append(True, codes[1:] != codes[:-1])]
        # The edges are sorted: remove the surplus at random, not from the end.
        surplus = random.choice(len(drawn), size=len(drawn) - count, replace=False)
        found = np.concatenate([found, np.delete(drawn, surplus)])
    index = np.int32 if n <= np.iinfo(np.int32).max else np.int64
    low, high = (found // n).astype(index), (found % n).astype(index)
    half = sparse.csr_array((np.ones(len(low)), (low, high)), shape=(n, n))
    both = sparse.csr_array(half + half.T)
    both.sort_indices()
    return both


def _gaussian(labels: IntArray, k: int, width: int, signal: float, random: np.random.Generator) -> FloatArray:
    means = random.standard_normal((k, width)) * (signal / np.sqrt(width))
    table = random.standard_normal((len(labels), width))
    for label in range(k):  # one class at a time, to avoid a second table of this size
        table[labels == label] += means[label]
    return table


def _words(
    labels: IntArray, k: int, width: int, signal: float, sparsity: float, random: np.random.Generator
) -> Features:
    topics = random.integers(k, size=width)
    rows, words = [], []
    for label in range(k):
        own = np.flatnonzero(topics == label)
        other = np.flatnonzero(topics != label)
        nodes = np.flatnonzero(labels == label)
        rate = (1 - sparsity) * width / (len(own) * (1 + signal) + len(other))
        if len(own) and rate * (1 + signal) > 1:
            raise ParameterError(
                f"sparsity: {sparsity} is too low for signal {signal}: a word would appear in every row"
            )
        for group, frequency in ((own, rate * (1 + signal)), (other, rate)):
            place = _bernoulli(len(nodes) * len(group), frequency, random)
            rows.append(nodes[place // max(len(group), 1)])
            words.append(group[place % max(len(group), 1)])
    row, word = np.concatenate(rows), np.concatenate(words).astype(np.int32)
    return sparse.csr_array((np.ones(len(row)), (row, word)), shape=(len(labels), width))


def _bernoulli(n: int, rate: float, random: np.random.Generator) -> IntArray:
    """Return the successes among n Bernoulli trials of this rate, by drawing the gaps between them."""
    places = np.zeros(0, dtype=np.int64)
    last = -1
    while last < n - 1:
        gaps = random.geometric(rate, size=int((n - last) * rate * 1.01) + 16)
        places = np.concatenate([places, last + np.cumsum(gaps)])
        last = int(places[-1])
    return places[places < n]


def generate_demo() -> Dataset:
    """Generate the embedded dataset: five classes that three parties can separate together, but none alone.

    The package contains a file, because NumPy may change its random streams; a test compares both.
    """
    made = generate(600, 5, degree=6, homophily=0.5, signal=1.6, features=(16, 16, 16), seed=0, name="demo")
    rounded = np.round(made.features, 2).astype(np.float32)  # two decimals make a small file
    return replace(made, features=rounded)
