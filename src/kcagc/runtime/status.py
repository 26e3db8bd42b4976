"""What can be seen of a running role from outside, without asking it anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class RoleStatus:
    """Whose message it needs to go on (nobody's while it computes), who is not connected, and bytes of messages.

    Bytes are those of this process: what a role sent before it was interrupted and taken up again is not among them.
    """

    waiting_for: tuple[str, ...]
    missing: tuple[str, ...]
    bytes_sent: int
    bytes_received: int


Look = Callable[[RoleStatus], None]
