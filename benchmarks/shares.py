"""How a role's time divides: what it did while it worked, and whether a message was under way while it did not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.instruments import ORDER
from experiments.paper.network.roles import Played

Interval = tuple[float, float]


def shares(played: Sequence[Played], begun: float, ended: float) -> dict[str, dict[str, float]]:
    """Give for each role the seconds of every kind between two moments; they add up to the time between them.

    While a role has nothing to do, that is network if a message of its own or for it is under way (from the moment it
    is handed to the link until all of it has come, with frames, TLS and gRPC), and waiting if not.
    """
    flights = _flights(played)
    result = {}
    for one in played:
        spent = dict.fromkeys(ORDER, 0.0)
        busy = []
        for _, what, detail in one.events:
            if what == "step":
                begin, end, kinds = detail
                inside = max(min(end, ended) - max(begin, begun), 0.0)
                if inside > 0:
                    busy.append((max(begin, begun), min(end, ended)))
                    for kind, seconds in kinds.items():
                        spent[kind] += seconds * inside / (end - begin)
        idle = _gaps(sorted(busy), begun, ended)
        under_way = _joined(flight for name, flight in flights if name == one.name)
        spent["network"] = _overlap(idle, under_way)
        spent["waiting"] = sum(end - begin for begin, end in idle) - spent["network"]
        result[one.name] = spent
    return result


def _flights(played: Sequence[Played]) -> list[tuple[str, Interval]]:
    """Give every message's time under way, once for its sender and once for its receiver."""
    left: dict[tuple[str, str], list[float]] = {}
    came: dict[tuple[str, str], list[float]] = {}
    for one in played:
        for at, what, detail in one.events:
            if what == "sends":
                left.setdefault((one.name, detail[0]), []).append(at)
            elif what == "arrives":
                came.setdefault((detail, one.name), []).append(at)
    found = []
    for (sender, receiver), moments in left.items():
        # The last words of a run may never come.
        for begin, end in zip(moments, came.get((sender, receiver), []), strict=False):
            found += [(sender, (begin, end)), (receiver, (begin, end))]
    return found


def _joined(intervals: Iterable[Interval]) -> list[Interval]:
    """Give intervals without overlaps that cover the same."""
    result: list[Interval] = []
    for begin, end in sorted(intervals):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((begin, end))
    return result


def _gaps(busy: list[Interval], begun: float, ended: float) -> list[Interval]:
    """Give what lies between intervals that may overlap."""
    found, at = [], begun
    for begin, end in _joined(busy):
        if begin > at:
            found.append((at, begin))
        at = max(at, end)
    if ended > at:
        found.append((at, ended))
    return found


def _overlap(first: list[Interval], second: list[Interval]) -> float:
    total, place = 0.0, 0
    for begin, end in first:
        while place < len(second) and second[place][1] <= begin:
            place += 1
        here = place
        while here < len(second) and second[here][0] < end:
            total += max(min(end, second[here][1]) - max(begin, second[here][0]), 0.0)
            here += 1
    return total
