"""Who takes part in a sum and who receives it: the only place that decides whether a sum hides anything.

A group is computed by each party from the signed roster and parameters; it is never read from a message.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kcagc.errors import ParameterError, PolicyError

TWO_PARTY_SUM = "two-party-sum"


@dataclass(frozen=True)
class Group:
    """The parties whose vectors are added, in the agreed order, and the role that learns the sum.

    `layer` and `index` give the place of a merge in the tree, both counted from 1; the group of all parties, which
    needs no tree, has index 0.
    """

    members: tuple[str, ...]
    aggregator: str
    layer: int = 1
    index: int = 0

    def __post_init__(self) -> None:
        if len(self.members) < 2 or len(set(self.members)) < len(self.members):
            raise ParameterError(f"group {self.name}: a sum needs two different parties at least, not {self.members}")

    @property
    def name(self) -> str:
        """The group in messages, mask labels and reports: "all", or layer and index as in "2.1"."""
        return f"{self.layer}.{self.index}" if self.index else "all"

    @property
    def title(self) -> str:
        """What to call it to a person."""
        return "joint clustering" if not self.index else f"joint clustering {self.name}"

    @property
    def maskers(self) -> tuple[str, ...]:
        """Those who send masked vectors: all but a member that receives the sum itself (Protocol 4, line 2)."""
        return tuple(member for member in self.members if member != self.aggregator)

    @property
    def aggregator_is_member(self) -> bool:
        """Whether the aggregator takes part, and therefore knows which node or cell each sum belongs to."""
        return self.aggregator in self.members

    @property
    def exposes_one_party(self) -> bool:
        """Whether the aggregator knows all of a sum's terms but one, and so learns that one."""
        return len(self.maskers) < 2

    def check(self, accept: Collection[str]) -> None:
        """Refuse a sum that shows one party's values, unless the operator accepted that by name."""
        if self.exposes_one_party and TWO_PARTY_SUM not in set(accept):
            raise PolicyError(
                f"group {self.name}: {self.aggregator} would learn the values of {', '.join(self.maskers)} by "
                f'subtracting its own values from the sum; accept "{TWO_PARTY_SUM}", or let a coordinator sum'
            )
