"""Attacks of a curious party: what the answers of all sums say about the columns of the others.

A party knows which rows each centre is the mean of, and its own part of every distance. Every answer therefore says on
which side of a known number a difference of two distances in the other parties' columns lies. `replay` reads all of
that from the party's transcript, `estimate` fits points to it. A point of the others is unknown, but its cell has a
local label, and the points of one local cluster are near each other.

Version 0.6.0 told a party the nearest centre of every row instead. The same estimate from these answers reached, with
1, 4 and 10 restarts, a correlation of 0.84, 0.86, 0.96 (demo, 3 parties), 0.73, 0.80, 0.96 (Cora, 2), 0.78, 0.86, 0.90
(Cora, 3) and 0.87, 0.88, 0.87 (Wiki, 2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from attacks.results import Figure
from attacks.transcripts import Case, Recording, Transcript, has_data, record_prediction, recorded
from kcagc.cluster.lloyd import squared_distances
from kcagc.engines import LOCAL
from kcagc.graph.filters import filter_for_projection
from kcagc.protocol import fit, joint_kmeans
from kcagc.protocol.agreement import Agreement
from kcagc.protocol.cells import initial_cells, intersect, virtual_nodes
from kcagc.protocol.local import Embedder, PartyData
from kcagc.protocol.messages import Answer, Confirmation, Hellos, Masked, PackedLabels, Step, unpack
from kcagc.protocol.plan import Merge, layers
from kcagc.protocol.secure_sum import Comparisons
from kcagc.protocol.tournament import MARGIN, nearest
from kcagc.secagg.blinding import Blinding
from kcagc.secagg.keys import framed
from kcagc.secagg.masks import CHECK_WORDS

TITLE = "A curious party"
SENTENCES = {
    "party-rounds": (
        "A party sees the clusters of all rows in every round and every restart, and from them estimates the distances "
        "between the other parties' local centres better than from the final clusters alone."
    ),
    "party-prediction": (
        "A prediction tells a party the order of some centres for each node, and nothing more if it is repeated with "
        "the same rows."
    ),
}
ME = "party-1"

_CODE_BITS = 50  # differences of two random codes of that length are different for all pairs
_NOISE = 0.02  # of a squared distance: answers are exact, and points are not quite what the model says
_PULL_OF_OWN, _PULL_OF_CENTRE = 100.0, 300.0  # towards the attacker's own columns, and towards the local centre
_MOST_ANSWERS = 250_000


@dataclass(frozen=True)
class Learned:
    """All comparisons that a party got answered in one group.

    A centre is a mean of rows: `weights` has a line for each centre of each round, and `own` the attacker's own part of
    the distance of each row to it. Comparison j says whether D(row, first) > factor · D(row, second).
    """

    members: tuple[str, ...]
    sizes: np.ndarray
    codes: dict[str, np.ndarray]  # of the others: the group that each row belongs to
    own_rows: np.ndarray
    labels: np.ndarray  # the final cluster of each row
    n_components: int
    weights: np.ndarray
    own: np.ndarray
    row: np.ndarray
    first: np.ndarray
    second: np.ndarray
    factor: np.ndarray
    positive: np.ndarray
    numbers: np.ndarray  # the sum in which a comparison was answered

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(self.codes)

    def only(self, chosen: np.ndarray) -> Learned:
        """Return what is known from some of the comparisons."""
        fields = ("row", "first", "second", "factor", "positive", "numbers")
        return replace(self, **{name: getattr(self, name)[chosen] for name in fields})

    def final_only(self) -> Learned:
        """Return what the final clusters alone say: every row is nearest to its own centre."""
        k, m = int(self.labels.max()) + 1, len(self.sizes)
        weights = np.zeros((k, m))
        weights[self.labels, np.arange(m)] = self.sizes
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1)
        used = np.bincount(self.labels, minlength=k) > 0
        row, first = np.nonzero((np.arange(k) != self.labels[:, None]) & used)
        count = len(row)
        return replace(
            self,
            weights=weights,
            own=squared_distances(self.own_rows, weights @ self.own_rows).T,
            row=row,
            first=first,
            second=self.labels[row],
            factor=np.ones(count),
            positive=np.ones(count, dtype=bool),
            numbers=np.zeros(count, dtype=np.int64),
        )


# Returns for each comparison whether it is positive: (step, the party's parts, which ties are positive).
Ask = Callable[[Step, np.ndarray, np.ndarray], Coroutine[Any, Any, np.ndarray]]


@dataclass(eq=False)
class Tracer:
    """Stands for the secure sums in the party's own program, and notes what each comparison compares.

    The program computes with rows of the identity matrix, so that a centre is the list of its weights, and with a
    random code instead of each distance. The difference of two codes tells which two distances it belongs to.
    """

    group: Any
    ask: Ask
    distances_to: Callable[[np.ndarray], np.ndarray]  # weights of centres -> the numbers that this party sends (m × c)
    fraction_bits: int = 0  # of the numbers that are sent
    unit: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    number: int = 0
    checks: int = 0
    weights: list[np.ndarray] = field(default_factory=list)
    own: list[np.ndarray] = field(default_factory=list)
    codes: list[np.ndarray] = field(default_factory=list)
    answered: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    _random: Any = field(default_factory=lambda: np.random.default_rng(0))
    _compared: list[np.ndarray] = field(default_factory=list)  # the codes of the current round
    _in_round: bool = False
    _sorted: np.ndarray = field(default_factory=lambda: np.zeros(0))
    _order: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def coded(self, centers: np.ndarray) -> np.ndarray:
        """Return codes for the distances to new centres, given as weights."""
        codes = self._random.integers(1 << _CODE_BITS, size=(len(self.unit), len(centers)))
        self.weights += list(centers)
        self.own += list(self.distances_to(centers).T)
        self.codes += list(codes.T)
        return codes.astype(float)

    def encode(self, distances: np.ndarray) -> np.ndarray:
        """Return the codes as the program expects them: as integers."""
        if self._in_round:
            self._compared, self._in_round = [], False
        self._compared.append(np.rint(distances).astype(np.int64))
        return self._compared[-1]

    async def signs(self, step: Step, asked: Comparisons, _senders: tuple[str, ...] = ()) -> np.ndarray:
        """Find out what is compared, get the answers, and note them."""
        if not len(asked):
            return np.zeros(0, dtype=bool)
        self._in_round = True
        known, row, first, second, factor = self._meaning(step, asked.parts)
        sent = np.rint(np.ldexp(np.array(self.own), self.fraction_bits)).astype(np.int64)
        parts = asked.parts.copy()
        plain = sent[first, row] - sent[second, row]
        margins = (sent[first, row] - MARGIN * sent[second, row] + 2) >> 2
        parts[known] = np.where(factor == 1, plain, margins)
        positive = await self.ask(step, parts, asked.ties)
        self.answered.append((row, first, second, factor, positive[known], np.full(len(row), self.number)))
        self.number += 1
        return positive

    def wrong_answer(self, how: str) -> Exception:
        """Return an error; an honest transcript raises none."""
        return RuntimeError(how)

    def _places(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the centre and the row of each code."""
        if len(self._sorted) != len(self.codes) * len(self.unit):
            every = np.array(self.codes).ravel()
            self._order = np.argsort(every)
            self._sorted = every[self._order]
        place = self._order[np.searchsorted(self._sorted, codes)]
        return place // len(self.unit), place % len(self.unit)

    def _meaning(self, step: Step, parts: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return which parts compare distances, and of these the row, both centres and the factor."""
        table = np.concatenate(self._compared)
        k = table.shape[1]
        one, other = (place.ravel() for place in np.nonzero(~np.eye(k, dtype=bool)))
        found = [(table[:, one] - table[:, other], 1)]
        if step is Step.MARGIN:
            found.append(((table[:, one] - MARGIN * table[:, other] + 2) >> 2, MARGIN))
        values = np.concatenate([value.ravel() for value, _ in found])
        order = np.argsort(values)
        at = order[np.minimum(np.searchsorted(values, parts, sorter=order), len(values) - 1)]
        known = values[at] == parts
        at = at[known]
        which, pair = (at % (len(table) * len(one))) // len(one), at % len(one)
        factor = np.where(at < len(table) * len(one), 1, MARGIN)
        first, row = self._places(table[which, one[pair]])
        second, _ = self._places(table[which, other[pair]])
        return known, row, first, second, factor

    def joined(self) -> dict[str, np.ndarray]:
        """Return everything that was noted, as fields of `Learned`."""
        names = ("row", "first", "second", "factor", "positive", "numbers")
        columns = (np.concatenate(one) for one in zip(*self.answered, strict=True))
        return dict(zip(names, columns, strict=True)) | {"weights": np.array(self.weights), "own": np.array(self.own)}

    async def run(self, real: Any, m: int, *rest: Any) -> Any:
        """Run the party's own k-means on m rows with this tracer."""
        self.unit = np.eye(m)
        true = joint_kmeans.reproducible_distances

        def spied(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
            return self.coded(centers) if rows is self.unit else true(rows, centers)

        with patch.object(joint_kmeans, "reproducible_distances", spied):
            return await real(self, self.unit, *rest)


@dataclass(frozen=True)
class View:
    """What a party knows before the first sum of a group: the rows, its own points, and the starting rows."""

    agreement: Agreement
    merge: Merge
    sizes: np.ndarray
    codes: dict[str, np.ndarray]
    own_rows: np.ndarray
    starts: np.ndarray
    seed: int
    k: int


def view(transcript: Transcript) -> View:
    """Compute from a party's transcript what it knows before the first sum of its first group."""
    (me,) = transcript.roles
    _, hellos = next(transcript.messages(Hellos))
    agreement = msgspec.msgpack.decode(hellos.hellos[0].inputs, type=Agreement)
    parameters = agreement.parameters
    merge = next(one for layer in layers(agreement) for one in layer if me in one.group.members)
    points = own_points(transcript.data[me], parameters)
    confirmed = {one.sender: one.content for one in transcript.contents if isinstance(one.content, Confirmation)}
    seed = int.from_bytes(confirmed[agreement.parties[0]].seed, "big")
    k = parameters.n_clusters if merge.root else parameters.n_local_clusters
    if parameters.method == "basic":
        sizes = np.ones(len(points), dtype=np.int64)
        proposed = {name: one.starts for name, one in confirmed.items()}
        starts = fit._agreed_starts(SimpleNamespace(agreement=agreement), proposed, sizes, seed)
        return View(agreement, merge, sizes, {}, points, starts, seed, k)
    labels = {}
    for one in transcript.contents:
        if isinstance(one.content, PackedLabels) and one.sender in merge.group.members:
            content = one.content
            labels.setdefault(one.sender, unpack(content.packed, len(points), content.n_clusters, me, "labels"))
    cells = intersect([labels[name] for name in merge.group.members])
    rows = virtual_nodes(points, cells, parameters.virtual_nodes, labels[me])
    n_restarts = joint_kmeans.affordable_restarts(parameters.n_init, len(cells), k)
    starts = initial_cells(cells.codes, cells.sizes, k, n_restarts, seed)
    codes = {name: cells.codes[:, place] for place, name in enumerate(merge.group.members) if name != me}
    return View(agreement, merge, cells.sizes, codes, rows, starts, seed, k)


def own_points(data: PartyData, parameters: Any) -> np.ndarray:
    """Return the party's own points, as its program computes them."""
    own = data.filter.fixed_on(data.graph)
    filtered = filter_for_projection(own, data.graph, data.features, parameters.n_components)
    return Embedder.fit(LOCAL, filtered, parameters).rows(LOCAL, filtered)


def replay(transcript: Transcript) -> Learned:
    """Return all comparisons of the party's first group, read from its transcript."""
    seen = view(transcript)
    tracer = Tracer(seen.merge.group, from_transcript(transcript, seen), lambda w: _part(seen.own_rows, w))
    rest = (seen.sizes, seen.k, seen.starts, seen.seed, seen.agreement.parameters)
    joint = asyncio.run(_without_progress(tracer.run(joint_kmeans.joint_kmeans, len(seen.sizes), *rest)))
    return learned(seen, joint.labels, tracer)


def learned(seen: View, labels: np.ndarray, tracer: Tracer) -> Learned:
    """Return what a tracer noted, with what the party knew before."""
    codes = seen.codes or dict.fromkeys((one for one in seen.merge.group.members if one != ME), labels)
    return Learned(
        members=seen.merge.group.members,
        sizes=seen.sizes,
        codes=codes,
        own_rows=seen.own_rows,
        labels=labels,
        n_components=seen.agreement.parameters.n_components,
        **tracer.joined(),
    )


def from_transcript(transcript: Transcript, seen: View) -> Ask:
    """Return a function that looks the answers up instead of asking for them."""
    (me,) = transcript.roles
    name, session, key = seen.merge.group.name, transcript.session_id(), transcript.group_keys()[seen.merge.group.name]
    answers = {
        one.number: one for event, one in transcript.messages(Answer) if one.group == name and event.receiver == me
    }
    lengths = {
        one.number: len(one.words) // 8 - CHECK_WORDS for _, one in transcript.messages(Masked) if one.group == name
    }
    members = len(seen.merge.group.members)
    asked = iter(sorted(answers))

    async def ask(_step: Step, parts: np.ndarray, _ties: np.ndarray) -> np.ndarray:
        number = next(asked)
        label, signs = framed(name, number), np.frombuffer(answers[number].signs, dtype=np.uint8)
        blinding = Blinding.from_key(key, session, label, lengths[number], members)
        positive = np.unpackbits(signs, bitorder="little")[: lengths[number]].astype(bool)
        return blinding.restore(positive)[: len(parts)]

    return ask


async def _without_progress(coroutine: Any) -> Any:
    """Run a coroutine of the protocol whose only effects are reports of progress."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration as end:
        return end.value


def _part(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return squared_distances(rows, weights @ rows)


class Points:
    """The others' points as a model: a local centre for each group of rows, and each row's distance from its centre.

    The loss is that of a logistic regression over all answers. The attacker's own columns are the first guess: columns
    of different parties about the same nodes tend to say similar things.
    """

    def __init__(self, known: Learned) -> None:
        self.known, self.q = known, known.n_components
        self.m = len(known.sizes)
        self.groups = {name: int(code.max()) + 1 for name, code in known.codes.items()}
        self.guess = {name: self._own_means(code) for name, code in known.codes.items()}
        self.pull = dict.fromkeys(known.codes, _PULL_OF_OWN)  # towards the first guess
        chosen = np.arange(len(known.row))
        if len(chosen) > _MOST_ANSWERS:
            chosen = np.random.default_rng(0).choice(chosen, _MOST_ANSWERS, replace=False)
        some = known.only(chosen)
        self.sign = np.where(some.positive, 1.0, -1.0) / _NOISE
        self.factor = some.factor.astype(float)
        self.far, self.near = some.first * self.m + some.row, some.second * self.m + some.row
        self.offset = known.own.ravel()[self.far] - self.factor * known.own.ravel()[self.near]

    def _own_means(self, code: np.ndarray) -> np.ndarray:
        found = self.centres(self.known.own_rows, code)
        wide = np.zeros((len(found), self.q))
        wide[:, : found.shape[1]] = found[:, : self.q]
        return wide

    def centres(self, rows: np.ndarray, code: np.ndarray) -> np.ndarray:
        """Return the mean of the rows of each group."""
        weights = np.zeros((int(code.max()) + 1, self.m))
        weights[code, np.arange(self.m)] = self.known.sizes
        return (weights / weights.sum(axis=1, keepdims=True)) @ rows

    def loss(self, values: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss and its gradient."""
        centres, away = self._split(values)
        points = np.hstack([centres[name][code] for name, code in self.known.codes.items()]) + away
        weights = self.known.weights
        means = weights @ points
        distances = squared_distances(points, means).T.ravel()
        margin = (distances[self.far] - self.factor * distances[self.near] + self.offset) * self.sign
        total = float(np.logaddexp(0, -margin).sum()) + _PULL_OF_CENTRE / 2 * float((away**2).sum())
        each = -expit(-margin) * self.sign
        by_distance = np.bincount(self.far, each, len(distances)) - np.bincount(
            self.near, each * self.factor, len(distances)
        )
        by_distance = by_distance.reshape(len(weights), self.m)
        by_mean = 2 * (by_distance.sum(axis=1)[:, None] * means - by_distance @ points)
        by_point = 2 * (by_distance.sum(axis=0)[:, None] * points - by_distance.T @ means) + weights.T @ by_mean
        gradient = []
        for place, (name, code) in enumerate(self.known.codes.items()):
            off = centres[name] - self.guess[name]
            total += self.pull[name] / 2 * float((off**2).sum())
            own = by_point[:, place * self.q : (place + 1) * self.q]
            summed = np.stack([np.bincount(code, column, len(off)) for column in own.T], axis=1)
            gradient.append((summed + self.pull[name] * off).ravel())
        return total, np.concatenate([*gradient, (by_point + _PULL_OF_CENTRE * away).ravel()])

    def _split(self, values: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        centres, start = {}, 0
        for name, count in self.groups.items():
            centres[name] = values[start : start + count * self.q].reshape(count, self.q)
            start += count * self.q
        return centres, values[start:].reshape(self.m, -1)

    def fit(self, max_iter: int) -> dict[str, np.ndarray]:
        """Return the estimated points of each other party (rows × q)."""
        start = [one.ravel() for one in self.guess.values()]
        values = np.concatenate([*start, np.zeros(self.m * self.q * len(start))])
        options = {"maxiter": max_iter}
        centres, away = self._split(minimize(self.loss, values, jac=True, method="L-BFGS-B", options=options).x)
        return {
            name: centres[name][code] + away[:, place * self.q : (place + 1) * self.q]
            for place, (name, code) in enumerate(self.known.codes.items())
        }


def estimate(known: Learned, max_iter: int = 150) -> dict[str, np.ndarray]:
    """Return the attacker's claim: for each other party, the distances between its local centres (all pairs)."""
    model = Points(known)
    found = model.fit(max_iter)
    return {name: between(model.centres(found[name], code)) for name, code in known.codes.items()}


def from_own_columns(known: Learned) -> dict[str, np.ndarray]:
    """Return the claim of a party that reads nothing but the local labels: its own columns show similar distances."""
    model = Points(known.only(np.zeros(0, dtype=np.int64)))
    return {name: between(model.guess[name]) for name in known.codes}


def estimate_rows(known: Learned, max_iter: int = 60) -> np.ndarray:
    """Return the claim about every row: the sum of the others' distances to the final centres (rows × k)."""
    return to_final_centres(known, Points(known).fit(max_iter))


def to_final_centres(known: Learned, rows: dict[str, np.ndarray]) -> np.ndarray:
    """Return the sum of some parties' distances of each row to the means of the final clusters."""
    model = Points(known.only(np.zeros(0, dtype=np.int64)))
    return np.sum([squared_distances(one, model.centres(one, known.labels)) for one in rows.values()], axis=0)


def between(centres: np.ndarray) -> np.ndarray:
    """Return the squared distances of all pairs."""
    return squared_distances(centres, centres)[np.triu_indices(len(centres), 1)]


def truth(run: Recording, known: Learned, group: str) -> dict[str, np.ndarray]:
    """Return the true distances between the local centres of each other party: for evaluators."""
    model = Points(known.only(np.zeros(0, dtype=np.int64)))
    rows = run.inside.joint[group].rows
    return {name: between(model.centres(rows[name], code)) for name, code in known.codes.items()}


def correlation(claims: dict[str, np.ndarray], true: dict[str, np.ndarray]) -> float:
    """Return the correlation of claims and truth, in the mean over the other parties."""
    return float(np.mean([np.corrcoef(claims[name], true[name])[0, 1] for name in true]))


@dataclass(frozen=True)
class Distances:
    """What a party learns of the others' distances of predicted nodes to the centres (nodes × k)."""

    own: np.ndarray
    row: np.ndarray
    first: np.ndarray
    second: np.ndarray
    positive: np.ndarray

    def winners_only(self, winners: np.ndarray) -> Distances:
        """Return what the predicted clusters alone say."""
        row, first = np.nonzero(np.arange(self.own.shape[1]) != winners[:, None])
        return Distances(self.own, row, first, winners[row], np.ones(len(row), dtype=bool))

    def estimate(self) -> np.ndarray:
        """Return the claim: the others' distances, each up to one number for each node."""
        n, k = self.own.shape
        sign = np.where(self.positive, 1.0, -1.0) / _NOISE
        far, near = self.row * k + self.first, self.row * k + self.second
        guess = self.own.ravel()

        def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
            total = values + guess
            margin = (total[far] - total[near]) * sign
            each = -expit(-margin) * sign
            off = values - guess
            value = float(np.logaddexp(0, -margin).sum()) + _PULL_OF_GUESS / 2 * float(off @ off)
            return value, np.bincount(far, each, n * k) - np.bincount(near, each, n * k) + _PULL_OF_GUESS * off

        return minimize(loss, guess, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x.reshape(n, k)


_PULL_OF_GUESS = 10.0


def replay_prediction(transcript: Transcript, own: np.ndarray) -> Distances:
    """Return all comparisons of a prediction, read from the transcript of a party that sent the distances `own`."""
    _, hellos = next(transcript.messages(Hellos))
    agreement = msgspec.msgpack.decode(hellos.hellos[0].inputs, type=Agreement)
    (merge,) = (one for layer in layers(agreement) for one in layer if one.root)
    seen = View(agreement, merge, np.ones(len(own)), {}, own, np.zeros(0), 0, own.shape[1])
    tracer = Tracer(merge.group, from_transcript(transcript, seen), lambda _: own, unit=own)
    codes = tracer.encode(tracer.coded(np.eye(own.shape[1])))
    candidates = np.tile(np.arange(own.shape[1]), (len(own), 1))
    asyncio.run(_without_progress(nearest(tracer, Step.PREDICTION, codes, candidates)))
    row, first, second, _, positive, _ = (np.concatenate(one) for one in zip(*tracer.answered, strict=True))
    return Distances(own, row, first, second, positive)


def distances_of(data: PartyData, model: Any, nodes: np.ndarray) -> np.ndarray:
    """Return a party's distances of nodes to the centres of its model."""
    filtered = model.filter.restore(data.filter).apply(data.graph, data.features)
    return squared_distances(model.embedder.rows(LOCAL, filtered[nodes]), model.centers)


def others_distances(fitted: Recording, nodes: np.ndarray) -> np.ndarray:
    """Return the true sum of the others' distances of nodes to the centres: for evaluators."""
    others = {name: model for name, model in fitted.models.items() if name != ME}
    return np.sum([distances_of(fitted.data[name], model, nodes) for name, model in others.items()], axis=0)


def within_rows(claimed: np.ndarray, true: np.ndarray) -> float:
    """Return the correlation of two tables of distances, each row less its mean: only differences can be learned."""
    one, other = (table - table.mean(axis=1, keepdims=True) for table in (claimed, true))
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


def cases(short: bool) -> list[dict[str, Any]]:
    """Return the runs to attack."""
    runs = [("demo", 3, "cells", 4), ("demo", 3, "prediction", 4)]
    if not short and has_data("cora"):
        graphs = [("demo", 2), ("demo", 3), ("cora", 2), ("cora", 3), ("wiki", 2), ("wiki", 3)]
        runs = [(*graph, "cells", n_init) for graph in graphs for n_init in (1, 2, 4, 10)]
        runs += [("demo", 3, "basic", 1), ("demo", 3, "basic", 4), ("cora", 2, "basic", 2), ("cora", 4, "tree", 4)]
        runs += [("demo", 3, "prediction", 4), ("cora", 2, "prediction", 4), ("wiki", 2, "prediction", 4)]
    return [dict(zip(("data", "parties", "method", "n_init"), run, strict=True)) for run in runs]


def attack(case: dict[str, Any]) -> list[Figure]:
    """Attack one run."""
    if case["method"] == "prediction":
        return _prediction_figures(case)
    run = recorded(Case(case["data"], case["parties"], case["method"], settings=(("n_init", case["n_init"]),)))
    known = replay(run.of(ME))
    group = next(name for name, joint in run.inside.joint.items() if ME in joint.rows)
    if case["method"] == "basic":
        what = "others' distances of a node to the centres"
        rows = run.inside.joint[group].rows
        table = to_final_centres(known, {name: rows[name] for name in known.codes})
        own = to_final_centres(known, {ME: known.own_rows})
        baseline = max(within_rows(own, table), within_rows(estimate_rows(known.final_only()), table))
        figure = within_rows(estimate_rows(known), table)
    else:
        what = "distances between the others' local centres"
        true = truth(run, known, group)
        baseline = max(correlation(from_own_columns(known), true), correlation(estimate(known.final_only()), true))
        figure = correlation(estimate(known), true)
    restarts = f"answers of all sums, {case['n_init']} restart{'s' * (case['n_init'] > 1)}"
    data = f"{case['data']}, {case['parties']} parties"
    return [
        Figure(
            "party",
            case["method"],
            data,
            what,
            restarts,
            "correlation",
            figure,
            baseline,
            None,
            len(known.row),
            "party-rounds",
        )
    ]


def _prediction_figures(case: dict[str, Any]) -> list[Figure]:
    fitted = recorded(Case(case["data"], case["parties"], "cells", settings=(("n_init", case["n_init"]),)))
    model, found = fitted.models[ME], []
    many = np.arange(0, len(fitted.results[ME].labels), 4)
    for what, nodes in (("many nodes", many), ("each node twice", np.repeat(many, 2))):
        run = record_prediction(fitted, nodes)
        known = replay_prediction(run.of(ME), distances_of(run.data[ME], model, nodes))
        winners = np.searchsorted(model.clusters, run.results[ME].labels)
        true = others_distances(fitted, nodes)
        baseline = max(within_rows(known.own, true), within_rows(known.winners_only(winners).estimate(), true))
        found.append(
            Figure(
                "party",
                "prediction",
                f"{case['data']}, {case['parties']} parties",
                "others' distances of a node to the centres",
                f"answers of all sums, {what}",
                "correlation",
                within_rows(known.estimate(), true),
                baseline,
                None,
                len(known.row),
                "party-prediction",
            )
        )
    return found
