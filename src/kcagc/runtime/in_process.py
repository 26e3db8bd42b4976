"""Several roles in one process, in one thread: for the estimator, for simulations, and for every test of a protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kcagc.errors import AbortedError, KcagcError
from kcagc.net.memory import MemoryNetwork
from kcagc.runtime.driver import Driver

Chooser = Callable[[Sequence[tuple[str, str]]], int]


def run_together(stations: Sequence[Driver], choose: Chooser | None = None) -> dict[str, Any]:
    """Run all roles to their end and give their results; `choose` picks which of the messages at hand arrives next.

    If a role fails, the others are told, end too, and its error is raised here.
    """
    network = MemoryNetwork()
    by_name = {station.name: station for station in stations}
    for station in stations:
        _post(network, station, station.start(), by_name)
    while True:
        ready = [
            (sender, station.name)
            for station in stations
            for sender in sorted(station.waiting_for)
            if network.has(sender, station.name)
        ]
        if not ready:
            break
        sender, receiver = ready[choose(ready) if choose else 0]
        station = by_name[receiver]
        _post(network, station, station.deliver(sender, network.take(sender, receiver)), by_name)
    _raise_first_error(stations)
    stuck = [station for station in stations if not station.finished]
    if stuck:
        listed = "; ".join(f"{one.name} waits for {', '.join(sorted(one.waiting_for))}" for one in stuck)
        raise KcagcError(f"nobody can go on: {listed}")
    return {station.name: station.result for station in stations}


def _post(network: MemoryNetwork, station: Driver, sent: list[tuple[str, bytes]], known: dict[str, Driver]) -> None:
    for receiver, payload in sent:
        if receiver not in known:
            raise KcagcError(f"{station.name}: sent a message to {receiver}, whom nobody knows")
        network.post(station.name, receiver, payload)


def _raise_first_error(stations: Sequence[Driver]) -> None:
    errors = [station.error for station in stations if station.error is not None]
    own = [error for error in errors if not isinstance(error, AbortedError)]
    if errors:
        raise (own or errors)[0]
