"""What a user asks a fitted `KCAGC`: insights, explanations, frames of labels, reports, pictures and a score."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from kcagc import metrics
from kcagc._types import FloatArray, GraphSharing, Labels, check_choice
from kcagc.cluster.search import PsiSearch
from kcagc.cluster.sweep import Sweep
from kcagc.data.files import PRIVATE, PathLike, write_text
from kcagc.data.fitted_rules import FittedRules
from kcagc.data.interop import in_order_of
from kcagc.data.party_files import PartyInput
from kcagc.disclosure import Ledger
from kcagc.errors import DataError, ParameterError
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds
from kcagc.protocol.effects import Progress
from kcagc.protocol.fit_result import FitResult
from kcagc.protocol.local import PartyModel
from kcagc.text import listed, printable

if TYPE_CHECKING:
    from kcagc.report.insights.description import Insights
    from kcagc.report.insights.explanation import Explanation

_FRAMES = ("pandas", "polars", "dict")
_METRICS = ("cost", "modularity", "accuracy", "ari", "nmi")
Watcher = Callable[[str, Progress], None]
_AGAINST_CLASSES = ("accuracy", "ari", "nmi")


@dataclass(frozen=True, eq=False)
class FittedParty:
    """What the insights of one party are computed from: its own input, its own rows and its share of the model."""

    given: PartyInput
    graph: Graph | None  # None if the run has no graph
    rows: FloatArray
    model: PartyModel
    labels: Labels

    def insights(self, progress: Callable[[str], None]) -> Insights:
        """Compute the insights; on large data this takes seconds, and `progress` is called with each step."""
        from kcagc.report.insights.description import Description, Insights  # noqa: PLC0415 - slow to import
        from kcagc.report.insights.measures import Units  # noqa: PLC0415

        rules = getattr(self.given.preprocessing, "fitted_", None)
        numbered = self.given.columns == [str(column) for column in range(len(self.given.columns))]  # of an array
        return Insights.of(
            Description(
                labels=self.labels.astype(np.int64),
                n_clusters=self.model.parameters.n_clusters,
                table=self.given.features,
                columns=None if numbered else self.given.columns,
                rows=self.rows,
                confidence=None,
                graph=self.graph,
                weights=self.given.weights,
                ids=self.given.graph.ids,
                party=self.model.party,
                centers=self.model.centers,
                center_clusters=self.model.clusters,
                units=Units.of(rules) if isinstance(rules, FittedRules) else None,
            ),
            progress=progress,
        )


class PartyInsights(Mapping[str, "Insights"]):
    """The insights of each party by its name, computed when they are first asked for.

    The insights of a party hold its own columns; those of two parties are never joined.
    """

    def __init__(self, parties: Mapping[str, FittedParty] | None, watch: Watcher | None = None) -> None:
        self._parties = parties
        self._watch = watch
        self._found: dict[str, Insights] = {}

    def __getitem__(self, party: str) -> Insights:
        known = self._known()
        if party not in known:
            raise ParameterError(f"party: there is no {party!r}; the parties are {listed(list(known))}")
        if party not in self._found:
            self._found[party] = known[party].insights(lambda step: self._report(party, step))
        return self._found[party]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def __contains__(self, party: object) -> bool:
        return party in self._known()

    def __repr__(self) -> str:
        return (
            "PartyInsights(none: the tables were not saved)"
            if self._parties is None
            else f"PartyInsights({listed(list(self))})"
        )

    def _report(self, party: str, step: str) -> None:
        if self._watch is not None:
            self._watch(party, Progress(f"insights: {step}"))

    def _known(self) -> Mapping[str, FittedParty]:
        if self._parties is None:
            raise DataError(
                "insights_: a model that was loaded has no tables, which insights, explanations, maps and reports "
                "need; fit again"
            )
        return self._parties


class Explanations(dict[str, "Explanation"]):
    """The explanation of one node by each party, by its name; as text, one after the other."""

    def __str__(self) -> str:
        return "\n\n".join(one.text() for one in self.values())

    def __repr__(self) -> str:
        return str(self)


class ResultsMixin:
    """The questions that a fitted `KCAGC` answers."""

    labels_: Labels
    cost_: float
    modularity_: float | None
    node_ids_: Any
    ledger_: Ledger
    sweep_: Sweep
    psi_search_: PsiSearch | None
    models_: dict[str, PartyModel]
    insights_: PartyInsights
    merges_: list[Any]
    bytes_by_role_: dict[str, int]
    rounds_: int
    method_: str
    method_reason_: str
    _frames: str

    if TYPE_CHECKING:

        def fit(self, X: Any, y: Any = None, *, adjacency: Any = None) -> Any:
            """Cluster the nodes; see `KCAGC.fit`."""

        def _check_clustered(self) -> None: ...
        def _watch(self, role: str, progress: Progress) -> None: ...

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Labels:
        """Cluster the nodes, and return the cluster of every node; see `fit`.

        Parameters
        ----------
        X : dict or list
            One table for each party.
        y : None
            Ignored.
        **options
            Further arguments of `fit`.

        Returns
        -------
        ndarray of shape (n_nodes,)
        """
        self.fit(X, y, **options)
        self._check_clustered()
        return self.labels_

    def explain(self, node: Any) -> Explanations:
        """Explain why a node is in its cluster, and which cluster is its nearest alternative.

        Parameters
        ----------
        node : str or int
            Id of the node; its row number if nodes have no ids.

        Returns
        -------
        dict of str to Explanation
            By party, the explanation that its own columns give. Printed, it is text.

        Raises
        ------
        DataError
            If there is no such node; the error names similar ids.

        Examples
        --------
        >>> from kcagc import KCAGC
        >>> from kcagc.datasets import load
        >>> data = load("demo")
        >>> bank, telecom, shop = data.parties()
        >>> model = KCAGC(n_clusters=5, psi=2, random_state=0)
        >>> found = model.fit({"bank": bank, "shop": shop}, adjacency=data.adjacency).explain(7)
        >>> found["bank"].cluster == model.labels_[7]
        True
        """
        self._check_clustered()
        return Explanations({party: self.insights_[party].explain(node) for party in self.insights_})

    def labels_frame(self, kind: str | None = None) -> Any:
        """Return the cluster of every node beside its id.

        Parameters
        ----------
        kind : {"pandas", "polars", "dict"} or None, default=None
            What to return. None takes the library of the tables that were fitted; otherwise pandas or polars,
            whichever is installed, or a dictionary of two lists.

        Returns
        -------
        DataFrame or dict
            Columns "id" (row numbers, if nodes have no ids) and "cluster".

        Raises
        ------
        ParameterError
            If the library is not installed.
        """
        self._check_clustered()
        check_choice("kind", kind, (None, *_FRAMES))
        ids = range(len(self.labels_)) if self.node_ids_ is None else self.node_ids_
        columns = {"id": list(ids), "cluster": self.labels_.tolist()}
        own = getattr(self, "_frames", "")
        wanted = [kind] if kind is not None else [*([own] if own in _FRAMES else []), *_FRAMES]
        for name in wanted:
            if name == "dict":
                return columns
            try:
                return importlib.import_module(name).DataFrame(columns)
            except ImportError:
                continue
        raise ParameterError(f"kind: needs the package {kind}: pip install {kind}")

    def score(self, X: Any = None, y: ArrayLike | None = None, *, metric: str | None = None) -> float:
        """Return how good the clusters of the fit are; higher is better.

        Parameters
        ----------
        X : None
            Not used: the score is about the nodes of the fit.
        y : array-like of shape (n_nodes,) or None, default=None
            Known classes, in the order of `labels_`; a pandas column whose index holds the node ids may have any order.
        metric : {"cost", "modularity", "accuracy", "ari", "nmi"} or None, default=None
            "cost" is -`cost_`, "modularity" compares the edges within clusters with chance; the others compare with
            known classes, see `kcagc.metrics`. None takes "ari" (adjusted Rand index) if `y` is given, else "cost".

        Returns
        -------
        float

        Raises
        ------
        ParameterError
            If the metric needs known classes or a shared graph, and there is none.
        DataError
            If the index of `y` holds other ids than those of the nodes.
        """
        self._check_clustered()
        check_choice("metric", metric, (None, *_METRICS))
        chosen = metric or ("cost" if y is None else "ari")
        if chosen in _AGAINST_CLASSES:
            if y is None:
                raise ParameterError(f"y: is missing; {chosen!r} compares the clusters with known classes")
            ids = None if self.node_ids_ is None else NodeIds(self.node_ids_, where="model")
            true = in_order_of(y, ids, len(self.labels_), "y")
            return float(getattr(metrics, chosen)(true, self.labels_))
        if chosen == "cost":
            return -self.cost_
        if self.modularity_ is None:
            raise ParameterError('metric: "modularity" needs a graph that all parties share')
        return self.modularity_

    def report(self, path: PathLike, *, party: str | None = None) -> list[Path]:
        """Write the report of each party: an HTML page that opens offline.

        Parameters
        ----------
        path : str or Path
            Folder of the pages, one for each party (bank.html, ...); it is made if it is not there. With `party`, the
            file of its page.
        party : str or None, default=None
            Party whose page to write. A page holds the columns of one party only.

        Returns
        -------
        list of Path
            The files, which only their owner can read.

        Raises
        ------
        ParameterError
            If there is no such party, or `path` is a file and no party is named.
        """
        from kcagc.report.page import build_report  # noqa: PLC0415 - few runs write a report

        names = list(self._parties())
        target = Path(path)
        if party is None and target.suffix.lower() in (".html", ".htm"):
            raise ParameterError(
                f"path: {target} is a single file, and a page holds the columns of one party; name it, for example "
                f"party={names[0]!r}, or give a folder for the pages of all parties"
            )
        if party is not None and party not in names:
            raise ParameterError(f"party: there is no {party!r}; the parties are {listed(names)}")
        if party is None:
            target.mkdir(parents=True, exist_ok=True)
        files = {name: target / f"{file}.html" for name, file in _file_names(names).items()}
        files = files if party is None else {party: target}
        for name, file in files.items():
            write_text(file, build_report(self._folder(name)), mode=PRIVATE)
        return list(files.values())

    def plot(self, kind: str | None = None, *, party: str | None = None) -> Any:
        """Return a picture, which a notebook shows and `savefig` writes to a file.

        Parameters
        ----------
        kind : {"map", "sizes", "psi", "sweep"} or None, default=None
            "map" shows the nodes by the columns of each party, "sizes" the sizes of the clusters, "psi" the search for
            the order of the filter, "sweep" the curves over numbers of clusters. None takes "sweep" if `n_clusters` is
            a range, else "map".
        party : str or None, default=None
            For "map", the only party to show.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ParameterError
            If matplotlib is not installed, or there is nothing of this kind to show.
        """
        from kcagc.estimator_plots import draw  # noqa: PLC0415 - matplotlib is an extra

        return draw(self, kind, party)

    def _keep_insights(
        self, inputs: Mapping[str, PartyInput], fitted: Mapping[str, FitResult], sharing: GraphSharing
    ) -> None:
        """Keep what the insights of each party are computed from, and the modularity of the clusters."""
        first = next(iter(inputs.values()))
        self.modularity_ = metrics.modularity(first.graph, self.labels_) if sharing == "shared" else None
        known = {}
        for name, result in fitted.items():
            graph = None if sharing == "none" else inputs[name].graph
            rows = np.zeros((len(self.labels_), 0)) if result.rows is None else result.rows
            known[name] = FittedParty(inputs[name], graph, rows, result.model, self.labels_)
        self.insights_ = PartyInsights(known, self._watch)

    def _parties(self) -> tuple[str, ...]:
        """Return the names of the parties, also after a comparison of numbers of clusters."""
        if hasattr(self, "sweep_"):
            return tuple(self.feature_names_)  # type: ignore[attr-defined]
        self._check_clustered()
        return tuple(self.models_)

    def _folder(self, party: str) -> Any:
        """Return what the report of a party is made from."""
        from kcagc.report.folder import RunFolder  # noqa: PLC0415 - few runs write a report

        names = self._parties()
        own = [entry for entry in self.ledger_ if party in (*entry.sender.split("+"), entry.receiver)]
        others = [name for name in self.bytes_by_role_ if name not in names]
        summary: dict[str, Any] = {
            "name": party,
            "role": "party",
            "task": "fit",
            "roles": [
                *({"name": one, "role": "party"} for one in names),
                *({"name": one, "role": "coordinator"} for one in others),
            ],
            "method": f"{self.method_}, because {self.method_reason_}",
            "bytes_sent": self.bytes_by_role_.get(party, 0),
            "messages_sent": sum(entry.sender == party and entry.kind.startswith("message/") for entry in own),
        }
        if self.psi_search_ is not None:
            summary["psi_search"] = asdict(self.psi_search_)
        if hasattr(self, "sweep_"):
            summary |= {"sweep": self.sweep_.document(), "parameters": {"most_clusters": max(self.sweep_.ks)}}
            return RunFolder.in_memory(summary, ledger=own)
        parameters = self.models_[party].parameters
        sizes = np.bincount(self.labels_, minlength=parameters.n_clusters).tolist()
        summary |= {
            "nodes": len(self.labels_),
            "cluster_sizes": sizes,
            "cost": self.cost_,
            "rounds": self.rounds_,
            "parameters": msgspec.to_builtins(parameters),
        }
        found = self.insights_[party]
        return RunFolder.in_memory(summary, ledger=own, clusters=found.clusters, nodes=found.nodes)


def _file_names(parties: Iterable[str]) -> dict[str, str]:
    """Return for each party a different name that is a file on every system; parties may be called "a/b" and "a?b"."""
    found: dict[str, str] = {}
    for party in parties:
        letters = (letter if letter.isalnum() or letter in "-_ ." else "_" for letter in printable(party))
        name, number = "".join(letters).strip(" .") or "_", 2
        taken, wanted = {one.casefold() for one in found.values()}, name
        while name.casefold() in taken:
            name, number = f"{wanted}-{number}", number + 1
        found[party] = name
    return found
