"""A role on the network: the aggregator lets streams in, a party keeps one open; both run sessions to their end.

A session that another role ended while it was still at its hellos and comparisons is begun anew by everybody else: who
has come with another graph corrects it and comes back, and nobody else need do anything.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kcagc.errors import AbortedError, AgreementError, KcagcError, RefusedError, SessionError
from kcagc.ledger import Entry
from kcagc.protocol.effects import Role
from kcagc.runtime.correspondence import Correspondence
from kcagc.runtime.handshake import Card, check_place, identify, introduce, refused, welcome
from kcagc.runtime.resumable import ResumableRole
from kcagc.runtime.runner import Log, Runner, Waiting
from kcagc.runtime.session import Drawn, Session
from kcagc.runtime.station import Watcher, accused
from kcagc.runtime.worker import Worker
from kcagc.transport.certificates import Credentials
from kcagc.transport.grpc_client import ClientWire
from kcagc.transport.grpc_server import Server, ServerWire
from kcagc.transport.probe import Kind, probe
from kcagc.transport.wire import Broken, Reason, Refusal

_ALIVE_WITHIN = 3.0  # seconds for a stream to prove that it is not a dead one
_LONGEST_PAUSE = 3.0  # between two attempts to connect
_MOST_NEW_STARTS = 5  # that nobody asked for: whoever wants more must ask its operator
_PROBES = 3  # attempts that must end so before a party gives up
# What waiting does not mend: whatever listens there will not speak with us.
_HOPELESS = {
    Kind.CERTIFICATE_REFUSED,
    Kind.MISCONFIGURED,
    Kind.NOT_GRPC,
    Kind.NOT_TLS,
    Kind.OLD_TLS,
    Kind.SERVER_EXPIRED,
    Kind.SERVER_MISNAMED,
    Kind.SERVER_UNTRUSTED,
}


@dataclass(frozen=True, eq=False)
class Play:
    """What a role needs beside its session: who it is, how its coroutine is made, what to do with its result."""

    card: Card
    make_role: Callable[[Drawn], Role[Any]]
    open_session: Callable[[], Session]
    finish: Callable[[Session, Any, ResumableRole], None]
    credentials: Credentials
    waiting: Waiting
    log: Log
    watcher: Watcher | None = None

    @property
    def hub(self) -> str:
        """Who listens."""
        return self.card.agreement.hub


class Stage:
    """One session of a play, from its journal to its runner."""

    def __init__(self, play: Play, worker: Worker, session: Session) -> None:
        listens = play.card.name == play.hub
        peers = [one for one in play.card.agreement.parties if one != play.hub] if listens else [play.hub]
        longest = play.waiting.largest_message
        letters = {peer: Correspondence(peer, most_waiting_bytes=2 * longest) for peer in peers}
        self.session, self._worker, self._play = session, worker, play
        self.role = ResumableRole(
            play.card.name,
            play.make_role(session.drawn),
            letters,
            session.journal,
            hub=listens,
            watcher=play.watcher,
        )
        self.runner = Runner(self.role, worker, play.waiting, play.log, hub=listens)

    @classmethod
    async def begin(cls, play: Play, worker: Worker) -> Stage:
        """Open the session and replay what it has."""
        session = await worker.call(play.open_session)
        stage = cls(play, worker, session)
        if session.resumed:
            play.log("taking up the session that was interrupted")
        await worker.call(stage.role.resume)
        return stage

    async def run(self, *, again: bool) -> bool:
        """Run to the end; give whether a new session is to be begun because of what somebody else did, if it may."""
        play, role = self._play, self.role
        try:
            result = await self.runner.run()
        except Exception as error:
            if role.error is not error or isinstance(error, SessionError):  # that one can be taken up again
                raise
            early = role.early(besides=accused(error, play.card.agreement.parties))
            await self._worker.call(self.session.journal.fail, str(error))
            if again and early and self._somebody_else(error):
                play.log(f"{error}; waiting for a new start")
                return True
            raise
        await self._worker.call(play.finish, self.session, result, role)
        return False

    def _somebody_else(self, error: Exception) -> bool:
        """Say whether the run ended because of another party, which may come back and do better."""
        cause = accused(error, self._play.card.agreement.parties)
        if isinstance(error, AbortedError):
            cause = error.origin
        elif isinstance(error, AgreementError):
            cause = error.odd
        return cause not in ("", self._play.card.name, self._play.hub)

    async def bind(self, peer: str, attempt: bytes) -> None:
        """Keep which session a peer is in."""
        await self._worker.call(self.session.bind, peer, attempt)

    async def record_link(self, peer: str, kind: str) -> None:
        """Keep in the ledger what the first words on a stream tell a peer."""
        entry = Entry(self._play.card.name, peer, kind, "connection", (), 0)
        await self._worker.call(self.session.journal.record_link, entry)


class Aggregator:
    """The role that listens."""

    def __init__(self, play: Play, listen: str) -> None:
        self._play = play
        self._stage: Stage | None = None
        self._server = Server(listen, play.credentials, self._serve, play.log)
        self.port = self._server.port

    async def run(self) -> None:
        """Run sessions until one ends well."""
        worker = Worker()
        self._stage = await Stage.begin(self._play, worker)  # before anybody is let in: it may not be able to
        await self._server.start()
        try:
            starts = 1
            while await self._stage.run(again=starts <= _MOST_NEW_STARTS):
                await asyncio.sleep(_pause(starts))
                starts += 1
                self._stage = await Stage.begin(self._play, worker)
            await self._stage.runner.say_goodbye()
        finally:
            await self._server.stop(0.5)

    async def _serve(self, wire: ServerWire) -> None:
        play = self._play
        caller = await identify(wire, play.card)
        name, stage = caller.name, self._stage
        if stage is None or stage.runner.ended:
            raise Refusal(Reason.LATER, f"{play.card.name} is between two sessions")
        runner, letters = stage.runner, stage.runner.letters[name]
        link = runner.links.get(name)
        if link is not None:
            if await link.alive(_ALIVE_WITHIN):
                told = f"another process of {name} is connected already: a role runs once at a time"
                raise Refusal(Reason.SESSION, told)
            await link.stop()
        known = stage.session.place.bound.get(name)
        anew = known not in (None, caller.opened.attempt) and caller.opened.bound == b"" and letters.arrived > 0
        if anew and stage.role.early():
            await runner.fail(AbortedError(name, "it began a new session"))
            raise Refusal(Reason.LATER, f"{play.card.name} begins a new session too")
        check_place(caller, play.card.name, stage.session.place, letters)
        try:
            await stage.bind(name, caller.opened.attempt)
            await stage.record_link(name, "link/welcome")
        except SessionError as error:
            raise Refusal(Reason.LATER, str(error)) from error
        letters.note_acknowledged(caller.opened.safe)
        if self._stage is not stage or name in runner.links:
            raise Refusal(Reason.LATER, "somebody else was faster")
        await welcome(wire, play.card, stage.session.place, letters, caller)
        play.log(f"{name} is connected")
        try:
            await runner.attach(name, wire, caller.opened.arrived)
        finally:
            if not runner.ended and not (stage.role.finished and letters.settled):
                play.log(f"{name} is gone")


class Connector:
    """The role that connects."""

    def __init__(self, play: Play, address: str) -> None:
        self._play, self._address = play, address
        self._told = ""

    async def run(self) -> bool:
        """Run sessions until one ends well; give whether the aggregator knows that all has arrived here."""
        worker, starts = Worker(), 0
        while True:
            starts += 1
            stage = await Stage.begin(self._play, worker)
            keeping = asyncio.create_task(self._keep_connected(stage))
            running = asyncio.create_task(stage.run(again=starts <= _MOST_NEW_STARTS))
            try:
                await asyncio.wait({keeping, running}, return_when=asyncio.FIRST_COMPLETED)
                if not running.done():
                    await keeping  # it ends before the run only with an error
                if not await running:
                    # Whatever befalls the connection now, the results are there.
                    leaving = asyncio.ensure_future(stage.runner.say_goodbye())
                    await asyncio.wait({keeping, leaving}, return_when=asyncio.FIRST_COMPLETED)
                    leaving.cancel()
                    return stage.runner.released
            finally:
                for task in (keeping, running):
                    task.cancel()
                await asyncio.wait({keeping, running})  # which raises nothing of theirs, and forgets nothing of ours
            await asyncio.sleep(_pause(starts))

    async def _keep_connected(self, stage: Stage) -> None:
        pause, failures = 0.05, 0
        while True:
            reached = False
            wire = await ClientWire.connect(self._address, self._server_name, self._play.credentials, self._play.hub)
            try:
                reached = await self._converse(stage, wire)
            except Refusal as refusal:
                if refusal.reason is not Reason.LATER:
                    raise refused(refusal, self._play.hub) from refusal
            except (Broken, TimeoutError):
                failures = await self._explain(failures)
            finally:
                await wire.close()
            if reached:
                pause, failures = 0.05, 0
                if not stage.runner.ended:
                    self._say(f"the connection to {self._play.hub} was lost; connecting again")
            # Not all parties at the same moment.
            await asyncio.sleep(pause * random.uniform(0.7, 1.3))  # noqa: S311 - a pause is no secret
            pause = min(pause * 1.7, _LONGEST_PAUSE)

    async def _converse(self, stage: Stage, wire: ClientWire) -> bool:
        """Introduce oneself and serve the stream to its end."""
        hub, runner = self._play.hub, stage.runner
        letters = runner.letters[hub]
        await stage.record_link(hub, "link/opening")
        answer = await introduce(wire, self._play.card, hub, stage.session.place, letters)
        await stage.bind(hub, answer.attempt)
        letters.note_acknowledged(answer.safe)
        self._say(f"connected to {hub} at {self._address}")
        await runner.attach(hub, wire, answer.arrived)
        return True

    @property
    def _server_name(self) -> str:
        return self._play.card.tls_names[self._play.hub]

    async def _explain(self, failures: int) -> int:
        """Find out why nobody answers: wait for who is not there yet, give up on who will never let us in."""
        found = await asyncio.to_thread(probe, self._address, self._play.credentials, self._server_name, 5.0)
        if found.accepted:
            return 0
        if found.kind not in _HOPELESS:
            self._say(f"cannot reach {self._play.hub} yet: {found.words}")
            return 0
        if failures + 1 >= _PROBES:
            raise RefusedError(f"{self._play.hub}: {found.words}")
        return failures + 1

    def _say(self, words: str) -> None:
        if words != self._told:
            self._told = words
            self._play.log(words)


def _pause(starts: int) -> float:
    """Give the seconds before a new start, more each time."""
    return 0.2 * 2.0 ** (starts - 1)


async def farewell(play: Play, address: str, session: Session, counts: tuple[int, int], seconds: float) -> bool:
    """Tell the aggregator, after a run whose end it may not have heard of, that everything arrived here."""
    letters = Correspondence(play.hub)
    letters.arrived = letters.safe = counts[0]
    letters.sent = letters.acknowledged = counts[1]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        wire = await ClientWire.connect(address, play.card.tls_names[play.hub], play.credentials, play.hub)
        try:
            async with asyncio.timeout(seconds):
                await introduce(wire, play.card, play.hub, session.place, letters)
            return True
        except (Broken, TimeoutError):
            await asyncio.sleep(0.2)
        except (Refusal, KcagcError):
            return False
        finally:
            await wire.close()
    return False
