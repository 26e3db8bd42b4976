"""Keys: the identity of a role, the secrets of a session, the keys of a pair of parties, and encryption to a party.

A role signs with an Ed25519 identity key that all other roles pin in their configuration. It is not the TLS key, so a
proxy that ends TLS connections cannot replace the keys of a session. In every session each party draws an X25519 key.
Two parties derive all keys that they share from the X25519 secret and from the session id, which hashes everything
that the roles agreed on. Two sessions, or two parties that received different hellos, therefore share no key.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass
from functools import cached_property

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from kcagc.errors import PeerError

KEY_BYTES = 32
NONCE_BYTES = 32
SIGNATURE_BYTES = 64

Field = bytes | str | int


def framed(*fields: Field) -> bytes:
    """Encode fields so that no two different lists give the same bytes, for hashes, signatures and key derivation.

    The number of fields comes first, then the type, the length and the value of each. An integer takes eight bytes.
    """
    parts = [len(fields).to_bytes(8, "big")]
    for field in fields:
        if isinstance(field, str):
            kind, value = b"s", field.encode()
        elif isinstance(field, int):
            kind, value = b"i", field.to_bytes(8, "big", signed=True)
        else:
            kind, value = b"b", field
        parts += [kind, len(value).to_bytes(8, "big"), value]
    return b"".join(parts)


def digest(*fields: Field) -> bytes:
    """Return the SHA-256 digest of framed fields."""
    return hashlib.sha256(framed(*fields)).digest()


def derive_key(secret: bytes, salt: bytes, *info: Field) -> bytes:
    """Derive a key of 32 bytes with HKDF-SHA256."""
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=framed(*info)).derive(secret)


def random_token() -> bytes:
    """Return 32 random bytes from the operating system: a nonce, or a role's own name of a session."""
    return os.urandom(NONCE_BYTES)


# Identity keys

