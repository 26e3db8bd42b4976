"""Any other low-pass filter, as a Chebyshev expansion of its response on [0, 2].

The spectrum of L_s lies in [0, 2]. With x = λ - 1 in [-1, 1] and M = L_s - I = -Â, the expansion p(λ) ≈ Σ a_j T_j(x)
becomes Σ a_j T_j(M) X by the recurrence T_{j+1} = 2 M T_j - T_{j-1}: one sparse product for each degree. Where the
expansion has an error of at most ε on [0, 2], the filtered features have an error of at most ε ‖X‖ (Frobenius or
spectral norm), because M is symmetric.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.polynomial import chebyshev

from kcagc._types import FloatArray, Sparse, check_between, check_count
from kcagc.errors import DataError
from kcagc.graph.filters import BlockFilter, Filter, StoredFilter
from kcagc.graph.graph import Graph
from kcagc.graph.laplacian import normalised_adjacency

_GRID = np.linspace(0.0, 2.0, 20_001)  # an odd number of points: both ends and the middle are among them

Response = Callable[[FloatArray], FloatArray]


class ChebyshevFilter(Filter):
    """p(λ) ≈ Σ a_j T_j(λ - 1), any response that is non-negative and does not rise on [0, 2].

    The degree is the first of 4, 8, 16, ... with a small enough error, less the terms that the tolerance does not
    need. The filter keeps the coefficients and not the function, so that it can be saved.

    Parameters
    ----------
    p : callable
        The response: takes an array of eigenvalues and returns an array of the same shape.
    tolerance : float, default=1e-10
        The largest error of the expansion, relative to the largest value of p.
    max_degree : int, default=1024
        The largest degree to try.

    Attributes
    ----------
    coefficients : ndarray of shape (degree + 1,)
        The coefficients a_j.
    degree : int
        The number of sparse products of one application.
    error : float or None
        The largest absolute error on 20,001 points of [0, 2], in float64; None for a filter made of coefficients.

    Raises
    ------
    DataError
        If p is negative, rises or is not finite on [0, 2], or needs a higher degree than `max_degree`. A step
        function needs an infinite degree: use a smooth transition instead.

    Examples
    --------
    >>> smooth = ChebyshevFilter(lambda x: np.exp(-x), tolerance=1e-3)
    >>> smooth.degree
    4
    """

    def __init__(self, p: Response, *, tolerance: float = 1e-10, max_degree: int = 1024) -> None:
        check_between("tolerance", tolerance, 1e-15, 1)
        check_count("max_degree", max_degree)
        wanted = _checked_response(p)
        allowed = tolerance * max(float(wanted.max()), np.finfo(np.float64).tiny)
        self.coefficients = _expand(p, wanted, allowed, max_degree)
        self.error: float | None = _error(self.coefficients, wanted)

    @classmethod
    def from_coefficients(cls, coefficients: Sequence[float] | FloatArray) -> Self:
        """Build a filter from the coefficients a_0, a_1, ... of its expansion."""
        values = np.array(coefficients, dtype=np.float64)
        if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
            raise DataError("filter: Chebyshev coefficients must be one or more finite numbers")
        made = cls.__new__(cls)
        made.coefficients, made.error = values, None
        return made

    @property
    def degree(self) -> int:
        """The number of sparse products of one application."""
        return len(self.coefficients) - 1

    def response(self, eigenvalues: FloatArray, *, norm: float = 2.0) -> FloatArray:
        """Return the value of the expansion."""
        return np.asarray(chebyshev.chebval(np.asarray(eigenvalues) - 1, self.coefficients), dtype=np.float64)

    def stored(self) -> StoredFilter:
        """Return the filter as plain data."""
        return StoredFilter("chebyshev", coefficients=tuple(self.coefficients.tolist()))

    def prepare(self, graph: Graph, dtype: Any) -> BlockFilter:
        """Return the function that filters one block of columns on this graph."""
        operator = self.step(graph, dtype)
        return lambda block: self.run(operator.__matmul__, block)

    def step(self, graph: Graph, dtype: Any) -> Sparse:
        """Return L_s - I."""
        return -normalised_adjacency(graph, dtype=dtype)

    @property
    def mix(self) -> tuple[float, float]:
        """The numbers a and b of the matrix a I + b Â = L_s - I."""
        return 0.0, -1.0

    def run(self, times: Callable[[Any], Any], block: Any) -> Any:
        """Compute the recurrence T_{j+1} = 2 M T_j - T_{j-1}, and add the terms."""
        coefficients = self.coefficients.tolist()  # plain numbers take the type of the block
        total = coefficients[0] * block
        if self.degree == 0:
            return total
        before, now = block, times(block)
        total += coefficients[1] * now
        for coefficient in coefficients[2:]:
            before, now = now, 2 * times(now) - before
            total += coefficient * now
        return total

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChebyshevFilter) and np.array_equal(self.coefficients, other.coefficients)

    def __hash__(self) -> int:
        return hash(self.coefficients.tobytes())

    def __repr__(self) -> str:
        # Parties compare this text to agree on a filter, so it must identify the coefficients.
        digest = hashlib.sha256(self.coefficients.astype("<f8").tobytes()).hexdigest()
        return f"ChebyshevFilter(degree={self.degree}, sha256={digest[:16]})"


def _expand(p: Response, wanted: FloatArray, allowed: float, max_degree: int) -> FloatArray:
    def at(x: Any) -> Any:
        return np.asarray(p(np.asarray(x) + 1), dtype=np.float64)

    degree = 4
    while True:
        degree = min(degree, max_degree)
        coefficients: FloatArray = chebyshev.chebinterpolate(at, degree)
        error = _error(coefficients, wanted)
        if error <= allowed:
            break
        if degree == max_degree:
            raise DataError(
                f"filter: a Chebyshev expansion of degree {degree} has an error of {error:.2g}, above the tolerance "
                f"{allowed:.2g}; use a smoother response, a larger tolerance or a larger max_degree"
            )
        degree *= 2
    # Remove the last terms that the tolerance does not need: each adds at most its coefficient to the error.
    tail = np.cumsum(np.abs(coefficients[::-1]))[::-1]
    return coefficients[: max(int(np.count_nonzero(tail > allowed - error)), 1)]


def _error(coefficients: FloatArray, wanted: FloatArray) -> float:
    return float(np.abs(chebyshev.chebval(_GRID - 1, coefficients) - wanted).max())


def _checked_response(p: Response) -> FloatArray:
    """Return the values of p on the grid; raise `DataError` where p is not a low-pass response."""
    try:
        values = np.asarray(p(_GRID), dtype=np.float64)
    except TypeError as error:
        raise DataError(f"filter: p must take an array of eigenvalues and return an array ({error})") from error
    if values.shape != _GRID.shape:
        raise DataError(f"filter: p returned shape {values.shape} for eigenvalues of shape {_GRID.shape}")
    if not np.isfinite(values).all():
        raise DataError(f"filter: p({_GRID[~np.isfinite(values)][0]:g}) is not finite")
    rounding = 1e-12 * max(float(np.abs(values).max()), 1e-300)
    if (values < -rounding).any():
        raise DataError(f"filter: p must not be negative on [0, 2], but p({_GRID[values < -rounding][0]:g}) is")
    rises = np.diff(values) > rounding
    if rises.any():
        at = int(np.flatnonzero(rises)[0])
        raise DataError(f"filter: p must not rise on [0, 2], but it rises between {_GRID[at]:g} and {_GRID[at + 1]:g}")
    return values
