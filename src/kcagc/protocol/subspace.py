"""The joint subspace: the directions in which the columns of all parties together vary most.

Each party sends its components on a sample of nodes under pads that the coordinator does not know. The coordinator
multiplies the padded components of all pairs of parties. Corrections, which are masked so that only their sum over a
pair can be read, turn the products into covariances. The coordinator finds the top directions of the joint covariance
and returns to each party only the part that belongs to its own components. It sees covariances of turned components:
each party has turned its own by a secret rotation. No party sees a covariance with another one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.cluster.joint import draw_sample
from kcagc.errors import DataError, PeerError
from kcagc.protocol.effects import CommitMask, Progress, StoreResult
from kcagc.protocol.local import Components
from kcagc.protocol.messages import Directions, Padded, RunStage, Step
from kcagc.protocol.party import Party
from kcagc.secagg.keys import PairKeys, digest, framed
from kcagc.secagg.masks import RingVector, keystream
from kcagc.secagg.shares import COMPONENT_BITS, RingMatrix, pad, ring_product, rotation
from kcagc.text import listed

MIN_SAMPLE, SAMPLE_OF_COMPONENT = 10_000, 50  # nodes of the covariance; more for many components
_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class JointRows:
    """A party's part of the joint rows (n × d), and the directions that gave them (q × d)."""

    rows: FloatArray
    directions: FloatArray

    @property
    def gram(self) -> FloatArray:
        """Products of the directions; summed over the parties they are the identity, if the coordinator is right."""
        return np.asarray(self.directions.T @ self.directions)


def covariance_sample(n_nodes: int, widths: list[int], seed: int) -> IntArray:
    """Return the nodes on which covariances are computed."""
    return draw_sample(n_nodes, max(MIN_SAMPLE, SAMPLE_OF_COMPONENT * max(widths)), seed, 4)


async def find_subspace(
    party: Party, found: Components, scale: int, widths: dict[str, int], key: bytes, seed: int, share_seed: bytes
) -> JointRows:
    """Compute this party's part of the joint rows; `widths` are the numbers of components of all parties.

    Components are divided by 2^scale, so that no row of any party is longer than one. `share_seed` is the seed of the
    shares that this party draws.
    """
    await Progress("joint subspace: covariances")
    session, parties = party.session, party.agreement.parties
    n_nodes, n_components = party.n_nodes, widths[party.name]
    nodes = covariance_sample(n_nodes, list(widths.values()), seed)

    def sample() -> bytes:
        return np.rint(np.ldexp(found.rows[nodes], COMPONENT_BITS - scale)).astype("<i8").tobytes()

    # What the pads hide is stored first: computed again, it might differ, and one pad would hide two contents.
    stored = np.frombuffer(await StoreResult("sample of components", sample), dtype="<u8")
    own = stored.astype(np.uint64).reshape(len(nodes), n_components)
    pads = {name: pad(key, session.id, "components", name, shape=(len(nodes), widths[name])) for name in parties}
    padded = own + pads[party.name]
    block = ring_product(np.ascontiguousarray(own.T), own)
    position = parties.index(party.name)
    corrections = []
    for other_position, other in enumerate(parties):
        if other == party.name:
            continue
        if position < other_position:
            term = ring_product(np.ascontiguousarray(own.T), pads[other])
        else:
            term = ring_product(np.ascontiguousarray(pads[other].T), padded)
        corrections.append(np.negative(term).ravel() + _pair_mask(session.pairs[other], term.size))
    message = Padded(
        sample=digest("sample", nodes.astype("<i8").tobytes()),
        n_components=n_components,
        words=_bytes_of(padded),
        covariance=_bytes_of(block),
        corrections=tuple(_bytes_of(one) for one in corrections),
        share_seed=share_seed,
    )
    content = hashlib.sha256(own.data).digest()  # one set of pads never hides two sets of components
    await CommitMask(framed(session.id, "components"), content)
    stage = RunStage(Step.SUBSPACE)
    await party.channel.send(party.agreement.aggregator, message, stage, shape=padded.shape)
    answer = await party.channel.receive(party.agreement.aggregator, Directions)
    directions = _checked(answer, n_components, party.agreement.parameters.n_clusters, party.agreement.aggregator)

    def project() -> bytes:
        return np.ldexp(found.rows @ directions, -scale).astype("<f8").tobytes()

    rows = np.frombuffer(await StoreResult("joint rows", project), dtype="<f8")
    return JointRows(rows.reshape(n_nodes, -1), directions)


def _pair_mask(pair: PairKeys, length: int) -> RingVector:
    """Return the mask of a correction; the other party of the pair adds its opposite."""
    label = framed("corrections", length)
    stream = keystream(pair.mask_key(tuple(sorted((pair.me, pair.other))), label, length, b""), length)
    return stream if pair.sign > 0 else np.negative(stream)


