"""Diagnosis: whether data meet the conditions of the paper's Theorem 1, for all parties or for one party alone.

`diagnose` needs the tables of all parties in one process, so it is for public or generated data. `diagnose_party` needs
one party's own data and nothing else: no other party and no network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from kcagc._types import check_between
from kcagc.analysis.clusters import ClusteredRows, Clusters
from kcagc.analysis.conclusions import PURPOSE, joint_conclusions, party_conclusions
from kcagc.analysis.conditions import Conditions, conditions
from kcagc.analysis.theorem import ENOUGH, Bound, RestrictedProximity, bound, common_c, restricted_proximity
from kcagc.data.memory import graphs_of, named_tables, prepare_parties
from kcagc.errors import DataError, ParameterError
from kcagc.graph.filters import SearchedFilter
from kcagc.protocol.local import PartyData, compute_local
from kcagc.protocol.parameters import Parameters, RunSettings, draw_seed, settings_of
from kcagc.text import count, number, percent

HEADINGS = ("", "clusters", "|X-C|", "Delta", "c", "limited by", "1-bad", "1-good")
LEGEND = (
    "|X-C|: spectral norm of the rows minus their cluster means. c: all means lie at least c (Delta + Delta) apart. "
    "1-good: nodes that are clearly nearer to the mean of their own cluster (Definition 1); all others are 1-bad."
)
_LARGEST = 1e12  # of the constants that the paper writes as O(.)


@dataclass(frozen=True, repr=False)
class PartyDiagnosis:
    """The conditions in one party's rows.

    Attributes
    ----------
    name : str
        Name of the party.
    own : Conditions
        Conditions of the party's own local clusters (the paper's T^l), which the theorem is about.
    target : Conditions or None
        Conditions of the target clusters in this party's rows: which of them its columns separate.
    conclusions : tuple of str
        What the figures mean, in sentences, the most important first.

    Examples
    --------
    >>> from kcagc import KCAGC, diagnose
    >>> from kcagc.datasets import load
    >>> demo = load("demo")
    >>> model = KCAGC(n_clusters=5, random_state=0)
    >>> party = diagnose(model, demo.parties(), demo.labels, adjacency=demo.adjacency).parties[0]
    >>> party.name, len(party.own.sizes), len(party.target.sizes)
    ('party-1', 10, 5)
    """

    name: str
    own: Conditions
    target: Conditions | None
    conclusions: tuple[str, ...]

    def __repr__(self) -> str:
        seen = "" if self.target is None else f", target {self.target!r}"
        return f"PartyDiagnosis({self.name!r}, own {self.own!r}{seen})"

    def lines(self) -> list[tuple[str, ...]]:
        """Return the party's lines of the table with the columns `HEADINGS`."""
        seen = [] if self.target is None else [_line(f"{self.name}, target", self.target)]
        return [_line(f"{self.name}, own", self.own), *seen]

    def figures(self) -> tuple[str, ...]:
        """Return the figures that do not fit the table: none for one party."""
        return ()

    def summary(self) -> str:
        """Return purpose, table and conclusions as text."""
        return _summary(self)

    def as_dict(self) -> dict[str, Any]:
        """Return all values for JSON."""
        return {
            "name": self.name,
            "own": self.own.as_dict(),
            "target": None if self.target is None else self.target.as_dict(),
            "conclusions": list(self.conclusions),
        }


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """The conditions of Theorem 1 for each party and for all data together.

    Attributes
    ----------
    parties : tuple of PartyDiagnosis
        One diagnosis for each party.
    joint : Conditions
        Conditions of the target clusters in the rows of all parties side by side.
    restricted : RestrictedProximity
        The restricted proximity condition (Definition 2).
    bound : Bound
        The guarantee of Theorem 1.
    conclusions : tuple of str
        What the figures mean, in sentences, the most important first.

    Examples
    --------
    >>> from kcagc import KCAGC, diagnose
    >>> from kcagc.datasets import load
    >>> demo = load("demo")
    >>> model = KCAGC(n_clusters=5, random_state=0)
    >>> found = diagnose(model, demo.parties(), demo.labels, adjacency=demo.adjacency)
    >>> [party.name for party in found.parties]
    ['party-1', 'party-2', 'party-3']
    """

    parties: tuple[PartyDiagnosis, ...]
    joint: Conditions
    restricted: RestrictedProximity
    bound: Bound
    conclusions: tuple[str, ...]

    def __repr__(self) -> str:
        who = count(len(self.parties), "table")
        return f"Diagnosis({who} of {self.joint.n_nodes:,} nodes, joint {self.joint!r}, {self.bound!r})"

    def lines(self) -> list[tuple[str, ...]]:
        """Return the lines of the table with the columns `HEADINGS`."""
        return [*(row for party in self.parties for row in party.lines()), _line("joint, target", self.joint)]

    def figures(self) -> tuple[str, ...]:
        """Return the figures that do not fit the table: Definition 2 and Theorem 1."""
        near, theorem = self.restricted, self.bound
        nodes = number(theorem.nodes if theorem.holds else theorem.formula)
        result = "misclassified at most" if theorem.holds else "no guarantee; without the conditions its formula gives"
        return (
            f"Restricted proximity condition: (a) holds for {percent(near.share_a)} of the nodes, (b) for "
            f"{percent(near.share_b)}; local |X-C| {number(near.norm)}, m_0 {_range(near.m0)}",
            f"Theorem 1: c = {number(theorem.c)}, epsilon = {theorem.epsilon:.3g}, {result} {nodes} of "
            f"{theorem.n_nodes:,} nodes",
        )

    def summary(self) -> str:
        """Return purpose, table, figures and conclusions as text."""
        return _summary(self)

    def as_dict(self) -> dict[str, Any]:
        """Return all values for JSON; infinite values are None."""
        return {
            "nodes": self.joint.n_nodes,
            "parties": [party.as_dict() for party in self.parties],
            "joint": self.joint.as_dict(),
            "restricted": self.restricted.as_dict(),
            "bound": self.bound.as_dict(),
            "conclusions": list(self.conclusions),
        }


