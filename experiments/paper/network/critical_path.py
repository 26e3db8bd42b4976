"""Where the seconds go: the chain of messages that each had to wait for the one before, from the end to the beginning.

The last party has its labels because it heard a message; whoever sent that did so because of the last message that it
had heard itself, and so on to the first. A message that waited while its receiver was at work is not on the chain:
what set the receiver to work is. What is on the chain took all of the time, and what is not on it took none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.paper.network.roles import Played

_BRIEF = 0.02  # seconds: an aggregator that hears many takes in one after the other


@dataclass(frozen=True)
class Step:
    """A message on the chain, and what its receiver did before it said something in turn; times in seconds."""

    sender: str
    receiver: str
    message: str
    bytes: int
    sent_at: float  # since the beginning
    in_transit: float
    answering: float  # all that its receiver did then, of which:
    local: float
    committing: float


class _Moments:
    """The moments of one role, and the messages among them in the order of each peer."""

    def __init__(self, one: Played) -> None:
        self.events = one.events
        self.sent: dict[str, list[int]] = {}  # by peer, the places of what left
        self.heard: dict[int, tuple[str, int, float]] = {}  # by place, whose message it is, which, and when it came
        arrived: dict[str, list[float]] = {}
        heard: dict[str, int] = {}
        for place, (at, what, detail) in enumerate(self.events):
            if what == "sends":
                self.sent.setdefault(detail[0], []).append(place)
            elif what == "arrives":
                arrived.setdefault(detail, []).append(at)
            elif what == "hears":
                number = heard[detail[0]] = heard.get(detail[0], -1) + 1
                self.heard[place] = (detail[0], number, arrived[detail[0]][number])

    def cause_of(self, place: int) -> int | None:
        """Give the place of the message that led to a moment: the last that did not have to wait for long."""
        for one in reversed([one for one in self.heard if one < place]):
            if self.events[one][0] - self.heard[one][2] <= _BRIEF:
                return one
        return None

    def spent(self, what: str, first: int, last: int) -> float:
        """Give the seconds between beginnings and ends of a kind of work."""
        signs = {f"{what} begins": -1, f"{what} ends": 1}
        return sum(signs[event] * at for at, event, _ in self.events[first:last] if event in signs)


def critical_path(played: Sequence[Played], begun: float) -> list[Step]:
    """Give the chain from the moment that all are connected to the last party's labels."""
    roles = {one.name: _Moments(one) for one in played}
    _, receiver = max((one.when("labels")[-1], one.name) for one in played if one.labels is not None)
    place = next(place for place, (_, what, _) in enumerate(roles[receiver].events) if what == "labels")
    steps: list[Step] = []
    while (cause := (own := roles[receiver]).cause_of(place)) is not None:
        sender, number, arrived = own.heard[cause]
        left_place = roles[sender].sent[receiver][number]
        left = roles[sender].events[left_place][0]
        steps.append(
            Step(
                sender,
                receiver,
                *own.events[cause][2][1:],
                sent_at=max(left - begun, 0.0),
                in_transit=arrived - max(left, begun),
                answering=own.events[place][0] - arrived,
                local=own.spent("local", cause, place),
                committing=sum(detail for _, what, detail in own.events[cause:place] if what == "commit"),
            )
        )
        if left <= begun:
            break
        receiver, place = sender, left_place
    return steps[::-1]


def summed_up(steps: Sequence[Step]) -> dict[str, Any]:
    """Give how many messages waited for each other, and where the time went while they did."""
    local, committing = sum(step.local for step in steps), sum(step.committing for step in steps)
    return {
        "messages": len(steps),
        "in_transit": round(sum(step.in_transit for step in steps), 4),
        "local_work": round(local, 4),
        "commits": round(committing, 4),
        "other_work": round(sum(step.answering for step in steps) - local - committing, 4),
    }


def table(steps: Sequence[Step]) -> str:
    """Write the chain for people, in milliseconds."""
    head = f"{'':4}{'sent at':>9}  {'from':12}{'to':12}{'message':30}{'bytes':>10}{'transit':>9}{'then':>9}{'local':>9}"
    lines = [
        f"{number:3} {1e3 * one.sent_at:9.1f}  {one.sender:12}{one.receiver:12}{one.message:30}{one.bytes:10,}"
        f"{1e3 * one.in_transit:9.1f}{1e3 * one.answering:9.1f}{1e3 * one.local:9.1f}"
        for number, one in enumerate(steps, start=1)
    ]
    return "\n".join([head, *lines])
