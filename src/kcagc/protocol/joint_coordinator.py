"""The coordinator's computations for the joint method: directions, unit rows, padded scores, anonymous clusters."""

from __future__ import annotations

import msgspec
import numpy as np

from kcagc._types import FloatArray
from kcagc.cluster.kmeans import fit_kmeans
from kcagc.cluster.local import fit_projection
from kcagc.errors import DataError, PeerError
from kcagc.protocol.messages import AnonymousClusters, Padded, Split, Step, encode, pack
from kcagc.protocol.parameters import Parameters
from kcagc.protocol.search import SearchPlan
from kcagc.protocol.shared_rows import CHECK_ROWS, padded_scores, score_chunks, unit_rows
from kcagc.protocol.subspace import (
    SUBSPACE_SHARES,
    SubspacePlan,
    joint_covariance,
    read_components,
    top_directions,
)
from kcagc.protocol.weights import padded_weights
from kcagc.secagg.keys import framed
from kcagc.secagg.masks import Group, Sums
from kcagc.secagg.shares import DIRECTION_BITS, SEED_BYTES, RingMatrix, drawn_share, ring_product, to_ring

JOINT_STEPS = frozenset({Step.ROWS, Step.SHARES, Step.SCORES, Step.GEOMETRY, Step.WEIGHTS})
ASSIGNING_STEPS = frozenset({Step.ASSIGNMENT, Step.PREDICTION})  # those of nodes outside the sample, after all others
_OF_HOLDERS = frozenset({Step.ROWS, Step.SHARES, Step.SCORES, Step.WEIGHTS})
_RESTARTS = 10
_GEOMETRY_SEED = 0  # the coordinator has no part in the common seed


SEARCH_STEPS = frozenset({Step.ROWS, Step.SHARES, Step.SCORES, Step.LLOYD})


def steps_of(parameters: Parameters) -> frozenset[Step]:
    """Return the steps of sums that a session may have."""
    in_shares = parameters.method == "joint" and parameters.joint_rows == "shares"
    if parameters.task == "predict":
        return frozenset({Step.PREDICTION, *([Step.WEIGHTS] if in_shares else [])})
    if parameters.method != "joint":
        return frozenset({Step.MARGIN, Step.LLOYD})
    if in_shares:
        return frozenset({Step.ROWS, Step.SHARES, Step.SCORES, Step.LLOYD, Step.WEIGHTS, Step.ASSIGNMENT})
    return frozenset({Step.GEOMETRY, Step.ASSIGNMENT})


def senders_of(group: Group, step: Step, parameters: Parameters) -> tuple[str, ...]:
    """Return the parties that send vectors in a step: all, or the two holders of shared rows."""
    of_shares = parameters.task == "fit" and parameters.method == "joint" and step is Step.LLOYD
    return group.members[:2] if of_shares or step in _OF_HOLDERS else group.members


def answer_route(group: Group, step: Step) -> tuple[str, tuple[str, ...]]:
    """Return the kind of the answer to a sum in this step, and its receivers."""
    if step is Step.GEOMETRY:
        return "clusters", group.members
    if step in (Step.ROWS, Step.SCORES, Step.WEIGHTS):
        return "split", group.members[:1]
    return "answer", () if step is Step.SHARES else group.members


