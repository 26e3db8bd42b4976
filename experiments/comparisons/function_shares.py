"""Comparison by function secret sharing: the coordinator deals keys, and two parties evaluate them.

The coordinator draws r and deals two keys of the function x ↦ [x < r] (a distributed comparison function: Boyle, Gilboa
and Ishai, CCS 2016; Boyle et al., EUROCRYPT 2021). The parties open Δ + r among themselves, encrypted past it.
Each evaluates its key at the opened value, and both results together are the sign of Δ. The coordinator knows r and
not Δ + r, the parties know Δ + r and not r. The last seven levels of the tree are one block of 128 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from experiments.comparisons.links import COORDINATOR, Links, bits_of, flags_of, stream
from kcagc.secagg.masks import RingVector

BITS = 32
_LOW = BITS - 1  # the bits below the sign
_LEVELS = _LOW - 7
_AES = Cipher(algorithms.AES(bytes(range(16))), modes.ECB()).encryptor()  # noqa: S305 - one block at a time, as a hash
_ONE, _ALL = np.uint64(1), np.uint64(2**64 - 1)
Words32 = NDArray[np.uint32]
Child = tuple[RingVector, RingVector, RingVector]  # seed, control bit, value bit


@dataclass
class Keys:
    """The part of the keys that both parties get: corrections of each level (seed with two bits, one bit), the last."""

    seeds: list[RingVector]
    values: list[NDArray[np.uint8]]
    last: RingVector

    def arrays(self) -> list[NDArray[np.uint8] | RingVector]:
        """Return what travels."""
        return [*self.seeds, *self.values, self.last]


def _expand(seeds: RingVector, side: RingVector | int) -> Child:
    """Return a child of every seed (n × 2 words): its seed, its control bit and its value bit."""
    tweaked = seeds.copy()
    tweaked[:, 0] ^= np.asarray(side, dtype=np.uint64)  # the low two bits of a seed are zero
    found = np.frombuffer(_AES.update(tweaked.tobytes()), dtype=np.uint64).reshape(-1, 2) ^ tweaked
    control, value = found[:, 0] & _ONE, (found[:, 0] >> _ONE) & _ONE
    found[:, 0] &= ~np.uint64(3)
    return found, control, value


def _chosen(both: list[Child], right: NDArray[np.bool_]) -> Child:
    """Return the right or the left child of every seed."""
    (seed, control, value), (seed_right, control_right, value_right) = both
    found = np.where(right[:, None], seed_right, seed)
    return found, np.where(right, control_right, control), np.where(right, value_right, value)


def _block(seeds: RingVector) -> RingVector:
    tweaked = seeds.copy()
    tweaked[:, 0] ^= np.uint64(2)
    return np.frombuffer(_AES.update(tweaked.tobytes()), dtype=np.uint64).reshape(-1, 2) ^ tweaked


def _where(flags: RingVector, words: RingVector) -> RingVector:
    """Return the words where a flag is one, and zero elsewhere."""
    return words & (np.uint64(0) - flags)[:, None]


def _roots(party: int, count: int) -> RingVector:
    """Return the party's first seeds, from a key that it has in common with the coordinator."""
    seeds = stream("roots", party, words=2 * count).reshape(-1, 2).copy()
    seeds[:, 0] &= ~np.uint64(3)
    return seeds


def deal(threshold: Words32) -> Keys:
    """Return the common part of the keys of x ↦ [x < threshold], for numbers of 31 bits."""
    count = len(threshold)
    seeds = [_roots(0, count), _roots(1, count)]
    control = [np.zeros(count, dtype=np.uint64), np.ones(count, dtype=np.uint64)]
    path = np.zeros(count, dtype=np.uint64)
    keys = Keys([], [], np.zeros((count, 2), dtype=np.uint64))
    for level in range(_LEVELS):
        bit = (threshold >> np.uint32(_LOW - 1 - level)).astype(np.uint64) & _ONE
        children = [[_expand(seed, side) for side in (0, 1)] for seed in seeds]
        right = bit.astype(bool)

        lost, stay = ([_chosen(both, side) for both in children] for side in (~right, right))
        correction = lost[0][0] ^ lost[1][0]
        value = lost[0][2] ^ lost[1][2] ^ path ^ bit
        path ^= stay[0][2] ^ stay[1][2] ^ value
        controls = [children[0][side][1] ^ children[1][side][1] ^ bit ^ np.uint64(1 - side) for side in (0, 1)]
        kept = np.where(right, controls[1], controls[0])
        for party in (0, 1):
            seeds[party] = stay[party][0] ^ _where(control[party], correction)
            control[party] = stay[party][1] ^ (control[party] & kept)
        correction[:, 0] |= controls[0] | controls[1] << _ONE
        keys.seeds.append(correction)
        keys.values.append(bits_of(value))
    low = (threshold & np.uint32(127)).astype(np.uint64)
    below = np.stack([_ones(np.minimum(low, 64)), _ones(np.maximum(low, 64) - np.uint64(64))], axis=1)
    keys.last = _block(seeds[0]) ^ _block(seeds[1]) ^ below ^ _where(path, np.full((count, 2), _ALL))
    return keys