def _line(who: str, one: Conditions) -> tuple[str, ...]:
    pair = "" if one.pair is None else f"{one.pair[0]}, {one.pair[1]}"
    figures = number(one.norm), _range(one.deltas), number(one.c), pair, f"{one.n_bad:,}", percent(one.good)
    return who, str(len(one.sizes)), *figures


def _range(values: Sequence[float]) -> str:
    least, most = number(min(values)), number(max(values))
    return least if least == most else f"{least} to {most}"


def _summary(found: Diagnosis | PartyDiagnosis) -> str:
    rows = [HEADINGS, *found.lines()]
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join([row[0].ljust(first), *map(str.rjust, row[1:], others)]).rstrip() for row in rows]
    points = [f"- {text}" for text in found.conclusions]
    return "\n".join([PURPOSE, "", *table, "", LEGEND, *found.figures(), "", *points])


def diagnose(
    model: Any,
    X: Sequence[Any],
    target: ArrayLike | None = None,
    *,
    adjacency: Any,
    local_labels: Sequence[ArrayLike] | None = None,
    names: Sequence[str] | None = None,
    order_constant: float = 1.0,
    enough: float = ENOUGH,
    progress: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Check the conditions of Theorem 1 on the rows that the parties of a run cluster.

    This is a research tool for data that may be pooled in one process, such as public or generated data. The
    conditions are sufficient, not necessary: on real data the result is nearly always "no guarantee", which says
    nothing about the quality of the clusters. A party can check its own data alone with ``kcagc diagnose --config``.

    Parameters
    ----------
    model : KCAGC
        Fitted or not; its settings say how tables become rows.
    X : dict or sequence of tables
        One table for each party, as for `KCAGC.fit`.
    target : array of shape (n_nodes,), optional
        The cluster of each node in the graph's order. Default: the labels of the fitted model.
    adjacency : graph or sequence of graphs
        As for `KCAGC.fit`.
    local_labels : sequence of arrays of shape (n_nodes,), optional
        Local clusters of each party. Default: those that each party finds alone, the same as in a fit with the same
        integer `random_state`.
    names : sequence of str, optional
        Names of the parties. Default: the keys of a dictionary X; otherwise party-1, party-2, ...
    order_constant : float, default 1.0
        The constant that the paper writes as O(.): O(1/c) of Definition 2 is `order_constant` / c, O(1) of the theorem
        is `order_constant`.
    enough : float, default 100.0
        The value that c must exceed.
    progress : callable, optional
        Called with a short text before each step.

    Returns
    -------
    Diagnosis
        Conditions of each party and of all data, the bound, and conclusions in sentences.

    Raises
    ------
    DataError
        If a table, the graph or the labels are invalid.
    ParameterError
        If a setting is invalid, or the method has no local clusters ("basic", "joint") and no local labels are given.

    Examples
    --------
    >>> from kcagc import KCAGC, diagnose
    >>> from kcagc.datasets import load
    >>> demo = load("demo")
    >>> model = KCAGC(n_clusters=5, random_state=0)
    >>> diagnose(model, demo.parties(), demo.labels, adjacency=demo.adjacency).bound.holds
    False
    """
    _check_constants(order_constant=order_constant, enough=enough)
    report, named = progress or (lambda _: None), named_tables(X)
    parties = _party_names(names, list(named))
    tables = dict(zip(parties, named.values(), strict=True))
    graphs, sharing = graphs_of(adjacency, tables)
    settings, graph_filter = settings_of(model, sharing)
    settings = settings_with_labels(settings, len(X))
    if isinstance(graph_filter, SearchedFilter):
        graph_filter = getattr(model, "filter_", settings.graph_filter())
    parameters = settings.resolve(len(X), graph_filter)
    given = _by_party("local_labels", local_labels, parties)
    given_names = ("id_column", "nodes", "transformers", "weighting")
    options = {name: getattr(model, name) for name in given_names if hasattr(model, name)}
    inputs = prepare_parties(tables, graphs, **options)
    data = {name: PartyData.build(name, one.graph, one.features, graph_filter) for name, one in inputs.items()}
    labels = getattr(model, "labels_", None) if target is None else target
    if labels is None:
        raise DataError("target: is missing; give the cluster of every node, or a model that has been fitted")
    clusters = Clusters.of(labels, data[parties[0]].graph.n_nodes, "target")
    seed = draw_seed(getattr(model, "random_state", None))
    rows: dict[str, ClusteredRows] = {}
    found: dict[str, PartyDiagnosis] = {}
    for name in parties:
        report(f"{name}: filtering, projecting and clustering")
        rows[name] = _own_rows(name, data.pop(name), parameters, seed, given.get(name))
        found[name] = _measured(name, rows[name], clusters, enough)
    report("all parties together")
    together = ClusteredRows.of(np.hstack([one.rows for one in rows.values()]), clusters)
    joint = conditions(together)
    own = {name: party.own for name, party in found.items()}
    seen = {name: party.target for name, party in found.items() if party.target is not None}
    near = restricted_proximity(
        together, joint.norm, list(rows.values()), c=common_c(joint, own), order_constant=order_constant
    )
    theorem = bound(joint, own, near, enough=enough, order_constant=order_constant)
    conclusions = joint_conclusions(theorem, joint, own, seen, enough, tree=parameters.method == "tree")
    return Diagnosis(tuple(found.values()), joint, near, theorem, conclusions)


def settings_with_labels(settings: RunSettings, n_parties: int) -> RunSettings:
    """Return the settings of a run; where "auto" leaves the method open, with a method that has local clusters.

    The theory is about local clusters, which the method "joint" does not have.
    """
    return msgspec.structs.replace(settings, method=settings.method_with_labels(n_parties))


def diagnose_party(
    name: str,
    data: PartyData,
    parameters: Parameters,
    labels: ArrayLike | None = None,
    *,
    local_labels: ArrayLike | None = None,
    seed: int = 0,
    enough: float = ENOUGH,
) -> PartyDiagnosis:
    """Check the conditions on one party's own data; nothing is sent.

    Parameters
    ----------
    name : str
        Name of the party.
    data : PartyData
        Its table and graph.
    parameters : Parameters
        Parameters of the session.
    labels : array of shape (n_nodes,), optional
        The joint clusters, if they are known.
    local_labels : array of shape (n_nodes,), optional
        Local clusters. Default: those that the party finds with `seed`.
    seed : int, default 0
        Seed of the local clustering.
    enough : float, default 100.0
        The value that c must exceed.

    Returns
    -------
    PartyDiagnosis
        Conditions of the party's own clusters and, with `labels`, of the joint clusters in its rows.

    Raises
    ------
    DataError
        If the data or the labels are invalid.
    ParameterError
        If the method has no local clusters ("basic", "joint") and no local labels are given.

    Examples
    --------
    >>> from kcagc.datasets import load
    >>> from kcagc.graph import Graph
    >>> from kcagc.graph.filters import HalfFilter
    >>> from kcagc.protocol.local import PartyData
    >>> from kcagc.protocol.parameters import RunSettings
    >>> demo = load("demo")
    >>> data = PartyData(Graph.from_matrix(demo.adjacency), demo.parties()[0], HalfFilter(5))
    >>> found = diagnose_party("bank", data, settings_with_labels(RunSettings(n_clusters=5), 3).resolve(3), demo.labels)
    >>> found.target.sizes
    (120, 120, 120, 120, 120)
    """
    _check_constants(enough=enough)
    target = None if labels is None else Clusters.of(labels, data.graph.n_nodes, f"{name}: labels")
    return _measured(name, _own_rows(name, data, parameters, seed, local_labels), target, enough)


def _measured(name: str, own: ClusteredRows, target: Clusters | None, enough: float) -> PartyDiagnosis:
    """Measure a party's own clusters and the target clusters in the same rows."""
    mine = conditions(own)
    seen = None if target is None else conditions(ClusteredRows.of(own.rows, target))
    return PartyDiagnosis(name, mine, seen, party_conclusions(name, mine, seen, enough))


def _own_rows(
    name: str, data: PartyData, parameters: Parameters, seed: int, local_labels: ArrayLike | None
) -> ClusteredRows:
    """Return the rows that a party clusters in a run, with its own local clusters or with those given (T^l)."""
    n = data.graph.n_nodes
    given = None if local_labels is None else Clusters.of(local_labels, n, f"{name}: local_labels")
    if given is not None:
        # With these parameters the basic method filters and projects as all methods do, and clusters nothing.
        parameters = msgspec.structs.replace(parameters, method="basic", n_local_clusters=0, n_init=1)
    elif not parameters.has_local_clusters:
        method = parameters.method
        raise ParameterError(
            f'method: "{method}" has no local clusters, which Theorem 1 is about; use "cells" or "tree"'
        )
    try:
        local = compute_local(data, parameters, 0 if given is not None else seed)
    except DataError as error:
        raise DataError(str(error), party=name) from error
    return ClusteredRows.of(local.rows, Clusters.of(local.labels, n, name) if given is None else given)


def _check_constants(**values: float) -> None:
    for name, value in values.items():
        check_between(name, value, 0.0, _LARGEST)


def _party_names(names: Sequence[str] | None, default: list[str]) -> list[str]:
    n_parties, found = len(default), default if names is None else list(names)
    if len(found) != n_parties or len(set(found)) != n_parties:
        raise ParameterError(f"names: must be {n_parties} different names, one for each table, not {found!r}")
    return found


def _by_party(what: str, given: Sequence[ArrayLike] | None, names: list[str]) -> dict[str, ArrayLike]:
    if given is None:
        return {}
    if not isinstance(given, list | tuple) or len(given) != len(names):
        raise ParameterError(f"{what}: must be a list of {len(names)}, one for each party")
    return dict(zip(names, given, strict=True))
