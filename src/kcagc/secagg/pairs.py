"""What two parties derive from the secret they share: one key for each purpose and label, never the same twice."""

from __future__ import annotations

import hashlib
import hmac

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from kcagc.secagg.framing import Field, framed


def derived(secret: bytes, salt: bytes, *info: Field) -> bytes:
    """Give a 32-byte key by HKDF-SHA256."""
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=framed(*info)).derive(secret)


class Pair:
    """The keys that `me` and `other` have in common in one session."""

    def __init__(self, secret: bytes, session: bytes, me: str, other: str) -> None:
        self._secret, self._session = secret, session
        self.me, self.other = me, other

    @property
    def sign(self) -> int:
        """+1 for the one whose name comes first, -1 for the other: what one adds, the other takes away."""
        return 1 if self.me < self.other else -1

    def mask_key(self, group: tuple[str, ...], label: bytes, length: int, transcript: bytes) -> bytes:
        """Give the key of the masks of one vector; both must mean the same group, label, length and transcript."""
        first, second = sorted((self.me, self.other))
        members = framed(*group)
        return derived(self._secret, self._session, "mask", first, second, members, label, length, transcript)

    def box_key(self, sender: str, receiver: str, label: bytes) -> bytes:
        """Give the key of one box from one of the two to the other."""
        return derived(self._secret, self._session, "box", sender, receiver, label)

    def fingerprint(self, what: str, data: bytes) -> bytes:
        """Give a digest that only the two can compare: it tells others nothing, and nothing across sessions."""
        first, second = sorted((self.me, self.other))
        key = derived(self._secret, self._session, "fingerprint", first, second, what)
        return hmac.new(key, data, hashlib.sha256).digest()
