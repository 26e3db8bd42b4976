"""The critical path of a run: the chain of messages in which each message waited for the one before it.

The chain is built from the end. The last party has its labels because it received a message. The sender of that message
sent it because of the last message that it had received, and so on to the first. A message that arrived while its
receiver was at work is not on the chain; the message that caused this work is. The chain explains all of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.paper.network.roles import MeasuredRole

_BRIEF = 0.02  # seconds: an aggregator handles many messages one after the other


@dataclass(frozen=True)
class Step:
    """A message on the chain, and the work of its receiver before the next message; times in seconds."""

    sender: str
    receiver: str
    message: str
    bytes: int
    sent_at: float  # since the start of the run
    in_transit: float
    answering: float  # all work of the receiver, of which:
    local: float
    committing: float


class _Moments:
    """The events of one role, and its messages in the order of each peer."""

    def __init__(self, one: MeasuredRole) -> None:
        self.events = one.events
        self.sent: dict[str, list[int]] = {}  # by peer, the positions of sent messages
        self.received: dict[int, tuple[str, int, float]] = {}  # by position: sender, number and arrival of a message
        arrived: dict[str, list[float]] = {}
        counts: dict[str, int] = {}
        for place, (at, what, detail) in enumerate(self.events):
            if what == "sends":
                self.sent.setdefault(detail[0], []).append(place)
            elif what == "arrives":
                arrived.setdefault(detail, []).append(at)
            elif what == "receives":
                number = counts[detail[0]] = counts.get(detail[0], -1) + 1
                self.received[place] = (detail[0], number, arrived[detail[0]][number])

    def cause_of(self, place: int) -> int | None:
        """Return the position of the message that caused an event: the last message that did not wait for long."""
        for one in reversed([one for one in self.received if one < place]):
            if self.events[one][0] - self.received[one][2] <= _BRIEF:
                return one
        return None

    def spent(self, what: str, first: int, last: int) -> float:
        """Return the total seconds of one kind of work."""
        signs = {f"{what} begins": -1, f"{what} ends": 1}
        return sum(signs[event] * at for at, event, _ in self.events[first:last] if event in signs)


def critical_path(roles: Sequence[MeasuredRole], start_time: float) -> list[Step]:
    """Return the chain from the connection of all roles to the labels of the last party."""
    moments = {one.name: _Moments(one) for one in roles}
    _, receiver = max((one.when("labels")[-1], one.name) for one in roles if one.labels is not None)
    place = next(place for place, (_, what, _) in enumerate(moments[receiver].events) if what == "labels")
    steps: list[Step] = []
    while (cause := (own := moments[receiver]).cause_of(place)) is not None:
        sender, number, arrived = own.received[cause]
        left_place = moments[sender].sent[receiver][number]
        left = moments[sender].events[left_place][0]
        steps.append(
            Step(
                sender,
                receiver,
                *own.events[cause][2][1:],
                sent_at=max(left - start_time, 0.0),
                in_transit=arrived - max(left, start_time),
                answering=own.events[place][0] - arrived,
                local=own.spent("local", cause, place),
                committing=sum(detail for _, what, detail in own.events[cause:place] if what == "commit"),
            )
        )
        if left <= start_time:
            break
        receiver, place = sender, left_place
    return steps[::-1]


def summed_up(steps: Sequence[Step]) -> dict[str, Any]:
    """Return the number of messages on the chain, and the time of each kind of work."""
    local, committing = sum(step.local for step in steps), sum(step.committing for step in steps)
    return {
        "messages": len(steps),
        "in_transit": round(sum(step.in_transit for step in steps), 4),
        "local_work": round(local, 4),
        "commits": round(committing, 4),
        "other_work": round(sum(step.answering for step in steps) - local - committing, 4),
    }


def table(steps: Sequence[Step]) -> str:
    """Return the chain as a table, in milliseconds."""
    head = f"{'':4}{'sent at':>9}  {'from':12}{'to':12}{'message':30}{'bytes':>10}{'transit':>9}{'then':>9}{'local':>9}"
    lines = [
        f"{number:3} {1e3 * one.sent_at:9.1f}  {one.sender:12}{one.receiver:12}{one.message:30}{one.bytes:10,}"
        f"{1e3 * one.in_transit:9.1f}{1e3 * one.answering:9.1f}{1e3 * one.local:9.1f}"
        for number, one in enumerate(steps, start=1)
    ]
    return "\n".join([head, *lines])
