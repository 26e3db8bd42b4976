"""What all baselines share: parameters, checks of the input, and `fit`."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from kcagc._types import Features, check_count
from kcagc.baselines.saving import load_baseline, save_baseline
from kcagc.data.edge_lists import EdgeList
from kcagc.data.files import PathLike
from kcagc.data.interop import (
    frame_ids,
    from_tensor,
    graph_of,
    is_frame,
    is_geometric,
    is_networkx,
    is_pandas,
    table_of,
)
from kcagc.data.problems import Origin
from kcagc.data.table import Schema
from kcagc.data.weighting import Weighting, apply_weights, check_weighting, fit_weights
from kcagc.errors import DataError, ParameterError
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds
from kcagc.text import count

Progress = Callable[[int, float], None] | None


class PooledEstimator(ClusterMixin, BaseEstimator):
    """A scikit-learn estimator that clusters the rows of one table with the help of a graph."""

    n_clusters: int
    random_state: Any
    weighting: Weighting
    _order: str  # the parameter for the strength of the filter; "max_" and this name is its largest value in a search
    _searched = False  # whether this parameter may be "auto"

    def fit(self, X: Any, y: Any = None, *, adjacency: Any = None, progress: Progress = None) -> Self:
        """Cluster the rows of X, smoothed along the graph.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_nodes, n_features)
            The features. If the nodes of the graph have names, the index of a pandas frame names the rows.
        y : None
            Not used.
        adjacency : Graph, array-like, sparse matrix, list of edges, networkx or PyTorch Geometric graph, default=None
            The graph with symmetric, non-negative weights, in any form that `KCAGC.fit` takes. None clusters the
            features without a graph.
        progress : callable, default=None
            Called after each order that the method tries, with the order and its intra-cluster distance (AGC) or loss
            (GCC). S2GC and MS2CAG try one order, and pass the sum of squared distances to the centres.

        Returns
        -------
        self
            The fitted estimator.
        """
        order = getattr(self, self._order)
        limit = f"max_{self._order}"
        searches = hasattr(self, limit)  # other methods have one order, with a default
        automatic = self._searched and order == "auto"
        if not automatic:
            check_count(self._order, order, least=0, optional=searches)
        for name in ("n_clusters", *([limit] if searches else []), "n_init", "max_iter"):
            check_count(name, getattr(self, name))
        check_weighting(self.weighting)
        if sparse.issparse(y) or isinstance(y, Graph) or is_networkx(y) or is_geometric(y):
            raise ParameterError("y: not used; pass a graph by name, as fit(X, adjacency=...)")
        if adjacency is None and order and not automatic and order != getattr(type(self)(), self._order):
            warnings.warn(f"{self._order}={order} has no effect without adjacency=...", stacklevel=2)
        X = from_tensor(X, "X")
        ids = frame_ids(X, None, "X") if is_frame(X) else None
        try:
            features = validate_data(self, X, accept_sparse="csr", dtype=("float64", "float32"))
        except ValueError:
            shape, kind = getattr(X, "shape", ()), getattr(getattr(X, "dtype", None), "kind", "")
            if len(shape) == 2 and 0 not in shape and kind != "c":  # its errors name the column and what to do
                table_of(X, Schema(), Origin("X", "row" if ids is None else "node", ids=ids))
            raise
        if sparse.issparse(features):
            features = sparse.csr_array(features)
        if features.shape[0] < self.n_clusters:
            found = count(features.shape[0], "sample")
            raise ParameterError(f"n_clusters: is {self.n_clusters}, but X has only {found}; take a smaller number")
        graph = None if adjacency is None else _graph_on(X, ids, graph_of(adjacency), features.shape[0])
        if ids is None and graph is not None:
            ids = graph.ids
        self.node_ids_ = None if ids is None else ids.tolist()
        # One seed for all clusterings of a fit, so that a choice among them does not depend on chance.
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self.column_weights_ = fit_weights(features, self.weighting, _negative)
        self._fit(apply_weights(features, self.column_weights_), graph, seed, progress)
        return self

    def save(self, path: PathLike) -> None:
        """Write parameters and fitted attributes to a file that only its owner can read.

        `load` of the same class reads it. Nothing is pickled.

        Parameters
        ----------
        path : str or Path
            File to write.
        """
        check_is_fitted(self)
        save_baseline(self, path)

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read a model that `save` wrote.

        Parameters
        ----------
        path : str or Path
            File to read.

        Returns
        -------
        self
            The fitted estimator. A `random_state` that was a generator is None.
        """
        return load_baseline(cls, path)  # type: ignore[no-any-return]

    @abstractmethod
    def _fit(self, features: Features, graph: Graph | None, seed: int, progress: Progress) -> None:
        """Cluster checked features and set the attributes."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _negative(row: int, column: int, message: str) -> DataError:
    return DataError(f"X: row {row}, column {column}: {message}")


def _graph_on(X: Any, ids: NodeIds | None, given: Graph | EdgeList, n_rows: int) -> Graph:
    """Return the graph on the rows of X; the ends of a list of edges are ids of these rows, or row numbers."""
    if isinstance(given, EdgeList):
        nodes = NodeIds.numbered(n_rows) if ids is None else ids
        return given.graph(nodes, named=ids is not None)
    if given.n_nodes != n_rows:
        raise DataError(f"adjacency: has {given.n_nodes} nodes, but X has {n_rows} rows")
    return _in_order_of(X, ids, given)


def _in_order_of(X: Any, ids: NodeIds | None, graph: Graph) -> Graph:
    """Return the graph with its nodes in the order of the rows of X, where both have ids."""
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
