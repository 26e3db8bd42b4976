"""Numbered messages between two roles: nothing is lost and nothing counts twice, whatever happens to the connection.

Each direction counts from 1. The sender keeps a message until the receiver says that it is safe there; after a broken
connection it sends everything that is not, in the same bytes. The receiver drops what it has had before, and takes
other bytes under an old number for what they are: misbehaviour.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass

from kcagc.errors import EquivocationError, PeerError

MOST_WAITING = 32  # messages of one peer that nobody has asked for yet


@dataclass(frozen=True)
class Letter:
    """A message of a peer that has arrived."""

    number: int
    digest: bytes
    payload: bytes


class PeerQueue:
    """One role's side of what passes between it and one peer."""

    def __init__(self, peer: str, *, most_waiting_bytes: int = 1 << 40) -> None:
        self.peer = peer
        self.outbox: dict[int, bytes] = {}  # by number, what the peer has not yet said is safe
        self.sent = 0  # the last number that may leave
        self.acknowledged = 0  # the last number that is safe at the peer
        self.arrived = 0  # the last number that has come
        self.safe = 0  # the last number of the peer's that is safe here
        self.bytes_sent = self.bytes_arrived = 0  # of messages, in this process
        self._inbox: deque[Letter] = deque()
        self._waiting_bytes, self._most_waiting_bytes = 0, most_waiting_bytes
        self._digests: dict[int, bytes] = {}

    def restore_arrived(self, number: int, digest: bytes) -> None:
        """Take up where a journal ends: this message had come, and was safe."""
        self.arrived = self.safe = number
        self._digests[number] = digest

    def post(self, number: int, payload: bytes) -> None:
        """Let a message leave, now that it is safe here."""
        self.outbox[number] = payload
        self.sent = number
        self.bytes_sent += len(payload)

    def note_acknowledged(self, number: int) -> None:
        """Forget what is safe at the peer."""
        if number > self.sent:
            raise PeerError(f"says that message {number} has arrived, and only {self.sent} were sent", peer=self.peer)
        for done in range(self.acknowledged + 1, number + 1):
            self.outbox.pop(done, None)
        self.acknowledged = max(self.acknowledged, number)

    def take_in(self, number: int, payload: bytes) -> bool:
        """Say whether a message is new; refuse a gap, and other bytes under a number that was used."""
        digest = hashlib.sha256(payload).digest()
        if 0 < number <= self.arrived:
            if self._digests.get(number) != digest:
                error = EquivocationError(f"sent two different messages under number {number}", peer=self.peer)
                raise error.with_public_message(f"{self.peer} sent two different messages under one number")
            return False
        if number != self.arrived + 1:
            raise PeerError(f"sent message {number} where {self.arrived + 1} was due", peer=self.peer)
        waiting = self._waiting_bytes + len(payload)
        if len(self._inbox) >= MOST_WAITING or (self._inbox and waiting > self._most_waiting_bytes):
            raise PeerError("sent more messages than anybody asked for", peer=self.peer)
        self.arrived, self._waiting_bytes = number, waiting
        self.bytes_arrived += len(payload)
        self._digests[number] = digest
        self._inbox.append(Letter(number, digest, payload))
        return True

    @property
    def has_letter(self) -> bool:
        """Whether a message waits to be handed over."""
        return bool(self._inbox)

    def next_letter(self) -> Letter:
        """Hand over the oldest."""
        letter = self._inbox.popleft()
        self._waiting_bytes -= len(letter.payload)
        return letter

    @property
    def settled(self) -> bool:
        """Whether the peer has everything."""
        return self.acknowledged == self.sent
