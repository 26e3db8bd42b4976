"""Proposals of runs, and what every participant decides about them: signed records, and the checks of signatures.

A proposal names the federation, the settings, and the digest of the pages that say what each role learns. Every
participant signs its decision with its identity key. The coordinator passes these records on; it cannot make or change
one of another role. This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from kcagc.disclosure.texts import RISKS
from kcagc.errors import AgreementError, ParameterError, PeerError, PolicyError
from kcagc.protocol.agreement import Agreement, Participant
from kcagc.protocol.parameters import Parameters, RunSettings, Task
from kcagc.protocol.plan import risks
from kcagc.secagg.keys import Identity, digest, framed, verify
from kcagc.secagg.masks import MAX_PARTIES
from kcagc.text import listed, printable

MAX_RUNS = 1000
MAX_DAYS = 366
MAX_NUMBER = 9999
_MAX_CONTENT = 16_384  # characters of a record

_Name = Annotated[str, Meta(min_length=1, max_length=64)]
_Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]
_Moment = Annotated[int, Meta(ge=0, lt=2**40)]  # in seconds since 1970
_Number = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
R = TypeVar("R", bound=msgspec.Struct)


class ApprovalSection(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether a run needs a proposal that all participants have approved, and what this role approves unattended.

    Parameters
    ----------
    required : bool
        Whether a run starts only under an approved proposal (`kcagc propose`, `kcagc approve`), whose settings replace
        those of `[session]`. Without it, the settings are those of `[session]`.
    automatic : {"never", "same", "any"}
        Which proposals this role approves when it sees them, without its operator: none, those of a fit with the
        settings of `[session]`, or all. An unattended approval accepts no disclosure beyond `policy.accept`.
    max_runs : int
        The largest number of runs of a proposal that this role approves unattended.
    """

    required: bool = False
    automatic: Literal["never", "same", "any"] = "never"
    max_runs: int = 1


class RunProposal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one or more runs, as one party proposes them to the others.

    `federation` is the digest of all names, roles and identity keys. `disclosure` is the digest of the pages that say
    what each role learns, in the texts of the version `texts` of kcagc.
    """

    format: Literal["kcagc proposal 1"] = "kcagc proposal 1"
    federation: _Digest
    number: _Number
    nonce: _Digest
    proposer: _Name
    made: _Moment
    expires: _Moment
    runs: Annotated[int, Meta(ge=1, le=MAX_RUNS)]
    tasks: Annotated[tuple[Task, ...], Meta(min_length=1, max_length=4)]
    settings: RunSettings
    parameters: Parameters
    texts: Annotated[str, Meta(max_length=64)]
    disclosure: _Digest


class Decision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one participant decides about a proposal; `accepts` are the disclosures that it accepts by name."""

    federation: _Digest
    proposal: _Digest
    name: _Name
    approves: bool
    made: _Moment
    accepts: Annotated[tuple[_Name, ...], Meta(max_length=32)] = ()
    reason: Annotated[str, Meta(max_length=500)] = ""


class SignedRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record as JSON text, and the signature of its maker."""

    content: Annotated[str, Meta(max_length=_MAX_CONTENT)]
    signature: Annotated[bytes, Meta(max_length=64)]

    @classmethod
    def of(cls, record: RunProposal | Decision, identity: Identity) -> SignedRecord:
        """Return a record with the signature of this role."""
        content = msgspec.json.encode(record).decode()
        return cls(content, identity.sign(_statement(type(record), content)))

    def is_signed_by(self, kind: type[RunProposal | Decision], identity: bytes) -> bool:
        """Return whether the holder of an identity key has signed this record."""
        return verify(identity, _statement(kind, self.content), self.signature)


def _statement(kind: type[RunProposal | Decision], content: str) -> bytes:
    return framed("kcagc run proposal" if kind is RunProposal else "kcagc decision", content)


class ProposalState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A signed proposal, and the signed decisions that are known so far."""

    proposal: SignedRecord
    decisions: Annotated[tuple[SignedRecord, ...], Meta(max_length=MAX_PARTIES + 1)] = ()


