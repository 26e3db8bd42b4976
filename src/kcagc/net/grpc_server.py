"""The gRPC server of the aggregator: it accepts streams and requests over mutual TLS.

gRPC reports a failed TLS handshake only as a line on stderr (level INFO), never to Python. The aggregator therefore
logs the streams that it rejects, but not the handshakes. The rejected party explains a failed handshake (`net.probe`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import grpc
from grpc import aio

from kcagc.errors import KcagcError, PeerError
from kcagc.net import frames
from kcagc.net.frames import ConnectionLost, Rejected, RejectionReason, Request, decode_frame
from kcagc.net.gate import MAX_CONNECTIONS, OF_A_ROLE, Gate
from kcagc.net.grpc_client import (
    FEDERATION_KEY,
    KEEPALIVE_MS,
    OPTIONS,
    PROTOCOL_KEY,
    REASON_KEY,
    REQUEST,
    SERVICE,
    STREAM,
    GrpcStream,
)
from kcagc.net.tls import Credentials, digest_of, names_in, split_address
from kcagc.text import printable

logger = logging.getLogger(__name__)

_MAX_FEDERATION = 64  # hexadecimal digits of a federation's digest
_MAX_PROTOCOL = 64  # characters of a caller's stream protocol
_SERVER_OPTIONS: list[tuple[str, int]] = [
    *OPTIONS,
    ("grpc.so_reuseport", 0),  # otherwise two aggregators could share a port, and its connections, unnoticed
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
    ("grpc.max_concurrent_streams", 64),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 60_000),  # of a connection without a stream
    ("grpc.max_allowed_incoming_connections", MAX_CONNECTIONS),  # where there is no gate
]


# Returns who holds a connection, by the names in its certificate, and how many connections this holder may have.
Holder = Callable[[frozenset[str]], tuple[str, int]]


def by_first_name(names: frozenset[str]) -> tuple[str, int]:
    """Return the first name of a certificate, and the number of connections of a role."""
    return min(names, default=""), OF_A_ROLE


class BoundedLog:
    """Warnings about other roles, of which only so many are written: no other role may fill the log.

    `burst` lines may follow each other; after that there is one in `seconds`. A line tells how many were left out.
    """

    def __init__(self, burst: int = 100, seconds: float = 6.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst, self._seconds, self._clock = burst, seconds, clock
        self._left, self._since, self._left_out = float(burst), clock(), 0

    def warning(self, message: str, *values: object) -> None:
        """Write a warning, unless there were too many."""
        now = self._clock()
        self._left = min(self._left + (now - self._since) / self._seconds, self._burst)
        self._since = now
        if self._left < 1.0:
            self._left_out += 1
            return
        self._left -= 1.0
        if self._left_out:
            logger.warning("%d more warnings about rejected streams and requests were left out", self._left_out)
            self._left_out = 0
        logger.warning(message, *values)


@dataclass(frozen=True)
class Caller:
    """Who opened a stream or sent a request, as far as TLS proves it, and the federation that it asks for.

    `names` are the DNS names of its certificate, `certificate` is its digest. `federation` and `protocol` are claims of
    the caller; versions up to 0.10.0 name no protocol.
    """

    address: str
    tls_version: str
    names: frozenset[str]
    certificate: bytes
    federation: bytes
    protocol: str

    @classmethod
    def of(cls, context: Any, gate: Gate | None, holder: Holder) -> Caller:
        """Read what gRPC knows about the other end of a call, which has proven an identity."""
        peer = unquote(str(context.peer()))
        proven: dict[str, Any] = context.auth_context()
        version = _first(proven, "ssl_tls_version").decode("utf-8", "replace")
        certificate = _first(proven, "x509_pem_cert")
        claims = dict(context.invocation_metadata() or ())
        protocol = str(claims.get(PROTOCOL_KEY, ""))[:_MAX_PROTOCOL]
        try:
            federation = bytes.fromhex(str(claims.get(FEDERATION_KEY, ""))[:_MAX_FEDERATION])
        except ValueError:
            federation = b""
        names = frozenset(names_in(certificate))
        address = peer.removeprefix("ipv4:").removeprefix("ipv6:")
        if gate is not None:
            address = gate.authenticated(peer, *holder(names))
        return cls(address, version, names, digest_of(certificate), federation, protocol)


class ServerStream(GrpcStream):
    """A stream that a party opened."""

    def __init__(self, context: Any, caller: Caller) -> None:
        super().__init__(context, caller.address)
        self.caller, self.address = caller, caller.address
        self.names, self.certificate = caller.names, caller.certificate

    async def _end(self, cause: Exception | None) -> Exception:
        return ConnectionLost("the party ended the stream" if cause is None else str(cause))


class Server:
    """Accepts streams, and requests if `answer` is given, until it is stopped.

    `authorities` returns the PEM of the authorities that it trusts at the moment; without it, they never change.
    `others` returns its certificates with other names at the moment; a party names the one that it expects.
    `on_rejected` learns of every stream that is rejected. `holder` tells who holds a connection.
    """

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        handler: Callable[[ServerStream], Awaitable[None]],
        answer: Callable[[Caller, Request], Awaitable[bytes]] | None = None,
        authorities: Callable[[], bytes] | None = None,
        others: Callable[[], Sequence[Credentials]] = tuple,
        on_rejected: Callable[[Caller, Rejected], None] = lambda *_: None,
        holder: Holder = by_first_name,
    ) -> None:
        host, port = split_address(address, "listen", any_port=True)
        self._handler, self._answer, self._on_rejected, self._stopping = handler, answer, on_rejected, False
        self._holder = holder
        self._log = BoundedLog()
        self._gate = Gate(host, port) if hasattr(socket, "AF_UNIX") else None  # not on Windows
        self._server = aio.server(options=_SERVER_OPTIONS)
        methods = {STREAM: grpc.stream_stream_rpc_method_handler(self._serve)}
        if answer is not None:
            methods[REQUEST] = grpc.unary_unary_rpc_method_handler(self._serve_request)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
        secure = _server_credentials(credentials, authorities, others)
        try:
            inner = self._server.add_secure_port(address if self._gate is None else f"unix:{self._gate.target}", secure)
        except RuntimeError as error:
            if self._gate is not None:
                self._gate.close()
            raise KcagcError(
                f"cannot listen on {address}: the port is in use, or the address does not belong to this machine. "
                "Choose another address or port"
            ) from error
        self.port: int = inner if self._gate is None else self._gate.port

    @property
    def refused_connections(self) -> int:
        """The number of connections that were closed: of strangers, or of a role that had too many."""
        return 0 if self._gate is None else self._gate.refused.total()

    async def start(self) -> None:
        """Accept streams from now on."""
        await self._server.start()
        if self._gate is not None:
            self._gate.start()

    async def stop(self, grace: float) -> None:
        """Stop; open streams may end by themselves within `grace` seconds."""
        self._stopping = True
        await self._server.stop(grace)
        if self._gate is not None:
            await self._gate.stop()

    async def _serve(self, _: Any, context: Any) -> None:
        caller = Caller.of(context, self._gate, self._holder)
        stream = ServerStream(context, caller)
        try:
            _require_tls(caller)
            _require_protocol(caller)
            await self._handler(stream)
        except (Rejected, PeerError) as error:
            if isinstance(error, Rejected):
                self._on_rejected(caller, error)
            await self._reject(context, caller, "stream", error)
        except (ConnectionLost, asyncio.CancelledError) as end:
            # The end of a stream with a frame that is too long, or of a party with another version.
            if not stream.received_frame and not self._stopping:
                self._log.warning("a stream from %s ended before a valid frame arrived", caller.address)
            if isinstance(end, asyncio.CancelledError):
                raise

    async def _serve_request(self, payload: bytes, context: Any) -> bytes:
        caller = Caller.of(context, self._gate, self._holder)
        try:
            _require_tls(caller)
            _require_protocol(caller)
            frame = decode_frame(payload, caller.address)
            if not isinstance(frame, Request) or self._answer is None:
                raise Rejected(RejectionReason.MISBEHAVIOUR, "sent another frame instead of a request")
            return await self._answer(caller, frame)
        except (Rejected, PeerError) as error:
            await self._reject(context, caller, "request", error)
            raise

    async def _reject(self, context: Any, caller: Caller, what: str, error: Rejected | PeerError) -> None:
        """Log and send why a call is rejected; this ends the call with an exception of gRPC."""
        reason = error.reason if isinstance(error, Rejected) else RejectionReason.MISBEHAVIOUR
        shown = error.args[0] if isinstance(error, PeerError) and error.peer == caller.address else error
        if reason not in (RejectionReason.RETRY, RejectionReason.STOPPED, RejectionReason.ENDED):
            self._log.warning("rejected a %s from %s: %s", what, caller.address, shown)
        status = str(error).encode("ascii", "replace").decode()[:2000]  # a status line holds no more
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, status, ((REASON_KEY, reason.value),))


def _server_credentials(
    credentials: Credentials, authorities: Callable[[], bytes] | None, others: Callable[[], Sequence[Credentials]]
) -> Any:
    if authorities is None:
        own = [(credentials.key, credentials.certificate)]
        return grpc.ssl_server_credentials(own, credentials.ca, require_client_auth=True)

    def now() -> tuple[tuple[tuple[bytes, bytes], ...], bytes]:
        return tuple((one.key, one.certificate) for one in (credentials, *others())), authorities()

    used = now()

    def changed() -> Any:
        """Return the new TLS files if they have changed; gRPC asks before every handshake."""
        nonlocal used
        found = now()
        if found == used:
            return None
        used = found
        return grpc.ssl_server_certificate_configuration(*found)

    first = grpc.ssl_server_certificate_configuration(*used)
    return grpc.dynamic_ssl_server_credentials(first, changed, require_client_authentication=True)


def _require_tls(caller: Caller) -> None:
    # gRPC has no option that excludes TLS 1.2, so the version is checked here.
    if caller.tls_version != "TLSv1.3":
        version = caller.tls_version or "no TLS"
        raise Rejected(RejectionReason.IDENTITY, f"the connection uses {version}; TLS 1.3 is required")


def _require_protocol(caller: Caller) -> None:
    # Checked before the first frame, which a role of another version may be unable to read. Every version can read why
    # it is rejected.
    if caller.protocol != frames.STREAM_PROTOCOL:
        theirs = repr(printable(caller.protocol)) if caller.protocol else "the protocol of version 0.10.0 or earlier"
        raise Rejected(
            RejectionReason.AGREEMENT,
            f"the aggregator uses {frames.STREAM_PROTOCOL}, but the role with the certificate of "
            f"{', '.join(sorted(caller.names)) or 'no name'} uses {theirs}: install the same version of kcagc at all "
            "roles",
        )


def _first(proven: dict[str, Any], key: str) -> bytes:
    return bytes((proven.get(key) or [b""])[0])
