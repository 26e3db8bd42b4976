"""One party's share of a diagnosis, which needs nothing but its own data: no other party, no network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from numpy.typing import ArrayLike

from kcagc._types import FloatArray
from kcagc.analysis.bound import ENOUGH
from kcagc.analysis.clusters import Around, Clusters
from kcagc.analysis.conditions import Conditions, conditions
from kcagc.analysis.verdict import party_verdict
from kcagc.analysis.words import aligned, spread
from kcagc.errors import DataError, ParameterError
from kcagc.parameters import check_between
from kcagc.protocol.local import PartyData, compute_local
from kcagc.protocol.parameters import Parameters
from kcagc.text import number, percent

HEADINGS = ("", "clusters", "|X-C|", "Delta", "c", "limited by", "1-bad", "1-good")
LARGEST = 1e12  # of the constants that the paper hides in O(.)


@dataclass(frozen=True, repr=False)
class PartyDiagnosis:
    """One party: its `own` clusters (the paper's T^l), and the `target` clusters as its rows alone show them.

    The theorem speaks of the own clusters only. The target clusters say which of them this party's columns tell apart.
    """

    name: str
    own: Conditions
    target: Conditions | None
    verdict: tuple[str, ...]

    def __repr__(self) -> str:
        seen = "" if self.target is None else f", target {self.target!r}"
        return f"PartyDiagnosis({self.name!r}, own {self.own!r}{seen})"

    def lines(self) -> list[tuple[str, ...]]:
        """Give its lines of the table whose columns are `HEADINGS`."""
        seen = [] if self.target is None else [line(f"{self.name}, target", self.target)]
        return [line(f"{self.name}, own", self.own), *seen]

    def summary(self) -> str:
        """Give table and verdict as text."""
        return "\n".join([*aligned([HEADINGS, *self.lines()]), "", *(f"- {words}" for words in self.verdict)])

    def as_dict(self) -> dict[str, Any]:
        """Give what a script reads."""
        return {
            "name": self.name,
            "own": self.own.as_dict(),
            "target": None if self.target is None else self.target.as_dict(),
            "verdict": list(self.verdict),
        }


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
    """Diagnose one party alone: its own clusters and, where `labels` are known, how its rows show those.

    `local_labels` take the place of the clusters that it would find with this `seed`.
    """
    check_constant("enough", enough)
    target = None if labels is None else Clusters.of(labels, data.graph.n_nodes, f"{name}: labels")
    own = own_clusters(name, data, parameters, seed, local_labels)
    return measured(name, own, target, enough)


def measured(name: str, own: Around, target: Clusters | None, enough: float) -> PartyDiagnosis:
    """Measure a party's own clusters and the target's in the same rows."""
    mine = conditions(own)
    seen = None if target is None else conditions(Around.of(own.rows, target))
    return PartyDiagnosis(name, mine, seen, party_verdict(name, mine, seen, enough))


def own_clusters(
    name: str, data: PartyData, parameters: Parameters, seed: int, local_labels: ArrayLike | None
) -> Around:
    """Give the rows that this party clusters in a run, with its own clusters or those that are given (T^l)."""
    if local_labels is not None:
        given = Clusters.of(local_labels, data.graph.n_nodes, f"{name}: local_labels")
        return Around.of(_rows(name, data, parameters), given)
    if parameters.method == "basic":
        raise ParameterError(
            'method: "basic" makes no local clusters, which is what Theorem 1 is about; diagnose "cells" or "tree"'
        )
    try:
        local = compute_local(data, parameters, seed)
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
    return Around.of(local.rows, Clusters.of(local.labels, data.graph.n_nodes, name))


def _rows(name: str, data: PartyData, parameters: Parameters) -> FloatArray:
    # The basic method with these starts filters and projects as all do, and clusters nothing.
    alone = msgspec.structs.replace(parameters, method="basic", n_local_clusters=0, seeding="d2")
    try:
        return compute_local(data, alone, 0).rows
    except DataError as error:
        raise DataError(f"{name}: {error}") from error


def check_constant(name: str, value: float) -> None:
    """Refuse a constant that is no number, or below 0."""
    check_between(name, value, 0.0, LARGEST)


def line(who: str, one: Conditions) -> tuple[str, ...]:
    """Give one line of the table."""
    pair = "" if one.pair is None else f"{one.pair[0]}, {one.pair[1]}"
    bad = f"{one.n_bad:,}"
    return who, str(len(one.sizes)), number(one.norm), spread(one.deltas), number(one.c), pair, bad, percent(one.good)
