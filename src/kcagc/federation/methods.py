"""The methods that a standing coordinator offers outside sessions, and how they read what a caller sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from kcagc.errors import PeerError
from kcagc.net.grpc_server import Caller
from kcagc.text import printable

Method = Callable[[Caller, bytes], Awaitable[bytes]]
T = TypeVar("T")


def read_payload(payload: bytes, kind: type[T], caller: Caller, *, at_most: int = 1 << 16) -> T:
    """Read what a caller sent; raise `PeerError` about its address if it is too long or not of this kind."""
    if len(payload) > at_most:
        raise PeerError(f"sent {len(payload):,} bytes; at most {at_most:,} are allowed here", peer=caller.address)
    try:
        return msgspec.msgpack.decode(payload, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(f"sent a request that cannot be read: {printable(str(error))}", peer=caller.address) from error
