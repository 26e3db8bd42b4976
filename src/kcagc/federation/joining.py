"""A party's side of a meeting: it opens an invitation, or joins with its code and writes its folder.

A visitor connects with a certificate that it makes itself, under an authority derived from the code. The coordinator's
certificate is unknown before the first request; the answer to it has a signature of that certificate with the key whose
fingerprint is in the code.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kcagc.data.files import PRIVATE, write_bytes, write_text
from kcagc.deploy.config import Config
from kcagc.deploy.folders import CONFIG, RoleFiles, configuration
from kcagc.errors import ParameterError, PeerError, PeerTimeoutError, RejectedError
from kcagc.federation.codes import Code, fingerprint, identities_fingerprint
from kcagc.federation.meeting import (
    COORDINATOR,
    Introduction,
    Invitation,
    Known,
    Meeting,
    MeetingAnswer,
    MeetingKeys,
    Opening,
    State,
    check_coordinator,
    tls_name,
    visitor_name,
)
from kcagc.federation.meetings import MAX_HOURS, check_invitation, federation_plan, identities
from kcagc.net.frames import ConnectionLost, Rejected
from kcagc.net.grpc_client import request
from kcagc.net.probe import server_certificate
from kcagc.net.tls import Credentials, digest_of, names_in
from kcagc.net.trial_authority import AUTHORITY_DAYS, authority_for
from kcagc.secagg.keys import KEY_BYTES, Identity, random_token
from kcagc.text import printable

T = TypeVar("T")
_FILES = RoleFiles()
_OWN_AUTHORITY = "own-authority.pem"
_PAUSE = 1.0  # seconds before a lost connection is opened again
_PATIENCE = 300.0  # seconds without a connection after which a waiting role gives up


@dataclass(frozen=True)
class Joined:
    """The end of a meeting for a role: its configuration, and the pinned identity keys of all participants."""

    config: Path
    participants: dict[str, bytes]
    federation: bytes

    @property
    def fingerprint(self) -> str:
        """The fingerprint of all names and keys together: equal at all roles, so one comparison is enough."""
        return fingerprint(self.federation)


async def invite(
    admission: Code,
    federation: str,
    parties: list[str],
    folder: Path,
    *,
    settings: dict[str, Any],
    hours: float,
) -> tuple[Code, Invitation]:
    """Open a meeting at the coordinator of an admission code; return the code for all parties, and the invitation."""
    if not 0 < hours <= MAX_HOURS:
        raise ParameterError(f"--hours: must be above 0 and at most {MAX_HOURS}")
    draft = Invitation(
        federation=federation,
        parties=tuple(parties),
        settings=settings,
        expires=int(time.time() + hours * 3600),
        coordinator=bytes(KEY_BYTES),
        inviter=bytes(KEY_BYTES),
    )
    check_invitation(draft)
    _require_no_config(folder)
    visit = await _Visit.begin(admission)
    coordinator = visit.answer.coordinator.identity
    if identities_fingerprint(coordinator) != admission.fingerprint:
        raise PeerError(
            f"its identity key, with the fingerprint {fingerprint(coordinator)}, is not the one of the admission code: "
            "another server answers at this address, or the coordinator has a new key: ask its operator for a new code",
            peer=COORDINATOR,
        )
    identity = own_identity(folder)
    invitation = msgspec.structs.replace(draft, coordinator=coordinator, inviter=identity.public)
    shown = identities_fingerprint(coordinator, identity.public)
    code = Code.fresh("invitation", shown, admission.address, federation)
    keys = MeetingKeys(code.secret)
    invitation = msgspec.structs.replace(invitation, mac=keys.mac(invitation))
    opening = Opening(meeting=keys.id, authority=keys.visitors().certificate_pem, invitation=invitation)
    await visit.call("meeting/open", msgspec.msgpack.encode(opening))
    return code, invitation


async def join(
    code: Code,
    name: str,
    folder: Path,
    *,
    on_waiting: Callable[[list[str]], None] = lambda _: None,
) -> Joined:
    """Join a federation: make the keys of this role, exchange introductions, and write its folder.

    The same call in the same folder goes on after an interruption.
    """
    _require_no_config(folder)
    visit = await _Visit.begin(code)
    meeting = Meeting(code, visit.answer, time.time())
    check_invitation(meeting.invitation)
    meeting.require_invited(name)
    identity = own_identity(folder)
    introduction = meeting.introduce(name, identity, _own_authority(folder, tls_name(name, meeting.keys.id)))
    state = await visit.state("meeting/join", msgspec.msgpack.encode(introduction))
    is_inviter = identity.public == meeting.invitation.inviter
    known = -1
    while not state.signature:
        absent = meeting.check(state)
        if absent or known == len(state.introductions):
            on_waiting(absent or ["the inviter"])
        known = len(state.introductions)
        if time.time() > meeting.invitation.expires:
            raise PeerTimeoutError("the invitation has expired before all have joined", peer=", ".join(absent))
        if not absent and is_inviter:
            state = await visit.state("meeting/close", meeting.sign(state, identity))
        else:
            state = await visit.state("meeting/wait", msgspec.msgpack.encode(Known(introductions=known)))
    return _write(folder, name, meeting, meeting.participants(state))


@dataclass
class _Visit:
    """The connection of a visitor to the coordinator."""

    code: Code
    credentials: Credentials
    server_name: str
    answer: MeetingAnswer

    @classmethod
    async def begin(cls, code: Code) -> _Visit:
        """Connect, and read the coordinator's introduction; refuse it if it does not belong to this connection."""
        keys = MeetingKeys(code.secret)
        name = visitor_name(keys.id)
        authority = keys.visitors()
        certificate, key = authority.issue(name, client=True)
        try:
            server = await asyncio.to_thread(server_certificate, code.address)
        except ConnectionLost as error:
            raise PeerTimeoutError(f"{error}: check that it runs, and the network", peer=COORDINATOR) from error
        server_name = min(names_in(server), default="")
        credentials = Credentials(
            *(Path(), Path(), Path()),
            # The server's own certificate is trusted for now, instead of an authority.
            ca=server,
            certificate=certificate,
            key=key,
            names=frozenset({name}),
            expires=authority.certificate.not_valid_after_utc,
        )
        nonce = random_token()
        payload = await _call(code, credentials, server_name, "meeting/read", nonce)
        answer = _read(payload, MeetingAnswer)
        check_coordinator(answer, nonce, digest_of(server))
        return cls(code, credentials, server_name, answer)

    async def call(self, method: str, payload: bytes) -> bytes:
        """Send a request; a coordinator that stays unreachable is an error."""
        return await _call(self.code, self.credentials, self.server_name, method, payload)

    async def state(self, method: str, payload: bytes) -> State:
        """Send a request whose answer is a state; repeat it if the connection is lost."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                return _read(await self.call(method, payload), State)
            except PeerTimeoutError:
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(_PAUSE)


async def _call(code: Code, credentials: Credentials, server_name: str, method: str, payload: bytes) -> bytes:
    try:
        return await request(code.address, server_name, credentials, method, payload, peer=COORDINATOR)
    except Rejected as error:
        raise RejectedError(printable(error.message), peer=COORDINATOR) from error
    except ConnectionLost as error:
        raise PeerTimeoutError(
            f"{code.address}: the server does not answer ({printable(str(error))}): it does not know this code any "
            "more because the invitation has expired, or the network was interrupted. Run the same command again, or "
            "ask for a new code",
            peer=COORDINATOR,
        ) from error


def _read(payload: bytes, kind: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(payload, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(f"sent an answer that cannot be read: {printable(str(error))}", peer=COORDINATOR) from error


# The folder of a party.


def own_identity(folder: Path) -> Identity:
    """Return the identity key in the folder of a role; make folder and key if they are absent."""
    path = folder / _FILES.identity
    if path.exists():
        try:
            return Identity.from_pem(path.read_bytes())
        except (ValueError, TypeError) as error:
            raise ParameterError(f"{path}: cannot be used as an identity key: {error}") from error
    _make_private(folder)
    made = Identity.generate()
    write_bytes(path, made.to_pem(), mode=PRIVATE)
    return made


def _own_authority(folder: Path, name: str) -> bytes:
    """Return the authority of this role's certificate; make it, with the certificate and its key, if it is absent.

    The certificate is written last: if it is for this meeting, all is there.
    """
    authority_file, certificate_file, key_file = (
        folder / one for one in (_OWN_AUTHORITY, _FILES.certificate, _FILES.key)
    )
    if not authority_file.exists():
        for path in (certificate_file, key_file):
            if path.exists():
                raise ParameterError(f"{path}: exists already; a key is never overwritten: join in an empty folder")
    elif certificate_file.exists() and names_in(certificate_file.read_bytes()) == {name}:
        return authority_file.read_bytes()
    authority = authority_for(name)
    # A day less, because the end of the authority was computed before.
    certificate, key = authority.issue(name, client=True, days=AUTHORITY_DAYS - 1)
    write_bytes(authority_file, authority.certificate_pem)
    write_bytes(key_file, key, mode=PRIVATE)
    write_bytes(certificate_file, certificate)
    return authority.certificate_pem


def _make_private(folder: Path) -> None:
    private = (folder / _FILES.identity).parent
    private.mkdir(parents=True, exist_ok=True)
    private.chmod(0o700)


def _require_no_config(folder: Path) -> None:
    if (folder / CONFIG).exists():
        raise ParameterError(f"{folder / CONFIG}: exists already; a role of each federation needs its own folder")


def _write(folder: Path, name: str, meeting: Meeting, participants: list[Introduction]) -> Joined:
    """Write the rest of the folder; the configuration comes last, because its presence means that all is done."""
    plan = federation_plan(meeting.invitation, address=meeting.code.address, participants=participants)
    keys = identities(participants)
    own = (folder / _OWN_AUTHORITY).read_bytes()
    write_bytes(folder / _FILES.ca, meeting.coordinator.authority + own)
    (folder / "data").mkdir(exist_ok=True)
    write_text(folder / CONFIG, configuration(plan, name, keys))
    return Joined(folder / CONFIG, keys, Config.load(folder / CONFIG).agreement().federation)


def expiry(invitation: Invitation) -> str:
    """Return the end of an invitation for people, in local time."""
    return f"{datetime.fromtimestamp(invitation.expires, UTC).astimezone():%Y-%m-%d %H:%M}"
