"""What an operator must accept by name before a run may begin.

A policy is a party's own, never a parameter of the session: nobody else can accept for it. All that can be refused is
known from roster and parameters, so it is refused before anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcagc.errors import ParameterError, PolicyError
from kcagc.secagg.masks import TWO_PARTY_SUM

LABELLED_SUMS = "labelled-sums"
LOCAL_MEANS = "local-means"


@dataclass(frozen=True)
class Risk:
    """A disclosure beyond the default mode: the name by which it is accepted, and what it opens."""

    name: str
    opens: str


RISKS = {
    risk.name: risk
    for risk in (
        Risk(
            TWO_PARTY_SUM,
            "a data-holding aggregator sums with one other party and learns that party's distances by subtraction",
        ),
        Risk(
            LABELLED_SUMS,
            "a data-holding aggregator sees which node or cell each sum belongs to, and can separate the parties' "
            "shares by least squares: approximately from cell means",
        ),
        Risk(
            LOCAL_MEANS,
            "virtual nodes at local-cluster means with an aggregator that knows the labels: it recovers the distances "
            "between each party's local centres to the last digits, however many parties there are",
        ),
    )
}


class Policy:
    """What one operator has accepted, by name."""

    def __init__(self, accept: Iterable[str] = ()) -> None:
        if isinstance(accept, str):
            raise ParameterError(f'accept: must be a list of names, as ("{accept}",), not a bare string')
        names = list(accept)
        if not all(isinstance(name, str) for name in names):
            raise ParameterError(f"accept: must be a list of names, not {names!r}")
        self.accept = frozenset(names)
        unknown = sorted(self.accept - RISKS.keys())
        if unknown:
            raise ParameterError(f"accept: nothing is called {unknown[0]!r}; names are {', '.join(RISKS)}")

    def check(self, found: Iterable[str]) -> None:
        """Refuse what was found and not accepted."""
        refused = [RISKS[name] for name in dict.fromkeys(found) if name not in self.accept]
        if refused:
            listed = "; ".join(f'"{risk.name}": {risk.opens}' for risk in refused)
            names = ", ".join(f'"{risk.name}"' for risk in refused)
            raise PolicyError(
                f"this run would open more than the default does, and is refused: {listed}. Accept by name what is "
                f"meant ({names}), or keep to the default"
            )
