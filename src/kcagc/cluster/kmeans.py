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
from kcagc.cluster.lloyd import LloydResult, assign, lloyd, ninth_step
from kcagc.cluster.seeding import approximation_bound, local_search, plus_plus
from kcagc.errors import DataError
from kcagc.graph.attributed import check_features
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
    fewer: bool = False,
    random_state: Any = None,
) -> KMeansResult:
    """Cluster weighted rows into k clusters; `n_swaps=None` means k local-search swaps a start.

    Where there are fewer than k distinct rows, `fewer` makes each of them a cluster instead of refusing.
    """
    rows = np.asarray(check_features(rows, where="rows"), dtype=np.float64)
    weight = np.ones(len(rows)) if weights is None else check_weights(weights, len(rows), "weights")
    check_count("n_clusters", k)
    check_count("n_init", n_init)
    check_count("max_iter", max_iter)
    check_count("n_swaps", n_swaps, least=0, optional=True)
    if len(rows) < (1 if fewer else k):
        raise DataError(f"n_clusters: {k} clusters asked of {len(rows)} rows")
    middle, unit, on_grid = _on_a_grid(rows)
    distinct = canonical_rows(on_grid, weight / _power_of_two(weight.max(initial=0.0)))
    heavy = distinct.weights > 0
    if fewer:
        k = min(k, max(int(np.count_nonzero(heavy)), 1))
    if np.count_nonzero(heavy) < k:
        raise DataError(f"n_clusters: {k} clusters asked of {np.count_nonzero(heavy)} distinct rows")
    # Distances are computed as ‖x‖² - 2 x·c + ‖c‖²; around the mean that loses the fewest digits.
    mean = distinct.weights @ distinct.rows / distinct.weights.sum()
    centred = distinct.rows - mean
    # A row without weight gets a label but moves nothing.
    points, mass = (centred, distinct.weights) if heavy.all() else (centred[heavy], distinct.weights[heavy])

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
    if not heavy.all():
        labels, _ = assign(centred, best.centers)
        labels[heavy] = best.labels
    bound = approximation_bound(points, mass, k, best.inertia)
    with np.errstate(over="ignore"):  # the squares of huge rows are infinite
        inertia = float(np.float64(best.inertia) * unit * unit * _power_of_two(weight.max()))
    return KMeansResult(
        labels[distinct.inverse],
        (best.centers + mean) * unit + middle,
        inertia,
        best.n_iter,
        best.converged,
        bound,
    )


def _on_a_grid(rows: FloatArray) -> tuple[FloatArray, float, FloatArray]:
    """Give the middle of the rows, a unit of length, and the rows in that unit around the middle, at 44 binary digits.

    The last digits of a filtered and projected row are rounding errors, which differ from one number of threads to the
    next and would make equal rows look different; 44 digits are those that everybody agrees on. The unit is a power of
    two, so that rows of any magnitude, 1e-200 as well as 1e200, lose nothing else.
    """
    low, high = rows.min(axis=0), rows.max(axis=0)
    middle = low / 2 + high / 2
    unit = _power_of_two(float((high / 2 - low / 2).max()))
    scaled = rows - middle
    scaled /= unit
    scaled *= 2.0**44
    np.round(scaled, out=scaled)
    scaled /= 2.0**44
    return middle, unit, scaled


def _power_of_two(value: float) -> float:
    """Give the power of two at or above a positive number, and 1 for zero."""
    return float(2.0 ** min(max(np.ceil(np.log2(value)), -1000), 1000)) if value > 0 else 1.0
