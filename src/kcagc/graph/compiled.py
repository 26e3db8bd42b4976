"""The product of a filter step compiled for narrow blocks of columns, if Numba is installed (`kcagc[fast]`).

SciPy's product spends most of its time outside the arithmetic where a block has two or four columns. This one adds the
same numbers in the same order, so the results are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

MOST_COLUMNS = 8
_WORK = 4e9  # multiplications from which on the second that compiling takes is worth it

Product = Callable[..., None]


def compiled_product(width: int, work: float) -> Product | None:
    """Return the product for blocks of so many columns; None if it is not worth compiling, or there is no Numba."""
    return _compiled(width) if width <= MOST_COLUMNS and work >= _WORK else None


@lru_cache(maxsize=MOST_COLUMNS)
def _compiled(width: int) -> Product | None:
    try:
        from numba import njit  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        return None

    def product(
        first: int, last: int, starts: Any, neighbours: Any, weights: Any, diagonal: Any, block: Any, into: Any
    ) -> None:
        """Compute the rows first to last of the matrix times a block; `width` is known when this is compiled."""
        for row in range(first, last):
            for column in range(width):
                into[row, column] = diagonal[row, 0] * block[row, column]
            for entry in range(starts[row], starts[row + 1]):
                weight, neighbour = weights[entry], neighbours[entry]
                for column in range(width):
                    into[row, column] += weight * block[neighbour, column]

    found: Product = njit(nogil=True, error_model="numpy")(product)
    return found
