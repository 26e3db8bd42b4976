"""Differential entropy and mutual information from distances to the k-th nearest neighbour, in bits.

Kozachenko and Leonenko (1987), with ε_i twice the largest coordinate difference between row i and its k-th neighbour,
so that the ball around it is a cube of side ε_i, in d dimensions:

    h(Y) = ψ(n) - ψ(k) + d · mean log ε_i                                 (nats)

Kraskov, Stögbauer and Grassberger (2004), their first estimator, with n_x and n_y the rows nearer than the k-th joint
neighbour in X alone and in Y alone:

    I(X;Y) = ψ(k) + ψ(n) - mean (ψ(n_x + 1) + ψ(n_y + 1))                 (nats)

h depends on the units of Y, and may be negative; I does not, and is 0 or more. Columns are brought to equal spread
first, which changes neither but for Σ log σ in h, and lets one k-th neighbour serve all of them. h needs a density:
rows that repeat, or lie in a subspace, have none, and h is then minus infinity, whatever an estimator makes of rounding
errors. That is refused. A curved surface, as the sphere of unit rows, is not noticed. I cannot exceed ψ(n) - ψ(k),
about log₂ (n / k) bits, however exactly one tells the other, and falls short in many dimensions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from scipy.special import digamma

from kcagc._types import FloatArray, IntArray
from kcagc.analysis.privacy.discrete import checked, codes
from kcagc.errors import DataError
from kcagc.parameters import check_count

NEIGHBOURS = 3
_BITS = 1 / np.log(2)
_SAME = 1e-12  # rows nearer than this, beside a spread of one, are equal but for rounding
_FLAT = 1e-9  # a direction this much narrower than the widest, once columns have equal spread, is rounding


def entropy(rows: ArrayLike, *, neighbors: int = NEIGHBOURS) -> float:
    """Give h(Y) in bits."""
    table = _table(rows, neighbors)
    n, d = table.shape
    standard, spread = _standard(table)
    rank = _rank(standard)
    if rank < d:
        raise DataError(
            f"rows: {n} rows of {d} columns lie in {rank} dimensions, where a density in {d} does not exist; drop "
            "constant columns and project on fewer directions than there are rows"
        )
    radius = _to_neighbour(standard, neighbors)
    found = digamma(n) - digamma(neighbors) + d * np.log(2 * radius).mean() + np.log(spread).sum()
    return float(found * _BITS)


def mutual_information(first: ArrayLike, second: ArrayLike, *, neighbors: int = NEIGHBOURS) -> float:
    """Give I(X;Y) in bits, never negative."""
    one, other = (_standard(_table(rows, neighbors))[0] for rows in (first, second))
    if len(one) != len(other):
        raise DataError(f"rows: {len(one)} of one, but {len(other)} of the other")
    n = len(one)
    # Strictly nearer: the k-th neighbour itself lies on the border in one of the two.
    radius = np.nextafter(_to_neighbour(np.hstack([one, other]), neighbors), 0)
    within = sum(digamma(_within(table, radius)) for table in (one, other))
    found = digamma(neighbors) + digamma(n) - within.mean()
    return max(0.0, float(found * _BITS))


def distinct(rows: ArrayLike) -> IntArray:
    """Give the first row of each value, in order: what is left where repeated rows are dropped."""
    _, first = np.unique(codes(rows), return_index=True)
    chosen: IntArray = np.sort(first).astype(np.int64)
    return chosen


def _table(rows: ArrayLike, neighbors: int) -> FloatArray:
    check_count("neighbors", neighbors)
    table = checked(rows).astype(np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if len(table) <= neighbors:
        raise DataError(f"rows: {len(table)} are too few to find {neighbors} neighbours of each")
    return table


def _rank(standard: FloatArray) -> int:
    values = np.linalg.svd(standard, compute_uv=False)
    return int(np.count_nonzero(values > _FLAT * values[0])) if values[0] > 0 else 0


def _standard(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Centre columns and divide them by their spread, which is given too; one that is constant becomes zero."""
    centred = table - table.mean(axis=0)
    spread = centred.std(axis=0)
    flat = spread <= _FLAT * np.abs(table).max(axis=0)
    centred[:, flat] = 0.0
    spread[flat] = 1.0
    return centred / spread, spread


def _to_neighbour(table: FloatArray, neighbors: int) -> FloatArray:
    """Give the distance of each row to its k-th neighbour, by the largest difference in a coordinate."""
    found, _ = cKDTree(table).query(table, k=[neighbors + 1], p=np.inf)  # the nearest is the row itself
    radius: FloatArray = found[:, 0]
    if (radius <= _SAME).any():
        raise DataError(
            f"rows: more than {neighbors} of them are equal (row {int(radius.argmin())} is one), and a density has no "
            "such point; drop repeats (`distinct`), or take the plug-in measure"
        )
    return radius


def _within(table: FloatArray, radius: FloatArray) -> IntArray:
    """Count the rows within a radius of each, itself included: n_x + 1."""
    counts: IntArray = cKDTree(table).query_ball_point(table, radius, p=np.inf, return_length=True)
    return counts
