"""Runs in which every message takes one tick of time and computing takes none: what must wait for what shows in ticks.

A message is as deep as the deepest that its sender had heard before it sent it, and one more.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from collaborations import EVERYTHING
from kcagc.disclosure import Ledger
from kcagc.protocol.fit import FitResult, fit_party
from kcagc.protocol.local import PartyData
from kcagc.protocol.messages import Answer, RelayedMessages, decode
from kcagc.protocol.parameters import Parameters
from kcagc.runtime.driver import Driver
from kcagc.simulation import Cast


@dataclass
class Clocked:
    """All roles of a fit; messages arrive in the order of their depths, but for those that are `held` back."""

    stations: dict[str, Driver]
    parties: tuple[str, ...]
    held: Callable[[str, Any], bool] = lambda *_: False
    now: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    knows: dict[str, int] = field(default_factory=dict)  # when a party has heard what its labels follow from
    ended: dict[str, int] = field(default_factory=dict)
    heard: list[tuple[str, str, Any]] = field(default_factory=list)
    _ways: dict[tuple[str, str], deque[tuple[int, bytes]]] = field(default_factory=lambda: defaultdict(deque))

    @classmethod
    def fit(cls, chosen: Parameters, data: dict[str, PartyData], *, seed: int = 0, **more: Any) -> Clocked:
        """Prepare a fit of all parties."""
        cast = Cast.of(chosen, tuple(data))
        roles = {name: fit_party(cast.membership(name, EVERYTHING), data[name], seed=seed) for name in data}
        stations = {station.name: station for station in cast.stations(roles, seed, Ledger(), None)}
        run = cls(stations, tuple(data), **more)
        for name, station in stations.items():
            run._post(name, station.start())
        return run

    def play(self) -> dict[str, FitResult]:
        """Go on until nothing arrives any more; give the results of those who have one."""
        while ready := [
            (max(self.now[name], self._ways[sender, name][0][0]), sender, name)
            for name, station in self.stations.items()
            for sender in station.waiting_for
            if self._ways[sender, name] and not self.held(sender, decode(self._ways[sender, name][0][1], sender))
        ]:
            when, sender, name = min(ready)
            message, station = self._ways[sender, name].popleft()[1], self.stations[name]
            self.now[name] = when
            self._note(sender, name, decode(message, sender))
            self._post(name, station.deliver(sender, message))
            if station.error is not None:
                raise station.error
            if station.finished:
                self.ended.setdefault(name, when)
        return {name: self.stations[name].result for name in self.parties if self.stations[name].finished}

    def _post(self, sender: str, sent: list[tuple[str, bytes]]) -> None:
        for receiver, payload in sent:
            self._ways[sender, receiver].append((self.now[sender] + 1, payload))
            if sender in self.parties and isinstance(decode(payload, sender), Answer):
                self.knows[sender] = self.now[sender]  # a party that sums has its own answers as they leave

    def _note(self, sender: str, receiver: str, message: Any) -> None:
        self.heard.append((sender, receiver, message))
        labels = isinstance(message, RelayedMessages) and message.stage.startswith("labels")
        if isinstance(message, Answer) or labels:
            self.knows[receiver] = self.now[receiver]
