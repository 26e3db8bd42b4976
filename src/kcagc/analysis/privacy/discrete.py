"""Plug-in entropy: the share of rows that have a value stands for its probability.

H = -Σ p log₂ p over distinct values, in bits. It is at most log₂ n, and is that where no value repeats: then it says
how many rows there are and nothing about them. On average it falls short of the entropy that it estimates, by about
(values - 1) / (2 n ln 2) bits; an information made of such entropies is therefore too large, and of rows that do not
repeat it is all that the other side has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kcagc._types import FloatArray, IntArray
from kcagc.errors import DataError

DIGITS = (
    9  # of the largest number of a table: what filters and singular vectors lose is far below, what differs far above
)


def codes(rows: ArrayLike, *, digits: int | None = DIGITS) -> IntArray:
    """Give every row (or every value of one column) the number of its value; equal ones have the same.

    Numbers are compared with `digits` decimals of the largest, because filtered rows that are equal on paper differ in
    their last bits; None compares them bit for bit. Labels and whole numbers are always compared as they are.
    """
    table = checked(rows)
    if digits is not None and table.dtype.kind == "f":
        largest = float(np.abs(table).max())
        table = np.round(table / largest, digits) if largest > 0 else table
    if table.ndim == 2 and table.shape[1] == 1:
        table = table[:, 0]
    _, found = np.unique(table, axis=0, return_inverse=True)
    numbers: IntArray = found.ravel().astype(np.int64)
    return numbers


def pair(first: IntArray, second: IntArray) -> IntArray:
    """Give every pair of codes a number: the value of both together."""
    if first.shape != second.shape:
        raise DataError(f"rows: {len(first)} of one, but {len(second)} of the other")
    return codes(first * (int(second.max()) + 1) + second)


def entropy_of_counts(counts: ArrayLike) -> float:
    """Give H in bits of values that occur so often."""
    found: FloatArray = np.asarray(counts, dtype=np.float64)
    found = found[found > 0]
    shares = found / found.sum()
    return max(0.0, -float(shares @ np.log2(shares)))


def entropy(numbers: IntArray) -> float:
    """Give H in bits of a list of codes."""
    return entropy_of_counts(np.bincount(numbers))


def conditional_entropy(of: IntArray, given: IntArray) -> float:
    """Give H(Y|X) = H(X,Y) - H(X) in bits, of Y given X, both as codes."""
    return max(0.0, entropy(pair(of, given)) - entropy(given))


def checked(rows: ArrayLike) -> NDArray[Any]:
    """Give rows as an array of one or two dimensions that has any, and nothing infinite or missing."""
    table = np.asarray(rows)
    if table.ndim not in (1, 2) or table.size == 0:
        raise DataError(f"rows: a column or a table with at least one value is needed, not shape {table.shape}")
    if table.dtype.kind == "f" and not np.isfinite(table).all():
        row = int(np.argwhere(~np.isfinite(table))[0][0])
        raise DataError(f"rows: row {row} has a value that is infinite or missing")
    return table
