"""The audit file that each role writes and signs at the end of a run.

`audit.json` names the participants, the session, the approved proposal with all signatures, receipts of the messages,
and the digests of the result files and of the role's audit file before this one. `audit.sig` is the signature of its
bytes with the identity key of the role. A third party checks both with the public keys alone (`kcagc verify`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from kcagc import __version__
from kcagc.data.files import PRIVATE, write_bytes, write_text
from kcagc.deploy.results import AUDIT, AUDIT_SIGNATURE
from kcagc.protocol.agreement import Participant, RoleName
from kcagc.protocol.approval import ProposalState
from kcagc.protocol.parameters import Task
from kcagc.runtime.durable import MessageReceipt
from kcagc.secagg.keys import framed

if TYPE_CHECKING:
    from kcagc.deploy.run import RoleRun

LAST_AUDIT = "last-audit.txt"  # in the folder of the journal: the digest of the role's last audit file

Hex = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]*$", max_length=64)]


class AuditedRole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A participant with its public identity key."""

    name: str
    role: RoleName
    identity: Hex


class Audit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a role confirms about a run; `files` are the SHA-256 digests of its result files, by name."""

    format: Literal["kcagc audit 1"] = "kcagc audit 1"
    version: str
    name: str
    participants: tuple[AuditedRole, ...]
    session: Hex
    task: Task
    finished: str
    approval: Hex
    proposal: ProposalState | None
    receipts: tuple[MessageReceipt, ...]
    files: dict[str, Hex]
    previous: Hex

    def agreed(self) -> tuple[Participant, ...]:
        """Return the participants as an agreement has them."""
        return tuple(Participant(one.name, one.role, bytes.fromhex(one.identity)) for one in self.participants)


def audit_statement(content: bytes) -> bytes:
    """Return what a role signs: the bytes of its audit file."""
    return framed("kcagc audit", content)


def write_audit(run: RoleRun, receipts: bytes) -> None:
    """Write and sign the audit file of a finished run, unless it is there."""
    folder, last = run.files.folder, run.journal.with_name(LAST_AUDIT)
    summary = json.loads(run.files.summary.read_text(encoding="utf-8"))
    with contextlib.suppress(OSError, msgspec.DecodeError):
        if (folder / AUDIT_SIGNATURE).exists() and read_audit(folder)[0].session == summary.get("session", ""):
            return
    names = [*dict(summary["files"]).values(), run.files.summary.name]
    found, approved = run.agreement, run.config.approved
    audit = Audit(
        version=__version__,
        name=run.config.me,
        participants=tuple(AuditedRole(one.name, one.role, one.identity.hex()) for one in found.participants),
        session=summary.get("session", ""),
        task=found.parameters.task,
        finished=summary["finished"],
        approval=found.approval.hex(),
        proposal=None if approved is None else approved.state,
        receipts=tuple(msgspec.json.decode(receipts, type=list[MessageReceipt])),
        files={name: digest_of_file(folder / name) for name in sorted(names)},
        previous=last.read_text(encoding="utf-8").strip() if last.exists() else "",
    )
    content = msgspec.json.format(msgspec.json.encode(audit), indent=2)
    signature = run.identity.sign(audit_statement(content))
    write_bytes(folder / AUDIT, content, mode=PRIVATE)
    write_text(folder / AUDIT_SIGNATURE, signature.hex(), mode=PRIVATE)
    write_text(last, hashlib.sha256(content).hexdigest(), mode=PRIVATE)


def read_audit(folder: Path) -> tuple[Audit, bytes]:
    """Return an audit file and its bytes; nothing is checked."""
    content = (folder / AUDIT).read_bytes()
    return msgspec.json.decode(content, type=Audit), content


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
