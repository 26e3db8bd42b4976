"""Who merges with whom: the tree of many parties, computed by each role from the roster and the parameters.

The parties are the leaves in the roster's order. Each layer joins `fan_in` neighbours at a time; one that is left over
moves up. All parties under a merge take part in its sums, and one aggregator sums for every merge. The flat method is
a tree of one merge; the basic method needs none, and its one sum has the whole roster as its group.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcagc.disclosure.policy import LABELLED_SUMS, LOCAL_MEANS
from kcagc.errors import ParameterError
from kcagc.protocol.agreement import Agreement
from kcagc.secagg.masks import TWO_PARTY_SUM, Group


@dataclass(frozen=True)
class Merge:
    """One inner node: the group that sums, and its children, each the names of the parties under it."""

    group: Group
    children: tuple[tuple[str, ...], ...]
    root: bool

    @property
    def speakers(self) -> tuple[str, ...]:
        """The first party of each child, which tells the others the child's clusters."""
        return tuple(child[0] for child in self.children)

    def routes(self) -> dict[str, tuple[str, ...]]:
        """Give, for each speaker, the members under other children, who are to hear its child's clusters."""
        return {
            child[0]: tuple(member for member in self.group.members if member not in child) for child in self.children
        }

    def child_of(self, party: str) -> int:
        """Give the number of the child that a party is under."""
        return next(number for number, child in enumerate(self.children) if party in child)


def layers(agreement: Agreement) -> list[list[Merge]]:
    """Give the merges from the leaves to the root, layer by layer; for the basic method the one group of all."""
    parties, aggregator, parameters = agreement.parties, agreement.aggregator, agreement.parameters
    if parameters.method == "basic" or parameters.task == "predict":
        return [[Merge(Group(parties, aggregator), tuple((party,) for party in parties), True)]]
    fan_in = len(parties) if parameters.method == "cells" else parameters.fan_in
    nodes: list[tuple[str, ...]] = [(party,) for party in parties]
    found: list[list[Merge]] = []
    while len(nodes) > 1:
        joined = [tuple(nodes[start : start + fan_in]) for start in range(0, len(nodes), fan_in)]
        layer, root = len(found) + 1, len(joined) == 1
        found.append(
            [
                Merge(Group(_members(children), aggregator, layer, index), children, root)
                for index, children in enumerate(joined, start=1)
                if len(children) > 1
            ]
        )
        nodes = [_members(children) for children in joined]
    return found


def _members(children: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    return tuple(party for child in children for party in child)


def risks(agreement: Agreement) -> list[str]:
    """Name what this session would open beyond the default mode."""
    groups = [merge.group for layer in layers(agreement) for merge in layer]
    found = []
    if any(group.exposes_one_party for group in groups):
        found.append(TWO_PARTY_SUM)
    parameters = agreement.parameters
    if any(group.aggregator_is_member for group in groups):
        found.append(LABELLED_SUMS)
        if parameters.task == "fit" and parameters.method != "basic" and parameters.virtual_nodes == "local":
            found.append(LOCAL_MEANS)
    return found


def check_enough_cells(agreement: Agreement) -> None:
    """Refuse more clusters than the root can have cells, whatever the data."""
    parameters = agreement.parameters
    if parameters.task != "fit" or parameters.method == "basic":
        return
    ((root,),) = layers(agreement)[-1:]
    most = parameters.n_local_clusters ** len(root.children)
    if most < parameters.n_clusters:
        raise ParameterError(
            f"n_local_clusters: {len(root.children)} times {parameters.n_local_clusters} clusters have at most {most} "
            f"intersections, which cannot make {parameters.n_clusters} clusters"
        )
