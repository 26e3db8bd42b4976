"""Ids as hidden points: two parties can compare them, and see no id of the other that they do not have themselves.

An id is hashed to a point of the elliptic curve P-256, and the point is multiplied by a secret number of the party. If
both parties have multiplied a point, the order does not matter: equal ids have become equal points. `openmined-psi`
computes the points. It draws nothing at random here, because the secret number is given: from the same secrets, a role
computes the same bytes again. This is private set intersection (C. Meadows, 1986), for roles that follow the protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kcagc._types import IntArray
from kcagc.errors import ParameterError, PeerError
from kcagc.secagg.keys import derive_key
from kcagc.secagg.masks import keystream

POINT_BYTES = 33  # a compressed point of P-256
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # the number of points of P-256


def psi_library() -> Any:
    """Return openmined-psi, or raise an error that says what to install."""
    try:
        import private_set_intersection.python as library  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ParameterError(
            f"matching ids needs openmined-psi, which cannot be imported here ({error}). Install kcagc[psi] at every "
            "party, for example with: pip install 'kcagc[psi]'"
        ) from error
    return library


class IdCipher:
    """The secret number, and the secret orders of ids, of one party in one session."""

    def __init__(self, secret: bytes, session: bytes) -> None:
        self._library, self._secrets = psi_library(), (secret, session)
        attempt, key = 0, bytes(32)
        while not 0 < int.from_bytes(key, "big") < _ORDER:  # the first one, except once in 2³²
            key, attempt = derive_key(secret, session, "hidden ids", attempt), attempt + 1
        self._client = self._library.client.CreateFromKey(key, True)
        self._server = self._library.server.CreateFromKey(key, True)

    def order(self, other: str, n: int) -> IntArray:
        """Return the secret order in which n ids go to another party: the place in a sorted list would say much."""
        return np.argsort(keystream(derive_key(*self._secrets, "order of ids", other), n), kind="stable")

    def hide(self, ids: Sequence[str]) -> list[bytes]:
        """Return the point of each id, multiplied by the secret number."""
        return list(self._client.CreateRequest(list(ids)).encrypted_elements)

    def hide_again(self, points: Sequence[bytes], other: str) -> list[bytes]:
        """Return points of another party, multiplied by the secret number; refuse what is no point."""
        request = self._library.Request(reveal_intersection=True, encrypted_elements=points)
        try:
            return list(self._server.ProcessRequest(request).encrypted_elements)
        except RuntimeError as error:
            raise PeerError("sent hidden ids that are not points of the curve", peer=other) from error


def join_points(points: Sequence[bytes]) -> bytes:
    """Return points as they travel, one behind the other."""
    return b"".join(points)


def split_points(data: bytes, sender: str) -> list[bytes]:
    """Return the points in a message; refuse parts of points, and a point that is there twice."""
    if len(data) % POINT_BYTES:
        raise PeerError(f"sent {len(data):,} bytes, which are no whole number of hidden ids", peer=sender)
    points = [data[start : start + POINT_BYTES] for start in range(0, len(data), POINT_BYTES)]
    if len(set(points)) < len(points):
        raise PeerError("sent the same hidden id twice", peer=sender)
    return points
