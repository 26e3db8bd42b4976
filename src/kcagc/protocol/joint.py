"""A party's part in the joint method: cluster the rows of the joint subspace, as on pooled data.

The parties find their joint subspace with the coordinator. Then either no role sees the rows of it (`joint_rows` =
"shares"), or the coordinator sees them without names and clusters them (`joint_rows` = "coordinator"). On large graphs
the clusters are found on a sample. All other nodes, and new nodes later, go to the cluster whose centre has the most
similar direction; each party computes its own part of the scores, and comparisons find the winner.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.cluster.joint import clustered_sample, order_by_first_node
from kcagc.cluster.lloyd import weighted_means
from kcagc.errors import DataError, PeerError
from kcagc.protocol.effects import Progress
from kcagc.protocol.fit_result import EXCHANGE, FitResult, merge_report
from kcagc.protocol.joint_kmeans import JointClusters, SumCounts
from kcagc.protocol.local import ComponentBasis, PartyData, PartyModel, find_components
from kcagc.protocol.messages import (
    AnonymousClusters,
    CenterShares,
    Confirmation,
    RunStage,
    Step,
    restore,
    store,
    unpack,
)
from kcagc.protocol.party import Party
from kcagc.protocol.secure_sum import SecureSums
from kcagc.protocol.shared_kmeans import shared_kmeans
from kcagc.protocol.shared_rows import SharedRows
from kcagc.protocol.subspace import JointRows, check_orthonormal, find_subspace
from kcagc.protocol.tournament import GROUP_SIZE, nearest
from kcagc.secagg.blinding import secret_order
from kcagc.secagg.keys import derive_key, digest
from kcagc.secagg.masks import FRACTION_BITS, MAX_DISTANCE
from kcagc.secagg.shares import ROW_BITS, rotation
from kcagc.text import listed

BATCH_VALUES = 1 << 20  # scores that are compared together
_PROBES = 1 << 12  # room for probes, so that the padded length of a vector is not the next larger one
_GEOMETRY_BITS = 40
_ROW_BITS, _WEIGHT_BITS = 22, 24  # up to 2 + 22 + 24 bits, and a sum over a few coordinates, are exact in float64


@dataclass(frozen=True, eq=False)
class _Found:
    """Clusters of the sample, and the centres that the parties may know (k × d; NaN for the others)."""

    nodes: IntArray
    clusters: JointClusters
    centers: FloatArray

    def in_order(self) -> _Found:
        """Return the clusters numbered by their first node: a partition then has the same labels in every session."""
        order = order_by_first_node(self.clusters.labels, len(self.centers))
        labels = np.argsort(order)[self.clusters.labels]
        return _Found(self.nodes, replace(self.clusters, labels=labels), self.centers[order])


async def fit_jointly(party: Party, data: PartyData, seed: int) -> FitResult:
    """Run the joint method after the hellos."""
    parameters = party.agreement.parameters
    key = derive_key(party.secret, party.session.id, "turn components")
    own = await find_components(party.name, data, parameters, key)
    basis, n_components = own.basis, own.basis.embedder.basis.shape[1]
    sent = await party.send_confirmations(data, seed=seed, scale=basis.scale, n_components=n_components)
    received = await party.receive_confirmations(sent)
    common_seed = _joined_seed(party, received, seed)
    scale = max(basis.scale, *(one.scale for one in received.values()))
    theirs = {name: one.n_components for name, one in received.items()} | {party.name: n_components}
    widths = {name: theirs[name] for name in party.agreement.parties}
    (merge,) = party.merges
    sums = party.secure_sums(merge, digest("joint", common_seed.to_bytes(8, "big"), scale, *widths.values()))
    share_seed = derive_key(party.secret, party.session.id, "draw shares")
    joint = await find_subspace(party, own, scale, widths, sums.group_key, common_seed, share_seed)
    del own  # the components, the largest array
    if parameters.joint_rows == "coordinator":
        found = await _cluster_openly(party, sums, joint)
    else:
        found = await _cluster_shares(party, sums, joint, common_seed, share_seed)
    found = found.in_order()
    weights, scored = _weights(found.centers)
    labels = await _assign_others(sums, joint.rows, weights, scored, found)
    await sums.finish()
    model = _model(party, basis, scale, joint, labels, weights, scored)
    totals = np.concatenate([[model.mean_distance(joint.rows, labels)], joint.gram.ravel()])
    summed = await party.confirm_result(sums.transcript, labels, "labels", totals)
    check_orthonormal(summed[1:].reshape(joint.gram.shape), party.agreement.aggregator)
    report = merge_report(merge, np.ones(len(found.nodes), dtype=np.int64), parameters.n_clusters, found.clusters)
    delays = EXCHANGE * (3 + sums.number)
    return FitResult(labels, float(summed[0]), model, [report], delays, joint.rows)


def _joined_seed(party: Party, received: dict[str, Confirmation], own: int) -> int:
    """Return a seed to which all parties have contributed."""
    seeds = {other: theirs.seed for other, theirs in received.items()} | {party.name: own.to_bytes(8, "big")}
    for name, one in seeds.items():
        if len(one) != 8:
            raise PeerError("did not send its seed of common choices", peer=name)
    return join_seeds([seeds[name] for name in party.agreement.parties])


def join_seeds(seeds: list[bytes]) -> int:
    """Return the common seed that follows from the seeds of all parties, in the agreed order."""
    return int.from_bytes(digest("common seed", *seeds)[:7], "big")


async def _cluster_shares(party: Party, sums: SecureSums, joint: JointRows, seed: int, share_seed: bytes) -> _Found:
    """Cluster rows that no role sees."""
    parameters = party.agreement.parameters
    k, n_nodes = parameters.n_clusters, len(joint.rows)
    nodes = clustered_sample(n_nodes, k, seed)
    await Progress("joint clustering: unit rows")
    rows = await SharedRows.of(sums, joint.rows[nodes], share_seed)
    found = await shared_kmeans(rows, k, seed, parameters.max_iter)
    await sums.finish()
    centers = await _open_centers(party, sums, found.centers, found.found.labels, parameters.min_local_size)
    return _Found(nodes, found.found, centers)


async def _open_centers(party: Party, sums: SecureSums, share: IntArray, labels: IntArray, least: int) -> FloatArray:
    """Open the centres of clusters with enough nodes to all parties."""
    large = np.bincount(labels, minlength=len(share)) >= least
    sent = np.where(large[:, None], share, 0)
    stage, total = RunStage(Step.CENTERS), np.zeros(share.shape, dtype=np.int64)
    if party.name in sums.holders:
        content = CenterShares(sent.astype("<i8").tobytes())
        await party.send_encrypted(stage, dict.fromkeys(party.others, content), "centers")
        total += sent
    senders = tuple(holder for holder in sums.holders if holder != party.name)
    received = await party.receive_encrypted(stage, senders, CenterShares)
    for sender, theirs in received.items():
        if len(theirs.shares) != 8 * share.size:
            raise PeerError(f"sent shares of centres of {len(theirs.shares)} bytes", peer=sender)
        total += np.frombuffer(theirs.shares, dtype="<i8").reshape(share.shape)
    # Parties that received other shares than the others open nothing with them from here on.
    sums.transcript = digest(sums.transcript, total.astype("<i8").tobytes())
    centers = np.ldexp(total.astype(np.float64), -ROW_BITS)
    if not _are_means(centers):
        roles = listed([*sums.holders, sums.group.aggregator], last="or")
        raise PeerError(f"the shares of the centres do not add up to means of unit rows: {roles} computed wrongly")
    return np.where(large[:, None], centers, np.nan)


def _are_means(centers: FloatArray) -> bool:
    """Return whether centres can be means of rows of length one."""
    return bool((np.abs(centers) <= 2.0).all() and (np.linalg.norm(centers, axis=1) <= 1.0 + 1e-3).all())


async def _cluster_openly(party: Party, sums: SecureSums, joint: JointRows) -> _Found:
    """Send rows without names, after a secret rotation and in a secret order; the coordinator clusters them."""
    key, session, label = sums.group_key, sums.session.id, sums.label()
    n_nodes, size = joint.rows.shape
    k = party.agreement.parameters.n_clusters
    turn, order = rotation(key, session, "geometry", size=size), secret_order(key, session, label, n_nodes)
    turned = np.zeros_like(joint.rows)
    for place in range(size):  # in this order on every machine
        turned += joint.rows[:, place, None] * turn[place]
    words = np.rint(np.ldexp(turned, _GEOMETRY_BITS)).astype(np.int64)[order].view(np.uint64)
    await Progress("joint clustering: waiting for the coordinator")
    number = await sums.send_words(Step.GEOMETRY, words.ravel(), sums.group.members)
    answer, payload = await party.channel.receive_with_bytes(sums.group.aggregator, AnonymousClusters)
    if (answer.group, answer.number, len(answer.centers)) != (sums.group.name, number, 8 * k * size):
        raise PeerError(f"sent clusters with centres of {len(answer.centers)} bytes", peer=sums.group.aggregator)
    sums.transcript = digest(sums.transcript, payload)
    labels = np.empty(n_nodes, dtype=np.int64)
    labels[order] = unpack(answer.labels, n_nodes, k, sums.group.aggregator, "labels")
    centers = np.frombuffer(answer.centers, dtype="<f8").reshape(k, size)
    if not _are_means(centers):
        raise PeerError("sent centres that are not means of unit rows", peer=sums.group.aggregator)
    await sums.finish()
    found = JointClusters(labels, 1, True, sums.number, SumCounts(), [])
    return _Found(np.arange(n_nodes), found, centers @ turn.T)


def _weights(centers: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the directions of the centres that are known (d × clusters), and their clusters."""
    length = np.linalg.norm(centers, axis=1)
    scored = np.flatnonzero(length > 0)
    return np.ascontiguousarray((centers[scored] / length[scored, None]).T), scored


