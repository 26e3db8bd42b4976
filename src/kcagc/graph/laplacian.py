"""The normalised Laplacian L_s = I - D^(-1/2) (A + I) D^(-1/2) of a graph, and its norm.

Self loops are added before normalising, as AGC does: this reproduces the published figures, and an isolated node keeps
its features.

Filters multiply blocks of columns. On large graphs all threads share a narrow block, whose rows stay in the cache. With
Numba (`kcagc[fast]`) its product is compiled: where a block has two or four columns, SciPy's product spends most of its
time outside the arithmetic. Both add the same numbers in the same order, so the results are the same to the last bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from kcagc._types import AnyFloatArray, FloatArray, IntArray, Sparse
from kcagc.graph.graph import Graph

try:  # a product that adds into given memory; SciPy's public product takes new memory each time
    from scipy.sparse._sparsetools import csr_matvecs
except ImportError:  # pragma: no cover - a later SciPy may name it otherwise
    csr_matvecs = None

Product = Callable[..., None]  # computes some rows of a product

# Columns filtered at a time: one random access to a node's row reads one or two lines of the cache. Wider rows leave
# the cache earlier, and narrower rows read the matrix more often.
BLOCK_COLUMNS = 16
# Where the blocks of all threads do not fit in half of the largest cache, all threads work on one narrower block that
# does. Rows of fewer bytes than these are not worth a pass over the matrix.
_LEAST_ROW = 16
_CACHE_FILE = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")  # on Linux, for example "32768K"
_CACHE_BYTES = 32 << 20  # assumed where no file says it, and at most: larger ones are shared by many cores
_MOST_COMPILED = 8  # columns
_WORK = 4e9  # multiplications from which on the second that compiling takes is worth it

_ENTRIES = 1 << 18  # of a matrix that are scaled at a time: what is computed for them fits in the cache of one core


def normalised_adjacency(graph: Graph, *, dtype: Any = np.float64) -> Sparse:
    """Â = D^(-1/2) (A + I) D^(-1/2), where D holds the row sums of A + I.

    Parameters
    ----------
    graph : Graph
        The graph with adjacency matrix A.
    dtype : data-type, default=numpy.float64
        The type of the result.

    Returns
    -------
    scipy.sparse.csr_array of shape (n_nodes, n_nodes)
        A matrix that is symmetric to the last bit.

    Examples
    --------
    >>> normalised_adjacency(Graph.from_edges([0], [1])).toarray()
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    looped = sparse.csr_array(graph.adjacency.astype(np.float64) + sparse.eye_array(graph.n_nodes, format="csr"))
    scale = 1.0 / np.sqrt(looped.sum(axis=1))
    both = np.repeat(scale, np.diff(looped.indptr))
    both *= scale[looped.indices]  # the same product for (i, j) and (j, i): exactly symmetric
    looped.data *= both
    looped.sort_indices()
    return looped.astype(dtype, copy=False)


def normalised_laplacian(graph: Graph, *, dtype: Any = np.float64) -> Sparse:
    """L_s = I - Â, the symmetric normalised Laplacian; its eigenvalues lie in [0, 2).

    Parameters
    ----------
    graph : Graph
        The graph.
    dtype : data-type, default=numpy.float64
        The type of the result.

    Returns
    -------
    scipy.sparse.csr_array of shape (n_nodes, n_nodes)

    Examples
    --------
    >>> normalised_laplacian(Graph.from_edges([0], [1])).toarray()
    array([[ 0.5, -0.5],
           [-0.5,  0.5]])
    """
    # The diagonal is the share of a node's weight on edges to other nodes. Computed as 1 - Â_ii it would lose all
    # digits where these edges weigh little compared with the self loop.
    adjacency = normalised_adjacency(graph)
    loops = graph.adjacency.diagonal().astype(np.float64)
    outward = (graph.adjacency - sparse.diags_array(loops, format="csr")).sum(axis=1)
    diagonal = outward / (outward + loops + 1)
    laplacian = sparse.csr_array(-adjacency)
    laplacian.setdiag(diagonal)
    return laplacian.astype(dtype, copy=False)


