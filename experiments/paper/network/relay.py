"""Links with a delay and a rate: a slow network, on a machine whose kernel cannot simulate one.

Each party connects to its own port of the relay instead of to the aggregator. Bytes arrive in order and unchanged, no
faster than the rate and not before the delay, separately in each direction. Delays overlap: a thousand small messages
take one delay, not a thousand.

Two properties of a real network are missing. This machine answers the first packet, so that opening a connection takes
no delay (it is not measured), and the TCP window is as wide as the link from the start. Windows between the two ends,
such as those of HTTP/2, work as in a real network.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import struct
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

_CHUNK = 1 << 16
_BUFFER = 1 << 20  # bytes beyond those in transit, so that the link stays busy while other processes run
_RESET = struct.pack("ii", 1, 0)  # linger 0: closing sends RST
_HOST = "127.0.0.1"


@dataclass(frozen=True)
class Network:
    """The properties of every link, in each direction: delay in seconds and rate in bits per second."""

    name: str
    delay: float
    rate: float

    @property
    def most_held(self) -> int:
        """The number of bytes that a direction holds before it stops reading."""
        return int(self.rate / 8 * self.delay) + _BUFFER


LAN = Network("lan", delay=0.0, rate=1000e6)
WAN = Network("wan", delay=0.1, rate=400e6)
NETWORKS = {network.name: network for network in (LAN, WAN)}


@dataclass
class Count:
    """The bytes that passed in one direction of a link, and the most that were in transit at once."""

    passed: int = 0
    held: int = 0


class Relay:
    """Links to one port, each with its own port, served by a thread until they are closed."""

    def __init__(self, network: Network, target: int, n_links: int) -> None:
        self._network, self._target = network, target
        self._listeners = [socket.create_server((_HOST, 0)) for _ in range(n_links)]
        self.ports = [int(listener.getsockname()[1]) for listener in self._listeners]
        self.counts = [(Count(), Count()) for _ in range(n_links)]  # towards the target, and back
        # `select` waits as precisely as the clock; `epoll` rounds up to milliseconds.
        self._loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
        self._thread = threading.Thread(target=self._work, name="relay", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        for listener in self._listeners:
            listener.close()

    def _work(self) -> None:
        for link, listener in enumerate(self._listeners):
            listener.setblocking(False)
            self._begin(self._listen(link, listener))
        self._loop.run_forever()
        for task in self._tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._loop.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self, link: int, listener: socket.socket) -> None:
        while True:
            client, _ = await self._loop.sock_accept(listener)
            self._begin(self._serve(link, client))

    async def _serve(self, link: int, client: socket.socket) -> None:
        with client, socket.socket() as server:
            client.setblocking(False)
            server.setblocking(False)
            try:
                await self._loop.sock_connect(server, (_HOST, self._target))
            except OSError:
                _reset_at_close(client)  # as a machine answers on a closed port
                return
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            there, back = self.counts[link]
            ways = (_Way(self._network, client, server, there), _Way(self._network, server, client, back))
            working = {asyncio.create_task(way.run()) for way in ways}
            try:
                while working:
                    done, working = await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
                    for lost in (task.result() for task in done):
                        if lost is not None:
                            _reset_at_close(lost)
                            return
            finally:
                for task in working:
                    task.cancel()
                await asyncio.gather(*working, return_exceptions=True)  # the reader of a socket must release it first


class _Way:
    """One direction of one connection."""

    def __init__(self, network: Network, source: socket.socket, sink: socket.socket, count: Count) -> None:
        self._network, self._source, self._sink, self._count = network, source, sink, count
        self._under_way: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue()
        self._held, self._room = 0, asyncio.Event()

    async def run(self) -> socket.socket | None:
        """Forward bytes to the end; return the socket to reset, if the other one was reset."""
        reading = asyncio.create_task(self._read())
        try:
            return await self._write()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self) -> None:
        loop, free_at = asyncio.get_running_loop(), 0.0
        while True:
            while self._held >= self._network.most_held:
                self._room.clear()
                await self._room.wait()
            try:
                data: bytes | None = await loop.sock_recv(self._source, _CHUNK)
            except OSError:
                data = None
            size = len(data or b"")
            # A byte leaves after the bytes before it, and arrives one delay later.
            free_at = max(free_at, loop.time()) + 8 * size / self._network.rate
            self._held += size
            self._count.held = max(self._count.held, self._held)
            self._under_way.put_nowait((free_at + self._network.delay, data))
            if not data:
                return

    async def _write(self) -> socket.socket | None:
        loop = asyncio.get_running_loop()
        while True:
            due, data = await self._under_way.get()
            while (left := due - loop.time()) > 0:
                await asyncio.sleep(left)
            if data is None:
                return self._sink
            try:
                if not data:
                    self._sink.shutdown(socket.SHUT_WR)
                    return None
                await loop.sock_sendall(self._sink, data)
            except OSError:  # the receiver has closed; the sender learns it one delay later
                await asyncio.sleep(self._network.delay)
                return self._source
            self._count.passed += len(data)
            self._held -= len(data)
            self._room.set()


def _reset_at_close(one: socket.socket) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
