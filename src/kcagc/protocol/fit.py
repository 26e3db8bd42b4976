"""A party's part in a fit: the basic method (Protocol 2), cells (Protocol 3), and their tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.errors import DataError, PeerError
from kcagc.protocol.cells import intersect, virtual_nodes
from kcagc.protocol.effects import flush, progress, stored_result
from kcagc.protocol.joint_kmeans import Counted, Joint, Round, affordable, joint_kmeans
from kcagc.protocol.local import LocalResult, PartyData, compute_local, decode_local, encode_local
from kcagc.protocol.messages import Confirmation, Message, PackedLabels
from kcagc.protocol.model import PartyModel
from kcagc.protocol.packing import pack, unpack
from kcagc.protocol.party import Party, PartyContext
from kcagc.protocol.plan import Merge
from kcagc.protocol.seeds import distinct, random_for, starts_from_codes
from kcagc.secagg.keys import digest

EXCHANGE = 2  # one-way delays: to the aggregator, and back from it
CONFIRMING = EXCHANGE


@dataclass(frozen=True, eq=False)
class MergeReport:
    """What one merge took: its rows (cells, or nodes for the basic method), those that are one node, and so on."""

    group: str
    layer: int
    n_parties: int
    n_rows: int
    n_single: int
    n_clusters: int
    n_iter: int
    converged: bool
    rounds: int
    sums: Counted
    history: list[Round]


@dataclass(frozen=True, eq=False)
class FitResult:
    """A party's outcome: the joint clusters, its own share of the model, and what its merges took.

    `delays` counts the messages that had to travel one after another until the labels were known. The receipts that
    confirm them take `CONFIRMING` more.
    """

    labels: IntArray
    model: PartyModel
    merges: list[MergeReport]
    delays: int
    rows: FloatArray | None = None  # the party's own points, for what it can say about the clusters


async def fit_party(membership: PartyContext, data: PartyData, *, seed: int) -> FitResult:
    """Run a fit as one party; `seed` is its own, and the first party's is the one that common choices come from."""
    party = Party(membership)
    parameters, parties = party.agreement.parameters, party.agreement.parties
    if parameters.n_clusters > data.graph.n_nodes:
        raise DataError(f"n_clusters: {parameters.n_clusters} clusters of {data.graph.n_nodes} nodes", party=party.name)
    data.check_filter(party.name, parameters.filter)
    data.check_values(party.name)
    await party.begin()
    await progress("filtering, projecting and clustering own features")
    leading = seed if party.name == parties[0] else None
    if parameters.method == "basic":  # its starts travel with the comparison
        local = await _local_result(party, data, seed)
        told = await party.confirm(data, seed=leading, starts=local.stored_starts.data)
        labels, transcript, reports, delays = await _basic(party, local, told, _common_seed(party, told, seed))
    else:  # the comparison travels while this party computes
        own = await party.tell_data(data, seed=leading)
        await flush()
        local = await _local_result(party, data, seed)
        labels, transcript, reports, delays = await _through_cells(party, local, own, seed)
    await party.compare_results(transcript, labels, "labels")
    model = PartyModel.of(party.session.id, party.name, parameters, local, labels)
    return FitResult(labels, model, reports, delays, local.rows)


def _common_seed(party: Party, told: dict[str, Confirmation], own: int) -> int:
    """Give the first party's seed, which all common choices come from."""
    first = party.agreement.parties[0]
    if party.name == first:
        return own
    if len(told[first].seed) != 8:
        raise PeerError("did not send the seed of common choices", peer=first)
    return int.from_bytes(told[first].seed, "big")


async def _local_result(party: Party, data: PartyData, seed: int) -> LocalResult:
    def compute() -> bytes:
        try:
            return encode_local(compute_local(data, party.agreement.parameters, seed))
        except DataError as error:
            raise DataError(str(error), party=party.name) from error

    return decode_local(await stored_result("local result", compute))


async def _basic(
    party: Party, local: LocalResult, told: dict[str, Confirmation], seed: int
) -> tuple[IntArray, bytes, list[MergeReport], int]:
    """Protocol 2: every node is a row."""
    parameters = party.agreement.parameters
    sizes = np.ones(len(local.rows), dtype=np.int64)
    starts = None
    if parameters.seeding == "common":
        proposed = {other: theirs.starts for other, theirs in told.items()}
        starts = _agreed_starts(party, proposed | {party.name: local.stored_starts.data}, sizes, seed)
    (merge,) = party.merges
    # Parties that heard of different seeds or starts have no masks in common.
    heard = b"" if starts is None else starts.astype("<i8").tobytes()
    sums = party.sums_of(merge, digest("basic", seed.to_bytes(8, "big"), heard))
    joint = await joint_kmeans(sums, local.rows, sizes, parameters.n_clusters, starts, seed, parameters)
    await sums.finish()
    delays = EXCHANGE * (2 + joint.rounds)  # hellos, comparison, sums
    return joint.labels, sums.transcript, [_report(merge, sizes, parameters.n_clusters, joint)], delays


