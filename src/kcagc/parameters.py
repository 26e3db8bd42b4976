"""Checks of parameters, so that every message about a wrong one reads the same."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kcagc._types import FloatArray
from kcagc.errors import DataError, ParameterError


def check_count(name: str, value: Any, *, least: int = 1, optional: bool = False) -> None:
    """Refuse what is not a whole number of at least `least` (or None, where that means something)."""
    if optional and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ParameterError(f"{name}: must be a whole number, {least} or more, not {value!r}")


def check_between(name: str, value: Any, least: float, most: float) -> None:
    """Refuse what is not a real number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not least <= float(value) <= most:
        raise ParameterError(f"{name}: must be a number from {least:g} to {most:g}, not {value!r}")


def check_weights(weights: ArrayLike, n: int, where: str) -> FloatArray:
    """Give n finite weights, none negative, in float64."""
    weight = np.asarray(weights, dtype=np.float64)
    if weight.shape != (n,):
        raise DataError(f"{where}: {n} rows but weights of shape {weight.shape}")
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(f"{where}: row {row} has weight {weight[row]}; weights must be finite and not negative")
    return weight


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Refuse what is not one of `choices`."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices[:-1])
        raise ParameterError(f"{name}: must be {listed} or {choices[-1]!r}, not {value!r}")
