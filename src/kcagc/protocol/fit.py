"""A party's part in a fit: the basic method (Protocol 2), cells (Protocol 3), and their tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kcagc._types import IntArray
from kcagc.cluster.held_out import check_edges
from kcagc.cluster.joint import random_for
from kcagc.errors import DataError, PeerError
from kcagc.protocol.cells import initial_cells, intersect, virtual_nodes, without_duplicates
from kcagc.protocol.effects import Flush, Progress
from kcagc.protocol.fit_result import EXCHANGE, FitResult, MergeReport, Restarts, SweepResult, merge_report
from kcagc.protocol.joint import fit_jointly
from kcagc.protocol.joint_kmeans import JointClusters, SumCounts, affordable_restarts, joint_kmeans
from kcagc.protocol.local import LocalResult, PartyData, PartyModel, local_result
from kcagc.protocol.messages import Confirmation, Message, PackedLabels, RunStage, Step, pack, unpack
from kcagc.protocol.party import Party, PartyContext, total_of, total_words
from kcagc.protocol.plan import Merge
from kcagc.secagg.keys import digest


@dataclass(frozen=True, eq=False)
class _Clustering:
    """The joint labels, the transcript behind them, and how they were found."""

    labels: IntArray
    transcript: bytes
    merges: list[MergeReport]
    delays: int
    restarts: Restarts | None = None


async def fit_party(context: PartyContext, data: PartyData, *, seed: int) -> FitResult | SweepResult:
    """Run a fit as one party; all common choices come from the first party's seed."""
    party = Party(context)
    parameters, parties = party.agreement.parameters, party.agreement.parties
    n_clusters, n_nodes = max(parameters.n_clusters, parameters.most_clusters), data.graph.n_nodes
    if n_clusters > n_nodes:
        message = f"n_clusters: {n_clusters} clusters, but there are only {n_nodes} nodes"
        raise DataError(message, party=party.name)
    data.check_filter(party.name, parameters.filter)
    data.check_values(party.name)
    if parameters.orders or parameters.most_clusters:
        check_edges(data.graph)
    await party.open()
    own = "filtering, projecting and clustering" if parameters.has_local_clusters else "filtering and projecting"
    await Progress(f"{own} own features")
    common_seed = seed if party.name == parties[0] else None
    if parameters.method == "joint":
        return await fit_jointly(party, data, seed)
    if parameters.method == "basic":  # the proposed starts travel with the confirmations
        local = await local_result(party.name, data, parameters, seed)
        sent = await party.send_confirmations(data, seed=common_seed, starts=local.stored_starts.data)
        found = await _cluster_nodes(party, local, await party.receive_confirmations(sent), seed)
    else:  # the confirmations travel while this party computes
        sent = await party.send_confirmations(data, seed=common_seed)
        await Flush()
        local = await local_result(party.name, data, parameters, seed)
        kind = party.check_labels(local.measurement, local.whole, data.columns)
        found = await _cluster_cells(party, local, kind, sent, seed)
    model = PartyModel.of(party.session.id, party.name, parameters, local, found.labels)
    words = total_words(party.name, model.mean_distance(local.rows, found.labels))
    summed = await party.confirm_result(found.transcript, found.labels, "labels", words)
    total = total_of(summed)
    return FitResult(found.labels, total, model, found.merges, found.delays, local.rows, restarts=found.restarts)


def _common_seed(party: Party, received: dict[str, Confirmation], own: int) -> int:
    """Return the first party's seed."""
    first = party.agreement.parties[0]
    if party.name == first:
        return own
    if len(received[first].seed) != 8:
        raise PeerError("did not send the seed of common choices", peer=first)
    return int.from_bytes(received[first].seed, "big")


async def _cluster_nodes(
    party: Party, local: LocalResult, received: dict[str, Confirmation], own_seed: int
) -> _Clustering:
    """Run Protocol 2: every node is a row."""
    parameters, seed = party.agreement.parameters, _common_seed(party, received, own_seed)
    sizes = np.ones(len(local.rows), dtype=np.int64)
    proposed = {other: theirs.starts for other, theirs in received.items()}
    starts = _agreed_starts(party, proposed | {party.name: local.stored_starts.data}, sizes, seed)
    (merge,) = party.merges
    # Parties with different seeds or starts have no masks in common.
    sums = party.secure_sums(merge, digest("basic", seed.to_bytes(8, "big"), starts.astype("<i8").tobytes()))
    joint = await joint_kmeans(sums, local.rows, sizes, parameters.n_clusters, starts, seed, parameters)
    await sums.finish()
    delays = EXCHANGE * (2 + joint.rounds)  # hellos, confirmations, sums
    report = merge_report(merge, sizes, parameters.n_clusters, joint)
    restarts = Restarts.of(joint, np.arange(len(sizes))) if joint.others else None
    return _Clustering(joint.labels, sums.transcript, [report], delays, restarts)