@dataclass(frozen=True)
class CheckedProposal:
    """A proposal and decisions whose signatures were checked against the pinned identity keys."""

    participants: tuple[Participant, ...]
    proposal: RunProposal
    decisions: Mapping[str, Decision]
    state: ProposalState

    @property
    def digest(self) -> bytes:
        """The digest that enters the agreement of a session."""
        return proposal_digest(self.state.proposal)

    @property
    def undecided(self) -> list[str]:
        """The participants that have not decided, in the agreed order."""
        return [one.name for one in self.participants if one.name not in self.decisions]

    @property
    def declined(self) -> list[Decision]:
        """The decisions against the proposal."""
        return [one for one in self.decisions.values() if not one.approves]

    @property
    def approved(self) -> bool:
        """Whether all participants have approved."""
        return not self.undecided and not self.declined

    @property
    def open(self) -> bool:
        """Whether the proposal still waits for a decision."""
        return bool(self.undecided) and not self.declined

    def agreement(self, parameters: Parameters | None = None) -> Agreement:
        """Return the agreement of a session under this proposal."""
        given = self.proposal.parameters if parameters is None else parameters
        return Agreement(participants=self.participants, parameters=given, approval=self.digest)

    def agreements(self) -> list[Agreement]:
        """Return the agreement of each task; a prediction has the model of a later fit."""
        return [
            self.agreement(msgspec.structs.replace(self.proposal.parameters, task=task)) for task in self.proposal.tasks
        ]

    def needs(self) -> list[str]:
        """Return the names of the disclosures that every party must accept."""
        return list(dict.fromkeys(name for one in self.agreements() for name in risks(one)))

    def require_accepted(self, name: str, accepts: Sequence[str]) -> None:
        """Refuse an approval by a party that has not accepted each weaker disclosure by name."""
        role = next(one.role for one in self.participants if one.name == name)
        refused = [risk for risk in self.needs() if risk not in accepts]
        if refused and role == "party":
            options = " ".join(f"--accept {risk}" for risk in refused)
            raise PolicyError(
                f"{name}: proposal {self.proposal.number} needs {listed(refused)}, which discloses more than the "
                f"default settings do. An approval does not accept that: read what it means, and add {options}, or "
                "list the names under accept in [policy]; otherwise decline"
            )

    def as_dict(self) -> dict[str, object]:
        """Return what a summary shows: the proposal, and who approved it when."""
        found = self.proposal
        return {
            "number": found.number,
            "digest": self.digest.hex(),
            "proposer": found.proposer,
            "made": moment(found.made),
            "expires": moment(found.expires),
            "runs": found.runs,
            "tasks": list(found.tasks),
            "decisions": [
                {
                    "name": name,
                    "approves": one.approves,
                    "made": moment(one.made),
                    "accepts": list(one.accepts),
                    **({"reason": one.reason} if one.reason else {}),
                }
                for name, one in self.decisions.items()
            ],
        }


def proposal_digest(proposal: SignedRecord) -> bytes:
    """Return the digest of a signed proposal; the signature is no part of it."""
    return digest("kcagc proposal digest", proposal.content)


@lru_cache(maxsize=256)
def check_proposal(
    participants: tuple[Participant, ...], state: ProposalState, *, relayed_by: str, federation: bytes
) -> CheckedProposal:
    """Check a proposal and its decisions, as they come from another role or from a file.

    An error names `relayed_by`, the role that has shown a wrong record.
    """
    known = {one.name: one for one in participants}

    def refuse(message: str) -> PeerError:
        return PeerError(message, peer=relayed_by)

    proposal = _read(state.proposal, RunProposal, relayed_by)
    proposer = known.get(proposal.proposer)
    if proposal.federation != federation:
        raise refuse(f"proposal {proposal.number} is for another federation: its participants have other names or keys")
    if proposer is None or proposer.role != "party":
        raise refuse(f"proposal {proposal.number} is of {printable(proposal.proposer)!r}, which is not a party here")
    if not state.proposal.is_signed_by(RunProposal, proposer.identity):
        raise refuse(
            f"proposal {proposal.number} is not signed by the identity key of {proposal.proposer}: it was changed, or "
            "a stranger made it. Do not approve it"
        )
    if proposal.parameters.task != "fit" or len(set(proposal.tasks)) < len(proposal.tasks):
        raise refuse(f"proposal {proposal.number} has tasks that no run can have")
    decisions: dict[str, Decision] = {}
    for signed in state.decisions:
        one = _read(signed, Decision, relayed_by)
        maker = known.get(one.name)
        if maker is None:
            raise refuse(f"a decision about proposal {proposal.number} is of {printable(one.name)!r}, a stranger here")
        if not signed.is_signed_by(Decision, maker.identity):
            raise refuse(
                f"the decision of {one.name} about proposal {proposal.number} is not signed by its identity key: it "
                "was changed, or a stranger made it"
            )
        if (one.federation, one.proposal) != (federation, proposal_digest(state.proposal)):
            raise refuse(f"a decision of {one.name} is about another proposal than number {proposal.number}")
        if strange := set(one.accepts) - RISKS.keys():
            raise refuse(f"{one.name} accepts {printable(min(strange))!r}, and there is no such disclosure")
        if one.name in decisions:
            raise refuse(f"there are two decisions of {one.name} about proposal {proposal.number}")
        decisions[one.name] = one
    ordered = {one.name: decisions[one.name] for one in participants if one.name in decisions}
    return CheckedProposal(participants, proposal, ordered, state)


def _read(signed: SignedRecord, kind: type[R], relayed_by: str) -> R:
    try:
        found = msgspec.json.decode(signed.content, type=kind)
        shortest = msgspec.json.encode(msgspec.json.decode(signed.content)).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        message = f"a signed record cannot be read here: {printable(str(error))}. Install the same version of kcagc"
        raise PeerError(message, peer=relayed_by) from error
    if shortest != signed.content:  # its maker could fill the answers that all participants read
        raise PeerError("a signed record has spaces or other characters that kcagc does not write", peer=relayed_by)
    return found


def check_settings(proposal: RunProposal, n_parties: int) -> None:
    """Refuse a proposal whose settings lead to other parameters here than at the proposer."""
    try:
        resolved = proposal.settings.resolve(n_parties)
    except ParameterError as error:
        raise ParameterError(f"proposal {proposal.number} of {proposal.proposer}: {error}") from error
    if resolved != proposal.parameters:
        raise AgreementError(
            f"proposal {proposal.number} of {proposal.proposer}: its settings lead to other parameters here, so "
            f"{proposal.proposer} has another version of kcagc ({printable(proposal.texts)}): install the same version",
            peer=proposal.proposer,
        )


def moment(seconds: int) -> str:
    """Return a time of a record for people and scripts."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
