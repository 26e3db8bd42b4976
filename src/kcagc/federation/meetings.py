"""The coordinator's side of meetings: it admits inviters, keeps introductions, and founds a federation at the end.

A meeting is a file in the coordinator's folder, so that it survives a restart. The coordinator knows the secret of its
admission code, but not that of an invitation.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kcagc.data.files import PRIVATE, write_bytes, write_text
from kcagc.deploy.config import Config, Document
from kcagc.deploy.folders import CONFIG, FolderPlan, RoleFiles, check_name, configuration
from kcagc.errors import DataError, ParameterError
from kcagc.federation.codes import Code, fingerprint, identities_fingerprint
from kcagc.federation.meeting import (
    COORDINATOR,
    MAX_INTRODUCTION,
    Introduction,
    Invitation,
    Known,
    MeetingAnswer,
    MeetingKeys,
    Opening,
    State,
    channel_statement,
    is_list_signed,
    tls_name,
    visitor_name,
)
from kcagc.federation.methods import Method, in_thread, read_payload
from kcagc.net.frames import Rejected, RejectionReason
from kcagc.net.grpc_server import Caller
from kcagc.net.tls import Credentials, digest_of, split_address
from kcagc.net.trial_authority import limited_to
from kcagc.protocol.parameters import PARAMETERS
from kcagc.secagg.keys import Identity
from kcagc.text import listed, printable

logger = logging.getLogger(__name__)

ADMISSION = "admission.txt"
MAX_HOURS = 24 * 31
_MAX_FOUNDED = 32  # federations and meetings of an admission code
_FOUNDED_WITH = "founded-with.txt"  # in the folder of a federation: the public name of the admission code
_VISITORS = 4  # connections with an admission code; with that of an invitation, one more for each party
_MAX_OPENING = 16384  # bytes
_WAIT = 10.0  # seconds until a waiting role asks again
_ID = re.compile(r"[0-9a-f]{10}")


class _Stored(msgspec.Struct):
    """A meeting in its file."""

    opening: Opening
    state: State
    admission: str = ""  # the public name of the admission code with which it was opened


@dataclass(frozen=True)
class _Places:
    """Where the folder of a coordinator holds what belongs to meetings."""

    folder: Path

    def meeting(self, meeting: str) -> Path:
        return self.folder / "meetings" / f"{meeting}.msgpack"

    def trusted(self, meeting: str) -> Path:
        """Return the file with the authority of a meeting's visitors, which TLS trusts."""
        return self.folder / "tls" / "trusted" / f"{meeting}.pem"

    def federation(self, name: str) -> Path:
        return self.folder / "federations" / name


