"""The normalised Laplacian L_s = I - D^(-1/2) (A + I) D^(-1/2) of a graph, and its norm.

Self loops are added before normalising, as AGC does: this reproduces the published figures, and an isolated node keeps
its features.
"""

from __future__ import annotations

import os
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from kcagc._types import AnyFloatArray, FloatArray, IntArray, Sparse
from kcagc.graph.compiled import Product
from kcagc.graph.graph import Graph

try:  # a product that adds into given memory; SciPy's public product takes new memory each time
    from scipy.sparse._sparsetools import csr_matvecs
except ImportError:  # pragma: no cover - a later SciPy may name it otherwise
    csr_matvecs = None

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
