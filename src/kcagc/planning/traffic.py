"""The messages of a run, counted before it: the bytes of every role, the secure sums, and the delays in a row.

The count follows `protocol/` message by message. What depends on data is marked where it is assumed: the number of
cells, how many rounds k-means needs, and how many comparisons are open in each. The joint method has a fixed schedule,
so its count is exact unless restarts converge early.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from kcagc.cluster.held_out import MOST_NODES
from kcagc.cluster.joint import FIRST_ROUNDS, Schedule, sample_size, schedule
from kcagc.errors import ParameterError
from kcagc.protocol.fit_result import EXCHANGE
from kcagc.protocol.joint_kmeans import affordable_restarts
from kcagc.protocol.messages import packed_size
from kcagc.protocol.parameters import Parameters
from kcagc.protocol.plan import layers
from kcagc.protocol.search import SearchPlan, search_plans
from kcagc.protocol.secure_sum import MAX_COPIES, MIN_LENGTH, MIN_PROBES, padded_length
from kcagc.protocol.shared_kmeans import FIRST_GROUP
from kcagc.protocol.shared_rows import CHECK_ROWS, ROTATION_VALUES, score_chunks
from kcagc.protocol.subspace import MIXTURES
from kcagc.protocol.tournament import GROUP_SIZE
from kcagc.protocol.weights import BATCH_VALUES, PROBES
from kcagc.simulation import SimulatedRoles

_WORD = 8  # bytes
_HEADER = 100  # bytes of a message besides its content
_BOX = 90  # of an encrypted message: its frame, the name of the other party, and the fields of a small content
_HELLO, _HELLO_FOR_EACH = 430, 70  # a hello, and what each participant adds to it
# k-means on cells, as it went in measured runs: rounds until no restart is left, and the comparisons of all rounds for
# each of the first. Rows with several nearer centres take one more sum in each round.
_ITERATIONS, _COMPARISONS, _SETTLING = 5, 3.5, 0.05
_CELLS, _OF_NODES, _OF_MOST = 0.05, 0.53, 0.41  # cells = 0.05 · nodes^0.53 · (intersections that are possible)^0.41


@dataclass(frozen=True)
class Task:
    """What is planned: the sizes of a run, and its settings.

    Attributes
    ----------
    nodes, edges : int
        The size of the graph.
    columns : int
        The columns of each party.
    parties : int
        The number of parties.
    parameters : Parameters
        The settings, with every choice made.
    cells : int or None
        The number of cells; None assumes one.
    """

    nodes: int
    edges: int
    columns: int
    parties: int
    parameters: Parameters
    cells: int | None = None

    def check(self) -> None:
        """Raise `ParameterError` for sizes that no run can have."""
        k = max(self.parameters.n_clusters, self.parameters.most_clusters)
        if k > self.nodes:
            raise ParameterError(f"n_clusters: {k} clusters, but there are only {self.nodes} nodes")
        most = self.nodes * (self.nodes - 1) // 2
        if self.edges > most:
            raise ParameterError(f"edges: {self.edges:,} edges, but {self.nodes:,} nodes have at most {most:,}")
        if self.cells is not None and not k <= self.cells <= self.nodes:
            raise ParameterError(
                f"cells: must be from {k} (the number of clusters) to {self.nodes:,}, not {self.cells}"
            )

    @property
    def components(self) -> int:
        """The components of each party."""
        return min(self.parameters.n_components, self.columns, self.nodes)

    @property
    def in_shares(self) -> bool:
        """Whether the method is the joint one, and no role sees a joint row."""
        return self.parameters.method == "joint" and self.parameters.joint_rows == "shares"

    @property
    def sample(self) -> int:
        """The nodes on which the joint method finds the clusters."""
        return sample_size(self.nodes, self.parameters.n_clusters, in_shares=self.in_shares)

    def searched(self) -> int:
        """Return about how many nodes a search clusters: the ends of held-out edges of a large graph."""
        if self.nodes <= MOST_NODES:
            return self.nodes
        held = min(0.2 * self.edges, MOST_NODES / 2)
        return max(1, round(self.nodes * -math.expm1(-2 * held / self.nodes)))


@dataclass(eq=False)
class Traffic:
    """The bytes of every role, and what a role computes for its messages.

    Parties have the numbers from 0; the last number is the coordinator, unless a party aggregates.

    Attributes
    ----------
    sent, received : list of int
        The bytes of all messages of each role.
    words : list of int
        The words that each role masks, or adds.
    blinded : list of int
        The words of comparisons whose place, factor and offset each party derives.
    products : list of int
        The multiplications of each role for shares.
    sums : int
        The secure sums that follow one another.
    exchanges : int
        The messages to the aggregator and back that follow one another.
    in_turn : int
        The bytes that cannot travel while others do, of the busiest link of each step.
    """

    parties: int
    hub: int
    sent: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    blinded: list[int] = field(default_factory=list)
    products: list[int] = field(default_factory=list)
    sums: int = 0
    exchanges: int = 0
    in_turn: int = 0

    def __post_init__(self) -> None:
        for one in (self.sent, self.received, self.words, self.blinded, self.products):
            one.extend([0] * (max(self.hub, self.parties - 1) + 1))

    @property
    def delays(self) -> int:
        """The one-way delays that follow one another until the labels are known."""
        return EXCHANGE * self.exchanges

    def post(self, sender: int, receiver: int, size: int) -> None:
        """Count one message between a party and the aggregator."""
        if sender != receiver:
            self.sent[sender] += size + _HEADER
            self.received[receiver] += size + _HEADER

    def collect(self, senders: range, size: int) -> None:
        """Count a message of each sender to the aggregator, all at the same time."""
        for one in senders:
            self.post(one, self.hub, size)
        self.in_turn += size

    def spread(self, receivers: range, size: int) -> None:
        """Count a message of the aggregator to each receiver, all at the same time."""
        for one in receivers:
            self.post(self.hub, one, size)
        self.in_turn += size

    def encrypted(self, routes: dict[int, list[int]], size: int, *, waits: bool = True) -> None:
        """Count encrypted contents of one size; `routes` has the receivers of each sender."""
        arriving: dict[int, int] = {}
        for sender, receivers in routes.items():
            self.post(sender, self.hub, len(receivers) * (size + _BOX))
            for one in receivers:
                arriving[one] = arriving.get(one, 0) + 1
        for receiver, count in arriving.items():
            self.post(self.hub, receiver, count * (size + _BOX))
        self.in_turn += (size + _BOX) * (max(map(len, routes.values())) + max(arriving.values()))
        self.exchanges += waits

    def everyone(self, size: int) -> None:
        """Count one encrypted content of each party for each other party."""
        every = range(self.parties)
        self.encrypted({one: [other for other in every if other != one] for one in every}, size)

    def masked(self, senders: range, words: int) -> None:
        """Count the masked vectors of one sum."""
        self.collect(senders, _WORD * (words + 2))
        for one in senders:
            self.words[one] += words
        if self.hub >= self.parties:
            self.words[self.hub] += words * len(senders)
        self.sums += 1
        self.exchanges += 1

    def signs(self, comparisons: int, senders: range, members: range) -> None:
        """Count one sum of comparisons and its answer, which goes to all members of the group."""
        if not comparisons:
            return
        length = comparisons
        if self.hub >= self.parties:  # otherwise the aggregator knows what each comparison is
            length += min(MAX_COPIES, comparisons)
            length = padded_length(max(length + MIN_PROBES, MIN_LENGTH))
            for one in members:
                self.blinded[one] += length
        self.masked(senders, length)
        self.spread(members, packed_size(length, 2))

    def split(self, values: int) -> None:
        """Count the shares of the first holder, which the coordinator sends."""
        self.spread(range(1), _WORD * values)

    def nearest(
        self, rows: int, k: int, senders: range, members: range, *, group: int = GROUP_SIZE, margin: bool = False
    ) -> None:
        """Count the sums of a tournament among k centres, as `protocol/tournament.py` plays it."""
        opponents = 0.0
        while k > 1 and rows:
            sizes = [len(range(one, k, -(-k // group))) for one in range(-(-k // group))]
            asked = float(sum(size * (size - 1) // 2 for size in sizes))
            if margin and len(sizes) == 1:
                asked += k * (opponents + k - 1)
            self.signs(round(rows * asked), senders, members)
            opponents += sum(sizes) / len(sizes) - 1
            k = len(sizes)


def traffic(task: Task) -> Traffic:
    """Return the messages of a fit."""
    parameters, parties = task.parameters, range(task.parties)
    agreement = SimulatedRoles.of(parameters, [f"party-{one:02}" for one in parties]).agreement
    found = Traffic(task.parties, task.parties if parameters.aggregator == "coordinator" else task.parties - 1)
    n_roles = len(agreement.participants)
    hello = _HELLO + _HELLO_FOR_EACH * n_roles
    found.collect(parties, hello)
    found.spread(parties, hello * n_roles)
    found.exchanges += 1
    if parameters.method == "basic":
        found.everyone(_WORD * parameters.n_init * parameters.n_clusters + 200)
    else:
        found.everyone(200)
    if parameters.method == "joint":
        _joint(found, task)
    elif parameters.method == "basic":
        _kmeans(found, parties, task.nodes, parameters.n_clusters, parameters.n_init)
    else:
        names = {name: one for one, name in enumerate(agreement.parties)}
        below = 0  # the most cells of a child of the merge
        for layer in layers(agreement):
            sums, exchanges, in_turn = found.sums, found.exchanges, found.in_turn
            ends = []
            for merge in layer:
                routes = {names[one]: [names[other] for other in to] for one, to in merge.routes().items()}
                size = packed_size(task.nodes, parameters.n_local_clusters)
                found.sums, found.exchanges, found.in_turn = sums, exchanges, in_turn
                found.encrypted(routes, size)
                members = range(names[merge.group.members[0]], names[merge.group.members[-1]] + 1)
                k = parameters.n_clusters if merge.root else parameters.n_local_clusters
                rows = cells(task, len(merge.children))
                below = max(below, rows)
                if rows > k:
                    _kmeans(found, members, rows, k, affordable_restarts(parameters.n_init, rows, k))
                ends.append((found.sums, found.exchanges, found.in_turn))
            found.sums, found.exchanges, found.in_turn = (max(one) for one in zip(*ends, strict=True))
    found.collect(parties, 0)  # finished
    delays = found.exchanges
    found.everyone(_WORD + 32)  # receipts
    found.exchanges = delays  # labels are known before these
    return found


def cells(task: Task, children: int) -> int:
    """Return how many cells a merge has: what the user says, or about how many similar clusters have.

    The more the local clusters of the parties agree, the fewer cells there are.
    """
    possible = float(task.parameters.n_local_clusters) ** children
    assumed = _CELLS * task.nodes**_OF_NODES * possible**_OF_MOST
    return round(min(possible, task.nodes, assumed if task.cells is None else task.cells))


def _kmeans(found: Traffic, members: range, rows: int, k: int, restarts: int) -> None:
    """Count k-means of the members of a group on rows that each sees through its own columns."""
    found.nearest(restarts * max(rows - k, 0), k, members, members, margin=True)
    first = restarts * rows * (k - 1)
    for number in range(_ITERATIONS):
        share = 1.0 if number == 0 else (_COMPARISONS - 1.0) / (_ITERATIONS - 1)
        found.signs(round(first * share) + restarts * (restarts + 1), members, members)
        found.signs(round(first * _SETTLING), members, members)
    for one in members:
        found.products[one] += round(first * (1.0 + _COMPARISONS))


# The joint method


def _joint(found: Traffic, task: Task) -> None:
    parameters, parties = task.parameters, range(task.parties)
    searches = search_plans(parameters)
    for search in searches:
        found.everyone(60)
        _search(found, task, search)
    if parameters.most_clusters:
        return
    if searches:
        found.everyone(60)
    n, s, k = task.nodes, task.sample, parameters.n_clusters
    components = task.components * task.parties
    if task.in_shares:
        _subspace(found, task, s, 1, k, mixtures=min(n, MIXTURES) if s < n else 0)
        _unit_rows(found, s, 1, min(k, components))
        plan = schedule(n, k, parameters.max_iter)
        for number in range(1, plan.rounds + 1):
            restarts = plan.restarts if number <= FIRST_ROUNDS else plan.late_restarts
            _scores(found, [k] * restarts, s, min(k, components))
            _moves(found, number, plan, [k] * restarts, s, costs=restarts)
    else:
        found.masked(parties, s * components + 1)
        found.spread(parties, packed_size(s, k) + _WORD * k * components)
        found.products[found.hub] += 10 * s * components * (components + k)
        for one in parties:
            found.products[one] += s * task.components * components
    if s == n:
        return
    if task.in_shares:
        found.masked(_holders(), (components + k) * min(k, components))
        found.split((components + 1) * k)
        found.encrypted(
            {one: [other for other in parties if other != one] for one in _holders()}, _WORD * (task.components + 1) * k
        )
    rest, batch = n - s, max(1, (BATCH_VALUES - PROBES) // k)
    group = GROUP_SIZE if rest * k <= BATCH_VALUES else 2
    one_batch = Traffic(found.parties, found.hub)
    one_batch.nearest(min(batch, rest), k, parties, parties, group=group)
    _add(found, one_batch, rest // batch if rest > batch else 1)
    if rest > batch and rest % batch:
        found.nearest(rest % batch, k, parties, parties, group=group)


def _add(found: Traffic, other: Traffic, times: int) -> None:
    for into, what in (
        (found.sent, other.sent),
        (found.received, other.received),
        (found.words, other.words),
        (found.blinded, other.blinded),
        (found.products, other.products),
    ):
        for one, value in enumerate(what):
            into[one] += times * value
    found.sums += times * other.sums
    found.exchanges += times * other.exchanges
    found.in_turn += times * other.in_turn


def _holders() -> range:
    return range(2)


def _subspace(found: Traffic, task: Task, rows: int, blocks: int, dimensions: int, *, mixtures: int) -> None:
    """Count padded components, and the shares of directions and joint rows."""
    q, parties = task.components, range(task.parties)
    size = min(dimensions, q * task.parties)
    words = q * (blocks * rows + mixtures) + blocks * q * q * task.parties
    found.collect(parties, _WORD * words + 20 * task.parties)
    found.split(size * blocks * (q * task.parties + rows))
    found.exchanges += 1
    of_all = blocks * (mixtures or rows) * q * q * task.parties
    for one in parties:
        found.products[one] += of_all
    found.products[found.hub] += of_all * task.parties + blocks * rows * q * task.parties * size
    for one in _holders():
        found.products[one] += blocks * rows * q * task.parties * size


def _unit_rows(found: Traffic, rows: int, blocks: int, size: int) -> None:
    left, most = blocks * rows, max(1, ROTATION_VALUES // size**2)
    while left > 0:
        count = min(left, most)
        found.masked(_holders(), count * size)
        found.split(count * size)
        left -= count
    found.masked(_holders(), blocks * (rows + CHECK_ROWS) * size)
    found.exchanges -= 1  # no answer
    for one in _holders():
        found.products[one] += blocks * rows * size * size * 4


def _scores(found: Traffic, sizes: list[int], rows: int, dimensions: int) -> None:
    for some in score_chunks(sizes, rows):
        centers = sum(sizes[some])
        found.masked(_holders(), 2 * centers * dimensions)
        found.split((rows + CHECK_ROWS + 1) * centers)
        for one in (*_holders(), found.hub):
            found.products[one] += rows * centers * dimensions * (1 if one == found.hub else 3)


def _moves(found: Traffic, number: int, plan: Schedule, sizes: list[int], rows: int, *, costs: int) -> None:
    """Count the comparisons of one round of k-means on shared rows."""
    parties = range(found.parties)
    if number == 1:
        most = max(sizes)
        group = FIRST_GROUP if most <= FIRST_GROUP else GROUP_SIZE
        if min(sizes) == most:
            found.nearest(len(sizes) * rows, most, _holders(), parties, group=group)
        else:  # a row has as many candidates as its set has centres: on average
            found.nearest(round(rows * sum(sizes) / most), most, _holders(), parties, group=group)
        return
    about_costs = costs * (costs + 1) // 2 if costs and plan.centers_are_means(number) else 0
    found.signs(sum(rows * (one - 1) for one in sizes) + about_costs, _holders(), parties)


def _search(found: Traffic, task: Task, plan: SearchPlan) -> None:
    rows, sizes = task.searched(), [one.k for one in plan.sets]
    dimensions = min(plan.dimensions, task.components * task.parties)
    _subspace(found, task, rows, plan.blocks, plan.dimensions, mixtures=0)
    _unit_rows(found, rows, plan.blocks, dimensions)
    for number in range(1, plan.schedule.rounds + 1):
        _scores(found, sizes, rows, dimensions)
        _moves(found, number, plan.schedule, sizes, rows, costs=0)
