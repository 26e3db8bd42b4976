"""The joint subspace: the directions in which the columns of all parties together vary most.

Each party sends its components on a sample of nodes under pads that the coordinator does not know. The coordinator
multiplies the padded components of all pairs of parties. Corrections, which are masked so that only their sum over a
pair can be read, turn the products into covariances. The coordinator finds the top directions of the joint covariance
and multiplies the padded components by them. It returns the directions and the product in shares of two holders, who
remove what the pads have added: shares of the joint rows. It sees covariances of turned components: each party has
turned its own by a secret rotation. No party sees a covariance, a direction or a joint row.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from kcagc._types import FloatArray, IntArray, Sparse
from kcagc.cluster.joint import random_for
from kcagc.errors import DataError, PeerError
from kcagc.protocol.components import Components
from kcagc.protocol.effects import CommitMask, Progress, StoreResult
from kcagc.protocol.messages import Padded, RunStage, Split, Step
from kcagc.protocol.party import Party
from kcagc.protocol.secure_sum import SecureSums
from kcagc.secagg.keys import PairKeys, digest, framed
from kcagc.secagg.masks import RingVector, keystream
from kcagc.secagg.shares import (
    COMPONENT_BITS,
    DIRECTION_BITS,
    JOINT_BITS,
    RingMatrix,
    draw_until,
    drawn_share,
    pad,
    ring_product,
    rotation,
    rounded_share,
)
from kcagc.text import listed

MIXTURES = 10_000  # rows of a covariance; on larger graphs each is a mixture of nodes, with random signs
_IN_MIXTURES = 3  # mixtures that a node is part of
SUBSPACE_SHARES = "subspace"  # in place of a group, in the message with shares of directions and joint rows
_ROOM = COMPONENT_BITS + DIRECTION_BITS + 3  # bits of a joint row: its length is 4 at most


@dataclass(frozen=True, eq=False)
class JointShares:
    """This party's shares of the joint rows of the sample (nodes × d) and of the directions (all components × d).

    Both are zero for a party that is no holder. Several blocks lie one below the other.
    """

    rows: IntArray
    directions: IntArray


@dataclass(frozen=True)
class SubspacePlan:
    """The joint subspaces that one step finds: how many, each for a block of rows of its own, and their dimensions.

    The purpose distinguishes the pads of a search from those of the fit, which has the empty one.
    """

    dimensions: int
    blocks: int = 1
    purpose: str = ""

    def size(self, widths: Mapping[str, int]) -> int:
        """Return the number of dimensions of the joint subspace: no more than there are components."""
        return min(self.dimensions, sum(widths.values()))

    def parts(self, rows: RingMatrix) -> list[RingMatrix]:
        """Return the blocks of some rows."""
        return np.split(rows, self.blocks)


async def sample_of_components(found: Components, nodes: IntArray) -> IntArray:
    """Return the party's components on the sample as integers.

    They are stored: computed again, they might differ, and one pad would hide two contents.
    """

    def compute() -> bytes:
        return np.rint(np.ldexp(found.rows[nodes], COMPONENT_BITS)).astype("<i8").tobytes()

    stored = np.frombuffer(await StoreResult("sample of components", compute), dtype="<i8")
    return stored.astype(np.int64).reshape(len(nodes), -1)


async def mixtures_of_components(found: Components, n_nodes: int, seed: int) -> IntArray:
    """Return the rows of the party's covariances as integers: its components, or on large graphs mixtures of them.

    A sample of nodes would miss long rows, which count most. A mixture adds components of random nodes with random
    signs, the same nodes at every party. The party then corrects its mixtures, so that its own covariance is exact.
    """

    def compute() -> bytes:
        rows = found.rows
        if n_nodes > MIXTURES:
            rows = _exact(_mixing(n_nodes, seed) @ rows, rows)
        return np.rint(np.ldexp(rows, _covariance_bits(n_nodes))).astype("<i8").tobytes()

    stored = np.frombuffer(await StoreResult("mixtures of components", compute), dtype="<i8")
    return stored.astype(np.int64).reshape(min(n_nodes, MIXTURES), -1)


def _covariance_bits(n_nodes: int) -> int:
    """Return the fraction bits of the rows of covariances: sums over all nodes must stay in the ring."""
    return COMPONENT_BITS - max(0, n_nodes.bit_length() - 20) // 2


def _mixing(n_nodes: int, seed: int) -> Sparse:
    """Return the matrix that makes mixtures of nodes (mixtures × nodes), the same at every party."""
    random = random_for(seed, 10)
    into = random.randint(MIXTURES, size=n_nodes * _IN_MIXTURES)
    signs = 2.0 * random.randint(2, size=n_nodes * _IN_MIXTURES) - 1.0
    nodes = np.repeat(np.arange(n_nodes), _IN_MIXTURES)
    shape = (MIXTURES, n_nodes)
    return sparse.csr_array((signs / np.sqrt(_IN_MIXTURES), (into, nodes)), shape=shape)


def _exact(mixed: FloatArray, rows: FloatArray) -> FloatArray:
    """Return mixtures with the covariance of the rows themselves, as near to the given mixtures as possible."""
    before, wanted = mixed.T @ mixed, rows.T @ rows
    values, vectors = np.linalg.eigh(before)
    inverse = np.where(values > values.max() * 1e-12, 1.0 / np.sqrt(np.maximum(values, 1e-300)), 0.0)
    right = (vectors * inverse) @ vectors.T
    values, vectors = np.linalg.eigh(wanted)
    return np.asarray(mixed @ right @ ((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T))


async def find_subspace(
    party: Party,
    sums: SecureSums,
    own: IntArray,
    nodes: IntArray,
    widths: dict[str, int],
    share_seed: bytes,
    plan: SubspacePlan,
    mixed: IntArray | None = None,
) -> JointShares:
    """Compute shares of the joint rows; `own` are this party's components on the sample of these nodes, in blocks.

    `widths` are the numbers of components of all parties, `share_seed` the seed of the shares that this party draws,
    `mixed` the rows of its covariances, if they are others than those of the sample.
    """
    await Progress("joint subspace: covariances")
    session, parties, key, purpose = party.session, party.agreement.parties, sums.group_key, plan.purpose

    def drawn_pads(what: str, length: int) -> dict[str, RingMatrix]:
        label = f"{what}{purpose}"
        return {name: pad(key, session.id, label, name, shape=(length, widths[name])) for name in parties}

    pads = drawn_pads("components", len(own))
    padded = own.view(np.uint64) + pads[party.name]
    all_pads = np.concatenate(list(pads.values()), axis=1)
    words, padded_mixtures = own.view(np.uint64), padded
    if mixed is not None:
        pads, words = drawn_pads("mixtures", len(mixed)), mixed.view(np.uint64)
        padded_mixtures = words + pads[party.name]
    corrections = []
    for other in parties:
        if other == party.name:
            continue
        if parties.index(party.name) < parties.index(other):
            term = _products(plan.parts(words), plan.parts(pads[other]))
        else:
            term = _products(plan.parts(pads[other]), plan.parts(padded_mixtures))
        corrections.append(np.negative(term) + _pair_mask(session.pairs[other], term.size, purpose))
    size, n_components = plan.size(widths), sum(widths.values())
    rows = np.zeros((len(own), size), dtype=np.uint64)
    directions = np.zeros((plan.blocks * n_components, size), dtype=np.uint64)
    draw = 0
    if party.name == sums.holders[1]:
        directions = drawn_share(share_seed, session.id, f"directions{purpose}", shape=directions.shape)
        added = _times(plan, all_pads, directions)
        rows, draw = draw_until(
            lambda number: (
                drawn_share(share_seed, session.id, f"joint rows{purpose}", number, shape=rows.shape) - added
            ),
            _ROOM,
        )
    message = Padded(
        sample=digest("sample", nodes.astype("<i8").tobytes()),
        n_components=own.shape[1],
        words=_bytes_of(padded),
        mixtures=b"" if mixed is None else _bytes_of(padded_mixtures),
        covariance=_bytes_of(_products(plan.parts(words), plan.parts(words))),
        corrections=tuple(_bytes_of(one) for one in corrections),
        share_seed=share_seed if party.name == sums.holders[1] else b"",
        draw=draw,
    )
    # one set of pads never hides two contents
    for name, hidden in (("components", own), ("mixtures", own if mixed is None else mixed)):
        content = hashlib.sha256(np.ascontiguousarray(hidden).data).digest()
        await CommitMask(framed(session.id, f"{name}{purpose}"), content)
    await party.channel.send(party.agreement.aggregator, message, RunStage(Step.SUBSPACE), shape=padded.shape)
    if party.name == sums.holders[0]:
        answer = await party.channel.receive(party.agreement.aggregator, Split)
        wanted = 8 * size * (len(directions) + len(own))
        if (answer.group, answer.number, len(answer.words)) != (SUBSPACE_SHARES, 0, wanted):
            got = f"{len(answer.words)} bytes where {wanted} bytes were expected"
            raise PeerError(f"sent shares of directions and rows of {got}", peer=party.agreement.aggregator)
        directions, rows = np.split(_words(answer.words).reshape(-1, size), [len(directions)])
        rows = rows - _times(plan, all_pads, directions)
    return JointShares(
        rounded_share(rows, COMPONENT_BITS + DIRECTION_BITS - JOINT_BITS),
        np.ascontiguousarray(directions).view(np.int64),
    )


def _products(left: list[RingMatrix], right: list[RingMatrix]) -> RingVector:
    """Return the products of the columns of pairs of matrices, one after another."""
    pairs = zip(left, right, strict=True)
    return np.concatenate([ring_product(np.ascontiguousarray(one.T), other).ravel() for one, other in pairs])


def _times(plan: SubspacePlan, rows: RingMatrix, directions: RingMatrix) -> RingMatrix:
    """Return the rows of each block times its directions."""
    pairs = zip(plan.parts(rows), plan.parts(directions), strict=True)
    return np.concatenate([ring_product(some, own) for some, own in pairs])


def _pair_mask(pair: PairKeys, length: int, purpose: str) -> RingVector:
    """Return the mask of a correction; the other party of the pair adds its opposite."""
    label = framed(f"corrections{purpose}", length)
    stream = keystream(pair.mask_key(tuple(sorted((pair.me, pair.other))), label, length, b""), length)
    return stream if pair.sign > 0 else np.negative(stream)


# The coordinator's side


@dataclass(frozen=True, eq=False)
class PaddedComponents:
    """The messages of all parties for one block, checked, in the agreed order."""

    padded: list[RingMatrix]  # components on the sample
    mixtures: list[RingMatrix]  # rows of the covariances
    covariances: list[RingMatrix]
    corrections: list[list[RingVector]]  # for each party, those with the others in the agreed order


def read_components(messages: dict[str, Padded], blocks: int = 1) -> list[PaddedComponents]:
    """Check the shapes of the padded components of all parties, and that they have the same sample."""
    widths = {name: one.n_components for name, one in messages.items()}
    for name, one in messages.items():
        row, own = 8 * widths[name] * blocks, 8 * blocks * widths[name] ** 2
        if not row or not one.words or (len(one.words) % row or len(one.mixtures) % row) or len(one.covariance) != own:
            message = f"sent components of {len(one.words)} bytes and covariances of {len(one.covariance)} bytes"
            raise PeerError(f"{message} for {widths[name]} components", peer=name)
    _check_same("sample of nodes", {name: one.sample for name, one in messages.items()})
    _check_same("number of nodes", {name: len(one.words) // widths[name] for name, one in messages.items()})
    _check_same("number of mixtures", {name: len(one.mixtures) // widths[name] for name, one in messages.items()})
    _check_corrections(messages, blocks)

    def block(data: bytes, number: int, width: int = 1) -> RingMatrix:
        return np.split(_words(data), blocks)[number].reshape(-1, width)

    return [
        PaddedComponents(
            [block(one.words, number, widths[name]) for name, one in messages.items()],
            [block(one.mixtures or one.words, number, widths[name]) for name, one in messages.items()],
            [block(one.covariance, number, widths[name]) for name, one in messages.items()],
            [[block(part, number) for part in one.corrections] for one in messages.values()],
        )
        for number in range(blocks)
    ]


def _check_corrections(messages: dict[str, Padded], blocks: int) -> None:
    """Check the lengths of all corrections: one for each other party, of the size of the covariance with it."""
    lengths: dict[str, dict[str, int]] = {}  # in bytes, by sender and other party
    for name, one in messages.items():
        others = [other for other in messages if other != name]
        if len(one.corrections) != len(others):
            raise PeerError(f"sent {len(one.corrections)} corrections for {len(others)} parties", peer=name)
        lengths[name] = {other: len(part) for other, part in zip(others, one.corrections, strict=True)}

    def fits(sender: str, other: str) -> bool:
        return lengths[sender][other] == 8 * blocks * messages[sender].n_components * messages[other].n_components

    for name in messages:  # if the corrections of all others do not fit one party, that party is the cause
        if len(messages) > 2 and not any(fits(other, name) for other in messages if other != name):
            raise PeerError("sent the others another number of components than the coordinator", peer=name)
    for name in messages:
        for other in lengths[name]:
            if not fits(name, other):
                raise PeerError(f"sent corrections of {lengths[name][other]} bytes for {other}", peer=name)


def _check_same(what: str, values: Mapping[str, object]) -> None:
    """Refuse different values; the culprit is a party that differs from more than half of all, if there is one."""
    (common, count), *others = Counter(values.values()).most_common()
    if others:
        differing = [name for name, value in values.items() if value != common]
        if 2 * count > len(values):
            raise PeerError(f"uses another {what} than the others", peer=differing[0])
        raise PeerError(f"{listed(list(values))} do not have the same {what}")


def joint_covariance(found: PaddedComponents) -> FloatArray:
    """Return the covariance of the turned components of all parties, up to a power of two."""
    count = len(found.mixtures)
    blocks: list[list[RingMatrix]] = [[one] * count for one in found.covariances]
    for i in range(count):
        for j in range(i + 1, count):
            product = ring_product(np.ascontiguousarray(found.mixtures[i].T), found.mixtures[j])
            shape = product.shape
            product += found.corrections[i][j - 1].reshape(shape)
            product += found.corrections[j][i].reshape(shape)
            blocks[i][j], blocks[j][i] = product, np.ascontiguousarray(product.T)
    whole = np.block(blocks).view(np.int64).astype(np.float64)
    return np.ldexp(whole, -2 * COMPONENT_BITS)


def top_directions(covariance: FloatArray, size: int, key: bytes, session: bytes, label: str = "") -> FloatArray:
    """Return the eigenvectors of the largest eigenvalues, turned by a random rotation (all components × size)."""
    values, vectors = np.linalg.eigh(covariance)
    if not values.max() > 0.0:
        raise DataError("joint subspace: the components of all parties are zero, so there is nothing to cluster")
    return np.asarray(vectors[:, ::-1][:, :size] @ rotation(key, session, f"directions{label}", size=size))


def _bytes_of(words: RingMatrix) -> bytes:
    return np.ascontiguousarray(words).astype("<u8", copy=False).tobytes()


def _words(data: bytes) -> RingVector:
    return np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False)
