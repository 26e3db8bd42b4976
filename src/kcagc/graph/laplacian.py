"""The normalised Laplacian L_s = I - D^(-1/2) (A + I) D^(-1/2) of a graph, and its norm.

Self loops are added before normalising, as AGC does: this reproduces the published figures, and an isolated node keeps
its features.

Filters multiply blocks of columns. On large graphs all threads share a block. Its width changes no result: a narrow one
stays in the cache of the processor, if others leave room there, and a wide one reads the matrix less often.
"""

from __future__ import annotations

import os
import time
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

# Columns filtered at a time: one random access to a node's row reads one or two lines of the cache.
BLOCK_COLUMNS = 16
SHARED_COLUMNS = 32  # of a block that all threads share: its wider rows read the matrix less often
_LEAST_ROW = 16  # bytes; narrower rows are not worth a pass over the matrix
MANY_PRODUCTS = 8  # with shared blocks, from which on it is worth two products to find the faster width
_CACHE_FILE = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")  # on Linux, for example "32768K"
_CACHE_BYTES = 32 << 20  # assumed where no file says it, and at most: larger ones are shared by many cores

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

    def power(self, block: AnyFloatArray, count: int, pool: Executor | None = None) -> AnyFloatArray:
        """Return the matrix to the power of `count`, times a block of columns; the block is not changed.

        With a pool, its threads share each product by rows. The result is the same.
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
                list(pool.map(partial(self._product, now, into), self._parts))
            if number:
                spare.append(now)
            now = into
        return now

    def _product(self, block: AnyFloatArray, into: AnyFloatArray, rows: slice) -> None:
        """Compute some rows of the matrix times a block."""
        rest, part = self.rest, into[rows]
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

    def shared(self, block: AnyFloatArray, width: int, pool: Executor) -> AnyFloatArray:
        """Filter a block, so many columns at a time; all threads of a pool share each product. The block may change."""
        if width >= block.shape[1]:
            return self.step.power(block, self.count, pool)
        for first in range(0, block.shape[1], width):
            part = block[:, first : first + width]
            part[:] = self.step.power(np.ascontiguousarray(part), self.count, pool)
        return block

    def faster_width(self, block: AnyFloatArray, narrow: int, pool: Executor) -> int:
        """Return the width with which each column of a block takes less time now: that of the block, or a narrow one.

        Narrow rows stay in the cache, but only if no other program or guest of the machine fills it.
        """

        def seconds(width: int) -> float:
            begin = time.perf_counter()
            part = np.ascontiguousarray(block[:, :width])
            copied = time.perf_counter()
            self.step.power(part, 1, pool)
            return (2 * (copied - begin) + self.count * (time.perf_counter() - copied)) / width

        whole = block.shape[1]
        return narrow if 0 < narrow < whole and seconds(narrow) < seconds(whole) else whole


def fits_in_cache(column_bytes: int, blocks: int) -> bool:
    """Return whether so many blocks of columns fit in half of the cache."""
    return blocks * column_bytes * BLOCK_COLUMNS <= _cache_bytes() // 2


def narrow_width(column_bytes: int, itemsize: int) -> int:
    """Return how many columns of a block fit in half of the cache; 0 if they are too few."""
    width = 1 << max(_cache_bytes() // 2 // column_bytes, 1).bit_length() - 1
    return min(width, BLOCK_COLUMNS) if width * itemsize >= _LEAST_ROW else 0


@lru_cache(maxsize=1)
def _cache_bytes() -> int:
    """Return the size of the largest cache of a core."""
    try:
        return min(int(_CACHE_FILE.read_text(encoding="ascii").strip().removesuffix("K")) << 10, _CACHE_BYTES)
    except (OSError, ValueError):
        return _CACHE_BYTES


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
