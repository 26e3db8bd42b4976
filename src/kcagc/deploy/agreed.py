"""Proposals in the folder `state` of a role, and the one under which its next run takes place.

proposals/0001/   the first proposal: proposal.json, decision-KEY.json with the signed decision of each
                  participant, and fit-sessions.txt with the fits that took place under it
proposals/fit.txt the number of the proposal of the session in the journal, for each task
revoked.json      the identity keys that this role no longer accepts
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from kcagc.data.files import PRIVATE, write_bytes, write_text
from kcagc.deploy.config import Config
from kcagc.disclosure import Disclosure
from kcagc.errors import AgreementError, DataError, RejectedError
from kcagc.protocol.agreement import Participant
from kcagc.protocol.approval import (
    MAX_NUMBER,
    CheckedProposal,
    Decision,
    ProposalState,
    SignedRecord,
    check_proposal,
    check_settings,
    moment,
)
from kcagc.protocol.parameters import Parameters, Task
from kcagc.runtime.journal import Journal
from kcagc.secagg.keys import digest
from kcagc.text import count, listed, printable

T = TypeVar("T")
NEWEST = 64  # proposals that a role looks at
_LOOK_AGAIN = 1.0  # seconds until revoked keys are looked at again during a session
_PROPOSAL, _SESSIONS = "proposal.json", "sessions.txt"


class Revocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An identity key that this role no longer accepts."""

    name: str
    identity: str  # in hexadecimal digits
    since: str
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""

    def __str__(self) -> str:
        reason = f" ({printable(self.reason)})" if self.reason else ""
        return f"the identity key of {self.name} was revoked here on {self.since[:10]}{reason}"


