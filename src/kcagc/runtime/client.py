"""The role that connects: it keeps one stream to the aggregator open and runs sessions until one succeeds."""

from __future__ import annotations

import asyncio
import logging
import random
import time

import msgspec

from kcagc.errors import AbortedError, AgreementError, KcagcError, PeerTimeoutError, RejectedError, explained
from kcagc.net.frames import ConnectionLost, Rejected, RejectionReason
from kcagc.net.grpc_client import ClientStream
from kcagc.net.tls import Credentials
from kcagc.runtime.connection import (
    Endpoint,
    answer_challenge,
    pause_before_restart,
    receive_challenge,
    rejection_error,
)
from kcagc.runtime.driver import Worker
from kcagc.runtime.durable import PeerQueue
from kcagc.runtime.journal import Journal, SessionEnd, SessionPosition
from kcagc.runtime.session import MAX_RESTARTS, Cause, RoleSpec, SessionRun, public_reason
from kcagc.secagg.keys import random_token
from kcagc.text import printable

logger = logging.getLogger(__name__)

_MAX_PAUSE = 3.0  # seconds between two attempts to connect
_MAX_FAILURES = 3  # attempts with a cause that does not pass, before the party gives up
_CANCEL_AGAIN = 0.5  # seconds for a cancelled task to end
_ANNOUNCE = 1.5  # seconds to tell the aggregator why this party ends
_CLOSED = "closed"  # fact of a finished session: the aggregator knows that this party has finished


class RoleClient:
    """The role that connects."""

    def __init__(self, spec: RoleSpec, address: str) -> None:
        self._spec, self._address = spec, address
        self._server_name = spec.endpoint.tls_names[spec.aggregator]
        self._logged = ""
        self._run: SessionRun | None = None

    async def run(self) -> None:
        """Run sessions until one succeeds."""
        worker = Worker()
        try:
            await self._run_sessions(worker)
        except (AbortedError, PeerTimeoutError, RejectedError, AgreementError):
            raise  # the aggregator knows
        except BaseException as error:
            if self._run is None or not self._run.role.failed:  # otherwise a message says it
                await announce_end(self._spec.endpoint, self._spec.credentials, self._address, public_reason(error))
            raise
        finally:
            worker.stop()

    async def _run_sessions(self, worker: Worker) -> None:
        starts = 0
        while True:
            starts += 1
            self._logged = ""
            self._run = run = await SessionRun.start(self._spec, worker)
            connecting = asyncio.create_task(self._keep_connected(run))
            running = asyncio.create_task(run.run(may_restart=starts <= MAX_RESTARTS))
            try:
                await asyncio.wait({connecting, running}, return_when=asyncio.FIRST_COMPLETED)
                if not running.done() and not run.role.failed:  # otherwise `running` raises the cause
                    await connecting  # ends before the run with an error, or because the session is over
                if not await running:
                    # The results are written; errors of the connection do not matter any more.
                    closing = asyncio.ensure_future(run.close())
                    await asyncio.wait({connecting, closing}, return_when=asyncio.FIRST_COMPLETED)
                    closing.cancel()
                    if run.all_closed:
                        await worker.call(_note_closed, run.session.journal)
                    return
            finally:
                pending = {connecting, running}
                while pending:  # again, because gRPC can lose a cancellation while it prepares a call
                    for task in pending:
                        task.cancel()
                    _, pending = await asyncio.wait(pending, timeout=_CANCEL_AGAIN)
                # An error of a task was raised above, or does not matter.
                await asyncio.gather(connecting, running, return_exceptions=True)
            await asyncio.sleep(pause_before_restart(starts))

    async def _keep_connected(self, run: SessionRun) -> None:
        pause, failures = 0.05, 0
        aggregator = self._spec.aggregator
        while True:
            # A role in the middle of its clustering would keep the aggregator waiting for the opening.
            await run.act(lambda: None)
            federation = self._spec.endpoint.agreement.federation
            stream = ClientStream(
                self._address, self._server_name, self._spec.credentials, aggregator, federation=federation
            )
            try:
                await self._serve(run, stream)
                pause, failures = 0.05, 0
                if not run.ended:
                    self._log(f"the connection to {aggregator} was lost; connecting again")
            except Rejected as rejection:
                if rejection.reason is RejectionReason.OVER:
                    await run.drop(aggregator)
                    return
                if rejection.reason is RejectionReason.ENDED and run.end_with_result(aggregator):
                    return
                if rejection.reason is RejectionReason.STOPPED:
                    reason = explained(printable(rejection.message))
                    self._spec.causes[aggregator] = Cause(f"it has ended: {reason}")
                    self._log(f"{aggregator} has ended: {reason}")
                elif rejection.reason not in (RejectionReason.RETRY, RejectionReason.ENDED):
                    raise rejection_error(rejection, aggregator) from rejection
            except (ConnectionLost, TimeoutError):
                failures = await self._diagnose(failures)
            finally:
                await stream.close()
            # A random factor, so that the parties do not connect at the same moment.
            await asyncio.sleep(pause * random.uniform(0.7, 1.3))  # noqa: S311 - not a secret
            pause = min(pause * 1.7, _MAX_PAUSE)

    async def _serve(self, run: SessionRun, stream: ClientStream) -> None:
        """Perform the handshake and serve the stream to its end."""
        aggregator, endpoint = self._spec.aggregator, self._spec.endpoint
        queue = run.queues[aggregator]
        challenge = await receive_challenge(stream, endpoint, aggregator)
        await run.act(run.session.journal.record_connection, endpoint.name, aggregator, "link/opening")
        # An aggregator that is also a party may be clustering before it can answer.
        timeout = self._spec.limits.peer_timeout
        answer = await answer_challenge(stream, endpoint, challenge, run.session.position, queue, timeout)
        await run.act(run.session.bind, aggregator, answer.attempt)
        queue.acknowledge(answer.safe)
        self._log(f"connected to {aggregator} at {self._address}")
        with run.connect(aggregator, stream, answer.arrived) as connection:
            await connection.run()

    async def _diagnose(self, failures: int) -> int:
        """Find out why the connection fails; return the number of failures with a cause that does not pass."""
        from kcagc.net.probe import probe  # noqa: PLC0415 - only after a failure

        prober = Worker()  # not a thread of the event loop: an interrupted process would wait for its end
        try:
            found = await prober.call(probe, self._address, self._spec.credentials, self._server_name, 5.0)
        finally:
            prober.stop()
        if found.accepted:
            return 0
        if found.transient:
            self._log(f"cannot reach {self._spec.aggregator} yet: {found.message}")
            self._spec.causes.setdefault(self._spec.aggregator, Cause(found.message))
            return 0
        if failures + 1 >= _MAX_FAILURES:
            raise RejectedError(found.message, peer=self._spec.aggregator)
        return failures + 1

    def _log(self, message: str) -> None:
        """Log a message, unless it is the same as the last one."""
        if message != self._logged:
            self._logged = message
            logger.info(message)


