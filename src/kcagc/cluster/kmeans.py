"""k-means as Protocol 1 runs it: seeds, the 1/9 step, Lloyd; several starts, the cheapest wins.

scikit-learn's KMeans would do for plain starts, but not for the 1/9 step, nor for labels that are the same for every
thread count, every order of the rows, and weights that equal copies to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from kcagc._types import FloatArray, Labels
from kcagc.cluster.canonical import canonical_rows
from kcagc.cluster.distances import rounding_slack
from kcagc.cluster.lloyd import LloydResult, assign, lloyd, ninth_step
from kcagc.cluster.seeding import approximation_bound, local_search, plus_plus
from kcagc.errors import DataError
from kcagc.parameters import check_count, check_weights


@dataclass(frozen=True, eq=False)
class KMeansResult:
    """The cheapest of the starts; `factor_bound` is a certified bound on its cost relative to the optimum."""

    labels: Labels
    centers: FloatArray
    inertia: float
    n_iter: int
    converged: bool
    factor_bound: float


def kmeans(
    rows: FloatArray,
    k: int,
    *,
    weights: ArrayLike | None = None,
    n_init: int = 10,
    max_iter: int = 100,
    n_swaps: int | None = None,
    ninth: bool = True,
    random_state: Any = None,
) -> KMeansResult:
    """Cluster weighted rows into k clusters; `n_swaps=None` means k local-search swaps a start."""
    rows = np.asarray(rows, dtype=np.float64)
    weight = np.ones(len(rows)) if weights is None else check_weights(weights, len(rows), "weights")
    check_count("n_clusters", k)
    check_count("n_init", n_init)
    check_count("max_iter", max_iter)
    check_count("n_swaps", n_swaps, least=0, optional=True)
    distinct = canonical_rows(rows, weight)
    heavy = distinct.weights > 0
    if np.count_nonzero(heavy) < k:
        raise DataError(f"n_clusters: {k} clusters asked of {np.count_nonzero(heavy)} distinct rows")
    # Distances are computed as ‖x‖² - 2 x·c + ‖c‖²; around the mean that loses the fewest digits.
    mean = distinct.weights @ distinct.rows / distinct.weights.sum()
    centred = distinct.rows - mean
    sampled = np.flatnonzero(heavy)  # a row without weight gets a label but moves nothing
    points, mass = centred[sampled], distinct.weights[sampled]

    def start(seed: int) -> LloydResult:
        random = np.random.RandomState(seed)
        chosen = plus_plus(points, mass, k, random)
        chosen = local_search(points, mass, chosen, k if n_swaps is None else n_swaps, random)
        centers = ninth_step(points, mass, points[chosen]) if ninth else points[chosen]
        return lloyd(points, mass, centers, max_iter=max_iter)

    seeds = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=n_init)
    best = start(seeds[0])
    for seed in seeds[1:]:
        found = start(seed)
        # The slack keeps the choice between equal starts from hanging on rounding: the earliest wins.
        if found.inertia < best.inertia * (1 - 1e-10):
            best = found
    labels = best.labels
    if len(sampled) < len(centred):
        labels, _ = assign(centred, best.centers, slack=rounding_slack(centred))
        labels[sampled] = best.labels
    bound = approximation_bound(points, mass, k, best.inertia)
    return KMeansResult(labels[distinct.inverse], best.centers + mean, best.inertia, best.n_iter, best.converged, bound)
