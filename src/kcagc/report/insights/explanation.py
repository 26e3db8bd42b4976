"""The explanation of one node: why it is in its cluster, and which cluster is its nearest alternative."""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kcagc.errors import DataError
from kcagc.report.insights.nodes import NodeInsights
from kcagc.report.names import ClusterNames
from kcagc.text import amount, count, listed, number, percent, quoted

EQUAL = 1.02  # two distances whose ratio is below this are called about equal
_SIMILAR = 3  # ids that an error suggests
_SEARCHED = 50_000  # ids among which similar ones are searched


@dataclass(frozen=True)
class Reason:
    """A column of the party that fits a node's cluster better than the nearest other one.

    `mean` and `mean_other` are the means of the column in the two clusters. For tables of mostly zeros (`present`),
    they are the shares of nodes that have the column; `by_logarithm`, the means of the logarithms, converted back.
    """

    column: str
    value: float
    mean: float
    mean_other: float
    present: bool = False
    by_logarithm: bool = False


@dataclass(frozen=True)
class Explanation:
    """Why a node is in its cluster, by what one party knows: its own columns and the graph.

    Attributes
    ----------
    node : str or int
        The id of the node.
    party : str
        The party whose columns the explanation uses.
    cluster, name, size : int, str, int
        The cluster of the node, the name it was given ("" without one), and the number of its nodes.
    confidence : float
        From 0 (another centre is equally near or nearer) to 1 (the node is at the centre), in the party's columns.
    further_out : float
        Share of the nodes of the cluster that are further from its centre.
    alternative, alternative_name : int or None, str
        The other cluster whose centre is nearest, and its name; None with a single cluster.
    distance, alternative_distance : float, float or None
        Distances of the node to the two centres.
    edges, edges_inside : int or None
        Edges of the node to other nodes, and those to nodes of its cluster; None without the graph.
    edges_to : dict of int to int
        Edges to the other clusters that most of its edges lead to.
    reasons : tuple of Reason
        Columns of the party that fit the cluster better than the alternative, the most decisive first.
    """

    node: str | int
    party: str
    cluster: int
    name: str
    size: int
    confidence: float
    further_out: float
    alternative: int | None
    alternative_name: str
    distance: float
    alternative_distance: float | None
    edges: int | None
    edges_inside: int | None
    edges_to: dict[int, int]
    reasons: tuple[Reason, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return all fields and the sentences, for JSON."""
        return {
            **asdict(self),
            "edges_to": {str(cluster): found for cluster, found in self.edges_to.items()},
            "reasons": [asdict(one) for one in self.reasons],
            "sentences": self.sentences(),
        }

    def sentences(self) -> list[str]:
        """Return the explanation in plain words."""
        found = [f"{self.node} is in {_called(self.cluster, self.name)}, which has {amount(self.size, 'node')}."]
        found += self._position()
        if self.edges is not None:
            found.append(self._edges())
        return [*found, *self._columns()]

    def text(self) -> str:
        """Return the sentences, one in each line."""
        return "\n".join(self.sentences())

    def __str__(self) -> str:
        return self.text()

    def _position(self) -> list[str]:
        if self.alternative is None or self.alternative_distance is None:
            return ["There is no other cluster."]
        other = _called(self.alternative, self.alternative_name)
        far, near = max(self.distance, self.alternative_distance), min(self.distance, self.alternative_distance)
        if far <= EQUAL * near:
            return [
                f"By the columns of {self.party} alone, the centres of its cluster and of {other} are about "
                "equally far away: it is a borderline node."
            ]
        times = f"{number(far / near)} times as far away" if near > 0 else "further away"
        if self.distance < self.alternative_distance:
            return [
                f"By the columns of {self.party} alone, its cluster has the nearest centre. The nearest alternative is "
                f"{other}, whose centre is {times}.",
                f"{percent(self.further_out, 0)} of the nodes of its cluster are further from the centre than it.",
            ]
        return [
            f"By the columns of {self.party} alone, {other} is nearer: the centre of its own cluster is {times}.",
            "The joint clusters depend on the columns of all parties, and those of the others count for its cluster.",
        ]

    def _edges(self) -> str:
        if not self.edges or self.edges_inside is None:
            return "It has no edges to other nodes."
        if self.edges == 1:
            inside = "leads to its own cluster" if self.edges_inside else "does not lead to its own cluster"
            return f"Its only edge {inside}."
        verb = "leads" if self.edges_inside == 1 else "lead"
        text = f"Of its {amount(self.edges, 'edge')}, {count(self.edges_inside)} {verb} to its own cluster"
        text = text if self.edges_inside else f"None of its {amount(self.edges, 'edge')} leads to its own cluster"
        others = [f"{count(found)} to cluster {cluster}" for cluster, found in self.edges_to.items()]
        rest = self.edges - self.edges_inside - sum(self.edges_to.values())
        others += [f"{count(rest)} to further clusters"] if rest else []
        return f"{text}; {listed(others)}." if others else f"{text}."

    def _columns(self) -> list[str]:
        other = "the other nodes" if self.alternative is None else f"cluster {self.alternative}"
        if not self.reasons:
            return [f"No column of {self.party} fits its own value better to its cluster than to {other}."]
        found = [f"Columns of {self.party} that fit its cluster better than {other}:"]
        for one in self.reasons:
            if one.present:
                here, there = percent(one.mean, 0), percent(one.mean_other, 0)
                found.append(f"- it has {one.column}, as have {here} of its cluster and {there} of {other}")
            else:
                here, there = number(one.mean), number(one.mean_other)
                mean = "typical value (mean of the logarithms)" if one.by_logarithm else "mean"
                value = f"- {one.column} is {number(one.value)}"
                found.append(f"{value}; the {mean} of its cluster is {here}, that of {other} {there}")
        return found


def _called(cluster: int, name: str) -> str:
    return f"cluster {cluster} ({name})" if name else f"cluster {cluster}"


def explain_node(nodes: NodeInsights, node: Any, names: ClusterNames | None = None) -> Explanation:
    """Explain why a node is in its cluster.

    Parameters
    ----------
    nodes : NodeInsights
        What a party knows about its nodes, from `Insights.nodes` or `NodeInsights.load`.
    node : str or int
        The id of the node; its row where nodes have no ids.
    names : ClusterNames, default=None
        Names that were given to clusters.

    Returns
    -------
    Explanation

    Raises
    ------
    DataError
        If no node has this id. The error names similar ids.
    """
    row = nodes.row_of(node)
    if row is None:
        raise DataError(f"explain: {_unknown(nodes, str(node))}", party=nodes.party)
    named = names or ClusterNames()
    cluster, other = int(nodes.cluster[row]), int(nodes.other[row])
    mates = nodes.to_own[nodes.cluster == cluster]
    size, further = len(mates), int((mates > nodes.to_own[row]).sum())
    against = other if other >= 0 else None
    return Explanation(
        node=nodes.id_of(row),
        party=nodes.party,
        cluster=cluster,
        name=named.of(cluster),
        size=size,
        confidence=round(float(nodes.confidence[row]), 4),
        further_out=further / max(size - 1, 1),
        alternative=against,
        alternative_name="" if against is None else named.of(against),
        distance=float(nodes.to_own[row]),
        alternative_distance=None if against is None else float(nodes.to_other[row]),
        edges=None if nodes.edges is None else int(nodes.edges[row]),
        edges_inside=None if nodes.inside is None else int(nodes.inside[row]),
        edges_to={
            int(to): int(found)
            for to, found in zip(nodes.to_clusters[row], nodes.to_counts[row], strict=True)
            if to >= 0
        },
        reasons=reasons_for(nodes, row),
    )


def reasons_for(nodes: NodeInsights, row: int) -> tuple[Reason, ...]:
    """Return the reasons of one node."""
    cluster, other = int(nodes.cluster[row]), int(nodes.other[row])
    sizes = np.array(nodes.sizes, dtype=float)
    sizes[cluster] = 0.0
    found = []
    for column, value in zip(nodes.reasons[row].tolist(), nodes.values[row].tolist(), strict=True):
        if column < 0:
            continue
        means = nodes.means[:, column]
        away = means[other] if other >= 0 else means @ sizes / max(sizes.sum(), 1.0)
        how = nodes.mostly_zero, nodes.by_logarithm is not None and bool(nodes.by_logarithm[column])
        found.append(Reason(nodes.columns[column], value, float(means[cluster]), float(away), *how))
    return tuple(found)


def _unknown(nodes: NodeInsights, node: str) -> str:
    text = f"no node has the id {quoted(node)}"
    if nodes.ids is None:
        return f"{text}; the nodes have no ids, so name a row from 0 to {len(nodes) - 1}"
    if not nodes.ids.are_text:
        return f"{text}; the ids are whole numbers, for example {nodes.id_of(0)}"
    known: list[str] = nodes.ids.tolist()
    small = node.casefold()
    similar = [one for one in known if one.casefold() == small]
    if not similar and len(known) <= _SEARCHED:
        similar = difflib.get_close_matches(node, known, n=_SIMILAR)
    if not similar and node:
        similar = [one for one in known if small in one.casefold()]
    if not similar:
        return f"{text}; ids look like {quoted(known[0])}. The file of labels lists all ids"
    return f"{text}. Similar ids: {listed([quoted(one) for one in similar], at_most=_SIMILAR)}"
