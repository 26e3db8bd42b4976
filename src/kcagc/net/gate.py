"""The gate in front of a gRPC server: it limits connections before they have proven an identity.

A connection costs nothing until TLS has checked its certificate, so a stranger can open thousands, and gRPC, which
accepts them, has one limit for all addresses together. The gate listens in its place, and passes bytes on to gRPC
through a socket in a private folder. TLS is not changed. Of the connections that are not authenticated yet it keeps
few. For a new one it closes the oldest from the address that has most of them, so a stranger displaces its own
connections first. An authenticated connection has a holder, the role that its certificate names; a holder displaces its
own connections, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import shutil
import socket
import sys
import tempfile
import time
import weakref
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from kcagc.errors import KcagcError

if sys.platform != "win32":
    import resource

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 512
_MAX_STRANGERS = 64  # connections that are not authenticated
OF_A_ROLE = 8  # connections of a role: a run, questions for the next one, and other commands
_FEW = 2  # connections that a holder keeps even if all are taken
_STRANGER_SECONDS = 15.0  # for TLS and the first call
_FLUSH_SECONDS = 10.0  # for what is left to send at the end of a connection
_STOP_SECONDS = 1.0  # for the last bytes of all connections
_SUMMARY_SECONDS = 60.0  # between two log lines about closed connections
_HANDLES = 3  # file descriptors of a connection: its own, and both ends of the private socket
_OTHER_HANDLES = 200  # file descriptors for everything else
_DESCRIPTORS = 4096  # that this process asks for; more only make its tables larger
_BACKLOG = 256
_AT_ONCE = 64  # connections accepted before other work has its turn
_NO_IDENTITY = "that did not prove an identity"
_TOO_MANY = "of roles that had more than they may"
_LONGEST_PATH = 90  # characters of a socket's path; systems allow about 100


def raise_descriptor_limit() -> int:
    """Raise the soft limit of file descriptors towards the hard one; return the limit."""
    if sys.platform == "win32":
        return _DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = _DESCRIPTORS if hard == unlimited else min(hard, _DESCRIPTORS)
    if soft == unlimited or soft >= wanted:
        return _DESCRIPTORS if soft == unlimited else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # some systems have a lower limit of their own
        return soft
    return wanted


@dataclass(eq=False)
class _Connection:
    """A connection and its two ends; `server` is None while gRPC is being reached."""

    number: int
    address: str
    host: str
    client: asyncio.Transport | None = None
    server: asyncio.Transport | None = None
    raw: socket.socket | None = None  # until `client` has it
    timer: asyncio.TimerHandle | None = None  # None after authentication
    holder: str | None = None  # None before


class _End(asyncio.Protocol):
    """One end of a connection: what arrives here leaves at the other end."""

    def __init__(self, gate: Gate, connection: _Connection) -> None:
        self._gate, self._connection = gate, connection
        self._own: asyncio.Transport | None = None
        self.other: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._own = cast(asyncio.Transport, transport)
        self._gate.opened_end(self._own)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            with contextlib.suppress(RuntimeError):
                self.other.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            with contextlib.suppress(RuntimeError):
                self.other.resume_reading()

    def connection_lost(self, _: Exception | None) -> None:
        if self._own is not None:
            self._gate.closed_end(self._own, self._connection)


class Gate:
    """Listens at an address and passes connections on to a server at `target`, as far as they fit.

    `refused` counts the connections that it closed itself, by the reason.
    """

    def __init__(self, host: str, port: int, *, max_connections: int = MAX_CONNECTIONS) -> None:
        descriptors = raise_descriptor_limit()
        self.max_connections = max(min(max_connections, (descriptors - _OTHER_HANDLES) // _HANDLES), 8)
        self._last_descriptor = descriptors - min(_OTHER_HANDLES, descriptors // 4) // 2
        self.max_strangers = min(_MAX_STRANGERS, max(self.max_connections // 2, 4))
        self._folder = _private_folder()
        try:
            self._sockets = _listening(host, port)
        except BaseException:
            self._folder.rmdir()
            raise
        self.port = int(self._sockets[0].getsockname()[1])
        self._release = weakref.finalize(self, _release, self._sockets, self._folder)
        self.target = str(self._folder / "grpc")
        self.refused, self._reported, self._count = Counter[str](), Counter[str](), 0
        self._reported_at: dict[str, float] = {}
        self._connections: dict[int, _Connection] = {}
        self._strangers: dict[int, _Connection] = {}  # the oldest first
        self._tasks: set[asyncio.Task[None]] = set()
        self._transports: set[asyncio.Transport] = set()
        self._all_ended = asyncio.Event()

    def start(self) -> None:
        """Accept connections from now on."""
        loop = asyncio.get_running_loop()
        for one in self._sockets:
            loop.add_reader(one.fileno(), self._accept, one)

    async def stop(self) -> None:
        """Stop accepting; what the server behind the gate has sent at its own end still leaves."""
        self.close()
        for connection in list(self._strangers.values()):
            self.end(connection)
        for ending in (self._flushed(), self._aborted()):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await ending

    def close(self) -> None:
        """Stop accepting, without waiting for connections."""
        for one in self._sockets:
            with contextlib.suppress(RuntimeError):  # there is no loop if the gate was never started
                if one.fileno() >= 0:
                    asyncio.get_running_loop().remove_reader(one.fileno())
        self._release()

    async def _flushed(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._transports:
            await self._all_ended.wait()

    async def _aborted(self) -> None:
        for transport in list(self._transports):
            transport.abort()
        await self._flushed()

    def opened_end(self, transport: asyncio.Transport) -> None:
        """Note that an end of a connection is open."""
        self._transports.add(transport)
        self._all_ended.clear()

    def closed_end(self, transport: asyncio.Transport, connection: _Connection) -> None:
        """Note that an end of a connection is closed, and close the other one."""
        self._transports.discard(transport)
        if not self._transports:
            self._all_ended.set()
        self.end(connection)

    def authenticated(self, peer: str, holder: str | None = None, at_most: int = OF_A_ROLE) -> str:
        """Note that gRPC has authenticated a connection; `peer` is what it calls the other end. Return its address.

        `holder` may have so many connections: for one more, its oldest is closed.
        """
        number = peer.rpartition("/")[2]
        connection = self._connections.get(int(number)) if number.isdecimal() else None
        if connection is None:
            return "a connection that has ended"
        self._strangers.pop(connection.number, None)
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None
        if holder is not None and connection.holder is None:
            connection.holder = holder
            own = [one for one in self._connections.values() if one.holder == holder]
            if len(own) > at_most:
                self.end(own[0])
                self._refuse(_TOO_MANY)
        return connection.address

    def end(self, connection: _Connection) -> None:
        """End both sides of a connection, after what is left to send."""
        if self._connections.pop(connection.number, None) is None:
            return
        self._strangers.pop(connection.number, None)
        if connection.timer is not None:
            connection.timer.cancel()
        if connection.raw is not None:
            connection.raw.close()
        for transport in (connection.client, connection.server):
            if transport is not None:
                transport.close()
                if transport.get_write_buffer_size():  # a peer that reads nothing must not keep it
                    asyncio.get_running_loop().call_later(_FLUSH_SECONDS, transport.abort)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file descriptors or no memory
                logger.warning("cannot accept connections for a second: %s", error.strerror or error)
                loop = asyncio.get_running_loop()
                loop.remove_reader(listener.fileno())
                loop.call_later(1.0, self._accept_again, listener)
                return
            accepted.setblocking(False)
            # Otherwise a small message waits up to 40 ms for the acknowledgement of the one before.
            with contextlib.suppress(OSError):  # it was closed already
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._admit(accepted, address)

    def _accept_again(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:  # the gate has not stopped
            asyncio.get_running_loop().add_reader(listener.fileno(), self._accept, listener)

    def _admit(self, accepted: socket.socket, address: Any) -> None:
        host = str(address[0]).removeprefix("::ffff:")
        # The system gives the lowest free descriptor. Others are in use by closed connections that gRPC still holds.
        scarce = accepted.fileno() >= self._last_descriptor
        full = len(self._connections) >= self.max_connections
        displaced = self._oldest_of_the_largest() if full else None
        if scarce or (full and displaced is None and not self._strangers):
            accepted.close()
            self._refuse()
            return
        if displaced is not None:
            self.end(displaced)
            self._refuse(_TOO_MANY)
        if len(self._strangers) >= self.max_strangers or len(self._connections) >= self.max_connections:
            self.end(self._least_welcome(host))
            self._refuse()
        self._count += 1
        shown = f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
        connection = _Connection(self._count, shown, host, raw=accepted)
        self._connections[connection.number] = self._strangers[connection.number] = connection
        connection.timer = asyncio.get_running_loop().call_later(_STRANGER_SECONDS, self._late, connection)
        task = asyncio.get_running_loop().create_task(self._join(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _oldest_of_the_largest(self) -> _Connection | None:
        """Return the oldest connection of the holder that has most; None if it has few."""
        counts = Counter(one.holder for one in self._connections.values() if one.holder is not None)
        holder, most = next(iter(counts.most_common(1)), (None, 0))
        return next(one for one in self._connections.values() if one.holder == holder) if most > _FEW else None

    def _least_welcome(self, newest: str) -> _Connection:
        """Return the oldest stranger of the address that has most of them, the new one included."""
        counts = Counter(one.host for one in self._strangers.values())
        counts[newest] += 1
        most = max(counts.values())
        return next(
            (one for one in self._strangers.values() if counts[one.host] == most), next(iter(self._strangers.values()))
        )

    def _late(self, connection: _Connection) -> None:
        connection.timer = None
        self.end(connection)
        self._refuse()

    def _refuse(self, reason: str = _NO_IDENTITY) -> None:
        self.refused[reason] += 1
        now = time.monotonic()
        if now - self._reported_at.get(reason, -math.inf) >= _SUMMARY_SECONDS:
            number = self.refused[reason] - self._reported[reason]
            self._reported[reason], self._reported_at[reason] = self.refused[reason], now
            logger.warning(
                "closed %d connection%s %s (%d are waiting, at most %d may)",
                number,
                "s" * (number != 1),
                reason,
                len(self._strangers),
                self.max_strangers,
            )

    async def _join(self, connection: _Connection) -> None:
        """Connect a client with gRPC."""
        loop, raw = asyncio.get_running_loop(), connection.raw
        if raw is None or connection.number not in self._connections:
            return
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            inner.setblocking(False)
            inner.bind(str(self._folder / str(connection.number)))  # its name shows gRPC which connection it is
            await loop.sock_connect(inner, self.target)
            ends = _End(self, connection), _End(self, connection)
            server, _ = await loop.create_unix_connection(lambda: ends[1], sock=inner)
            server.pause_reading()
            connection.server = server
            if connection.number not in self._connections:  # it was closed meanwhile
                server.abort()
                return
            connection.raw, ends[0].other = None, server  # the first bytes can arrive before `client` is known here
            client, _ = await loop.connect_accepted_socket(lambda: ends[0], raw)
            connection.client = ends[1].other = client
            server.resume_reading()
            if connection.number not in self._connections:
                client.abort()
        except OSError as error:
            inner.close()
            logger.debug("a connection from %s could not be passed on: %s", connection.address, error)
            self.end(connection)
        finally:
            (self._folder / str(connection.number)).unlink(missing_ok=True)


def _private_folder() -> Path:
    """Make a folder that only this user can open, with a path that is short enough for sockets."""
    usual = len(tempfile.gettempdir()) < _LONGEST_PATH - len("/kcagc-12345678/1234567890")
    try:
        return Path(tempfile.mkdtemp(prefix="kcagc-", dir=None if usual else "/tmp"))  # noqa: S108
    except OSError as error:
        raise KcagcError(
            f"cannot make a folder for temporary files: {error}. Set the variable TMPDIR to a folder that this user "
            "can write to"
        ) from error


def _listening(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen at all addresses of a host, on one port; a wildcard is for IPv4 and IPv6."""
    sockets: list[socket.socket] = []
    try:
        if host in ("0.0.0.0", "::") and socket.has_dualstack_ipv6():  # noqa: S104 - compared, not listened on
            with contextlib.suppress(OSError):  # a system can have IPv6 switched off
                return [_listen(socket.AF_INET6, ("::", port), both=True)]
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, (where, _, *rest) in found:
            sockets.append(_listen(family, (where, port, *rest)))
            port = int(sockets[0].getsockname()[1])  # the same for all addresses
    except OSError as error:
        for one in sockets:
            one.close()
        raise KcagcError(
            f"cannot listen on {host}:{port}: the port is in use, or the address does not belong to this machine. "
            "Choose another address or port"
        ) from error
    return sockets


def _release(sockets: list[socket.socket], folder: Path) -> None:
    """Close the sockets and remove the folder of a gate, also of one that was never started."""
    for one in sockets:
        one.close()
    shutil.rmtree(folder, ignore_errors=True)


def _listen(family: int, address: Any, *, both: bool = False) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
        one.bind(address)
        one.listen(_BACKLOG)
        one.setblocking(False)
    except BaseException:
        one.close()
        raise
    return one
