"""Low-pass graph filters: X̄ = Q p(Λ) Qᵀ X, where L_s = Q Λ Qᵀ (Protocol 1, lines 1 to 3).

With p(λ) = (1 - λ/c)^ψ the filter is the ψ-th power of I - L_s/c: ψ products with one sparse matrix, and no
eigendecomposition.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any, Literal

import msgspec
import numpy as np
from scipy import sparse

from kcagc._types import AnyFloatArray, Features, FloatArray, IntArray, Sparse, check_between, check_choice, check_count
from kcagc.errors import ParameterError
from kcagc.graph.graph import Graph, as_graph, check_features
from kcagc.graph.laplacian import (
    BLOCK_COLUMNS,
    MANY_PRODUCTS,
    SHARED_COLUMNS,
    FilterStep,
    PowerOfStep,
    fits_in_cache,
    laplacian_norm,
    narrow_width,
    normalised_laplacian,
)

# Costs in nanoseconds of one core, for the choice between a filtered table and an operator (`filter_for_projection`).
_PRODUCT = 1.0  # one entry of a sparse matrix times one vector
_WIDE_PRODUCT = 0.05  # the same in a product with a block, for each vector and each byte of a number
_CALL = 5_000.0  # one call of a product
_DENSE = 0.05  # one multiplication in a product of dense matrices
_SPECTRUM = 50  # multiplications by the dense table for each singular vector, in units of its shorter side

_ALL_ROWS = slice(None)

BlockFilter = Callable[[AnyFloatArray], AnyFloatArray]


class Filter(ABC):
    """p(λ), a frequency response that is non-negative and does not rise on [0, 2], applied as Q p(Λ) Qᵀ X.

    Base class of all filters. A subclass implements `response` and `prepare`.

    Attributes
    ----------
    degree : int or None
        The number of sparse products of one application; None where it is unknown.

    Examples
    --------
    >>> HalfFilter(1).apply(Graph.from_edges([0], [1]), [[1.0], [0.0]])
    array([[0.75],
           [0.25]])
    """

    @abstractmethod
    def response(self, eigenvalues: FloatArray, *, norm: float = 2.0) -> FloatArray:
        """Return p(λ) for each eigenvalue; `norm` is ‖L_s‖, for filters that depend on it."""

    @abstractmethod
    def prepare(self, graph: Graph, dtype: Any) -> BlockFilter:
        """Return the function that filters one block of columns on this graph."""

    @property
    def degree(self) -> int | None:
        """The number of sparse products of one application; None where it is unknown."""
        return None

    @property
    def mix(self) -> tuple[float, float] | None:
        """The numbers a and b of the matrix a I + b Â that `run` multiplies by; None for a filter of another form."""
        return None

    def run(self, times: Callable[[Any], Any], block: Any) -> Any:
        """Filter a block of columns; `times` multiplies a block by a I + b Â, on whatever device holds it."""
        raise NotImplementedError

    def step(self, graph: Graph, dtype: Any) -> Sparse | None:
        """Return the matrix that `run` multiplies by on this graph; None if features are not changed."""
        raise NotImplementedError

    def fixed_on(self, graph: Graph) -> Filter:
        """Return the filter with the same response on every graph, taken from this graph."""
        return self

    def stored(self) -> StoredFilter:
        """Return the filter as plain data."""
        return StoredFilter("custom")

    def apply(
        self,
        graph: Graph | Sparse,
        features: Features,
        *,
        dtype: Any = None,
        n_threads: int | None = None,
    ) -> AnyFloatArray:
        """Compute X̄ = Q p(Λ) Qᵀ X.

        Parameters
        ----------
        graph : Graph or sparse matrix of shape (n_nodes, n_nodes)
            The graph.
        features : array-like or sparse matrix of shape (n_nodes, n_features)
            The features X.
        dtype : {numpy.float32, numpy.float64}, default=None
            The type to compute in. None takes that of the features.
        n_threads : int, default=None
            The number of threads. None takes the number of cores. The result does not depend on it.

        Returns
        -------
        ndarray of shape (n_nodes, n_features)
            The filtered features. Beyond them, only a few blocks of columns are held in memory.
        """
        graph = as_graph(graph)
        features = check_features(features, n_nodes=graph.n_nodes)
        chosen = np.dtype(features.dtype if dtype is None else dtype)
        check_choice("dtype", chosen, (np.dtype(np.float32), np.dtype(np.float64)))
        return filter_columns(self.prepare(graph, chosen), features, chosen, n_threads=n_threads)


class StoredFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A filter as plain data, for files and journals."""

    kind: Literal["half", "norm", "chebyshev", "custom"]
    psi: int = 0
    norm: float | None = None
    coefficients: tuple[float, ...] = ()

    def restore(self, custom: Filter | None = None) -> Filter:
        """Return the filter; `custom` is used where it belongs to a class that plain data cannot describe."""
        if self.kind == "half":
            return HalfFilter(self.psi)
        if self.kind == "norm":
            return NormFilter(self.psi, self.norm)
        if self.kind == "chebyshev":
            from kcagc.graph.chebyshev import ChebyshevFilter  # noqa: PLC0415 - most runs do not need it

            return ChebyshevFilter.from_coefficients(self.coefficients)
        if custom is None:
            raise ParameterError(
                "filter: a Filter subclass cannot be stored; use HalfFilter, NormFilter or ChebyshevFilter"
            )
        return custom


