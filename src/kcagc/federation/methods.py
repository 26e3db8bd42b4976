"""Methods: the questions that a standing coordinator answers outside sessions, each by its name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from kcagc.errors import PeerError
from kcagc.net.frames import Rejected, RejectionReason, Request
from kcagc.net.grpc_server import Caller
from kcagc.text import printable

P = TypeVar("P", bound=msgspec.Struct)
T = TypeVar("T")

Method = Callable[[Caller, bytes], Awaitable[bytes]]

MAX_PAYLOAD_BYTES = 64 * 1024  # of a question, unless its method allows more


async def in_thread(work: Callable[..., T], *values: Any) -> T:
    """Call a function in a thread; a caller that is cancelled waits for its end, and keeps its turn meanwhile."""
    working = asyncio.ensure_future(asyncio.to_thread(work, *values))
    try:
        return await asyncio.shield(working)
    finally:
        if not working.done():
            await asyncio.wait({working})
            working.exception()  # the caller is not there any more


async def answer(methods: Mapping[str, Method], caller: Caller, asked: Request) -> bytes:
    """Answer a request by its method."""
    method = methods.get(asked.method)
    if method is None:
        message = f"there is no method {asked.method!r} here: install the same version of kcagc at all roles"
        raise Rejected(RejectionReason.AGREEMENT, message)
    return await method(caller, asked.payload)


def read_payload(payload: bytes, kind: type[P], caller: Caller, *, at_most: int = MAX_PAYLOAD_BYTES) -> P:
    """Read the question of a caller after checking its size; raise `PeerError` if it is too long or another thing."""
    if len(payload) > at_most:
        raise PeerError(
            f"sent a request of {len(payload):,} bytes; at most {at_most:,} are allowed", peer=caller.address
        )
    try:
        return msgspec.msgpack.decode(payload, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"sent a request that cannot be read: {printable(str(error))}"
        raise PeerError(message, peer=caller.address) from error
