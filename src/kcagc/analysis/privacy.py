"""The paper's two privacy measures (Appendix B), and the estimators of entropy that they need.

Y is what is shared, X the original features that an attacker wants to know. The paper measures

- the privacy *level* 2^h(Y|X): how many values Y can still have for a reader who knows X (a count for a discrete
  entropy, a volume in the units of Y for a differential entropy), and
- the privacy *leakage* 1 - 2^(h(Y|X) - h(Y)) = 1 - 2^(-I(X;Y)): the share of that spread which X takes away. X says as
  much about Y as Y about X.

Both are averages over nodes, for one estimator and one choice of X and Y. `plug_in` counts how often values occur. Rows
that hardly ever repeat have the entropy of a list of numbers, whatever they hold, so it cannot distinguish a sum that
hides everything from a published table. `nearest` compares distances to near neighbours and can distinguish these two;
in more than a few dimensions it finds too little information rather than too much.

**Neither measure limits what an aggregator can compute.** A high level and a low leakage are compatible with an exact
recovery: if virtual nodes are means of local clusters, an aggregator that sees the sums *and* knows the cells separates
the parties by least squares and finds all distances between one party's local centres, except for rounding. The
disclosure ledger (`kcagc.disclosure`) lists what each role learns; a coordinator receives no labels, cells or order.
These measures serve for comparison with the paper. They are no guarantee, and no part of kcagc uses them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.spatial import cKDTree
from scipy.special import digamma

from kcagc._types import Features, FloatArray, IntArray, check_count
from kcagc.errors import DataError

__all__ = ["Privacy", "nearest", "plug_in", "plug_in_by_column"]

DIGITS = 9  # of the largest number of a table: errors of filters are far smaller, real differences far larger
NEIGHBORS = 3
_BITS = 1 / np.log(2)
_SAME = 1e-12  # rows nearer than this, relative to a spread of one, are equal except for rounding
_FLAT = 1e-9  # a direction narrower than this, relative to the widest, is rounding


@dataclass(frozen=True)
class Privacy:
    """Privacy level and leakage of what is shared.

    Attributes
    ----------
    level : float
        2^h(Y|X).
    leakage : float
        1 - 2^(h(Y|X) - h(Y)), from 0 (nothing) to 1 (everything).

    Examples
    --------
    >>> Privacy.of(entropy=3.0, conditional=2.0)
    Privacy(level=4.0, leakage=0.5)
    """

    level: float
    leakage: float

    @classmethod
    def of(cls, entropy: float, conditional: float) -> Privacy:
        """Return both measures from h(Y) and h(Y|X) in bits; h(Y|X) > h(Y) is an estimation error and becomes h(Y)."""
        lower = min(conditional, entropy)
        return cls(2.0**lower, 1 - 2.0 ** (lower - entropy))

    @classmethod
    def mean(cls, found: Iterable[Privacy]) -> Privacy:
        """Return the mean level and the mean leakage over columns or parties."""
        pairs = [(one.level, one.leakage) for one in found]
        if not pairs:
            raise DataError("privacy: there is nothing to average")
        level, leakage = np.mean(pairs, axis=0)
        return cls(float(level), float(leakage))


def plug_in(shared: ArrayLike, original: ArrayLike, *, digits: int | None = DIGITS) -> Privacy:
    """Measure privacy with the entropy of distinct rows, given whole rows of the features.

    Parameters
    ----------
    shared : array of shape (n,) or (n, d)
        What is shared, Y.
    original : array of shape (n,) or (n, p)
        The features, X.
    digits : int or None, default 9
        Decimals, relative to the largest number, by which rows are compared; None compares all bits.

    Returns
    -------
    Privacy
        Level and leakage.

    Raises
    ------
    DataError
        If a table is empty, holds missing or infinite values, or the numbers of rows differ.

    Examples
    --------
    >>> plug_in([0, 1, 1, 2], [0, 0, 1, 1]).level
    2.0
    """
    y, x = codes(shared, digits=digits), codes(original, digits=digits)
    return Privacy.of(discrete_entropy(y), conditional_entropy(y, x))


def plug_in_by_column(shared: ArrayLike, original: Features, *, digits: int | None = DIGITS) -> Privacy:
    """Measure privacy with the entropy of distinct rows, given one feature at a time; return the mean over features.

    Parameters
    ----------
    shared : array of shape (n,) or (n, d)
        What is shared, Y.
    original : array or sparse array of shape (n, p)
        The features, X, which are compared with nine decimals. A feature that no node has counts too.
    digits : int or None, default 9
        As for `plug_in`, for `shared`.

    Returns
    -------
    Privacy
        Mean level and mean leakage.

    Raises
    ------
    DataError
        If a table is invalid or the numbers of rows differ.

    Examples
    --------
    >>> plug_in_by_column([0, 1, 2, 3], np.array([[0, 1], [0, 1], [1, 1], [1, 1]])).level
    3.0
    """
    y = codes(shared, digits=digits)
    table = sparse.csc_array(original) if sparse.issparse(original) else np.asarray(original)
    if table.ndim != 2 or table.shape[0] != len(y):
        raise DataError(f"original: must be a table of {len(y)} rows, as many as are shared, not {table.shape}")
    entropy = discrete_entropy(y)
    columns: Iterable[Any] = (table[:, [number]] for number in range(table.shape[1]))
    dense = (one.toarray() if sparse.issparse(one) else one for one in columns)
    return Privacy.mean(Privacy.of(entropy, conditional_entropy(y, codes(one))) for one in dense)


def nearest(shared: ArrayLike, original: ArrayLike, *, neighbors: int = NEIGHBORS) -> Privacy:
    """Measure privacy with distances to near neighbours: h(Y|X) = h(Y) - I(X;Y).

    Parameters
    ----------
    shared : array of shape (n,) or (n, d)
        What is shared, Y.
    original : array of shape (n,) or (n, p)
        The features, X.
    neighbors : int, default 3
        Number of neighbours that the estimators use.

    Returns
    -------
    Privacy
        Leakage, and a level that is a volume in the units of `shared`: its d-th root is a length.

    Raises
    ------
    DataError
        If rows repeat or lie in a subspace, so that they have no density.
    ParameterError
        If `neighbors` is not a positive whole number.

    Examples
    --------
    >>> table = np.random.default_rng(0).normal(size=(1000, 2))
    >>> nearest(table, table).leakage > 0.99
    True
    """
    entropy = differential_entropy(shared, neighbors=neighbors)
    return Privacy.of(entropy, entropy - mutual_information(original, shared, neighbors=neighbors))


def codes(rows: ArrayLike, *, digits: int | None = DIGITS) -> IntArray:
    """Return a number for the value of each row (or of each entry of a column); equal values have equal numbers.

    Numbers are compared with `digits` decimals of the largest, because filtered rows that are equal in theory differ in
    their last bits; None compares all bits. Labels and whole numbers are compared exactly.
    """
    table = _checked(rows)
    if digits is not None and table.dtype.kind == "f":
        largest = float(np.abs(table).max())
        table = np.round(table / largest, digits) if largest > 0 else table
    if table.ndim == 2 and table.shape[1] == 1:
        table = table[:, 0]
    _, found = np.unique(table, axis=0, return_inverse=True)
    numbers: IntArray = found.ravel().astype(np.int64)
    return numbers


def pair_codes(first: IntArray, second: IntArray) -> IntArray:
    """Return a number for each pair of codes."""
    if first.shape != second.shape:
        raise DataError(f"rows: one table has {len(first)}, but the other has {len(second)}")
    return codes(first * (int(second.max()) + 1) + second)


def discrete_entropy(numbers: IntArray) -> float:
    """Return the plug-in entropy H = -Σ p log₂ p of codes in bits, with frequencies as probabilities.

    It is at most log₂ n, and equal to it if no value repeats: then it depends on the number of rows alone. On average
    it is below the true entropy by about (values - 1) / (2 n ln 2) bits, so information computed from it is too large.
    """
    counts: FloatArray = np.bincount(numbers).astype(np.float64)
    shares = counts[counts > 0] / counts.sum()
    return max(0.0, -float(shares @ np.log2(shares)))


def conditional_entropy(of: IntArray, given: IntArray) -> float:
    """Return H(Y|X) = H(X,Y) - H(X) in bits, of Y given X, both as codes."""
    return max(0.0, discrete_entropy(pair_codes(of, given)) - discrete_entropy(given))


def differential_entropy(rows: ArrayLike, *, neighbors: int = NEIGHBORS) -> float:
    """Return h(Y) in bits by the estimator of Kozachenko and Leonenko (1987).

        h(Y) = ψ(n) - ψ(k) + d · mean log ε_i        (nats)

    ε_i is twice the largest coordinate difference between row i and its k-th neighbour. h depends on the units of Y and
    may be negative. It needs a density: rows that repeat or lie in a subspace have none, and are an error. A curved
    surface, such as the sphere of unit rows, is not detected.
    """
    table = _table(rows, neighbors)
    n, d = table.shape
    standard, spread = _standardised(table)
    values = np.linalg.svd(standard, compute_uv=False)
    rank = int(np.count_nonzero(values > _FLAT * values[0])) if values[0] > 0 else 0
    if rank < d:
        raise DataError(
            f"rows: {n} rows of {d} columns lie in {rank} dimensions and have no density in {d}; drop constant columns "
            "and project on fewer directions than there are rows"
        )
    radius = _neighbor_distances(standard, neighbors)
    found = digamma(n) - digamma(neighbors) + d * np.log(2 * radius).mean() + np.log(spread).sum()
    return float(found * _BITS)


def mutual_information(first: ArrayLike, second: ArrayLike, *, neighbors: int = NEIGHBORS) -> float:
    """Return I(X;Y) in bits, never negative, by the first estimator of Kraskov, Stögbauer and Grassberger (2004).

        I(X;Y) = ψ(k) + ψ(n) - mean (ψ(n_x + 1) + ψ(n_y + 1))        (nats)

    n_x and n_y count the rows nearer than the k-th joint neighbour in X alone and in Y alone. The result cannot exceed
    ψ(n) - ψ(k), about log₂ (n / k) bits, and is too small in many dimensions.
    """
    one, other = (_standardised(_table(rows, neighbors))[0] for rows in (first, second))
    if len(one) != len(other):
        raise DataError(f"rows: one table has {len(one)}, but the other has {len(other)}")
    # Strictly nearer: the k-th neighbour itself lies on the border in one of the two.
    radius = np.nextafter(_neighbor_distances(np.hstack([one, other]), neighbors), 0)
    within = sum(
        digamma(cKDTree(table).query_ball_point(table, radius, p=np.inf, return_length=True)) for table in (one, other)
    )
    return max(0.0, float((digamma(neighbors) + digamma(len(one)) - within.mean()) * _BITS))


def distinct_rows(rows: ArrayLike) -> IntArray:
    """Return the position of the first row of each value, in order, to drop repeated rows."""
    _, first = np.unique(codes(rows), return_index=True)
    chosen: IntArray = np.sort(first).astype(np.int64)
    return chosen


def _checked(rows: ArrayLike) -> NDArray[Any]:
    table = np.asarray(rows)
    if table.ndim not in (1, 2) or table.size == 0:
        raise DataError(f"rows: must be a column or a table with at least one value, not of shape {table.shape}")
    if table.dtype.kind == "f" and not np.isfinite(table).all():
        row = int(np.argwhere(~np.isfinite(table))[0][0])
        raise DataError(f"rows: row {row} has a value that is infinite or missing")
    return table


def _table(rows: ArrayLike, neighbors: int) -> FloatArray:
    check_count("neighbors", neighbors)
    table = _checked(rows).astype(np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if len(table) <= neighbors:
        raise DataError(f"rows: {len(table)} are too few to find {neighbors} neighbours of each")
    return table


def _standardised(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return centred columns divided by their spread, and the spread; a constant column becomes zero.

    This changes information not at all and entropy by Σ log σ only, and lets one k-th neighbour serve all columns.
    """
    centred = table - table.mean(axis=0)
    spread = centred.std(axis=0)
    flat = spread <= _FLAT * np.abs(table).max(axis=0)
    centred[:, flat] = 0.0
    spread[flat] = 1.0
    return centred / spread, spread


def _neighbor_distances(table: FloatArray, neighbors: int) -> FloatArray:
    """Return the distance of each row to its k-th neighbour, by the largest difference in a coordinate."""
    found, _ = cKDTree(table).query(table, k=[neighbors + 1], p=np.inf)  # the nearest is the row itself
    radius: FloatArray = found[:, 0]
    if (radius <= _SAME).any():
        raise DataError(
            f"rows: more than {neighbors} of them are equal (row {int(radius.argmin())} is one), so they have no "
            "density; drop repeated rows (`distinct_rows`), or use the plug-in measure"
        )
    return radius
