"""Long-term identities: an Ed25519 key that signs, and the public half that every other party's configuration pins.

It is not the TLS key, which a proxy may end: whoever relays messages cannot put keys of its own in their place.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KEY_BYTES = 32
SIGNATURE_BYTES = 64


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

    def sign(self, statement: bytes) -> bytes:
        """Sign a framed statement."""
        return self._key.sign(statement)

    def __repr__(self) -> str:
        return f"Identity({self.public.hex()[:16]}…)"


def signed_by(public: bytes, statement: bytes, signature: bytes) -> bool:
    """Say whether the holder of the pinned key signed this statement."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, statement)
    except (InvalidSignature, ValueError):  # a key or signature of the wrong length is no signature either
        return False
    return True
