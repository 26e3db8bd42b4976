"""All roles in one process: a queue from each to each."""

from __future__ import annotations

from collections import deque


class MemoryNetwork:
    """Messages between two roles arrive in the order they were sent; between different pairs there is no order."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str], deque[bytes]] = {}

    def post(self, sender: str, receiver: str, payload: bytes) -> None:
        """Put a message on its way."""
        self._queues.setdefault((sender, receiver), deque()).append(payload)

    def has(self, sender: str, receiver: str) -> bool:
        """Say whether a message of this sender has arrived."""
        return bool(self._queues.get((sender, receiver)))

    def take(self, sender: str, receiver: str) -> bytes:
        """Give the oldest."""
        return self._queues[sender, receiver].popleft()
