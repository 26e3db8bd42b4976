"""The number of messages that had to wait for each other, from the order of messages, without a clock.

The depth of a message is one more than the depth of the deepest message that its sender had received before. The depth
at which a party knows its labels is the number of one-way delays that no faster computer can avoid. The aggregator
serves many groups: a message to a group depends on what it received from that group only. Connecting does not count:
the first message of each role has depth one. A party knows its labels when it sends the receipt for them. It knows that
all parties have the same labels when it has received all receipts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.paper.network.roles import MeasuredRole

_RECEIPT = "encrypted receipt"
_OWN = "own groups"


@dataclass(frozen=True)
class Delays:
    """One-way delays until the last party knows its labels, and until it knows that all have the same."""

    known: int
    confirmed: int


class _Replayed:
    """The depth of one role: of a party as a whole, of the aggregator for each group."""

    def __init__(self, one: MeasuredRole, *, aggregates: bool) -> None:
        self.party = one.labels is not None
        self.events = [event for event in one.events if event[1] in ("sends", "receives", "labels")]
        self.place = 0
        self.known: int | None = None
        self.confirmed: int | None = None
        self._aggregates = aggregates
        self._groups = {merge["group"] for merge in one.summary.get("merges", [])}
        self._depths: dict[str, int] = {}

    def depth_of(self, words: str) -> int:
        """Return the depth for the topic of a message."""
        return self._depths.get(self._topic(words), 0)

    def receive(self, words: str, depth: int) -> None:
        """Raise the depth for the topic of a message."""
        self._depths[self._topic(words)] = max(self.depth_of(words), depth)

    def confirm(self) -> None:
        """Store the depth of all topics."""
        if self.party and self.confirmed is None:
            self.confirmed = max(self._depths.values(), default=0)

    def _topic(self, words: str) -> str:
        if not self._aggregates:
            return ""
        about = topic_of(words)
        return _OWN if about in self._groups else about  # a party that aggregates also knows its own groups


def delays(roles: Sequence[MeasuredRole]) -> Delays:
    """Return the longest chains of messages, by replaying all roles; the aggregator is the last of them."""
    replayed = {one.name: _Replayed(one, aggregates=one is roles[-1]) for one in roles}
    sent: dict[tuple[str, str], list[int]] = {}
    received: dict[tuple[str, str], int] = {}
    while any([_advance(name, role, sent, received) for name, role in replayed.items()]):  # noqa: C419 - all take a turn
        pass
    missing = [name for name, role in replayed.items() if role.party and role.confirmed is None]
    if missing:
        raise RuntimeError(f"the events of a run contradict each other: no labels for {', '.join(missing)}")
    confirmed = max(role.confirmed for role in replayed.values() if role.confirmed is not None)
    return Delays(
        max((role.known for role in replayed.values() if role.known is not None), default=confirmed), confirmed
    )


def _advance(
    name: str, role: _Replayed, sent: dict[tuple[str, str], list[int]], received: dict[tuple[str, str], int]
) -> bool:
    """Replay a role until a message that was not sent yet; return whether it advanced."""
    before = role.place
    for _, what, detail in role.events[before:]:
        if what == "sends":
            depth = role.depth_of(detail[1])
            sent.setdefault((name, detail[0]), []).append(depth)
            if detail[1] == _RECEIPT and role.known is None:
                role.known = depth
        elif what == "receives":
            way = (detail[0], name)
            number = received.get(way, 0)
            if number >= len(sent.get(way, [])):
                break
            received[way] = number + 1
            role.receive(detail[1], sent[way][number] + 1)
        else:
            role.confirm()
        role.place += 1
    return role.place > before


def topic_of(words: str) -> str:
    """Return the topic of a message: its group, or an exchange of all parties."""
    kind, *rest = words.split(" ")
    if kind in ("encrypted", "relayed"):
        return " ".join(rest).removeprefix("labels ")
    behind = {"masked": 2, "answer": 1, "choice": 1, "finished": 0}  # words after the name of the group
    return " ".join(rest[: len(rest) - behind[kind]]) if kind in behind else ""


def sums_by_layer(roles: Sequence[MeasuredRole]) -> dict[int, int]:
    """Return the largest number of secure sums of a merge for each layer."""
    layer_of: dict[str, int] = {}
    for one in roles:
        layer_of |= {merge["group"]: merge["layer"] for merge in one.summary.get("merges", [])}
    sums: dict[str, set[int]] = {group: set() for group in layer_of}
    for one in roles:
        for group, number in _vectors(one):
            sums.setdefault(group, set()).add(number)
    most: dict[int, int] = {}
    for group, numbers in sums.items():
        layer = layer_of.get(group, 0)
        most[layer] = max(most.get(layer, 0), len(numbers))
    return most


def _vectors(one: MeasuredRole) -> list[tuple[str, int]]:
    """Return group and number of every vector that a role sent."""
    return [found for _, what, detail in one.events if what == "sends" and (found := _vector(detail))]


def _vector(detail: Any) -> tuple[str, int] | None:
    words = detail[1].split(" ")
    if words[0] != "masked" or not words[-1].isdigit():
        return None
    return " ".join(words[1:-2]), int(words[-1])


def allowed(by_layer: dict[int, int]) -> int:
    """Return the target for delays: four, and two for each secure sum, in every layer of the tree."""
    return sum(4 + 2 * count for count in by_layer.values())