_PRIME = 2**255 - 19
# The y coordinates of the eight points of small order. Such a public key accepts signatures that its holder never made.
_SMALL_ORDER = {
    0,
    1,
    _PRIME - 1,
    int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"),
    int.from_bytes(bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"),
}


class Identity:
    """A role's long-term Ed25519 key; `public` is the half that the other roles pin."""

    def __init__(self, private: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(private)
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> Identity:
        """Return a new identity from the randomness of the operating system."""
        return cls(Ed25519PrivateKey.generate().private_bytes_raw())

    @property
    def private(self) -> bytes:
        """The secret half."""
        return self._key.private_bytes_raw()

    @classmethod
    def from_pem(cls, pem: bytes) -> Identity:
        """Read an unencrypted Ed25519 key in PEM format; raise `ValueError` for anything else."""
        key = load_pem_private_key(pem, password=None)
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError("it is not an Ed25519 key")
        return cls(key.private_bytes_raw())

    def to_pem(self) -> bytes:
        """Return the private key in PEM format, for a file that only its owner can read."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def sign(self, statement: bytes) -> bytes:
        """Sign a framed statement."""
        return self._key.sign(statement)

    def __repr__(self) -> str:
        return f"Identity({self.public.hex()[:16]}…)"


def is_identity_key(public: bytes) -> bool:
    """Return whether a public key has the right length and is not a point of small order."""
    y = (int.from_bytes(public, "little") & ((1 << 255) - 1)) % _PRIME
    return len(public) == KEY_BYTES and y not in _SMALL_ORDER


def verify(public: bytes, statement: bytes, signature: bytes) -> bool:
    """Return whether the holder of the pinned key signed this statement."""
    if not is_identity_key(public):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, statement)
    except (InvalidSignature, ValueError):  # ValueError: the key or the signature has the wrong length
        return False
    return True


# Session keys


@dataclass(frozen=True, repr=False)
class Secrets:
    """Random values that a role draws once for a session. The runtime stores them; nothing prints them."""

    nonce: bytes
    private: bytes
    shuffling: bytes

    @classmethod
    def fresh(cls) -> Secrets:
        """Draw new secrets from the operating system."""
        return cls(os.urandom(NONCE_BYTES), X25519PrivateKey.generate().private_bytes_raw(), os.urandom(32))

    @cached_property
    def public(self) -> bytes:
        """The public session key."""
        return X25519PrivateKey.from_private_bytes(self.private).public_key().public_bytes_raw()

    def shared_with(self, public: bytes, peer: str) -> bytes:
        """Return the secret shared with the holder of `public`; refuse a key that leads to the zero secret."""
        try:
            return X25519PrivateKey.from_private_bytes(self.private).exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:
            raise PeerError("the session key is not usable: no secret can be shared with it", peer=peer) from error

    def __repr__(self) -> str:
        return "Secrets(…)"


@dataclass(frozen=True)
class Contribution:
    """What one role adds to a session: its nonce and its public session key (empty for a role without data)."""

    name: str
    nonce: bytes
    key: bytes


def session_id(inputs: bytes, contributions: list[Contribution]) -> bytes:
    """Hash the agreed inputs and the contributions of all roles in their agreed order."""
    return digest(
        "kcagc session", inputs, *(field for one in contributions for field in (one.name, one.nonce, one.key))
    )


# What roles sign. A party also signs the digest of its TLS certificate, so that a third party that ends the connection
# and opens another one under a different certificate cannot pass the signature on.


def hello_statement(role: str, inputs: bytes, contribution: Contribution) -> bytes:
    """Return what a role signs in its hello: its role, what it agrees to, its nonce and its key."""
    return framed("kcagc hello", role, contribution.name, inputs, contribution.nonce, contribution.key)


def opening_statement(aggregator: str, nonce: bytes, content: bytes) -> bytes:
    """Return what a party signs when it opens a stream: the aggregator's nonce, and the content of its frame."""
    return framed("kcagc link open", aggregator, nonce, content)


def welcome_statement(aggregator: str, opening: bytes, content: bytes) -> bytes:
    """Return what the aggregator signs when it accepts a stream: what the party signed, and its own frame."""
    return framed("kcagc link welcome", aggregator, opening, content)


class PairKeys:
    """The keys that the parties `me` and `other` share in one session: one for each purpose and label."""

    def __init__(self, secret: bytes, session: bytes, me: str, other: str) -> None:
        self._secret, self._session = secret, session
        self.me, self.other = me, other

    @property
    def sign(self) -> int:
        """+1 for the party whose name comes first, -1 for the other: one adds the mask, the other subtracts it."""
        return 1 if self.me < self.other else -1

    def mask_key(self, group: tuple[str, ...], label: bytes, length: int, transcript: bytes) -> bytes:
        """Return the key of the masks of one vector; it depends on group, label, length and transcript."""
        first, second = sorted((self.me, self.other))
        members = framed(*group)
        return derive_key(self._secret, self._session, "mask", first, second, members, label, length, transcript)

    def encryption_key(self, sender: str, recipient: str, label: bytes) -> bytes:
        """Return the key of one encrypted message from one of the two to the other."""
        return derive_key(self._secret, self._session, "box", sender, recipient, label)

    def fingerprint(self, what: str, data: bytes) -> bytes:
        """Return a digest that only the two can compare, and only within this session."""
        first, second = sorted((self.me, self.other))
        key = derive_key(self._secret, self._session, "fingerprint", first, second, what)
        return hmac.new(key, data, hashlib.sha256).digest()


_ZERO_NONCE = bytes(12)  # each encrypted message has its own key


def encrypt(pair: PairKeys, label: bytes, content: bytes) -> bytes:
    """Encrypt content to the other party with ChaCha20-Poly1305; use a label for one content only."""
    key = pair.encryption_key(pair.me, pair.other, label)
    return ChaCha20Poly1305(key).encrypt(_ZERO_NONCE, content, label)


def decrypt(pair: PairKeys, label: bytes, ciphertext: bytes) -> bytes:
    """Decrypt a message of the other party; raise `PeerError` if that party did not encrypt it in this session."""
    key = pair.encryption_key(pair.other, pair.me, label)
    try:
        return ChaCha20Poly1305(key).decrypt(_ZERO_NONCE, ciphertext, label)
    except InvalidTag as error:
        raise PeerError(
            f"a message to {pair.me} cannot be decrypted with the keys of this session: it was changed on the way, or "
            "the two received different hellos, for example one of an earlier session",
            peer=pair.other,
        ) from error
