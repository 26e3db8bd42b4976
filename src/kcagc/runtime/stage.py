"""One session of a role on the network, from its journal to its end.

A session that another role ended while it was still at its hellos and comparisons is begun anew by everybody else: who
has come with another graph corrects it and comes back, and nobody else need do anything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kcagc.disclosure import Entry
from kcagc.errors import AbortedError, AgreementError, PeerError, SessionError
from kcagc.net.tls import Credentials
from kcagc.protocol.effects import Role
from kcagc.runtime.driver import Watcher
from kcagc.runtime.durable import DurableRole
from kcagc.runtime.peer_queue import PeerQueue
from kcagc.runtime.runner import Runner, Waiting
from kcagc.runtime.session import Drawn, Session
from kcagc.runtime.status import Look
from kcagc.runtime.stream_handshake import Card
from kcagc.runtime.worker import Worker

logger = logging.getLogger(__name__)

MOST_NEW_STARTS = 5  # that nobody asked for: whoever wants more must ask its operator


@dataclass(frozen=True, eq=False)
class Play:
    """What a role needs beside its session: who it is, how its coroutine is made, what to do with its result."""

    card: Card
    make_role: Callable[[Drawn], Role[Any]]
    open_session: Callable[[], Session]
    finish: Callable[[Session, Any, DurableRole], None]
    credentials: Credentials
    waiting: Waiting
    watcher: Watcher | None = None
    look: Look | None = None

    @property
    def aggregator(self) -> str:
        """Who listens."""
        return self.card.agreement.aggregator


class Stage:
    """One session of a play, from its journal to its runner."""

    def __init__(self, play: Play, worker: Worker, session: Session) -> None:
        listens = play.card.name == play.aggregator
        peers = [one for one in play.card.agreement.parties if one != play.aggregator] if listens else [play.aggregator]
        longest = play.waiting.largest_message
        letters = {peer: PeerQueue(peer, most_waiting_bytes=2 * longest) for peer in peers}
        self.session, self._worker, self._play = session, worker, play
        self.role = DurableRole(
            play.card.name,
            play.make_role(session.drawn),
            letters,
            session.journal,
            aggregator=listens,
            watcher=play.watcher,
        )
        self.runner = Runner(self.role, worker, play.waiting, aggregator=listens, look=play.look)

    @classmethod
    async def begin(cls, play: Play, worker: Worker) -> Stage:
        """Open the session and replay what it has."""
        session = await worker.call(play.open_session)
        stage = cls(play, worker, session)
        if session.resumed:
            logger.info("taking up the session that was interrupted")
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
            early = role.early(besides=_culprit(error))
            await self._worker.call(self.session.journal.fail, str(error))
            if again and early and self._somebody_else(error):
                logger.warning("%s; waiting for a new start", error)
                return True
            raise
        await self._worker.call(play.finish, self.session, result, role)
        return False

    def _somebody_else(self, error: Exception) -> bool:
        """Say whether the run ended because of another party, which may come back and do better."""
        cause = error.peer if isinstance(error, AbortedError | AgreementError) else _culprit(error)
        return cause in self._play.card.agreement.parties and cause not in (self._play.card.name, self._play.aggregator)

    async def bind(self, peer: str, attempt: bytes) -> None:
        """Keep which session a peer is in."""
        await self.runner.have_done(self.session.bind, peer, attempt)

    async def record_link(self, peer: str, kind: str) -> None:
        """Keep in the ledger what the first words on a stream tell a peer."""
        entry = Entry(self._play.card.name, peer, kind, "connection", (), 0)
        await self.runner.have_done(self.session.journal.record_link, entry)


def _culprit(error: Exception) -> str:
    """Return the peer that broke the rules and may correct that, or an empty string."""
    return error.peer if isinstance(error, PeerError) and error.recoverable else ""


def pause_before(starts: int) -> float:
    """Give the seconds before a new start, more each time."""
    return 0.2 * 2.0 ** (starts - 1)
