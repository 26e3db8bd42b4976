"""Low-pass graph filters X̄ = Q p(Λ) Qᵀ X as objects, computed by repeated sparse products only.

With L_s = QΛQᵀ and p(λ) = (1 - λ/c)^ψ, the filter Q p(Λ) Qᵀ is the ψ-th power of I - L_s/c: ψ products with one sparse
matrix, never an eigendecomposition (the paper's Protocol 1, lines 1 to 3).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kcagc._types import AnyFloatArray, Features, FloatArray, Sparse
from kcagc.graph.attributed import check_features
from kcagc.graph.graph import Graph, as_graph
from kcagc.graph.laplacian import laplacian_norm, normalised_laplacian
from kcagc.parameters import check_between, check_choice, check_count

# Columns filtered at a time. Wide enough that one random access to a node's row serves many columns, narrow enough
# that the few buffers a thread holds stay small beside the features.
BLOCK_COLUMNS = 32

BlockFilter = Callable[[AnyFloatArray], AnyFloatArray]


class Filter(ABC):
    """A non-negative, decreasing frequency response p(λ) on [0, 2] that can be applied to features on a graph."""

    @abstractmethod
    def response(self, eigenvalues: FloatArray, *, norm: float = 2.0) -> FloatArray:
        """Give p(λ); `norm` is ‖L_s‖, for filters that depend on it."""

    @abstractmethod
    def prepare(self, graph: Graph, dtype: Any) -> BlockFilter:
        """Give the function that filters one block of columns on this graph."""

    @property
    def degree(self) -> int | None:
        """How many sparse products an application takes; None where that is not known."""
        return None

    def apply(
        self,
        graph: Graph | Sparse,
        features: Features,
        *,
        dtype: Any = None,
        n_threads: int | None = None,
    ) -> AnyFloatArray:
        """Filter every column; gives a dense array of the features' shape in float32 or float64.

        Columns go through in blocks, so that beyond the result only a few blocks for each thread are held. A column's
        result does not depend on the block or thread that computed it.
        """
        graph = as_graph(graph)
        features = check_features(features, n_nodes=graph.n_nodes)
        chosen = np.dtype(features.dtype if dtype is None else dtype)
        check_choice("dtype", chosen, (np.dtype(np.float32), np.dtype(np.float64)))
        return filter_columns(self.prepare(graph, chosen), features, chosen, n_threads=n_threads)


def filter_columns(
    filter_block: BlockFilter, features: Features, dtype: Any, *, n_threads: int | None = None
) -> AnyFloatArray:
    """Send the columns of `features` through `filter_block`, a block at a time, several threads side by side.

    SciPy's sparse product runs on one core and releases the interpreter's lock, so blocks are what threads share.
    """
    columns = sparse.csc_array(features) if sparse.issparse(features) else features
    result = np.empty(features.shape, dtype=dtype)

    def work(start: int) -> None:
        stop = min(start + BLOCK_COLUMNS, features.shape[1])
        block = columns[:, start:stop]
        dense = block.toarray() if sparse.issparse(block) else block
        result[:, start:stop] = filter_block(np.ascontiguousarray(dense, dtype=dtype))

    starts = range(0, features.shape[1], BLOCK_COLUMNS)
    workers = min(n_threads or os.cpu_count() or 1, len(starts))
    if workers <= 1:
        for start in starts:
            work(start)
    else:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, starts))
    return result


class _PowerFilter(Filter):
    """p(λ) = (1 - λ/c)^ψ: ψ products with I - L_s/c."""

    psi: int

    @abstractmethod
    def _cutoff(self, graph: Graph) -> float:
        """Give c, where the response reaches zero."""

    @property
    def degree(self) -> int:
        """How many sparse products an application takes."""
        return self.psi

    def prepare(self, graph: Graph, dtype: Any) -> BlockFilter:
        if self.psi == 0:
            return lambda block: block
        step = self.step(graph, dtype)

        def filter_block(block: AnyFloatArray) -> AnyFloatArray:
            for _ in range(self.psi):
                block = step @ block
            return block

        return filter_block

    def step(self, graph: Graph, dtype: Any) -> Sparse:
        """Give the sparse matrix of one step, I - L_s/c."""
        identity = sparse.eye_array(graph.n_nodes, format="csr")
        cutoff = self._cutoff(graph)
        if cutoff == 0:  # no edges, nothing to smooth
            return identity.astype(dtype)
        return sparse.csr_array(identity - normalised_laplacian(graph) / cutoff, dtype=dtype)


@dataclass(frozen=True)
class HalfFilter(_PowerFilter):
    """p(λ) = (1 - λ/2)^ψ, AGC's filter and the paper's first: ψ steps of the mean of a node and its neighbours."""

    psi: int

    def __post_init__(self) -> None:
        check_count("psi", self.psi, least=0)

    def response(self, eigenvalues: FloatArray, *, norm: float = 2.0) -> FloatArray:
        """Give (1 - λ/2)^ψ."""
        return (1 - eigenvalues / 2) ** self.psi

    def _cutoff(self, graph: Graph) -> float:
        return 2.0


@dataclass(frozen=True)
class NormFilter(_PowerFilter):
    """p(λ) = (1 - λ/‖L_s‖)^ψ, the paper's second: zero at the graph's own highest frequency.

    A graph without edges has ‖L_s‖ = 0 and nothing to smooth; its features stay as they are. A `norm` that is given is
    used instead of the graph's own: the filter of one graph, applied to a larger one.
    """

    psi: int
    norm: float | None = None

    def __post_init__(self) -> None:
        check_count("psi", self.psi, least=0)
        if self.norm is not None:
            check_between("norm", self.norm, 0.0, 2.0)

    def fixed_on(self, graph: Graph) -> NormFilter:
        """Give the filter with this graph's norm."""
        return self if self.norm is not None else NormFilter(self.psi, min(laplacian_norm(graph), 2.0))

    def response(self, eigenvalues: FloatArray, *, norm: float = 2.0) -> FloatArray:
        """Give (1 - λ/‖L_s‖)^ψ."""
        return (1 - eigenvalues / norm) ** self.psi if norm > 0 else np.ones_like(eigenvalues)

    def _cutoff(self, graph: Graph) -> float:
        return laplacian_norm(graph) if self.norm is None else self.norm
