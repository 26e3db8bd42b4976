"""`KCAGC`: collaborative clustering with the face of a scikit-learn estimator. All parties run in this process."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from kcagc._types import Labels
from kcagc.cluster.local import Scaling
from kcagc.data.memory import check_tables, graphs_of, prepare_parties, rows_to_predict
from kcagc.data.party_files import PartyInput
from kcagc.data.table import PathLike
from kcagc.disclosure import Ledger, Policy
from kcagc.disclosure.policy import LABELLED_SUMS
from kcagc.errors import DataError, ParameterError
from kcagc.graph.filters import Filter
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds
from kcagc.persistence import load_estimator, save_estimator
from kcagc.protocol.effects import Progress
from kcagc.protocol.fit import MergeReport
from kcagc.protocol.local import PartyData
from kcagc.protocol.parameters import PARAMETERS, AggregatorKind, Seeding, VirtualNodes, draw_seeds, settings_of
from kcagc.protocol.predict import predict_parameters
from kcagc.secagg.masks import TWO_PARTY_SUM
from kcagc.simulation import simulate_fit, simulate_predict

Callback = Callable[[str, Progress], None]
Graphs = Any  # a graph, a matrix, a graph of networkx or PyTorch Geometric, or a list with one for each party


class KCAGC(ClusterMixin, BaseEstimator):
    """Cluster nodes by features that several parties hold, none of which is shown to another.

    Parameters
    - `n_clusters`: k, the clusters to find.
    - `n_local_clusters`: clusters that each party finds alone first: a number, or a multiple of k such as "2k"; None
      is "2k" for up to three parties and "k" for more.
    - `method`: "cells" (cells of local clusters, Protocol 3), "basic" (every node, Protocol 2), "tree" (cells merged
      `fan_in` at a time), or "auto": "cells" for up to three parties, "tree" for more.
    - `psi`, `filter`: the order of the graph filter, and which: "half" for (1-λ/2)^ψ, "norm" for (1-λ/‖L‖)^ψ, or a
      `Filter` of your own.
    - `n_components`: singular vectors that each party projects on; None: k.
    - `scaling` of the projected rows: "unit" length, "U" (the paper's), or "US" divided by `unit`, a length that all
      parties agree on before they look at data.
    - `virtual_nodes`: cells stand at the mean of the "cell", or of each party's "local" cluster.
    - `seeding`: "common" takes no round; "d2" draws starts by masked joint distances, k-1 rounds.
    - `aggregator`: who sums: a "coordinator" without data, which learns no labels, or the last "party" (the paper's).
    - `accept`: names of disclosures beyond the default mode that are meant; without them such a run is refused.
    - `max_iter`: Lloyd iterations; `n_init`: starts, run side by side, of which the cheapest is kept.
    - `random_state`: of everything but keys, which come from the operating system.
    - `callbacks`: called as `callback(role, progress)` with `progress.stage`, `.done` and `.total`.
    - `transformers`: what makes numbers of tables: a scikit-learn transformer, such as `kcagc.data.TablePreprocessor`
      or a `ColumnTransformer`, or a list with one (or None) for each party. Each party has its own, fitted on its rows
      alone and kept for `predict`.
    - `id_column`: the column of frames that names the nodes; None: the index of a pandas frame that is more than 0, 1,
      2, ...
    - `nodes`: "all": every table has every node; "intersection": those that the graph and all tables have; or a list of
      ids: one that a table lacks is a row of missing values there, for the party's transformer to fill in.

    After `fit`: `labels_`, of the nodes `node_ids_` (None: rows by number); `n_iter_` and `converged_` of the last
    merge; `cells_`, the rows it clustered, and how many of them are one node, `single_node_cells_`; `rounds_`, the sums
    one after the other; `secure_sums_`, the values summed for the winning start (the paper's count), and apart from it
    `further_sums_`; `bytes_sent_`, `bytes_by_role_`; `ledger_`; `merges_`; `n_features_in_`, the columns of all tables;
    by party `models_`, its share, `transformers_`, and `feature_names_`, the columns that it clustered by.
    """

    def __init__(
        self,
        *,
        n_clusters: int,
        n_local_clusters: int | str | None = PARAMETERS["n_local_clusters"].default,
        method: str = PARAMETERS["method"].default,
        psi: int = PARAMETERS["psi"].default,
        filter: str | Filter = PARAMETERS["filter"].default,  # noqa: A002 - the word the paper uses
        n_components: int | None = PARAMETERS["n_components"].default,
        scaling: Scaling = PARAMETERS["scaling"].default,
        unit: float = PARAMETERS["unit"].default,
        virtual_nodes: VirtualNodes = PARAMETERS["virtual_nodes"].default,
        seeding: Seeding = PARAMETERS["seeding"].default,
        fan_in: int = PARAMETERS["fan_in"].default,
        aggregator: AggregatorKind = PARAMETERS["aggregator"].default,
        accept: Iterable[str] = (),
        max_iter: int = PARAMETERS["max_iter"].default,
        n_init: int = PARAMETERS["n_init"].default,
        random_state: Any = None,
        callbacks: Callback | Iterable[Callback] = (),
        transformers: Any = None,
        id_column: str | None = None,
        nodes: str | Iterable[Any] = "all",
    ) -> None:
        self.n_clusters = n_clusters
        self.n_local_clusters = n_local_clusters
        self.method = method
        self.psi = psi
        self.filter = filter
        self.n_components = n_components
        self.scaling = scaling
        self.unit = unit
        self.virtual_nodes = virtual_nodes
        self.seeding = seeding
        self.fan_in = fan_in
        self.aggregator = aggregator
        self.accept = accept
        self.max_iter = max_iter
        self.n_init = n_init
        self.random_state = random_state
        self.callbacks = callbacks
        self.transformers = transformers
        self.id_column = id_column
        self.nodes = nodes

    @classmethod
    def paper(cls, *, n_clusters: int, psi: int, **changes: Any) -> Self:
        """Give the paper's configuration: U, k̂ = k, ten starts of ten iterations, a binary tree, a party that sums.

        The last party then sees what the default hides; both of its disclosures are accepted by name here.
        """
        chosen: dict[str, Any] = {
            "n_local_clusters": "k",
            "scaling": "U",
            "fan_in": 2,
            "aggregator": "party",
            "accept": (TWO_PARTY_SUM, LABELLED_SUMS),
            "max_iter": 10,
        }
        return cls(n_clusters=n_clusters, psi=psi, **(chosen | changes))

    def fit(self, X: Sequence[Any], y: Any = None, *, adjacency: Graphs | None = None) -> Self:
        """Cluster: `X` has one table for each party; `adjacency` is the graph they share, or a list with one for each.

        A table is an array, a SciPy sparse matrix, a frame of pandas or polars, a tensor, the `Data` of PyTorch
        Geometric, or an `AttributedGraph`; a graph is a matrix, a `Graph`, one of networkx, or such `Data`. Rows are
        brought into the graph's order by their ids wherever there are ids; ids that do not agree are an error. `y` is
        ignored.
        """
        check_tables(X, y, adjacency)
        graphs, shared = graphs_of(adjacency, len(X))
        policy = self._policy()
        self._check()
        settings, filter_ = settings_of(self, "shared" if shared else "own")
        parameters = settings.resolve(len(X), filter_)
        names = [f"party-{number}" for number in range(1, len(X) + 1)]
        inputs = prepare_parties(
            names,
            graphs,
            X,
            id_column=self.id_column,
            nodes=self.nodes,
            transformers=self.transformers,
        )
        data = _party_data(inputs, filter_)
        graph = data[names[0]].graph
        if parameters.n_clusters > graph.n_nodes:
            raise DataError(f"n_clusters: {parameters.n_clusters} clusters asked of {graph.n_nodes} nodes")
        # One seed for all parties, so that the order in which they are listed changes nothing.
        seed, aggregator_seed = draw_seeds(self.random_state)
        ledger = Ledger()
        results = simulate_fit(
            parameters,
            data,
            policy=policy,
            seeds=dict.fromkeys(names, seed),
            aggregator_seed=aggregator_seed,
            ledger=ledger,
            watcher=self._watch,
        )
        self.ledger_, self.filter_ = ledger, filter_
        first = results[names[0]]
        self.labels_: Labels = first.labels.astype(np.intp)
        self.models_ = {name: result.model for name, result in results.items()}
        self.merges_ = _every_merge(result.merges for result in results.values())
        last = self.merges_[-1]
        self.n_iter_, self.converged_ = last.n_iter, last.converged
        self.cells_, self.single_node_cells_ = last.n_rows, last.n_single
        depth = range(1, last.layer + 1)
        self.rounds_ = sum(max(one.rounds for one in self.merges_ if one.layer == layer) for layer in depth)
        self.secure_sums_ = sum(one.sums.winning for one in self.merges_)
        self.further_sums_ = {
            "other starts": sum(one.sums.other_restarts for one in self.merges_),
            "seeding": sum(one.sums.seeding for one in self.merges_),
            "inertia": sum(one.sums.inertia for one in self.merges_),
        }
        self.bytes_sent_ = self.ledger_.bytes_sent()
        self.bytes_by_role_ = {role: self.ledger_.bytes_sent(role) for role in _senders(self.ledger_)}
        self.n_features_in_ = sum(one.n_columns for one in inputs.values())
        self.transformers_ = {name: one.preprocessing for name, one in inputs.items()}
        self.feature_names_ = {name: one.columns for name, one in inputs.items()}
        self.node_ids_ = None if graph.ids is None else graph.ids.values
        self._warn()
        return self

    def predict(self, X: Sequence[Any], *, adjacency: Graphs | None = None, nodes: ArrayLike | None = None) -> Labels:
        """Give the nearest cluster of new nodes: `X` and `adjacency` as in `fit`, with rows for the new nodes appended.

        `nodes` are those to place, by default all that were not fitted, in the order of the graph: by their ids where
        nodes have ids, and otherwise by row number, the training rows being the first. It is a session of its own, with
        new keys; its record is kept in `prediction_ledger_`, and the number of values summed in `prediction_sums_`.

        Training nodes keep `labels_`. Asked for by number they get the nearest centre instead, which after the
        optimized method is another cluster for some per cent of them, because cells move as a whole.
        """
        check_is_fitted(self, "models_")
        check_tables(X, None, adjacency)
        names = list(self.models_)
        if len(X) != len(names):
            raise DataError(f"X: {len(X)} tables, but the model was made by {len(names)} parties")
        graphs, shared = graphs_of(adjacency, len(X))
        model = self.models_[names[0]]
        if shared != (model.parameters.graph == "shared"):
            raise ParameterError("adjacency: must be one graph, or one for each party, as it was for fit")
        inputs = prepare_parties(
            names,
            graphs,
            X,
            id_column=self.id_column,
            nodes=self._nodes_to_predict(graphs[0]),
            fitted=self.transformers_,
        )
        fitted = None if self.node_ids_ is None else NodeIds(self.node_ids_, where="model")
        data = _party_data(inputs, self.filter_)
        wanted = rows_to_predict(data[names[0]].graph, fitted, model.n_nodes, nodes)
        self.prediction_ledger_ = Ledger()
        results = simulate_predict(
            predict_parameters(model),
            data,
            self.models_,
            wanted,
            policy=self._policy(),
            ledger=self.prediction_ledger_,
            watcher=self._watch,
        )
        self.prediction_sums_ = results[names[0]].sums
        return results[names[0]].labels.astype(np.intp)

    def save(self, path: PathLike) -> None:
        """Write the fitted model to a file, for its owner only: it holds every party's share, as plain data.

        `KCAGC.load` reads it, and predicts the same. Callbacks are not kept; a transformer other than
        `TablePreprocessor` and a filter made of a function cannot be.
        """
        check_is_fitted(self, "models_")
        save_estimator(self, path)

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read a model that `save` wrote."""
        return load_estimator(cls, path)

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
        callbacks = self._callbacks()
        if not isinstance(callbacks, list | tuple) or not all(map(callable, callbacks)):
            raise ParameterError(f"callbacks: must be a function or a list of functions, not {self.callbacks!r}")

    def _warn(self) -> None:
        """Say what a user would want to know although the run went through."""
        found = len(np.unique(self.labels_))
        if found < self.n_clusters:
            told = f"only {found} of {self.n_clusters} clusters have nodes: too many rows coincide"
            warnings.warn(told, stacklevel=3)
        told_whole = sorted({entry.sender for entry in self.ledger_.of("encrypted/labels.whole")})
        if told_whole:
            warnings.warn(
                f"{', '.join(told_whole)}: the table has no more distinct rows than local clusters, so the cluster "
                "numbers that other parties see are the table itself, up to names; ask for fewer local clusters",
                stacklevel=3,
            )

    def _policy(self) -> Policy:
        if not isinstance(self.accept, list | tuple | set | frozenset):
            raise ParameterError(f"accept: must be a list of names, not {self.accept!r}")
        return Policy(self.accept)

    def _watch(self, role: str, progress: Progress) -> None:
        for callback in self._callbacks():
            callback(role, progress)

    def _callbacks(self) -> Iterable[Callback]:
        return (self.callbacks,) if callable(self.callbacks) else self.callbacks

    def _nodes_to_predict(self, graph: Graph) -> str | Iterable[Any]:
        """Give which nodes take part in a prediction: after a fit on a list, all of the graph."""
        if isinstance(self.nodes, str):
            return self.nodes
        return range(graph.n_nodes) if graph.ids is None else graph.ids.values


def _party_data(inputs: dict[str, PartyInput], chosen: Filter) -> dict[str, PartyData]:
    return {name: PartyData.build(name, one.graph, one.features, chosen) for name, one in inputs.items()}


def _every_merge(found: Iterable[list[MergeReport]]) -> list[MergeReport]:
    """Give each merge once, from the leaves to the root."""
    by_name = {merge.group: merge for merges in found for merge in merges}
    return sorted(by_name.values(), key=lambda merge: (merge.layer, len(merge.group), merge.group))


def _senders(ledger: Ledger) -> list[str]:
    return list(dict.fromkeys(entry.sender for entry in ledger.of("message/")))
