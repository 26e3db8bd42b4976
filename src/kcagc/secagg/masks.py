"""Masked sums (Protocol 4): numbers as integers modulo 2^64, masks that cancel in the sum, and the groups that add.

Each pair of parties shares a stream of random integers that one party adds and the other subtracts. The streams cancel
in the sum over the group. A vector, or any incomplete sum, is uniform noise to a role without the streams.

The scale and the bounds of the numbers are constants of the protocol: a scale chosen from data would disclose something
about the data. A squared distance between rows of unit length is at most 4; the other bound leaves room for other rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from kcagc._types import FloatArray, IntArray
from kcagc.errors import DataError, ParameterError, PeerError, PolicyError
from kcagc.secagg.keys import PairKeys

RingVector = NDArray[np.uint64]  # integers modulo 2^64
Sums = NDArray[np.int64]

FRACTION_BITS = 24  # for rows of length one
MAX_DISTANCE = 4.0  # of rows of length one
LONG_FRACTION_BITS, MAX_LONG_DISTANCE = 21, 32.0  # for other rows
MAX_ENCODED = (1 << 26) + (1 << 6)  # 4·2^24 = 32·2^21, and rounding; leaves 25 octaves for factors (see `blinding`)
MAX_PARTIES = 16
CHECK_WORDS = 2  # zeros at the end of each vector; if the masks do not cancel, their sum is not zero
TWO_PARTY_SUM = "two-party-sum"
_ROUNDING = 1 + 2.0**-20  # rows of unit length may be a little longer


# Numbers


def encode(values: FloatArray, bound: float, fraction_bits: int) -> IntArray:
    """Round values to integers; raise `DataError` for a value beyond the bound, before anything is sent."""
    # The maximum of an array with NaN is NaN, and comparisons with NaN are false.
    if values.size and not (float(values.max()) <= bound * _ROUNDING and float(values.min()) >= 0.0):
        raise DataError(
            f"a squared distance is above {bound:g}, the bound of the protocol; "
            'use scaling "unit", or scaling "US" with a larger unit (the same at all parties)'
        )
    scaled = np.ldexp(values, fraction_bits)
    return np.rint(scaled, out=scaled).astype(np.int64)


# Masks


def keystream(key: bytes, length: int) -> RingVector:
    """Return integers of a ChaCha20 keystream, low byte first; use the key for nothing else, as the nonce is zero."""
    encryptor = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * length)), dtype="<u8").astype(np.uint64, copy=False)


def mask(
    vector: RingVector, pairs: Iterable[PairKeys], group: tuple[str, ...], label: bytes, transcript: bytes
) -> RingVector:
    """Add the streams shared with every other masking member of the group (Protocol 4, lines 8 to 13).

    Use a label for one vector only: two vectors under the same streams disclose their difference.
    """
    shared = list(pairs)
    covered = sorted([*{pair.me for pair in shared}, *(pair.other for pair in shared)]) if shared else list(group[:1])
    if covered != sorted(group):
        raise ParameterError("masks need the keys of each other member of the group exactly once, and no other keys")
    total = with_check_words(vector)
    for pair in shared:
        stream = keystream(pair.mask_key(group, label, len(vector), transcript), len(total))
        if pair.sign > 0:
            total += stream
        else:
            total -= stream
    return total


def with_check_words(vector: RingVector) -> RingVector:
    """Return a copy of a vector that ends with the check words."""
    if vector.dtype != np.uint64:
        raise ParameterError(f"masks are for unsigned integers of 64 bits, not for {vector.dtype}")
    return np.concatenate([vector, np.zeros(CHECK_WORDS, dtype=np.uint64)])


def open_sum(total: RingVector, n_parties: int) -> Sums:
    """Return the sums in the total of all masked vectors (Protocol 4, line 14), if all masks have cancelled."""
    if not 1 <= n_parties <= MAX_PARTIES:
        raise ParameterError(f"a sum of {n_parties} parties: there must be 1 to {MAX_PARTIES}")
    if total[-CHECK_WORDS:].any():
        raise PeerError(
            "transcripts differ: the masks of a sum do not cancel, so its parties received different messages"
        )
    return total[:-CHECK_WORDS].view(np.int64)


# Groups


@dataclass(frozen=True)
class Group:
    """The parties whose vectors are added, in the agreed order, and the aggregator, which learns the sum.

    Every role computes the groups from the signed participants and parameters; no message defines a group. `layer` and
    `index` give the position of a merge in the tree, both counted from 1. The group of all parties has index 0.
    """

    members: tuple[str, ...]
    aggregator: str
    layer: int = 1
    index: int = 0

    def __post_init__(self) -> None:
        if len(self.members) < 2 or len(set(self.members)) < len(self.members):
            raise ParameterError(f"group {self.name}: a sum needs at least two different parties, not {self.members}")

    @property
    def name(self) -> str:
        """The group in messages, mask labels and reports: "all", or layer and index as in "2.1"."""
        return f"{self.layer}.{self.index}" if self.index else "all"

    @property
    def title(self) -> str:
        """The name of the group for people."""
        return "joint clustering" if not self.index else f"joint clustering {self.name}"

    @property
    def maskers(self) -> tuple[str, ...]:
        """The members that send masked vectors: all but the aggregator (Protocol 4, line 2)."""
        return tuple(member for member in self.members if member != self.aggregator)

    @property
    def aggregator_is_member(self) -> bool:
        """Whether the aggregator is a member, and therefore knows which node or cell each sum belongs to."""
        return self.aggregator in self.members

    @property
    def exposes_one_party(self) -> bool:
        """Whether the aggregator knows all terms of a sum except one, and therefore learns that one."""
        return len(self.maskers) < 2

    def check(self, accept: Collection[str]) -> None:
        """Raise `PolicyError` if a sum discloses the values of one party and the operator has not accepted that."""
        if self.exposes_one_party and TWO_PARTY_SUM not in set(accept):
            raise PolicyError(
                f"group {self.name}: {self.aggregator} would learn the values of {', '.join(self.maskers)} by "
                f'subtracting its own values from the sum; accept "{TWO_PARTY_SUM}", or use a coordinator'
            )
