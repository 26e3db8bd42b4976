"""The meeting that founds a federation: what its roles send, and the checks that find a coordinator that changes it.

An invitation code has a secret that the coordinator does not know. All keys of a meeting are derived from this secret.
With one of them, the roles authenticate their introductions: the coordinator can pass these on, but cannot make or
change one. The inviter signs the complete list. This module does no I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

from kcagc.errors import ParameterError, PeerError
from kcagc.federation.codes import Code, fingerprint, identities_fingerprint
from kcagc.net.trial_authority import Authority, authority_for, limited_to
from kcagc.secagg.keys import Identity, derive_key, framed, is_identity_key, verify
from kcagc.secagg.masks import MAX_PARTIES
from kcagc.text import listed, printable

COORDINATOR = "coordinator"  # its name in every federation
MAX_INTRODUCTION = 8192  # bytes
_SALT = b"kcagc meeting"
_HOST = re.compile(r"[A-Za-z0-9*_.-]{1,64}")  # of the coordinator, whose certificate can be one of its organisation
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of the group P-256

_Name = Annotated[str, msgspec.Meta(max_length=32)]
_TlsName = Annotated[str, msgspec.Meta(max_length=64)]
_Key = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
_Signature = Annotated[bytes, msgspec.Meta(max_length=64)]
_Pem = Annotated[bytes, msgspec.Meta(max_length=4096)]


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that roles send in a meeting."""

    def encoded(self, **without: bytes) -> bytes:
        """Return the bytes that are signed or authenticated, with these fields replaced."""
        return msgspec.msgpack.encode(msgspec.structs.replace(self, **without))


class Introduction(_Record, frozen=True):
    """What a role introduces itself with.

    `authority` issues its TLS certificates. `signature` is made with its identity key, `mac` with the key of the
    meeting; the coordinator does not have that key, and leaves `mac` empty.
    """

    name: _Name
    identity: _Key
    tls_name: _TlsName
    authority: _Pem
    signature: _Signature = b""
    mac: _Signature = b""

    def statement(self, meeting: str) -> bytes:
        """Return what the role signs."""
        return framed("kcagc introduction", meeting, self.encoded(signature=b"", mac=b""))

    def signed(self, meeting: str, identity: Identity) -> Introduction:
        """Return this introduction with the signature of its role."""
        return msgspec.structs.replace(self, signature=identity.sign(self.statement(meeting)))

    def is_signed(self, meeting: str) -> bool:
        """Return whether the holder of its identity key has signed it for this meeting."""
        return is_identity_key(self.identity) and verify(self.identity, self.statement(meeting), self.signature)


class Invitation(_Record, frozen=True):
    """What the inviter invites to; `expires` is in seconds since 1970."""

    federation: _Name
    parties: Annotated[tuple[_Name, ...], msgspec.Meta(min_length=2, max_length=MAX_PARTIES)]
    settings: Annotated[dict[str, Any], msgspec.Meta(max_length=64)]
    expires: int
    coordinator: _Key
    inviter: _Key
    mac: _Signature = b""


class Opening(_Record, frozen=True):
    """The request of the inviter to open a meeting; `authority` is that of its visitors."""

    meeting: Annotated[str, msgspec.Meta(max_length=16)]
    authority: _Pem
    invitation: Invitation


class MeetingAnswer(_Record, frozen=True):
    """The coordinator's answer to a visitor: its introduction, the invitation if there is one, and a signature.

    The signature covers the visitor's nonce and the TLS certificate of the connection.
    """

    coordinator: Introduction
    invitation: Invitation | None
    signature: _Signature


class State(_Record, frozen=True):
    """The introductions that the coordinator has, and the inviter's signature once the list is complete."""

    introductions: Annotated[tuple[Introduction, ...], msgspec.Meta(max_length=MAX_PARTIES)] = ()
    signature: _Signature = b""


class Known(_Record, frozen=True):
    """The request of a role that waits for a change: the number of introductions that it knows."""

    introductions: Annotated[int, msgspec.Meta(ge=0, le=MAX_PARTIES)]