def _checked(found: Directions, n_components: int, n_clusters: int, sender: str) -> FloatArray:
    """Return the directions as a matrix, or refuse what no honest coordinator sends."""
    if not 1 <= found.size <= n_clusters or len(found.values) != 8 * n_components * found.size:
        raise PeerError(f"sent directions of {len(found.values)} bytes for {n_components} components", peer=sender)
    directions = np.frombuffer(found.values, dtype="<f8").reshape(n_components, found.size).astype(np.float64)
    if not np.isfinite(directions).all():
        raise PeerError("sent directions that are not finite", peer=sender)
    if np.linalg.norm(directions, 2) > 1 + _TOLERANCE:
        raise PeerError("sent directions that are longer than orthonormal directions can be", peer=sender)
    return directions


def check_orthonormal(total: FloatArray, sender: str) -> None:
    """Refuse directions that are not orthonormal; `total` is the sum of the Gram matrices of all parties."""
    if np.abs(total - np.eye(len(total))).max() > 1e-4:
        message = f"sent directions that are not orthonormal, or a party reports others than it received from {sender}"
        raise PeerError(message, peer=sender)


# The coordinator's side


@dataclass(frozen=True, eq=False)
class PaddedComponents:
    """The messages of all parties, checked, in the agreed order."""

    padded: list[RingMatrix]
    covariances: list[RingMatrix]
    corrections: list[list[RingVector]]  # for each party, those with the others in the agreed order


def read_components(messages: dict[str, Padded]) -> PaddedComponents:
    """Check the shapes of the padded components of all parties, and that they have the same sample."""
    widths = {name: one.n_components for name, one in messages.items()}
    for name, one in messages.items():
        row, own = 8 * widths[name], 8 * widths[name] ** 2
        if not row or not one.words or len(one.words) % row or len(one.covariance) != own:
            message = f"sent components of {len(one.words)} bytes and covariances of {len(one.covariance)} bytes"
            raise PeerError(f"{message} for {widths[name]} components", peer=name)
    _check_same("sample of nodes", {name: one.sample for name, one in messages.items()})
    _check_same("number of nodes", {name: len(one.words) // widths[name] for name, one in messages.items()})
    _check_corrections(messages)
    return PaddedComponents(
        [_words(one.words).reshape(-1, widths[name]) for name, one in messages.items()],
        [_words(one.covariance).reshape(widths[name], -1) for name, one in messages.items()],
        [[_words(part) for part in one.corrections] for one in messages.values()],
    )


def _check_corrections(messages: dict[str, Padded]) -> None:
    """Check the lengths of all corrections: one for each other party, of the size of the covariance with it."""
    lengths: dict[str, dict[str, int]] = {}  # in bytes, by sender and other party
    for name, one in messages.items():
        others = [other for other in messages if other != name]
        if len(one.corrections) != len(others):
            raise PeerError(f"sent {len(one.corrections)} corrections for {len(others)} parties", peer=name)
        lengths[name] = {other: len(part) for other, part in zip(others, one.corrections, strict=True)}

    def fits(sender: str, other: str) -> bool:
        return lengths[sender][other] == 8 * messages[sender].n_components * messages[other].n_components

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
    """Return the covariance of the turned components of all parties."""
    count = len(found.padded)
    blocks: list[list[RingMatrix]] = [[one] * count for one in found.covariances]
    for i in range(count):
        for j in range(i + 1, count):
            product = ring_product(np.ascontiguousarray(found.padded[i].T), found.padded[j])
            shape = product.shape
            product += found.corrections[i][j - 1].reshape(shape)
            product += found.corrections[j][i].reshape(shape)
            blocks[i][j], blocks[j][i] = product, np.ascontiguousarray(product.T)
    whole = np.block(blocks).view(np.int64).astype(np.float64)
    return np.ldexp(whole, -2 * COMPONENT_BITS)


def top_directions(covariance: FloatArray, n_clusters: int, key: bytes, session: bytes) -> FloatArray:
    """Return the eigenvectors of the largest eigenvalues, turned by a random rotation (all components × d)."""
    values, vectors = np.linalg.eigh(covariance)
    order = np.argsort(values)[::-1][:n_clusters]
    used = order[values[order] > max(float(values.max()), 0.0) * 1e-9]
    if not len(used):
        raise DataError("joint subspace: the components of all parties are zero, so there is nothing to cluster")
    return vectors[:, used] @ rotation(key, session, "directions", size=len(used))


def _bytes_of(words: RingMatrix) -> bytes:
    return np.ascontiguousarray(words).astype("<u8", copy=False).tobytes()


def _words(data: bytes) -> RingVector:
    return np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False)
