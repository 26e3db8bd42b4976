"""Policy: the disclosures beyond the default settings that an operator accepts by name before a run starts.

Each role has its own policy. It is not a parameter of the session, so no role can accept for another. All risks follow
from the participants and the parameters, so a role refuses a run before it sends anything.
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
    """A disclosure beyond the default settings.

    Attributes
    ----------
    name : str
        Name by which an operator accepts it.
    discloses : str
        What it discloses, in full sentences.
    """

    name: str
    discloses: str


RISKS = {
    risk.name: risk
    for risk in (
        Risk(
            TWO_PARTY_SUM,
            "The aggregator is a party and adds its values to those of only one other party. It learns the other "
            "party's distances by subtraction.",
        ),
        Risk(
            LABELLED_SUMS,
            "The aggregator is a party and knows which node or cell each sum belongs to. It can separate the parties' "
            "shares by least squares: approximately, if virtual nodes are cell means.",
        ),
        Risk(
            LOCAL_MEANS,
            "Virtual nodes are local means, and the aggregator knows the labels. It can compute the distances between "
            "the local centres of each party to the last digits, for any number of parties.",
        ),
    )
}


class Policy:
    """The risks that one operator accepts.

    Parameters
    ----------
    accept : iterable of str, default ()
        Names of risks, see `RISKS`.

    Raises
    ------
    ParameterError
        If a name is unknown.

    Examples
    --------
    >>> Policy(["labelled-sums"]).check(["labelled-sums"])
    """

    def __init__(self, accept: Iterable[str] = ()) -> None:
        if isinstance(accept, str):
            raise ParameterError(f'accept: must be a list of names, for example ("{accept}",), not a single text')
        names = list(accept)
        if not all(isinstance(name, str) for name in names):
            raise ParameterError(f"accept: must be a list of names, not {names!r}")
        self.accept = frozenset(names)
        unknown = sorted(self.accept - RISKS.keys())
        if unknown:
            raise ParameterError(f"accept: there is no risk {unknown[0]!r}; the names are {', '.join(RISKS)}")

    def check(self, risks: Iterable[str]) -> None:
        """Raise `PolicyError` if the operator has not accepted one of these risks."""
        refused = [RISKS[name] for name in dict.fromkeys(risks) if name not in self.accept]
        if refused:
            listed = " ".join(f'"{risk.name}": {risk.discloses}' for risk in refused)
            names = ", ".join(f'"{risk.name}"' for risk in refused)
            raise PolicyError(
                f"this run would disclose more than the default settings do. {listed} To run it, accept {names} in "
                "your policy; otherwise use a coordinator as aggregator"
            )
