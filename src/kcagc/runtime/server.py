"""The role that listens: it accepts each expected party once and runs sessions until one succeeds."""

from __future__ import annotations

import asyncio
import logging
from typing import NoReturn

from kcagc.errors import explained
from kcagc.net.frames import ANY_SESSION, Open, Rejected, RejectionReason
from kcagc.net.grpc_server import Caller, ServerStream
from kcagc.runtime.connection import NEW_SESSION, check_position, identify, pause_before_restart, welcome
from kcagc.runtime.driver import Worker
from kcagc.runtime.session import MAX_RESTARTS, Cause, RoleSpec, SessionRun
from kcagc.text import printable

logger = logging.getLogger(__name__)

_ALIVE_TIMEOUT = 3.0  # seconds for an earlier connection of a party to answer a ping


class RoleServer:
    """The role that listens: `serve` handles the streams that a `Server` accepts for it."""

    def __init__(self, spec: RoleSpec) -> None:
        self._spec = spec
        self._run: SessionRun | None = None
        self._worker = Worker()
        self._ending = ""  # why this process ends

    async def open(self) -> None:
        """Open the session, before any stream is accepted: it may fail."""
        self._run = await SessionRun.start(self._spec, self._worker)

    async def run(self) -> None:
        """Run sessions until one succeeds."""
        if self._run is None:
            await self.open()
        starts = 1
        while self._run is not None and await self._run.run(may_restart=starts <= MAX_RESTARTS):
            await self._run.stop()
            await asyncio.sleep(pause_before_restart(starts))
            starts += 1
            self._run = await SessionRun.start(self._spec, self._worker)
        if self._run is not None:
            await self._run.close()

    @property
    def connected(self) -> tuple[str, ...]:
        """The parties that are connected."""
        return () if self._run is None else tuple(self._run.connections)

    def awaits(self, party: str) -> bool:
        """Return whether a session is open that this party has not joined yet."""
        run = self._run
        return run is not None and not run.ended and not run.role.finished and party not in run.session.position.bound

    def note_rejected(self, caller: Caller, rejection: Rejected) -> None:
        """Remember that a party has another version or other inputs; its certificate proves its name."""
        if rejection.reason is RejectionReason.AGREEMENT:
            for name, tls_name in self._spec.endpoint.tls_names.items():
                if tls_name in caller.names and name not in self.connected:
                    self._spec.causes[name] = Cause(rejection.message)

    def announce_end(self, reason: str) -> None:
        """End every stream with the reason why this process ends, unless the messages of the role say it."""
        if self._run is not None and self._run.role.failed:
            return
        self._ending = reason
        for connection in [] if self._run is None else self._run.connections.values():
            connection.end()

    async def stop(self) -> None:
        """End every stream and the thread of the role."""
        run, self._run = self._run, None
        if run is not None:
            await run.stop()
        self._worker.stop()

    async def serve(self, stream: ServerStream) -> None:
        """Perform the handshake of a stream and serve it to its end."""
        await self.admit(stream, *await identify(stream, self._spec.endpoint))

    async def admit(self, stream: ServerStream, opened: Open, signed: bytes) -> None:
        """Serve a stream to its end after its opening was verified."""
        endpoint, name, run = self._spec.endpoint, opened.name, self._run
        between_sessions = Rejected(RejectionReason.RETRY, f"{endpoint.name} is between two sessions")
        if opened.leaving:
            self._note_leaving(name, printable(opened.leaving))
        if run is None or run.ended:
            raise between_sessions
        queue = run.queues[name]
        while (earlier := run.connections.get(name)) is not None:
            if await earlier.alive(_ALIVE_TIMEOUT):
                message = f"another process of {name} is connected already: run each role only once at a time"
                raise Rejected(RejectionReason.SESSION, message)
            await earlier.stop()
            run.disconnect(name, earlier)
        known = run.session.position.bound.get(name)
        if run.role.failed and known != opened.attempt:
            raise between_sessions
        new_session = known not in (None, opened.attempt) and opened.bound == b"" and queue.arrived > 0
        if new_session and (opened.ended in (known, ANY_SESSION) or run.role.can_start_over()):
            if not await run.drop(name):
                message = f"{endpoint.name} has the result of the session that {name} has left. {NEW_SESSION}"
                raise Rejected(RejectionReason.SESSION, message)
            raise Rejected(RejectionReason.RETRY, f"{endpoint.name} starts a new session too")
        check_position(opened, endpoint.name, run.session.position, queue)
        # Nothing was awaited since the check for an earlier connection: of two simultaneous streams one is accepted.
        with run.connect(name, stream, opened.arrived) as connection:
            await run.act(run.session.bind, name, opened.attempt)
            await run.act(run.session.journal.record_connection, endpoint.name, name, "link/welcome")
            if self._run is not run or run.fatal is not None:
                raise between_sessions
            queue.acknowledge(opened.safe)
            await welcome(stream, endpoint, run.session.position.attempt, queue, signed)
            logger.info("%s is connected", name)
            try:
                await connection.run()
            finally:
                if not run.ended and not (run.role.finished and queue.settled):
                    logger.info("%s disconnected", name)
            if self._ending:
                raise Rejected(RejectionReason.STOPPED, self._ending)

    def _note_leaving(self, name: str, reason: str) -> NoReturn:
        logger.warning("%s has ended: %s", name, explained(reason))
        self._spec.causes[name] = Cause(explained(reason))
        raise Rejected(RejectionReason.RETRY, "the reason is noted")
