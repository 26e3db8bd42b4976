"""Numbers that no role knows: pads, shares of two holders, secret rotations, and products of padded numbers.

All parties derive the same pads from their common key, which the coordinator does not have. A padded number is uniform
noise to the coordinator. It can multiply two padded matrices, and it returns the product in two shares: one share is
drawn by the second holder, and the first holder receives the rest. Each share alone is uniform noise to its holder.

Everything here is exact in integers modulo 2^64, or uses only operations that every machine rounds in the same way:
both holders must derive the same rotations to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from kcagc._types import FloatArray, IntArray
from kcagc.errors import KcagcError
from kcagc.secagg.blinding import FactorRange, log_uniform, times_factors
from kcagc.secagg.keys import Field, derive_key, framed
from kcagc.secagg.masks import RingVector, keystream

RingMatrix = NDArray[np.uint64]

SEED_BYTES = 32
ROW_BITS = 18  # fraction bits of unit rows and of centres
COMPONENT_BITS = 20  # fraction bits of components
DIRECTION_BITS = 18  # fraction bits of the directions of the joint subspace
JOINT_BITS = 22  # fraction bits of joint rows
ROTATION_BITS = 20  # fraction bits of the entries of a secret rotation
LENGTH_OCTAVES = 26  # of the secret factors of rows
_LENGTH_TOP = 58  # the largest factor of a row, as a power of two: with rows up to 4 long and rounding, below 2^62
_LIMB_BITS = 16
_FEW = 32  # columns up to which a product is computed word by word
_MAX_INNER = 1 << 20  # rows of a product of limbs: 16 + 16 + 20 bits are exact in float64
_QUANTILES = 1 << 12
_SPLIT = 24  # the low bits of a share, which are turned separately, so that no product leaves 63 bits
_MAX_DRAWS = 1000
_BLOCK_VALUES = 1 << 18  # entries of rotations that are computed together: they fit in the cache of a processor


def pad(key: bytes, session: bytes, *label: Field, shape: tuple[int, ...]) -> RingMatrix:
    """Derive uniform integers that all holders of the key know; use a label for one shape and one content only."""
    length = int(np.prod(shape))
    return keystream(derive_key(key, session, "pad", framed(*label), framed(*shape)), length).reshape(shape)


def joint_rotation(key: bytes, session: bytes, size: int) -> FloatArray:
    """Return one random rotation of many dimensions; parties may differ in the last bits of it."""
    normal = _normal(keystream(derive_key(key, session, "joint rotation", size), size * size)).reshape(size, size)
    basis, triangle = np.linalg.qr(normal)
    return np.asarray(basis * np.where(np.diag(triangle) < 0, -1.0, 1.0))


def to_ring(values: FloatArray, fraction_bits: int) -> RingMatrix:
    """Round numbers to integers with this many fraction bits, modulo 2^64."""
    return np.rint(np.ldexp(values, fraction_bits)).astype(np.int64).view(np.uint64)


def ring_product(a: RingMatrix, b: RingMatrix) -> RingMatrix:
    """Return a·b modulo 2^64.

    With many columns of a, by products of 16-bit parts in floating point, which are exact.
    """
    found = np.zeros((a.shape[0], b.shape[1]), dtype=np.uint64)
    if a.shape[1] <= _FEW:
        for place in range(a.shape[1]):
            found += a[:, place, None] * b[place]
        return found
    for start in range(0, a.shape[1], _MAX_INNER):
        some = slice(start, start + _MAX_INNER)
        left, right = _limbs(a[:, some]), _limbs(b[some])
        for i, one in enumerate(left):
            for j, other in enumerate(right[: 4 - i]):  # higher parts leave the ring
                found += (one @ other).astype(np.uint64) << np.uint64(_LIMB_BITS * (i + j))
    return found


def _limbs(matrix: RingMatrix) -> list[FloatArray]:
    """Return the four 16-bit parts of a matrix, the lowest first."""
    lowest = np.uint64((1 << _LIMB_BITS) - 1)
    return [((matrix >> np.uint64(_LIMB_BITS * place)) & lowest).astype(np.float64) for place in range(4)]


# Secret rotations and factors of rows


def rotation(key: bytes, session: bytes, *label: Field, size: int) -> FloatArray:
    """Return one random rotation (or reflection) of this size, uniform among all."""
    return np.asarray(_rotations(key, session, label, 1, size)[0])


def row_rotations(key: bytes, session: bytes, *label: Field, count: int, size: int) -> IntArray:
    """Return one random rotation for each of `count` rows, as integers with `ROTATION_BITS` fraction bits."""
    found = _rotations(key, session, label, count, size)
    return np.rint(np.ldexp(found, ROTATION_BITS)).astype(np.int64)


def row_factors(key: bytes, session: bytes, *label: Field, count: int) -> tuple[IntArray, IntArray]:
    """Return a random factor for each row, spread evenly over `LENGTH_OCTAVES` octaves; the largest is below 2^58.

    A factor is the first integer times 2^(the second - 30).
    """
    words = keystream(derive_key(key, session, "lengths", *label, count), count)
    return log_uniform(words, FactorRange.of_octaves(_LENGTH_TOP - LENGTH_OCTAVES, _LENGTH_TOP))


def turned_and_scaled(
    rotations: IntArray, factors: tuple[IntArray, IntArray], share: IntArray, fraction_bits: int
) -> RingMatrix:
    """Return f·Q·share for each row (count × size), without fraction bits, rounded down modulo 2^64.

    Shares have less than 2^50. All products are exact: rounding to a multiple of a power of two would show the factor
    in the last bits of a sum.
    """
    mantissas, octaves = (one[:, None] for one in factors)
    octaves = octaves - fraction_bits - ROTATION_BITS
    found = np.zeros(share.shape, dtype=np.int64)
    for part, shift in ((share >> np.int64(_SPLIT), _SPLIT), (share & np.int64((1 << _SPLIT) - 1), 0)):
        turned = np.zeros(share.shape, dtype=np.int64)
        for place in range(share.shape[1]):
            turned += rotations[:, :, place] * part[:, place, None]
        found += times_factors(turned, mantissas, octaves + shift)
    return found.view(np.uint64)


def row_offsets(
    key: bytes, session: bytes, *label: Field, factors: tuple[IntArray, IntArray], size: int, fraction_bits: int
) -> RingMatrix:
    """Return secret offsets of turned and scaled rows (count × size), up to half of what one unit of a row becomes.

    Without them, all entries of a row would be whole multiples of one number, and lattice reduction finds this number:
    the factor. One holder adds them.
    """
    mantissas, octaves = (one[:, None] for one in factors)
    one = np.ones((len(mantissas), size), dtype=np.int64)
    largest = times_factors(one, mantissas, octaves - fraction_bits - ROTATION_BITS) // 2
    words = keystream(derive_key(key, session, "row offsets", *label, one.size), one.size).reshape(one.shape)
    return words % (2 * largest + 1).astype(np.uint64) - largest.astype(np.uint64)


def _rotations(key: bytes, session: bytes, label: tuple[Field, ...], count: int, size: int) -> FloatArray:
    """Return count × size × size uniform rotations: products of reflections (G. W. Stewart, 1980).

    The last axis in memory runs over the rows, and every sum is a loop: all machines round in the same way.
    """
    words = keystream(derive_key(key, session, "rotation", *label, count, size), count * size * (size + 1) // 2)
    normal = _normal(words).reshape(-1, count)
    found = np.empty((count, size, size))
    block = max(1, _BLOCK_VALUES // (size * size))
    for start in range(0, count, block):
        some = slice(start, start + block)
        found[some] = _products_of_reflections(np.ascontiguousarray(normal[:, some]), size)
    return found


def _products_of_reflections(normal: FloatArray, size: int) -> FloatArray:
    """Return the rotations that follow from normal deviates (size·(size + 1)/2 × rows)."""
    found = np.zeros((size, size, normal.shape[1]))
    found[np.arange(size), np.arange(size)] = 1.0
    used = 0
    for dimension in range(size, 0, -1):
        axis = normal[used : used + dimension].copy()
        used += dimension
        first = size - dimension
        sign = np.where(axis[0] < 0, -1.0, 1.0)
        if dimension > 1:
            length = np.sqrt(_sum_of(axis * axis))
            axis[0] += sign * length
            half = _sum_of(axis * axis) / 2.0
            block = found[first:]
            along = _sum_of(axis[:, None] * block) / half
            block -= axis[:, None] * along[None]
        found[first] *= -sign
    return found.transpose(2, 0, 1)


def _sum_of(terms: FloatArray) -> FloatArray:
    total: FloatArray = terms[0].copy()
    for term in terms[1:]:
        total += term
    return total


def _normal(words: RingVector) -> FloatArray:
    """Return a normal deviate for each random word, by interpolation between quantiles."""
    place = (words >> np.uint64(52)).astype(np.int64)
    inside = np.ldexp(((words >> np.uint64(12)) & np.uint64((1 << 40) - 1)).astype(np.float64), -40)
    table = _quantiles()
    return np.asarray(table[place] + (table[place + 1] - table[place]) * inside)


@cache
def _quantiles() -> FloatArray:
    """Return the quantiles of the normal distribution at multiples of 1/4096, rounded to 24 fraction bits.

    The two outermost intervals end where their mean is that of the normal distribution beyond the last quantile.
    """
    normal = NormalDist()
    inner = [normal.inv_cdf(place / _QUANTILES) for place in range(1, _QUANTILES)]
    last = 2 * normal.pdf(inner[-1]) * _QUANTILES - inner[-1]
    rounded: FloatArray = np.ldexp(np.rint(np.ldexp(np.array([-last, *inner, last]), 24)), -24)
    return rounded


# Shares of two holders


def drawn_share(seed: bytes, session: bytes, *label: Field, shape: tuple[int, ...]) -> RingMatrix:
    """Return the share that the second holder draws; only this holder and the coordinator know the seed."""
    return keystream(derive_key(seed, session, "share", framed(*label), framed(*shape)), int(np.prod(shape))).reshape(
        shape
    )


def draw_until(own: Callable[[int], RingMatrix], room: int) -> tuple[RingMatrix, int]:
    """Return the first draw whose share cannot wrap, and its number; `own` makes the share of a draw."""
    for draw in range(_MAX_DRAWS):
        found = own(draw)
        if not may_wrap(found, room):
            return found, draw
    raise KcagcError(f"{_MAX_DRAWS} drawn shares in a row might wrap: a sum has too many numbers; use fewer clusters")


def turn_back(rotations: IntArray, share: RingMatrix) -> RingMatrix:
    """Return Qᵀ·share for each row (count × size), modulo 2^64."""
    turned = rotations.view(np.uint64)
    found = np.zeros_like(share)
    for place in range(share.shape[1]):
        found += turned[:, place, :] * share[:, place, None]
    return found


def may_wrap(share: RingMatrix, bound_bits: int) -> bool:
    """Return whether this share and that of the other holder might not add up without a multiple of 2^64.

    Two shares of a number below 2^bound_bits, read as signed integers, add up exactly unless one is near ±2^63.
    """
    limit = (1 << 63) - (1 << bound_bits)
    signed = share.view(np.int64)
    return bool(((signed >= limit) | (signed < -limit)).any())


def rounded_share(share: RingMatrix, bits: int) -> IntArray:
    """Drop the lowest bits of a share; both holders together are wrong by at most one unit."""
    return share.view(np.int64) >> np.int64(bits)
