"""Verification of finished runs, offline: signatures, files, the approved proposal, and the receipts of several roles.

The public identity keys come from a configuration that a role has pinned, or from the fingerprint of all names and keys
that people have compared over the telephone. Nothing in a result folder is believed without them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec

from kcagc.deploy.audit import Audit, audit_statement, digest_of_file, read_audit
from kcagc.deploy.config import Config
from kcagc.deploy.folders import CONFIG
from kcagc.deploy.results import AUDIT, AUDIT_SIGNATURE
from kcagc.errors import ParameterError, PeerError, VerificationError
from kcagc.federation.codes import fingerprint
from kcagc.protocol.agreement import Participant, federation_digest
from kcagc.protocol.approval import check_proposal, moment
from kcagc.protocol.parameters import Parameters
from kcagc.secagg.keys import verify
from kcagc.text import listed, printable

_NEEDED = ("ledger.jsonl", "run.json")
_LEVELS = 3  # folders above a result folder in which the configuration of its role can be


@dataclass(frozen=True)
class Pins:
    """The participants that a verifier knows: all of them, or the fingerprint of all of them together."""

    participants: tuple[Participant, ...] = ()
    shown: str = ""
    needs_proposal: bool = False
    source: str = ""

    @classmethod
    def of_config(cls, path: Path) -> Pins:
        """Return the participants that a configuration pins."""
        config = Config.load(path)
        required = config.document.approval.required
        return cls(config.agreement().participants, needs_proposal=required, source=str(path))

    @classmethod
    def of_fingerprint(cls, text: str) -> Pins:
        """Return the pins of a fingerprint as `kcagc join` shows it behind "all together"."""
        groups = text.split()
        if len(groups) != 8 or not all(len(one) == 5 and one.isdecimal() for one in groups):
            raise ParameterError('--fingerprint: must be the eight groups of five digits behind "all together"')
        # Only a federation that has met has this fingerprint, and its runs need proposals.
        return cls(shown=" ".join(groups), needs_proposal=True, source="--fingerprint")

    @classmethod
    def beside(cls, folder: Path) -> Pins:
        """Return the pins of the configuration above a result folder."""
        _check_finished(folder)
        for above in list(folder.absolute().parents)[:_LEVELS]:
            if (above / CONFIG).is_file():
                return cls.of_config(above / CONFIG)
        raise ParameterError(
            f"{folder}: there is no {CONFIG} above it, which would pin the identity keys; name one with --config, or "
            "give the fingerprint of all participants with --fingerprint"
        )

    def check(self, audit: Audit, path: Path) -> None:
        """Refuse an audit file of other participants."""
        found = audit.agreed()
        if self.shown:
            together = fingerprint(federation_digest(found))
            if together != self.shown:
                raise _failed(path, f"its participants together have the fingerprint {together}, not the given one")
        elif found != self.participants:
            different = [one.name for one in found if one not in self.participants] or [one.name for one in found]
            raise _failed(
                path, f"{listed(different)}: names, roles and identity keys are not those pinned in {self.source}"
            )


@dataclass(frozen=True)
class VerifiedRun:
    """A result folder that has passed."""

    folder: Path
    audit: Audit
    digest: str  # of the audit file
    statements: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return what was verified, for scripts."""
        return {
            "folder": str(self.folder),
            "name": self.audit.name,
            "session": self.audit.session,
            "task": self.audit.task,
            "proposal": self.audit.approval,
            "audit": self.digest,
            "previous": self.audit.previous,
            "files": dict(self.audit.files),
            "verified": list(self.statements),
        }


def _check_finished(folder: Path) -> None:
    """Raise an error if a folder has no audit file, which each role of a finished run leaves."""
    if not (folder / AUDIT).exists():
        inner = folder / "result"
        meant = f"; did you mean {inner}?" if (inner / AUDIT).exists() else ""
        why = f"there is no {AUDIT}: this is not the result folder of a finished run, or the file was removed"
        raise VerificationError(f"{why}{meant}", file=str(folder))


