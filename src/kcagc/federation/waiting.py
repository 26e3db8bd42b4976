"""Waiting for the next run: a party that stays asks its coordinator, again and again, whether a run is open.

The coordinator keeps a question for up to half a minute. It answers with the number of the run as soon as one is open
in which the party does not take part yet. A run opens when any party of the federation starts one.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from kcagc.deploy.agreed import ProposalFolder
from kcagc.deploy.run import RoleRun
from kcagc.errors import PeerError, PeerTimeoutError, RejectedError
from kcagc.federation.hosting import HostedFederation
from kcagc.federation.methods import Method, read_payload
from kcagc.net.frames import ConnectionLost, Rejected, RejectionReason
from kcagc.net.grpc_client import request
from kcagc.net.grpc_server import Caller
from kcagc.protocol.agreement import Agreement
from kcagc.runtime.connection import rejection_error
from kcagc.secagg.keys import framed, verify

logger = logging.getLogger(__name__)

WAIT = "runs/wait"
_KEPT = 25.0  # seconds for which the coordinator keeps a question
_ANSWERED = 40.0  # seconds in which an answer must arrive
_MAX_PAUSE = 10.0  # seconds between two questions to a coordinator that cannot be reached


class WaitQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The signed question of a party whether a run is open for it.

    `known` is the digest of the newest proposal and its decisions that the party knows: if there are newer ones, the
    answer comes at once.
    """

    name: str
    signature: bytes
    known: bytes = b""


def _statement(federation: bytes, name: str, certificate: bytes) -> bytes:
    """Return what the party signs; it covers the certificate, so that no other role can repeat the question."""
    return framed("kcagc wait for a run", federation, name, certificate)


class RunsToWaitFor:
    """The coordinator's side; `federation_of` returns the federation that a caller names."""

    def __init__(self, federation_of: Callable[[Caller], HostedFederation]) -> None:
        self._federation_of = federation_of

    def methods(self) -> Mapping[str, Method]:
        """Return the methods of this side."""
        return {WAIT: self.wait}

    async def wait(self, caller: Caller, payload: bytes) -> bytes:
        """Return the number of an open run, or 0 if none has opened after a while."""
        question = read_payload(payload, WaitQuestion, caller, at_most=1024)
        federation = self._federation_of(caller)
        config = federation.config()
        _check(question, caller, config.agreement())
        if question.known not in (b"", ProposalFolder.of(config).newest_digest()):
            return msgspec.msgpack.encode(0)
        return msgspec.msgpack.encode(await federation.next_run(question.name, _KEPT))


def _check(question: WaitQuestion, caller: Caller, agreement: Agreement) -> None:
    """Reject a question that is not from a party of this federation."""
    name = question.name
    if name not in agreement.parties:
        raise PeerError("asked as a role that is not a party of this federation", peer=caller.address)
    signed = _statement(agreement.federation, name, caller.certificate)
    if not verify(agreement.participant(name).identity, signed, question.signature):
        message = f"the question is not signed by the identity key that the coordinator has pinned for {name}"
        raise Rejected(RejectionReason.IDENTITY, message)


async def next_run(run: RoleRun, before: Callable[[], Awaitable[bytes]] | None = None) -> None:
    """Wait, as a party, until a run is open.

    `before` is called before each question; it learns what is proposed, and returns the digest of the newest proposal.
    """
    endpoint, address = run.endpoint, run.config.document.network.address
    aggregator, federation = run.agreement.aggregator, run.agreement.federation
    signature = run.identity.sign(_statement(federation, endpoint.name, endpoint.certificate))
    pause, reached = 0.5, True
    while True:
        try:
            known = b"" if before is None else await before()
            payload = msgspec.msgpack.encode(WaitQuestion(endpoint.name, signature, known))
            answer = await request(
                address,
                endpoint.tls_names[aggregator],
                run.credentials,
                WAIT,
                payload,
                peer=aggregator,
                federation=federation,
                timeout=_ANSWERED,
            )
            if not reached:
                logger.info("%s answers again", aggregator)
            pause, reached = 0.5, True
            if number := _number(answer, aggregator):
                logger.info("run %d is open", number)
                return
            continue
        except (ConnectionLost, PeerTimeoutError) as error:
            if reached:
                logger.warning("cannot ask %s for the next run: %s", aggregator, error)
            reached = False
        except Rejected as rejection:
            if rejection.reason is RejectionReason.AGREEMENT:
                message = (
                    f"cannot be asked for the next run: {rejection.message}. --wait needs a coordinator that stays"
                )
                raise RejectedError(f"{message} (kcagc serve)", peer=aggregator) from rejection
            if rejection.reason is not RejectionReason.RETRY:
                raise rejection_error(rejection, aggregator) from rejection
        await asyncio.sleep(pause * random.uniform(0.7, 1.3))  # noqa: S311 - not a secret
        pause = min(pause * 1.7, _MAX_PAUSE)


def _number(answer: bytes, aggregator: str) -> int:
    try:
        return msgspec.msgpack.decode(answer, type=int)
    except msgspec.DecodeError as error:
        raise PeerError("sent an answer that is not the number of a run", peer=aggregator) from error
