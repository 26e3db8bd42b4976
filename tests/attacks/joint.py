"""What the attacks on the joint method have in common: the truth of a run, what a party reads, and how it estimates.

A party knows which nodes each centre is the mean of, and reads for every restart and round which centres are nearer to
a node than its last one. `replay` reads all of that from the party's transcript, `Places` fits places to it.
`explained` and `column_auc` say how well any numbers that an attacker has predict what it wants to know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.sparse.linalg import eigsh
from scipy.special import expit
from scipy.stats import rankdata

from attacks.party import ME, _without_progress
from attacks.transcripts import Case, Recording, Transcript
from kcagc.cluster.joint import clustered_sample, order_by_first_node, schedule, start_sets
from kcagc.protocol import shared_kmeans
from kcagc.protocol.agreement import Agreement
from kcagc.protocol.joint import join_seeds
from kcagc.protocol.messages import Answer, Confirmation, Hellos, restore
from kcagc.protocol.plan import layers
from kcagc.protocol.secure_sum import MAX_COPIES, MIN_LENGTH, MIN_PROBES, padded_length
from kcagc.secagg.blinding import Blinding, draw_positions
from kcagc.secagg.keys import framed
from kcagc.secagg.shares import DIRECTION_BITS

_MOST_ANSWERS = 300_000
_SLOPE = 100.0  # of the logistic loss: answers are exact
_SOFT = 0.03  # length below which a row has no clear direction
_COLUMNS = 40  # of another party, for the inference of single columns
_PENALTIES = (1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


def joint_case(data: str, parties: int, form: str = "shares", session: int = 0) -> Case:
    """Return a run of the joint method."""
    return Case(data, parties, "joint", session, (("joint_rows", form),))


# The truth, for evaluators


@dataclass(frozen=True)
class Truth:
    """What no role knows: the parts of all parties of the joint rows, the joint rows and the unit rows (nodes × d)."""

    components: dict[str, np.ndarray]
    parts: dict[str, np.ndarray]
    rows: np.ndarray
    units: np.ndarray
    weights: dict[str, np.ndarray]  # of each party's components for the clusters
    labels: np.ndarray

    def others(self, *own: str) -> np.ndarray:
        """Return the sum of the parts of all other parties."""
        return np.sum([part for name, part in self.parts.items() if name not in own], axis=0)

    def other_components(self, *own: str) -> np.ndarray:
        """Return the components of all other parties side by side."""
        return np.hstack([rows for name, rows in self.components.items() if name not in own])


def truth(run: Recording) -> Truth:
    """Put the shares of both holders together."""
    models = [one.model.joint for one in run.results.values()]
    components = {name: one.rows for name, one in run.results.items()}
    directions = np.ldexp(_sum(one.directions for one in models[:2]), -DIRECTION_BITS)
    centers = _sum(one.centers for one in models[:2])
    blocks = np.split(directions, np.cumsum(models[0].widths)[:-1])
    by_party = dict(zip(components, blocks, strict=True))
    parts = {name: components[name] @ by_party[name] for name in components}
    rows = np.sum(list(parts.values()), axis=0)
    to_clusters = unit(centers).T[:, list(models[0].scored)]
    weights = {name: by_party[name] @ to_clusters for name in components}
    return Truth(components, parts, rows, unit(rows), weights, run.results[ME].labels)


def _sum(shares: Iterable[Any]) -> np.ndarray:
    return np.sum([restore(one) for one in shares], axis=0, dtype=np.int64).astype(float)  # wraps, as the ring does


def unit(rows: np.ndarray) -> np.ndarray:
    """Scale rows to length one; rows of zeros stay."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 1e-9, length, 1.0)


# What a party reads


@dataclass(frozen=True)
class Learned:
    """Everything that opened to a party. A centre is a mixture of unit rows: a line of `weights`, plus its shift.

    Comparison j says that centre `near` is nearer to a row than centre `far`. `labels` has a line for each restart and
    round.
    """

    weights: np.ndarray
    row: np.ndarray
    near: np.ndarray
    far: np.ndarray
    labels: np.ndarray
    final: np.ndarray

    @property
    def k(self) -> int:
        return int(self.labels.max()) + 1

    def final_only(self) -> Learned:
        """Return what the final clusters alone say."""
        weights = _means(self.final, self.k)
        row, far = np.nonzero((np.arange(self.k) != self.final[:, None]) & (weights.any(axis=1)))
        return Learned(weights, row, self.final[row], far, self.final[None], self.final)

    def together(self, other: Learned) -> Learned:
        """Return what two sessions say."""
        count = len(self.weights)
        pairs = ((self.weights, other.weights), (self.row, other.row), (self.near, other.near + count))
        more = ((self.far, other.far + count), (self.labels, other.labels))
        return Learned(*(np.concatenate(pair) for pair in pairs + more), self.final)


