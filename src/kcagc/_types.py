"""Types of arrays in signatures, and checks of arguments.

SciPy and scikit-learn have no type information, so a sparse matrix is `Any` to the type checker; the name still tells
the reader what it is.
"""

from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kcagc.errors import DataError, ParameterError
from kcagc.text import listed

FloatArray: TypeAlias = NDArray[np.float64]
AnyFloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.int64]
Labels: TypeAlias = NDArray[np.intp]
Flags: TypeAlias = NDArray[np.bool_]
Sparse: TypeAlias = Any  # scipy.sparse array or matrix
GraphSharing: TypeAlias = Literal["shared", "own", "none"]  # all parties have one graph, each its own, or none
Features: TypeAlias = Any  # a dense 2-d array, or a scipy.sparse array or matrix


def check_count(name: str, value: Any, *, least: int = 1, optional: bool = False) -> None:
    """Raise `ParameterError` unless a value is a whole number of at least `least`, or None if that is allowed."""
    if optional and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ParameterError(f"{name}: must be a whole number, {least} or more, not {value!r}")


def check_between(name: str, value: Any, least: float, most: float) -> None:
    """Raise `ParameterError` unless a value is a real number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not least <= float(value) <= most:
        raise ParameterError(f"{name}: must be a number from {least:g} to {most:g}, not {value!r}")


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise `ParameterError` unless a value is one of `choices`."""
    if value not in choices:
        raise ParameterError(f"{name}: must be {listed([repr(one) for one in choices], last='or')}, not {value!r}")


def check_weights(weights: ArrayLike, n: int, where: str) -> FloatArray:
    """Return n weights in float64; raise `DataError` unless all are finite and not negative."""
    given = np.asarray(list(weights) if isinstance(weights, Iterator) else weights)
    if given.dtype.kind not in "biuf":
        raise DataError(f"{where}: weights must be real numbers, but their type is {given.dtype}")
    weight = given.astype(np.float64, copy=False)
    if weight.shape != (n,):
        raise DataError(f"{where}: {n} rows but weights of shape {weight.shape}")
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(f"{where}: row {row} has weight {weight[row]}; weights must be finite and not negative")
    return weight
