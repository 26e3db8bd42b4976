"""Several roles in one process and one thread: for the estimator, for simulations and for tests of the protocol."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

from kcagc.errors import AbortedError, KcagcError
from kcagc.runtime.driver import Driver, Sent

Chooser = Callable[[Sequence[tuple[str, str]]], int]


class MemoryNetwork:
    """A queue of messages for each pair of roles; messages of different pairs have no order."""

    def __init__(self) -> None:
        self._queues: defaultdict[tuple[str, str], deque[bytes]] = defaultdict(deque)

    def post(self, sender: str, receiver: str, payload: bytes) -> None:
        """Add a message."""
        self._queues[sender, receiver].append(payload)

    def has(self, sender: str, receiver: str) -> bool:
        """Return whether a message of this sender waits."""
        return bool(self._queues[sender, receiver])

    def take(self, sender: str, receiver: str) -> bytes:
        """Return the oldest message and remove it."""
        return self._queues[sender, receiver].popleft()


def run_together(drivers: Sequence[Driver], choose: Chooser | None = None) -> dict[str, Any]:
    """Run all roles to their end and return their results; `choose` picks the waiting message that arrives next.

    If a role fails, the other roles receive its abort message and end too; its error is raised here.
    """
    network = MemoryNetwork()
    by_name = {driver.name: driver for driver in drivers}
    for driver in drivers:
        _post(network, driver, driver.start(), by_name)
    while True:
        ready = [
            (sender, driver.name)
            for driver in drivers
            for sender in sorted(driver.waiting_for)
            if network.has(sender, driver.name)
        ]
        if not ready:
            break
        sender, receiver = ready[choose(ready) if choose else 0]
        driver = by_name[receiver]
        _post(network, driver, driver.deliver(sender, network.take(sender, receiver)), by_name)
    errors = [driver.error for driver in drivers if driver.error is not None]
    if errors:
        own = [error for error in errors if not isinstance(error, AbortedError)]
        raise (own or errors)[0]
    stuck = [driver for driver in drivers if not driver.finished]
    if stuck:
        listed = "; ".join(f"{one.name} waits for {', '.join(sorted(one.waiting_for))}" for one in stuck)
        raise KcagcError(f"deadlock: no role can continue: {listed}")
    return {driver.name: driver.result for driver in drivers}


def _post(network: MemoryNetwork, driver: Driver, sent: Sent, known: dict[str, Driver]) -> None:
    for receiver, payload in sent:
        if receiver not in known:
            raise KcagcError(f"{driver.name}: sent a message to the unknown role {receiver}")
        network.post(driver.name, receiver, payload)
