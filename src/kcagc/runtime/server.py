"""The role that listens: it lets the right parties in, each once, and runs sessions until one ends well."""

from __future__ import annotations

import asyncio
import logging

from kcagc.errors import AbortedError
from kcagc.net.grpc_server import Server, ServerWire
from kcagc.net.stream import Reason, Rejected
from kcagc.runtime.stage import MOST_NEW_STARTS, Play, Stage, pause_before
from kcagc.runtime.stream_handshake import check_place, identify, welcome
from kcagc.runtime.worker import Worker

logger = logging.getLogger(__name__)

_ALIVE_WITHIN = 3.0  # seconds for a stream to prove that it is not a dead one


class RoleServer:
    """The role that listens."""

    def __init__(self, play: Play, listen: str) -> None:
        self._play = play
        self._stage: Stage | None = None
        self._server = Server(listen, play.credentials, self._serve)
        self.port = self._server.port

    async def run(self) -> None:
        """Run sessions until one ends well."""
        worker = Worker()
        self._stage = await Stage.begin(self._play, worker)  # before anybody is let in: it may not be able to
        await self._server.start()
        try:
            starts = 1
            while await self._stage.run(again=starts <= MOST_NEW_STARTS):
                await self._stage.runner.close()
                await asyncio.sleep(pause_before(starts))
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
            raise Rejected(Reason.LATER, f"{play.card.name} is between two sessions")
        runner, letters = stage.runner, stage.runner.letters[name]
        while (before := runner.links.get(name)) is not None:
            if await before.alive(_ALIVE_WITHIN):
                told = f"another process of {name} is connected already: a role runs once at a time"
                raise Rejected(Reason.SESSION, told)
            await before.stop()
            runner.dismiss(name, before)
        known = stage.session.place.bound.get(name)
        if stage.role.finished and stage.role.error is not None and known != caller.opened.attempt:
            raise Rejected(Reason.LATER, f"{play.card.name} is between two sessions")
        anew = known not in (None, caller.opened.attempt) and caller.opened.bound == b"" and letters.arrived > 0
        if anew and stage.role.early():
            await runner.fail(AbortedError("it began a new session", peer=name))
            raise Rejected(Reason.LATER, f"{play.card.name} begins a new session too")
        check_place(caller, play.card.name, stage.session.place, letters)
        # Nothing was waited for since it was seen that there is no other: of two that come together one is let in.
        link = runner.admit(name, wire, caller.opened.arrived)
        async with runner.serving(name, link):
            await stage.bind(name, caller.opened.attempt)
            await stage.record_link(name, "link/welcome")
            if self._stage is not stage or runner.failed:
                raise Rejected(Reason.LATER, f"{play.card.name} is between two sessions")
            letters.note_acknowledged(caller.opened.safe)
            await welcome(wire, play.card, stage.session.place, letters, caller)
            logger.info("%s is connected", name)
            try:
                await link.run()
            finally:
                if not runner.ended and not (stage.role.finished and letters.settled):
                    logger.info("%s is gone", name)
