"""Any other low-pass filter, through a Chebyshev expansion of its response on [0, 2].

The spectrum of L_s lies in [0, 2], so with x = λ - 1 in [-1, 1] and M = L_s - I = -Â the expansion
p(λ) ≈ Σ a_j T_j(x) becomes Σ a_j T_j(M) X by the recurrence T_{j+1} = 2 M T_j - T_{j-1}: one sparse product a degree.
Where the expansion is off by at most ε on [0, 2], the filtered features are off by at most ε ‖X‖ (Frobenius or
spectral norm), because M is symmetric.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from kcagc._types import AnyFloatArray, FloatArray
from kcagc.errors import DataError
from kcagc.graph.filters import BlockFilter, Filter
from kcagc.graph.graph import Graph
from kcagc.graph.laplacian import normalised_adjacency
from kcagc.parameters import check_between, check_count

_GRID = 20_001  # odd, so that both ends and the middle of [0, 2] are points of it


class ChebyshevFilter(Filter):
    """A filter with an arbitrary response p, non-negative and decreasing on [0, 2].

    The degree is the smallest of 4, 8, 16, ... that brings the error below `tolerance` times the largest value of p,
    then trimmed while it stays there. `error` is the largest |p - expansion| on a grid of 20,001 points of [0, 2], as
    computed in float64; filtering in float32 adds the rounding of that. A response that no degree up to `max_degree`
    reaches is refused with the error that was reached (a step is such a response: smooth it).
    """

    def __init__(
        self, p: Callable[[FloatArray], FloatArray], *, tolerance: float = 1e-10, max_degree: int = 1024
    ) -> None:
        check_between("tolerance", tolerance, 1e-15, 1)
        check_count("max_degree", max_degree)
        self.p = p
        self.tolerance = tolerance
        self._grid = np.linspace(0.0, 2.0, _GRID)
        self._wanted = _checked_response(p, self._grid)
        self._allowed = tolerance * max(float(self._wanted.max()), np.finfo(np.float64).tiny)
        self.coefficients, self.error = self._expand(max_degree)

    @property
    def degree(self) -> int:
        """How many sparse products an application takes."""
        return len(self.coefficients) - 1

    def response(self, eigenvalues: FloatArray, *, norm: float = 2.0) -> FloatArray:
        """Give p(λ) itself, not the expansion."""
        return np.asarray(self.p(eigenvalues), dtype=np.float64)

    def prepare(self, graph: Graph, dtype: Any) -> BlockFilter:
        """Give the recurrence of the module's first lines, for one block of columns."""
        operator = -normalised_adjacency(graph, dtype=dtype)
        coefficients = self.coefficients.astype(dtype)

        def filter_block(block: AnyFloatArray) -> AnyFloatArray:
            total: AnyFloatArray = coefficients[0] * block
            if self.degree == 0:
                return total
            before, now = block, operator @ block
            total += coefficients[1] * now
            for coefficient in coefficients[2:]:
                before, now = now, 2 * (operator @ now) - before
                total += coefficient * now
            return total

        return filter_block

    def _expand(self, max_degree: int) -> tuple[FloatArray, float]:
        degree = 4
        while True:
            degree = min(degree, max_degree)
            coefficients: FloatArray = chebyshev.chebinterpolate(self._response_at, degree)
            error = self._error(coefficients)
            if error <= self._allowed:
                return self._trimmed(coefficients)
            if degree == max_degree:
                raise DataError(
                    f"filter: a Chebyshev expansion of degree {degree} is off by {error:.2g}, above the tolerance "
                    f"{self._allowed:.2g}; use a smoother response, a larger tolerance or a larger max_degree"
                )
            degree *= 2

    def _trimmed(self, coefficients: FloatArray) -> tuple[FloatArray, float]:
        """Drop the tail that the tolerance does not need; each dropped term adds at most its coefficient."""
        tail = np.cumsum(np.abs(coefficients[::-1]))[::-1]
        slack = self._allowed - self._error(coefficients)
        kept = max(int(np.count_nonzero(tail > slack)), 1)
        return coefficients[:kept], self._error(coefficients[:kept])

    def _response_at(self, x: Any) -> Any:
        return np.asarray(self.p(np.asarray(x) + 1), dtype=np.float64)

    def _error(self, coefficients: FloatArray) -> float:
        return float(np.abs(chebyshev.chebval(self._grid - 1, coefficients) - self._wanted).max())

    def __repr__(self) -> str:
        name = getattr(self.p, "__name__", "p")
        return f"ChebyshevFilter({name}, degree={self.degree}, error={self.error:.1e})"


def _checked_response(p: Callable[[FloatArray], FloatArray], grid: FloatArray) -> FloatArray:
    try:
        values = np.asarray(p(grid), dtype=np.float64)
    except TypeError as error:
        raise DataError(f"filter: p must take an array of eigenvalues and give an array ({error})") from error
    if values.shape != grid.shape:
        raise DataError(f"filter: p gave shape {values.shape} for eigenvalues of shape {grid.shape}")
    if not np.isfinite(values).all():
        raise DataError(f"filter: p({grid[~np.isfinite(values)][0]:g}) is not finite")
    rounding = 1e-12 * max(float(np.abs(values).max()), 1e-300)
    if (values < -rounding).any():
        raise DataError(f"filter: p must not be negative on [0, 2], but p({grid[values < -rounding][0]:g}) is")
    rises = np.diff(values) > rounding
    if rises.any():
        at = int(np.flatnonzero(rises)[0])
        raise DataError(f"filter: p must not rise on [0, 2], but does between {grid[at]:g} and {grid[at + 1]:g}")
    return values