@dataclass(frozen=True)
class _PowerFilter(Filter):
    """p(λ) = (1 - λ/c)^ψ: ψ products with I - L_s/c. Features are not changed if c = 0 (a graph without edges)."""

    psi: int

    def __post_init__(self) -> None:
        check_count("psi", self.psi, least=0)

    @property
    def _cutoff(self) -> float | None:
        """c, the frequency at which the response is zero; None stands for ‖L_s‖."""
        return 2.0

    @property
    def degree(self) -> int:
        """The number of sparse products of one application."""
        return self.psi

    def response(self, eigenvalues: FloatArray, *, norm: float = 2.0) -> FloatArray:
        """Return (1 - λ/c)^ψ."""
        cutoff = norm if self._cutoff is None else self._cutoff
        return (1 - eigenvalues / cutoff) ** self.psi if cutoff > 0 else np.ones_like(eigenvalues)

    def prepare(self, graph: Graph, dtype: Any) -> BlockFilter:
        cutoff = laplacian_norm(graph) if self._cutoff is None and self.psi else self._cutoff
        if self.psi == 0 or not cutoff:
            return lambda block: block
        return PowerOfStep(FilterStep(graph, cutoff, dtype), self.psi)

    def step(self, graph: Graph, dtype: Any) -> Sparse | None:
        """Return I - L_s/c, for products elsewhere; `prepare` has a form of it that needs less memory."""
        cutoff = laplacian_norm(graph) if self._cutoff is None and self.psi else self._cutoff
        if self.psi == 0 or not cutoff:
            return None
        identity = sparse.eye_array(graph.n_nodes, format="csr")
        return sparse.csr_array(identity - normalised_laplacian(graph) / cutoff, dtype=dtype)

    @property
    def mix(self) -> tuple[float, float] | None:
        """The numbers a and b of the matrix a I + b Â = I - L_s/c; None while c is not known."""
        if self._cutoff is None:
            return None
        return (1 - 1 / self._cutoff, 1 / self._cutoff) if self._cutoff else (1.0, 0.0)

    def run(self, times: Callable[[Any], Any], block: Any) -> Any:
        """Multiply ψ times."""
        for _ in range(self.psi):
            block = times(block)
        return block