class MeetingKeys:
    """The keys of a meeting, derived from the secret of its code; `id` is its public name."""

    def __init__(self, secret: bytes) -> None:
        self.id = derive_key(secret, _SALT, "id")[:5].hex()
        self._mac = derive_key(secret, _SALT, "introductions")
        scalar = int.from_bytes(derive_key(secret, _SALT, "visitors"), "big") % (_ORDER - 1) + 1
        self._visitors = ec.derive_private_key(scalar, ec.SECP256R1())

    def visitors(self) -> Authority:
        """Return the authority that issues the certificates with which the holders of the code connect."""
        return authority_for(visitor_name(self.id), self._visitors)

    def mac(self, record: Introduction | Invitation) -> bytes:
        """Return the authentication code of a record."""
        return self._hmac(record).finalize()

    def made(self, record: Introduction | Invitation) -> bool:
        """Return whether a holder of the code has made this record."""
        try:
            self._hmac(record).verify(record.mac)
        except InvalidSignature:
            return False
        return True

    def _hmac(self, record: Introduction | Invitation) -> HMAC:
        made = HMAC(self._mac, SHA256())
        made.update(framed(f"kcagc {type(record).__name__}", self.id, record.encoded(mac=b"")))
        return made


def visitor_name(meeting: str) -> str:
    """Return the DNS name in the certificates of a meeting's visitors."""
    return f"visitor.{meeting}.kcagc.internal"


def tls_name(name: str, meeting: str) -> str:
    """Return the DNS name in the certificate of a role; no other federation of any coordinator has the same."""
    return f"{name}.{meeting}.kcagc.internal"


def channel_statement(nonce: bytes, certificate: bytes) -> bytes:
    """Return what the coordinator signs to prove that the connection with this certificate ends at it."""
    return framed("kcagc meeting channel", nonce, certificate)


def check_coordinator(answer: MeetingAnswer, nonce: bytes, certificate: bytes) -> None:
    """Refuse an answer that its coordinator did not make for this connection."""
    if not verify(answer.coordinator.identity, channel_statement(nonce, certificate), answer.signature):
        raise PeerError(
            "its identity key has not signed the TLS certificate of this connection: a device in between decrypts the "
            "connection. Nothing was sent to it",
            peer=COORDINATOR,
        )


