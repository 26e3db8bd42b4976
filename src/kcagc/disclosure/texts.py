"""Texts of disclosures and risks: for every kind of disclosure its title and what the receiver learns.

The texts are in `texts.toml`. A kind without a text cannot be disclosed: every message asks for its text before a role
sends it. The texts describe what is sent and what the receiver can compute from it, as far as this is known.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from kcagc.secagg.masks import Group

LABELLED_SUMS = "labelled-sums"
LOCAL_MEANS = "local-means"
CHANGED_ROSTER = "changed-roster"
REVEALING_LABELS = "revealing-labels"
ANONYMOUS_GEOMETRY = "anonymous-geometry"
PARTIAL_MATCHES = "partial-matches"


@dataclass(frozen=True)
class DisclosureText:
    """Text of one kind of disclosure.

    Attributes
    ----------
    title : str
        Name of the disclosure in a few words.
    learns : str
        What the receiver learns, in full sentences.
    paper : str
        Place in the paper's security analysis that names this disclosure; empty if there is none.
    about_data : bool
        Whether the receiver learns something that depends on the data of a party.
    risk : str
        Name of the risk that an operator must accept, if this discloses more than the default settings do; else empty.
    """

    title: str
    learns: str
    paper: str = ""
    about_data: bool = False
    risk: str = ""

    @property
    def weaker(self) -> bool:
        """Whether this discloses more than the default settings do."""
        return bool(self.risk)


@dataclass(frozen=True)
class Risk:
    """A disclosure beyond the default settings, which an operator must accept by name.

    Attributes
    ----------
    name : str
        Name by which an operator accepts it.
    discloses : str
        What it discloses, in full sentences.

    Examples
    --------
    >>> RISKS["two-party-sum"].name
    'two-party-sum'
    """

    name: str
    discloses: str


_FILE = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))
_PAPER = _FILE.pop("paper") | {"": ""}
RISKS = {name: Risk(name, discloses) for name, discloses in _FILE.pop("risk").items()}
TEXTS = {
    f"{group}/{kind}": DisclosureText(**(text | {"paper": _PAPER[text.get("paper", "")]}))
    for group, kinds in _FILE.items()
    for kind, text in kinds.items()
}


_OPENED = {
    "rows": "rows",
    "shares": "padded",
    "scores": "padded",
    "weights": "padded",
    "geometry": "geometry",
}  # by step


def opened_kind(group: Group, step: str) -> str:
    """Return the kind of disclosure of a sum that this group opens in this step."""
    if step in _OPENED:
        return f"opened/{_OPENED[step]}"
    knowledge = "two-party" if group.exposes_one_party else "labelled" if group.aggregator_is_member else "blinded"
    return f"opened/comparisons.{knowledge}"
