"""The gRPC stream of a party to the aggregator over mutual TLS, and the gRPC options that both ends share."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from grpc import aio

from kcagc.errors import PeerError
from kcagc.net import frames
from kcagc.net.frames import AnyFrame, ConnectionLost, Frame, Rejected, RejectionReason
from kcagc.net.tls import Credentials

SERVICE = "kcagc.Relay"
METHOD = "Stream"
PATH = f"/{SERVICE}/{METHOD}"
REASON_KEY = "kcagc-reason"  # metadata of a rejected stream

KEEPALIVE_MS = 10_000  # gRPC detects a lost connection within this time and the following timeout
_KEEPALIVE_TIMEOUT_MS = 10_000

OPTIONS: list[tuple[str, int]] = [
    # gRPC rejects a longer frame by its header, before it allocates memory.
    ("grpc.max_receive_message_length", frames.MAX_FRAME_BYTES),
    ("grpc.max_send_message_length", frames.MAX_FRAME_BYTES),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Bytes in flight before the receiver answers: a long message does not stop half way.
    ("grpc.http2.lookahead_bytes", 1 << 23),
]


class ClientStream:
    """The stream of a party."""

    def __init__(self, channel: Any, call: Any, peer: str) -> None:
        self._channel, self._call, self._peer = channel, call, peer

    @classmethod
    async def connect(cls, address: str, server_name: str, credentials: Credentials, peer: str) -> ClientStream:
        """Open a stream; only its first frame shows whether an aggregator answers."""
        secure = grpc.ssl_channel_credentials(credentials.ca, credentials.key, credentials.certificate)
        options = [
            *OPTIONS,
            # The certificate names the aggregator, not the machine that it runs on.
            ("grpc.ssl_target_name_override", server_name),
            ("grpc.enable_retries", 0),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        channel = aio.secure_channel(address, secure, options=options)
        return cls(channel, channel.stream_stream(PATH)(), peer)

    async def send(self, frame: Frame) -> None:
        """Send a frame."""
        try:
            await self._call.write(frames.encode_frame(frame))
        except (aio.AioRpcError, asyncio.InvalidStateError) as error:
            await self._raise_end(error)

    async def receive(self) -> AnyFrame:
        """Return the next frame."""
        try:
            payload = await self._call.read()
        except (aio.AioRpcError, asyncio.InvalidStateError) as error:
            await self._raise_end(error)
        if payload is aio.EOF:
            await self._raise_end(None)
        return frames.decode_frame(payload, self._peer)

    async def close(self) -> None:
        """Close the connection."""
        self._call.cancel()
        await self._channel.close()

    async def _raise_end(self, cause: Exception | None) -> None:
        """Raise the error that the status and the metadata of the ended stream stand for."""
        code, details = await self._call.code(), str(await self._call.details() or "")
        reason = dict(await self._call.trailing_metadata() or ()).get(REASON_KEY)
        if reason is not None:
            try:
                raise Rejected(RejectionReason(reason), details)
            except ValueError:
                raise ConnectionLost(details) from cause
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise PeerError(f"sent a frame that is too long: {details}", peer=self._peer) from cause
        if code is grpc.StatusCode.UNIMPLEMENTED:
            message = f"the server at this address is not an aggregator of kcagc ({details})"
            raise Rejected(RejectionReason.AGREEMENT, message) from cause
        raise ConnectionLost(details or str(code)) from cause
