"""What both baselines do with their arguments before they start."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from kcagc._types import Features, Sparse
from kcagc.graph.structure import Graph, as_graph


def checked_input(
    estimator: BaseEstimator, X: Any, adjacency: Graph | Sparse | None, n_clusters: int
) -> tuple[Features, Graph | None]:
    """Validate as scikit-learn does (which also records the number of features), then against the graph."""
    features = validate_data(
        estimator, X, accept_sparse="csr", dtype=("float64", "float32"), ensure_min_samples=max(n_clusters, 1)
    )
    if sparse.issparse(features):
        features = sparse.csr_array(features)
    if adjacency is None:
        return features, None
    graph = as_graph(adjacency)
    if graph.n_nodes != features.shape[0]:
        raise ValueError(f"adjacency has {graph.n_nodes} nodes, but X has {features.shape[0]} rows")
    return features, graph


def fixed_seed(random_state: Any) -> int:
    """Draw one seed for all the clusterings of a fit, so that a choice among them compares data and not luck."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
