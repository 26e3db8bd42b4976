"""What the tests of secure aggregation share: parties with keys that are the same in every run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from hypothesis import strategies as st

from kcagc.secagg.keys import PairKeys, Secrets
from kcagc.secagg.masks import mask

SESSION = hashlib.sha256(b"a session").digest()
LABEL, TRANSCRIPT = b"a label", b"a transcript"

names = st.lists(st.text(max_size=12), min_size=2, max_size=16, unique=True)
words = st.integers(0, 2**64 - 1)


def fixed(*parts: object) -> bytes:
    """32 bytes that depend on the parts and on nothing else."""
    return hashlib.sha256(repr(parts).encode()).digest()


def secrets_of(name: str, seed: object = 0) -> Secrets:
    return Secrets(*(fixed(what, name, seed) for what in ("nonce", "private", "shuffling")))


def ring(values: object) -> np.ndarray:
    """Integers, also negative ones, as a vector modulo 2^64."""
    return np.array(values, dtype=np.int64).reshape(-1).view(np.uint64)


def pairs_of(members: Sequence[str], session: bytes = SESSION) -> dict[str, list[PairKeys]]:
    """For each member, what it shares with every other; secrets are made up, as nothing here tests X25519."""
    return {
        me: [PairKeys(fixed("secret", *sorted((me, other))), session, me, other) for other in members if other != me]
        for me in members
    }


def masked_by_all(
    vectors: dict[str, np.ndarray], label: bytes = LABEL, transcript: bytes = TRANSCRIPT
) -> dict[str, np.ndarray]:
    group = tuple(vectors)
    pairs = pairs_of(group)
    return {name: mask(vector, pairs[name], group, label, transcript) for name, vector in vectors.items()}


def share_of_bits_that_differ(one: np.ndarray | bytes, other: np.ndarray | bytes) -> float:
    first, second = (np.frombuffer(bytes(values), dtype=np.uint8) for values in (one, other))
    return float(np.bitwise_count(first ^ second).sum()) / (8 * len(first))


def flipped(data: bytes, bit: int) -> bytes:
    """The same bytes with one bit changed."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def total_of(vectors: Iterable[np.ndarray]) -> np.ndarray:
    return np.sum(list(vectors), axis=0, dtype=np.uint64)
