"""Searches of the joint method: cluster with several values of ψ or k in the same rounds, and compare.

The values of ψ, or all numbers of clusters of a range, are tried on a graph without its held-out edges. For each value
of ψ there is a block of joint rows. All numbers of clusters share one block. The restarts of all values take their
steps in the same sums. Every party learns all their assignments, as in a fit, and computes from them and from the
held-out edges which value is best. The coordinator receives neither labels nor the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np

from kcagc._types import AnyFloatArray, FloatArray, IntArray
from kcagc.cluster.held_out import HeldOutEdges
from kcagc.cluster.joint import Schedule, choose_centers, refill_empty_clusters, start_sets
from kcagc.cluster.lloyd import blocks_of
from kcagc.cluster.search import SEARCH_PLAN, PsiSearch, choose_psi
from kcagc.cluster.sweep import SWEEP_PLAN, Sweep, assess_sweep, sweep_dimensions
from kcagc.errors import DataError, PeerError
from kcagc.graph.filters import Filter, SearchedFilter, filter_columns
from kcagc.graph.laplacian import PowerOfStep
from kcagc.protocol.effects import Progress, StoreResult
from kcagc.protocol.local import NO_VARIATION, PartyData
from kcagc.protocol.messages import ComponentSize, Confirmation, RunStage, Step, Stored, restore, store
from kcagc.protocol.parameters import Parameters
from kcagc.protocol.party import Party
from kcagc.protocol.secure_sum import Comparisons, SecureSums
from kcagc.protocol.shared_kmeans import means_of, place_among_first
from kcagc.protocol.shared_rows import SharedRows
from kcagc.protocol.subspace import SubspacePlan, find_subspace
from kcagc.secagg.keys import derive_key, digest
from kcagc.secagg.shares import COMPONENT_BITS, rotation

FIT = "fit"  # in place of a search, where the parties exchange the sizes of the components of the fit
_CLUSTERS = 8  # where ψ is searched for a range of numbers of clusters, if it has so many
_BASE_ORDER = 1  # of the filter, where the components of all values of ψ are found


@dataclass(frozen=True)
class SearchSet:
    """One restart of one value: the value, its block of rows, its number of clusters, and the number of the restart."""

    value: int
    block: int
    k: int
    restart: int


@dataclass(frozen=True)
class SearchPlan:
    """A search as all roles compute it from the agreed parameters."""

    name: Literal["psi", "clusters"]
    values: tuple[int, ...]
    blocks: int
    dimensions: int
    sets: tuple[SearchSet, ...]
    schedule: Schedule

    @property
    def purpose(self) -> str:
        """What distinguishes the pads of this search from others."""
        return f" of the search for {self.name}"

    @property
    def subspace(self) -> SubspacePlan:
        """The joint subspaces of all blocks."""
        return SubspacePlan(self.dimensions, self.blocks, self.purpose)


def search_plans(parameters: Parameters) -> list[SearchPlan]:
    """Return the searches of a session, in the order in which they take place."""
    if parameters.task != "fit":
        return []
    least, most = parameters.n_clusters, parameters.most_clusters or parameters.n_clusters
    found = []
    if parameters.orders:
        k = min(max(_CLUSTERS, least), most)
        sets = [
            SearchSet(psi, block, k, restart)
            for block, psi in enumerate(parameters.orders)
            for restart in range(SEARCH_PLAN.restarts)
        ]
        found.append(SearchPlan("psi", parameters.orders, len(parameters.orders), k, tuple(sets), SEARCH_PLAN))
    if parameters.most_clusters:
        values = tuple(range(least, most + 1))
        sets = [SearchSet(k, 0, k, restart) for k in values for restart in range(SWEEP_PLAN.restarts)]
        dimensions = sweep_dimensions(least, most)
        found.append(SearchPlan("clusters", values, 1, dimensions, tuple(sets), SWEEP_PLAN))
    return found


async def search_psi(party: Party, sums: SecureSums, data: PartyData, edges: HeldOutEdges, seed: int) -> PsiSearch:
    """Find the order of the filter."""
    plan = next(one for one in search_plans(party.agreement.parameters) if one.name == "psi")
    labels, _ = await _search(party, sums, data, edges, seed, plan)
    return choose_psi(edges, labels)


async def sweep_clusters(party: Party, sums: SecureSums, data: PartyData, edges: HeldOutEdges, seed: int) -> _Swept:
    """Cluster with every number of clusters of the range; return what the parties compare."""
    plan = next(one for one in search_plans(party.agreement.parameters) if one.name == "clusters")
    labels, costs = await _search(party, sums, data, edges, seed, plan)
    return _Swept(edges, labels, costs)


@dataclass(frozen=True, eq=False)
class _Swept:
    """The labels of each number of clusters and restart, and this party's shares of their costs."""

    edges: HeldOutEdges
    labels: dict[int, list[IntArray]]
    cost_shares: dict[int, list[int]]

    @property
    def words(self) -> IntArray:
        """This party's shares of all costs."""
        return np.array([one for several in self.cost_shares.values() for one in several], dtype=np.int64)

    def assess(self, costs: FloatArray) -> Sweep:
        """Compare the numbers of clusters; `costs` are those of all restarts."""
        each = iter(costs.tolist())
        opened = {k: [next(each) for _ in several] for k, several in self.cost_shares.items()}
        return assess_sweep(self.edges, self.labels, opened)


