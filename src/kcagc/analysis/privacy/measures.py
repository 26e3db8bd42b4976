"""Level and leakage of what is shared, by either family of estimators; `kcagc.analysis.privacy` says what they omit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from kcagc._types import Features, IntArray
from kcagc.analysis.privacy import discrete, neighbours
from kcagc.analysis.privacy.discrete import DIGITS
from kcagc.analysis.privacy.neighbours import NEIGHBOURS
from kcagc.errors import DataError


@dataclass(frozen=True)
class Privacy:
    """Level 2^h(Y|X) and leakage 1 - 2^(h(Y|X) - h(Y)), the latter from 0 (nothing) to 1 (everything)."""

    level: float
    leakage: float

    @classmethod
    def of(cls, entropy: float, conditional: float) -> Privacy:
        """Take h(Y) and h(Y|X), in bits; the second is not larger but by an error of the estimators."""
        lower = min(conditional, entropy)
        return cls(2.0**lower, 1 - 2.0 ** (lower - entropy))

    @classmethod
    def mean(cls, found: Iterable[Privacy]) -> Privacy:
        """Average levels, and leakages, over columns or parties."""
        pairs = [(one.level, one.leakage) for one in found]
        if not pairs:
            raise DataError("privacy: there is nothing to average")
        level, leakage = np.mean(pairs, axis=0)
        return cls(float(level), float(leakage))


def plug_in(shared: ArrayLike, original: ArrayLike, *, digits: int | None = DIGITS) -> Privacy:
    """Measure with the entropy of distinct rows: of what is shared, given whole rows of the features."""
    y, x = discrete.codes(shared, digits=digits), discrete.codes(original, digits=digits)
    return Privacy.of(discrete.entropy(y), discrete.conditional_entropy(y, x))


def plug_in_by_column(shared: ArrayLike, original: Features, *, digits: int | None = DIGITS) -> Privacy:
    """Measure with the entropy of distinct rows, given one feature at a time, and average over the features.

    Features are compared with nine decimals; `digits` is for what is shared, as in `discrete.codes`. A feature that no
    node has tells nothing, and counts.
    """
    y = discrete.codes(shared, digits=digits)
    table = sparse.csc_array(original) if sparse.issparse(original) else np.asarray(original)
    if table.ndim != 2 or table.shape[0] != len(y):
        raise DataError(f"original: a table of {len(y)} rows is needed, as many as are shared, not {table.shape}")
    entropy = discrete.entropy(y)
    return Privacy.mean(
        Privacy.of(entropy, discrete.conditional_entropy(y, _column(table, number))) for number in range(table.shape[1])
    )


def nearest(shared: ArrayLike, original: ArrayLike, *, neighbors: int = NEIGHBOURS) -> Privacy:
    """Measure with distances to near neighbours: h(Y|X) = h(Y) - I(X;Y).

    The level is a volume in the units of what is shared: with d columns, its d-th root is a length.
    """
    entropy = neighbours.entropy(shared, neighbors=neighbors)
    information = neighbours.mutual_information(original, shared, neighbors=neighbors)
    return Privacy.of(entropy, entropy - information)


def _column(table: Features, number: int) -> IntArray:
    column = table[:, [number]]
    return discrete.codes(column.toarray() if sparse.issparse(column) else column)
