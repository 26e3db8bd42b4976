"""k-means as Protocol 1 runs it: seeds, the 1/9 step, Lloyd; several starts, the cheapest wins.

scikit-learn's KMeans would do for plain starts, but not for the 1/9 step, nor for labels that are the same for every
thread count, every order of the rows, and weights that equal copies to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kcagc._types import FloatArray, IntArray, Labels
from kcagc.cluster.canonical import canonical_rows
from kcagc.cluster.lloyd import LloydResult, assign, lloyd, margin_step
from kcagc.cluster.seeding import approximation_bound, local_search, plus_plus, random_from
from kcagc.cluster.threads import one_blas_thread
from kcagc.errors import DataError
from kcagc.graph.attributed import check_features
from kcagc.parameters import check_count, check_weights

_MANY = 1 << 16  # distinct rows beyond which starts compete on a sample
_SAMPLE = 1 << 15
_SETTLED = 1e-3  # and beyond which so small a share of rows that change ends the iterations


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

    Where there are fewer than k distinct rows, `fewer` makes each of them a cluster instead of refusing. Beyond 65,536
    distinct rows the starts compete on a sample, and Lloyd's iterations on all rows begin with the winner's centres and
    end when at most one row in a thousand changes its cluster.
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

    random = random_from(random_state)
    seeds = random.randint(np.iinfo(np.int32).max, size=n_init)
    how = _Starts(k, k if n_swaps is None else n_swaps, ninth=ninth, max_iter=max_iter)
    with one_blas_thread():
        sample = _sample(mass, random) if len(points) > _MANY else None
        if sample is None or len(sample.rows) < k:
            best = how.best(points, mass, seeds)
        else:
            centers = how.best(points[sample.rows], sample.weights, seeds, settled=_SETTLED).centers
            best = lloyd(points, mass, centers, max_iter=max_iter, settled=_SETTLED)
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


@dataclass(frozen=True)
class _Starts:
    """How each start is made: seeds, exchanges, the 1/9 step, Lloyd."""

    k: int
    n_swaps: int
    ninth: bool
    max_iter: int

    def best(self, rows: FloatArray, weights: FloatArray, seeds: IntArray, *, settled: float = 0.0) -> LloydResult:
        """Give the cheapest start."""
        best = self._start(rows, weights, seeds[0], settled)
        for seed in seeds[1:]:
            found = self._start(rows, weights, seed, settled)
            # The slack keeps the choice between equal starts from hanging on rounding: the earliest wins.
            if found.inertia < best.inertia * (1 - 1e-10):
                best = found
        return best

    def _start(self, rows: FloatArray, weights: FloatArray, seed: int, settled: float) -> LloydResult:
        random = np.random.RandomState(seed)
        chosen = plus_plus(rows, weights, self.k, random)
        chosen = local_search(rows, weights, chosen, self.n_swaps, random)
        centers = margin_step(rows, weights, rows[chosen]) if self.ninth else rows[chosen]
        return lloyd(rows, weights, centers, max_iter=self.max_iter, settled=settled)


@dataclass(frozen=True, eq=False)
class _Sample:
    """Rows drawn by weight, each once with the number of times it was drawn."""

    rows: IntArray
    weights: FloatArray


def _sample(mass: FloatArray, random: np.random.RandomState) -> _Sample:
    running = np.cumsum(mass)
    drawn = np.searchsorted(running, random.random_sample(_SAMPLE) * running[-1], side="right")
    rows, times = np.unique(np.minimum(drawn, len(mass) - 1), return_counts=True)
    return _Sample(rows.astype(np.int64), times.astype(np.float64))


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
