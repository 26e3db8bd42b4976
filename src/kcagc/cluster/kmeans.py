"""k-means as Protocol 1 runs it: seeding, the step with margin 9, Lloyd; several restarts, the cheapest wins.

scikit-learn's KMeans has no step with margin 9. It also does not guarantee labels that are the same for every number of
threads and every order of rows, or a row of weight w that equals w copies of it to the last bit.

Seeding is k-means++ followed by local-search swaps. k-means++ alone is within 8 (ln k + 2) of the optimum in
expectation (Arthur and Vassilvitskii, SODA 2007). Each swap draws a row as k-means++ does and exchanges it for the
centre whose removal costs least, if that lowers the cost (Lattanzi and Sohler, ICML 2019). With ε k swaps, for any
fixed ε > 0, the result is within a constant factor of the optimum with high probability in k (Choo, Grunau, Portmann
and Rozhoň, ICML 2020); their constant is not explicit. An explicit constant, 509 in expectation, is proven only for
100,000 k log log k swaps. The default of k swaps therefore has a proven constant factor, but not a proven factor 10.
The paper's footnote allows any t-approximation where c/t is large.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kcagc._types import FloatArray, IntArray, check_count, check_weights
from kcagc.cluster.lloyd import (
    ROUNDING,
    KMeansResult,
    assign,
    canonical_rows,
    margin_step,
    one_blas_thread,
    run_lloyd,
    squared_norms,
    two_nearest,
)
from kcagc.errors import DataError, ParameterError
from kcagc.graph.graph import check_features

# The random generator whose stream is the same in all versions of NumPy. It has no connection to cryptographic keys.
RandomState = np.random.RandomState

KMEANS_ALL = 1 << 16  # with more distinct rows, restarts compete on a sample
KMEANS_SAMPLE = 1 << 15
_TOLERANCE = 1e-3  # and iterations end when at most this share of rows changes
_PIECE = 256  # rows whose weight is added before running totals are computed


def fit_kmeans(
    rows: ArrayLike,
    k: int,
    *,
    weights: ArrayLike | None = None,
    n_init: int = 10,
    max_iter: int = 100,
    n_swaps: int | None = None,
    margin: bool = True,
    fewer: bool = False,
    random_state: Any = None,
) -> KMeansResult:
    """Minimise Σ w_i ‖x_i - c(i)‖² over k centres: seeding, the step with margin 9, Lloyd (Protocol 1, lines 5 to 24).

    With more than 65,536 distinct rows, restarts compete on a sample. Lloyd then runs on all rows from the centres of
    the winner, until at most one row in a thousand changes its cluster.

    Parameters
    ----------
    rows : array-like of shape (n, d)
        The rows x_i.
    k : int
        The number of clusters.
    weights : array-like of shape (n,), default=None
        The weights w_i ≥ 0. None means 1.
    n_init : int, default=10
        The number of restarts.
    max_iter : int, default=100
        The largest number of Lloyd iterations of a restart.
    n_swaps : int, default=None
        The number of local-search swaps of a restart. None means k.
    margin : bool, default=True
        Whether to run the initial assignment with margin 9 before Lloyd.
    fewer : bool, default=False
        Whether to return fewer than k clusters where there are fewer distinct rows.
    random_state : int, RandomState or None, default=None
        The seed. None draws a fresh one.

    Returns
    -------
    KMeansResult

    Raises
    ------
    DataError
        If there are fewer than k distinct rows and `fewer` is False, or a value is not finite.

    Examples
    --------
    >>> fit_kmeans([[0.0], [1.0], [9.0]], 2, random_state=0).labels
    array([0, 0, 1])
    """
    rows = np.asarray(check_features(rows, where="rows"), dtype=np.float64)
    weight = np.ones(len(rows)) if weights is None else check_weights(weights, len(rows), "weights")
    check_count("n_clusters", k)
    check_count("n_init", n_init)
    check_count("max_iter", max_iter)
    check_count("n_swaps", n_swaps, least=0, optional=True)
    if len(rows) < (1 if fewer else k):
        raise DataError(f"n_clusters: {k} clusters requested, but there are {len(rows)} rows")
    middle, unit, on_grid = _rounded(rows)
    distinct, mass, inverse = canonical_rows(on_grid, weight / _power_of_two(weight.max(initial=0.0)))
    heavy = mass > 0
    if fewer:
        k = min(k, max(int(np.count_nonzero(heavy)), 1))
    if np.count_nonzero(heavy) < k:
        raise DataError(f"n_clusters: {k} clusters requested, but there are {np.count_nonzero(heavy)} distinct rows")
    # Distances are computed as ‖x‖² - 2 x·c + ‖c‖²; that loses the fewest digits around the mean.
    mean = mass @ distinct / mass.sum()
    centred = distinct - mean
    # A row without weight gets a label but does not move a centre.
    points, mass = (centred, mass) if heavy.all() else (centred[heavy], mass[heavy])

    random = random_from(random_state)
    seeds = random.randint(np.iinfo(np.int32).max, size=n_init)

    def restart(rows: FloatArray, weights: FloatArray, seed: int, tolerance: float) -> KMeansResult:
        draws = RandomState(seed)
        chosen = plus_plus(rows, weights, k, draws)
        centers = rows[local_search(rows, weights, chosen, k if n_swaps is None else n_swaps, draws)]
        if margin:
            centers = margin_step(rows, weights, centers)
        return run_lloyd(rows, weights, centers, max_iter=max_iter, tolerance=tolerance)

    with one_blas_thread():
        sample, times = _sample(mass, random) if len(points) > KMEANS_ALL else (np.zeros(0, dtype=np.int64), mass)
        if len(sample) < k:
            best = _cheapest(restart(points, mass, seed, 0.0) for seed in seeds)
        else:
            winner = _cheapest(restart(points[sample], times, seed, _TOLERANCE) for seed in seeds)
            best = run_lloyd(points, mass, winner.centers, max_iter=max_iter, tolerance=_TOLERANCE)
    labels = best.labels
    if not heavy.all():
        labels, _ = assign(centred, best.centers)
        labels[heavy] = best.labels
    with np.errstate(over="ignore"):  # squares of very large rows are infinite
        inertia = float(np.float64(best.inertia) * unit * unit * _power_of_two(weight.max()))
    centers = (best.centers + mean) * unit + middle
    return replace(best, labels=labels[inverse], centers=centers, inertia=inertia)


def _cheapest(restarts: Iterable[KMeansResult]) -> KMeansResult:
    """Return the restart of the lowest cost; among restarts that differ by rounding only, the first."""
    return reduce(lambda best, found: found if found.inertia < best.inertia * (1 - 1e-10) else best, restarts)


def _sample(mass: FloatArray, random: RandomState) -> tuple[IntArray, FloatArray]:
    """Draw rows by weight; return each drawn row once, and the number of times it was drawn as its weight."""
    running = np.cumsum(mass)
    drawn = np.searchsorted(running, random.random_sample(KMEANS_SAMPLE) * running[-1], side="right")
    rows, times = np.unique(np.minimum(drawn, len(mass) - 1), return_counts=True)
    return rows.astype(np.int64), times.astype(np.float64)


def _rounded(rows: FloatArray) -> tuple[FloatArray, float, FloatArray]:
    """Return the middle of the rows, a unit of length, and the rows around the middle in that unit, to 44 bits.

    The last bits of a filtered and projected row are rounding errors that depend on the number of threads, and would
    make equal rows different; the first 44 bits do not depend on it. The unit is a power of two, so that rows of any
    magnitude (1e-200 or 1e200) lose no other digits.
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
    """Return the smallest power of two at or above a positive number, and 1 for zero."""
    return float(2.0 ** min(max(np.ceil(np.log2(value)), -1000), 1000)) if value > 0 else 1.0