class HalfFilter(_PowerFilter):
    """p(λ) = (1 - λ/2)^ψ, the filter of AGC and the first of the paper.

    Parameters
    ----------
    psi : int
        The order ψ ≥ 0. Each step averages a node with its neighbours.

    Raises
    ------
    ParameterError
        If `psi` is not an integer of at least 0.

    Examples
    --------
    >>> HalfFilter(2).response(np.array([0.0, 1.0, 2.0]))
    array([1.  , 0.25, 0.  ])
    """

    def stored(self) -> StoredFilter:
        """Return the filter as plain data."""
        return StoredFilter("half", int(self.psi))


@dataclass(frozen=True)
class NormFilter(_PowerFilter):
    """p(λ) = (1 - λ/‖L_s‖)^ψ, the second filter of the paper: zero at the highest frequency of the graph.

    A graph without edges has ‖L_s‖ = 0; its features are not changed.

    Parameters
    ----------
    psi : int
        The order ψ ≥ 0.
    norm : float, default=None
        A number to use for ‖L_s‖. None computes it from the graph that is filtered. Pass the norm of a fitted graph
        to filter a larger graph in the same way.

    Raises
    ------
    ParameterError
        If `psi` is not an integer of at least 0, or `norm` is not in [0, 2].

    Examples
    --------
    >>> NormFilter(1).apply(Graph.from_edges([0], [1]), [[1.0], [0.0]])
    array([[0.5],
           [0.5]])
    """

    norm: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm is not None:
            check_between("norm", self.norm, 0.0, 2.0)

    @property
    def _cutoff(self) -> float | None:
        return self.norm

    def fixed_on(self, graph: Graph) -> NormFilter:
        """Return the filter with the norm of this graph."""
        return self if self.norm is not None else NormFilter(self.psi, min(laplacian_norm(graph), 2.0))

    def stored(self) -> StoredFilter:
        """Return the filter as plain data."""
        return StoredFilter("norm", int(self.psi), self.norm)


@dataclass(frozen=True, repr=False)
class SearchedFilter(Filter):
    """A filter whose order ψ a search will find; before that, it can filter nothing."""

    kind: Literal["half", "norm"]

    def of(self, psi: int) -> HalfFilter | NormFilter:
        """Return the filter of this order."""
        return HalfFilter(psi) if self.kind == "half" else NormFilter(psi)

    def __repr__(self) -> str:
        return f'{"Half" if self.kind == "half" else "Norm"}Filter(psi="auto")'

    def response(self, eigenvalues: FloatArray, *, norm: float = 2.0) -> FloatArray:
        """Raise an error: the order is not known."""
        raise ParameterError("psi: its value is not known before the search; set it to a number")

    def prepare(self, graph: Graph, dtype: Any) -> BlockFilter:
        """Raise an error: the order is not known."""
        raise ParameterError("psi: its value is not known before the search; set it to a number")


