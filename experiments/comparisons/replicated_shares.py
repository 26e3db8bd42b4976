"""Comparison on replicated shares of three roles: two parties and the coordinator (Araki et al., CCS 2016).

A bit is the exclusive or of three components; every role holds two of them, and one alone says nothing. The two parties
share the bits of their terms, and the three roles compute the carry into the sign bit with a tree of AND gates. Each
AND costs every role one bit to the next role.
"""

from __future__ import annotations

from itertools import count as counter

import numpy as np
from numpy.typing import NDArray

from experiments.comparisons.links import COORDINATOR, Links, stream
from kcagc.secagg.masks import RingVector

BITS = 32
Planes = NDArray[np.uint64]  # one line for each bit of the numbers, one bit for each number
Shared = list[Planes]  # the three components; role i holds components i - 1 and i


class Gates:
    """AND gates of the three roles."""

    def __init__(self, roles: tuple[str, str, str], links: Links) -> None:
        self.roles, self.links, self._number = roles, links, counter()

    def both(self, x: Shared, y: Shared) -> Shared:
        """Return the shares of x AND y, for all planes in one round."""
        found, number, shape = [], next(self._number), x[0].shape
        for role, name in enumerate(self.roles):
            before = (role - 1) % 3
            with self.links.work(name):
                zero = [stream("zero", number, key, words=x[0].size).reshape(shape) for key in (role, before)]
                own = x[role] & (y[role] ^ y[before])
                own ^= x[before] & y[role]
                found.append(own ^ zero[0] ^ zero[1])
            self.links.send(name, self.roles[(role + 1) % 3], found[-1])
        self.links.end_round()
        return found


def _planes(words: NDArray[np.uint32]) -> Planes:
    """Return the bits of the words, lowest first, as one line each, padded to whole words of 64 bits."""
    padded = np.zeros(-(-len(words) // 64) * 64, dtype="<u4")
    padded[: len(words)] = words
    bits = np.unpackbits(padded.view(np.uint8).reshape(-1, 4), axis=1, bitorder="little").T
    return np.ascontiguousarray(np.packbits(bits, axis=1, bitorder="little")).view(np.uint64)


def compare(terms: list[NDArray[np.int64]], links: Links) -> NDArray[np.bool_]:
    """Return where the sums of the parties' terms are positive; no sum is zero, and all fit into 32 bits."""
    parties, count = [f"party {number}" for number in range(len(terms))], len(terms[0])
    own = [term.astype(np.uint32) for term in terms]
    for number in range(2, len(terms)):  # a further party splits its term between the first two
        with links.work(parties[number]):
            part = stream("part", number, words=(count + 1) // 2).view(np.uint32)[:count]
            rest = own[number] - part  # the second party knows `part` from a common key
        own[0], own[1] = own[0] + links.send(parties[number], parties[0], rest), own[1] + part
    links.end_round()
    shares = []
    for number in (0, 1):  # one component is zero, one comes from a common key of the two parties, one travels
        with links.work(parties[number]):
            planes = _planes(own[number])
            common = stream("input", number, words=planes.size).reshape(planes.shape)
            hidden = planes ^ common
        nothing = np.zeros_like(planes)
        links.send(parties[number], COORDINATOR, hidden)
        shares.append([common, nothing, hidden] if number == 0 else [common, hidden, nothing])
    links.end_round()
    gates = Gates((parties[0], parties[1], COORDINATOR), links)
    differ = [first ^ second for first, second in zip(*shares, strict=True)]
    carry = gates.both(*([plane[: BITS - 1] for plane in share] for share in shares))
    chain = [plane[: BITS - 1] for plane in differ]
    while len(carry[0]) > 1:  # neighbours become one: carry = upper carry, or lower carry where the upper chain holds
        even = len(carry[0]) // 2 * 2
        low, high = [p[0:even:2] for p in carry], [p[1:even:2] for p in carry]
        chain_low, chain_high = [p[0:even:2] for p in chain], [p[1:even:2] for p in chain]
        # Nobody asks whether the lowest chain holds: no carry comes from below it.
        wanted = [np.concatenate([c, d[1:]]) for c, d in zip(low, chain_low, strict=True)]
        found = gates.both([np.concatenate([d, d[1:]]) for d in chain_high], wanted)
        half = even // 2
        rest = [(c[even:], d[even:]) for c, d in zip(carry, chain, strict=True)]
        carry = [np.concatenate([h ^ f[:half], r]) for h, f, (r, _) in zip(high, found, rest, strict=True)]
        chain = [np.concatenate([f[:1] * 0, f[half:], r]) for f, (_, r) in zip(found, rest, strict=True)]
    sign: list[RingVector] = [d[BITS - 1] ^ c[0] for d, c in zip(differ, carry, strict=True)]
    links.send(COORDINATOR, parties[0], sign[1])
    links.send(COORDINATOR, parties[1], sign[2])
    for other in parties[2:]:  # from two roles together, so that each knows too little
        links.send(COORDINATOR, other, sign[1] ^ sign[2])
        links.send(parties[0], other, sign[0])
    links.end_round()
    opened = sign[0] ^ sign[1] ^ sign[2]
    return ~np.unpackbits(opened.view(np.uint8), bitorder="little", count=count).astype(bool)
