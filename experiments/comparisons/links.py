"""A network in which every party is connected to the coordinator only; it counts bytes and one-way delays."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kcagc.secagg.masks import RingVector, keystream

COORDINATOR = "coordinator"
A = TypeVar("A", bound=NDArray[Any])


@dataclass
class Links:
    """Bytes on all links, the one-way delays after which each role has what it needs, and its computing time.

    A message between two parties travels over two links, because the coordinator relays it; a real one is encrypted to
    the receiver, which adds a constant number of bytes.
    """

    sent: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    _delays: Counter[str] = field(default_factory=Counter)
    _arriving: Counter[str] = field(default_factory=Counter)

    def send(self, sender: str, receiver: str, array: A) -> A:
        """Return what the receiver gets at the end of the round."""
        hops = 1 if COORDINATOR in (sender, receiver) else 2
        self.sent[sender] += array.nbytes
        if hops == 2:
            self.sent[COORDINATOR] += array.nbytes
        self._arriving[receiver] = max(self._arriving[receiver], self._delays[sender] + hops)
        return array

    def end_round(self) -> None:
        """Let everything arrive that was sent."""
        for role, when in self._arriving.items():
            self._delays[role] = max(self._delays[role], when)

    @property
    def delays(self) -> int:
        """The one-way delays until the last role has what it needs."""
        return max(self._delays.values())

    @contextmanager
    def work(self, role: str) -> Iterator[None]:
        """Count the computing time of a role."""
        begin = time.process_time()
        yield
        self.seconds[role] += time.process_time() - begin


def stream(*between: object, words: int) -> RingVector:
    """Return random words that the holders of one key have in common; the names stand for the key."""
    return keystream("/".join(map(str, between)).encode().ljust(32, b".")[:32], words)


def bits_of(flags: NDArray[Any]) -> NDArray[np.uint8]:
    """Return flags as bits of bytes."""
    return np.packbits(flags.astype(bool))


def flags_of(packed: NDArray[np.uint8], count: int) -> NDArray[np.bool_]:
    """Return the flags in bits of bytes."""
    return np.unpackbits(packed, count=count).astype(bool)
