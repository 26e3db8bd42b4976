"""Boxes: what one party says to another through a relay that must not read or change it (ChaCha20-Poly1305)."""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from kcagc.errors import PeerError
from kcagc.secagg.pairs import Pair

_ZERO_NONCE = bytes(12)  # each box has a key of its own


def seal(pair: Pair, label: bytes, content: bytes) -> bytes:
    """Close a box for the other of the pair; a label must be used for one content only."""
    return ChaCha20Poly1305(pair.box_key(pair.me, pair.other, label)).encrypt(_ZERO_NONCE, content, label)


def unseal(pair: Pair, label: bytes, box: bytes) -> bytes:
    """Open a box from the other of the pair, or say that it is not what the other closed in this session."""
    try:
        return ChaCha20Poly1305(pair.box_key(pair.other, pair.me, label)).decrypt(_ZERO_NONCE, box, label)
    except InvalidTag as error:
        raise PeerError(
            f"a message to {pair.me} does not open with the keys of this session: it was changed on the "
            "way, or the two were shown different hellos (one from an earlier session, for example)",
            peer=pair.other,
        ) from error
