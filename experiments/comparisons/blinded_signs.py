"""The comparison of the package in its simplest form: the coordinator sees s·(f·Δ + e) and answers the sign.

No probes, no duplicates, no padding, and the values in their own order: the package adds them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.comparisons.links import COORDINATOR, Links, bits_of, flags_of, stream

OCTAVES = 28


def compare(terms: list[NDArray[np.int64]], links: Links) -> NDArray[np.bool_]:
    """Return where the sums of the parties' terms are positive; no sum is zero."""
    parties, count = [f"party {number}" for number in range(len(terms))], len(terms[0])
    vectors, flips = [], None
    for number, (party, own) in enumerate(zip(parties, terms, strict=True)):
        with links.work(party):
            drawn = stream("factors", words=count)
            octave = drawn % np.uint64(OCTAVES)
            factor = (np.uint64(1) << octave) + ((drawn >> np.uint64(32)) >> (np.uint64(32) - octave))
            flips = stream("flips", words=(count + 63) // 64)
            words = factor * own.view(np.uint64)
            if number == 0:
                offset = stream("offsets", words=count) % (2 * factor - np.uint64(1))
                words += offset - (factor - np.uint64(1))
            flip = flags_of(flips.view(np.uint8), count)
            words = np.where(flip, -words, words)
            for other in range(len(terms)):
                if other != number:
                    mask = stream("pair", *sorted((number, other)), words=count)
                    words = words + mask if number < other else words - mask
        vectors.append(links.send(party, COORDINATOR, words))
    links.end_round()
    with links.work(COORDINATOR):
        positive = bits_of(np.sum(vectors, axis=0, dtype=np.uint64).view(np.int64) > 0)
    for party in parties:
        answer = links.send(COORDINATOR, party, positive)
    links.end_round()
    return flags_of(answer, count) ^ flip
