"""The gRPC server of the aggregator: it accepts streams over mutual TLS and passes each one to a handler.

gRPC reports a failed TLS handshake only as a line on stderr (level INFO), never to Python. The aggregator therefore
logs the streams that it rejects, but not the handshakes. The rejected party explains a failed handshake (`net.probe`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import grpc
from grpc import aio

from kcagc.errors import KcagcError, PeerError
from kcagc.net.frames import ConnectionLost, Rejected, RejectionReason
from kcagc.net.grpc_client import KEEPALIVE_MS, METHOD, OPTIONS, REASON_KEY, SERVICE, GrpcStream
from kcagc.net.tls import Credentials, digest_of, names_in, split_address

logger = logging.getLogger(__name__)

_SERVER_OPTIONS: list[tuple[str, int]] = [
    *OPTIONS,
    ("grpc.so_reuseport", 0),  # otherwise two aggregators could share a port, and its connections, unnoticed
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
    ("grpc.max_concurrent_streams", 64),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 60_000),  # of a connection without a stream
]


class ServerStream(GrpcStream):
    """A stream that a party opened; `names` are the DNS names of its certificate, `certificate` is its digest."""

    def __init__(self, context: Any) -> None:
        self.address = unquote(str(context.peer())).removeprefix("ipv4:").removeprefix("ipv6:")
        super().__init__(context, self.address)
        proven: dict[str, Any] = context.auth_context()
        self.tls_version = _first(proven, "ssl_tls_version").decode("utf-8", "replace")
        certificate = _first(proven, "x509_pem_cert")
        self.names, self.certificate = names_in(certificate), digest_of(certificate)

    async def _end(self, cause: Exception | None) -> Exception:
        return ConnectionLost("the party ended the stream" if cause is None else str(cause))


class Server:
    """Accepts streams until it is stopped."""

    def __init__(
        self, address: str, credentials: Credentials, handler: Callable[[ServerStream], Awaitable[None]]
    ) -> None:
        split_address(address, "listen", any_port=True)
        self._handler, self._stopping = handler, False
        self._server = aio.server(options=_SERVER_OPTIONS)
        method = grpc.stream_stream_rpc_method_handler(self._serve)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: method}),))
        secure = grpc.ssl_server_credentials(
            [(credentials.key, credentials.certificate)], credentials.ca, require_client_auth=True
        )
        try:
            self.port = self._server.add_secure_port(address, secure)
        except RuntimeError as error:
            raise KcagcError(
                f"cannot listen on {address}: the port is in use, or the address does not belong to this machine. "
                "Choose another address or port"
            ) from error

    async def start(self) -> None:
        """Accept streams from now on."""
        await self._server.start()

    async def stop(self, grace: float) -> None:
        """Stop; open streams may end by themselves within `grace` seconds."""
        self._stopping = True
        await self._server.stop(grace)

    async def _serve(self, _: Any, context: Any) -> None:
        stream = ServerStream(context)
        try:
            # gRPC has no option that excludes TLS 1.2, so the version is checked here.
            if stream.tls_version != "TLSv1.3":
                version = stream.tls_version or "no TLS"
                raise Rejected(RejectionReason.IDENTITY, f"the connection uses {version}; TLS 1.3 is required")
            await self._handler(stream)
        except (Rejected, PeerError) as error:
            reason = error.reason if isinstance(error, Rejected) else RejectionReason.MISBEHAVIOUR
            shown = error.args[0] if isinstance(error, PeerError) and error.peer == stream.address else error
            if reason is not RejectionReason.RETRY:
                logger.warning("rejected a stream from %s: %s", stream.address, shown)
            status = str(error).encode("ascii", "replace").decode()[:2000]  # a status line holds no more
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, status, ((REASON_KEY, reason.value),))
        except (ConnectionLost, asyncio.CancelledError) as end:
            # The end of a stream with a frame that is too long, or of a party with another version.
            if not stream.received_frame and not self._stopping:
                logger.warning("a stream from %s ended before a valid frame arrived", stream.address)
            if isinstance(end, asyncio.CancelledError):
                raise


def _first(proven: dict[str, Any], key: str) -> bytes:
    return bytes((proven.get(key) or [b""])[0])
