"""A party's part in the joint method: cluster the rows of the joint subspace, as on pooled data.

Either no role sees a row of the joint subspace (`joint_rows` = "shares"), or the coordinator sees the components of all
parties without names and clusters them (`joint_rows` = "coordinator"). On large graphs the clusters are found on a
sample. All other nodes, and new nodes later, go to the cluster whose centre has the most similar direction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
import numpy as np

from kcagc._types import Flags, FloatArray, IntArray
from kcagc.cluster.held_out import hold_out_edges
from kcagc.cluster.joint import clustered_sample, order_by_first_node, schedule
from kcagc.errors import DataError, PeerError
from kcagc.graph.filters import SearchedFilter
from kcagc.protocol.components import Components, find_components, note_joint_session
from kcagc.protocol.effects import Progress, StoreResult
from kcagc.protocol.fit_result import EXCHANGE, FitResult, Restarts, SweepResult, merge_report
from kcagc.protocol.joint_kmeans import JointClusters, SumCounts
from kcagc.protocol.local import (
    JointModel,
    PartyData,
    PartyModel,
)
from kcagc.protocol.messages import AnonymousClusters, Confirmation, Step, restore, store, unpack
from kcagc.protocol.party import Party, total_of, total_words
from kcagc.protocol.search import (
    FIT,
    common_sizes,
    component_size,
    exchange_sizes,
    search_plans,
    search_psi,
    sweep_clusters,
)
from kcagc.protocol.secure_sum import SecureSums
from kcagc.protocol.shared_kmeans import shared_kmeans
from kcagc.protocol.shared_rows import SCORE_BITS, SharedRows
from kcagc.protocol.subspace import (
    JointShares,
    SubspacePlan,
    find_subspace,
    mixtures_of_components,
    sample_of_components,
)
from kcagc.protocol.weights import SharedModel, assign, open_weights, part_of_scores
from kcagc.secagg.blinding import secret_order
from kcagc.secagg.keys import derive_key, digest
from kcagc.secagg.shares import joint_rotation

_GEOMETRY_BITS = 34
_TOLERANCE = 1e-2


@dataclass(frozen=True, eq=False)
class _Found:
    """Clusters of the sample, and what gives scores of other nodes: weights (components × k), or shares."""

    clusters: JointClusters
    weights: FloatArray
    directions: IntArray
    centers: IntArray

    def in_order(self) -> _Found:
        """Return the clusters numbered by their first node: a partition then has the same labels in every session."""
        k = max(self.weights.shape[1], len(self.centers))
        order = order_by_first_node(self.clusters.labels, k)
        labels = np.argsort(order)[self.clusters.labels]
        weights = self.weights[:, order] if self.weights.size else self.weights
        centers = self.centers[order] if self.centers.size else self.centers
        return _Found(replace(self.clusters, labels=labels), weights, self.directions, centers)


@dataclass(frozen=True, eq=False)
class _Ready:
    """What a fit starts from: the components, all widths, the common seed and scale, and the secure sums."""

    own: Components
    widths: dict[str, int]
    seed: int
    scale: int
    sums: SecureSums


async def fit_jointly(party: Party, data: PartyData, seed: int) -> FitResult | SweepResult:
    """Run the joint method after the hellos; before it, the searches that the parties agreed on."""
    await note_joint_session(data, party.agreement.parameters)
    if search_plans(party.agreement.parameters):
        return await _search_and_fit(party, data, seed)
    own = await _own_components(party, data)
    sent = await party.send_confirmations(data, seed=seed, scale=own.basis.scale, n_components=own.width)
    received = await party.receive_confirmations(sent)
    common_seed = _joined_seed(party, received, seed)
    scale, widths = common_sizes(party, own.basis.scale, own.width, received)
    (merge,) = party.merges
    sums = party.secure_sums(merge, digest("joint", common_seed.to_bytes(8, "big"), scale, *widths.values()))
    return await _fit(party, _Ready(own, widths, common_seed, scale, sums))


async def _search_and_fit(party: Party, data: PartyData, seed: int) -> FitResult | SweepResult:
    """Search for ψ, compare numbers of clusters, or fit with the ψ that was found."""
    parameters, found = party.agreement.parameters, None
    sent = await party.send_confirmations(data, seed=seed)
    common_seed = _joined_seed(party, await party.receive_confirmations(sent), seed)
    (merge,) = party.merges
    sums = party.secure_sums(merge, digest("joint search", common_seed.to_bytes(8, "big")))
    edges = hold_out_edges(data.graph, common_seed)
    if isinstance(data.filter, SearchedFilter):
        found = await search_psi(party, sums, data, edges, common_seed)
        data = replace(data, filter=data.filter.of(found.psi))
    if parameters.most_clusters:
        swept = await sweep_clusters(party, sums, data, edges, common_seed)
        every = np.concatenate([one for several in swept.labels.values() for one in several])
        opened = await party.confirm_result(sums.transcript, every, "sweep", words=swept.words)
        costs = 1.0 + np.ldexp(opened.astype(np.float64), -SCORE_BITS)  # scores omit the length of a row, which is 1
        effort = len(edges.nodes), sums.number, EXCHANGE * (2 + len(search_plans(parameters)) + sums.number)
        return SweepResult(party.session.id.hex(), swept.assess(costs), found, *effort)
    own = await _own_components(party, data)
    size = component_size(data, edges, own.basis.scale, own.width)
    scale, widths = await exchange_sizes(party, FIT, size)
    sums.transcript = digest(sums.transcript, FIT, scale, *widths.values())
    return replace(await _fit(party, _Ready(own, widths, common_seed, scale, sums)), psi_search=found)


async def _own_components(party: Party, data: PartyData) -> Components:
    """Return the components of this party, turned by a secret rotation."""
    key = derive_key(party.secret, party.session.id, "turn components")
    return await find_components(party.name, data, party.agreement.parameters, key)


async def _fit(party: Party, ready: _Ready) -> FitResult:
    """Cluster the components of all parties."""
    parameters, own, sums = party.agreement.parameters, ready.own, ready.sums
    in_shares = parameters.joint_rows == "shares"
    nodes = clustered_sample(party.n_nodes, parameters.n_clusters, ready.seed, in_shares=in_shares)
    searched = sums.compared
    own.scale_to(ready.scale)
    share_seed = derive_key(party.secret, party.session.id, "draw shares")
    if not in_shares:
        found = await _cluster_openly(party, sums, own, nodes, ready.widths)
    else:
        sample, mixed = await sample_of_components(own, nodes), None
        if len(nodes) < party.n_nodes:
            mixed = await mixtures_of_components(own, party.n_nodes, ready.seed)
        subspace = SubspacePlan(parameters.n_clusters)
        joint = await find_subspace(party, sums, sample, nodes, ready.widths, share_seed, subspace, mixed)
        found = await _cluster_shares(party, sums, joint, ready.seed, share_seed)
    found = found.in_order()
    counts = np.bincount(found.clusters.labels, minlength=parameters.n_clusters)
    known = counts >= parameters.min_local_size
    shared = SharedModel(found.directions, found.centers, tuple(ready.widths.values()), known)
    labels = np.full(party.n_nodes, -1, dtype=np.int64)
    labels[nodes] = found.clusters.labels
    others = np.flatnonzero(labels < 0)
    weights = found.weights[:, known] if found.weights.size else None
    opens_weights = bool(len(others)) and weights is None
    if len(others):
        if not known.any():
            raise DataError(
                f"min_local_size: no cluster has so many of the {len(nodes)} nodes in the sample; use fewer clusters, "
                "or a smaller min_local_size"
            )
        opened = await open_weights(party, sums, shared, share_seed) if weights is None else weights
        scores = await _stored_scores(party.name, own, others, opened)
        labels[others] = np.flatnonzero(known)[await assign(sums, Step.ASSIGNMENT, scores)]
    elif weights is None:
        await sums.finish()
    await sums.finish()
    model = _model(party, own, ready.scale, labels, shared, weights)

    def cost() -> bytes:
        return np.array([model.mean_distance(own.rows, labels)], dtype="<f8").tobytes()

    own_cost = np.frombuffer(await StoreResult("final cost", cost), dtype="<f8")  # leaves under a mask
    words = total_words(party.name, float(own_cost[0]))
    summed = await party.confirm_result(sums.transcript, labels, "labels", words)
    effort = replace(found.clusters, rounds=sums.number, sums=replace(found.clusters.sums, search=searched))
    (merge,) = party.merges
    report = merge_report(merge, np.ones(len(nodes), dtype=np.int64), parameters.n_clusters, effort)
    # Hellos, confirmations, sums, and weights that are relayed. In shares, the components have an answer besides, and
    # the padded rows, which count as a sum, have none.
    delays = EXCHANGE * (2 + sums.number + opens_weights)
    rows = np.full(party.n_nodes, -1, dtype=np.int64)
    rows[nodes] = np.arange(len(nodes))
    restarts = Restarts.of(found.clusters, rows) if found.clusters.others else None
    return FitResult(labels, total_of(summed), model, [report], delays, own.rows, restarts=restarts)


async def _stored_scores(name: str, own: Components, nodes: IntArray, weights: FloatArray) -> IntArray:
    """Return this party's part of the scores of nodes outside the sample; stored, as it leaves under masks."""

    def compute() -> bytes:
        return part_of_scores(own.rows, nodes, weights, name).tobytes()

    stored = np.frombuffer(await StoreResult("scores of other nodes", compute), dtype="<i4")
    return stored.reshape(len(nodes), -1)


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


