"""Projection of filtered features on their top q right singular vectors (Protocol 1, line 4).

With X̄ = U S Vᵀ, a party keeps the basis V and the singular values, so that new rows can be projected later with the
very same basis. Three scalings of the projected rows:

- "U": X̄ V S⁻¹ = U, the unscaled left singular vectors, which the paper's figures need;
- "US": X̄ V = U S, the projection itself, distances as in the features;
- "unit": rows of U S at unit length ("cosine"), the most accurate on the public graphs and insensitive to q.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, svds

from kcagc._types import AnyFloatArray, FloatArray
from kcagc.cluster.threads import one_blas_thread
from kcagc.graph.smoothed import Smoothed
from kcagc.parameters import check_choice, check_count

Scaling = Literal["unit", "U", "US"]

_ROWS = 1 << 16  # rows of a float64 copy held at a time
_GRAM_LARGEST = 10_000  # sides of the smaller Gram matrix: beyond this it is never formed,
_GRAM_ALWAYS = 1_000  # up to this always, and between them where more than a fiftieth of the spectrum is wanted
_GRAM_FLOOR = 1e-4  # a Gram matrix squares the spectrum: below this share of the largest value its vectors are noise
_NOISE = 1e-12  # a projected row this much shorter than most is rounding error, not a direction (in float64)
_MANY = 4e9  # multiplications of a Gram matrix from which on threads are worth it, some tenths of a second
_SAFE = 1e100  # squares of larger numbers, and of those below its inverse, may leave the range of float64


@dataclass(frozen=True, eq=False)
class Projection:
    """The basis V (m × q), its singular values, and the length below which a row counts as zero."""

    basis: FloatArray
    singular_values: FloatArray
    noise_floor: float

    @property
    def n_components(self) -> int:
        """The number of singular vectors kept: what was asked for, or the rank where that is smaller."""
        return int(self.basis.shape[1])

    def transform(self, filtered: AnyFloatArray | Smoothed, scaling: Scaling = "unit") -> FloatArray:
        """Project rows; zero rows stay zero under every scaling."""
        check_choice("scaling", scaling, get_args(Scaling))
        projected = _times(filtered, self.basis)
        if scaling == "U":
            used = self.singular_values > 0
            return projected * np.divide(1.0, self.singular_values, out=np.zeros_like(self.singular_values), where=used)
        if scaling == "unit":
            unit = max(float(np.abs(projected).max(initial=0.0)) / _SAFE, 1.0)  # squares of larger numbers overflow
            projected /= unit
            length = np.linalg.norm(projected, axis=1)
            short = length <= self.noise_floor / unit
            projected[short], length[short] = 0.0, 1.0
            projected /= length[:, None]  # divided, not multiplied by an inverse: one column gives exactly ±1
        return projected


def fit_projection(filtered: AnyFloatArray | Smoothed, n_components: int) -> Projection:
    """Find the top `n_components` singular vectors; fewer where the rank is smaller, never fewer than one.

    Deterministic: no random start, and each vector's sign is fixed so that its largest entry is positive. What is left
    to chance is what is not determined: vectors whose singular values are equal may come out turned among themselves,
    which matters to nobody unless the cut goes through them.
    """
    check_count("n_components", n_components)
    n, m = filtered.shape
    small = isinstance(filtered, Smoothed) or n * m * min(n, m) < _MANY
    with one_blas_thread() if small else nullcontext():
        if isinstance(filtered, Smoothed):
            wanted = _by_operator(filtered, n_components)
            return _fit_written(filtered.written_out(), n_components) if wanted is None else _kept(*wanted, filtered)
        return _fit_written(filtered, n_components)


def _fit_written(filtered: AnyFloatArray, n_components: int) -> Projection:
    largest = max(float(filtered.max()), -float(filtered.min()))
    if largest == 0:
        return Projection(np.eye(filtered.shape[1], 1), np.zeros(1), 0.0)
    if not 1 / _SAFE < largest < _SAFE:
        scaled = _fit_written(filtered / largest, n_components)
        return Projection(scaled.basis, scaled.singular_values * largest, scaled.noise_floor * largest)
    wanted = min(n_components, *filtered.shape)
    side = min(filtered.shape)
    if side > _GRAM_LARGEST or (side > _GRAM_ALWAYS and wanted <= side // 50):
        basis, values = _by_lanczos(filtered, wanted)
    else:
        basis, values = _by_gram(filtered, wanted)
        if values[-1] < _GRAM_FLOOR * values[0]:
            basis, values = _by_qr(filtered, wanted)
    return _kept(basis, values, filtered)


def _kept(basis: FloatArray, values: FloatArray, filtered: AnyFloatArray | Smoothed) -> Projection:
    """Keep as many vectors as the rank allows, their signs fixed."""
    # Rounding of the features themselves looks like further rank: in float32 that is much.
    rounding = 64 * float(np.finfo(filtered.dtype).eps)
    rank = int(np.count_nonzero(values > values[0] * max(max(filtered.shape) * np.finfo(np.float64).eps, rounding)))
    basis, values = _sign_fixed(basis[:, :rank]), values[:rank]
    typical = float(np.linalg.norm(values)) / len(filtered) ** 0.5  # length of a projected row, as a root mean square
    return Projection(basis, values, max(_NOISE, rounding) * typical)


def _by_gram(filtered: AnyFloatArray, q: int) -> tuple[FloatArray, FloatArray]:
    """Diagonalise the smaller of X̄ᵀX̄ and X̄X̄ᵀ, then take the singular values from the projected rows themselves."""
    n, m = filtered.shape
    if m <= n:
        gram = np.zeros((m, m))
        for start in range(0, n, _ROWS):
            rows = filtered[start : start + _ROWS].astype(np.float64, copy=False)
            gram += rows.T @ rows
        _, basis = linalg.eigh(gram, subset_by_index=(m - q, m - 1))
        basis = basis[:, ::-1]
    else:
        rows = filtered.astype(np.float64, copy=False)
        _, left = linalg.eigh(rows @ rows.T, subset_by_index=(n - q, n - 1))
        basis, _ = np.linalg.qr(rows.T @ left[:, ::-1])
    # Rayleigh-Ritz: within the subspace found, the singular vectors and values to working accuracy.
    _, values, turn = linalg.svd(np.linalg.qr(_times(filtered, basis), mode="r"))
    return basis @ turn.T, values


def _by_qr(filtered: AnyFloatArray, q: int) -> tuple[FloatArray, FloatArray]:
    """Take the SVD of the triangular factor: twice the work of a Gram matrix, accurate for small values too."""
    rows = filtered.astype(np.float64, copy=False)
    if rows.shape[0] >= rows.shape[1]:
        _, values, right = linalg.svd(np.linalg.qr(rows, mode="r"))
        return right[:q].T, values[:q]
    turned, triangle = np.linalg.qr(rows.T)
    left, values, _ = linalg.svd(triangle, full_matrices=False)
    return turned @ left[:, :q], values[:q]


def _by_lanczos(filtered: AnyFloatArray, q: int) -> tuple[FloatArray, FloatArray]:
    rows = filtered.astype(np.float64, copy=False)
    start = np.random.default_rng(0).standard_normal(min(rows.shape))  # fixed: the same answer every time
    _, values, right = svds(rows, k=q, v0=start, return_singular_vectors="vh")
    order = np.argsort(values)[::-1]
    return right[order].T, values[order]


def _by_operator(filtered: Smoothed, q: int) -> tuple[FloatArray, FloatArray] | None:
    """Find eigenvectors of X̄ᵀX̄ without X̄; None where that would lose digits or does not come to an end."""
    m = filtered.shape[1]
    largest = float(np.abs(filtered.features.data).max(initial=0.0))
    if not 1 / _SAFE < largest < _SAFE:
        return None
    start = np.random.default_rng(0).standard_normal(m)
    operator = LinearOperator((m, m), matvec=filtered.normal, dtype=np.float64)
    try:
        squares, basis = eigsh(operator, k=q, v0=start)
    except ArpackNoConvergence:
        return None
    order = np.argsort(squares)[::-1]
    values = np.sqrt(np.maximum(squares[order], 0.0))
    return None if values[-1] < _GRAM_FLOOR * values[0] else (basis[:, order], values)


def _times(filtered: AnyFloatArray | Smoothed, basis: FloatArray) -> FloatArray:
    """Multiply in float64, a block of rows at a time, so that float32 features are not copied whole."""
    if isinstance(filtered, Smoothed):
        return filtered.times(basis)
    if filtered.dtype == np.float64:
        return np.asarray(filtered @ basis, dtype=np.float64)
    result = np.empty((filtered.shape[0], basis.shape[1]))
    for start in range(0, filtered.shape[0], _ROWS):
        result[start : start + _ROWS] = filtered[start : start + _ROWS].astype(np.float64) @ basis
    return result


def _sign_fixed(basis: FloatArray) -> FloatArray:
    """Turn each column so that its entry of largest magnitude is positive; of several, the first."""
    magnitude = np.abs(basis)
    first = (magnitude >= magnitude.max(axis=0) * (1 - 1e-8)).argmax(axis=0)
    largest = np.take_along_axis(basis, first[None, :], axis=0)
    return np.ascontiguousarray(basis * np.where(largest < 0, -1.0, 1.0))
