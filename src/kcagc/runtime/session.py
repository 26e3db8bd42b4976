"""One session of a role on the network, from its journal to its end.

A `SessionRun` joins a role to its connections: it passes on messages in both directions and checks timeouts. When a
connection is lost, another one continues where it ended. The aggregator accepts the streams that parties open; a party
opens one stream itself.

If a party ends a session before any role has sent more than its local labels, all other roles start a new session: the
party can correct its mistake and come back, and their operators need not act.

A role that comes back after the others have given up its session drops it and takes part in theirs, unless it has the
result. A party that was in the session all the time does so only if no role has sent more than local labels; otherwise
its operator decides, because each session reveals a little more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kcagc.errors import AbortedError, AgreementError, KcagcError, PeerError, PeerTimeoutError, SessionError, explained
from kcagc.net.frames import Stream
from kcagc.net.tls import Credentials
from kcagc.protocol.effects import Role
from kcagc.runtime.connection import Connection, Endpoint
from kcagc.runtime.driver import RoleStatus, Watcher, Worker
from kcagc.runtime.durable import RECEIPTS, DurableRole, PeerQueue
from kcagc.runtime.journal import SessionEnd, SessionRandomness, StoredSession
from kcagc.text import listed

logger = logging.getLogger(__name__)

MAX_RESTARTS = 5  # new sessions without a new start of the process
_TICK = 0.25
_LINGER = 5.0  # seconds for peers to receive that a run has failed or finished
_CLOSE_TIMEOUT = 20.0  # seconds for a finished party to reach an aggregator that is not connected
_TAKE_PART = "Start the same command again to take part in it"
_AFTER_REPAIR = "When the cause is repaired, start every role that ended with the same command"
_LAST = ""  # in place of a role: why the last session of this process ended
_LOG_AFTER, _LOG_AGAIN = 2.0, 60.0  # seconds until a wait is logged, and logged again


@dataclass(frozen=True)
class Limits:
    """Times to wait, in seconds, and the size of messages, in bytes."""

    peer_timeout: float = 600.0  # for a peer that is not connected
    message_timeout: float = 3600.0  # for the next message of a connected peer
    max_message_bytes: int = 1 << 28


@dataclass(frozen=True)
class Cause:
    """Why a role has left: its public reason, and what this role knows itself."""

    public: str
    known: str = ""


@dataclass(frozen=True, eq=False)
class RoleSpec:
    """A role and its environment: `finish` writes the results and returns the facts that the journal keeps.

    `causes` are the reasons of roles that have left and not come back, in all sessions of this process.
    """

    endpoint: Endpoint
    make_role: Callable[[SessionRandomness], Role[Any]]
    open_session: Callable[[], StoredSession]
    finish: Callable[[Any], Mapping[str, bytes]]
    credentials: Credentials
    limits: Limits
    watcher: Watcher | None = None
    on_status: Callable[[RoleStatus], None] | None = None
    causes: dict[str, Cause] = field(default_factory=dict)

    @property
    def aggregator(self) -> str:
        """The role that listens."""
        return self.endpoint.agreement.aggregator


class SessionRun:
    """One session of a role, from its journal to its end."""

    def __init__(self, spec: RoleSpec, worker: Worker, session: StoredSession) -> None:
        name, limits = spec.endpoint.name, spec.limits
        self._spec, self._worker, self._limits, self.session = spec, worker, limits, session
        self._is_aggregator = name == spec.aggregator
        parties = [party for party in spec.endpoint.agreement.parties if party != name]
        peers = parties if self._is_aggregator else [spec.aggregator]
        queues = {peer: PeerQueue(peer, max_waiting_bytes=2 * limits.max_message_bytes) for peer in peers}
        role = spec.make_role(session.randomness)
        self.role = DurableRole(
            name, role, queues, session.journal, aggregator=self._is_aggregator, watcher=spec.watcher
        )
        self.queues: Mapping[str, PeerQueue] = queues
        self.connections: dict[str, Connection] = {}
        self.ended = False
        self.fatal: BaseException | None = None  # an error outside the protocol, for example of the journal
        self._changed = asyncio.Event()
        self._awaited: dict[str, float] = {}  # since when the role waits for a peer
        self._logged: dict[tuple[str, ...], float] = {}
        self._awaited_by_aggregator: tuple[str, ...] = ()
        self._settled: set[str] = set()  # peers that have everything, as committed here
        self._excused: set[str] = set()  # peers whose last acknowledgement is not awaited any longer
        self._unconfirmed: list[str] = []  # those of them that may come back for their result
        self._dropped_for: AbortedError | None = None  # the error that ends this session in favour of another one
        self._acts: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(cls, spec: RoleSpec, worker: Worker) -> SessionRun:
        """Open the session and replay its journal."""
        session = await worker.call(spec.open_session)
        run = cls(spec, worker, session)
        if session.resumed:
            logger.info("resuming the interrupted session")
        await worker.call(run.role.resume)
        run._start_clocks()  # the time of a replay does not count
        return run

    @property
    def all_closed(self) -> bool:
        """Whether every peer has closed its stream."""
        return all(queue.closed for queue in self.queues.values())

    def status(self) -> RoleStatus:
        """Return the status of the role."""
        waiting_for = tuple(sorted(peer for peer in self.role.driver.waiting_for if not self.queues[peer].inbox))
        queues = self.queues.values()
        return RoleStatus(
            waiting_for,
            self._disconnected() or self._awaited_by_aggregator,
            sum(queue.bytes_sent for queue in queues),
            sum(queue.bytes_arrived for queue in queues),
        )

    async def run(self, *, may_restart: bool) -> bool:
        """Run to the end; return whether a new session shall start because another party caused the end."""
        try:
            result = await self._run_role()
        except Exception as error:
            if self.role.driver.error is not error or isinstance(error, SessionError):  # the same command resumes it
                raise
            culprit = error.peer if isinstance(error, PeerError) and error.recoverable else ""
            cause = error.peer if isinstance(error, AbortedError | AgreementError) else culprit
            endpoint = self._spec.endpoint
            others = {*endpoint.agreement.parties} - {endpoint.name, self._spec.aggregator}
            repeats_only = self.role.can_start_over(besides=culprit)
            restart = may_restart and cause in others and repeats_only and not getattr(error, "final", False)
            if error is self._dropped_for:
                has_data = endpoint.agreement.participant(endpoint.name).role == "party"
                restart = may_restart and (repeats_only or self.session.resumed or not has_data)
            await self._worker.call(self.session.journal.fail, str(error))
            if restart:
                self._note_cause(cause, error)
                logger.warning("%s; waiting for a new session", error)
                return True
            if isinstance(error, AbortedError):
                if (seen := self._spec.causes.get(cause)) and seen.known and error.final and self._is_waiting_party:
                    error.known = f"{seen.known}. It has not come back"
                error.advice = _TAKE_PART if error is self._dropped_for else _AFTER_REPAIR
            raise
        if self._unconfirmed:
            await self._worker.call(self._spec.finish, result)
            raise PeerTimeoutError(
                f"{listed(self._unconfirmed)} did not confirm within {self._limits.peer_timeout:.0f} s "
                f"(limits.peer_timeout) to have all results. The results of {self._spec.endpoint.name} are written. "
                "Start the same command again, here and there, so that no result is missing",
            )
        await self._worker.call(self._finish, result)
        return False

    @property
    def _is_waiting_party(self) -> bool:
        """Whether this is a party to which the aggregator has sent nothing, or only the end of the session."""
        return not self._is_aggregator and self.queues[self._spec.aggregator].arrived <= 1

    def _note_cause(self, peer: str, error: Exception) -> None:
        """Remember why a role has ended a session, for the end of the next one if it does not come back."""
        if isinstance(error, AbortedError):
            self._spec.causes[peer] = Cause(explained(error.reason))
        elif isinstance(error, KcagcError):
            public = (
                error.public_message if isinstance(error, AgreementError) else f"it broke the rules: {error.args[0]}"
            )
            self._spec.causes[peer] = Cause(public, str(error))
        self._spec.causes[_LAST] = self._spec.causes[peer]

    def _finish(self, result: Any) -> None:
        aggregator, position = self._spec.aggregator, self.session.position
        facts = {**self._spec.finish(result), RECEIPTS: self.role.receipts()}
        queue = self.queues.get(aggregator) or PeerQueue(aggregator)
        end = SessionEnd(position.attempt, position.bound.get(aggregator, b""), queue.arrived, queue.sent)
        self.session.finish(facts, end)

    async def drop(self, peer: str) -> bool:
        """Drop this session, because a peer is in another one; return False if this role has its result."""
        self._dropped_for = AbortedError("it has started another session", peer=peer)
        if not self.role.finished:
            await self.act(self.role.fail, self._dropped_for)
        if self.end_with_result(peer):
            logger.warning("%s has started another session; this one ends with its result", peer)
        return self.role.failed

    def end_with_result(self, peer: str) -> bool:
        """End without this peer, which has left the session, if this role has its result; return whether it has."""
        if has_result := self.role.finished and not self.role.failed:
            self.queues[peer].closed = True
            self._excused.add(peer)
            self._changed.set()
        return has_result

    # Connections.

    @contextlib.contextmanager
    def connect(self, peer: str, stream: Stream, arrived: int) -> Iterator[Connection]:
        """Make a stream the connection of its peer until the block ends.

        `arrived` is the last message that the peer has.
        """
        connection = Connection(
            stream,
            self.queues[peer],
            arrived=arrived,
            max_message_bytes=self._limits.max_message_bytes,
            receive=lambda number, payload: self._receive(peer, number, payload),
            on_ack=self._changed.set,
            on_waiting_for=lambda names: self._waiting_for_received(peer, names),
        )
        self.connections[peer] = connection
        self._spec.causes.pop(peer, None)
        self._awaited_by_aggregator = ()  # the new stream announces it again
        self._changed.set()
        try:
            yield connection
        finally:
            self.disconnect(peer, connection)

    def disconnect(self, peer: str, connection: Connection) -> None:
        """Forget a connection, if it is still the one of its peer."""
        if self.connections.get(peer) is connection:
            del self.connections[peer]
            self._disconnected_since[peer] = time.monotonic()
        self._changed.set()

    async def stop(self) -> None:
        """End every connection; a party that connects again is rejected, because the session is over."""
        for connection in list(self.connections.values()):
            await connection.stop()

    async def close(self) -> None:
        """Close all streams, and wait until the peers have done the same.

        The aggregator waits a moment for connected parties. A party connects again if the connection is lost: otherwise
        the aggregator would wait for a party that has ended.
        """
        await self._until(self._close_all, _LINGER if self._is_aggregator else _CLOSE_TIMEOUT)

    def _close_all(self) -> bool:
        """Close all streams; return whether the awaited peers have closed theirs, and know that this role has."""
        for connection in self.connections.values():
            connection.close()
        ended = (one.peer_closed and one.close_sent for one in self.connections.values())
        return all(ended) if self._is_aggregator else self.all_closed

    # The role.

    async def act(self, function: Callable[..., None], *values: Any) -> None:
        """Run a function in the thread of the role; an error that no peer caused ends the run, and nothing is sent.

        The function also completes if the caller is cancelled because its stream is lost.
        """
        task = asyncio.ensure_future(self._act(function, *values))
        self._acts.add(task)
        task.add_done_callback(self._acted)
        await asyncio.shield(task)

    def _acted(self, task: asyncio.Task[None]) -> None:
        self._acts.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved, as the caller may be gone

    async def _act(self, function: Callable[..., None], *values: Any) -> None:
        try:
            await self._worker.call(function, *values)
        except (asyncio.CancelledError, PeerError):  # an invalid message ends its stream, but not the run
            raise
        except BaseException as error:
            self.fatal = error
        self._wake()

    async def _receive(self, peer: str, number: int, payload: bytes) -> None:
        new = number > self.queues[peer].arrived  # a repeated message does not reset the timeout
        await self.act(self.role.receive, peer, number, payload)
        if new:
            self._message_at[peer] = time.monotonic()

    async def _run_role(self) -> Any:
        """Run until the role has ended and its peers have its messages; return its result or raise its error."""
        loop = asyncio.get_running_loop()
        self.role.on_flush = lambda: _call_in(loop, self._wake)
        while True:
            if self.fatal is not None:
                raise self.fatal
            if self.role.failed:
                break
            if self.role.finished:
                await self._close_settled()
                if all(queue.settled or peer in self._excused for peer, queue in self.queues.items()):
                    break
            await self._check_timeouts()
            if self._spec.on_status is not None:
                self._spec.on_status(self.status())
            # Not `wait_for`: before Python 3.12 it can lose a cancellation.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK):
                    await self._changed.wait()
            self._changed.clear()
        error = self.role.driver.error
        if error is not None and (self._is_aggregator or not isinstance(error, AbortedError)):
            # The aggregator waits for the connected parties, a party for the aggregator.
            peers = self.connections if self._is_aggregator else self.queues
            await self._until(lambda: all(self.queues[peer].settled for peer in peers), _LINGER)
        self.ended = True
        if error is not None:
            raise error
        return self.role.driver.result

    async def _close_settled(self) -> None:
        """Close, as the aggregator, the stream of every party that has everything, after committing that.

        From then on the aggregator does not wait for this party, even after a crash.
        """
        if not self._is_aggregator:
            return
        settled = {peer for peer, queue in self.queues.items() if queue.settled}
        if not settled <= self._settled:
            await self.act(self.role.store_acknowledged)
            self._settled = settled
        for peer in settled:
            if peer in self.connections:
                self.connections[peer].close()

    def _wake(self) -> None:
        for connection in self.connections.values():
            connection.wake.set()
        self._changed.set()

    async def _until(self, done: Callable[[], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not done() and time.monotonic() < end:
            await asyncio.sleep(0.02)

    # Timeouts.

    def _start_clocks(self) -> None:
        self._started = time.monotonic()
        self._disconnected_since = dict.fromkeys(self.queues, self._started)
        self._message_at = dict.fromkeys(self.queues, self._started)

    async def _check_timeouts(self) -> None:
        if self.role.failed:
            return
        now, limit = time.monotonic(), self._limits.peer_timeout
        disconnected = self._disconnected()
        for peer in disconnected:
            if now - self._disconnected_since[peer] > limit:
                if self.role.finished:
                    self._excused.add(peer)
                    if self._is_aggregator:  # otherwise no result depends on the confirmation
                        self._unconfirmed.append(peer)
                    self._changed.set()
                    continue
                others = "".join(f", nor is {other}" for other in disconnected if other != peer)
                await self._time_out(peer, f"not connected for {limit:.0f} s (limits.peer_timeout){others}")
                return
        # A party waits for all others through the aggregator, which times out first.
        limit = self._limits.message_timeout + (0 if self._is_aggregator else self._limits.peer_timeout)
        self._awaited = {peer: self._awaited.get(peer, now) for peer in self.role.driver.waiting_for}
        for peer, since in self._awaited.items():
            if peer in self.connections and now - max(self._message_at[peer], since) > limit:
                await self._time_out(peer, f"connected, but no message for {limit:.0f} s (limits.message_timeout)")
                return
        if self._is_aggregator:
            for peer, connection in self.connections.items():
                connection.announce_waiting_for(tuple(name for name in disconnected if name != peer))
        self._log_waiting(disconnected or self._awaited_by_aggregator, now)

    async def _time_out(self, peer: str, message: str) -> None:
        """End the run of all roles, as the aggregator; as a party end only this process, which can be resumed."""
        advice = "Start all roles again" if self._is_aggregator else "Run the same command again to resume"
        cause = self._spec.causes.get(peer)
        if cause is None and peer not in self.session.position.bound:  # it has not come back since the last session
            cause = self._spec.causes.get(_LAST)
        if cause is not None and self._is_aggregator:
            aborted = AbortedError(f"{cause.public}. It has not come back: {message}", peer=peer)
            aborted.known = f"{cause.known}. It has not come back: {message}" if cause.known else ""
            aborted.final = True
            await self.act(self.role.fail, aborted)
            return
        if cause is not None:
            message = f"{message}: {cause.public}"
        error = PeerTimeoutError(f"{message}. {advice}", peer=peer).with_public_message(f"{peer}: {message}")
        if self._is_aggregator:
            await self.act(self.role.fail, error)
        else:
            self.fatal = error

    def _disconnected(self) -> tuple[str, ...]:
        """Return the peers that are needed and not connected."""
        return tuple(
            peer
            for peer, queue in self.queues.items()
            if peer not in self.connections and peer not in self._excused and not (self.role.finished and queue.settled)
        )

    def _waiting_for_received(self, peer: str, names: tuple[str, ...]) -> None:
        if self._is_aggregator:
            raise PeerError("sent a frame that only an aggregator sends", peer=peer)
        self._awaited_by_aggregator = names
        self._changed.set()

    def _log_waiting(self, names: tuple[str, ...], now: float) -> None:
        """Log which roles are awaited: soon, and then once a minute."""
        due = now - self._logged.get(names, -_LOG_AGAIN) >= _LOG_AGAIN
        if names and due and now - self._started >= _LOG_AFTER:
            self._logged[names] = now
            causes = "".join(f"; {name}: {one.public}" for name, one in self._known_causes(names))
            logger.info("waiting for %s%s", ", ".join(names), causes)

    def _known_causes(self, names: Iterable[str]) -> list[tuple[str, Cause]]:
        return [(name, self._spec.causes[name]) for name in names if name in self._spec.causes]


def public_reason(error: BaseException) -> str:
    """Return what other roles may read about the end of this process."""
    if isinstance(error, KeyboardInterrupt | asyncio.CancelledError):
        return "it was interrupted; the same command there resumes the run"
    return error.public_message if isinstance(error, KcagcError) else KcagcError.public_message


def _call_in(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Call a function in the loop of another thread, unless that loop is closed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function)
