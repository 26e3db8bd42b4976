"""Rows in an order of their own, so that no result depends on the order they came in.

Equal rows are merged and their weights added; what is left is sorted. Whatever is computed from that (sampled seeds,
sums, ties) is the same for every order of the input, and a row of weight w is, to the last bit, w copies of the row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kcagc._types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class CanonicalRows:
    """Distinct rows in lexicographic order, their total weights, and for each original row its place among them."""

    rows: FloatArray
    weights: FloatArray
    inverse: IntArray


def canonical_rows(rows: FloatArray, weights: FloatArray) -> CanonicalRows:
    """Merge equal rows and sort the rest."""
    rows = rows + 0.0  # -0.0 and 0.0 are one number, and must be one row
    order = np.argsort(rows[:, 0], kind="stable")
    tied = _tied_with_a_neighbour(rows[order, 0])
    if tied.size:
        # Only rows that agree in the first column need the others. The weight comes last, so that equal rows are
        # added up in the same order whatever order they came in.
        among = order[tied]
        order[tied] = among[np.lexsort((weights[among], *rows[among].T[::-1]))]
    first = np.ones(len(order), dtype=bool)
    later = tied[tied > 0]
    first[later] = (rows[order[later]] != rows[order[later - 1]]).any(axis=1)
    inverse = np.empty(len(order), dtype=np.int64)
    inverse[order] = np.cumsum(first) - 1
    starts = np.flatnonzero(first)
    return CanonicalRows(rows[order[starts]], np.add.reduceat(weights[order], starts), inverse)


def _tied_with_a_neighbour(values: FloatArray) -> IntArray:
    same = values[1:] == values[:-1]
    tied = np.zeros(len(values), dtype=bool)
    tied[1:] |= same
    tied[:-1] |= same
    return np.flatnonzero(tied)
