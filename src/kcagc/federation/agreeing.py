"""Agreeing on the next runs: how a role makes a proposal, what it reads in one, and how it decides.

The records travel over the coordinator, as requests beside the streams of sessions. Each role keeps them in its own
folder and checks them itself: the coordinator can hold records back, but cannot make or change them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import msgspec

from kcagc import __version__
from kcagc.deploy.agreed import ProposalFolder, agreed, with_proposal
from kcagc.deploy.config import Config
from kcagc.disclosure import Policy
from kcagc.disclosure.page import describe_run
from kcagc.disclosure.texts import TEXTS
from kcagc.errors import AgreementError, KcagcError, ParameterError, PeerError, PeerTimeoutError, RejectedError
from kcagc.net.frames import ConnectionLost, Rejected
from kcagc.net.grpc_client import request
from kcagc.net.tls import digest_of
from kcagc.protocol.agreement import Agreement
from kcagc.protocol.approval import (
    MAX_DAYS,
    MAX_RUNS,
    CheckedProposal,
    Decision,
    ProposalState,
    RunProposal,
    SignedRecord,
    check_proposal,
    check_settings,
    moment,
)
from kcagc.protocol.parameters import MATCHING, RunSettings, Task
from kcagc.protocol.plan import outline
from kcagc.runtime.connection import rejection_error
from kcagc.runtime.journal import Status
from kcagc.secagg.keys import digest, framed, random_token
from kcagc.text import listed, printable

logger = logging.getLogger(__name__)

_DAY = 86_400
_CLOCKS = 600  # seconds by which two clocks may differ
_ANSWERED = 20.0  # seconds in which an answer must arrive
_MATCHING_KINDS = {  # what a matching of ids discloses, by task
    "match": ("encrypted/ids", "encrypted/answers", "encrypted/match", "output/match"),
    "count": ("encrypted/ids", "encrypted/answers.counted", "output/count"),
}


# What a proposal discloses.


def pages(agreement: Agreement, reader: str, accepted: Sequence[str] = ()) -> str:
    """Return what a run discloses, in the words of the page for the data protection officer of one role."""
    task = agreement.parameters.task
    if task not in MATCHING:
        return describe_run(outline(agreement), reader, accepted).as_markdown()
    kinds = [kind for kind, text in TEXTS.items() if kind in _MATCHING_KINDS[task] or _is_of_several(kind, agreement)]
    lines = "\n".join(f"- **{TEXTS[kind].title}.** {TEXTS[kind].learns}" for kind in kinds)
    return f"# What a matching of ids discloses\n\n{lines}\n"


def _is_of_several(kind: str, agreement: Agreement) -> bool:
    return len(agreement.parties) > 2 and TEXTS[kind].risk == "partial-matches"


@lru_cache(maxsize=64)
def disclosure_digest(agreements: tuple[Agreement, ...]) -> bytes:
    """Return the digest of the pages of all roles, as they are before any role accepts anything."""
    return digest(
        "kcagc disclosure pages",
        *(pages(agreement, one.name) for agreement in agreements for one in agreement.participants),
    )


# Making a proposal, and deciding about one.


@dataclass(frozen=True)
class ProposalTerms:
    """What a party proposes besides the settings."""

    tasks: tuple[Task, ...] = ("fit",)
    runs: int = 1
    days: float = 30.0

    def check(self) -> None:
        """Refuse terms that no proposal can have."""
        if not 1 <= self.runs <= MAX_RUNS:
            raise ParameterError(f"--runs: must be 1 to {MAX_RUNS}, not {self.runs}")
        if not 0 < self.days <= MAX_DAYS:
            raise ParameterError(f"--days: must be above 0 and at most {MAX_DAYS}, not {self.days:g}")


def make_proposal(
    config: Config, settings: RunSettings, terms: ProposalTerms, number: int, accepts: Sequence[str], now: float
) -> CheckedProposal:
    """Return a signed proposal of a party with its own approval; refuse one that it could not run itself."""
    terms.check()
    base = config.agreement()
    parameters = settings.resolve(len(base.parties))
    by_task = [
        msgspec.structs.replace(base, parameters=msgspec.structs.replace(parameters, task=task), approval=b"")
        for task in terms.tasks
    ]
    proposal = RunProposal(
        federation=base.federation,
        number=number,
        nonce=random_token(),
        proposer=config.me,
        made=int(now),
        expires=int(now + terms.days * _DAY),
        runs=terms.runs,
        tasks=terms.tasks,
        settings=settings,
        parameters=parameters,
        texts=__version__,
        disclosure=disclosure_digest(tuple(by_task)),
    )
    signed = SignedRecord.of(proposal, config.identity())
    unread = checked(config, ProposalState(signed), relayed_by=config.me)
    approval = decide(config, unread, approves=True, accepts=accepts, now=now)
    return checked(config, ProposalState(signed, (approval,)), relayed_by=config.me)


def checked(config: Config, state: ProposalState, *, relayed_by: str) -> CheckedProposal:
    """Check the signatures of a proposal and its decisions against the keys in a configuration."""
    agreement = config.agreement()
    found = check_proposal(agreement.participants, state, relayed_by=relayed_by, federation=agreement.federation)
    revoked = ProposalFolder.of(config).revoked()
    for name in (found.proposal.proposer, *found.decisions):
        if name in revoked:
            raise RejectedError(f"{revoked[name]}; its proposals and approvals are refused", peer=name)
    return found


def check_readable(config: Config, found: CheckedProposal, now: float) -> None:
    """Refuse to decide about a proposal that is too old, or that would not run or read here as at its proposer."""
    proposal = found.proposal
    if now > proposal.expires:
        raise AgreementError(f"proposal {proposal.number} was valid until {moment(proposal.expires)}: propose again")
    if proposal.made > now + _CLOCKS or proposal.expires - proposal.made > MAX_DAYS * _DAY:
        raise AgreementError(
            f"proposal {proposal.number} of {proposal.proposer} was made at {moment(proposal.made)} by its clock; "
            "compare the clocks of both machines"
        )
    check_settings(proposal, len(found.agreement().parties))
    unapproved = tuple(msgspec.structs.replace(one, approval=b"") for one in found.agreements())
    if disclosure_digest(unapproved) != proposal.disclosure:
        remedy = "install the same version"
        if proposal.texts == __version__:
            remedy = "the installed files differ, or kcagc serve was started before an upgrade: restart it"
        raise AgreementError(
            f"proposal {proposal.number}: {proposal.proposer} has read other pages about what the run discloses (texts "
            f"of kcagc {printable(proposal.texts)}) than those of kcagc {__version__} at {config.me}: {remedy}"
        )


def decide(
    config: Config,
    found: CheckedProposal,
    *,
    approves: bool,
    accepts: Sequence[str] = (),
    reason: str = "",
    now: float,
) -> SignedRecord:
    """Return the signed decision of this role; refuse an approval of what it could not run or has not accepted."""
    Policy(accepts)  # raises an error for an unknown name
    listed_here = [name for name in found.needs() if name in config.document.policy.accept]
    accepted = tuple(dict.fromkeys((*listed_here, *accepts))) if approves else ()
    if approves:
        ProposalFolder.of(config).require_not_revoked()
        check_readable(config, found, now)
        found.require_accepted(config.me, accepted)
    decision = Decision(
        federation=found.proposal.federation,
        proposal=found.digest,
        name=config.me,
        approves=approves,
        made=int(now),
        accepts=accepted,
        reason=reason,
    )
    if approves:
        with_proposal(config, found)
    return SignedRecord.of(decision, config.identity())


def automatic_decision(config: Config, found: CheckedProposal, now: float) -> SignedRecord | None:
    """Return the approval of a role that decides without its operator; None if the operator must decide."""
    rules, proposal = config.document.approval, found.proposal
    if rules.automatic == "never" or found.declined or config.me in found.decisions or proposal.runs > rules.max_runs:
        return None
    if rules.automatic == "same" and (proposal.tasks, proposal.parameters) != (("fit",), config.parameters()):
        return None
    try:
        return decide(config, found, approves=True, now=now)
    except KcagcError as error:
        logger.warning(
            "proposal %d of %s is not approved without an operator: %s", proposal.number, proposal.proposer, error
        )
        return None


# A role and its coordinator.


class AgreementQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The signed request of a party about proposals."""

    name: str
    body: bytes
    signature: bytes


