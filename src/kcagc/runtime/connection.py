"""One live stream of a role: sends what is in its outbox, takes in what comes, says what is safe."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from kcagc.errors import PeerError
from kcagc.net.frames import Ack, Assembly, Leave, Missing, Part, Ping, Pong, parts
from kcagc.net.stream import ConnectionLost, Wire
from kcagc.runtime.peer_queue import PeerQueue

_QUEUED = 4  # complete messages that wait for the role before reading stops


class Link:
    """Lives from a welcome to the end of the stream."""

    def __init__(
        self,
        wire: Wire,
        letters: PeerQueue,
        *,
        arrived: int,
        longest: int,
        take_in: Callable[[int, bytes], Awaitable[None]],
        acknowledged: Callable[[], None],
        told_missing: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._wire, self._letters = wire, letters
        self._take_in, self._acknowledged, self._told_missing = take_in, acknowledged, told_missing
        self._next = arrived + 1  # the next message to send: what the peer has not got yet
        self._assembly = Assembly(letters.peer, longest)
        self._messages: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(_QUEUED)
        self._wake, self._heard, self._answered = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._said_safe = -1
        self._missing: tuple[str, ...] = ()
        self._told: tuple[str, ...] = ()
        self._pings = self._pongs = 0
        self._leaving = self._left = self._ended = False
        self.peer_left = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Work until the stream ends; raise what ended it, unless that was nobody's fault."""
        if self._ended:  # before it began: another stream of the same peer was let in
            return
        self._tasks = [asyncio.create_task(one()) for one in (self._read, self._hand_over, self._write)]
        try:
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if not task.cancelled():
                    task.result()
        except ConnectionLost:
            return
        finally:
            self._ended = True
            for sign in (self._heard, self._answered):
                sign.set()
            await self.stop()

    async def stop(self) -> None:
        """End the work; the stream is closed by whoever opened it."""
        self._ended = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def wake(self) -> None:
        """Look again at what there is to send."""
        self._wake.set()

    def tell_missing(self, names: tuple[str, ...]) -> None:
        """Let the peer know who else is being waited for."""
        self._missing = names
        if names != self._told:
            self._wake.set()

    def leave(self) -> None:
        """Say, once, that all is done here."""
        if not self._left:
            self._leaving = self._left = True
            self._wake.set()

    async def alive(self, seconds: float) -> bool:
        """Ask whether the other end is still there: it answers, or is in the middle of a long message.

        What had come before a connection was lost may still wait to be read. It is no sign of life, and is read in
        half of the time.
        """
        self._pings += 1
        self._wake.set()
        for sign in (self._answered, self._heard):
            sign.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds / 2):
                    await sign.wait()
            if sign.is_set():
                return not self._ended
        return False

    async def _read(self) -> None:
        while True:
            frame = await self._wire.receive()
            self._heard.set()
            if isinstance(frame, Part):
                message = self._assembly.add(frame)
                if message is not None:
                    await self._messages.put(message)
            elif isinstance(frame, Ack):
                self._letters.note_acknowledged(frame.number)
                self._acknowledged()
            elif isinstance(frame, Ping):
                self._pongs += 1
                self._wake.set()
            elif isinstance(frame, Missing):
                self._told_missing(frame.names)
            elif isinstance(frame, Leave):
                self.peer_left.set()
            elif isinstance(frame, Pong):
                self._answered.set()
            else:
                raise PeerError("sent an opening frame in the middle of a stream", peer=self._letters.peer)

    async def _hand_over(self) -> None:
        while True:
            number, payload = await self._messages.get()
            await self._take_in(number, payload)
            self._wake.set()

    async def _write(self) -> None:
        while True:
            self._wake.clear()
            safe = self._letters.safe
            if safe > self._said_safe:
                self._said_safe = safe
                await self._wire.send(Ack(safe))
            while self._next <= self._letters.sent:
                payload = self._letters.outbox.get(self._next)
                if payload is not None:
                    for part in parts(self._next, payload):
                        await self._wire.send(part)
                self._next += 1
            for _ in range(self._pings):
                await self._wire.send(Ping())
            for _ in range(self._pongs):
                await self._wire.send(Pong())
            self._pings = self._pongs = 0
            if self._missing != self._told:
                self._told = self._missing
                await self._wire.send(Missing(self._told))
            if self._leaving:
                self._leaving = False
                await self._wire.send(Leave())
            await self._wake.wait()