def _agreed_starts(party: Party, proposed: dict[str, bytes], sizes: IntArray, seed: int) -> IntArray:
    """Take one party's proposal for each start, by a rule that does not depend on the order of the parties."""
    n_starts, k = party.agreement.parameters.n_init, party.agreement.parameters.n_clusters
    every = []
    for whose, packed in proposed.items():
        nodes = np.frombuffer(packed if len(packed) % 8 == 0 else b"", dtype="<i8")
        if len(nodes) != n_starts * k or (nodes < 0).any() or (nodes >= len(sizes)).any():
            raise PeerError(f"does not propose {n_starts} starts of {k} nodes each", peer=whose)
        every.append(nodes.reshape(n_starts, k).tolist())
    chosen = []
    for number in range(n_starts):
        in_order = sorted(starts[number] for starts in every)
        nodes = np.array(in_order[number % len(in_order)], dtype=np.int64)
        chosen.append(distinct(nodes, sizes, random_for(seed, 3, number)))
    return np.array(chosen, dtype=np.int64)


async def _through_cells(
    party: Party, local: LocalResult, compared: dict[str, Confirmation], own_seed: int
) -> tuple[IntArray, bytes, list[MergeReport], int]:
    """Protocol 3, once for each merge on the way from this party's leaf to the root.

    Local clusters leave before the others' comparisons are heard: who has other nodes or another graph cannot open
    them, and nobody waits for a comparison.
    """
    parameters, seed = party.agreement.parameters, own_seed
    labels, n_clusters, transcript, delays = local.labels, local.n_clusters, b"", EXCHANGE  # the hellos
    reports: list[MergeReport] = []
    for merge in party.merges:
        line = "labels.merged" if reports else "labels.whole" if local.whole else "labels"
        told = PackedLabels(n_clusters, pack(labels, n_clusters), transcript, delays)
        await _tell_labels(party, merge, told, line)
        if not reports:
            seed = _common_seed(party, await party.hear_data(compared), own_seed)
        all_labels, transcript, delays = await _hear_labels(party, merge, labels, told)
        cells = intersect(all_labels)
        wanted = parameters.n_clusters if merge.root else parameters.n_local_clusters
        sums = party.sums_of(merge, digest("cells", seed.to_bytes(8, "big"), transcript))
        if len(cells) > wanted:
            rows = virtual_nodes(local.rows, cells, parameters.virtual_nodes, local.labels)
            starts = None
            if parameters.seeding == "common":
                n_starts = affordable(parameters.n_init, len(cells), wanted)
                starts = starts_from_codes(cells.codes, cells.sizes, wanted, n_starts, seed)
            joint = await joint_kmeans(sums, rows, cells.sizes, wanted, starts, seed, parameters)
        elif len(cells) == wanted or not merge.root:
            joint = Joint(np.arange(len(cells)), 0, True, 0, Counted(), [])  # every cell is a cluster: nothing to sum
        else:
            raise DataError(
                f"n_local_clusters: the local clusters have {len(cells)} non-empty intersections, which cannot make "
                f"{wanted} clusters; ask for more local clusters"
            )
        await sums.finish()
        labels, n_clusters, transcript = joint.labels[cells.of_node], min(wanted, len(cells)), sums.transcript
        delays += EXCHANGE * joint.rounds
        reports.append(_report(merge, cells.sizes, n_clusters, joint))
    return labels, transcript, reports, delays


async def _tell_labels(party: Party, merge: Merge, told: PackedLabels, line: str) -> None:
    """Tell the clusters of one's own child, if one speaks for it (Protocol 3, line 2)."""
    await progress(f"{merge.group.title}: exchanging cluster numbers")
    contents: dict[str, Message] = dict.fromkeys(merge.routes().get(party.name, ()), told)
    await party.tell(f"labels {merge.group.name}", contents, line=line)


async def _hear_labels(
    party: Party, merge: Merge, labels: IntArray, told: PackedLabels
) -> tuple[list[IntArray], bytes, int]:
    """Hear the clusters of the other children (Protocol 3, line 11).

    The new transcript joins those of all children and their labels: a party that was told something else, here or
    below, opens nothing with the others.
    """
    own = merge.child_of(party.name)
    senders = tuple(speaker for number, speaker in enumerate(merge.speakers) if number != own)
    heard = await party.hear(f"labels {merge.group.name}", senders, PackedLabels)
    most = max(party.agreement.parameters.n_local_clusters, 1)
    all_labels, transcripts = [], []
    for number, speaker in enumerate(merge.speakers):
        if number == own:
            all_labels.append(labels)
            transcripts.append(told.transcript)
            continue
        theirs = heard[speaker]
        if not 1 <= theirs.n_clusters <= most:
            raise PeerError(f"sent {theirs.n_clusters} clusters, where at most {most} were agreed", peer=speaker)
        all_labels.append(unpack(theirs.packed, len(labels), theirs.n_clusters, speaker, "labels"))
        transcripts.append(theirs.transcript)
    heard_labels = [np.asarray(one, dtype="<i8").tobytes() for one in all_labels]
    slowest = max(told.delays, *(theirs.delays for theirs in heard.values()))
    return all_labels, digest("children", *transcripts, *heard_labels), slowest + EXCHANGE


def _report(merge: Merge, sizes: IntArray, n_clusters: int, joint: Joint) -> MergeReport:
    return MergeReport(
        merge.group.name,
        merge.group.layer,
        len(merge.group.members),
        len(sizes),
        int(np.count_nonzero(sizes == 1)),
        n_clusters,
        joint.n_iter,
        joint.converged,
        joint.rounds,
        joint.sums,
        joint.history,
    )
