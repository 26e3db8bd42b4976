"""gRPC streams over mutual TLS: what both ends share, and the end of a party."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any

import grpc
from grpc import aio

from kcagc.errors import PeerError
from kcagc.net import frames
from kcagc.net.frames import AnyFrame, ConnectionLost, Frame, Rejected, RejectionReason
from kcagc.net.tls import Credentials

SERVICE = "kcagc.Relay"
STREAM, REQUEST = "Stream", "Request"  # the two methods of the service
PATH = f"/{SERVICE}/{STREAM}"
REASON_KEY = "kcagc-reason"  # metadata of a rejected stream or request
PROTOCOL_KEY = "kcagc-stream"  # metadata of every stream and request: the stream protocol of the caller
FEDERATION_KEY = "kcagc-federation"  # metadata of every stream and request: which federation it is about, as hex

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


_STREAM_ERRORS = (aio.AioRpcError, aio.UsageError, asyncio.InvalidStateError)


class GrpcStream(ABC):
    """One end of a gRPC stream; `call` reads and writes bytes, `peer` names the sender of its frames in errors."""

    def __init__(self, call: Any, peer: str) -> None:
        self._call, self._peer = call, peer
        self.received_frame = False

    async def send(self, frame: Frame) -> None:
        """Send a frame."""
        try:
            await self._call.write(frames.encode_frame(frame))
        except _STREAM_ERRORS as error:
            raise await self._end(error) from error

    async def receive(self) -> AnyFrame:
        """Return the next frame."""
        try:
            payload = await self._call.read()
        except _STREAM_ERRORS as error:
            raise await self._end(error) from error
        if payload is aio.EOF:
            raise await self._end(None)
        self.received_frame = True
        return frames.decode_frame(payload, self._peer)

    @abstractmethod
    async def _end(self, cause: Exception | None) -> Exception:
        """Return the error that the end of the stream stands for."""


class ClientStream(GrpcStream):
    """The stream that a party opens; only its first frame shows whether an aggregator answers."""

    def __init__(
        self, address: str, server_name: str, credentials: Credentials, peer: str, *, federation: bytes = b""
    ) -> None:
        self._channel = _channel(address, server_name, credentials)
        call = self._channel.stream_stream(PATH)
        super().__init__(call(metadata=_metadata(federation)), peer)

    async def close(self) -> None:
        """Close the connection."""
        self._call.cancel()
        await self._channel.close()

    async def _end(self, _: Exception | None) -> Exception:
        """Return the error for the status and the metadata of the ended stream."""
        code, details = await self._call.code(), str(await self._call.details() or "")
        return _end_of_call(code, details, await self._call.trailing_metadata(), self._peer)


async def request(
    address: str,
    server_name: str,
    credentials: Credentials,
    method: str,
    payload: bytes,
    *,
    peer: str,
    federation: bytes = b"",
    timeout: float = 20.0,
) -> bytes:
    """Send one request outside a session and return its answer; raise `Rejected`, `ConnectionLost` or `PeerError`."""
    channel = _channel(address, server_name, credentials)
    try:
        call = channel.unary_unary(f"/{SERVICE}/{REQUEST}")
        frame = frames.encode_frame(frames.Request(method, payload))
        return bytes(await call(frame, metadata=_metadata(federation), timeout=timeout))
    except aio.AioRpcError as error:
        raise _end_of_call(error.code(), error.details() or "", error.trailing_metadata(), peer) from error
    except _STREAM_ERRORS as error:
        raise ConnectionLost(str(error)) from error
    finally:
        await channel.close()


def _channel(address: str, server_name: str, credentials: Credentials) -> Any:
    secure = grpc.ssl_channel_credentials(credentials.ca, credentials.key, credentials.certificate)
    options = [
        *OPTIONS,
        # The certificate names the aggregator, not the machine that it runs on.
        ("grpc.ssl_target_name_override", server_name),
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    return aio.secure_channel(address, secure, options=options)


def _metadata(federation: bytes) -> tuple[tuple[str, str], ...]:
    version = (PROTOCOL_KEY, frames.STREAM_PROTOCOL)
    return (version, (FEDERATION_KEY, federation.hex())) if federation else (version,)


def _end_of_call(code: Any, details: str, metadata: Any, peer: str) -> Exception:
    """Return the error for the status and the metadata of an ended call."""
    reason = dict(metadata or ()).get(REASON_KEY)
    if reason is not None:
        try:
            return Rejected(RejectionReason(reason), details)
        except ValueError:  # a reason that this version does not know
            return ConnectionLost(details)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return PeerError(f"sent a frame that is too long: {details}", peer=peer)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        message = f"the server at this address is not an aggregator of kcagc ({details})"
        return Rejected(RejectionReason.AGREEMENT, message)
    return ConnectionLost(details or str(code))