async def _cluster_shares(party: Party, sums: SecureSums, joint: JointShares, seed: int, share_seed: bytes) -> _Found:
    """Cluster rows that no role sees."""
    parameters = party.agreement.parameters
    await Progress("joint clustering: unit rows")
    rows = await SharedRows.of(sums, joint.rows, share_seed)
    plan = schedule(party.n_nodes, parameters.n_clusters, parameters.max_iter)
    found = await shared_kmeans(rows, parameters.n_clusters, seed, plan)
    return _Found(found.found, np.zeros((0, 0)), joint.directions, found.centers)


async def _cluster_openly(
    party: Party, sums: SecureSums, own: Components, nodes: IntArray, widths: dict[str, int]
) -> _Found:
    """Send components without names, after a common secret rotation and in a secret order, to be clustered.

    They are rounded after the rotation only: turned integers would be points of a lattice, which shows the rotation.
    """
    key, session, label, aggregator = sums.group_key, sums.session.id, sums.label(), sums.group.aggregator
    n_nodes, k, n_components = len(nodes), party.agreement.parameters.n_clusters, sum(widths.values())
    start = sum(list(widths.values())[: party.agreement.parties.index(party.name)])
    turn = joint_rotation(key, session, n_components)[start : start + widths[party.name]]
    order = secret_order(key, session, label, n_nodes)

    def compute() -> bytes:
        return np.rint(np.ldexp(own.rows[nodes[order]] @ turn, _GEOMETRY_BITS)).astype("<i8").tobytes()

    words = np.frombuffer(await StoreResult("turned components", compute), dtype="<u8").astype(np.uint64)
    first = party.name == party.agreement.parties[0]  # tells the coordinator how long a row is
    words = np.append(words, np.uint64(n_components if first else 0))
    await Progress("joint clustering: waiting for the coordinator")
    number = await sums.send_words(Step.GEOMETRY, words, sums.group.members)
    answer, payload = await party.channel.receive_with_bytes(aggregator, AnonymousClusters)
    if (answer.group, answer.number, len(answer.weights)) != (sums.group.name, number, 8 * k * n_components):
        raise PeerError(f"sent clusters with weights of {len(answer.weights)} bytes", peer=aggregator)
    sums.transcript = digest(sums.transcript, payload)
    labels = np.empty(n_nodes, dtype=np.int64)
    labels[order] = unpack(answer.labels, n_nodes, k, aggregator, "labels")
    weights = np.frombuffer(answer.weights, dtype="<f8").reshape(n_components, k)
    if not np.linalg.norm(weights, axis=0).max() <= 1.0 + _TOLERANCE:
        raise PeerError("sent weights that are not directions of length one", peer=aggregator)
    await sums.finish()
    nothing = np.zeros((0, 0), dtype=np.int64)
    return _Found(JointClusters(labels, 1, True, sums.number, SumCounts(), []), turn @ weights, nothing, nothing)