async def _assign_others(
    sums: SecureSums, rows: FloatArray, weights: FloatArray, scored: IntArray, found: _Found
) -> IntArray:
    """Return the labels of all nodes: nodes outside the sample go to the centre of the most similar direction."""
    labels = np.full(len(rows), -1, dtype=np.int64)
    labels[found.nodes] = found.clusters.labels
    others = np.flatnonzero(labels < 0)
    if len(others):
        if not len(scored):
            raise DataError(
                f"min_local_size: no cluster has so many of the {len(found.nodes)} nodes in the sample; use fewer "
                "clusters, or a smaller min_local_size"
            )
        labels[others] = scored[await assign(sums, Step.ASSIGNMENT, rows[others], weights)]
    return labels


async def assign(sums: SecureSums, step: Step, rows: FloatArray, weights: FloatArray) -> IntArray:
    """Return the place of the highest score of each row."""
    count = weights.shape[1]
    # A knockout needs the fewest comparisons, small groups the fewest sums.
    group_size = GROUP_SIZE if len(rows) * count <= BATCH_VALUES else 2
    batch, found = max(1, (BATCH_VALUES - _PROBES) // count), []
    for start in range(0, len(rows), batch):
        await Progress("assigning nodes", start, len(rows))
        scores = joint_scores(rows[start : start + batch], weights, sums.channel.me)
        candidates = np.tile(np.arange(count), (len(scores), 1))
        winners, _, _ = await nearest(sums, step, -scores, candidates, group_size=group_size)
        found.append(winners)
    return np.concatenate(found)


def joint_scores(rows: FloatArray, weights: FloatArray, name: str) -> IntArray:
    """Return this party's part of the scores as integers.

    Products of integers below 2^53 are exact whatever the order of the additions: the same when computed again.
    """
    if rows.size and not np.linalg.norm(rows, axis=1).max() <= MAX_DISTANCE:
        message = f"a new row is more than {MAX_DISTANCE:g} times as long as any row of the fit; check its values"
        raise DataError(message, party=name).with_public_message("aborted")
    whole = np.rint(np.ldexp(rows, _ROW_BITS)) @ np.rint(np.ldexp(weights, _WEIGHT_BITS))
    found: IntArray = np.rint(np.ldexp(whole, FRACTION_BITS - _ROW_BITS - _WEIGHT_BITS)).astype(np.int64)
    return found


def _model(
    party: Party,
    basis: ComponentBasis,
    scale: int,
    joint: JointRows,
    labels: IntArray,
    weights: FloatArray,
    scored: IntArray,
) -> PartyModel:
    """Return this party's part of the model: how its columns become joint rows, their means, and the known centres."""
    used, among = np.unique(labels, return_inverse=True)
    empty = np.zeros((len(used), joint.rows.shape[1]))
    centers = weighted_means(joint.rows, np.ones(len(labels)), among, empty)
    to_joint = store(restore(basis.embedder.basis) @ joint.directions)
    return PartyModel(
        session=party.session.id.hex(),
        party=party.name,
        parameters=party.agreement.parameters,
        n_nodes=len(labels),
        filter=basis.filter,
        embedder=msgspec.structs.replace(basis.embedder, basis=to_joint, divisor=2.0**scale),
        clusters=tuple(used.tolist()),
        stored_centers=store(centers),
        scored=tuple(scored.tolist()),
        stored_weights=store(weights),
    )