def verify_folder(folder: Path, pins: Pins) -> VerifiedRun:
    """Verify one result folder; raise an error that names the file which does not pass."""
    _check_finished(folder)
    path = folder / AUDIT
    try:
        audit, content = read_audit(folder)
        signature = (folder / AUDIT_SIGNATURE).read_text(encoding="utf-8")
    except OSError as error:
        raise VerificationError(f"{error.strerror or error}", file=str(error.filename or path)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise _failed(path, f"was changed, or is no audit file: {printable(str(error))}") from error
    pins.check(audit, path)
    names = {one.name: one for one in audit.agreed()}
    if audit.name not in names:
        raise _failed(path, f"its role {printable(audit.name)!r} is not among the participants")
    own = names[audit.name]
    if not _is_signed(own, content, signature):
        raise _failed(
            path, f"or {AUDIT_SIGNATURE} was changed: the identity key of {audit.name} has not signed these bytes"
        )
    for name in {*_NEEDED, *audit.files}:
        _check_file(folder, name, audit)
    summary = _summary(folder / "run.json")
    if summary.get("session", "") != audit.session or summary.get("name") != audit.name:
        raise _failed(folder / "run.json", "is of another run or role than the audit file")
    statements = [
        f"signed by the identity key of {audit.name}",
        f"unchanged: {listed(sorted(audit.files))}",
        *_check_approval(audit, pins, summary, path),
    ]
    return VerifiedRun(folder, audit, hashlib.sha256(content).hexdigest(), tuple(statements))


def _is_signed(own: Participant, content: bytes, signature: str) -> bool:
    try:
        raw = bytes.fromhex(signature)
    except ValueError:
        return False
    return raw.hex() == signature and verify(own.identity, audit_statement(content), raw)


def _check_file(folder: Path, name: str, audit: Audit) -> None:
    path = folder / name
    if Path(name).name != name or name not in audit.files:
        raise _failed(folder / AUDIT, f"does not list {printable(name)!r} as a file of this folder")
    try:
        found = digest_of_file(path)
    except OSError as error:
        raise VerificationError(f"{error.strerror or error}", file=str(path)) from error
    if found != audit.files[name]:
        raise _failed(path, f"was changed after {audit.name} had signed {AUDIT}")


def _summary(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except ValueError as error:
        raise _failed(path, f"is not a summary: {error}") from error
    return found


def _check_approval(audit: Audit, pins: Pins, summary: dict[str, Any], path: Path) -> Iterator[str]:
    """Check the proposal of a run and all signatures below it; yield what that shows."""
    if audit.proposal is None or not audit.approval:
        if audit.approval or audit.proposal is not None or pins.needs_proposal:
            raise _failed(path, "the run needs an approved proposal, and the audit file has none")
        yield "no proposal: this federation does not require one"
        return
    agreed = audit.agreed()
    try:
        found = check_proposal(agreed, audit.proposal, relayed_by="the proposal", federation=federation_digest(agreed))
    except PeerError as error:
        raise _failed(path, str(error)) from error
    proposal = found.proposal
    if not found.approved or found.digest.hex() != audit.approval:
        raise _failed(path, "not all participants have approved the proposal of the run")
    if audit.task not in proposal.tasks:
        raise _failed(path, f"proposal {proposal.number} is not about {audit.task}")
    wanted = msgspec.json.decode(msgspec.json.encode(_without_task(proposal.parameters)))
    if wanted != {**summary.get("parameters", {}), "task": "fit", "model": ""}:
        raise _failed(path.with_name("run.json"), f"its parameters are not those of proposal {proposal.number}")
    yield (
        f"proposal {proposal.number} of {proposal.proposer}, made {moment(proposal.made)}, is signed by "
        f"{listed(list(found.decisions))}"
    )


def _without_task(parameters: Parameters) -> Parameters:
    return msgspec.structs.replace(parameters, task="fit", model="")


def verify_together(runs: Sequence[VerifiedRun]) -> list[str]:
    """Compare the audit files of several roles of one run, and of several runs of one role; return what they show."""
    statements = []
    apart: dict[tuple[str, str], VerifiedRun] = {}  # of two roles, a run that the other one has no part in
    met = set()  # the pairs of roles with a run in common
    for one, other in combinations(runs, 2):
        if one.audit.name == other.audit.name:
            continue
        pair = min(one.audit.name, other.audit.name), max(one.audit.name, other.audit.name)
        known = one.audit.session and other.audit.session
        if one.audit.task != other.audit.task or (known and one.audit.session != other.audit.session):
            apart[pair] = other
            continue
        met.add(pair)
        if one.audit.approval != other.audit.approval or one.audit.agreed() != other.audit.agreed():
            raise _failed(
                other.folder / AUDIT, f"{other.audit.name} and {one.audit.name} had different proposals or participants"
            )
        compared = _compare_receipts(one, other)
        if compared:
            statements.append(compared)
    for (first, second), run in apart.items():
        if (first, second) not in met:
            raise _failed(
                run.folder / AUDIT,
                f"{first} and {second} have no run in common here: give folders of the same run, or verify each alone",
            )
    by_digest = {one.digest: one for one in runs}
    statements += [
        f"{one.folder} follows {by_digest[one.audit.previous].folder}"
        for one in runs
        if one.audit.previous in by_digest
    ]
    return statements


def _compare_receipts(one: VerifiedRun, other: VerifiedRun) -> str:
    """Compare what two roles confirm to have exchanged; roles that exchanged nothing have no receipts."""
    mine = next((receipt for receipt in one.audit.receipts if receipt.peer == other.audit.name), None)
    theirs = next((receipt for receipt in other.audit.receipts if receipt.peer == one.audit.name), None)
    if mine is None and theirs is None:
        return ""
    names = f"{one.audit.name} and {other.audit.name}"
    if mine is None or theirs is None:
        raise _failed(other.folder / AUDIT, f"only one of {names} has a receipt of their messages")
    for sender, receiver, sent, received in (
        (one, other, (mine.sent, mine.sent_digest), (theirs.received, theirs.received_digest)),
        (other, one, (theirs.sent, theirs.sent_digest), (mine.received, mine.received_digest)),
    ):
        if sent != received:
            raise _failed(
                receiver.folder / AUDIT,
                f"{sender.audit.name} confirms to have sent {sent[0]} messages, {receiver.audit.name} to have received "
                f"{received[0]}, and they are not the same messages",
            )
    return f"the receipts of {names} agree: {mine.sent} and {mine.received} messages"


def _failed(path: Path, message: str) -> VerificationError:
    return VerificationError(message, file=str(path))