def random_from(random_state: Any) -> RandomState:
    """Return a RandomState for a seed, a RandomState or None (a fresh seed).

    scikit-learn has such a function, but takes a second to import.
    """
    if isinstance(random_state, RandomState):
        return random_state
    try:
        return RandomState(random_state)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"random_state: must be None, a whole number below 2^32 or a RandomState, not {random_state!r}"
        ) from error


def plus_plus(rows: FloatArray, weights: FloatArray, k: int, random: RandomState) -> IntArray:
    """k-means++: draw row i with probability ∝ w_i min_c ‖x_i - x_c‖² over the rows c drawn before.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        The rows.
    weights : ndarray of shape (n,)
        The weight of each row.
    k : int
        The number of rows to draw.
    random : numpy.random.RandomState
        The random generator.

    Returns
    -------
    ndarray of shape (k,)
        Row numbers.

    Examples
    --------
    >>> plus_plus(np.array([[0.0], [9.0]]), np.ones(2), 2, np.random.RandomState(0))
    array([1, 0])
    """
    norms = squared_norms(rows)
    chosen = [_drawn(weights, random)]
    nearest = _distances_to(rows, chosen[0], norms)
    while len(chosen) < k:
        chosen.append(_drawn(weights * nearest, random))
        np.minimum(nearest, _distances_to(rows, chosen[-1], norms), out=nearest)
    return np.array(chosen, dtype=np.int64)