class FoundDirections(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stored form of the joint directions: the first holder's shares of directions and rows, and the seed."""

    size: int
    words: bytes
    share_seed: bytes


def find_directions(plan: SubspacePlan, session: bytes, secret: bytes, messages: dict[str, Padded]) -> bytes:
    """Compute joint directions and padded joint rows, in shares; stored, as they may differ in the last bits.

    The coordinator keeps no padded components and no directions: only the shares of the first holder and a seed.
    """
    second, own = list(messages.items())[1]
    if len(own.share_seed) != SEED_BYTES:
        raise PeerError(f"sent a seed of shares that does not have {SEED_BYTES} bytes", peer=second)
    size = plan.size({name: one.n_components for name, one in messages.items()})
    all_directions, all_rows = [], []
    for number, found in enumerate(read_components(messages, plan.blocks)):
        label = f"{plan.purpose} {number}" if plan.purpose else ""
        turned = top_directions(joint_covariance(found), size, secret, session, label)
        all_directions.append(to_ring(turned, DIRECTION_BITS))
        all_rows.append(ring_product(np.concatenate(found.padded, axis=1), all_directions[-1]))
    directions, rows = np.concatenate(all_directions), np.concatenate(all_rows)
    directions = directions - drawn_share(own.share_seed, session, f"directions{plan.purpose}", shape=directions.shape)
    rows -= drawn_share(own.share_seed, session, f"joint rows{plan.purpose}", own.draw, shape=rows.shape)
    words = np.concatenate([directions.ravel(), rows.ravel()]).astype("<u8", copy=False).tobytes()
    return msgspec.msgpack.encode(FoundDirections(size, words, own.share_seed))


class JointCoordinator:
    """What the coordinator keeps while it serves the joint method, or one of its searches if there is a plan.

    `stored` are the joint directions, if any.
    """

    def __init__(
        self, parameters: Parameters, session: bytes, stored: bytes = b"", plan: SearchPlan | None = None
    ) -> None:
        self._parameters, self._session, self._plan = parameters, session, plan
        self._blocks = 1 if plan is None else plan.blocks
        self._scored = 0  # sums of scores of a search
        self._found = msgspec.msgpack.decode(stored, type=FoundDirections) if stored else FoundDirections(0, b"", b"")
        self._size = self._found.size
        self._rows: RingMatrix = np.zeros((0, 0), dtype=np.uint64)
        self.opens_weights = False

    def shares_of_rows(self) -> tuple[Split, tuple[int, int]]:
        """Return the first holder's shares of the directions and of the joint rows, and their shape."""
        shape = (len(self._found.words) // (8 * self._size), self._size)
        return Split(SUBSPACE_SHARES, 0, self._found.words), shape

    def take(self, step: Step, payload: bytes) -> None:
        """Keep the padded rows, which have no answer, and that the holders open weights."""
        if step is Step.SHARES:
            self._rows = np.frombuffer(payload, dtype="<u8").astype(np.uint64).reshape(-1, self._size)
        self.opens_weights = self.opens_weights or step is Step.WEIGHTS

    def _sets(self, n_words: int) -> tuple[list[int], list[int]]:
        """Return the numbers of centres of all sets in a sum of scores, and the blocks that the sets belong to."""
        if self._plan is None:
            k = self._parameters.n_clusters
            count = n_words // (2 * k * self._size)
            return [k] * count, [0] * count
        n_nodes = len(self._rows) // self._blocks - CHECK_ROWS
        chunks = score_chunks([one.k for one in self._plan.sets], n_nodes)
        some = self._plan.sets[chunks[self._scored % len(chunks)]]
        return [one.k for one in some], [one.block for one in some]

    def reply(self, group: Group, step: Step, number: int, payload: bytes, draw: int) -> bytes:
        """Return the message that answers a sum: the stored one, or the scores for the stored padded centres."""
        if step is not Step.SCORES:
            return payload
        centers = np.frombuffer(payload, dtype="<u8").astype(np.uint64)
        sizes, blocks = self._sets(len(centers))
        self._scored += 1
        found = padded_scores(self._rows, centers.reshape(-1, self._size), sizes, blocks, self._blocks)
        return self._split(group, number, found, draw, self._found.share_seed)

    def answer(self, group: Group, step: Step, number: int, sums: Sums, draw: int, seed: bytes = b"") -> bytes:
        """Return what is stored of a sum: the encoded answer, or padded rows or centres.

        Scores are much larger than centres, and products of integers are the same when they are computed again. `seed`
        is that of the second holder's shares in a prediction.
        """
        words, size, k = sums.view(np.uint64), self._size, self._parameters.n_clusters
        if step is Step.GEOMETRY:
            return self._clusters(group, number, sums)
        if step is Step.WEIGHTS:
            weights, seed = padded_weights(words, k), self._found.share_seed or seed
            if weights is None or len(seed) != SEED_BYTES:
                message = f"sent directions and centres of {len(words)} values, and a seed of {len(seed)} bytes"
                raise PeerError(message, peer=group.members[1])
            return self._split(group, number, weights, draw, seed)
        if step is Step.SCORES:
            expected = 2 * size * sum(self._sets(len(words))[0]) if len(self._rows) else 0
            if not expected or len(words) != expected:
                raise PeerError(f"sent centres of {len(words)} values, not of {expected}", peer=group.members[0])
        elif len(words) % size:
            raise PeerError(f"sent rows of {len(words)} values, {size} in a row", peer=group.members[0])
        if step is Step.ROWS:
            return self._split(group, number, unit_rows(sums.reshape(-1, size)), draw, self._found.share_seed)
        return words.astype("<u8", copy=False).tobytes()

    def _split(self, group: Group, number: int, found: RingMatrix, draw: int, seed: bytes) -> bytes:
        """Return the message with the first holder's share of some numbers."""
        share = found - drawn_share(seed, self._session, framed(group.name, number), draw, shape=found.shape)
        return encode(Split(group.name, number, share.astype("<u8", copy=False).tobytes()))

    def _clusters(self, group: Group, number: int, opened: Sums) -> bytes:
        """Cluster rows without names; return the weights of the components for the clusters with enough nodes.

        The last value tells how many components a row has.
        """
        n_components = int(opened[-1])
        if n_components < 1 or (len(opened) - 1) % n_components:
            raise PeerError(f"sent {len(opened) - 1} values of {n_components} components", peer=group.members[0])
        rows = opened[:-1].reshape(-1, n_components).astype(np.float64)
        k = self._parameters.n_clusters
        projection = fit_projection(rows, k)
        units = projection.transform(rows, "unit")
        signs = _signs_of_axes(units)
        try:
            found = fit_kmeans(units * signs, k, n_init=_RESTARTS, margin=False, random_state=_GEOMETRY_SEED)
        except DataError as error:  # fewer different rows than clusters
            message = "n_clusters: the joint rows have fewer different directions than clusters; use fewer clusters"
            raise DataError(message).with_public_message(message) from error
        large = np.bincount(found.labels, minlength=k) >= self._parameters.min_local_size
        length = np.linalg.norm(found.centers, axis=1)
        length[length == 0.0] = 1.0
        directions = np.where(large[:, None], found.centers * signs / length[:, None], 0.0)
        weights = (projection.basis @ directions.T).astype("<f8").tobytes()
        return encode(AnonymousClusters(group.name, number, pack(found.labels, k), weights))


def _signs_of_axes(rows: FloatArray) -> FloatArray:
    """Return the sign of each axis that makes the sum of cubes of its coordinates positive.

    A singular vector may as well point the other way. With these signs, rows have the same coordinates in every
    session, whatever their order and rotation; so k-means starts from the same nodes and finds the same clusters.
    """
    return np.where((rows**3).sum(axis=0) < 0.0, -1.0, 1.0)
