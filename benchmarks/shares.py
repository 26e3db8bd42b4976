"""The division of a role's time: kinds of work while it works, network or waiting while it does not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.instruments import ORDER
from experiments.paper.network.roles import MeasuredRole

Interval = tuple[float, float]


def shares(roles: Sequence[MeasuredRole], start_time: float, ended: float) -> dict[str, dict[str, float]]:
    """Return for each role the seconds of every kind between two moments; they add up to the time between both.

    A role without work counts as network while a message from it or to it is in transit (from the handover to the
    connection until it has arrived completely, with frames, TLS and gRPC), and as waiting otherwise.
    """
    flights = _flights(roles)
    result = {}
    for one in roles:
        spent = dict.fromkeys(ORDER, 0.0)
        busy = []
        for _, what, detail in one.events:
            if what == "step":
                begin, end, kinds = detail
                inside = max(min(end, ended) - max(begin, start_time), 0.0)
                if inside > 0:
                    busy.append((max(begin, start_time), min(end, ended)))
                    for kind, seconds in kinds.items():
                        spent[kind] += seconds * inside / (end - begin)
        idle = _gaps(sorted(busy), start_time, ended)
        under_way = _joined(flight for name, flight in flights if name == one.name)
        spent["network"] = _overlap(idle, under_way)
        spent["waiting"] = sum(end - begin for begin, end in idle) - spent["network"]
        result[one.name] = spent
    return result


def _flights(roles: Sequence[MeasuredRole]) -> list[tuple[str, Interval]]:
    """Return the transit of every message, once for its sender and once for its receiver."""
    left: dict[tuple[str, str], list[float]] = {}
    came: dict[tuple[str, str], list[float]] = {}
    for one in roles:
        for at, what, detail in one.events:
            if what == "sends":
                left.setdefault((one.name, detail[0]), []).append(at)
            elif what == "arrives":
                came.setdefault((detail, one.name), []).append(at)
    found = []
    for (sender, receiver), moments in left.items():
        # The last messages of a run may never arrive.
        for begin, end in zip(moments, came.get((sender, receiver), []), strict=False):
            found += [(sender, (begin, end)), (receiver, (begin, end))]
    return found


def _joined(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union of intervals, without overlaps."""
    result: list[Interval] = []
    for begin, end in sorted(intervals):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((begin, end))
    return result


def _gaps(busy: list[Interval], start_time: float, ended: float) -> list[Interval]:
    """Return the gaps between intervals that may overlap."""
    found, at = [], start_time
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
