"""A stream of frames to one peer, whichever end opened it, and the ways in which it can end."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from kcagc.net.frames import AnyFrame, Frame


class ConnectionLost(Exception):  # noqa: N818 - it is an event, and no fault of anybody
    """The stream has ended or was lost; a new one may be opened."""


class Reason(Enum):
    """Why an aggregator refuses a stream; the value travels with the refusal."""

    IDENTITY = "identity"  # certificate, name or signature are not those of a role that is expected
    AGREEMENT = "agreement"  # another version, other parameters or another roster
    SESSION = "session"  # another session, an older state of this one, or a second process
    MISBEHAVIOUR = "misbehaviour"  # frames that no role of ours sends
    LATER = "later"  # nothing is wrong, and it is not the time


class Rejected(Exception):  # noqa: N818 - it is an answer
    """The other end does not want this stream, and says why."""

    def __init__(self, reason: Reason, words: str) -> None:
        super().__init__(words)
        self.reason, self.words = reason, words


class Wire(Protocol):
    """One open stream."""

    async def send(self, frame: Frame) -> None:
        """Send a frame, or raise `ConnectionLost`."""

    async def receive(self) -> AnyFrame:
        """Give the next frame; raise `ConnectionLost` or `Rejected` or `PeerError`."""