def _agreed_starts(party: Party, proposed: dict[str, bytes], sizes: IntArray, seed: int) -> IntArray:
    """Take one party's proposal for each restart, by a rule that does not depend on the order of the parties."""
    n_restarts, k = party.agreement.parameters.n_init, party.agreement.parameters.n_clusters
    proposals = []
    for proposer, packed in proposed.items():
        nodes = np.frombuffer(packed if len(packed) % 8 == 0 else b"", dtype="<i8")
        if len(nodes) != n_restarts * k or (nodes < 0).any() or (nodes >= len(sizes)).any():
            raise PeerError(f"did not propose {n_restarts} times {k} nodes as initial centres", peer=proposer)
        proposals.append(nodes.reshape(n_restarts, k).tolist())
    chosen = []
    for restart in range(n_restarts):
        in_order = sorted(proposal[restart] for proposal in proposals)
        nodes = np.array(in_order[restart % len(in_order)], dtype=np.int64)
        chosen.append(without_duplicates(nodes, sizes, random_for(seed, 3, restart)))
    return np.array(chosen, dtype=np.int64)


async def _cluster_cells(
    party: Party, local: LocalResult, kind: str, confirmed: dict[str, Confirmation], own_seed: int
) -> _Clustering:
    """Run Protocol 3 once for each merge from this party's leaf to the root; `kind` is that of its local labels.

    Local labels leave before this party has received the confirmations of the others: a party with other nodes or
    another graph cannot decrypt them.
    """
    parameters, seed = party.agreement.parameters, own_seed
    labels, n_clusters, transcript, delays = local.labels, local.n_clusters, b"", EXCHANGE  # the hellos
    reports: list[MergeReport] = []
    restarts = None
    for merge in party.merges:
        own = PackedLabels(n_clusters, pack(labels, n_clusters), transcript, delays)
        await _send_labels(party, merge, own, "labels.merged" if reports else kind)
        if not reports:
            seed = _common_seed(party, await party.receive_confirmations(confirmed), own_seed)
        all_labels, transcript, delays = await _receive_labels(party, merge, labels, own)
        cells = intersect(all_labels)  # Protocol 3, lines 4 to 9
        wanted = parameters.n_clusters if merge.root else parameters.n_local_clusters
        sums = party.secure_sums(merge, digest("cells", seed.to_bytes(8, "big"), transcript))
        if len(cells) > wanted:
            rows = virtual_nodes(local.rows, cells, parameters.virtual_nodes, local.labels)  # lines 11 to 15
            n_restarts = affordable_restarts(parameters.n_init, len(cells), wanted)
            starts = initial_cells(cells.codes, cells.sizes, wanted, n_restarts, seed)
            joint = await joint_kmeans(sums, rows, cells.sizes, wanted, starts, seed, parameters)  # line 16
        elif len(cells) == wanted or not merge.root:  # every cell is a cluster, and there is nothing to sum
            joint = JointClusters(np.arange(len(cells)), 0, True, 0, SumCounts(), [])
        else:
            raise DataError(
                f"n_local_clusters: the local clusters have {len(cells)} non-empty intersections, too few for {wanted} "
                "clusters; use more local clusters"
            )
        await sums.finish()
        # Protocol 3, line 17: the nodes of a cell get the cluster of the cell.
        labels, n_clusters, transcript = joint.labels[cells.of_node], min(wanted, len(cells)), sums.transcript
        delays += EXCHANGE * joint.rounds
        restarts = Restarts.of(joint, cells.of_node) if joint.others and merge.root else None
        reports.append(merge_report(merge, cells.sizes, n_clusters, joint))
    return _Clustering(labels, transcript, reports, delays, restarts)


async def _send_labels(party: Party, merge: Merge, labels: PackedLabels, kind: str) -> None:
    """Send the labels of this party's child to the other children, if this party sends for it (Protocol 3, line 2)."""
    await Progress(f"{merge.group.title}: exchanging labels")
    contents: dict[str, Message] = dict.fromkeys(merge.routes().get(party.name, ()), labels)
    await party.send_encrypted(RunStage.of_group(Step.LABELS, merge.group), contents, kind)


async def _receive_labels(
    party: Party, merge: Merge, labels: IntArray, own: PackedLabels
) -> tuple[list[IntArray], bytes, int]:
    """Receive the labels of the other children; return the labels of all children, the new transcript and the delays.

    The new transcript joins the transcripts and the labels of all children. A party that received anything else, here
    or below, opens nothing with the others.
    """
    own_child = merge.child_of(party.name)
    senders = tuple(sender for child, sender in enumerate(merge.senders) if child != own_child)
    received = await party.receive_encrypted(RunStage.of_group(Step.LABELS, merge.group), senders, PackedLabels)
    most = max(party.agreement.parameters.n_local_clusters, 1)
    found = {merge.senders[own_child]: labels}
    for sender, theirs in received.items():
        if not 1 <= theirs.n_clusters <= most:
            raise PeerError(f"sent {theirs.n_clusters} clusters; the parties agreed on at most {most}", peer=sender)
        found[sender] = unpack(theirs.packed, len(labels), theirs.n_clusters, sender, "labels")
    children = received | {merge.senders[own_child]: own}
    all_labels = [found[sender] for sender in merge.senders]
    transcripts = [children[sender].transcript for sender in merge.senders]
    plain = [np.asarray(one, dtype="<i8").tobytes() for one in all_labels]
    slowest = max(child.delays for child in children.values())
    return all_labels, digest("children", *transcripts, *plain), slowest + EXCHANGE
