"""How many messages had to wait for one another, counted from who sent what after hearing what, without any clock.

A message is as deep as the deepest that its sender had heard when it sent it, and one more. The depth of what a party
has heard when it knows its labels is the number of one-way delays that no faster computer can avoid. The aggregator
serves many groups at once: what it says to a group depends on what it heard from that group, not on all it ever heard.
Connecting is not in it: each role's first message has depth one. A party knows its labels when it sends the receipt
for them; that all have the same it knows when it has everybody's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.paper.network.roles import Played

ITERATIONS = ("margin", "lloyd")  # stages of sums that are iterations
_RECEIPT = "boxes receipt"
_OWN = "own groups"


@dataclass(frozen=True)
class Delays:
    """One-way delays until the last party knows its labels, and until it knows that all have the same."""

    known: int
    confirmed: int


class _Replayed:
    """How deep one role is: a party as a whole, the aggregator for each group that it serves."""

    def __init__(self, one: Played, *, aggregates: bool) -> None:
        self.party = one.labels is not None
        self.events = [event for event in one.events if event[1] in ("sends", "hears", "labels")]
        self.place = 0
        self.known: int | None = None
        self.confirmed: int | None = None
        self._aggregates = aggregates
        self._groups = {merge["group"] for merge in one.summary.get("merges", [])}
        self._depths: dict[str, int] = {}

    def depth_of(self, words: str) -> int:
        """Give how deep it is in what a message is about."""
        return self._depths.get(self._topic(words), 0)

    def hear(self, words: str, depth: int) -> None:
        """Go deeper in what a message is about."""
        self._depths[self._topic(words)] = max(self.depth_of(words), depth)

    def confirm(self) -> None:
        """Note how deep all of it is."""
        if self.party and self.confirmed is None:
            self.confirmed = max(self._depths.values(), default=0)

    def _topic(self, words: str) -> str:
        if not self._aggregates:
            return ""
        about = topic_of(words)
        return _OWN if about in self._groups else about  # a party that aggregates brings what it knows along


def delays(played: Sequence[Played]) -> Delays:
    """Give the longest chains of messages, by replaying all roles, the aggregator last; each goes on while it can."""
    roles = {one.name: _Replayed(one, aggregates=one is played[-1]) for one in played}
    sent: dict[tuple[str, str], list[int]] = {}
    heard: dict[tuple[str, str], int] = {}
    while any([_goes_on(name, role, sent, heard) for name, role in roles.items()]):  # noqa: C419 - all take a turn
        pass
    missing = [name for name, role in roles.items() if role.party and role.confirmed is None]
    if missing:
        raise RuntimeError(f"the moments of a run do not fit together: no labels for {', '.join(missing)}")
    confirmed = max(role.confirmed for role in roles.values() if role.confirmed is not None)
    return Delays(max((role.known for role in roles.values() if role.known is not None), default=confirmed), confirmed)


def _goes_on(
    name: str, role: _Replayed, sent: dict[tuple[str, str], list[int]], heard: dict[tuple[str, str], int]
) -> bool:
    """Replay a role until it hears what nobody has sent yet; say whether it came any further."""
    before = role.place
    for _, what, detail in role.events[before:]:
        if what == "sends":
            depth = role.depth_of(detail[1])
            sent.setdefault((name, detail[0]), []).append(depth)
            if detail[1] == _RECEIPT and role.known is None:
                role.known = depth
        elif what == "hears":
            way = (detail[0], name)
            number = heard.get(way, 0)
            if number >= len(sent.get(way, [])):
                break
            heard[way] = number + 1
            role.hear(detail[1], sent[way][number] + 1)
        else:
            role.confirm()
        role.place += 1
    return role.place > before


def topic_of(words: str) -> str:
    """Say what a message is about: the group that it belongs to, or an exchange of all parties."""
    kind, *rest = words.split(" ")
    if kind in ("encrypted", "relayed"):
        return " ".join(rest).removeprefix("labels ")
    behind = {"masked": 2, "answer": 1, "choice": 1, "finished": 0}  # words after the group's name
    return " ".join(rest[: len(rest) - behind[kind]]) if kind in behind else ""


def iterations(played: Sequence[Played]) -> dict[int, int]:
    """Give for each layer of the tree the most iterations of a merge (the 1/9 step is one), from the vectors sent."""
    layer_of: dict[str, int] = {}
    for one in played:
        layer_of |= {merge["group"]: merge["layer"] for merge in one.summary.get("merges", [])}
    sums: dict[str, set[int]] = {group: set() for group in layer_of}
    for one in played:
        for group, stage, number in _vectors(one):
            if stage in ITERATIONS:
                sums.setdefault(group, set()).add(number)
    most: dict[int, int] = {}
    for group, numbers in sums.items():
        layer = layer_of.get(group, 0)
        most[layer] = max(most.get(layer, 0), len(numbers))
    return most


def _vectors(one: Played) -> list[tuple[str, str, int]]:
    """Give group, stage and number of every vector that a role sent."""
    return [found for _, what, detail in one.events if what == "sends" and (found := _vector(detail))]


def _vector(detail: Any) -> tuple[str, str, int] | None:
    words = detail[1].split(" ")
    if words[0] != "masked" or not words[-1].isdigit():
        return None
    return " ".join(words[1:-2]), words[-2], int(words[-1])


def allowed(by_layer: dict[int, int]) -> int:
    """Give the most delays that are wanted: four, and two for each iteration, in every layer of the tree."""
    return sum(4 + 2 * count for count in by_layer.values())
