"""Protocol 4: each pair of parties shares a stream of words that one adds and the other takes away.

In the sum over the group the streams cancel; any proper part of the group's vectors is uniform noise to whoever lacks
the streams between that part and the rest. A few words that every party sets to zero travel behind the values: if the
parties were told different things, their streams do not cancel and these words do not come back as zero.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from kcagc.errors import ParameterError, PeerError
from kcagc.secagg.fixed_point import Sums, Words, opened
from kcagc.secagg.pairs import Pair

CHECK_WORDS = 2


def keystream(key: bytes, n_words: int) -> Words:
    """Give ChaCha20's words for a key that is used for nothing else (hence a nonce of zeros), low byte first."""
    encryptor = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * n_words)), dtype="<u8").astype(np.uint64, copy=False)


def masked(words: Words, pairs: Iterable[Pair], group: tuple[str, ...], label: bytes, transcript: bytes) -> Words:
    """Add the streams shared with every other masking member of the group (Protocol 4, lines 8 to 13).

    A label must be used for one vector only: two vectors under the same streams give away their difference.
    """
    shared = list(pairs)
    covered = sorted([*{pair.me for pair in shared}, *(pair.other for pair in shared)]) if shared else list(group[:1])
    if covered != sorted(group):
        raise ParameterError("masks are shared with every other member of the group, once each, and with nobody else")
    total = with_check(words)
    for pair in shared:
        stream = keystream(pair.mask_key(group, label, len(words), transcript), len(total))
        if pair.sign > 0:
            total += stream
        else:
            total -= stream
    return total


def with_check(words: Words) -> Words:
    """Give a copy with the words behind it that must be zero in the sum."""
    if words.dtype != np.uint64:
        raise ParameterError(f"masks are for words of 64 bits, not for {words.dtype}")
    return np.concatenate([words, np.zeros(CHECK_WORDS, dtype=np.uint64)])


def summed(vectors: Iterable[Words], n_parties: int) -> Sums:
    """Add up masked vectors, one from each party (Protocol 4, line 14), and see whether all masks are gone."""
    every = list(vectors)
    if len(every) != n_parties or len({vector.shape for vector in every}) != 1 or every[0].size < CHECK_WORDS:
        raise PeerError(f"a sum of {n_parties} parties needs as many vectors of one length")
    total = every[0].copy()
    for vector in every[1:]:
        total += vector
    return unmasked(total, n_parties)


def unmasked(total: Words, n_parties: int) -> Sums:
    """Give the sums in a total of all parties' vectors, if all masks are gone."""
    sums = opened(total[:-CHECK_WORDS], n_parties)
    if sums is None or total[-CHECK_WORDS:].any():
        raise PeerError(
            "transcripts differ: the masks of a sum do not cancel, so its parties were told different things"
        )
    return sums
