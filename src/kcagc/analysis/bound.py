"""Theorem 1: how many nodes can be misclassified where its conditions hold, and which of them do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kcagc.analysis.conditions import Conditions
from kcagc.analysis.restricted import Restricted
from kcagc.analysis.words import finite
from kcagc.text import count, number

ENOUGH = 100.0  # "c > 100 will be sufficient" (the proof's footnote)


@dataclass(frozen=True, repr=False)
class Bound:
    """The theorem's promise: at most `nodes` of `n_nodes` are misclassified.

    `epsilon` is the largest share of local 1-bad nodes of any party, and `c` the constant that the joint and all local
    clusters allow. `formula` is (L ε + O(1) L c⁻⁴) n, at most n, whether or not the conditions hold. `unmet` says in
    words which do not; without any, `nodes` is the formula, or 0 where ε is 0. With one unmet the theorem promises
    nothing, so that `nodes` is n. That the start is within 10 times the optimum is taken for granted: KCAGC's starts
    are within a constant factor.
    """

    n_nodes: int
    epsilon: float
    c: float
    formula: float
    unmet: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether all conditions hold."""
        return not self.unmet

    @property
    def nodes(self) -> float:
        """How many nodes may be misclassified for all that the theorem says."""
        if not self.holds:
            return float(self.n_nodes)
        return self.formula if self.epsilon > 0 else 0.0

    def __repr__(self) -> str:
        promise = f"at most {number(self.nodes)} of {self.n_nodes:,} nodes" if self.holds else "promises nothing"
        return f"Bound({promise}, c={self.c:.3g}, epsilon={self.epsilon:.3g})"

    def as_dict(self) -> dict[str, Any]:
        """Give what a script reads."""
        return {
            "holds": self.holds,
            "misclassified_at_most": self.nodes,
            "formula": self.formula,
            "epsilon": self.epsilon,
            "c": finite(self.c),
            "unmet": list(self.unmet),
        }


def bound(
    joint: Conditions,
    own: Mapping[str, Conditions],
    near: Restricted,
    *,
    enough: float,
    order_constant: float,
) -> Bound:
    """Apply Theorem 1; `order_constant` stands for its O(1)."""
    n, n_parties = joint.n_nodes, len(own)
    epsilon = max(one.n_bad for one in own.values()) / n
    c = common_c(joint, own)
    rest = order_constant**0.25 / c if c > 0 else 1.0  # O(1) c⁻⁴ is its fourth power, which from 1 on says nothing
    formula = n_parties * (epsilon + min(rest, 1.0) ** 4) * n
    measured = {"the joint clusters": joint} | {f"{name}'s own clusters": one for name, one in own.items()}
    unmet = [
        f"{whose} allow c = {number(one.c)} only, which is not above {number(enough)}"
        for whose, one in sorted(measured.items(), key=lambda item: item[1].c)  # the one furthest away first
        if not one.c > enough
    ]
    part, violate = ("b", near.violate_b) if epsilon == 0 else ("a", near.violate_a)
    if violate:
        unmet.append(f"the restricted proximity condition ({part}) fails for {count(violate, 'node')} of {n:,}")
    return Bound(n, epsilon, c, min(formula, float(n)), tuple(unmet))


def common_c(joint: Conditions, own: Mapping[str, Conditions]) -> float:
    """Give the one constant of all separation assumptions: the least that any of them allows."""
    return min(joint.c, *(one.c for one in own.values()))
