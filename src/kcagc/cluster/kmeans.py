"""k-means as Protocol 1 runs it: seeding, the step with margin 9, Lloyd; several restarts, the cheapest wins.

scikit-learn's KMeans has no step with margin 9. It also does not guarantee labels that are the same for every number of
threads and every order of rows, or a row of weight w that equals w copies of it to the last bit.

Seeding is k-means++ followed by local-search swaps. k-means++ alone is within 8 (ln k + 2) of the optimum in
expectation (Arthur and Vassilvitskii, SODA 2007). Each swap draws a row as k-means++ does and exchanges it for the
centre whose removal costs least, if that lowers the cost (Lattanzi and Sohler, ICML 2019). With ε k swaps, for any
fixed ε > 0, the result is within a constant factor of the optimum with high probability in k (Choo, Grunau, Portmann
and Rozhoň, ICML 2020); their constant is not explicit. An explicit constant, 509 in expectation, is proven only for
100,000 k log log k swaps. The default of k swaps therefore has a proven constant factor, but not a proven factor 10.
The paper's footnote allows any t-approximation where c/t is large; `approximation_bound` certifies a factor for a given
result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kcagc._types import FloatArray, IntArray, Labels, check_count, check_weights
from kcagc.cluster.lloyd import (
    ROUNDING,
    LloydResult,
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

_MANY = 1 << 16  # with more distinct rows, restarts compete on a sample
_SAMPLE = 1 << 15
_TOLERANCE = 1e-3  # and iterations end when at most this share of rows changes
_PIECE = 256  # rows whose weight is added before running totals are computed


@dataclass(frozen=True, eq=False)
class KMeansResult:
    """The cheapest of several k-means restarts.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        The cluster of each row, from 0 to k - 1.
    centers : ndarray of shape (k, d)
        The weighted mean of each cluster.
    inertia : float
        The weighted sum of squared distances to the centres.
    n_iter : int
        The number of Lloyd iterations.
    converged : bool
        Whether labels stopped changing within the allowed number of iterations.
    factor_bound : float
        A certified bound on the ratio of `inertia` to the optimum.

    Examples
    --------
    >>> fit_kmeans([[0.0], [1.0], [9.0]], 2, random_state=0).inertia
    0.5
    """

    labels: Labels
    centers: FloatArray
    inertia: float
    n_iter: int
    converged: bool
    factor_bound: float


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
        raise DataError(f"n_clusters: {k} clusters asked of {len(rows)} rows")
    middle, unit, on_grid = _rounded(rows)
    distinct = canonical_rows(on_grid, weight / _power_of_two(weight.max(initial=0.0)))
    heavy = distinct.weights > 0
    if fewer:
        k = min(k, max(int(np.count_nonzero(heavy)), 1))
    if np.count_nonzero(heavy) < k:
        raise DataError(f"n_clusters: {k} clusters asked of {np.count_nonzero(heavy)} distinct rows")
    # Distances are computed as ‖x‖² - 2 x·c + ‖c‖²; that loses the fewest digits around the mean.
    mean = distinct.weights @ distinct.rows / distinct.weights.sum()
    centred = distinct.rows - mean
    # A row without weight gets a label but does not move a centre.
    points, mass = (centred, distinct.weights) if heavy.all() else (centred[heavy], distinct.weights[heavy])

    random = random_from(random_state)
    seeds = random.randint(np.iinfo(np.int32).max, size=n_init)
    restarts = _Restarts(k, k if n_swaps is None else n_swaps, margin=margin, max_iter=max_iter)
    with one_blas_thread():
        sample = _sample(mass, random) if len(points) > _MANY else None
        if sample is None or len(sample.rows) < k:
            best = restarts.best(points, mass, seeds)
        else:
            centers = restarts.best(points[sample.rows], sample.weights, seeds, tolerance=_TOLERANCE).centers
            best = run_lloyd(points, mass, centers, max_iter=max_iter, tolerance=_TOLERANCE)
    labels = best.labels
    if not heavy.all():
        labels, _ = assign(centred, best.centers)
        labels[heavy] = best.labels
    bound = approximation_bound(points, mass, k, best.inertia)
    with np.errstate(over="ignore"):  # squares of very large rows are infinite
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
class _Restarts:
    """The settings of each restart: k-means++, local search, the step with margin 9, Lloyd."""

    k: int
    n_swaps: int
    margin: bool
    max_iter: int

    def best(self, rows: FloatArray, weights: FloatArray, seeds: IntArray, *, tolerance: float = 0.0) -> LloydResult:
        """Return the cheapest restart."""
        best = self._restart(rows, weights, seeds[0], tolerance)
        for seed in seeds[1:]:
            found = self._restart(rows, weights, seed, tolerance)
            # Among restarts that differ by rounding only, the first wins.
            if found.inertia < best.inertia * (1 - 1e-10):
                best = found
        return best

    def _restart(self, rows: FloatArray, weights: FloatArray, seed: int, tolerance: float) -> LloydResult:
        random = np.random.RandomState(seed)
        chosen = plus_plus(rows, weights, self.k, random)
        chosen = local_search(rows, weights, chosen, self.n_swaps, random)
        centers = margin_step(rows, weights, rows[chosen]) if self.margin else rows[chosen]
        return run_lloyd(rows, weights, centers, max_iter=self.max_iter, tolerance=tolerance)


@dataclass(frozen=True, eq=False)
class _Sample:
    """Rows drawn by weight; each appears once, with the number of times it was drawn as its weight."""

    rows: IntArray
    weights: FloatArray


def _sample(mass: FloatArray, random: np.random.RandomState) -> _Sample:
    running = np.cumsum(mass)
    drawn = np.searchsorted(running, random.random_sample(_SAMPLE) * running[-1], side="right")
    rows, times = np.unique(np.minimum(drawn, len(mass) - 1), return_counts=True)
    return _Sample(rows.astype(np.int64), times.astype(np.float64))


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
            near.exchange(removed, rows[chosen], to_candidate)
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
        self.rows = rows
        self.norms = squared_norms(rows)
        self._centers = centers.copy()
        found = two_nearest(rows, centers, self.norms)
        self.owner, self.second = found.owner, found.second
        self.first = _zero_if_rounding(found.first, self.norms)

    def exchange(self, removed: int, centers: FloatArray, to_new: FloatArray) -> None:
        """Replace the centre `removed` by a centre at the distances `to_new`.

        All distances are computed again only for rows that had it among their two nearest, about 2 in k of them.
        """
        gone = self._centers[removed]
        to_gone = self.norms - 2.0 * (self.rows @ gone)
        to_gone += gone @ gone
        affected = np.flatnonzero(to_gone <= self.second + ROUNDING * (3 * self.norms + 2 * self.second))
        self._centers = centers.copy()
        np.minimum(self.second, np.maximum(self.first, to_new), out=self.second)
        self.owner[to_new < self.first] = removed
        np.minimum(self.first, to_new, out=self.first)
        norms = self.norms[affected]
        found = two_nearest(self.rows[affected], centers, norms)
        self.owner[affected], self.second[affected] = found.owner, found.second
        self.first[affected] = _zero_if_rounding(found.first, norms)


def _zero_if_rounding(distances: FloatArray, norms: FloatArray) -> FloatArray:
    """Replace distances that are rounding errors by zero."""
    return np.where(distances > ROUNDING * norms, distances, 0.0)


def approximation_bound(rows: FloatArray, weights: FloatArray, k: int, cost: float) -> float:
    """Cost / Σ_{j ≥ k} λ_j, an upper bound on the ratio of `cost` to the optimal k-means cost.

    λ_j are the eigenvalues of the weighted scatter matrix in falling order. k centres explain at most as much as the
    first k - 1 directions, so that the sum of the other eigenvalues is a lower bound of the optimum.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        The rows.
    weights : ndarray of shape (n,)
        The weight of each row.
    k : int
        The number of clusters.
    cost : float
        The cost of a clustering of these rows.

    Returns
    -------
    float
        A factor of at least 1; infinite where the lower bound is zero.

    Examples
    --------
    >>> round(approximation_bound(np.array([[0.0], [1.0]]), np.ones(2), 1, 0.5), 6)
    1.0
    """
    if cost == 0 or k >= len(rows):
        return 1.0
    centred = rows - (weights @ rows) / weights.sum()
    spectrum = np.linalg.eigvalsh((centred * weights[:, None]).T @ centred)[::-1]
    # Subtract the rounding error of the eigenvalues, so that the bound stays valid.
    rounding = 1e-14 * len(spectrum) * float(spectrum[0])
    lower = float(spectrum[k - 1 :].sum()) - rounding
    return max(cost / lower, 1.0) if lower > 0 else float("inf")
