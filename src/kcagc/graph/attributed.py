"""A graph with the features of its nodes: what one party brings to a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from kcagc._types import Features, Sparse
from kcagc.errors import DataError
from kcagc.graph.structure import Graph, Symmetrise


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
        graph = (
            adjacency if isinstance(adjacency, Graph) else Graph.from_matrix(adjacency, ids=ids, symmetrise=symmetrise)
        )
        checked = check_features(features, n_nodes=graph.n_nodes)
        if feature_ids is not None:
            if graph.ids is None:
                raise DataError("features: rows have ids, but the graph has none to match them with")
            checked = checked[graph.ids.alignment(feature_ids, where="features")]
        return cls(graph, checked)


def check_features(features: Features, *, n_nodes: int | None = None, where: str = "features") -> Features:
    """Give a float CSR array or a C-contiguous float ndarray, or say what is wrong and where."""
    if sparse.issparse(features):
        _check_number_type(features.dtype, where)
        checked = sparse.csr_array(features, dtype=_float_type(features.dtype))
        values = checked.data
    else:
        array = np.asarray(features)
        _check_number_type(array.dtype, where)
        checked = values = np.ascontiguousarray(array, dtype=_float_type(array.dtype))
    if checked.ndim != 2:
        raise DataError(f"{where}: must have two dimensions (nodes, columns), but have {checked.ndim}")
    if n_nodes is not None and checked.shape[0] != n_nodes:
        raise DataError(f"{where}: {checked.shape[0]} rows, but the graph has {n_nodes} nodes")
    if checked.shape[1] == 0:
        raise DataError(f"{where}: there are no columns")
    if not np.isfinite(values).all():
        row, column = _first_not_finite(checked)
        raise DataError(f"{where}: the value in row {row}, column {column} is {checked[row, column]}")
    return checked


def _check_number_type(dtype: np.dtype[Any], where: str) -> None:
    if dtype.kind not in "biuf":
        raise DataError(f"{where}: values must be real numbers, but their type is {dtype}")


def _float_type(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    return np.float32 if dtype == np.float32 else np.float64


def _first_not_finite(features: Features) -> tuple[int, int]:
    if sparse.issparse(features):
        at = int(np.flatnonzero(~np.isfinite(features.data))[0])
        return int(np.searchsorted(features.indptr, at, side="right")) - 1, int(features.indices[at])
    row, column = np.argwhere(~np.isfinite(features))[0]
    return int(row), int(column)
