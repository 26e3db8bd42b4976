"""Starting centres with a proven constant factor: k-means++ followed by local-search swaps.

What is proven for what is built here. k-means++ alone is within 8 (ln k + 2) of the optimum in expectation (Arthur and
Vassilvitskii, SODA 2007). Each swap draws a row as k-means++ would and exchanges it for the centre whose loss costs
least, if that lowers the cost (Lattanzi and Sohler, ICML 2019). With ε k swaps, for any fixed ε > 0, the result is
within a constant factor of the optimum with high probability in k (Choo, Grunau, Portmann and Rozhoň, ICML 2020); their
constant is not explicit. An explicit one, 509 in expectation, is proven only for 100,000 k log log k swaps. We make k
swaps unless told otherwise: a constant factor, and not a proven 10. The paper's footnote allows any t-approximation
where c/t is large; `approximation_bound` certifies, for a given result, a factor that it cannot exceed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.cluster.distances import ROUNDING, squared_norms, two_nearest
from kcagc.errors import ParameterError

# The sampler whose stream is the same in all versions of NumPy; seeds for clustering have nothing to do with keys.
RandomState = np.random.RandomState

_PIECE = 256  # rows whose mass is added up before running totals are taken


def random_from(random_state: Any) -> RandomState:
    """Take a seed or a RandomState; None draws anew; scikit-learn's own function takes a second to import."""
    if isinstance(random_state, RandomState):
        return random_state
    try:
        return RandomState(random_state)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"random_state: must be None, a whole number below 2^32 or a RandomState, not {random_state!r}"
        ) from error


def plus_plus(rows: FloatArray, weights: FloatArray, k: int, random: RandomState) -> IntArray:
    """Draw k row numbers, each with probability proportional to weight times squared distance to those before."""
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
    """Try `n_swaps` exchanges of one chosen row for one drawn by squared distance, and keep those that pay."""
    chosen = chosen.copy()
    near = _TwoNearest(rows, rows[chosen])
    for _ in range(n_swaps):
        mass = weights * near.first
        total = float(mass.sum())
        if total <= 0:  # every row lies on a centre: nothing left to gain
            break
        candidate = _drawn(mass, random)
        to_candidate = _distances_to(rows, candidate, near.norms)
        kept = np.minimum(near.first, to_candidate)  # cost if the row's own centre stays
        lost = np.minimum(near.second, to_candidate)  # cost if it is the one that leaves
        lost -= kept
        lost *= weights
        cost_without = float(weights @ kept) + np.bincount(near.owner, weights=lost, minlength=len(chosen))
        leaving = int(cost_without.argmin())
        if cost_without[leaving] < total * (1 - 1e-12):
            chosen[leaving] = candidate
            near.exchange(leaving, rows[chosen], to_candidate)
    return chosen


def _drawn(mass: FloatArray, random: RandomState) -> int:
    """Draw a row with probability proportional to its mass: where the running total passes a random share of it."""
    starts = np.arange(0, len(mass), _PIECE)
    totals = np.cumsum(np.add.reduceat(mass, starts))
    wanted = random.random_sample() * totals[-1]
    piece = int(min(np.searchsorted(totals, wanted, side="right"), len(starts) - 1))
    within = mass[starts[piece] : starts[piece] + _PIECE]
    running = np.cumsum(within)
    if piece:
        running += totals[piece - 1]
    place = int(np.searchsorted(running, wanted, side="right"))
    if place == len(running):  # by rounding: take the last row that has any mass
        place = int(np.flatnonzero(within).max(initial=0))
    return int(starts[piece]) + place


def _distances_to(rows: FloatArray, row: int, norms: FloatArray) -> FloatArray:
    """Give every row's squared distance to one of them."""
    found: FloatArray = rows @ (-2.0 * rows[row])
    found += norms
    found += norms[row]
    np.maximum(found, 0.0, out=found)
    found[row] = 0.0  # and not a rounding error that could be drawn
    return found


class _TwoNearest:
    """How far each row's two nearest centres are, kept up to date while centres are exchanged one by one."""

    def __init__(self, rows: FloatArray, centers: FloatArray) -> None:
        self.rows = rows
        self.norms = squared_norms(rows)
        self._centers = centers.copy()
        found = two_nearest(rows, centers, self.norms)
        self.owner, self.second = found.owner, found.second
        self.first = _settled(found.first, self.norms)

    def exchange(self, leaving: int, centers: FloatArray, to_new: FloatArray) -> None:
        """Put the centre whose distances are `to_new` in the place of `leaving`.

        Only rows that had it among their two nearest need all distances anew, about 2 in k of them.
        """
        gone = self._centers[leaving]
        to_gone = self.norms - 2.0 * (self.rows @ gone)
        to_gone += gone @ gone
        affected = np.flatnonzero(to_gone <= self.second + ROUNDING * (3 * self.norms + 2 * self.second))
        self._centers = centers.copy()
        np.minimum(self.second, np.maximum(self.first, to_new), out=self.second)
        self.owner[to_new < self.first] = leaving
        np.minimum(self.first, to_new, out=self.first)
        norms = self.norms[affected]
        found = two_nearest(self.rows[affected], centers, norms)
        self.owner[affected], self.second[affected] = found.owner, found.second
        self.first[affected] = _settled(found.first, norms)


def _settled(distances: FloatArray, norms: FloatArray) -> FloatArray:
    """Put a row that lies on its centre at distance zero, not at a rounding error that swaps could chase."""
    return np.where(distances > ROUNDING * norms, distances, 0.0)


def approximation_bound(rows: FloatArray, weights: FloatArray, k: int, cost: float) -> float:
    """Certify a factor: `cost` is at most this many times the optimal k-means cost of these rows.

    The k-1 leading directions of the centred rows explain at least as much as any k centres can, so the rest of the
    spectrum is a lower bound of the optimum. Infinite where that bound is zero.
    """
    if cost == 0 or k >= len(rows):
        return 1.0
    centred = rows - (weights @ rows) / weights.sum()
    spectrum = np.linalg.eigvalsh((centred * weights[:, None]).T @ centred)[::-1]
    # What the eigenvalues may be off is taken away, so that rounding cannot make the certificate too good.
    rounding = 1e-14 * len(spectrum) * float(spectrum[0])
    lower = float(spectrum[k - 1 :].sum()) - rounding
    return max(cost / lower, 1.0) if lower > 0 else float("inf")
