"""The search for the filter order ψ: cluster at each order of a grid, and judge the clusters by held-out edges.

The filter does not use the held-out edges (`HeldOutEdges`). With more smoothing, first more of them lie within
clusters, then fewer. The order with the highest modularity of held-out edges is chosen. The choice needs labels and the
graph only, so `choose_psi` is the same for pooled data and for parties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kcagc._types import Features, FloatArray, IntArray, check_count
from kcagc.cluster.held_out import HeldOutEdges, hold_out_edges
from kcagc.cluster.joint import Schedule, random_for, run_restarts
from kcagc.cluster.lloyd import one_blas_thread
from kcagc.cluster.local import fit_projection
from kcagc.errors import DataError, ParameterError
from kcagc.graph.filters import BlockFilter, HalfFilter
from kcagc.graph.graph import Graph
from kcagc.text import listed

# On the graphs of the study, further values (0, 12, 30, 60) lead to no better choice. Each takes bytes of a session.
PSI_GRID = (1, 2, 3, 5, 8, 20, 45)
SEARCH_PLAN = Schedule(2, 2, 8)  # for each order: no restart is dropped
_COMPONENTS = 32  # of pooled columns; 4k if that is more
_PASSES = 3  # over pooled columns, to find their components
_MORE = 8  # directions that these passes follow beyond those that are kept
_PURPOSE = 12  # of the seed
_DIGITS = 9  # of a modularity, so that all parties choose the same order


@dataclass(frozen=True)
class PsiSearch:
    """The chosen filter order, and what the choice was made from.

    Attributes
    ----------
    psi : int
        The chosen order.
    values : tuple of int
        The orders that were tried, ascending.
    modularity : tuple of float
        The modularity of the held-out edges for the clusters at each order.
    error : tuple of float
        The standard error of the difference to the highest modularity, at each order; 0 for the highest.
    reason : str
        Why the order was chosen, in words.

    Examples
    --------
    >>> PsiSearch(2, (1, 2), (0.3, 0.4), (0.01, 0.0), "why").psi
    2
    """

    psi: int
    values: tuple[int, ...]
    modularity: tuple[float, ...]
    error: tuple[float, ...]
    reason: str

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> PsiSearch:
        """Return a search from its attributes as plain data, such as JSON."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in document.items()
        }
        return cls(**values)


def search_psi(features: Features, graph: Graph, k: int, seed: int, *, values: Sequence[int] = PSI_GRID) -> PsiSearch:
    """Cluster pooled columns at each order on a graph without its held-out edges, and choose the order.

    The columns are reduced to a few components once, after one filter step. The components are filtered on from order
    to order: that takes a fraction of the time of filtering all columns.

    Parameters
    ----------
    features : ndarray or sparse matrix of shape (n_nodes, n_features)
        The pooled columns.
    graph : Graph
        The whole graph.
    k : int
        The number of clusters.
    seed : int
        The seed of the held-out edges and of the starts.
    values : sequence of int, default=PSI_GRID
        The orders to try.

    Returns
    -------
    PsiSearch

    Raises
    ------
    ParameterError
        If k is 1, or there are no orders to try.
    DataError
        If the graph has too few edges, or too few nodes for k clusters.

    Examples
    --------
    >>> from kcagc.datasets import generate
    >>> data = generate(500, 4, homophily=0.9, signal=1, seed=0)
    >>> search_psi(data.features, Graph.from_matrix(data.adjacency), 4, seed=0).psi in (3, 5, 8)
    True
    """
    check_search(k, values)
    edges = hold_out_edges(graph, seed)
    if len(edges.nodes) < k:
        raise DataError(
            f"n_clusters: {k} clusters requested, but there are {len(edges.nodes)} nodes in the search for psi"
        )
    step = HalfFilter(1).prepare(edges.graph, np.float64)
    labels, order = {}, 0
    with one_blas_thread():
        filtered = _components(features, step, max(_COMPONENTS, 4 * k), seed)
        for psi in sorted(values):
            for _ in range(psi - order):
                filtered = np.asarray(step(filtered), dtype=np.float64)
            order = psi
            rows = filtered[edges.nodes]
            rows = fit_projection(rows, k).transform(rows, "unit")
            labels[psi] = [one.labels for one in run_restarts(rows, k, seed, SEARCH_PLAN)]
    return choose_psi(edges, labels)


def check_search(k: int, values: Sequence[int] = PSI_GRID) -> None:
    """Raise an error if a search among these orders cannot choose, for k clusters."""
    for psi in values:
        check_count("psi", psi, least=0)
    if not values:
        raise ParameterError("psi: there are no orders to choose from")
    if k == 1:
        raise ParameterError("psi: one cluster is the same at every order; set psi to a number")


def _components(features: Features, step: BlockFilter, q: int, seed: int) -> FloatArray:
    """Return the columns on their top q directions after one filter step, but not filtered (n × q).

    The directions come from a few passes over the columns and are not exact. A search needs no more.
    """
    columns = features.shape[1]
    if columns <= q:
        return np.asarray(features.toarray() if sparse.issparse(features) else features, dtype=np.float64)
    found = random_for(seed, _PURPOSE).standard_normal((columns, min(q + _MORE, columns)))
    transposed = sparse.csr_array(features.T) if sparse.issparse(features) else features.T
    for _ in range(_PASSES):
        found, _ = np.linalg.qr(transposed @ step(step(features @ found)))
    right = np.linalg.svd(np.linalg.qr(step(features @ found), mode="r"))[2]
    return np.asarray(features @ (found @ right[:q].T), dtype=np.float64)


def choose_psi(edges: HeldOutEdges, labels: Mapping[int, Sequence[IntArray]]) -> PsiSearch:
    """Choose the order whose clusters have the highest modularity of held-out edges, the lowest order among equals.

    Only held-out edges count whose ends have no common neighbour, if there are enough of them.

    Parameters
    ----------
    edges : HeldOutEdges
        The held-out edges.
    labels : mapping of int to sequence of ndarray
        For each order, the clusters of `edges.nodes` in each restart. The restart with the highest modularity counts.

    Returns
    -------
    PsiSearch

    Raises
    ------
    ParameterError
        If there are no orders to choose from, or an order has no labels.
    """
    if not labels or not all(labels.values()):
        raise ParameterError("psi: there are no orders to choose from")
    values, edges = tuple(sorted(labels)), edges.without_triangles()
    found = [max(labels[psi], key=edges.modularity) for psi in values]
    modularity = tuple(round(edges.modularity(one), _DIGITS) for one in found)
    best = modularity.index(max(modularity))
    error = tuple(round(edges.error(one, found[best]), _DIGITS) for one in found)
    return PsiSearch(values[best], values, modularity, error, _reason(values, modularity, error, best))


def _reason(values: tuple[int, ...], modularity: tuple[float, ...], error: tuple[float, ...], best: int) -> str:
    """Return why an order was chosen, and which others are as good."""
    words = f"the modularity of the held-out edges is highest at ψ = {values[best]} ({modularity[best]:.3f})"
    near = [
        str(psi)
        for number, psi in enumerate(values)
        if number != best and modularity[best] - modularity[number] <= error[number]
    ]
    if near:
        words += f"; ψ = {listed(near)} {'is' if len(near) == 1 else 'are'} within one standard error of it"
    if len(values) > 1 and best == len(values) - 1:
        words += "; no larger order was tried"
    return words
