"""Filtered features X̄ = P X that are never written out: a sparse table, and the filter for what is asked of it.

A table of many sparse columns fills up when it is filtered. Where only products with a few vectors are wanted, the
filter can work on these instead: X̄ v = P (X v) and X̄ᵀ u = Xᵀ (P u), because P = Q p(Λ) Qᵀ is symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kcagc._types import AnyFloatArray, Features, FloatArray, Sparse
from kcagc.graph.filters import BlockFilter, Filter, filter_columns
from kcagc.graph.graph import Graph

# What things cost, in nanoseconds of one core: it decides between two ways to the same result.
_PRODUCT = 1.0  # an entry of a sparse matrix times one vector
_WIDE_PRODUCT = 0.05  # and times a block of vectors, for each vector and byte of a number
_CALL = 5_000.0  # one product, however small
_DENSE = 0.05  # one multiplication in a product of dense matrices
_SPECTRUM = 50  # directions of the dense table that cost as much as its Gram matrix, for each that is wanted


@dataclass(frozen=True, eq=False)
class Smoothed:
    """A filtered table as an operator; `dtype` is that of the features, computing is in float64."""

    features: Sparse
    transposed: Sparse
    filter_block: BlockFilter
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the table."""
        n, m = self.features.shape
        return int(n), int(m)

    def __len__(self) -> int:
        return self.shape[0]

    def times(self, vectors: FloatArray) -> FloatArray:
        """Give X̄ times a vector or a few."""
        return np.asarray(self.filter_block(self.features @ vectors), dtype=np.float64)

    def normal(self, vector: FloatArray) -> FloatArray:
        """Give X̄ᵀ X̄ times a vector."""
        return np.asarray(self.transposed @ self.filter_block(self.times(vector)), dtype=np.float64)

    def written_out(self) -> AnyFloatArray:
        """Give the table itself."""
        return filter_columns(self.filter_block, self.features, np.float64)


def smoothed(
    chosen: Filter, graph: Graph, features: Features, n_components: int, *, n_threads: int | None = None
) -> AnyFloatArray | Smoothed:
    """Filter checked features, written out or not, whichever makes `n_components` singular vectors cheaper."""
    if sparse.issparse(features) and _cheaper_unwritten(chosen, graph, features, n_components):
        table = sparse.csr_array(features, dtype=np.float64)
        filter_block = chosen.prepare(graph, np.float64)
        return Smoothed(table, sparse.csr_array(table.T), filter_block, np.dtype(features.dtype))
    return filter_columns(chosen.prepare(graph, features.dtype), features, features.dtype, n_threads=n_threads)


def _cheaper_unwritten(chosen: Filter, graph: Graph, features: Sparse, q: int) -> bool:
    """Compare the Lanczos iterations on the operator with filtering all columns and finding vectors among them."""
    n, m = features.shape
    if chosen.degree is None or not q < min(n, m) // 2:
        return False
    entries = chosen.degree * (graph.adjacency.nnz + n)
    iterations = 30 + 3 * q
    unwritten = iterations * 2 * (_PRODUCT * (features.nnz + entries) + _CALL * (chosen.degree + 1))
    written = _WIDE_PRODUCT * features.dtype.itemsize * m * entries + _DENSE * n * m * min(n, m, _SPECTRUM * q)
    return bool(unwritten < written)