def question_statement(method: str, federation: bytes, name: str, certificate: bytes, body: bytes) -> bytes:
    """Return what the party signs; it covers the certificate, so that no other role can repeat the request."""
    return framed("kcagc request about proposals", method, federation, name, certificate, body)


class AgreeingRole:
    """A role that agrees with the others; a party asks its coordinator, a coordinator reads its own folder."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.time) -> None:
        if config.agreement().parameters.aggregator != "coordinator":
            raise ParameterError(
                f"{config.path}: proposals need a coordinator that stays (kcagc serve), and there is none"
            )
        self.config, self._clock = config, clock
        self.folder = ProposalFolder.of(config)
        self._is_coordinator = config.role == "coordinator"

    async def propose(
        self, settings: dict[str, Any], terms: ProposalTerms, accepts: Sequence[str] = ()
    ) -> CheckedProposal:
        """Propose settings; those that are not given are those of the configuration."""
        if self._is_coordinator:
            raise ParameterError(f"{self.config.path}: is the configuration of a coordinator; a party proposes")
        given = msgspec.structs.asdict(self.config.document.session) | settings
        await self.update()
        number = max(self.folder.numbers(), default=0) + 1
        made = make_proposal(self.config, RunSettings.read(given), terms, number, accepts, self._clock())
        return self._keep(await self._ask("proposal/send", msgspec.json.encode(made.state), ProposalState))

    async def update(self) -> bytes:
        """Learn the proposals and decisions that the coordinator has, and decide if no operator is needed.

        Return a digest of what this role knows then.
        """
        if not self._is_coordinator:
            for state in await self._ask("proposal/read", b"", list[ProposalState]):
                self._keep(state)
        for number in self.folder.numbers()[:1]:
            found = self.folder.read(number)
            if (decision := automatic_decision(self.config, found, self._clock())) is not None:
                await self._send(found, decision)
                logger.info("approved proposal %d of %s", number, found.proposal.proposer)
        return self.folder.newest_digest()

    def newest(self, number: int | None = None) -> CheckedProposal:
        """Return a proposal that this role knows, by default the newest one."""
        numbers = self.folder.numbers()
        if number is None and numbers:
            number = numbers[0]
        if number not in numbers:
            raise ParameterError(
                f"{self.config.me}: there is no proposal{'' if number is None else f' {number}'} yet. One party makes "
                "it with kcagc propose"
            )
        return self.folder.read(number)

    async def decide(
        self, found: CheckedProposal, *, approves: bool, accepts: Sequence[str] = (), reason: str = ""
    ) -> CheckedProposal:
        """Decide about a proposal, and send the signed decision."""
        signed = decide(self.config, found, approves=approves, accepts=accepts, reason=reason, now=self._clock())
        return await self._send(found, signed)

    async def _send(self, found: CheckedProposal, decision: SignedRecord) -> CheckedProposal:
        others = tuple(one for one in found.state.decisions if not one.is_signed_by(Decision, self._own_key))
        kept = self._keep(ProposalState(found.state.proposal, (*others, decision)))
        if self._is_coordinator:
            return kept
        own = ProposalState(found.state.proposal, (decision,))  # the coordinator has those of the others
        return self._keep(await self._ask("proposal/decide", msgspec.json.encode(own), ProposalState))

    @property
    def _own_key(self) -> bytes:
        return self.config.identity().public

    def _keep(self, state: ProposalState) -> CheckedProposal:
        return self.folder.keep(checked(self.config, state, relayed_by=self.config.agreement().aggregator))

    async def _ask(self, method: str, body: bytes, kind: Any) -> Any:
        """Send a signed request to the coordinator and return what it answers."""
        agreement, credentials = self.config.agreement(), self.config.credentials()
        aggregator, certificate = agreement.aggregator, digest_of(credentials.certificate)
        statement = question_statement(method, agreement.federation, self.config.me, certificate, body)
        question = AgreementQuestion(self.config.me, body, self.config.identity().sign(statement))
        address = self.config.document.network.address
        try:
            answer = await request(
                address,
                self.config.tls_names()[aggregator],
                credentials,
                method,
                msgspec.msgpack.encode(question),
                peer=aggregator,
                federation=agreement.federation,
                timeout=_ANSWERED,
            )
        except PeerError as error:
            raise _UnreadableError(str(error.args[0]), peer=aggregator) from error
        except Rejected as rejection:
            raise rejection_error(rejection, aggregator) from rejection
        except (TimeoutError, ConnectionLost) as error:
            raise PeerTimeoutError(
                f"no answer at {address} ({printable(str(error))}): check that kcagc serve runs there, and the network",
                peer=aggregator,
            ) from error
        try:
            return msgspec.json.decode(answer, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            message = f"sent an answer that cannot be read: {printable(str(error))}"
            raise _UnreadableError(message, peer=aggregator) from error


class _UnreadableError(PeerError):
    """An answer that is too long or damaged; a run can go on with the proposals that a role knows."""


async def for_next_run(
    config: Config, task: Task, status: Status, *, new_session: bool = False, ask_at: str = ""
) -> tuple[Config, bool]:
    """Return the configuration of the next run of a role, and whether it is a new session.

    An interrupted session goes on under its proposal, unless a participant has declined it meanwhile. A newer approved
    proposal starts a new session by itself. `ask_at` is the address of the coordinator that knows the proposals, if
    that of the session is another one.
    """
    if not config.document.approval.required:
        return config, new_session
    if status == "running" and not new_session:
        found = agreed(config, task, resume=True)
        if found.approved is None or found.approved.approved:
            return found, False
        new_session = True
    if config.role == "party":
        try:
            await AgreeingRole(_reaching(config, ask_at)).update()
        except (PeerTimeoutError, _UnreadableError) as error:
            logger.warning("%s. Continuing with the proposals that this role knows", error)
    found = agreed(config, task)
    if status == "finished" and not new_session:
        current = ProposalFolder.of(config).current(task)
        if found.approved is None or found.approved.proposal.number == current:
            newest = next(ProposalFolder.of(config).newest(), None)
            if newest is not None and newest.proposal.number != current:
                logger.warning("there is a newer proposal %d. %s", newest.proposal.number, waiting_for(newest))
            return agreed(config, task, resume=True), False
        return found, True
    return found, new_session


def _reaching(config: Config, address: str) -> Config:
    """Return a configuration of a role that reaches its coordinator at another address."""
    network = msgspec.structs.replace(config.document.network, address=address or config.document.network.address)
    return replace(config, document=msgspec.structs.replace(config.document, network=network))


def waiting_for(found: CheckedProposal) -> str:
    """Return in a sentence what a proposal waits for."""
    if found.declined:
        return f"{found.declined[0].name} has declined it."
    if found.undecided:
        return f"It waits for the approval of {listed(found.undecided)}."
    return "All have approved it."
