"""A session: fresh secrets of every party, signed statements about them, and the id that stands for all of it.

The session id is a hash of everything the parties agreed on and of a fresh nonce and key from each. Every key of the
session is derived with it, so two sessions, or two parties who were told different things, have no key in common.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from kcagc.errors import PeerError
from kcagc.secagg.framing import digest, framed

NONCE_BYTES = 32
KEY_BYTES = 32


@dataclass(frozen=True, repr=False)
class Secrets:
    """What a role draws once for a session and keeps until it ends; the runtime stores it, nothing prints it."""

    nonce: bytes
    private: bytes
    shuffling: bytes

    @classmethod
    def fresh(cls) -> Secrets:
        """Ask the operating system."""
        return cls(os.urandom(NONCE_BYTES), X25519PrivateKey.generate().private_bytes_raw(), os.urandom(32))

    @cached_property
    def public(self) -> bytes:
        """The key that others may know."""
        return X25519PrivateKey.from_private_bytes(self.private).public_key().public_bytes_raw()

    def shared_with(self, public: bytes, who: str) -> bytes:
        """Give the secret that the holder of `public` computes too; a key that gives the zero secret is refused."""
        try:
            return X25519PrivateKey.from_private_bytes(self.private).exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:
            raise PeerError("the session key is not usable: no secret can be shared with it", peer=who) from error

    def __repr__(self) -> str:
        return "Secrets(…)"


@dataclass(frozen=True)
class Fresh:
    """What one role adds to a session: its nonce and its public session key (empty for a role that shares no data)."""

    name: str
    nonce: bytes
    key: bytes


def statement(role: str, inputs: bytes, fresh: Fresh) -> bytes:
    """Give the bytes that a role signs: who it is, what it agrees to, and its fresh nonce and key."""
    return framed("kcagc hello", role, fresh.name, inputs, fresh.nonce, fresh.key)


def session_id(inputs: bytes, fresh: list[Fresh]) -> bytes:
    """Hash the agreed inputs and, in the roster's order, what every role added."""
    return digest("kcagc session", inputs, *(field for one in fresh for field in (one.name, one.nonce, one.key)))
