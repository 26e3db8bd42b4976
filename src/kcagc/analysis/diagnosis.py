"""`diagnose`: all parties' data against the conditions of Theorem 1, pooled in one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kcagc.analysis.bound import ENOUGH, Bound, bound, common_c
from kcagc.analysis.clusters import Around, Clusters
from kcagc.analysis.conditions import Conditions, conditions
from kcagc.analysis.party import HEADINGS, PartyDiagnosis, check_constant, line, measured, own_clusters
from kcagc.analysis.restricted import Restricted, restricted
from kcagc.analysis.verdict import joint_verdict
from kcagc.analysis.words import aligned, spread
from kcagc.errors import DataError, ParameterError
from kcagc.graph.filters import Filter
from kcagc.graph.graph import Graph
from kcagc.inputs import bring, check_tables, graphs_of
from kcagc.protocol.local import PartyData
from kcagc.protocol.parameters import draw_seeds, settings_of
from kcagc.text import count, number, percent


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Whether data meet the conditions of Theorem 1: each party, all together, and what follows.

    `joint` measures the target clusters in all parties' rows side by side, `restricted` is Definition 2, `bound`
    Theorem 1; `verdict` says it in sentences, the most important first.
    """

    parties: tuple[PartyDiagnosis, ...]
    joint: Conditions
    restricted: Restricted
    bound: Bound
    verdict: tuple[str, ...]

    def __repr__(self) -> str:
        who = count(len(self.parties), "table")
        return f"Diagnosis({who} of {self.joint.n_nodes:,} nodes, joint {self.joint!r}, {self.bound!r})"

    def lines(self) -> list[tuple[str, ...]]:
        """Give the lines of the table whose columns are `HEADINGS`."""
        return [*(row for party in self.parties for row in party.lines()), line("joint, target", self.joint)]

    def figures(self) -> tuple[str, ...]:
        """Give what does not fit the table: Definition 2 and Theorem 1."""
        near, theorem = self.restricted, self.bound
        return (
            f"restricted proximity condition: (a) met by {percent(near.share_a)} of nodes, (b) by "
            f"{percent(near.share_b)}; local |X-C| {number(near.norm)}, m_0 {spread(near.m0)}",
            f"Theorem 1: c = {number(theorem.c)}, epsilon = {theorem.epsilon:.3g}, "
            + ("misclassified at most " if theorem.holds else "not applicable; its formula would give ")
            + f"{number(theorem.nodes if theorem.holds else theorem.formula)} of {theorem.n_nodes:,} nodes",
        )

    def summary(self) -> str:
        """Give table, figures and verdict as text."""
        table = aligned([HEADINGS, *self.lines()])
        return "\n".join([*table, "", *self.figures(), "", *(f"- {words}" for words in self.verdict)])

    def as_dict(self) -> dict[str, Any]:
        """Give what a script reads; what is infinite is None."""
        return {
            "nodes": self.joint.n_nodes,
            "parties": [party.as_dict() for party in self.parties],
            "joint": self.joint.as_dict(),
            "restricted": self.restricted.as_dict(),
            "bound": self.bound.as_dict(),
            "verdict": list(self.verdict),
        }


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

    - `model`: a `KCAGC`, fitted or not, whose settings say how tables become rows; `X` and `adjacency` as for `fit`.
    - `target`: the cluster of every node, in the graph's order; None takes what the fitted model found. Its k is the
      number of clusters that have nodes.
    - `local_labels`: the local target clusters, one list of labels for each party; None takes those that each party
      finds alone, the very ones of a fit with the same whole number as `random_state`.
    - `names` of the parties; None calls them party-1, party-2, ...
    - `order_constant` stands for what the paper hides in O(.): O(1/c) of Definition 2 is order_constant / c, O(1) of
      the theorem is order_constant. `enough`: the c that has to be exceeded.
    - `progress` is called with a few words before each step.

    It needs all tables in one place: for data that may be shown, such as public or generated ones. A party alone has
    `kcagc diagnose --config`.
    """
    check_tables(X, None, adjacency)
    check_constant("order_constant", order_constant)
    check_constant("enough", enough)
    say = progress or (lambda _: None)
    graphs, shared = graphs_of(adjacency, len(X))
    settings, graph_filter = settings_of(model, "shared" if shared else "own")
    parameters = settings.resolve(len(X), graph_filter)
    called = _names(names, len(X))
    given = _one_each("local_labels", local_labels, called)
    data = _data(model, X, graphs, called, graph_filter)
    n_nodes = data[called[0]].graph.n_nodes
    wanted = Clusters.of(_target(model, target), n_nodes, "target")
    seed, _ = draw_seeds(getattr(model, "random_state", None))
    own: dict[str, Around] = {}
    parties: dict[str, PartyDiagnosis] = {}
    for name in called:
        say(f"{name}: filtering, projecting and clustering")
        own[name] = own_clusters(name, data.pop(name), parameters, seed, given.get(name))
        parties[name] = measured(name, own[name], wanted, enough)
    say("all parties together")
    together = Around.of(np.hstack([one.rows for one in own.values()]), wanted)
    joint = conditions(together)
    mine = {name: party.own for name, party in parties.items()}
    seen = {name: party.target for name, party in parties.items() if party.target is not None}
    c = common_c(joint, mine)
    near = restricted(together, joint.norm, list(own.values()), c=c, order_constant=order_constant)
    theorem = bound(joint, mine, near, enough=enough, order_constant=order_constant)
    verdict = joint_verdict(theorem, joint, mine, seen, enough, tree=parameters.method == "tree")
    return Diagnosis(tuple(parties.values()), joint, near, theorem, verdict)


def _names(names: Sequence[str] | None, n_parties: int) -> list[str]:
    called = [f"party-{number}" for number in range(1, n_parties + 1)] if names is None else list(names)
    if len(called) != n_parties or len(set(called)) != n_parties:
        raise ParameterError(f"names: must be {n_parties} different names, one for each table, not {called!r}")
    return called


def _one_each(what: str, given: Sequence[ArrayLike] | None, names: list[str]) -> dict[str, ArrayLike]:
    if given is None:
        return {}
    if not isinstance(given, list | tuple) or len(given) != len(names):
        raise ParameterError(f"{what}: must be a list of {len(names)}, one for each party")
    return dict(zip(names, given, strict=True))


def _data(
    model: Any, X: Sequence[Any], graphs: list[Graph], names: list[str], graph_filter: Filter
) -> dict[str, PartyData]:
    """Make rows of the tables as the model does."""
    asked = {name: getattr(model, name) for name in ("id_column", "nodes", "transformers") if hasattr(model, name)}
    return bring(names, graphs, X, graph_filter, **asked).data


def _target(model: Any, target: ArrayLike | None) -> ArrayLike:
    if target is not None:
        return target
    found: ArrayLike | None = getattr(model, "labels_", None)
    if found is None:
        raise DataError("target: is missing; give the cluster of every node, or a model that has been fitted")
    return found