def _means(labels: np.ndarray, k: int) -> np.ndarray:
    """Return the weights of the rows in the mean of each cluster (k × rows)."""
    found = np.zeros((k, len(labels)))
    found[labels, np.arange(len(labels))] = 1.0
    return found / np.maximum(found.sum(axis=1, keepdims=True), 1.0)


@dataclass(eq=False)
class _Replay:
    """Stands for the secure sums and the shared rows in the party's own program, and notes what is compared."""

    answer: Callable[[int, int], np.ndarray]
    sums: Any = None
    draws: bool = False
    share: Any = None
    number: int = 2  # after rows and shares
    checks: int = 0
    group: Any = field(default_factory=lambda: SimpleNamespace(title="", aggregator="", name=""))
    holders: tuple[str, ...] = ()
    centers: list[np.ndarray] = field(default_factory=list)
    answers: list[np.ndarray] = field(default_factory=list)
    noted: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    labels: list[np.ndarray] = field(default_factory=list)

    async def scores(self, centers: list[np.ndarray]) -> np.ndarray:
        self.number += 1
        self.centers += [row for one in centers for row in one]
        self.answers.clear()
        return np.zeros((len(centers), len(self.share), len(centers[0])), dtype=np.int64)

    async def signs(self, _step: Any, asked: Any, _senders: Any) -> np.ndarray:
        found = self.answer(self.number, len(asked))
        self.number += 1
        self.answers.append(found)
        return found

    def wrong_answer(self, how: str) -> Exception:
        return RuntimeError(how)

    def note(self, active: list[Any], before: list[Any], k: int) -> None:
        """Note the answers of one round."""
        first, n = len(self.centers) - len(active) * k, len(self.share)
        now = np.stack([one.labels for one in active])
        self.labels += list(now)
        if before[0] is None:  # the nearest of all centres; with few centres, the answers of all pairs
            which, row, far = np.nonzero(np.arange(k) != now[:, :, None])
            near = now[which, row]
            if self.answers[0].size == len(active) * n * (k * (k - 1) // 2):
                one, other = np.triu_indices(k, 1)
                which, row = (np.repeat(place.ravel(), len(one)) for place in np.indices(now.shape))
                one, other = np.tile(one, now.size), np.tile(other, now.size)
                near, far = np.where(self.answers[0], other, one), np.where(self.answers[0], one, other)
        else:
            last = np.stack(before)
            which, row, other = np.nonzero(np.arange(k) != last[:, :, None])
            farther = self.answers[0][: len(row)]
            near = np.where(farther, last[which, row], other)
            far = np.where(farther, other, last[which, row])
        self.noted.append((row, first + which * k + near, first + which * k + far))


def answers_of(transcript: Transcript) -> tuple[Agreement, int, Callable[[int, int], np.ndarray]]:
    """Return the agreement, the common seed, and a function that reads the answers to a sum of some comparisons."""
    (me,) = transcript.roles
    _, hellos = next(transcript.messages(Hellos))
    agreement = msgspec.msgpack.decode(hellos.hellos[0].inputs, type=Agreement)
    ((merge,),) = layers(agreement)
    name = merge.group.name
    confirmed = {one.sender: one.content for one in transcript.contents if isinstance(one.content, Confirmation)}
    seed = join_seeds([confirmed[party].seed for party in agreement.parties])
    session, key = transcript.session_id(), transcript.group_keys()[name]
    answers = {one.number: one for event, one in transcript.messages(Answer) if event.receiver == me}

    def answer(number: int, count: int) -> np.ndarray:
        copies = draw_positions(key, session, framed(name, number), MAX_COPIES, count)
        length = padded_length(max(count + len(copies) + MIN_PROBES, MIN_LENGTH))
        signs = np.unpackbits(np.frombuffer(answers[number].signs, dtype=np.uint8), bitorder="little")[:length]
        return Blinding.from_key(key, session, framed(name, number), length, 2).restore(signs.astype(bool))[:count]

    return agreement, seed, answer


def replay(transcript: Transcript, first: int = 0) -> Learned:
    """Return everything that opened to a party in a fit on shares, read from its transcript.

    `first` is the number of sums before the fit.
    """
    (me,) = transcript.roles
    agreement, seed, answer = answers_of(transcript)
    parameters, n_nodes = agreement.parameters, transcript.data[me].graph.n_nodes
    sample = clustered_sample(n_nodes, parameters.n_clusters, seed)
    here = _Replay(answer, share=sample[:, None], number=first + 2)
    here.sums = here
    real = shared_kmeans._Run.round

    async def spied(run: Any, active: list[Any], others: list[Any]) -> Any:
        before = [one.labels for one in active]
        found = await real(run, active, others)
        here.note(active, before, run.k)
        return found

    def first_centers(run: Any, restart: int) -> np.ndarray:
        return np.stack(
            [
                np.bincount(nodes, minlength=len(sample)) / len(nodes)
                for nodes in start_sets(len(sample), run.k, seed, restart)
            ]
        )

    spies = patch.multiple(shared_kmeans._Run, round=spied, first_centers=first_centers)
    with spies, patch.object(shared_kmeans, "means_of", lambda _, labels, k: _means(labels, k)):
        plan = schedule(n_nodes, parameters.n_clusters, parameters.max_iter)
        program = shared_kmeans.shared_kmeans(here, parameters.n_clusters, seed, plan)
        found = asyncio.run(_without_progress(program))
    row, near, far = (np.concatenate(one) for one in zip(*here.noted, strict=True))
    order = order_by_first_node(found.found.labels, parameters.n_clusters)
    final = np.argsort(order)[found.found.labels]
    return Learned(np.array(here.centers), row, near, far, np.array(here.labels), final)


# How a party estimates


class Places:
    """Unit rows that fit the answers: a logistic regression over comparisons of scores 2·u·m - |m|².

    `shifts` are what a lying holder added to the centres.
    """

    def __init__(self, known: Learned, size: int, shifts: np.ndarray | None = None, most: int = _MOST_ANSWERS) -> None:
        self.known, self.size = known, size
        self.n, self.slope = known.weights.shape[1], _SLOPE
        self.shifts = np.zeros((len(known.weights), size)) if shifts is None else shifts
        chosen = np.arange(len(known.row))
        if len(chosen) > most:
            chosen = np.random.default_rng(0).choice(chosen, most, replace=False)
        row, width = known.row[chosen], len(known.weights)
        self.near, self.far = row * width + known.near[chosen], row * width + known.far[chosen]

    def loss(self, values: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss and its gradient."""
        points = values.reshape(-1, self.size)
        length = np.sqrt((points**2).sum(axis=1) + _SOFT**2)[:, None]
        units = points / length
        centers = self.known.weights @ units + self.shifts
        scores = (2 * units @ centers.T - (centers**2).sum(axis=1)).ravel()
        margin = self.slope * (scores[self.near] - scores[self.far])
        each = -self.slope * expit(-margin) / len(self.near)
        by_score = np.bincount(self.near, each, len(scores)) - np.bincount(self.far, each, len(scores))
        by_score = by_score.reshape(self.n, -1)
        by_center = 2 * (by_score.T @ units - by_score.sum(axis=0)[:, None] * centers)
        by_unit = 2 * by_score @ centers + self.known.weights.T @ by_center
        by_point = (by_unit - (by_unit * units).sum(axis=1, keepdims=True) * units) / length
        off = (length - 1.0) / self.n  # a row has no length: keep it near one
        total = float((off * (length - 1.0)).sum()) + float(np.logaddexp(0, -margin).mean())
        return total, (by_point + 2 * off / length * points).ravel()

    def fit(self, start: np.ndarray, max_iter: int = 40, slope: float = _SLOPE) -> np.ndarray:
        """Return estimated unit rows."""
        self.slope = slope
        options = {"maxiter": max_iter}
        return unit(
            minimize(self.loss, start.ravel(), jac=True, method="L-BFGS-B", options=options).x.reshape(start.shape)
        )


def alike(labels: np.ndarray, count: int) -> np.ndarray:
    """Return the main directions of all clusterings together (nodes × count): nodes alike are often together."""
    columns = np.hstack([one[:, None] == np.arange(labels.max() + 1) for one in labels]).astype(float)
    columns /= np.sqrt(columns.sum(axis=0) + 1.0)
    columns -= columns.mean(axis=0)
    _, vectors = np.linalg.eigh(columns.T @ columns)
    return columns @ vectors[:, ::-1][:, :count]


def estimated_places(known: Learned, size: int, most: int = _MOST_ANSWERS) -> np.ndarray:
    """Return unit rows that fit all answers; most joint rows lie around one direction."""
    start = alike(known.labels, size - 1)
    middle = 2 * np.sqrt((start**2).sum(axis=1).mean())
    rest = np.zeros((len(start), size - start.shape[1]))
    rest[:, 0] = middle
    return Places(known, size, most=most).fit(unit(np.hstack([start, rest])))


@lru_cache(maxsize=2)
def graph_basis(case: Case, count: int = 150) -> np.ndarray:
    """Return the smoothest vectors of the graph, as the filter keeps them: every role knows the graph."""
    adjacency = sparse.csr_array(case.dataset().adjacency, dtype=float)
    adjacency = adjacency + sparse.eye_array(adjacency.shape[0])
    scale = sparse.diags_array(1 / np.sqrt(np.maximum(adjacency.sum(axis=1), 1e-12)))
    values, vectors = eigsh(
        scale @ adjacency @ scale, k=min(count, adjacency.shape[0] - 2), v0=np.ones(adjacency.shape[0])
    )
    return vectors * ((1 + values) / 2) ** case.order


def side_by_side(blocks: list[np.ndarray]) -> np.ndarray:
    """Return blocks of features, each with variance one in all."""
    found = []
    for block in blocks:
        centred = block - block.mean(axis=0)
        found.append(centred / max(np.sqrt((centred**2).sum(axis=1).mean()), 1e-12))
    return np.hstack(found)


def _ridge(known: np.ndarray, wanted: np.ndarray) -> tuple[Callable[[np.ndarray], np.ndarray], float]:
    """Return a ridge regression with the penalty of the least leave-one-out error, and that error."""
    middle, level, n = known.mean(axis=0), wanted.mean(axis=0), len(known)
    centred = known - middle
    values, vectors = np.linalg.eigh(centred @ centred.T)
    values, turned = np.maximum(values, 0), vectors.T @ (wanted - level)
    best = (np.inf, 1.0)
    for penalty in _PENALTIES:
        shrunk = values / (values + penalty)
        off = (wanted - level - vectors @ (shrunk[:, None] * turned)) / np.maximum(
            1 - (vectors**2) @ shrunk - 1 / n, 1e-3
        )[:, None]
        best = min(best, (float((off**2).sum()), penalty))
    coefficients = centred.T @ (vectors @ (turned / (values + best[1])[:, None]))
    return lambda rows: (rows - middle) @ coefficients + level, best[0]


def predicted(sets: list[np.ndarray], wanted: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Predict all rows from the set of features that fits the known rows best."""
    fits = [(*_ridge(features[known], wanted[known]), features) for features in sets]
    fit, _, features = min(fits, key=lambda one: one[1])
    return fit(features)


def r_squared(claimed: np.ndarray, true: np.ndarray) -> float:
    """Return the share of the variance that claims explain."""
    return float(1 - ((true - claimed) ** 2).sum() / ((true - true.mean(axis=0)) ** 2).sum())


def explained(sets: list[np.ndarray], wanted: np.ndarray, share: float, turns: int = 4) -> float:
    """Return R² for the unknown rows of an attacker that knows this share of the rows, in the mean over some turns."""
    found, n = [], len(wanted)
    for turn in range(turns):
        known = np.zeros(n, dtype=bool)
        known[np.random.default_rng(turn).choice(n, max(int(n * share), 12), replace=False)] = True
        found.append(r_squared(predicted(sets, wanted, known)[~known], wanted[~known]))
    return float(np.mean(found))


def column_auc(sets: list[np.ndarray], columns: np.ndarray, share: float = 0.5) -> float:
    """Return the mean AUC of single columns for an attacker that knows this share of the nodes."""
    known = np.random.default_rng(1).random(len(columns)) < share
    claims = predicted(sets, columns.astype(float), known)[~known]
    areas = [auc(claims[:, j], columns[~known, j]) for j in range(columns.shape[1])]
    return float(np.mean([one for one in areas if not np.isnan(one)]))


def auc(scores: np.ndarray, wanted: np.ndarray) -> float:
    """Return the area under the ROC curve; not a number if all or none are wanted."""
    n = int(wanted.sum())
    if not 0 < n < len(wanted):
        return float("nan")
    return float((rankdata(scores)[wanted].sum() - n * (n + 1) / 2) / (n * (len(wanted) - n)))


def bias(words: np.ndarray) -> float:
    """Return how far the most biased bit is from a coin, in standard deviations."""
    bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8)).reshape(-1, 64)
    return float(np.abs(bits.mean(axis=0) - 0.5).max() * 2 * np.sqrt(len(bits)))


def dense(table: Any) -> np.ndarray:
    """Return a table as an array."""
    return np.asarray(table.toarray() if sparse.issparse(table) else table, dtype=float)


def binary_columns(table: Any) -> np.ndarray:
    """Return the most frequent columns of a table as yes or no; numbers count as yes above their median."""
    whole = dense(table)
    if (whole == 0).mean() < 0.3:
        return whole[:, :_COLUMNS] > np.median(whole[:, :_COLUMNS], axis=0)
    whole = whole != 0
    often = whole.mean(axis=0)
    some = whole[:, (often >= 0.01) & (often <= 0.7)]
    return some[:, np.argsort(-some.mean(axis=0))[:_COLUMNS]]


def distance_correlation(claimed: np.ndarray, true: np.ndarray, pairs: int = 20_000) -> float:
    """Return the correlation of claimed and true distances of random pairs of nodes."""
    one, other = np.random.default_rng(2).integers(len(true), size=(2, pairs))
    return float(
        np.corrcoef(
            np.linalg.norm(claimed[one] - claimed[other], axis=1), np.linalg.norm(true[one] - true[other], axis=1)
        )[0, 1]
    )