def component_size(data: PartyData, edges: HeldOutEdges, scale: int, n_components: int) -> ComponentSize:
    """Return the size of a party's components, and the digest of the held-out edges and the filter behind them."""
    drawn = (one.astype("<i8").tobytes() for one in (edges.nodes, edges.ends))
    return ComponentSize(scale, n_components, digest("components", *drawn, repr(data.filter)))


async def exchange_sizes(party: Party, purpose: str, own: ComponentSize) -> tuple[int, dict[str, int]]:
    """Send the other parties the size of this party's components; return the common scale and all widths."""
    stage = RunStage(Step.SIZES, group=purpose.strip())
    await party.send_encrypted(stage, dict.fromkeys(party.others, own), "sizes")
    received = await party.receive_encrypted(stage, party.others, ComponentSize)
    for name, one in received.items():
        if one.source != own.source:
            raise PeerError("has drawn other held-out edges, or found another ψ", peer=name)
    return common_sizes(party, own.scale, own.n_components, received)


def common_sizes(
    party: Party, scale: int, n_components: int, received: Mapping[str, ComponentSize | Confirmation]
) -> tuple[int, dict[str, int]]:
    """Check the sizes of the components of all parties; return the common scale and all widths."""
    most = party.agreement.parameters.n_components
    for name, one in received.items():
        if not 1 <= one.n_components <= most:
            raise PeerError(f"has {one.n_components} components, where 1 to {most} were agreed on", peer=name)
    theirs = {name: one.n_components for name, one in received.items()} | {party.name: n_components}
    common = max(scale, *(one.scale for one in received.values()))
    return common, {name: theirs[name] for name in party.agreement.parties}


async def _search(
    party: Party, sums: SecureSums, data: PartyData, edges: HeldOutEdges, seed: int, plan: SearchPlan
) -> tuple[dict[int, list[IntArray]], dict[int, list[int]]]:
    """Cluster with all values of a plan; return the labels and this party's shares of the cost of each restart."""
    what = "ψ" if plan.name == "psi" else "k"
    await Progress(f"search for {what}: filtering and projecting own features")
    key = derive_key(party.secret, party.session.id, f"turn components{plan.purpose}")
    n_components = party.agreement.parameters.n_components

    def compute() -> bytes:
        return msgspec.msgpack.encode(_components(party.name, data, edges, plan, n_components, key))

    stored = await StoreResult(f"components{plan.purpose}", compute)
    own = msgspec.msgpack.decode(stored, type=_SearchComponents)
    rows = restore(own.rows)
    size = component_size(data, edges, own.scale, rows.shape[1])
    scale, widths = await exchange_sizes(party, plan.purpose, size)
    sums.transcript = digest(sums.transcript, plan.purpose, scale, *widths.values())
    words = np.rint(np.ldexp(rows, COMPONENT_BITS - scale)).astype(np.int64)
    share_seed = derive_key(party.secret, party.session.id, f"draw shares{plan.purpose}")
    joint = await find_subspace(party, sums, words, edges.nodes, widths, share_seed, plan.subspace)
    shared = await SharedRows.of(sums, joint.rows, share_seed, blocks=plan.blocks, purpose=plan.purpose)
    found = await _cluster(shared, plan, seed, what)
    await sums.finish()
    labels: dict[int, list[IntArray]] = {value: [] for value in plan.values}
    costs: dict[int, list[int]] = {value: [] for value in plan.values}
    for one, state in zip(plan.sets, found, strict=True):
        labels[one.value].append(state.labels)
        costs[one.value].append(state.cost)
    return labels, costs


class _SearchComponents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A party's turned components of all blocks (blocks · nodes × q), and the power of two above their lengths."""

    rows: Stored
    scale: int


