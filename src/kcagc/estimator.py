"""`KCAGC`: collaborative clustering as a scikit-learn estimator, with all parties in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kcagc._types import Labels
from kcagc.cluster.local import Scaling
from kcagc.data.files import PathLike
from kcagc.data.interop import library_of
from kcagc.data.memory import graphs_of, named_tables, prepare_parties, rows_to_predict
from kcagc.data.weighting import Weighting
from kcagc.disclosure import Ledger
from kcagc.disclosure.texts import LABELLED_SUMS, REVEALING_LABELS
from kcagc.errors import DataError, ParameterError
from kcagc.estimator_base import Callback, EstimatorBase
from kcagc.estimator_results import ResultsMixin
from kcagc.estimator_view import ViewMixin
from kcagc.graph.filters import Filter, SearchedFilter
from kcagc.graph.ids import NodeIds
from kcagc.persistence import load_estimator, save_estimator
from kcagc.protocol.fit_result import FitResult, SweepResult, every_merge
from kcagc.protocol.parameters import PARAMETERS, AggregatorKind, JointForm, VirtualNodes, draw_seed, settings_of
from kcagc.protocol.predict import predict_parameters
from kcagc.secagg.masks import TWO_PARTY_SUM
from kcagc.simulation import COORDINATOR, simulate_fit, simulate_predict

Graphs = Any  # a graph, a matrix, a list of edges, a graph of networkx or PyTorch Geometric, or one for each party
Tables = Mapping[str, Any] | Sequence[Any]


class KCAGC(ResultsMixin, ViewMixin, EstimatorBase):
    """Cluster the nodes of a graph by features that several parties hold.

    All parties run in this process, with the same protocol, masks and disclosure ledger as on separate machines. No
    party or coordinator uses the features of another party.

    Parameters
    ----------
    n_clusters : int or tuple, default=8
        Number of clusters k to find, or a range such as (2, 20): then the session compares all numbers of the range and
        finds no clusters of its own. The default is that of scikit-learn's `KMeans` and of `AGC`; it knows nothing
        about your data. A range is never the default, because a comparison discloses more than one clustering.
    n_local_clusters : int, str or None, default=None
        Number of local clusters of each party: a number, or a multiple of k such as "2k". None means "2k" for up to
        3 parties and "k" for more. The methods "basic" and "joint" have none.
    min_local_size : int, default=5
        Least number of nodes of a local cluster. Each party joins smaller ones with the nearest, before it sends its
        local labels. With the method "joint", no centre of a smaller cluster is disclosed.
    method : {"auto", "joint", "cells", "basic", "tree"}, default="auto"
        "joint" clusters the rows of all parties in their joint subspace, as on pooled data, "cells" clusters the cells
        of all parties (Protocol 3), "tree" merges the cells of a few parties at a time, "basic" clusters every node
        (Protocol 2, many more secure sums). "auto" takes "joint" with a coordinator, unless `n_local_clusters`,
        `scaling`, `unit`, `virtual_nodes` or `fan_in` is set; otherwise "cells" for up to 3 parties, "tree" for more.
    joint_rows : {"shares", "coordinator"}, default="shares"
        Who sees the rows of the joint subspace, for the method "joint". "shares": no role, because two parties hold
        shares of them; "coordinator": the coordinator sees them without names, which is faster.
    psi : int or str, default="auto"
        Order of the graph filter: how many times each node is averaged with its neighbours. With "auto", the method
        "joint" clusters with several values and takes the one whose clusters predict held-out edges best; other
        methods take 5.
    filter : {"half", "norm"} or Filter, default="half"
        Graph filter (smoothing) with ψ steps: "half" is (1 - λ/2)^ψ, "norm" is (1 - λ/‖L‖)^ψ, where λ are the
        eigenvalues of the graph Laplacian L. A `Filter` replaces both `filter` and `psi`.
    n_components : int or None, default=None
        Number of singular vectors that each party projects its columns on. None means 4k, at least 64, for the
        method "joint" and k for the others.
    scaling : {"unit", "U", "US"}, default="unit"
        Scaling of the projected rows: "unit" scales each row to length 1, "U" takes the left singular vectors as in
        the paper, "US" multiplies them by the singular values and divides them by `unit`. The method "joint" always
        scales joint rows to length 1.
    unit : float, default=1.0
        Length that rows are divided by if scaling is "US". Agree on it before you look at data.
    virtual_nodes : {"cell", "local"}, default="cell"
        How each party represents a cell: "cell" takes the mean of the nodes in the cell, "local" the mean of the
        party's own local cluster.
    fan_in : int, default=4
        Number of groups that one merge joins, for the method "tree".
    aggregator : {"coordinator", "party"}, default="coordinator"
        Role that adds the masked vectors. "coordinator": a role without data, which does not learn the labels; "party":
        the last party in the list, as in the paper. The last party learns more than a coordinator.
    accept : iterable of str, default=()
        Names of risks that you accept, see `kcagc.disclosure.RISKS`. A run with another risk is refused.
    max_iter : int, default=30
        Maximum number of Lloyd iterations. Honest runs need 10 as a rule, and rarely more than 25.
    n_init : int, default=10
        Number of k-means restarts. They run at the same time, and the one with the lowest cost is kept. The method
        "joint" has a number of its own.
    random_state : int, RandomState instance or None, default=None
        Seed of all random choices except keys, which always come from the operating system.
    callbacks : callable or iterable of callable, default=()
        Functions that are called as ``callback(role, progress)`` with `progress.stage`, `.done` and `.total`.
    transformers : transformer, list, dict or None, default=None
        Scikit-learn transformer that turns a table into numbers, for example `kcagc.data.TablePreprocessor`, or a list
        or dictionary with one transformer or None for each party. Each party has its own copy, fitted on its own rows.
    weighting : {"auto", "idf", "none"}, default="auto"
        Weighting of columns by their inverse document frequency, see `kcagc.data.ColumnRule`: "auto" weights columns of
        0 and 1, and counts that are mostly 0. A rule of a `TablePreprocessor` other than "auto" precedes it.
    id_column : str or None, default=None
        Column of pandas or polars frames that holds the node ids. None takes the index of a pandas frame unless it is
        0, 1, 2, ...
    nodes : {"all", "intersection"} or list of ids, default="all"
        Nodes that take part. "all": every table has every node. "intersection": the nodes that all tables have, and
        the graph too if it lists its nodes. A list of ids: a node that a table lacks becomes a row of missing values
        there.
    engine : str, Engine or dict, default="auto"
        Where a party's own work runs, for all parties or by party: "local", "dask", "gpu", "auto", which takes a GPU if
        there is one and the table is large, or an engine such as `kcagc.engines.dask.DaskEngine(workers=2)`.

    Attributes
    ----------
    labels_ : ndarray of shape (n_nodes,)
        Cluster of every node.
    method_, method_reason_ : str
        Method of the fit, and why it was taken.
    psi_ : int or None
        Order ψ of the filter; 0 without a graph, None for a `Filter` of your own.
    psi_search_ : PsiSearch or None
        Curve behind `psi_`, if the parties searched for it.
    sweep_ : Sweep
        Curves and recommended range, if `n_clusters` is a range. Then there are no labels: choose a number, and fit
        again.
    node_ids_ : list or None
        Node ids in the order of `labels_`; None if nodes are row numbers.
    cost_ : float
        Mean squared distance of the nodes to their cluster centres, summed over the parties.
    modularity_ : float or None
        Share of the edges within clusters, less the share expected by chance; None unless all parties share a graph.
    insights_ : mapping of str to Insights
        By party, what its own columns and its graph say about each cluster and node (`.clusters`, `.nodes`); computed
        when it is asked for. A model that was loaded has none, because the tables are not saved.
    n_iter_ : int
        Lloyd iterations of the last merge; 1 if the coordinator clusters rows without names.
    converged_ : bool
        Whether the last merge converged.
    cells_ : int
        Number of rows that the last merge clustered: cells, or nodes for the methods "basic" and "joint" ("joint"
        takes a sample of a large graph).
    single_node_cells_ : int
        Number of these rows that are only one node.
    rounds_ : int
        Number of secure sums that had to follow one another.
    secure_sums_ : int
        Number of comparisons for the restart that was kept.
    further_sums_ : dict of str to int
        Number of comparisons for other restarts, of costs, to check the answers of the aggregator, and to search for ψ.
    bytes_sent_ : int
        Size of all messages.
    bytes_by_role_ : dict of str to int
        Size of the messages of each role.
    ledger_ : Ledger
        Disclosures of the fit.
    merges_ : list of MergeReport
        Figures of each merge, from the leaves of the tree to its root.
    n_features_in_ : int
        Number of columns of all tables.
    feature_names_ : dict of str to list of str
        By party, the columns that it clustered.
    models_ : dict of str to PartyModel
        By party, its private share of the model.
    transformers_ : dict
        By party, the fitted transformer or None.
    column_weights_ : dict of str to ndarray
        By party, what each column was multiplied by; 1 for a column that is not weighted.
    filter_ : Filter
        Graph filter.
    prediction_ledger_ : Ledger
        Disclosures of the last prediction.
    prediction_sums_ : int
        Number of comparisons in the last prediction.

    Examples
    --------
    >>> from kcagc import KCAGC
    >>> from kcagc.datasets import load
    >>> data = load("demo")
    >>> bank, telecom, shop = data.parties()
    >>> tables = {"bank": bank, "telecom": telecom, "shop": shop}
    >>> model = KCAGC(n_clusters=5, psi=2, random_state=0).fit(tables, adjacency=data.adjacency)
    >>> model.labels_.shape
    (600,)

    Cluster without a graph, by the columns alone:

    >>> KCAGC(n_clusters=5, random_state=0).fit(tables).psi_
    0
    """

    def __init__(
        self,
        *,
        n_clusters: int | tuple[int, int] = 8,
        n_local_clusters: int | str | None = PARAMETERS["n_local_clusters"].default,
        min_local_size: int = PARAMETERS["min_local_size"].default,
        method: str = PARAMETERS["method"].default,
        joint_rows: JointForm = PARAMETERS["joint_rows"].default,
        psi: int | str = PARAMETERS["psi"].default,
        filter: str | Filter = PARAMETERS["filter"].default,  # noqa: A002 - the word the paper uses
        n_components: int | None = PARAMETERS["n_components"].default,
        scaling: Scaling = PARAMETERS["scaling"].default,
        unit: float = PARAMETERS["unit"].default,
        virtual_nodes: VirtualNodes = PARAMETERS["virtual_nodes"].default,
        fan_in: int = PARAMETERS["fan_in"].default,
        aggregator: AggregatorKind = PARAMETERS["aggregator"].default,
        accept: Iterable[str] = (),
        max_iter: int = PARAMETERS["max_iter"].default,
        n_init: int = PARAMETERS["n_init"].default,
        random_state: Any = None,
        callbacks: Callback | Iterable[Callback] = (),
        transformers: Any = None,
        weighting: Weighting = "auto",
        id_column: str | None = None,
        nodes: str | Iterable[Any] = "all",
        engine: Any = "auto",
    ) -> None:
        self.n_clusters = n_clusters
        self.n_local_clusters = n_local_clusters
        self.min_local_size = min_local_size
        self.method = method
        self.joint_rows = joint_rows
        self.psi = psi
        self.filter = filter
        self.n_components = n_components
        self.scaling = scaling
        self.unit = unit
        self.virtual_nodes = virtual_nodes
        self.fan_in = fan_in
        self.aggregator = aggregator
        self.accept = accept
        self.max_iter = max_iter
        self.n_init = n_init
        self.random_state = random_state
        self.callbacks = callbacks
        self.transformers = transformers
        self.weighting = weighting
        self.id_column = id_column
        self.nodes = nodes
        self.engine = engine

    @classmethod
    def paper(cls, *, n_clusters: int, psi: int, **changes: Any) -> Self:
        """Return an estimator with the paper's configuration.

        It uses columns without weights, the left singular vectors, k̂ = k, ten restarts of at most ten iterations, a
        binary tree, and the last party as aggregator, which learns more than a coordinator does. Both risks of that are
        accepted, and so are local labels that reveal a column, and local clusters of any size.

        Parameters
        ----------
        n_clusters : int
            Number of clusters k.
        psi : int
            Order of the graph filter.
        **changes
            Parameters that differ from the paper's.

        Returns
        -------
        KCAGC
        """
        chosen: dict[str, Any] = {
            "n_local_clusters": "k",
            "scaling": "U",
            "fan_in": 2,
            "aggregator": "party",
            "accept": (TWO_PARTY_SUM, LABELLED_SUMS, REVEALING_LABELS),
            "min_local_size": 1,
            "max_iter": 10,
            "weighting": "none",
        }
        return cls(n_clusters=n_clusters, psi=psi, **(chosen | changes))

    def fit(self, X: Tables, y: Any = None, *, adjacency: Graphs | None = None) -> Self:
        """Cluster the nodes.

        Parameters
        ----------
        X : dict or list
            The table of each party by its name, or a list of tables, whose parties are then called party-1, party-2,
            ... A table is an array, a SciPy sparse matrix, a pandas or polars frame, a tensor, the `Data` of PyTorch
            Geometric, or an `AttributedGraph`. If tables have ids, rows are aligned by id.
        y : None
            Ignored.
        adjacency : graph, list of edges, dict or list of graphs, default=None
            The graph that all parties share. It is a square matrix of weights, a `Graph`, a graph of networkx, the
            `Data` of PyTorch Geometric, or a list of edges: an array of shape (m, 2) or (2, m), a list of pairs, or a
            frame with the columns source and target and, if edges have weights, weight (any other frame of two columns
            is a list of edges as well). The ends of edges are ids of the tables or, if these have none, row numbers. A
            square array is always a matrix. A dictionary by name, or a list of graphs, has a graph for each party. None
            clusters by the columns alone: then psi is 0.

        Returns
        -------
        KCAGC
            The fitted estimator.

        Raises
        ------
        DataError, ParameterError
            If data or parameters cannot be used.
        PolicyError
            If the run has a risk that `accept` does not name, for example if local labels would reveal a column.
        """
        tables = named_tables(X, y)
        names = list(tables)
        if COORDINATOR in names:
            raise DataError(f"X: a party cannot have the name {COORDINATOR!r}, which is that of the role without data")
        graphs, sharing = graphs_of(adjacency, tables)
        policy = self._policy()
        self._check()
        settings, filter_ = settings_of(self, sharing)
        parameters = settings.resolve(len(names), filter_)
        how = {name: getattr(self, name) for name in ("id_column", "nodes", "transformers", "weighting")}
        inputs = prepare_parties(tables, graphs, **how)
        seed = draw_seed(self.random_state)  # of all parties, so their order does not change the labels
        ledger = Ledger()
        results = simulate_fit(
            parameters,
            self._party_data(inputs, filter_),
            policy=policy,
            seeds=dict.fromkeys(names, seed),
            ledger=ledger,
            watcher=self._watch,
        )
        for name in [name for name in vars(self) if name.endswith("_")]:  # of an earlier fit
            delattr(self, name)
        self.method_, self.method_reason_ = settings.choose_method(len(names))
        self.ledger_ = ledger
        self.bytes_sent_ = ledger.bytes_sent()
        senders = dict.fromkeys(entry.sender for entry in ledger.of("message/"))
        self.bytes_by_role_ = {role: ledger.bytes_sent(role) for role in senders}
        self.n_features_in_ = sum(one.n_columns for one in inputs.values())
        self.transformers_ = {name: one.preprocessing for name, one in inputs.items()}
        self.column_weights_ = {name: one.weights for name, one in inputs.items()}
        self.feature_names_ = {name: one.columns for name, one in inputs.items()}
        self._frames = next((kind for kind in map(library_of, tables.values()) if kind), "")
        self.node_ids_ = getattr(inputs[names[0]].graph.ids, "values", None)
        first = results[names[0]]
        self.psi_search_ = first.psi_search
        if isinstance(filter_, SearchedFilter) and self.psi_search_ is not None:
            filter_ = filter_.of(self.psi_search_.psi)
        self.filter_, self.psi_ = filter_, getattr(filter_, "psi", None)
        if isinstance(first, SweepResult):
            self.sweep_ = first.sweep
            return self
        fitted = {name: result for name, result in results.items() if isinstance(result, FitResult)}
        self.labels_ = first.labels.astype(np.intp)
        self.cost_ = first.cost
        self.models_ = {name: result.model for name, result in fitted.items()}
        self._keep_insights(inputs, fitted, sharing)
        self.merges_ = every_merge(fitted.values())
        last = self.merges_[-1]
        self.n_iter_, self.converged_ = last.n_iter, last.converged
        self.cells_, self.single_node_cells_ = last.n_rows, last.n_single
        depth = range(1, last.layer + 1)
        self.rounds_ = sum(max(one.rounds for one in self.merges_ if one.layer == layer) for layer in depth)
        self.secure_sums_ = sum(one.sums.winning for one in self.merges_)
        further = ("other_restarts", "costs", "checks", "search")
        totals = {name: sum(getattr(one.sums, name) for one in self.merges_) for name in further}
        self.further_sums_ = {name.replace("_", " "): total for name, total in totals.items()}
        self._warn()
        return self

    def predict(self, X: Tables, *, adjacency: Graphs | None = None, nodes: ArrayLike | None = None) -> Labels:
        """Return the nearest cluster of new nodes, in a session of its own with new keys.

        Parameters
        ----------
        X : dict or list
            One table for each party as in `fit`, with rows for the new nodes appended.
        adjacency : graph, list of edges, dict or list of graphs, default=None
            The graph as in `fit`, with the new nodes; None if the model was fitted without a graph.
        nodes : array-like or None, default=None
            Nodes to assign, by id or, if there are no ids, by row number. None means all nodes that were not fitted,
            in the order of the graph.

        Returns
        -------
        ndarray of shape (n_predicted,)
            Cluster of each node. For a training node this is the nearest centre, which can differ from `labels_`:
            with the methods on cells, all nodes of a cell get the same label.
        """
        self._check_clustered()
        names = list(self.models_)
        tables: dict[str, Any] = self._tables_to_predict(named_tables(X), by_name=isinstance(X, Mapping))
        graphs, sharing = graphs_of(adjacency, tables)
        model = self.models_[names[0]]
        if sharing != (fitted_with := model.parameters.graph):
            forms = {"shared": "one graph for all parties", "own": "a graph for each party", "none": "no graph"}
            raise ParameterError(f"adjacency: must be {forms[fitted_with]}, as it was for fit")
        taken = self._nodes_to_predict(tables, graphs)
        kept = {name: (self.transformers_[name], self.column_weights_[name]) for name in names}
        inputs = prepare_parties(tables, graphs, id_column=self.id_column, nodes=taken, fitted=kept)
        fitted = None if self.node_ids_ is None else NodeIds(self.node_ids_, where="model")
        data = self._party_data(inputs, self.filter_)
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
        """Write the fitted model to a file that only its owner can read.

        The file holds the private shares of all parties as plain data. `KCAGC.load` reads it. Callbacks are not saved.

        Parameters
        ----------
        path : str or Path
            File to write.

        Raises
        ------
        ParameterError
            If the filter is a class of your own, or a transformer is not a `TablePreprocessor`.
        """
        self._check_clustered()
        save_estimator(self, path)

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read a model that `save` wrote.

        Parameters
        ----------
        path : str or Path
            File to read.

        Returns
        -------
        KCAGC
        """
        return load_estimator(cls, path)
