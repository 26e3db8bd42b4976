"""The coordinator's computations for the joint method: directions, unit rows, padded scores, anonymous clusters."""

from __future__ import annotations

import msgspec
import numpy as np

from kcagc.cluster.kmeans import fit_kmeans
from kcagc.errors import DataError, PeerError
from kcagc.protocol.messages import AnonymousClusters, Directions, Padded, Split, Step, encode, pack
from kcagc.protocol.parameters import Parameters
from kcagc.protocol.shared_rows import padded_scores, unit_rows
from kcagc.protocol.subspace import joint_covariance, read_components, top_directions
from kcagc.secagg.keys import framed
from kcagc.secagg.masks import Group, Sums
from kcagc.secagg.shares import RingMatrix, drawn_share

JOINT_STEPS = frozenset({Step.ROWS, Step.SHARES, Step.SCORES, Step.GEOMETRY})
_RESTARTS = 10
_GEOMETRY_SEED = 0  # the coordinator has no part in the common seed


def steps_of(parameters: Parameters) -> frozenset[Step]:
    """Return the steps of sums that a session may have."""
    if parameters.task == "predict":
        return frozenset({Step.PREDICTION})
    if parameters.method != "joint":
        return frozenset({Step.MARGIN, Step.LLOYD})
    if parameters.joint_rows == "coordinator":
        return frozenset({Step.GEOMETRY, Step.ASSIGNMENT})
    return frozenset({Step.ROWS, Step.SHARES, Step.SCORES, Step.LLOYD, Step.ASSIGNMENT})


def senders_of(group: Group, step: Step, parameters: Parameters) -> tuple[str, ...]:
    """Return the parties that send vectors in a step: all, or the two holders of shared rows."""
    of_shares = parameters.task == "fit" and parameters.method == "joint" and step is Step.LLOYD
    return group.members[:2] if of_shares or step in (Step.SHARES, Step.SCORES) else group.members


def answer_route(group: Group, step: Step) -> tuple[str, tuple[str, ...]]:
    """Return the kind of the answer to a sum in this step, and its receivers."""
    if step is Step.GEOMETRY:
        return "clusters", group.members
    if step in (Step.ROWS, Step.SCORES):
        return "split", group.members[:1]
    return "answer", () if step is Step.SHARES else group.members


class FoundDirections(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stored form of the joint directions: a part for each party, and the seed of the second holder's shares."""

    size: int
    n_components: list[int]
    parts: list[bytes]
    share_seed: bytes


def find_directions(parameters: Parameters, session: bytes, secret: bytes, messages: dict[str, Padded]) -> bytes:
    """Compute the joint directions of all parties, to be stored: they may differ in the last bits another time.

    The coordinator keeps no padded components: only the directions and a seed are needed later.
    """
    second, own = list(messages.items())[1]
    if len(own.share_seed) != 32:
        raise PeerError("sent a seed of shares that does not have 32 bytes", peer=second)
    found = read_components(messages)
    directions = top_directions(joint_covariance(found), parameters.n_clusters, secret, session)
    widths = [one.shape[1] for one in found.padded]
    split = np.split(directions, np.cumsum(widths)[:-1])
    parts = [np.ascontiguousarray(part, dtype="<f8").tobytes() for part in split]
    return msgspec.msgpack.encode(FoundDirections(directions.shape[1], widths, parts, own.share_seed))


class JointCoordinator:
    """What the coordinator keeps while it serves the joint method; `stored` are the joint directions."""

    def __init__(self, parameters: Parameters, session: bytes, stored: bytes) -> None:
        self._parameters, self._session = parameters, session
        self._found = msgspec.msgpack.decode(stored, type=FoundDirections)
        self._size, self._seed = self._found.size, self._found.share_seed
        self._rows: RingMatrix = np.zeros((0, 0), dtype=np.uint64)

    def directions(self) -> list[tuple[Directions, tuple[int, int]]]:
        """Return the message of each party, in the agreed order, and the shape of its directions."""
        parts = zip(self._found.parts, self._found.n_components, strict=True)
        return [(Directions(self._size, part), (width, self._size)) for part, width in parts]

    def take(self, step: Step, payload: bytes) -> None:
        """Keep the padded rows, which have no answer."""
        if step is Step.SHARES:
            self._rows = np.frombuffer(payload, dtype="<u8").astype(np.uint64).reshape(-1, self._size)

    def reply(self, group: Group, step: Step, number: int, payload: bytes, draw: int) -> bytes:
        """Return the message that answers a sum: the stored one, or the scores for the stored padded centres."""
        if step is not Step.SCORES:
            return payload
        centers = np.frombuffer(payload, dtype="<u8").astype(np.uint64)
        found = padded_scores(self._rows, centers.reshape(-1, self._parameters.n_clusters, self._size))
        found -= drawn_share(self._seed, self._session, framed(group.name, number), draw, shape=found.shape)
        return encode(Split(group.name, number, found.astype("<u8", copy=False).tobytes()))

    def answer(self, group: Group, step: Step, number: int, sums: Sums, draw: int) -> bytes:
        """Return what is stored of a sum: the encoded answer, or padded rows or centres.

        Scores are much larger than centres, and products of integers are the same when they are computed again.
        """
        words, size, k = sums.view(np.uint64), self._size, self._parameters.n_clusters
        label = framed(group.name, number)
        if step is Step.SCORES:
            if not len(self._rows) or not len(words) or len(words) % (k * size):
                raise PeerError(
                    f"sent centres of {len(words)} values, {k} times {size} in a set", peer=group.members[0]
                )
        elif len(words) % size:
            raise PeerError(f"sent rows of {len(words)} values, {size} in a row", peer=group.members[0])
        if step is Step.GEOMETRY:
            return self._clusters(group, number, sums.reshape(-1, size))
        if step is not Step.ROWS:
            return words.astype("<u8", copy=False).tobytes()
        found = unit_rows(sums.reshape(-1, size))
        found -= drawn_share(self._seed, self._session, label, draw, shape=found.shape)
        return encode(Split(group.name, number, found.astype("<u8", copy=False).tobytes()))

    def _clusters(self, group: Group, number: int, opened: Sums) -> bytes:
        """Cluster rows without names; the centre of a cluster with few nodes is zero, so that it says nothing."""
        rows = opened.astype(np.float64)
        length = np.linalg.norm(rows, axis=1)
        length[length == 0.0] = 1.0
        rows /= length[:, None]
        k = self._parameters.n_clusters
        try:
            found = fit_kmeans(rows, k, n_init=_RESTARTS, margin=False, random_state=_GEOMETRY_SEED)
        except DataError as error:  # fewer different rows than clusters
            message = "n_clusters: the joint rows have fewer different directions than clusters; use fewer clusters"
            raise DataError(message).with_public_message(message) from error
        large = np.bincount(found.labels, minlength=k) >= self._parameters.min_local_size
        centers = np.where(large[:, None], found.centers, 0.0).astype("<f8").tobytes()
        return encode(AnonymousClusters(group.name, number, pack(found.labels, k), centers))
