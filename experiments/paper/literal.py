"""The protocols exactly as printed: seeding and the margin step on projected rows, Lloyd on unprojected features.

No masks are used. The parties sum squared distances over their own columns; the sum is the distance over all columns.
The printed protocols are therefore k-means on the joined tables.
"""

from __future__ import annotations

import numpy as np

from experiments.paper.configurations import scores
from experiments.paper.experiment import Result
from kcagc._types import FloatArray, IntArray
from kcagc.cluster.kmeans import local_search, plus_plus
from kcagc.cluster.lloyd import KMeansResult, run_lloyd, weighted_means, won_by_margin
from kcagc.cluster.local import fit_projection
from kcagc.datasets import Dataset
from kcagc.graph.filters import HalfFilter
from kcagc.protocol.cells import intersect, virtual_nodes

STARTS, ITERATIONS = 10, 10
VARIANTS = {
    "basic": "basic (Protocol 2)",
    "kcagc": "kCAGC, k̂ = k, virtual nodes at the means of local clusters (Protocol 3)",
}


def run(data: Dataset, variant: str, n_parties: int, psi: int, seed: int) -> Result:
    """Cluster a dataset among `n_parties`, as the paper prints it."""
    k, random = data.n_classes, np.random.RandomState(seed)
    filtered = [HalfFilter(psi).apply(data.adjacency, table) for table in data.parties(n_parties)]
    every = np.ones(data.n_nodes)
    if variant == "basic":
        found = _cheapest(
            np.hstack([_projected(table, k) for table in filtered]), np.hstack(filtered), every, k, random
        )
        return scores(data, found.labels)
    local = [_cheapest(_projected(table, k), table, every, k, random).labels for table in filtered]
    cells = intersect(local)
    rows = np.hstack(
        [virtual_nodes(table, cells, "local", labels) for table, labels in zip(filtered, local, strict=True)]
    )
    found = _cheapest(rows, rows, cells.sizes.astype(float), k, random)
    return scores(data, found.labels[cells.of_node]) | {"cells": len(cells)}


def _projected(filtered: FloatArray, q: int) -> FloatArray:
    return fit_projection(filtered, q).transform(filtered, "US")


def _cheapest(
    projected: FloatArray, rows: FloatArray, weights: FloatArray, k: int, random: np.random.RandomState
) -> KMeansResult:
    """Run Protocol 1 from line 4 on, ten times, and return the cheapest result."""
    return min((_start(projected, rows, weights, k, random) for _ in range(STARTS)), key=lambda found: found.inertia)


def _start(
    projected: FloatArray, rows: FloatArray, weights: FloatArray, k: int, random: np.random.RandomState
) -> KMeansResult:
    chosen: IntArray = local_search(projected, weights, plus_plus(projected, weights, k, random), k, random)
    won, owner = won_by_margin(projected, projected[chosen])
    centers = weighted_means(rows[won], weights[won], owner, rows[chosen])
    return run_lloyd(rows, weights, centers, max_iter=ITERATIONS)
