"""Weights of columns: a value that few nodes have counts more than a value that most nodes have.

The weight of a column is its inverse document frequency, for n nodes of which m have a value other than 0 in it:

    weight = ln((1 + n) / (1 + m)) + 1

It is 1 for a column without zeros, and never 0. A party computes its weights alone, from its own rows, and keeps them
for predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np
from scipy import sparse

from kcagc._types import Features, Flags, FloatArray, IntArray, check_choice
from kcagc.errors import DataError

Weighting = Literal["auto", "idf", "none"]

MOSTLY_ZERO = 0.5  # share of zeros from which "auto" takes whole numbers for counts of events
_BLOCK = 1 << 20  # values of a dense table that are looked at together

Fail = Callable[[int, int, str], DataError]  # makes an error about a row and a column


def check_weighting(weighting: str, where: str = "weighting") -> None:
    """Raise `ParameterError` for a weighting that does not exist."""
    check_choice(where, weighting, get_args(Weighting))


def fit_weights(features: Features, weighting: Weighting | Sequence[Weighting], fail: Fail) -> FloatArray:
    """Return the weight of each column; 1 leaves a column as it is.

    Parameters
    ----------
    features : ndarray or csr_array of shape (n_nodes, n_columns)
        Finite numbers.
    weighting : {"auto", "idf", "none"} or a sequence with one for each column
        "idf" weights the column, and refuses negative numbers. "auto" weights flags and counts, unless more of the
        columns with "auto" are mostly 0 and neither: a table of tf-idf numbers has some flags by chance. A flag is a
        column of 0 and 1, a count one of other whole numbers of which none is negative and at least half are 0. "none"
        does not weight the column.
    fail : callable
        Makes the error about a negative number, from its row, its column and a message.

    Returns
    -------
    ndarray of shape (n_columns,)
    """
    n, width = features.shape
    choices = np.full(width, weighting) if isinstance(weighting, str) else np.asarray(weighting, dtype=str)
    asked, auto = choices == "idf", choices == "auto"
    if asked.any():
        _refuse_negative(features, asked, fail)
    present, taken = _facts(features, asked, auto)
    return np.where(asked | taken, np.log((1 + n) / (1 + present)) + 1, 1.0)


def apply_weights(features: Features, weights: FloatArray) -> Features:
    """Return features with their columns multiplied by weights; the same object if all weights are 1."""
    if (weights == 1).all():
        return features
    if not sparse.issparse(features):
        return features * weights.astype(features.dtype)
    rows = features.tocsr()
    data = rows.data * weights.astype(rows.dtype)[rows.indices]
    return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


def _facts(features: Features, asked: Flags, auto: Flags) -> tuple[IntArray, Flags]:
    """Return how many values of each column are not 0, and which columns "auto" weights.

    The counts of columns that nothing weights may be incomplete: a table of real numbers is read up to the block in
    which its last column turns out to be one.
    """
    n, width = features.shape
    present, whole, binary = np.zeros(width, dtype=np.int64), auto.copy(), np.ones(width, dtype=bool)
    if sparse.issparse(features):
        rows = features.tocsr()
        present += np.bincount(rows.indices[rows.data != 0], minlength=width)
        whole &= np.bincount(rows.indices[~_whole(rows.data)], minlength=width) == 0
        binary = np.bincount(rows.indices[rows.data > 1], minlength=width) == 0
    else:
        step = max(1, _BLOCK // max(width, 1))
        for start in range(0, n, step):
            if not (asked | whole).any():
                break
            block = features[start : start + step]
            present += np.count_nonzero(block, axis=0)
            whole &= _whole(block).all(axis=0)
            binary &= (block <= 1).all(axis=0)
    mostly_zero = present <= (1 - MOSTLY_ZERO) * n
    taken = whole & (binary | mostly_zero)
    others = np.count_nonzero(auto & mostly_zero & ~whole)
    return present, taken if np.count_nonzero(taken & (present > 0)) >= others else np.zeros_like(taken)


def _whole(values: Features) -> Flags:
    """Return which values are whole numbers of 0 or more."""
    return np.asarray((values >= 0) & (values == np.floor(values)))


def _refuse_negative(features: Features, asked: Flags, fail: Fail) -> None:
    """Raise an error for the first negative number in a column that was asked for."""
    if sparse.issparse(features):
        rows = features.tocsr()
        places = np.flatnonzero((rows.data < 0) & asked[rows.indices])
        found = [(int(np.searchsorted(rows.indptr, one, side="right")) - 1, rows.indices[one]) for one in places[:1]]
    else:
        found = [(row, column) for row, column in np.argwhere((features < 0) & asked)[:1]]
    for row, column in found:
        message = f"weighting 'idf' is for numbers of 0 or more, not {features[row, column]:g}; use 'auto' or 'none'"
        raise fail(int(row), int(column), message)