def _ones(count: RingVector) -> RingVector:
    """Return words whose lowest bits are ones."""
    return np.where(count >= 64, _ALL, (_ONE << np.minimum(count, 63).astype(np.uint64)) - _ONE)


def evaluate(party: int, keys: Keys, x: Words32) -> NDArray[np.bool_]:
    """Return this party's share of [x < threshold]."""
    count = len(x)
    seeds, control = _roots(party, count), np.full(count, party, dtype=np.uint64)
    total = np.zeros(count, dtype=np.uint64)
    for level in range(_LEVELS):
        bit = (x >> np.uint32(_LOW - 1 - level)).astype(np.uint64) & _ONE
        correction, controls = keys.seeds[level].copy(), keys.seeds[level][:, 0] & np.uint64(3)
        correction[:, 0] ^= controls
        seeds, own, value = _expand(seeds, bit)
        total ^= value ^ (control & flags_of(keys.values[level], count).astype(np.uint64))
        seeds ^= _where(control, correction)
        control = own ^ (control & (controls >> bit) & _ONE)
    block = _block(seeds) ^ _where(control, keys.last)
    place = (x & np.uint32(127)).astype(np.int64)
    total ^= block[np.arange(count), place >> 6] >> (place & 63).astype(np.uint64)
    return (total & _ONE).astype(bool)


def compare(terms: list[NDArray[np.int64]], links: Links) -> NDArray[np.bool_]:
    """Return where the sums of the parties' terms are positive; no sum is zero, and all fit into 32 bits."""
    parties, count = [f"party {number}" for number in range(len(terms))], len(terms[0])
    half = (count + 1) // 2

    def hidden_by(number: int) -> Words32:  # from a key that party and coordinator have in common
        return stream("r", number, words=half).view(np.uint32)[:count]

    with links.work(COORDINATOR):
        r = np.sum([hidden_by(number) for number in range(len(terms))], axis=0, dtype=np.uint32)
        keys = deal(r & np.uint32(2**_LOW - 1))
        # The first evaluator's share of the sign of r comes from a common key, the second one's travels.
        sign_share = stream("sign", words=(count + 63) // 64).view(np.uint8)[: (count + 7) // 8]
        sign = bits_of(r >> np.uint32(_LOW)) ^ sign_share
    for evaluator in parties[:2]:
        for array in keys.arrays():
            links.send(COORDINATOR, evaluator, array)
    links.send(COORDINATOR, parties[1], sign)
    vectors = []
    for number, (party, own) in enumerate(zip(parties, terms, strict=True)):
        with links.work(party):
            words = own.astype(np.uint32) + hidden_by(number)
            for other in range(len(terms)) if len(terms) > 2 else ():  # so that only the sum opens
                if other != number:
                    mask = stream("pair", *sorted((number, other)), words=half).view(np.uint32)[:count]
                    words = words + mask if number < other else words - mask
        vectors.append(words)
        for evaluator in parties[:2]:
            if evaluator != party:
                links.send(party, evaluator, words)
    links.end_round()
    shares = []
    for number, party in enumerate(parties[:2]):
        with links.work(party):
            opened = np.sum(vectors, axis=0, dtype=np.uint32)
            borrow = evaluate(number, keys, opened & np.uint32(2**_LOW - 1))
            own_sign = flags_of(sign if number else sign_share, count)
            share = borrow ^ own_sign ^ ((opened >> np.uint32(_LOW)).astype(bool) & (number == 0))
            shares.append(bits_of(share))
        for receiver in parties:
            if receiver != party:
                links.send(party, receiver, shares[-1])
    links.end_round()
    return ~flags_of(shares[0] ^ shares[1], count)