@dataclass(frozen=True)
class ProposalFolder:
    """The proposals of a federation that one role knows."""

    state: Path
    participants: tuple[Participant, ...]
    federation: bytes

    @classmethod
    def of(cls, config: Config) -> ProposalFolder:
        """Return the proposals beside the journal of a role."""
        agreement = config.agreement()
        return cls(config.file(config.document.output.state), agreement.participants, agreement.federation)

    @property
    def path(self) -> Path:
        """The folder of the proposals."""
        return self.state / "proposals"

    def numbers(self) -> list[int]:
        """Return the numbers of all proposals, the newest first."""
        names = [path.parent.name for path in self.path.glob(f"*/{_PROPOSAL}")]
        return sorted((int(name) for name in names if name.isdecimal()), reverse=True)

    def read(self, number: int) -> CheckedProposal:
        """Read a proposal, and check all signatures."""
        folder = self._folder(number)
        proposal: SignedRecord = _read(folder / _PROPOSAL, SignedRecord)
        paths = [_decision(folder, one.identity) for one in self.participants]
        decisions: tuple[SignedRecord, ...] = tuple(_read(path, SignedRecord) for path in paths if path.exists())
        state = ProposalState(proposal, decisions)
        return check_proposal(self.participants, state, relayed_by=f"the folder {folder}", federation=self.federation)

    def newest(self) -> Iterator[CheckedProposal]:
        """Yield the proposals that this role looks at, the newest first."""
        return (self.read(number) for number in self.numbers()[:NEWEST])

    def newest_digest(self) -> bytes:
        """Return a digest of the newest proposal and its decisions; a role that knows the same has the same one."""
        numbers = self.numbers()
        state = self.read(numbers[0]).state if numbers else None
        return digest("kcagc newest proposal", b"" if state is None else msgspec.json.encode(state))

    def keep(self, found: CheckedProposal) -> CheckedProposal:
        """Write what is new in a checked proposal; return it with everything that is known.

        A decline replaces an approval, but not the other way round. Another proposal under a known number is refused.
        """
        folder, number = self._folder(found.proposal.number), found.proposal.number
        if (folder / _PROPOSAL).exists():
            known = self.read(number)
            if known.digest != found.digest:
                raise AgreementError(
                    f"two different proposals have the number {number}: {known.proposal.proposer} made one on "
                    f"{moment(known.proposal.made)}, {found.proposal.proposer} the other on "
                    f"{moment(found.proposal.made)}. Do not approve either; propose again"
                )
        else:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_bytes(folder / _PROPOSAL, msgspec.json.encode(found.state.proposal), mode=PRIVATE)
        for signed in found.state.decisions:
            self._keep_decision(folder, signed)
        return self.read(number)

    def _keep_decision(self, folder: Path, signed: SignedRecord) -> None:
        decision = msgspec.json.decode(signed.content, type=Decision)
        path = _decision(folder, next(one.identity for one in self.participants if one.name == decision.name))
        with contextlib.suppress(FileNotFoundError, DataError):
            earlier = msgspec.json.decode(_read(path, SignedRecord).content, type=Decision)
            if not earlier.approves or decision.approves:
                return
        write_bytes(path, msgspec.json.encode(signed), mode=PRIVATE)

    # Runs under a proposal.

    def sessions(self, number: int, task: Task = "fit") -> list[str]:
        """Return the sessions of a task that have ended with a result under a proposal."""
        with contextlib.suppress(FileNotFoundError):
            return (self._folder(number) / f"{task}-{_SESSIONS}").read_text(encoding="utf-8").split()
        return []

    def add_session(self, number: int, task: Task, session: str) -> None:
        """Note that a session has ended with a result; a repetition changes nothing."""
        known = self.sessions(number, task)
        if session not in known:
            path = self._folder(number) / f"{task}-{_SESSIONS}"
            write_text(path, "".join(f"{one}\n" for one in [*known, session]))

    def current(self, task: Task) -> int | None:
        """Return the number of the proposal of the session in the journal."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int((self.path / f"{task}.txt").read_text(encoding="utf-8"))
        return None

    def note_current(self, task: Task, number: int) -> None:
        """Note the proposal of the session that opens."""
        if self.current(task) != number:
            write_text(self.path / f"{task}.txt", f"{number}\n")

    def _folder(self, number: int) -> Path:
        return self.path / f"{min(number, MAX_NUMBER):04}"

    # Revoked identity keys.

    def revoked(self) -> dict[str, Revocation]:
        """Return the participants whose identity keys are revoked, by name."""
        path = self.state / "revoked.json"
        found: list[Revocation] = _read(path, list[Revocation]) if path.exists() else []
        keys = {one.identity.hex(): one.name for one in self.participants}
        return {keys[one.identity]: one for one in found if one.identity in keys}

    def revoke(self, name: str, reason: str) -> Revocation:
        """Refuse the identity key of a participant from now on."""
        known = self.revoked()
        if name in known:
            return known[name]
        identity = next(one.identity.hex() for one in self.participants if one.name == name)
        made = Revocation(name, identity, datetime.now(UTC).isoformat(timespec="seconds"), reason)
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_bytes(self.state / "revoked.json", msgspec.json.encode([*known.values(), made]), mode=PRIVATE)
        return made

    def require_not_revoked(self) -> None:
        """Raise an error if the identity key of a participant is revoked: this federation can run no more."""
        for one in self.revoked().values():
            raise RejectedError(
                f"{one}. No run of this federation starts any more: found a new one without it (kcagc invite)",
                peer=one.name,
            ).with_public_message(f"it has revoked the identity key of {one.name}")

    # The proposal of the next run.

    def for_next_run(self, me: str, task: Task, now: float) -> tuple[CheckedProposal | None, str]:
        """Return the proposal under which the next run takes place; if there is none, the reason.

        A role that has approved a proposal takes part in no earlier one, unless the newer one has come to nothing.
        """
        reasons = []  # why the newer proposals are not used
        for found in self.newest():
            reason, ends = self._why_not(found, me, task, now)
            if not reason:
                return found, ""
            reasons.append(reason)
            if ends:
                break
        return None, next(iter(reasons), "no proposal has been made")

    def _why_not(self, found: CheckedProposal, me: str, task: Task, now: float) -> tuple[str, bool]:
        """Return why no run takes place under a proposal, and whether that excludes earlier ones, too."""
        number, one = found.proposal.number, found.proposal
        if found.declined:
            decline = found.declined[0]
            why = f": {printable(decline.reason)}" if decline.reason else ""
            return f"{decline.name} has declined proposal {number}{why}", False
        if now > one.expires:
            return f"proposal {number} was valid until {moment(one.expires)}", me not in found.undecided
        if not found.approved:
            waits = f"proposal {number} of {one.proposer} waits for the approval of {listed(found.undecided)}"
            return waits, me not in found.undecided
        if task not in one.tasks:
            return f"proposal {number} is about {listed(list(one.tasks))}, and not about {task}", True
        if len(self.sessions(number, task)) >= one.runs:
            return f"proposal {number} allows {count(one.runs, 'run')} of {task}, and no more are left", True
        return "", True


def agreed(
    config: Config, task: Task = "fit", *, resume: bool = False, clock: Callable[[], float] = time.time
) -> Config:
    """Return the configuration of the next run: with the settings of the approved proposal, if it needs one.

    With `resume`, that is the proposal of the session in the journal. Without an approved proposal the configuration
    stays as it is, and `require_agreed` refuses it.
    """
    if not config.document.approval.required:
        return config
    folder = ProposalFolder.of(config)
    current = folder.current(task) if resume else None
    if current is not None:
        return with_proposal(config, folder.read(current))
    found, _ = folder.for_next_run(config.me, task, clock())
    return config if found is None else with_proposal(config, found)


def with_proposal(config: Config, found: CheckedProposal) -> Config:
    """Return a configuration with the settings of a proposal and the disclosures that this role accepts for it."""
    check_settings(found.proposal, config.n_parties)
    document, own = config.document, found.decisions.get(config.me)
    accept = [*document.policy.accept, *(own.accepts if own is not None else ())]
    policy = msgspec.structs.replace(document.policy, accept=list(dict.fromkeys(accept)))
    document = msgspec.structs.replace(document, session=found.proposal.settings, policy=policy)
    made = replace(config, document=document, approved=found)
    made.check()
    return made


def require_agreed(
    config: Config, task: Task, *, model: Parameters | None = None, clock: Callable[[], float] = time.time
) -> None:
    """Raise an error if a run needs an approved proposal and has none, or if an identity key is revoked.

    `model` are the parameters of the fit that a prediction continues.
    """
    folder, found = ProposalFolder.of(config), config.approved
    folder.require_not_revoked()
    if found is None:
        if config.document.approval.required:
            _, reason = folder.for_next_run(config.me, task, clock())
            message = f"{config.me}: a run needs a proposal that all participants have approved: {reason}"
            raise AgreementError(f"{message}. {_REMEDY}").with_public_message(f"it has no approved proposal: {reason}")
        return
    number = found.proposal.number
    if not found.approved:
        raise AgreementError(f"{config.me}: proposal {number} is not approved by all. {_REMEDY}")
    if model is not None and model != found.proposal.parameters:
        raise AgreementError(
            f"{config.me}: the model was fitted with other settings than those of proposal {number}. Propose the "
            "settings of the model: kcagc propose --task predict"
        )


async def unless_revoked(config: Config, work: Coroutine[Any, Any, None]) -> None:
    """Do the work of a session; end it with an error as soon as an identity key is revoked here."""
    folder, task = ProposalFolder.of(config), asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=_LOOK_AGAIN))[0]:
            folder.require_not_revoked()
        await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


def note_session(config: Config, task: Task) -> None:
    """Note the proposal of a session that opens, so that the same command resumes it under the same proposal."""
    if config.approved is not None:
        ProposalFolder.of(config).note_current(task, config.approved.proposal.number)


def disclose_approvals(config: Config, journal: Journal) -> None:
    """Record, once for a proposal, which roles have approved it: it went over the coordinator before the session."""
    found = config.approved
    if found is None:
        return
    stage = f"proposal {found.proposal.number}"
    if any(entry.stage == stage for _, entry in journal.ledger()):
        return
    names = [one.name for one in found.participants]
    for name in found.decisions:
        others = ", ".join(other for other in names if other != name)
        journal.record_outside(Disclosure(name, others, "link/approval", stage, (), 0))


def note_result(config: Config, summary: Mapping[str, Any]) -> None:
    """Count a session with a result as a run of its proposal; the begin of a prediction stands for its session."""
    if config.approved is not None:
        session = summary.get("session") or summary["started"]
        ProposalFolder.of(config).add_session(config.approved.proposal.number, summary["task"], session)


def _decision(folder: Path, identity: bytes) -> Path:
    return folder / f"decision-{identity.hex()[:16]}.json"


_REMEDY = "At one party run kcagc propose, at all others kcagc approve"


def _read(path: Path, kind: type[T] | Any) -> T:
    try:
        found: T = msgspec.json.decode(path.read_bytes(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: is damaged: {error}. Restore it, or remove the folder {path.parent}") from error
    return found
