"""The symmetric normalised Laplacian L_s = I - D^(-1/2) (A + I) D^(-1/2), and its norm.

Self loops are added first, as AGC does: that is what reproduces the published figures, and it makes an isolated node
harmless (its degree is 1, its row of L_s is zero, every filter leaves its features as they are).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from kcagc._types import Sparse
from kcagc.graph.graph import Graph


def normalised_adjacency(graph: Graph, *, dtype: Any = np.float64) -> Sparse:
    """Give Â = D^(-1/2) (A + I) D^(-1/2), D holding the row sums of A + I."""
    looped = sparse.csr_array(graph.adjacency.astype(np.float64) + sparse.eye_array(graph.n_nodes, format="csr"))
    scale = 1.0 / np.sqrt(looped.sum(axis=1))
    both = np.repeat(scale, np.diff(looped.indptr))
    both *= scale[looped.indices]  # one product for (i, j) and (j, i), so that the result is symmetric to the last bit
    looped.data *= both
    looped.sort_indices()
    return looped.astype(dtype, copy=False)


def normalised_laplacian(graph: Graph, *, dtype: Any = np.float64) -> Sparse:
    """Give L_s = I - Â; its eigenvalues lie in [0, 2).

    The diagonal is computed as the share of a node's weight that goes to others, because 1 - Â_ii would lose all
    digits where edges are light beside the self loop.
    """
    adjacency = normalised_adjacency(graph)
    loops = graph.adjacency.diagonal().astype(np.float64)
    outward = (graph.adjacency - sparse.diags_array(loops, format="csr")).sum(axis=1)
    diagonal = outward / (outward + loops + 1)
    laplacian = sparse.csr_array(-adjacency)
    laplacian.setdiag(diagonal)
    return laplacian.astype(dtype, copy=False)


def laplacian_norm(graph: Graph) -> float:
    """Give ‖L_s‖, its largest eigenvalue, by the Lanczos method from a fixed start.

    To 1e-10 on graphs whose largest eigenvalues are told apart in a few thousand products. On long thin ones (a path
    of 20,000 nodes), where they lie so close that this would take for ever, to about 1e-4: as good for a filter.
    """
    if graph.n_edges == 0:
        return 0.0  # L_s is zero, but for rounding
    laplacian = normalised_laplacian(graph)
    n = graph.n_nodes
    if n <= 64:  # Lanczos needs room to iterate; at this size the dense answer is exact and instant
        return float(np.linalg.eigvalsh(laplacian.toarray())[-1])
    start = np.random.default_rng(0).standard_normal(n)
    options = {"k": 1, "which": "LA", "v0": start, "ncv": min(n - 1, 40), "return_eigenvectors": False}
    try:
        largest = linalg.eigsh(laplacian, tol=1e-10, maxiter=60, **options)
    except linalg.ArpackNoConvergence:
        largest = linalg.eigsh(laplacian, tol=1e-4, **options)
    return float(largest[0])