def local_search(
    rows: FloatArray, weights: FloatArray, chosen: IntArray, n_swaps: int, random: RandomState
) -> IntArray:
    """Try to exchange one chosen row for a drawn row, `n_swaps` times; keep exchanges that lower the cost.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        The rows.
    weights : ndarray of shape (n,)
        The weight of each row.
    chosen : ndarray of shape (k,)
        The row numbers to improve.
    n_swaps : int
        The number of exchanges to try.
    random : numpy.random.RandomState
        The random generator.

    Returns
    -------
    ndarray of shape (k,)
        Row numbers.

    Examples
    --------
    >>> rows = np.array([[0.0], [0.1], [9.0]])
    >>> local_search(rows, np.ones(3), np.array([0, 1]), 5, np.random.RandomState(0))
    array([2, 1])
    """
    chosen = chosen.copy()
    near = _SwapState(rows, rows[chosen])
    for _ in range(n_swaps):
        mass = weights * near.first
        total = float(mass.sum())
        if total <= 0:  # every row lies on a centre
            break
        candidate = _drawn(mass, random)
        to_candidate = _distances_to(rows, candidate, near.norms)
        kept = np.minimum(near.first, to_candidate)  # cost if the own centre of the row stays
        lost = np.minimum(near.second, to_candidate)  # cost if the own centre of the row is removed
        lost -= kept
        lost *= weights
        cost_without = float(weights @ kept) + np.bincount(near.owner, weights=lost, minlength=len(chosen))
        removed = int(cost_without.argmin())
        if cost_without[removed] < total * (1 - 1e-12):
            chosen[removed] = candidate
            near.exchange(removed, rows[candidate], to_candidate)
    return chosen


def _drawn(mass: FloatArray, random: RandomState) -> int:
    """Draw a row with probability proportional to its mass."""
    starts = np.arange(0, len(mass), _PIECE)
    totals = np.cumsum(np.add.reduceat(mass, starts))
    wanted = random.random_sample() * totals[-1]
    piece = int(min(np.searchsorted(totals, wanted, side="right"), len(starts) - 1))
    within = mass[starts[piece] : starts[piece] + _PIECE]
    running = np.cumsum(within)
    if piece:
        running += totals[piece - 1]
    place = int(np.searchsorted(running, wanted, side="right"))
    if place == len(running):  # by rounding: take the last row with mass
        place = int(np.flatnonzero(within).max(initial=0))
    return int(starts[piece]) + place


def _distances_to(rows: FloatArray, row: int, norms: FloatArray) -> FloatArray:
    """Return the squared distance of every row to one of the rows."""
    found: FloatArray = rows @ (-2.0 * rows[row])
    found += norms
    found += norms[row]
    np.maximum(found, 0.0, out=found)
    found[row] = 0.0  # not a rounding error, which could be drawn
    return found


class _SwapState:
    """The distances of each row to its two nearest centres, updated while centres are exchanged."""

    def __init__(self, rows: FloatArray, centers: FloatArray) -> None:
        self.rows, self.norms, self.centers = rows, squared_norms(rows), centers.copy()
        self.owner, first, self.second = two_nearest(rows, centers, self.norms)
        self.first = _zero_if_rounding(first, self.norms)

    def exchange(self, removed: int, center: FloatArray, to_new: FloatArray) -> None:
        """Replace the centre `removed` by a centre at the distances `to_new`.

        All distances are computed again only for rows that had it among their two nearest, about 2 in k of them.
        """
        gone = self.centers[removed].copy()
        self.centers[removed] = center
        to_gone = self.norms - 2.0 * (self.rows @ gone)
        to_gone += gone @ gone
        affected = np.flatnonzero(to_gone <= self.second + ROUNDING * (3 * self.norms + 2 * self.second))
        np.minimum(self.second, np.maximum(self.first, to_new), out=self.second)
        self.owner[to_new < self.first] = removed
        np.minimum(self.first, to_new, out=self.first)
        norms = self.norms[affected]
        self.owner[affected], first, self.second[affected] = two_nearest(self.rows[affected], self.centers, norms)
        self.first[affected] = _zero_if_rounding(first, norms)


def _zero_if_rounding(distances: FloatArray, norms: FloatArray) -> FloatArray:
    """Replace distances that are rounding errors by zero."""
    return np.where(distances > ROUNDING * norms, distances, 0.0)
