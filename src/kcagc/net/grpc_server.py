"""The aggregator's end: a gRPC server with mutual TLS that hands every stream, and who opened it, to a handler."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import grpc
from grpc import aio

from kcagc.errors import KcagcError, PeerError
from kcagc.net.address import split_address
from kcagc.net.frames import AnyFrame, Frame, decode_frame, encode_frame
from kcagc.net.grpc_options import METHOD, REASON_KEY, SERVER, SERVICE
from kcagc.net.stream import ConnectionLost, Reason, Rejected
from kcagc.net.tls import Credentials, digest_of, names_in

logger = logging.getLogger(__name__)

_CODES = {
    Reason.IDENTITY: grpc.StatusCode.PERMISSION_DENIED,
    Reason.AGREEMENT: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.SESSION: grpc.StatusCode.ABORTED,
    Reason.MISBEHAVIOUR: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.LATER: grpc.StatusCode.UNAVAILABLE,
}


class ServerWire:
    """A stream that a party opened; `names` are those in its certificate, `certificate` is the digest of it."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self.address = unquote(str(context.peer())).removeprefix("ipv4:").removeprefix("ipv6:")
        proven: dict[str, Any] = context.auth_context()
        self.tls_version = _first(proven, "ssl_tls_version")
        certificate = _first(proven, "x509_pem_cert")
        self.names = names_in(certificate.encode()) if certificate else set()
        self.certificate = digest_of(certificate.encode())
        self.heard = False  # whether anything has come that gRPC let through

    async def send(self, frame: Frame) -> None:
        """Send a frame."""
        try:
            await self._context.write(encode_frame(frame))
        except (aio.AioRpcError, aio.UsageError, asyncio.InvalidStateError) as error:
            raise ConnectionLost(str(error)) from error

    async def receive(self) -> AnyFrame:
        """Give the next frame; an end of the stream says nothing about why it ended."""
        try:
            payload = await self._context.read()
        except (aio.AioRpcError, aio.UsageError, asyncio.InvalidStateError) as error:
            raise ConnectionLost(str(error)) from error
        if payload is aio.EOF:
            raise ConnectionLost("the stream has ended")
        self.heard = True
        return decode_frame(payload, self.address)


Handler = Callable[[ServerWire], Awaitable[None]]


class Server:
    """Listens until it is stopped."""

    def __init__(self, address: str, credentials: Credentials, handler: Handler) -> None:
        split_address(address, "listen", any_port=True)
        self._handler, self._stopping = handler, False
        self._server = aio.server(options=SERVER)
        stream = grpc.stream_stream_rpc_method_handler(self._serve)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: stream}),))
        secure = grpc.ssl_server_credentials(
            [(credentials.key, credentials.certificate)], credentials.ca, require_client_auth=True
        )
        try:
            self.port = self._server.add_secure_port(address, secure)
        except RuntimeError as error:
            raise KcagcError(
                f"cannot listen on {address}: the port is in use already, or the address is not this machine's"
            ) from error

    async def start(self) -> None:
        """Begin to listen."""
        await self._server.start()

    async def stop(self, grace: float) -> None:
        """Stop; streams have this many seconds to end by themselves."""
        self._stopping = True
        await self._server.stop(grace)

    async def _serve(self, _: Any, context: Any) -> None:
        wire = ServerWire(context)
        try:
            # gRPC cannot be told to refuse TLS 1.2; here the version is known.
            if wire.tls_version != "TLSv1.3":
                raise Rejected(Reason.IDENTITY, f"speaks {wire.tls_version or 'no TLS'}; TLS 1.3 is required")
            await self._handler(wire)
        except Rejected as refusal:
            if refusal.reason is not Reason.LATER:
                logger.warning("refused a stream from %s: %s", wire.address, refusal.words)
            metadata = ((REASON_KEY, refusal.reason.value),)
            await context.abort(_CODES[refusal.reason], _plain(refusal.words), metadata)
        except PeerError as error:
            logger.warning("refused a stream from %s: %s", wire.address, str(error).removeprefix(f"{wire.address}: "))
            metadata = ((REASON_KEY, Reason.MISBEHAVIOUR.value),)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, _plain(str(error)), metadata)
        except (ConnectionLost, asyncio.CancelledError) as end:
            # A frame that is too long for gRPC ends a stream so, and a party that speaks another version.
            if not wire.heard and not self._stopping:
                logger.warning("a stream from %s ended without a word that could be read", wire.address)
            if isinstance(end, asyncio.CancelledError):
                raise


def _first(proven: dict[str, Any], key: str) -> str:
    values = proven.get(key) or [b""]
    return bytes(values[0]).decode("utf-8", "replace")


def _plain(words: str) -> str:
    """Keep to what fits into a status line."""
    return words.encode("ascii", "replace").decode()[:2000]