class FilterStep:
    """One step of a filter, the matrix I - L_s/c, and its powers times a block of columns.

    The diagonal is kept apart: a product begins with it in memory that is used again, and adds all other entries.

    Parameters
    ----------
    graph : Graph
        The graph.
    cutoff : float
        The frequency c > 0 at which the response is zero.
    dtype : {numpy.float32, numpy.float64}
        The type to compute in.

    Examples
    --------
    >>> FilterStep(Graph.from_edges([0], [1]), 2.0, np.float64).power(np.eye(2), 1)
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """

    def __init__(self, graph: Graph, cutoff: float, dtype: Any) -> None:
        adjacency = graph.adjacency
        loops = adjacency.diagonal().astype(np.float64)
        if loops.any():
            adjacency = sparse.csr_array(adjacency - sparse.diags_array(loops, format="csr"))
        outward = np.asarray(adjacency.sum(axis=1), dtype=np.float64)
        degrees = outward + loops + 1
        self.diagonal = (1 - outward / degrees / cutoff).astype(dtype)[:, None]
        self.rest = sparse.csr_array(
            (_scaled(adjacency, 1 / np.sqrt(degrees), cutoff, dtype), adjacency.indices, adjacency.indptr),
            shape=adjacency.shape,
        )

    def power(
        self, block: AnyFloatArray, count: int, pool: Executor | None = None, compiled: Product | None = None
    ) -> AnyFloatArray:
        """Return the matrix to the power of `count`, times a block of columns; the block is not changed.

        With a pool, its threads share each product by rows, which `compiled` computes if it is given. The result is the
        same.
        """
        spare: list[AnyFloatArray] = []
        now = block
        for number in range(count):
            if csr_matvecs is None or block.ndim != 2 or block.dtype != self.rest.dtype or not block.flags.c_contiguous:
                now = (self.diagonal if block.ndim == 2 else self.diagonal[:, 0]) * now + self.rest @ now
                continue
            into = spare.pop() if number > 1 else np.empty_like(block)
            if pool is None:
                self._product(now, into, slice(0, len(now)))
            else:
                list(pool.map(partial(self._product, now, into, compiled=compiled), self._parts))
            if number:
                spare.append(now)
            now = into
        return now

    def _product(self, block: AnyFloatArray, into: AnyFloatArray, rows: slice, compiled: Product | None = None) -> None:
        """Compute some rows of the matrix times a block."""
        rest, part = self.rest, into[rows]
        if compiled is not None:
            compiled(rows.start, rows.stop, rest.indptr, rest.indices, rest.data, self.diagonal, block, into)
            return
        np.multiply(self.diagonal[rows], block[rows], out=part)
        starts = rest.indptr[rows.start : rows.stop + 1]
        csr_matvecs(len(part), len(block), block.shape[1], starts, rest.indices, rest.data, block.ravel(), part.ravel())

    @cached_property
    def _parts(self) -> list[slice]:
        """Rows with about the same number of entries, several parts for each core."""
        wanted = np.linspace(0, self.rest.nnz + len(self.diagonal), 4 * (os.cpu_count() or 1) + 1)[1:-1]
        bounds = np.searchsorted(self.rest.indptr + np.arange(len(self.rest.indptr)), wanted)
        every = [0, *np.unique(bounds[bounds > 0]).tolist(), len(self.diagonal)]
        return [slice(first, last) for first, last in pairwise(every)]


