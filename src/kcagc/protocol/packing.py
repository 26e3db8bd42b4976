"""Numbers below a known count in the fewest bits, for labels and for answers."""

from __future__ import annotations

import numpy as np

from kcagc._types import Flags, IntArray
from kcagc.errors import PeerError


def bits_for(count: int) -> int:
    """Give how many bits tell `count` values apart; one value needs none."""
    return (count - 1).bit_length()


def packed_size(n: int, count: int) -> int:
    """Give how many bytes `n` such numbers take."""
    return (n * bits_for(count) + 7) // 8


def pack(values: IntArray, count: int) -> bytes:
    """Write each of `values`, all below `count`, in as few bits as tell them apart, low bit first."""
    width = bits_for(count)
    kind = np.dtype(next(f"<u{size}" for size in (1, 2, 4, 8) if width <= 8 * size))
    whole = np.ascontiguousarray(values, dtype=kind).view(np.uint8).reshape(len(values), kind.itemsize)
    bits = np.unpackbits(whole, axis=1, count=width, bitorder="little") if width else whole[:, :0]
    return np.packbits(bits.ravel(), bitorder="little").tobytes()


def unpack(data: bytes, n: int, count: int, sender: str, what: str) -> IntArray:
    """Read `n` numbers below `count`; what is too short, too long or out of range names its sender."""
    width = bits_for(count)
    if len(data) != packed_size(n, count):
        raise PeerError(f"{what}: {len(data)} bytes where {packed_size(n, count)} were due", peer=sender)
    if width == 0:
        return np.zeros(n, dtype=np.int64)
    flat = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if flat[n * width :].any():
        raise PeerError(f"{what}: the last bits are not empty", peer=sender)
    values = flat[: n * width].reshape(n, width) @ (1 << np.arange(width, dtype=np.int64))
    if values.size and int(values.max()) >= count:
        raise PeerError(f"{what}: {int(values.max())} is out of range, there are {count}", peer=sender)
    return np.asarray(values, dtype=np.int64)


def pack_bits(flags: Flags) -> bytes:
    """Write one bit for each flag."""
    return np.packbits(flags.ravel(), bitorder="little").tobytes()


def unpack_bits(data: bytes, n: int, sender: str, what: str) -> Flags:
    """Read one bit for each flag."""
    return unpack(data, n, 2, sender, what).astype(bool)
