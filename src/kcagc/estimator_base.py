"""What the estimator needs besides its work: checks of its parameters, warnings, callbacks, and what notebooks show."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from kcagc._types import Labels
from kcagc.cluster.sweep import Sweep
from kcagc.data.memory import GraphSource, ids_of_tables
from kcagc.data.party_files import PartyInput
from kcagc.disclosure import Policy
from kcagc.engines.choice import engines_by_party, report_progress
from kcagc.errors import DataError, ParameterError
from kcagc.graph.filters import Filter
from kcagc.graph.graph import Graph
from kcagc.protocol.effects import Progress
from kcagc.protocol.local import PartyData, PartyModel
from kcagc.protocol.parameters import NO_GRAPH
from kcagc.text import listed

Callback = Callable[[str, Progress], None]


class EstimatorBase(ClusterMixin, BaseEstimator):
    """The part of `KCAGC` that does not run a session."""

    n_clusters: int | tuple[int, int]
    accept: Iterable[str]
    callbacks: Callback | Iterable[Callback]
    id_column: str | None
    nodes: str | Iterable[Any]
    engine: Any
    labels_: Labels
    sweep_: Sweep
    models_: dict[str, PartyModel]

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Return no fitted attributes for a page of scikit-learn, such as that of a pipeline; see `ViewMixin`."""
        return {}

    def _without_graph(self) -> bool:
        """Return whether the model was fitted without a graph."""
        return next(iter(self.models_.values())).parameters.graph == NO_GRAPH

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # X is a list of tables
        tags.input_tags.sparse = tags.input_tags.string = tags.input_tags.allow_nan = True
        tags.no_validation = True
        return tags

    def _check(self) -> None:
        """Raise `ParameterError` for an invalid parameter that is not one of the run."""
        if self.id_column is not None and not isinstance(self.id_column, str):
            raise ParameterError(f"id_column: must be the name of a column, not {self.id_column!r}")
        if not isinstance(callbacks := self._callbacks(), list | tuple) or not all(map(callable, callbacks)):
            raise ParameterError(f"callbacks: must be a function or a list of functions, not {self.callbacks!r}")

    def _check_clustered(self) -> None:
        """Raise an error unless there are clusters."""
        if hasattr(self, "sweep_"):
            raise ParameterError(
                "n_clusters: is a range, so there are curves in sweep_ and no clusters; set it to one of the "
                f"recommended numbers, for example {self.sweep_.low}, and fit again"
            )
        check_is_fitted(self, "models_")

    def _warn(self) -> None:
        """Warn about empty clusters."""
        found = len(np.unique(self.labels_))
        wanted = int(self.n_clusters) if isinstance(self.n_clusters, Integral) else found
        if found < wanted:
            few = f"only {found} of {wanted} clusters have nodes"
            warnings.warn(f"{few}: too many rows are equal", stacklevel=3)

    def _policy(self) -> Policy:
        if not isinstance(self.accept, list | tuple | set | frozenset):
            raise ParameterError(f"accept: must be a list of names, not {self.accept!r}")
        return Policy(self.accept)

    def _party_data(self, inputs: dict[str, PartyInput], chosen: Filter) -> dict[str, PartyData]:
        """Return the data of each party, with the engine that does its work."""
        engines = engines_by_party(self.engine, {name: one.features.shape for name, one in inputs.items()})
        for name, one in engines.items():
            report_progress(one.engine, lambda *step, name=name: self._watch(name, Progress(*step)))
        return {
            name: PartyData.build(name, one.graph, one.features, chosen, one.columns, engines[name].engine)
            for name, one in inputs.items()
        }

    def _watch(self, role: str, progress: Progress) -> None:
        for callback in self._callbacks():
            callback(role, progress)

    def _callbacks(self) -> Iterable[Callback]:
        return (self.callbacks,) if callable(self.callbacks) else self.callbacks

    def _tables_to_predict(self, tables: dict[str, Any], *, by_name: bool) -> dict[str, Any]:
        """Return tables for the parties of the fit, in their order; those of a list are in this order already."""
        names = list(self.models_)
        if len(tables) != len(names):
            raise DataError(f"X: {len(tables)} tables, but the model was made by {len(names)} parties")
        if not by_name:
            return dict(zip(names, tables.values(), strict=True))
        unknown = [name for name in tables if name not in names]
        if unknown:
            raise DataError(f"X: {unknown[0]!r} is no party of this model; its parties are {listed(names)}")
        return {name: tables[name] for name in names}

    def _nodes_to_predict(self, tables: dict[str, Any], graphs: Sequence[GraphSource]) -> str | Iterable[Any]:
        """Return the nodes that take part in a prediction: after a fit on a list, all nodes of the graph.

        If the graph does not list its nodes, they are those of all tables.
        """
        if isinstance(self.nodes, str):
            return self.nodes
        for graph in graphs:
            if isinstance(graph, Graph):
                return range(graph.n_nodes) if graph.ids is None else graph.ids.values
        return ids_of_tables(tables, self.id_column)
