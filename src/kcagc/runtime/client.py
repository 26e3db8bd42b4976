"""The role that connects: it keeps one stream to the aggregator open, and runs sessions until one ends well."""

from __future__ import annotations

import asyncio
import logging
import random

from kcagc.errors import RejectedError
from kcagc.net.grpc_client import ClientWire
from kcagc.net.probe import Kind, probe
from kcagc.net.stream import ConnectionLost, Reason, Rejected
from kcagc.runtime.stage import MOST_NEW_STARTS, Play, Stage, pause_before
from kcagc.runtime.stream_handshake import challenged, introduce, refused
from kcagc.runtime.worker import Worker

logger = logging.getLogger(__name__)

_LONGEST_PAUSE = 3.0  # seconds between two attempts to connect
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


class RoleClient:
    """The role that connects."""

    def __init__(self, play: Play, address: str) -> None:
        self._play, self._address = play, address
        self._told = ""

    async def run(self) -> bool:
        """Run sessions until one ends well; give whether the aggregator knows that all has arrived here."""
        worker, starts = Worker(), 0
        while True:
            starts += 1
            self._told = ""
            stage = await Stage.begin(self._play, worker)
            keeping = asyncio.create_task(self._keep_connected(stage))
            running = asyncio.create_task(stage.run(again=starts <= MOST_NEW_STARTS))
            try:
                await asyncio.wait({keeping, running}, return_when=asyncio.FIRST_COMPLETED)
                failing = stage.role.finished and stage.role.error is not None  # which then is what there is to say
                if not running.done() and not failing:
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
                for task in (keeping, running):
                    if not task.cancelled():
                        task.exception()  # has been raised above, or is of no interest any more
            await asyncio.sleep(pause_before(starts))

    async def _keep_connected(self, stage: Stage) -> None:
        pause, failures = 0.05, 0
        while True:
            reached = False
            # A role in the middle of its clustering would keep the aggregator waiting for our first word.
            await stage.runner.have_done(lambda: None)
            wire = await ClientWire.connect(
                self._address, self._server_name, self._play.credentials, self._play.aggregator
            )
            try:
                reached = await self._converse(stage, wire)
            except Rejected as refusal:
                if refusal.reason is not Reason.LATER:
                    raise refused(refusal, self._play.aggregator) from refusal
            except (ConnectionLost, TimeoutError):
                failures = await self._explain(failures)
            finally:
                await wire.close()
            if reached:
                pause, failures = 0.05, 0
                if not stage.runner.ended:
                    self._say(f"the connection to {self._play.aggregator} was lost; connecting again")
            # Not all parties at the same moment.
            await asyncio.sleep(pause * random.uniform(0.7, 1.3))  # noqa: S311 - a pause is no secret
            pause = min(pause * 1.7, _LONGEST_PAUSE)

    async def _converse(self, stage: Stage, wire: ClientWire) -> bool:
        """Introduce oneself and serve the stream to its end."""
        aggregator, runner = self._play.aggregator, stage.runner
        letters = runner.letters[aggregator]
        challenge = await challenged(wire, self._play.card, aggregator)
        await stage.record_link(aggregator, "link/opening")
        # An aggregator that is a party may be clustering before it can let anybody in.
        patience = self._play.waiting.missing
        answer = await introduce(wire, self._play.card, challenge, stage.session.place, letters, patience)
        await stage.bind(aggregator, answer.attempt)
        letters.note_acknowledged(answer.safe)
        self._say(f"connected to {aggregator} at {self._address}")
        link = runner.admit(aggregator, wire, answer.arrived)
        async with runner.serving(aggregator, link):
            await link.run()
        return True

    @property
    def _server_name(self) -> str:
        return self._play.card.tls_names[self._play.aggregator]

    async def _explain(self, failures: int) -> int:
        """Find out why nobody answers: wait for who is not there yet, give up on who will never let us in."""
        found = await asyncio.to_thread(probe, self._address, self._play.credentials, self._server_name, 5.0)
        if found.accepted:
            return 0
        if found.kind not in _HOPELESS:
            self._say(f"cannot reach {self._play.aggregator} yet: {found.words}")
            return 0
        if failures + 1 >= _PROBES:
            raise RejectedError(f"{found.words}", peer=self._play.aggregator)
        return failures + 1

    def _say(self, words: str) -> None:
        if words != self._told:
            self._told = words
            logger.info(words)
