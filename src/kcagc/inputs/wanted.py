"""Which nodes a prediction is about."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kcagc._types import IntArray
from kcagc.errors import DataError, ParameterError
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds


def wanted_rows(nodes: ArrayLike | None, fitted: NodeIds | None, n_fitted: int, graph: Graph) -> IntArray:
    """Give the rows to predict: those named, or all that were not fitted.

    Where nodes have ids they are named by these, and otherwise by row number, the fitted rows being the first.
    """
    if (fitted is None) != (graph.ids is None):
        told = ("row numbers", "ids") if fitted is None else ("ids", "row numbers")
        raise DataError(f"X: the model was made with {told[0]}, and these nodes have {told[1]}")
    if fitted is None or graph.ids is None:
        return _numbered(nodes, n_fitted, graph.n_nodes)
    known = graph.ids.positions(fitted.values, where="X: nodes that were fitted are missing")
    if nodes is not None:
        return graph.ids.positions(_listed(nodes), where="nodes")
    rows = np.setdiff1d(np.arange(graph.n_nodes), known)
    if not rows.size:
        raise DataError(f"X: there is no node beside the {n_fitted} that were fitted; name nodes by nodes=...")
    return rows


def _listed(nodes: Any) -> Any:
    listed = list(nodes) if isinstance(nodes, range | set) else nodes
    return [listed] if isinstance(listed, str | int) else listed


def _numbered(nodes: ArrayLike | None, n_fitted: int, n_nodes: int) -> IntArray:
    if nodes is None:
        if n_nodes <= n_fitted:
            raise DataError(
                f"X: {n_nodes} rows, and {n_fitted} were fitted: append the new rows to them, or name rows by nodes=..."
            )
        return np.arange(n_fitted, n_nodes)
    wanted = np.atleast_1d(np.asarray(_listed(nodes)))
    sound = wanted.ndim == 1 and wanted.dtype.kind in "iu" and wanted.size > 0
    if not sound or wanted.min() < 0 or wanted.max() >= n_nodes:
        raise ParameterError(f"nodes: must be row numbers from 0 to {n_nodes - 1}")
    return wanted.astype(np.int64)
