"""Long-term identities: an Ed25519 key that signs, and the public half that every other party's configuration pins.

It is not the TLS key, which a proxy may end: whoever relays messages cannot put keys of its own in their place.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

KEY_BYTES = 32
SIGNATURE_BYTES = 64

_PRIME = 2**255 - 19
# The y coordinates of the eight points of small order. A key that is one of them verifies what nobody signed.
_OF_SMALL_ORDER = {
    0,
    1,
    _PRIME - 1,
    int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"),
    int.from_bytes(bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"),
}


class Identity:
    """A party's long-term signing key."""

    def __init__(self, private: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(private)
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> Identity:
        """Make a new identity from the operating system's randomness."""
        return cls(Ed25519PrivateKey.generate().private_bytes_raw())

    @property
    def private(self) -> bytes:
        """The secret half, for the file that only its owner reads."""
        return self._key.private_bytes_raw()

    @classmethod
    def from_pem(cls, pem: bytes) -> Identity:
        """Read an unencrypted Ed25519 key in PEM; anything else is a `ValueError`."""
        key = load_pem_private_key(pem, password=None)
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError("it is no Ed25519 key")
        return cls(key.private_bytes_raw())

    def to_pem(self) -> bytes:
        """Write the key in PEM, as other tools do, for the file that only its owner reads."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def sign(self, statement: bytes) -> bytes:
        """Sign a framed statement."""
        return self._key.sign(statement)

    def __repr__(self) -> str:
        return f"Identity({self.public.hex()[:16]}…)"


def sound(public: bytes) -> bool:
    """Say whether a key has the right length and is none for which anybody can sign."""
    y = (int.from_bytes(public, "little") & ((1 << 255) - 1)) % _PRIME
    return len(public) == KEY_BYTES and y not in _OF_SMALL_ORDER


def signed_by(public: bytes, statement: bytes, signature: bytes) -> bool:
    """Say whether the holder of the pinned key signed this statement."""
    if not sound(public):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, statement)
    except (InvalidSignature, ValueError):  # a key or signature of the wrong length is no signature either
        return False
    return True
