"""Matrices as they come from users, made safe to compute with before anything touches their entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from kcagc._types import Sparse
from kcagc.errors import DataError


def numbers(given: Sparse | ArrayLike, where: str) -> Any:
    """Give a two-dimensional array or sparse matrix of real numbers, or say why it is none."""
    if sparse.issparse(given):
        matrix: Any = given
        if hasattr(matrix, "check_format"):
            try:  # SciPy takes row and column numbers on trust, and a wrong one would be a wild memory access
                matrix.check_format(full_check=True)
            except ValueError as error:
                raise DataError(f"{where}: the sparse matrix is damaged ({error})") from error
    else:
        if isinstance(given, np.ma.MaskedArray) and np.ma.getmaskarray(given).any():
            raise DataError(f"{where}: some values are masked; fill them in or leave their rows out")
        try:
            matrix = np.asarray(given)
        except ValueError as error:
            raise DataError(f"{where}: not a matrix ({error})") from error
    if matrix.dtype.kind not in "biuf":
        raise DataError(f"{where}: values must be real numbers, but their type is {matrix.dtype}")
    if matrix.ndim != 2:
        raise DataError(f"{where}: must have two dimensions, but has {matrix.ndim}")
    return matrix


def float_type(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """Compute in float32 where that is what is given, otherwise in float64."""
    return np.float32 if dtype == np.float32 else np.float64


def canonical_csr(matrix: Any) -> Sparse:
    """Give CSR floats with sorted indices and repeated entries added up, without touching the caller's matrix.

    The arrays are shared with the caller's where they are in this form already.
    """
    # floats first: repeated entries of a small integer type would wrap around while they are added up
    result = sparse.csr_array(matrix.astype(float_type(matrix.dtype), copy=False))
    if not result.has_canonical_format:
        result = result.copy()
        result.sum_duplicates()
    return result


def entry_at(matrix: Any, place: int) -> tuple[int, int]:
    """Give the row and column of a stored entry of a CSR matrix, or of a place in a flattened dense one."""
    if sparse.issparse(matrix):
        return int(np.searchsorted(matrix.indptr, place, side="right")) - 1, int(matrix.indices[place])
    row, column = divmod(place, matrix.shape[1])
    return row, column
