"""The coordinator's side of agreeing: it keeps proposals and decisions, checks them, and passes them on.

Every request is signed by its party, and covers the certificate of the connection. The coordinator decides like any
other role: by the section [approval] of its configuration, or by its operator (kcagc approve).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from kcagc.deploy.agreed import ProposalFolder
from kcagc.errors import KcagcError, PeerError
from kcagc.federation.agreeing import (
    AgreementQuestion,
    automatic_decision,
    check_readable,
    checked,
    question_statement,
)
from kcagc.federation.hosting import HostedFederation
from kcagc.federation.methods import Method, in_thread, read_payload
from kcagc.net.frames import Rejected, RejectionReason
from kcagc.net.grpc_server import Caller
from kcagc.protocol.approval import MAX_NUMBER, ProposalState
from kcagc.secagg.keys import verify
from kcagc.text import printable

_ANSWER_BYTES = 128 * 1024  # of all proposals in an answer
_THREADS = 2  # requests that are worked on at the same time, in all federations
_MAX_OPEN = 4  # proposals of a party that wait for decisions
_MAX_BYTES = 48 * 1024  # of a request


class Proposals:
    """The proposals of all federations of a process; `federation_of` returns the one that a caller names."""

    def __init__(
        self, federation_of: Callable[[Caller], HostedFederation], clock: Callable[[], float] = time.time
    ) -> None:
        self._federation_of, self._clock = federation_of, clock
        self._working = asyncio.Semaphore(_THREADS)

    def methods(self) -> Mapping[str, Method]:
        """Return the methods that parties can call."""
        return {"proposal/read": self._read, "proposal/send": self._send, "proposal/decide": self._decide}

    async def _read(self, caller: Caller, payload: bytes) -> bytes:
        """Return the newest proposals, those that can still matter first, as far as they fit into an answer."""
        return await self._in_turn("proposal/read", caller, payload, self._newest)

    async def _send(self, caller: Caller, payload: bytes) -> bytes:
        """Keep a new proposal with the approval of its party."""
        return await self._in_turn("proposal/send", caller, payload, partial(self._keep, new=True))

    async def _decide(self, caller: Caller, payload: bytes) -> bytes:
        """Keep the decision of a party about a proposal that is here."""
        return await self._in_turn("proposal/decide", caller, payload, partial(self._keep, new=False))

    async def _in_turn(
        self, method: str, caller: Caller, payload: bytes, work: Callable[[HostedFederation, str, bytes], bytes]
    ) -> bytes:
        """Do the work of a request in a thread: one of a party at a time, and one of a federation.

        So a role that sends many requests does not keep the others waiting.
        """
        federation, name, body = self._asked(method, caller, payload)
        async with federation.turns[name], federation.turns[""], self._working:
            answer = await in_thread(work, federation, name, body)
        if method != "proposal/read":
            federation.announce()
        return answer

    def _newest(self, federation: HostedFederation, _: str, __: bytes) -> bytes:
        now, size = self._clock(), 0
        shown: list[ProposalState] = []
        known = list(ProposalFolder.of(federation.config()).newest())
        for one in sorted(known, key=lambda one: bool(one.declined) or now > one.proposal.expires):
            size += len(msgspec.json.encode(one.state))
            if shown and size > _ANSWER_BYTES:
                break
            shown.append(one.state)
        return msgspec.json.encode(shown)

    def _keep(self, federation: HostedFederation, name: str, body: bytes, *, new: bool) -> bytes:
        config = federation.config()
        folder = ProposalFolder.of(config)
        try:
            state = msgspec.json.decode(body, type=ProposalState)
            found = checked(config, state, relayed_by=name)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PeerError(f"sent a record that cannot be read: {printable(str(error))}", peer=name) from error
        except KcagcError as error:
            raise _rejection(str(error)) from error
        number, numbers = found.proposal.number, folder.numbers()
        if name not in found.decisions:
            raise _rejection(f"there is no decision of {name} about proposal {number}")
        known = folder.read(number).state if number in numbers else None
        if known is not None and known.proposal == state.proposal and set(state.decisions) <= set(known.decisions):
            return msgspec.json.encode(known)
        if known is None:
            if not new or name != found.proposal.proposer:
                raise _rejection(f"proposal {number} is not here; only its proposer can send it (kcagc propose)")
            self._check_new(folder, numbers, number, name)
        try:
            check_readable(config, found, self._clock())
            kept = folder.keep(found)
        except KcagcError as error:
            raise _rejection(str(error)) from error
        if (own := automatic_decision(config, kept, self._clock())) is not None:
            kept = folder.keep(checked(config, ProposalState(kept.state.proposal, (own,)), relayed_by=config.me))
        return msgspec.json.encode(kept.state)

    def _check_new(self, folder: ProposalFolder, numbers: list[int], number: int, proposer: str) -> None:
        newest = max(numbers, default=0)
        if number != newest + 1 or number > MAX_NUMBER:
            raise _rejection(f"proposal {number} has a wrong number: the next one is {newest + 1}. Propose again")
        proposals = [one for one in folder.newest() if one.proposal.proposer == proposer]
        waiting = [one for one in proposals if one.open and self._clock() < one.proposal.expires]
        if len(waiting) >= _MAX_OPEN:
            raise _rejection(
                f"{_MAX_OPEN} proposals of {proposer} wait for decisions; first approve or decline one of them: "
                "kcagc approve --number"
            )

    def _asked(self, method: str, caller: Caller, payload: bytes) -> tuple[HostedFederation, str, bytes]:
        """Return the federation, the party and the content of a request; refuse one that no party has signed."""
        question = read_payload(payload, AgreementQuestion, caller, at_most=_MAX_BYTES)
        federation = self._federation_of(caller)
        config = federation.config()
        agreement, name = config.agreement(), question.name
        if name not in agreement.parties:
            raise PeerError("asked as a role that is not a party of this federation", peer=caller.address)
        signed = question_statement(method, agreement.federation, name, caller.certificate, question.body)
        if not verify(agreement.participant(name).identity, signed, question.signature):
            message = f"the request is not signed by the identity key that the coordinator has pinned for {name}"
            raise Rejected(RejectionReason.IDENTITY, message)
        if (revoked := ProposalFolder.of(config).revoked().get(name)) is not None:
            raise Rejected(RejectionReason.IDENTITY, f"{revoked} at the coordinator")
        return federation, name, question.body


def _rejection(message: str) -> Rejected:
    return Rejected(RejectionReason.AGREEMENT, message)
