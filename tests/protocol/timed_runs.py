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
from kcagc.protocol.fit import fit_party
from kcagc.protocol.fit_result import FitResult
from kcagc.protocol.local import PartyData
from kcagc.protocol.messages import AnonymousClusters, Answer, RelayedMessages, decode
from kcagc.protocol.parameters import Parameters
from kcagc.runtime.driver import Driver
from kcagc.simulation import SimulatedRoles


@dataclass
class TimedRun:
    """All roles of a fit; messages arrive in the order of their depths, but for those that are `held` back."""

    drivers: dict[str, Driver]
    parties: tuple[str, ...]
    held: Callable[[str, Any], bool] = lambda *_: False
    now: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    knows: dict[str, int] = field(default_factory=dict)  # when a party has heard what its labels follow from
    ended: dict[str, int] = field(default_factory=dict)
    heard: list[tuple[str, str, Any]] = field(default_factory=list)
    _ways: dict[tuple[str, str], deque[tuple[int, bytes]]] = field(default_factory=lambda: defaultdict(deque))

    @classmethod
    def fit(cls, chosen: Parameters, data: dict[str, PartyData], *, seed: int = 0, **more: Any) -> TimedRun:
        """Prepare a fit of all parties."""
        cast = SimulatedRoles.of(chosen, tuple(data))
        roles = {name: fit_party(cast.context(name, EVERYTHING), data[name], seed=seed) for name in data}
        drivers = {driver.name: driver for driver in cast.drivers(roles, Ledger(), None)}
        run = cls(drivers, tuple(data), **more)
        for name, driver in drivers.items():
            run._post(name, driver.start())
        return run

    def run(self) -> dict[str, FitResult]:
        """Go on until nothing arrives any more; give the results of those who have one."""
        while ready := [
            (max(self.now[name], self._ways[sender, name][0][0]), sender, name)
            for name, driver in self.drivers.items()
            for sender in driver.waiting_for
            if self._ways[sender, name] and not self.held(sender, decode(self._ways[sender, name][0][1], sender))
        ]:
            when, sender, name = min(ready)
            message, driver = self._ways[sender, name].popleft()[1], self.drivers[name]
            self.now[name] = when
            self._note(sender, name, decode(message, sender))
            self._post(name, driver.deliver(sender, message))
            if driver.error is not None:
                raise driver.error
            if driver.finished:
                self.ended.setdefault(name, when)
        return {name: self.drivers[name].result for name in self.parties if self.drivers[name].finished}

    def _post(self, sender: str, sent: list[tuple[str, bytes]]) -> None:
        for receiver, payload in sent:
            self._ways[sender, receiver].append((self.now[sender] + 1, payload))
            if sender in self.parties and isinstance(decode(payload, sender), Answer):
                self.knows[sender] = self.now[sender]  # a party that sums has its own answers as they leave

    def _note(self, sender: str, receiver: str, message: Any) -> None:
        self.heard.append((sender, receiver, message))
        labels = isinstance(message, RelayedMessages) and message.stage.step == "labels"
        if isinstance(message, Answer | AnonymousClusters) or labels:
            self.knows[receiver] = self.now[receiver]
