"""A graph with the features of its nodes: what one party brings to a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from kcagc._types import Features, Sparse
from kcagc.errors import DataError, ParameterError
from kcagc.graph.graph import Graph, Symmetrise
from kcagc.graph.matrices import canonical_csr, entry_at, float_type, numbers


@dataclass(frozen=True, eq=False)
class AttributedGraph:
    """A checked graph and checked features, row i of the features belonging to node i."""

    graph: Graph
    features: Features

    @classmethod
    def build(
        cls,
        adjacency: Graph | Sparse | ArrayLike,
        features: Features,
        *,
        ids: Iterable[Any] | None = None,
        feature_ids: Iterable[Any] | None = None,
        symmetrise: Symmetrise | None = None,
    ) -> AttributedGraph:
        """Check both, and that they fit; rows in another order are brought into the graph's by `feature_ids`."""
        if not isinstance(adjacency, Graph):
            graph = Graph.from_matrix(adjacency, ids=ids, symmetrise=symmetrise)
        elif ids is None and symmetrise is None:
            graph = adjacency
        else:
            raise ParameterError("ids, symmetrise: these are for a matrix; a Graph has been made already")
        checked = check_features(features, n_nodes=graph.n_nodes)
        if feature_ids is not None:
            if graph.ids is None:
                raise DataError("features: rows have ids, but the graph has none to match them with")
            checked = checked[graph.ids.alignment(feature_ids, where="features")]
        return cls(graph, checked)


def check_features(features: Features, *, n_nodes: int | None = None, where: str = "features") -> Features:
    """Give a float CSR array or a C-contiguous float ndarray, or say what is wrong and where.

    Dense features of the right type are not copied.
    """
    given = numbers(features, where)
    if sparse.issparse(given):
        checked = canonical_csr(given)
        values = checked.data
    else:
        checked = values = np.ascontiguousarray(given, dtype=float_type(given.dtype))
    if n_nodes is not None and checked.shape[0] != n_nodes:
        raise DataError(f"{where}: {checked.shape[0]} rows, but the graph has {n_nodes} nodes")
    if checked.shape[1] == 0:
        raise DataError(f"{where}: there are no columns")
    if not np.isfinite(values).all():
        row, column = entry_at(checked, int(np.flatnonzero(~np.isfinite(values))[0]))
        raise DataError(f"{where}: the value in row {row}, column {column} is {checked[row, column]}")
    return checked