@dataclass(frozen=True, eq=False)
class PowerOfStep:
    """A filter of one block of columns: several products with the same matrix."""

    step: FilterStep
    count: int

    def __call__(self, block: AnyFloatArray) -> AnyFloatArray:
        """Filter a block."""
        return self.step.power(block, self.count)

    def apply_narrow(self, block: AnyFloatArray, width: int, pool: Executor, product: Product | None) -> None:
        """Filter a block in place, so many columns at a time; the threads of a pool share each product."""
        for first in range(0, block.shape[1], width):
            part = block[:, first : first + width]
            same = product if part.shape[1] == width else None
            part[:] = self.step.power(np.ascontiguousarray(part), self.count, pool, same)

    def work(self, columns: int) -> float:
        """Return how many multiplications filter so many columns."""
        return float(self.step.rest.nnz) * self.count * columns


def shared_width(column_bytes: int, itemsize: int, blocks: int) -> int:
    """Return how many columns of a block all threads should share; 0 if each should have blocks of its own."""
    room = _cache_bytes() // 2
    if blocks * column_bytes * BLOCK_COLUMNS <= room:
        return 0
    width = 1 << max(room // column_bytes, 1).bit_length() - 1
    return min(width, BLOCK_COLUMNS) if width * itemsize >= _LEAST_ROW else 0


@lru_cache(maxsize=1)
def _cache_bytes() -> int:
    """Return the size of the largest cache of a core."""
    try:
        return min(int(_CACHE_FILE.read_text(encoding="ascii").strip().removesuffix("K")) << 10, _CACHE_BYTES)
    except (OSError, ValueError):
        return _CACHE_BYTES


def compiled_product(width: int, work: float) -> Product | None:
    """Return the product for blocks of so many columns; None if it is not worth compiling, or there is no Numba."""
    return _compiled(width) if width <= _MOST_COMPILED and work >= _WORK else None


@lru_cache(maxsize=_MOST_COMPILED)
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


def _scaled(adjacency: Sparse, scale: FloatArray, cutoff: float, dtype: Any) -> AnyFloatArray:
    """Return the entries of D^(-1/2) A D^(-1/2) / c; an entry and the one across the diagonal are exactly the same."""
    found = np.empty(adjacency.nnz, dtype=dtype)
    starts = np.searchsorted(adjacency.indptr, np.arange(0, adjacency.nnz, _ENTRIES))
    bounds: IntArray = np.unique(np.append(starts, adjacency.shape[0]))

    def work(first: int, last: int) -> None:
        some = slice(adjacency.indptr[first], adjacency.indptr[last])
        both = np.repeat(scale[first:last], np.diff(adjacency.indptr[first : last + 1]))
        both *= scale[adjacency.indices[some]]
        both *= adjacency.data[some]
        both /= cutoff
        found[some] = both

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(work, bounds[:-1].tolist(), bounds[1:].tolist()))
    return found


def laplacian_norm(graph: Graph) -> float:
    """‖L_s‖, the largest eigenvalue, by the Lanczos method with a fixed initial vector.

    The result is exact to 1e-10 on most graphs, and to about 1e-4 on long thin graphs (a path of 20,000 nodes),
    whose largest eigenvalues almost coincide. Both are sufficient for a filter.

    Parameters
    ----------
    graph : Graph
        The graph.

    Returns
    -------
    float
        A number in [0, 2); 0 for a graph without edges.

    Examples
    --------
    >>> round(laplacian_norm(Graph.from_edges([0], [1])), 6)
    1.0
    """
    if graph.n_edges == 0:
        return 0.0
    laplacian = normalised_laplacian(graph)
    n = graph.n_nodes
    if n <= 64:  # small enough for a dense computation, and too small for Lanczos
        return float(np.linalg.eigvalsh(laplacian.toarray())[-1])
    start = np.random.default_rng(0).standard_normal(n)
    options = {"k": 1, "which": "LA", "v0": start, "ncv": min(n - 1, 40), "return_eigenvectors": False}
    try:
        largest = linalg.eigsh(laplacian, tol=1e-10, maxiter=60, **options)
    except linalg.ArpackNoConvergence:
        largest = linalg.eigsh(laplacian, tol=1e-4, **options)
    return float(largest[0])
