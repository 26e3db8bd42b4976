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
from kcagc.graph.structure import Graph


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
    """Give L_s = I - Â; its eigenvalues lie in [0, 2)."""
    identity = sparse.eye_array(graph.n_nodes, format="csr", dtype=dtype)
    return sparse.csr_array(identity - normalised_adjacency(graph, dtype=dtype))


def laplacian_norm(graph: Graph, *, tolerance: float = 1e-12) -> float:
    """Give ‖L_s‖, its largest eigenvalue, by the Lanczos method.

    The start vector is fixed, so that every party that holds the graph finds the same number.
    """
    if graph.n_edges == 0:
        return 0.0  # L_s is zero, but for rounding
    laplacian = normalised_laplacian(graph)
    n = graph.n_nodes
    if n <= 64:  # Lanczos needs room to iterate; at this size the dense answer is exact and instant
        return float(np.linalg.eigvalsh(laplacian.toarray())[-1])
    start = np.random.default_rng(0).standard_normal(n)
    largest = linalg.eigsh(laplacian, k=1, which="LA", v0=start, tol=tolerance, return_eigenvectors=False)
    return float(largest[0])
