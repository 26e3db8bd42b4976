"""What both baselines do with their arguments before they start."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from kcagc._types import Features, Sparse
from kcagc.errors import DataError, ParameterError
from kcagc.graph.structure import Graph, as_graph


def checked_input(
    estimator: BaseEstimator, X: Any, y: Any, adjacency: Graph | Sparse | None, order: str
) -> tuple[Features, Graph | None]:
    """Validate as scikit-learn does (which also records the number of features), then against the graph.

    `order` is the name of the parameter that says how much to filter, which means nothing without a graph.
    """
    if sparse.issparse(y) or isinstance(y, Graph):
        raise ParameterError("y: is not used; a graph is given by name, as fit(X, adjacency=...)")
    if adjacency is None and getattr(estimator, order):
        warnings.warn(f"{order}={getattr(estimator, order)} has no effect without adjacency=...", stacklevel=3)
    features = validate_data(
        estimator, X, accept_sparse="csr", dtype=("float64", "float32"), ensure_min_samples=estimator.n_clusters
    )
    if sparse.issparse(features):
        features = sparse.csr_array(features)
    if adjacency is None:
        return features, None
    graph = as_graph(adjacency)
    if graph.n_nodes != features.shape[0]:
        raise DataError(f"adjacency: has {graph.n_nodes} nodes, but X has {features.shape[0]} rows")
    return features, graph


def fixed_seed(random_state: Any) -> int:
    """Draw one seed for all the clusterings of a fit, so that a choice among them compares data and not luck."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
