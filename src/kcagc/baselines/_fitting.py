"""What both baselines do with their arguments before they start."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from kcagc._types import Features
from kcagc.errors import DataError, ParameterError
from kcagc.foreign.frames import frame_ids, is_frame, is_pandas
from kcagc.foreign.graphs import graph_of, is_geometric, is_networkx
from kcagc.foreign.tensors import plain
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds


def checked_input(
    estimator: BaseEstimator, X: Any, y: Any, adjacency: Any, order: str
) -> tuple[Features, Graph | None]:
    """Validate as scikit-learn does (which also records the number of features), then against the graph.

    `order` is the name of the parameter that says how much to filter, which means nothing without a graph.
    """
    if sparse.issparse(y) or isinstance(y, Graph) or is_networkx(y) or is_geometric(y):
        raise ParameterError("y: is not used; a graph is given by name, as fit(X, adjacency=...)")
    if adjacency is None and getattr(estimator, order):
        warnings.warn(f"{order}={getattr(estimator, order)} has no effect without adjacency=...", stacklevel=3)
    X = plain(X, "X")
    features = validate_data(
        estimator, X, accept_sparse="csr", dtype=("float64", "float32"), ensure_min_samples=estimator.n_clusters
    )
    if sparse.issparse(features):
        features = sparse.csr_array(features)
    if adjacency is None:
        return features, None
    graph = graph_of(adjacency)
    if graph.n_nodes != features.shape[0]:
        raise DataError(f"adjacency: has {graph.n_nodes} nodes, but X has {features.shape[0]} rows")
    return features, _in_order_of(X, graph)


def _in_order_of(X: Any, graph: Graph) -> Graph:
    """Bring the nodes into the order of the rows where both have ids: labels are about rows."""
    ids = frame_ids(X, None, "X") if is_frame(X) else None
    known = graph.ids or NodeIds(np.arange(graph.n_nodes, dtype=np.int64), where="adjacency")
    if ids is None:
        numbered = is_frame(X) and is_pandas(X) and set(known.values) == set(range(graph.n_nodes))
        if not numbered:
            return graph
        ids = NodeIds(np.arange(graph.n_nodes, dtype=np.int64), where="X")
    elif graph.ids is None and set(ids.values) != set(range(graph.n_nodes)):
        return graph  # its nodes have no names that could be others than those of the rows
    rows = known.positions(ids.values, where="X: index")
    if np.array_equal(rows, np.arange(len(rows))):
        return graph
    ordered = graph.adjacency[rows][:, rows]
    ordered.sort_indices()
    return Graph(ordered, ids)


def fixed_seed(random_state: Any) -> int:
    """Draw one seed for all the clusterings of a fit, so that a choice among them compares data and not luck."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