def _components(
    name: str, data: PartyData, edges: HeldOutEdges, plan: SearchPlan, n_components: int, key: bytes
) -> _SearchComponents:
    """Filter, project and turn; values of ψ share one projection, whose columns are then filtered on."""
    engine, graph = data.engine, edges.graph
    orders = plan.values if plan.name == "psi" else ()
    base = data.filter.of(_BASE_ORDER) if isinstance(data.filter, SearchedFilter) else data.filter
    base = base.fixed_on(graph)
    smoothed = engine.smooth(base, graph, data.features, n_components)
    fitted = engine.singular_vectors(smoothed, n_components)
    if orders:
        smoothed = engine.smooth(_of_order(base, 0), graph, data.features, n_components)
    columns: AnyFloatArray = engine.project(smoothed, fitted, "US")
    del smoothed
    parts = [columns[edges.nodes]]
    if orders:
        step = _of_order(base, 1).prepare(graph, np.float64)
        parts = []
        for before, psi in pairwise((0, *orders)):
            repeated = replace(step, count=psi - before) if isinstance(step, PowerOfStep) else step
            columns = filter_columns(repeated, columns, np.float64)
            parts.append(columns[edges.nodes])
    # Each block is turned on its own: covariances of several blocks in one basis would tell graph vectors apart.
    rows = np.concatenate(
        [part @ rotation(key, b"", "components", number, size=fitted.n_components) for number, part in enumerate(parts)]
    )
    largest = float(np.abs(rows).max())
    if not largest > 0.0:
        raise DataError(NO_VARIATION, party=name)
    exponent = int(np.frexp(largest)[1])
    longest = max(float(np.linalg.norm(np.ldexp(rows[one], -exponent), axis=1).max()) for one in blocks_of(rows))
    return _SearchComponents(store(rows), exponent + int(np.frexp(longest)[1]))


def _of_order(chosen: Filter, psi: int) -> Filter:
    """Return a filter with the same response for one step, and another order."""
    return msgspec.structs.replace(chosen.stored(), psi=psi).restore(chosen)


@dataclass(eq=False)
class _State:
    """One restart of one value while it runs; centres and cost are this party's shares."""

    centers: IntArray
    labels: IntArray
    means: IntArray | None = None
    cost: int = 0


async def _cluster(rows: SharedRows, plan: SearchPlan, seed: int, what: str) -> list[_State]:
    """Run all restarts of all values for a fixed number of rounds, in the same sums."""
    sums, blocks = rows.sums, [one.block for one in plan.sets]
    none = np.zeros(rows.n_nodes, dtype=np.int64)
    states = []
    for one in plan.sets:
        drawn = start_sets(rows.n_nodes, one.k, seed, one.restart)
        states.append(_State(np.asarray(rows.of_block(one.block)[drawn].sum(axis=1) // drawn.shape[1]), none))
    for number in range(1, plan.schedule.rounds + 1):
        await Progress(f"search for {what}: round", number, plan.schedule.rounds)
        scores = await rows.scores([one.centers for one in states], blocks)
        distances = [-one for one in scores]
        if number == 1:
            labels, _ = await place_among_first(sums, distances)
        else:
            labels = await _moved(sums, plan, states, distances, seed, number)
        for one, state, found in zip(plan.sets, states, labels, strict=True):
            sizes = np.ones(len(found), dtype=np.int64)
            state.labels = refill_empty_clusters(found, sizes, one.k, (seed, 1, one.restart, number))
            means = means_of(rows.of_block(one.block), state.labels, one.k)
            last = means if state.means is None or plan.schedule.centers_are_means(number + 1) else state.means
            state.centers, state.means = 2 * means - last, means
    return states


async def _moved(
    sums: SecureSums, plan: SearchPlan, states: list[_State], distances: list[IntArray], seed: int, number: int
) -> list[IntArray]:
    """Return the new labels of all restarts: each node moves to a better centre if there is one."""
    asked, elsewhere = [], []
    for state, away in zip(states, distances, strict=True):
        own = np.take_along_axis(away, state.labels[:, None], axis=1)
        state.cost = int(own.sum()) // len(own)
        others = np.ones(away.shape, dtype=bool)
        np.put_along_axis(others, state.labels[:, None], values=False, axis=1)
        elsewhere.append(others)
        asked.append(Comparisons((away - own)[others], np.ones(int(others.sum()), dtype=bool)))
    stays = np.split(
        await sums.signs(Step.LLOYD, Comparisons.joined(asked), sums.holders),
        np.cumsum([len(one) for one in asked])[:-1],
    )
    found = []
    for one, state, others, stay in zip(plan.sets, states, elsewhere, stays, strict=True):
        better = np.zeros(others.shape, dtype=bool)
        better[others] = ~stay
        found.append(choose_centers(better, state.labels, seed, one.restart, number))
    return found
