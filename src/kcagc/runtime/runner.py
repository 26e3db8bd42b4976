"""The one loop that joins a role to its streams: what arrives goes to the role, what it sends goes out, and time runs.

A runner has no opinion on who opened a stream. The aggregator admits those that parties open, a party the one that
it opens itself; when a stream is lost, another takes its place and goes on where it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kcagc.errors import AbortedError, PeerError, PeerTimeoutError
from kcagc.net.stream import Wire
from kcagc.runtime.connection import Link
from kcagc.runtime.durable import DurableRole
from kcagc.runtime.peer_queue import PeerQueue
from kcagc.runtime.status import Look, RoleStatus
from kcagc.runtime.worker import Worker

logger = logging.getLogger(__name__)

_TICK = 0.25
_LINGER = 5.0  # seconds in which peers can hear that a run has failed, or that all is done
_TELL = 20.0  # seconds in which a party that is done tries to tell an aggregator that it cannot reach
_SAY_AFTER = 2.0
_SAY_AGAIN = 60.0


@dataclass(frozen=True)
class Waiting:
    """How long to wait, in seconds, and how long a message may be, in bytes."""

    missing: float = 600.0  # for a peer that is not connected
    silent: float = 3600.0  # for the next message of one that is
    largest_message: int = 1 << 28


class Runner:
    """Runs one role of one session to its end."""

    def __init__(
        self,
        role: DurableRole,
        worker: Worker,
        waiting: Waiting,
        *,
        aggregator: bool,
        look: Look | None = None,
    ) -> None:
        self.role, self._worker, self._waiting, self._is_aggregator = role, worker, waiting, aggregator
        self._look = look
        self.links: dict[str, Link] = {}
        self.ended = False
        self._fatal: BaseException | None = None
        self._changed = asyncio.Event()
        self._start_clocks()
        self._awaited: dict[str, float] = {}  # since when the role waits for whom
        self._said: dict[tuple[str, ...], float] = {}
        self._awaited_elsewhere: tuple[str, ...] = ()
        self._settled: set[str] = set()  # who has everything, as is safe here
        self._released: set[str] = set()  # who has said that all is safe there, too
        self._excused: set[str] = set()  # whose last word is not waited for any longer
        self._acts: set[asyncio.Task[None]] = set()

    def _start_clocks(self) -> None:
        self._begun = time.monotonic()
        self._gone_since = dict.fromkeys(self.letters, self._begun)
        self._heard_at = dict.fromkeys(self.letters, self._begun)

    @property
    def letters(self) -> Mapping[str, PeerQueue]:
        """The correspondence with each peer."""
        return self.role.letters

    def admit(self, peer: str, wire: Wire, arrived: int) -> Link:
        """Make a stream the one of its peer; `arrived` is the last message that the peer has."""
        link = Link(
            wire,
            self.letters[peer],
            arrived=arrived,
            longest=self._waiting.largest_message,
            take_in=lambda number, payload: self._take_in(peer, number, payload),
            acknowledged=self._changed.set,
            told_missing=lambda names: self._told_missing(peer, names),
        )
        self.links[peer] = link
        self._awaited_elsewhere = ()  # of which the new stream tells
        return link

    @contextlib.asynccontextmanager
    async def serving(self, peer: str, link: Link) -> AsyncIterator[None]:
        """Forget a stream, whatever ends it."""
        self._changed.set()
        try:
            yield
        finally:
            if link.peer_left.is_set():
                self._released.add(peer)
            self.dismiss(peer, link)

    def dismiss(self, peer: str, link: Link) -> None:
        """Take a stream for gone, if it is still the one of its peer."""
        if self.links.get(peer) is link:
            del self.links[peer]
            self._gone_since[peer] = time.monotonic()
        self._changed.set()

    @property
    def failed(self) -> bool:
        """Whether the journal, or something of our own, has failed, so that nothing goes on."""
        return self._fatal is not None

    async def run(self) -> Any:
        """Work until the role has ended and its peers know; give its result, or raise why it failed."""
        self._start_clocks()  # nobody is to blame for the time that a replay takes
        loop = asyncio.get_running_loop()
        self.role.on_release = lambda: _in(loop, self._wake)
        while True:
            if self._fatal is not None:
                raise self._fatal
            if self.role.finished and self.role.error is None:
                await self._release()
            if self.role.finished and (self.role.error is not None or self._all_settled()):
                break
            await self._check_time()
            if self._look is not None:
                self._look(self.glimpse())
            # Not `wait_for`, which before Python 3.12 forgets that it was cancelled when there is a change as well.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK):
                    await self._changed.wait()
            self._changed.clear()
        if self.role.error is not None:
            if self._is_aggregator or not isinstance(
                self.role.error, AbortedError
            ):  # who told a party need not be told
                # The aggregator waits for those that are there; a party for the aggregator, which it connects to again.
                awaited = self.links if self._is_aggregator else self.letters
                await self._until(lambda: all(self.letters[peer].settled for peer in awaited), _LINGER)
            self.ended = True
            raise self.role.error
        self.ended = True
        return self.role.result

    def glimpse(self) -> RoleStatus:
        """Say what can be seen from outside."""
        wanted = tuple(sorted(peer for peer in self.role.waiting_for if not self.letters[peer].has_letter))
        missing = self._missing() or self._awaited_elsewhere
        every = self.letters.values()
        return RoleStatus(
            wanted, missing, sum(one.bytes_sent for one in every), sum(one.bytes_arrived for one in every)
        )

    async def _release(self) -> None:
        """Let go, as the aggregator, every party that has everything, once that is safe here: a party may end then.

        From here on even an aggregator that is killed and comes back does not wait for it.
        """
        if not self._is_aggregator:
            return
        settled = {peer for peer, letters in self.letters.items() if letters.settled}
        if not settled <= self._settled:
            await self.have_done(self.role.keep_acknowledged)
            self._settled = settled
        for peer in settled:
            if peer in self.links:
                self.links[peer].leave()

    async def say_goodbye(self) -> None:
        """Tell peers that everything is safe here, and wait until they have said the same.

        The aggregator waits a moment for those that are there. A party comes back for it if the connection is lost:
        otherwise the aggregator would wait for a party that has ended.
        """
        if self._is_aggregator:
            for link in self.links.values():
                link.leave()
            await self._until(lambda: all(link.peer_left.is_set() for link in self.links.values()), _LINGER)
            return
        await self._until(self._all_released, _TELL)

    @property
    def released(self) -> bool:
        """Whether every peer has said that all is safe there."""
        return self._released >= self.letters.keys()

    def _all_released(self) -> bool:
        for peer, link in self.links.items():
            link.leave()
            if link.peer_left.is_set():
                self._released.add(peer)
        return self.released

    async def fail(self, error: Exception) -> None:
        """End the role from outside."""
        await self.have_done(self.role.fail, error)

    async def close(self) -> None:
        """End every stream of this session; whoever still speaks in it comes back, and hears that it is over."""
        for link in list(self.links.values()):
            await link.stop()

    async def _take_in(self, peer: str, number: int, payload: bytes) -> None:
        new = number > self.letters[peer].arrived  # what is repeated does not count as a word
        await self.have_done(self.role.take_in, peer, number, payload)
        if new:
            self._heard_at[peer] = time.monotonic()

    async def have_done(self, act: Callable[..., None], *values: Any) -> None:
        """Have the role do something; a failure of the journal or of our own ends the run, and nothing is sent.

        When the stream that brought it is lost meanwhile, it is still done, and the next stream hears of it.
        """
        task = asyncio.ensure_future(self._do(act, *values))
        self._acts.add(task)
        task.add_done_callback(self._acted)
        await asyncio.shield(task)

    def _acted(self, task: asyncio.Task[None]) -> None:
        self._acts.discard(task)
        if not task.cancelled():
            task.exception()  # is for whoever waits, and nobody may by now

    async def _do(self, act: Callable[..., None], *values: Any) -> None:
        try:
            await self._worker.call(act, *values)
        except (asyncio.CancelledError, PeerError):  # what a stream must not bring ends that stream, and not the run
            raise
        except BaseException as error:
            self._fatal = error
        self._wake()

    def _wake(self) -> None:
        for link in self.links.values():
            link.wake()
        self._changed.set()

    def _all_settled(self) -> bool:
        return all(letters.settled or peer in self._excused for peer, letters in self.letters.items())

    async def _until(self, done: Callable[[], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not done() and time.monotonic() < end:
            await asyncio.sleep(0.02)

    async def _check_time(self) -> None:
        if self.role.finished and self.role.error is not None:
            return
        now = time.monotonic()
        gone = self._missing()
        for peer in gone:
            if now - self._gone_since[peer] > self._waiting.missing:
                seconds = round(self._waiting.missing)
                if self.role.finished:
                    logger.warning(
                        "%s has not said for %d seconds whether it has everything; ending without", peer, seconds
                    )
                    self._excused.add(peer)
                    self._changed.set()
                    continue
                others = "".join(f", nor is {other}" for other in gone if other != peer)
                await self._give_up(peer, f"not connected for {seconds} seconds{others}")
                return
        # A party waits for everybody through the aggregator, which gives up on who is missing first.
        longest = self._waiting.silent if self._is_aggregator else self._waiting.silent + self._waiting.missing
        self._awaited = {peer: self._awaited.get(peer, now) for peer in self.role.waiting_for}
        for peer, since in self._awaited.items():
            if peer in self.links and now - max(self._heard_at[peer], since) > longest:
                seconds = round(longest)
                await self._give_up(peer, f"connected, but silent for {seconds} seconds")
                return
        if self._is_aggregator:
            for peer, link in self.links.items():
                link.tell_missing(tuple(name for name in gone if name != peer))
        self._say(gone or self._awaited_elsewhere, now)

    async def _give_up(self, peer: str, message: str) -> None:
        """End the run for want of a peer: the aggregator for all; a party for itself, and the same command goes on."""
        error = PeerTimeoutError(message, peer=peer).with_public_message(f"{peer}: {message}")
        if self._is_aggregator:
            await self.fail(error)
        else:
            self._fatal = error

    def _missing(self) -> tuple[str, ...]:
        """Name the peers that are needed and not there."""
        done = self.role.finished
        return tuple(
            peer
            for peer in self.letters
            if peer not in self.links and peer not in self._excused and not (done and self.letters[peer].settled)
        )

    def _told_missing(self, peer: str, names: tuple[str, ...]) -> None:
        if self._is_aggregator:
            raise PeerError("told the aggregator who is missing", peer=peer)
        self._awaited_elsewhere = names
        self._changed.set()

    def _say(self, names: tuple[str, ...], now: float) -> None:
        """Say who is missing: soon, and then once a minute."""
        due = now - self._said.get(names, -_SAY_AGAIN) >= _SAY_AGAIN  # not at every coming and going
        if names and due and now - self._begun >= _SAY_AFTER:
            self._said[names] = now
            logger.info("waiting for %s", ", ".join(names))


def _in(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    """Have something done in a loop of another thread, unless that loop is gone."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(act)