@dataclass
class Meeting:
    """A meeting as one of its roles sees it; the checks raise `PeerError` with the culprit."""

    code: Code
    answer: MeetingAnswer
    now: float
    keys: MeetingKeys = field(init=False)
    _known: dict[str, Introduction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.keys = MeetingKeys(self.code.secret)
        invitation = self.answer.invitation
        if invitation is None:
            raise _at_coordinator("it has no invitation for this code")
        self.invitation: Invitation = invitation
        self.coordinator = self.answer.coordinator
        shown = identities_fingerprint(self.coordinator.identity, invitation.inviter)
        if shown != self.code.fingerprint or invitation.coordinator != self.coordinator.identity:
            raise _at_coordinator(
                "the identity keys of the coordinator and the inviter are not those of the code. Its own key has the "
                f"fingerprint {fingerprint(self.coordinator.identity)}. It has replaced a key, another server answers "
                "at its address, or it has made a new key since the invitation: ask its operator, and make a new "
                "invitation"
            )
        if not self.keys.made(invitation):
            raise _at_coordinator("it has changed the invitation: the code does not authenticate it")
        if self.code.federation != invitation.federation:
            raise _at_coordinator(f"the invitation is to {invitation.federation!r}, the code to another federation")
        if not self.coordinator.is_signed(self.keys.id) or self.coordinator.name != COORDINATOR:
            raise _at_coordinator("its introduction is not signed by its identity key for this meeting")
        if not _HOST.fullmatch(self.coordinator.tls_name):
            raise _at_coordinator(f"the name in its certificate is no host name: {self.coordinator.tls_name!r}")
        if self.now > invitation.expires:
            raise ParameterError("code: the invitation has expired; ask the inviter for a new one (kcagc invite)")

    def require_invited(self, name: str) -> None:
        """Raise an error for a name that the invitation does not have."""
        if name not in self.invitation.parties:
            invited = listed([repr(party) for party in self.invitation.parties])
            raise ParameterError(f"--as: {name!r} is not invited; the invitation names {invited}")

    def introduce(self, name: str, identity: Identity, authority: bytes) -> Introduction:
        """Return the introduction of this role."""
        self.require_invited(name)
        made = Introduction(
            name=name, identity=identity.public, tls_name=tls_name(name, self.keys.id), authority=authority
        ).signed(self.keys.id, identity)
        self._known[name] = msgspec.structs.replace(made, mac=self.keys.mac(made))
        return self._known[name]

    def check(self, state: State) -> list[str]:
        """Check every introduction of a state; return the names of the parties that have not introduced themselves."""
        found = {one.name: one for one in state.introductions}
        if len(found) < len(state.introductions):
            raise _at_coordinator("it shows two introductions under one name")
        for name, one in found.items():
            self._check(name, one)
        for name, before in self._known.items():
            if found.get(name) != before:
                done = "replaced" if name in found else "dropped"
                raise _at_coordinator(f"it has {done} the introduction of {name}. Do not take part")
        self._known |= found
        keys = [one.identity for one in (*state.introductions, self.coordinator)]
        for one in state.introductions:
            if keys.count(one.identity) > 1:
                raise PeerError("it uses the identity key of another role", peer=one.name)
        absent = [name for name in self.invitation.parties if name not in found]
        if not absent and self.invitation.inviter not in keys:
            raise ParameterError(
                "all parties have joined, but none in the folder in which `kcagc invite` was run, so that no party can "
                "sign the list. Invite again, and join in the same folder"
            )
        return absent

    def _check(self, name: str, one: Introduction) -> None:
        if name not in self.invitation.parties:
            raise _at_coordinator(f"it has added {printable(name)!r}, which is not invited. Do not take part")
        if not self.keys.made(one):
            raise _at_coordinator(
                f"it shows an introduction of {name} that was not made with the code: it has replaced or changed it. "
                "Do not take part"
            )
        if not one.is_signed(self.keys.id):
            raise PeerError("its introduction is not signed by its identity key", peer=name)
        if one.tls_name != tls_name(name, self.keys.id) or not limited_to(one.authority, one.tls_name):
            raise PeerError("its TLS authority may issue certificates for other names than its own", peer=name)

    def sign(self, state: State, inviter: Identity) -> bytes:
        """Check a complete list, and return the inviter's signature of it."""
        self._check_complete(state)
        return inviter.sign(list_statement(self.keys.id, self.invitation, self.coordinator, state))

    def participants(self, state: State) -> list[Introduction]:
        """Check a final list, and return its introductions in the order of the invitation, the coordinator last."""
        self._check_complete(state)
        if not is_list_signed(self.keys.id, self.invitation, self.coordinator, state):
            raise _at_coordinator("the inviter has signed another list of participants than the one it shows")
        return [*(self._known[name] for name in self.invitation.parties), self.coordinator]

    def _check_complete(self, state: State) -> None:
        if absent := self.check(state):
            raise _at_coordinator(f"it has dropped {listed(absent)} from the final list. Do not take part")


def list_statement(meeting: str, invitation: Invitation, coordinator: Introduction, state: State) -> bytes:
    """Return what the inviter signs: the invitation, and all introductions in the order of their names."""
    introductions = sorted(state.introductions, key=lambda one: one.name)
    records = (invitation, coordinator, *introductions)
    return framed("kcagc participants", meeting, *(one.encoded() for one in records))


def is_list_signed(meeting: str, invitation: Invitation, coordinator: Introduction, state: State) -> bool:
    """Return whether the inviter has signed this list."""
    return verify(invitation.inviter, list_statement(meeting, invitation, coordinator, state), state.signature)


def _at_coordinator(message: str) -> PeerError:
    return PeerError(message, peer=COORDINATOR)