def _note_closed(journal: Journal) -> None:
    journal.set_fact(_CLOSED, b"yes")
    journal.commit()


async def announce_end(endpoint: Endpoint, credentials: Credentials, address: str, reason: str) -> bool:
    """Send the aggregator, if it answers soon, the reason why this party ends, so that no other role has to guess.

    Return whether an opening may have left.
    """
    aggregator = endpoint.agreement.aggregator
    federation = endpoint.agreement.federation
    stream = ClientStream(address, endpoint.tls_names[aggregator], credentials, aggregator, federation=federation)
    answered = False
    try:
        async with asyncio.timeout(_ANNOUNCE):
            challenge = await receive_challenge(stream, endpoint, aggregator)
            answered = True
            position = SessionPosition(random_token(), {})
            await answer_challenge(stream, endpoint, challenge, position, PeerQueue(aggregator), _ANNOUNCE, reason)
    except (Rejected, ConnectionLost, TimeoutError, KcagcError):
        pass  # the answer is a rejection; without an aggregator no role needs the reason
    finally:
        await stream.close()
    return answered


async def close_finished_session(
    endpoint: Endpoint, credentials: Credentials, address: str, journal: Journal, seconds: float
) -> None:
    """Inform the aggregator that this party has finished, unless it knows: it may still wait for this party."""
    aggregator = endpoint.agreement.aggregator
    end = msgspec.msgpack.decode(journal.fact("end") or b"", type=SessionEnd)
    position, queue = SessionPosition(end.attempt, {aggregator: end.bound}), PeerQueue(aggregator)
    queue.arrived = queue.safe = end.arrived
    queue.sent = queue.acknowledged = end.sent
    known, deadline = journal.fact(_CLOSED) is not None, time.monotonic() + seconds
    while not known and time.monotonic() < deadline:
        federation = endpoint.agreement.federation
        stream = ClientStream(address, endpoint.tls_names[aggregator], credentials, aggregator, federation=federation)
        try:
            async with asyncio.timeout(seconds):
                challenge = await receive_challenge(stream, endpoint, aggregator)
                journal.record_connection(endpoint.name, aggregator, "link/opening")
                await answer_challenge(stream, endpoint, challenge, position, queue, seconds)
            known = True
        except Rejected as rejection:
            known = rejection.reason is not RejectionReason.RETRY  # for other reasons it is past this session
            if rejection.reason is RejectionReason.OVER:
                logger.warning("%s takes part in another session now. To join it: --new-session", aggregator)
        except (ConnectionLost, TimeoutError):
            pass
        except KcagcError:
            known = True
        finally:
            await stream.close()
        if known:
            _note_closed(journal)
        else:
            await asyncio.sleep(0.2)