class Meetings:
    """All meetings at a coordinator. `on_change` is called when the authorities or the federations have changed."""

    def __init__(
        self,
        folder: Path,
        identity: Identity,
        credentials: Credentials,
        *,
        on_change: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._identity, self._credentials = identity, credentials
        self._places, self._on_change, self._clock = _Places(folder), on_change, clock
        self._stored: dict[str, _Stored] = {}
        self._changed: dict[str, asyncio.Event] = {}
        for name in ("meetings", "tls/trusted", "federations"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for path in sorted((folder / "meetings").glob("*.msgpack")):
            try:
                self._stored[path.stem] = msgspec.msgpack.decode(path.read_bytes(), type=_Stored)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise DataError(f"{path}: is not a meeting, or is damaged: {error}; remove it") from error
        self._admission, self._address = "", "localhost:7443"
        self._checking = asyncio.Lock()

    def methods(self) -> dict[str, Method]:
        """Return the methods that visitors can call."""
        return {
            "meeting/open": self._open,
            "meeting/read": self._read,
            "meeting/join": self._join,
            "meeting/wait": self._wait,
            "meeting/close": self._close,
        }

    def connections(self, name: str) -> int:
        """Return how many connections the visitors with this name in their certificates may have; 0 for other names."""
        if self._admission and name == visitor_name(self._admission):
            return _VISITORS
        found = [one for meeting, one in self._stored.items() if visitor_name(meeting) == name]
        return _VISITORS + len(found[0].opening.invitation.parties) if found else 0

    def admit(self, address: str) -> Code:
        """Return the code with which an operator can open meetings here; it stays the same until its file is removed.

        `address` is the one at which other organisations reach this coordinator.
        """
        path = self._places.folder / ADMISSION
        shown = identities_fingerprint(self._identity.public)
        code = Code.fresh("admission", shown, address)
        if path.exists():
            try:
                secret = Code.read(path.read_text(encoding="utf-8"), "admission").secret
            except (ParameterError, UnicodeDecodeError) as error:
                raise ParameterError(f"{path}: {error}. Remove the file to get a new code") from error
            code = Code("admission", secret, shown, address)
        write_text(path, f"{code.text()}\n", mode=PRIVATE)
        keys = MeetingKeys(code.secret)
        self._admission, self._address = keys.id, address
        for old in self._places.trusted("").parent.glob("admission-*.pem"):
            old.unlink()
        write_bytes(self._places.trusted(f"admission-{keys.id}"), keys.visitors().certificate_pem)
        self._on_change()
        return code

    # The methods.

    async def _open(self, caller: Caller, payload: bytes) -> bytes:
        if not self._admission or visitor_name(self._admission) not in caller.names:
            raise _rejection("opening a meeting needs the admission code of this coordinator", RejectionReason.IDENTITY)
        opening = read_payload(payload, Opening, caller, at_most=_MAX_OPENING)
        self._forget_expired()
        async with self._checking:  # one at a time, outside the event loop
            try:
                await in_thread(check_invitation, opening.invitation)
            except ParameterError as error:
                raise _rejection(printable(str(error))) from error
        known = self._stored.get(opening.meeting)
        if known is not None and known.opening == opening:
            return b""
        if known is not None or not _ID.fullmatch(opening.meeting):
            raise _rejection("the name of the meeting is taken or invalid; invite again")
        if not limited_to(opening.authority, visitor_name(opening.meeting)):
            raise _rejection("the authority of the visitors is not limited to this meeting")
        self._check(opening.invitation)
        write_bytes(self._places.trusted(opening.meeting), opening.authority)
        self._store(opening.meeting, _Stored(opening, State(), self._admission))
        self._on_change()
        return b""

    def _check(self, invitation: Invitation) -> None:
        """Refuse an invitation from which no federation can be founded here; its name was checked before."""
        now, name = self._clock(), invitation.federation
        if invitation.coordinator != self._identity.public:
            raise _rejection("the invitation is to another coordinator")
        if not now < invitation.expires <= now + 3600 * (MAX_HOURS + 1):
            raise _rejection(f"--hours: an invitation can be valid for at most {MAX_HOURS} hours; compare the clocks")
        names = {one.opening.invitation.federation: one.admission for one in self._stored.values()}
        if name in names or self._places.federation(name).exists():
            raise _rejection(f"there is a federation or a meeting {name!r} at this coordinator already")
        founded = {
            path.parent.name
            for path in self._places.federation("").glob(f"*/{_FOUNDED_WITH}")
            if path.read_text(encoding="utf-8") == self._admission
        }
        if len(founded | {one for one, admission in names.items() if admission == self._admission}) >= _MAX_FOUNDED:
            raise _rejection(
                f"{_MAX_FOUNDED} federations were founded with this admission code, or are about to be: ask the "
                "operator of the coordinator for a new code"
            )

    async def _read(self, caller: Caller, payload: bytes) -> bytes:
        self._forget_expired()
        meeting = self._admission if visitor_name(self._admission) in caller.names else self._meeting_of(caller)
        if len(payload) > 64:
            raise _rejection("the nonce is too long", RejectionReason.MISBEHAVIOUR)
        stored = self._stored.get(meeting)
        certificate = digest_of(self._credentials.certificate)
        answer = MeetingAnswer(
            coordinator=self._introduction(meeting),
            invitation=None if stored is None else stored.opening.invitation,
            signature=self._identity.sign(channel_statement(payload, certificate)),
        )
        return msgspec.msgpack.encode(answer)

    async def _join(self, caller: Caller, payload: bytes) -> bytes:
        meeting = self._meeting_of(caller)
        one = read_payload(payload, Introduction, caller, at_most=MAX_INTRODUCTION)
        stored = self._stored[meeting]
        state, invitation = stored.state, stored.opening.invitation
        earlier = {other.name: other for other in state.introductions}
        if earlier.get(one.name) == one:
            return msgspec.msgpack.encode(state)
        if one.name in earlier:
            shown = fingerprint(earlier[one.name].identity)
            raise _rejection(
                f"{one.name} has already joined, with the key {shown}. If that was another machine of yours, join from "
                "there. If it was not you, a stranger has the code: ask the inviter for a new invitation"
            )
        if state.signature:
            raise _rejection("the meeting is closed: all have joined, and the code is of no use any more")
        if one.name not in invitation.parties:
            raise _rejection(f"{printable(one.name)!r} is not invited; invited: {listed(list(invitation.parties))}")
        taken = [other.identity for other in state.introductions]
        if one.identity in [*taken, self._identity.public] or not one.is_signed(meeting):
            raise _rejection("the identity key is that of another role, or has not signed the introduction")
        if one.tls_name != tls_name(one.name, meeting) or not limited_to(one.authority, one.tls_name):
            raise _rejection("the TLS authority of the introduction is not limited to the name of its role")
        state = State(introductions=(*state.introductions, one))
        self._store(meeting, _Stored(stored.opening, state, stored.admission))
        return msgspec.msgpack.encode(state)

    async def _wait(self, caller: Caller, payload: bytes) -> bytes:
        """Return the state when it differs from the one that the caller knows, or after a while."""
        meeting = self._meeting_of(caller)
        known = read_payload(payload, Known, caller).introductions
        changed = self._changed.setdefault(meeting, asyncio.Event())
        state = self._stored[meeting].state
        if len(state.introductions) == known and not state.signature:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WAIT):
                    await changed.wait()
        return msgspec.msgpack.encode(self._stored[self._meeting_of(caller)].state)

    async def _close(self, caller: Caller, payload: bytes) -> bytes:
        meeting = self._meeting_of(caller)
        stored = self._stored[meeting]
        invitation, introduction = stored.opening.invitation, self._introduction(meeting)
        state = msgspec.structs.replace(stored.state, signature=payload[:64])
        complete = {one.name for one in state.introductions} == set(invitation.parties)
        if not complete or not is_list_signed(meeting, invitation, introduction, state):
            raise _rejection("the inviter has not signed the list of introductions that this coordinator has")
        if not stored.state.signature:
            self._found(invitation, introduction, state, stored.admission)
            self._store(meeting, _Stored(stored.opening, state, stored.admission))
            self._on_change()
        return msgspec.msgpack.encode(state)

    # State.

    def _introduction(self, meeting: str) -> Introduction:
        name = min(self._credentials.names)
        made = Introduction(
            name=COORDINATOR, identity=self._identity.public, tls_name=name, authority=self._credentials.ca
        )
        return made.signed(meeting, self._identity)

    def _meeting_of(self, caller: Caller) -> str:
        """Return the meeting whose code the caller has; TLS proves it, because its authority is limited to one name."""
        for meeting in self._stored:
            if visitor_name(meeting) in caller.names:
                return meeting
        raise _rejection("the invitation has expired, or was never opened here; ask the inviter for a new one")

    def _store(self, meeting: str, stored: _Stored) -> None:
        write_bytes(self._places.meeting(meeting), msgspec.msgpack.encode(stored))
        self._stored[meeting] = stored
        self._changed.pop(meeting, asyncio.Event()).set()

    def _forget_expired(self) -> None:
        now = self._clock()
        for meeting in [name for name, one in self._stored.items() if one.opening.invitation.expires < now]:
            self._places.trusted(meeting).unlink(missing_ok=True)
            self._places.meeting(meeting).unlink(missing_ok=True)
            del self._stored[meeting]
            self._changed.pop(meeting, asyncio.Event()).set()
            self._on_change()

    def _found(self, invitation: Invitation, coordinator: Introduction, state: State, admission: str) -> None:
        """Write the folder of a new federation; its name appears when it is complete."""
        target = self._places.federation(invitation.federation)
        if target.exists():  # after a crash between this and the file of the meeting
            return
        by_name = {one.name: one for one in state.introductions}
        participants = [*(by_name[name] for name in invitation.parties), coordinator]
        plan = federation_plan(invitation, address=self._address, participants=participants)
        files = RoleFiles("../../identity.pem", "ca.pem", "../../tls/certificate.pem", "../../tls/key.pem")
        made = target.with_name(f".{invitation.federation}.part")
        made.mkdir(exist_ok=True)
        write_text(made / CONFIG, configuration(plan, COORDINATOR, identities(participants), files=files))
        write_bytes(made / "ca.pem", b"".join(one.authority for one in reversed(participants)))
        write_text(made / _FOUNDED_WITH, admission)
        made.rename(target)
        federation = Config.load(target / CONFIG).agreement().federation
        logger.info("federation %s founded; all together: %s", invitation.federation, fingerprint(federation))


def federation_plan(
    invitation: Invitation, *, address: str, participants: list[Introduction] | None = None
) -> FolderPlan:
    """Return the roles and settings of a federation, for the configurations of its roles."""
    strange = invitation.settings.keys() - PARAMETERS.keys() | invitation.settings.keys() & {"aggregator"}
    if strange:
        raise ParameterError(f"settings: an invitation cannot set {listed(sorted(map(printable, strange)))}")
    _, port = split_address(address)
    names = {one.name: one.tls_name for one in participants or ()}
    return FolderPlan.of(
        list(invitation.parties),
        coordinator=COORDINATOR,
        address=address,
        listen=f"0.0.0.0:{port}",
        tls_names=names,
        **invitation.settings,
    )


def check_invitation(invitation: Invitation) -> None:
    """Raise an error for an invitation from which no federation could be founded."""
    check_name(invitation.federation, "federation")
    try:
        plan = federation_plan(invitation, address="localhost:1")
        keys = {name: Identity.generate().public for name in plan.roles}
        document = msgspec.convert(tomllib.loads(configuration(plan, COORDINATOR, keys)), type=Document)
        config = Config(Path(CONFIG), document)
        config.check()
        config.agreement().inputs()  # raises an error for numbers that no message can have
    except ParameterError:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise ParameterError(f"settings: the invitation has a value that no file can have: {error}") from error


def identities(participants: list[Introduction]) -> dict[str, bytes]:
    """Return the identity key of every participant."""
    return {one.name: one.identity for one in participants}


def _rejection(message: str, reason: RejectionReason = RejectionReason.AGREEMENT) -> Rejected:
    return Rejected(reason, message)