def filter_columns(
    filter_block: BlockFilter,
    features: Features,
    dtype: Any,
    *,
    n_threads: int | None = None,
    rows: IntArray | slice = _ALL_ROWS,
) -> AnyFloatArray:
    """Filter the columns of `features` in blocks, several threads in parallel; return these rows.

    SciPy's sparse product runs on one core and releases the interpreter lock, so each thread takes a block. On large
    graphs the threads share one block instead.
    """
    columns = sparse.csc_array(features) if sparse.issparse(features) else features
    n_nodes, n_columns = features.shape
    n_rows = n_nodes if isinstance(rows, slice) else len(rows)
    result = _room((n_rows, n_columns), dtype, like=features)
    threads, each = n_threads or os.cpu_count() or 1, n_nodes * np.dtype(dtype).itemsize
    blocks = max(min(threads, -(-n_columns // BLOCK_COLUMNS)), 1)  # at the same time, if each thread has its own
    shared = isinstance(filter_block, PowerOfStep) and not fits_in_cache(each, blocks)
    size = SHARED_COLUMNS if shared else BLOCK_COLUMNS
    starts = range(0, n_columns, size)

    def taken(start: int, copy: bool | None = None) -> AnyFloatArray:
        block = columns[:, start : start + size]
        return np.array(block.toarray() if sparse.issparse(block) else block, dtype=dtype, order="C", copy=copy)

    def work(start: int) -> None:
        result[:, start : start + size] = filter_block(taken(start))[rows]

    with ThreadPoolExecutor(threads if shared else blocks) as pool:
        if not isinstance(filter_block, PowerOfStep) or not shared:
            list(pool.map(work, starts))
            return result
        width = 0
        for start in starts:
            block = taken(start, copy=True)
            if not width:
                narrow = narrow_width(each, block.itemsize) if filter_block.count * len(starts) >= MANY_PRODUCTS else 0
                width = filter_block.faster_width(block, narrow, pool)
            result[:, start : start + size] = filter_block.shared(block, width, pool)[rows]
    return result


def _room(shape: tuple[int, int], dtype: Any, *, like: Features) -> AnyFloatArray:
    """Return an array for filtered columns; on disk, as a temporary file, if the columns are on disk.

    A table that is memory-mapped may be larger than the memory. The file has no name, and ends with the array.
    """
    base: Any = like
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    if not isinstance(base, np.memmap) or 0 in shape:
        return np.empty(shape, dtype=dtype)
    with TemporaryFile(prefix="kcagc-") as file:
        return np.asarray(np.memmap(file, dtype=dtype, shape=shape))


@dataclass(frozen=True, eq=False)
class FilteredOperator:
    """X̄ = P X as an operator, without the filtered table itself.

    Filtering fills a sparse table. For products with a few vectors the filter can work on the vectors instead:
    X̄ v = P (X v) and X̄ᵀ u = Xᵀ (P u), because P = Q p(Λ) Qᵀ is symmetric. `dtype` is the type of the features; all
    products are computed in float64.
    """

    features: Sparse
    transposed: Sparse
    filter_block: BlockFilter
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the table."""
        n, m = self.features.shape
        return int(n), int(m)

    def times(self, vectors: FloatArray) -> FloatArray:
        """Return X̄ times one or several vectors."""
        return np.asarray(self.filter_block(self.features @ vectors), dtype=np.float64)

    def normal(self, vector: FloatArray) -> FloatArray:
        """Return X̄ᵀ X̄ times a vector."""
        return np.asarray(self.transposed @ self.filter_block(self.times(vector)), dtype=np.float64)

    def to_dense(self) -> AnyFloatArray:
        """Return the filtered table."""
        return filter_columns(self.filter_block, self.features, np.float64)


def filter_for_projection(
    chosen: Filter, graph: Graph, features: Features, n_components: int, *, n_threads: int | None = None
) -> AnyFloatArray | FilteredOperator:
    """Filter checked features, as a table or as an operator: the cheaper way to `n_components` singular vectors."""
    if sparse.issparse(features) and operator_is_cheaper(chosen, graph, features, n_components):
        table = sparse.csr_array(features, dtype=np.float64)
        filter_block = chosen.prepare(graph, np.float64)
        return FilteredOperator(table, sparse.csr_array(table.T), filter_block, np.dtype(features.dtype))
    return filter_columns(chosen.prepare(graph, features.dtype), features, features.dtype, n_threads=n_threads)


def operator_is_cheaper(chosen: Filter, graph: Graph, features: Sparse, q: int) -> bool:
    """Compare the Lanczos iterations on the operator with filtering all columns and decomposing the table."""
    n, m = features.shape
    if chosen.degree is None or not q < min(n, m) // 2:
        return False
    entries = chosen.degree * (graph.adjacency.nnz + n)
    iterations = 30 + 3 * q
    operator = iterations * 2 * (_PRODUCT * (features.nnz + entries) + _CALL * (chosen.degree + 1))
    table = _WIDE_PRODUCT * features.dtype.itemsize * m * entries + _DENSE * n * m * min(n, m, _SPECTRUM * q)
    return bool(operator < table)
