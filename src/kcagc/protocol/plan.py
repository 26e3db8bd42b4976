"""The plan of a session: which parties add vectors together, and which risks that has.

Every role computes the same plan from the agreement. The parties are the leaves of a tree, in the agreed order. Each
layer joins `fan_in` neighbours at a time; a remaining one moves up. All parties under a merge take part in its sums,
and one aggregator serves every merge. The method "cells" is a tree of one merge. The basic method and prediction need
no tree: all parties are one group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcagc.cluster.search import SEARCH_PLAN
from kcagc.disclosure.texts import ANONYMOUS_GEOMETRY, LABELLED_SUMS, LOCAL_MEANS, PARTIAL_MATCHES
from kcagc.errors import ParameterError
from kcagc.protocol.agreement import Agreement
from kcagc.protocol.parameters import MATCHING
from kcagc.secagg.masks import TWO_PARTY_SUM, Group

if TYPE_CHECKING:
    from kcagc.disclosure.page import RunOutline


@dataclass(frozen=True)
class Merge:
    """One inner node of the tree: its group, and its children, each a tuple of party names."""

    group: Group
    children: tuple[tuple[str, ...], ...]
    root: bool

    @property
    def senders(self) -> tuple[str, ...]:
        """The first party of each child, which sends the labels of the child to the other children."""
        return tuple(child[0] for child in self.children)

    def routes(self) -> dict[str, tuple[str, ...]]:
        """Return for each sender its receivers: the members under other children."""
        return {
            child[0]: tuple(member for member in self.group.members if member not in child) for child in self.children
        }

    def child_of(self, party: str) -> int:
        """Return the index of the child that contains a party."""
        return next(index for index, child in enumerate(self.children) if party in child)


def layers(agreement: Agreement) -> list[list[Merge]]:
    """Return the merges layer by layer, from the leaves to the root."""
    parties, aggregator, parameters = agreement.parties, agreement.aggregator, agreement.parameters
    nodes: list[tuple[str, ...]] = [(party,) for party in parties]
    if not parameters.has_local_clusters or parameters.task == "predict":
        return [[Merge(Group(parties, aggregator), tuple(nodes), root=True)]]
    fan_in = parameters.fan_in if parameters.method == "tree" else len(parties)
    found: list[list[Merge]] = []
    while len(nodes) > 1:
        joined = [tuple(nodes[start : start + fan_in]) for start in range(0, len(nodes), fan_in)]
        nodes = [tuple(party for child in children for party in child) for children in joined]
        layer, root = len(found) + 1, len(joined) == 1
        found.append(
            [
                Merge(Group(members, aggregator, layer, index), children, root)
                for index, (members, children) in enumerate(zip(nodes, joined, strict=True), start=1)
                if len(children) > 1
            ]
        )
    return found


def risks(agreement: Agreement) -> list[str]:
    """Return the names of the disclosures of this session beyond the default mode."""
    parameters = agreement.parameters
    if parameters.task in MATCHING:  # no party adds anything
        return [PARTIAL_MATCHES] if len(agreement.parties) > 2 else []
    groups = [merge.group for layer in layers(agreement) for merge in layer]
    found = []
    if any(group.exposes_one_party for group in groups):
        found.append(TWO_PARTY_SUM)
    if any(group.aggregator_is_member for group in groups):
        found.append(LABELLED_SUMS)
        if parameters.task == "fit" and parameters.has_local_clusters and parameters.virtual_nodes == "local":
            found.append(LOCAL_MEANS)
    if parameters.task == "fit" and parameters.method == "joint" and parameters.joint_rows == "coordinator":
        found.append(ANONYMOUS_GEOMETRY)
    return found


def outline(agreement: Agreement) -> RunOutline:
    """Return what decides what this session discloses, for the page of a data protection officer."""
    from kcagc.disclosure.page import RunOutline  # noqa: PLC0415 - a run does not need it

    parameters = agreement.parameters
    merges = [merge for layer in layers(agreement) for merge in layer]
    searches = parameters.task == "fit" and (parameters.orders or parameters.most_clusters)
    with_labels = parameters.task == "fit" and parameters.has_local_clusters
    routes = [
        (child, merge.routes()[child[0]]) for merge in merges for child in merge.children if with_labels
    ]  # the members of a child, and the parties that receive the labels of this child
    return RunOutline(
        parties=agreement.parties,
        aggregator=agreement.aggregator,
        task=parameters.task,
        method=parameters.method,
        graph=parameters.graph,
        n_clusters=parameters.n_clusters,
        n_local_clusters=parameters.n_local_clusters,
        min_local_size=parameters.min_local_size,
        n_init=parameters.n_init,
        joint_rows=parameters.joint_rows if parameters.method == "joint" else "",
        n_components=parameters.n_components if parameters.method == "joint" else 0,
        orders=parameters.orders if parameters.task == "fit" else (),
        most_clusters=parameters.most_clusters if parameters.task == "fit" else 0,
        search_attempts=SEARCH_PLAN.restarts if searches else 0,
        search_steps=SEARCH_PLAN.rounds if searches else 0,
        label_receivers={child[0]: receivers for child, receivers in routes if len(child) == 1},
        groups=tuple(child for child, _ in routes if len(child) > 1),
        needs=tuple(risks(agreement)),
    )


def check_enough_cells(agreement: Agreement) -> None:
    """Refuse more clusters than the root can have cells, whatever the data."""
    parameters = agreement.parameters
    if parameters.task != "fit" or not parameters.has_local_clusters:
        return
    ((root,),) = layers(agreement)[-1:]
    most = parameters.n_local_clusters ** len(root.children)
    if most < parameters.n_clusters:
        raise ParameterError(
            f"n_local_clusters: {len(root.children)} times {parameters.n_local_clusters} clusters have at most {most} "
            f"intersections, too few for {parameters.n_clusters} clusters; use more local clusters"
        )
