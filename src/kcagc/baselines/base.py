"""Input checks that both baselines share."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from kcagc._types import Features
from kcagc.data.interop import frame_ids, from_tensor, graph_of, is_frame, is_geometric, is_networkx, is_pandas
from kcagc.errors import DataError, ParameterError
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds


class PooledEstimator(ClusterMixin, BaseEstimator):
    """A scikit-learn estimator that clusters the rows of one table with the help of a graph."""

    n_clusters: int
    random_state: Any

    def _check_input(self, X: Any, y: Any, adjacency: Any, order: str) -> tuple[Features, Graph | None]:
        """Validate as scikit-learn does, which also records the number of features, then against the graph.

        `order` is the name of the parameter for the strength of the filter, which has no effect without a graph.
        """
        if sparse.issparse(y) or isinstance(y, Graph) or is_networkx(y) or is_geometric(y):
            raise ParameterError("y: not used; pass a graph by name, as fit(X, adjacency=...)")
        if adjacency is None and getattr(self, order):
            warnings.warn(f"{order}={getattr(self, order)} has no effect without adjacency=...", stacklevel=3)
        X = from_tensor(X, "X")
        features = validate_data(
            self, X, accept_sparse="csr", dtype=("float64", "float32"), ensure_min_samples=self.n_clusters
        )
        if sparse.issparse(features):
            features = sparse.csr_array(features)
        if adjacency is None:
            return features, None
        graph = graph_of(adjacency)
        if graph.n_nodes != features.shape[0]:
            raise DataError(f"adjacency: has {graph.n_nodes} nodes, but X has {features.shape[0]} rows")
        return features, _in_order_of(X, graph)

    def _seed(self) -> int:
        """Draw one seed for all clusterings of a fit, so that a choice among them does not depend on chance."""
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _in_order_of(X: Any, graph: Graph) -> Graph:
    """Return the graph with its nodes in the order of the rows of X, where both have ids."""
    ids = frame_ids(X, None, "X") if is_frame(X) else None
    known = graph.ids or NodeIds.numbered(graph.n_nodes)
    if ids is None:
        numbered = is_frame(X) and is_pandas(X) and set(known.values) == set(range(graph.n_nodes))
        if not numbered:
            return graph
        ids = NodeIds.numbered(graph.n_nodes)
    elif graph.ids is None and set(ids.values) != set(range(graph.n_nodes)):
        return graph  # the graph has no ids to match
    rows = known.positions(ids.values, where="X: index")
    return graph if np.array_equal(rows, np.arange(len(rows))) else graph.selected(rows, ids)