def _model(
    party: Party, own: Components, scale: int, labels: IntArray, shared: SharedModel, weights: FloatArray | None
) -> PartyModel:
    """Return this party's part of the model."""
    used, among = np.unique(labels, return_inverse=True)
    basis = own.basis
    joint = JointModel(
        scored=tuple(np.flatnonzero(shared.known).tolist()),
        widths=shared.widths,
        weights=None if weights is None else store(weights),
        directions=store(shared.directions),
        centers=store(shared.centers),
    )
    return PartyModel(
        session=party.session.id.hex(),
        party=party.name,
        parameters=party.agreement.parameters,
        n_nodes=len(labels),
        filter=basis.filter,
        embedder=msgspec.structs.replace(basis.embedder, divisor=2.0**scale),
        clusters=tuple(used.tolist()),
        stored_centers=store(own.engine.means(own.rows, among, len(used))),
        joint=joint,
    )


async def predict_jointly(party: Party, sums: SecureSums, model: JointModel, rows: FloatArray) -> IntArray:
    """Return the clusters of new nodes, whose components are `rows`."""
    if not model.scored:
        message = "the model has no centres: all clusters of the fit are too small; fit with a smaller min_local_size"
        raise DataError(message, party=party.name)
    k = party.agreement.parameters.n_clusters
    known: Flags = np.isin(np.arange(k), model.scored)
    if model.weights is None:
        shared = SharedModel(restore(model.directions).copy(), restore(model.centers).copy(), model.widths, known)
        seed = derive_key(party.secret, party.session.id, "draw shares")
        weights = await open_weights(party, sums, shared, seed)
    else:
        weights = restore(model.weights)
        await sums.finish()
    scores = part_of_scores(rows, np.arange(len(rows)), weights, party.name)
    places = await assign(sums, Step.PREDICTION, scores)
    await sums.finish()
    return np.array(model.scored, dtype=np.int64)[places]
