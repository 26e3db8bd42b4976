"""Attacks of roles that lie: a party that sends numbers of its own choice, a coordinator that answers wrongly.

A party that lies in its distances and, consistently, in its costs cannot be noticed: nobody knows what its columns are.
Each answer tells it whether a difference of the others' distances exceeds a number that it chose. What it gains is
bounded by the number of rounds. A coordinator that lies does not know which answers are probes or copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
from scipy.stats import norm

from attacks import party, transcripts
from attacks.party import ME, Tracer, correlation, estimate, from_own_columns, learned, truth
from attacks.results import Figure
from attacks.transcripts import Case, Recording, has_data, record, record_prediction, recorded
from kcagc.errors import PeerError
from kcagc.protocol import fit, joint_kmeans, messages
from kcagc.protocol.messages import Answer, Masked, Step
from kcagc.protocol.secure_sum import Comparisons, SecureSums
from kcagc.secagg.masks import CHECK_WORDS
from kcagc.simulation import COORDINATOR

TITLE = "Roles that lie"
SENTENCES = {
    "lying-party": (
        "A party that sends false distances, and costs that fall in every round, cannot be noticed. It learns nearly "
        "exactly the distances between the other parties' local centres, although the number of rounds is limited."
    ),
    "careless-party": "A party that sends random numbers ends the run at the first cost that rises.",
    "lying-prediction": (
        "A party that sends false distances in predictions learns about half a bit of each difference of the others' "
        "distances with each prediction of the same node."
    ),
    "lying-coordinator": (
        "A coordinator that answers at random ends the run in the same sum, in a fit and in a prediction."
    ),
    "rare-lies": (
        "A coordinator that gives few wrong answers is noticed with a probability that grows with their number; a "
        "single wrong answer can stay unnoticed."
    ),
}
_HIGHEST, _LOWEST = 8.0, -8.0  # of the costs that a liar sends: a sum has room for them
_DOUBT = 1.35  # by which a liar widens its distributions, as cut ones are not normal
_FARTHEST = 20.0  # standard deviations: a more surprising answer counts as this
_SIZE = 2.0  # of the numbers that a liar sends


def unwatched() -> Any:
    """Return a context in which the truth behind sums is not recorded: nothing here needs it."""
    return patch.object(transcripts, "watch", lambda _: nullcontext())


@dataclass(eq=False)
class Liar:
    """A party that sends random numbers instead of its distances, and costs that fall evenly from round to round."""

    max_iter: int
    tracer: Tracer | None = None
    labels: np.ndarray | None = None
    rounds: int = 0
    random: Any = field(default_factory=lambda: np.random.default_rng(0))

    @contextmanager
    def takes_part(self) -> Iterator[None]:
        """Let the k-means of party ME be that of this liar."""
        real, real_compare, liar = joint_kmeans.joint_kmeans, joint_kmeans._Costs.compare, self

        @wraps(real)
        async def joint(sums: Any, rows: Any, *rest: Any) -> Any:
            if sums.channel.me != ME:
                return await real(sums, rows, *rest)

            async def ask(step: Step, parts: np.ndarray, ties: np.ndarray) -> np.ndarray:
                return await sums.signs(step, Comparisons(parts, ties))

            def numbers(weights: np.ndarray) -> np.ndarray:
                return liar.random.uniform(0, _SIZE, size=(len(rows), len(weights)))

            liar.tracer = Tracer(sums.group, ask, numbers, sums.fraction_bits)
            liar.tracer.wrong_answer = sums.wrong_answer
            found = await liar.tracer.run(real, len(rows), *rest)
            liar.labels = found.labels
            return found

        def compare(costs: Any, new: dict[int, int]) -> Any:
            if costs.sums is liar.tracer:
                fallen = (_HIGHEST - _LOWEST) * liar.rounds / liar.max_iter
                new = dict.fromkeys(new, _integers(_HIGHEST - fallen, liar.tracer.fraction_bits).item())
                liar.rounds += 1
            return real_compare(costs, new)

        lies = patch.object(fit, "joint_kmeans", joint), patch.object(joint_kmeans._Costs, "compare", compare)
        with unwatched(), lies[0], lies[1]:
            yield

    def claim(self, run: Recording) -> tuple[dict[str, np.ndarray], Any]:
        """Return the estimated distances between the others' local centres, and what is known."""
        seen = party.view(run.of(ME))
        labels = np.zeros(len(seen.sizes), dtype=np.int64) if self.labels is None else self.labels
        known = learned(seen, labels, self.tracer)
        return estimate(known), known


def _integers(values: Any, fraction_bits: int) -> np.ndarray:
    return np.rint(np.ldexp(values, fraction_bits)).astype(np.int64)


@contextmanager
def careless() -> Iterator[None]:
    """Let party ME send random numbers as its distances and, without thinking, the costs that follow from them."""
    real, random = SecureSums.encode, np.random.default_rng(0)

    def encode(sums: Any, distances: np.ndarray) -> np.ndarray:
        found = real(sums, distances)
        numbers = _integers(random.uniform(0, _SIZE, size=found.shape), sums.fraction_bits)
        return numbers if sums.channel.me == ME else found

    with unwatched(), patch.object(SecureSums, "encode", encode):
        yield


@dataclass(eq=False)
class WrongAnswers:
    """A coordinator that changes answers, the same for all parties; it knows the sums that it opened.

    `choose` gets the opened values of a sum and a source of randomness, and returns the answers to flip. Sums before
    `first` are answered rightly.
    """

    choose: Callable[[np.ndarray, Any], np.ndarray]
    first: int = 0
    seed: int = 0
    only_first: bool = False
    lied: set[int] = field(default_factory=set)
    answered: set[int] = field(default_factory=set)
    _totals: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)

    def __call__(self, sender: str, _receiver: str, payload: bytes) -> bytes:
        """Return what arrives instead of a message."""
        message = messages.decode(payload, sender)
        if isinstance(message, Masked):
            words = np.frombuffer(message.words, dtype="<u8").astype(np.uint64)
            key = message.group, message.number
            self._totals[key] = self._totals.get(key, np.zeros_like(words)) + words
        if sender != COORDINATOR or not isinstance(message, Answer):
            return payload
        self.answered.add(message.number)
        if message.number < self.first or (self.only_first and message.number > self.first):
            return payload
        values = self._totals[message.group, message.number][:-CHECK_WORDS].view(np.int64)
        flipped = self.choose(values, np.random.default_rng([self.seed, message.number]))
        bits = np.unpackbits(np.frombuffer(message.signs, np.uint8), bitorder="little")
        bits[: len(values)] ^= flipped
        if flipped.any():
            self.lied.add(message.number)
        return messages.encode(msgspec.structs.replace(message, signs=np.packbits(bits, bitorder="little").tobytes()))

    @property
    def sums_after(self) -> int:
        """How many sums were answered after the first lie."""
        return max(self.answered) - min(self.lied)


def some(share: float) -> Callable[[np.ndarray, Any], np.ndarray]:
    """Flip each answer with this probability."""
    return lambda values, random: random.random(len(values)) < share


def smallest(share: float) -> Callable[[np.ndarray, Any], np.ndarray]:
    """Flip the answers of the values with the smallest magnitudes, which could be close decisions."""
    return lambda values, _: np.abs(values) <= np.quantile(np.abs(values), share)


def one(values: np.ndarray, random: Any) -> np.ndarray:
    """Flip a single answer."""
    return np.arange(len(values)) == random.integers(len(values))


STRATEGIES: dict[str, tuple[Callable[[np.ndarray, Any], np.ndarray], int, bool, bool]] = {
    # name: which answers, from which sum on, only in that sum, whether it must always be noticed
    "random answers": (some(0.5), 0, False, True),
    "all answers flipped": (some(1.0), 0, False, True),
    "10 % flipped": (some(0.1), 0, False, True),
    "smallest 10 % flipped": (smallest(0.1), 0, False, True),
    "right in 3 sums, then random": (some(0.5), 3, False, True),
    "1 % flipped": (some(0.01), 0, False, False),
    "smallest 1 % flipped": (smallest(0.01), 0, False, False),
    "one answer flipped, once": (one, 0, True, False),
}


def noticed(run: Recording) -> bool:
    """Return whether the run ended with an error that names the coordinator."""
    return isinstance(run.error, PeerError) and run.error.peer == COORDINATOR


class Bisection:
    """A party that predicts the same nodes again and again, each time with other numbers as its distances.

    It holds a normal distribution of the others' distances for each node, sends numbers that make all centres equally
    far by its mean, and cuts the distribution with every answer.
    """

    def __init__(self, n: int, k: int, spread: float = 0.7) -> None:
        self.mean, self.covariance = np.zeros((n, k)), np.tile(np.eye(k) * spread**2, (n, 1, 1))

    def numbers(self) -> np.ndarray:
        """Return what to send next: never negative, as distances are."""
        return self.mean.max(axis=1, keepdims=True) - self.mean + 0.1

    def learn(self, known: party.Distances) -> None:
        """Cut the distributions by the answers of one prediction."""
        self.covariance *= _DOUBT
        order = np.lexsort((known.second, known.first, known.row))
        for place in range(int(np.bincount(known.row).max())):
            starts = np.flatnonzero(np.diff(known.row[order], prepend=-1))
            counts = np.diff(np.append(starts, len(order)))
            at = order[starts[counts > place] + place]
            row, first, second = known.row[at], known.first[at], known.second[at]
            sign = np.where(known.positive[at], 1.0, -1.0)
            direction = np.zeros((len(at), self.mean.shape[1]))
            direction[np.arange(len(at)), first] += sign
            direction[np.arange(len(at)), second] -= sign
            offset = sign * (known.own[row, first] - known.own[row, second])
            # D·direction + offset > 0: the moments of a normal distribution that is cut there.
            away = np.einsum("nij,nj->ni", self.covariance[row], direction)
            scale = np.sqrt(np.maximum(np.einsum("ni,ni->n", direction, away), 1e-30))
            z = (np.einsum("ni,ni->n", direction, self.mean[row]) + offset) / scale
            z = np.maximum(z, -_FARTHEST)
            ratio = np.exp(norm.logpdf(z) - norm.logcdf(z))
            self.mean[row] += away * (ratio / scale)[:, None]
            shrink = np.minimum(ratio * (ratio + z), 1 - 1e-6) / scale**2
            self.covariance[row] -= shrink[:, None, None] * away[:, :, None] * away[:, None, :]


def bisect(fitted: Recording, nodes: np.ndarray, predictions: int) -> Iterator[np.ndarray]:
    """Predict the same nodes again and again; return the claims about the others' distances after each prediction."""
    k = len(fitted.models[ME].clusters)
    state, real = Bisection(len(nodes), k), SecureSums.encode
    for session in range(1, predictions + 1):
        sent = state.numbers()

        def encode(sums: Any, distances: np.ndarray, sent: np.ndarray = sent) -> np.ndarray:
            if sums.channel.me != ME:
                return real(sums, distances)
            return _integers(sent, sums.fraction_bits)

        with unwatched(), patch.object(SecureSums, "encode", encode):
            run = record_prediction(fitted, nodes, session)
        if run.error is not None:
            raise run.error
        state.learn(party.replay_prediction(run.of(ME), sent))
        yield state.mean.copy()


def cases(short: bool) -> list[dict[str, Any]]:
    """Return the lies to try."""
    graphs = [("demo", 3)]
    if not short and has_data("cora"):
        graphs += [("cora", 2), ("wiki", 2)]
    found = []
    for data, parties in graphs:
        at = {"data": data, "parties": parties}
        found += [at | {"liar": "party", "n_init": 4, "max_iter": rounds} for rounds in ((5,) if short else (5, 30))]
        found += [at | {"liar": "party", "n_init": 1, "max_iter": 100}] * (not short)
        found += [at | {"liar": "careless party"}, at | {"liar": "party in predictions"}]
        few = 2 if short else {"demo": 10, "cora": 4, "wiki": 2}[data]
        for task in ("fit", "prediction", "prediction of one node"):
            found += [at | {"liar": "coordinator", "task": task, "how": how, "runs": few} for how in STRATEGIES]
    return found


def attack(case: dict[str, Any]) -> list[Figure]:
    """Run one lie."""
    liars = {
        "party": _of_party,
        "careless party": _of_careless_party,
        "party in predictions": _of_predicting_party,
        "coordinator": _of_coordinator,
    }
    return liars[case["liar"]](case)


def _where(case: dict[str, Any]) -> str:
    return f"{case['data']}, {case['parties']} parties"


def _of_party(case: dict[str, Any]) -> list[Figure]:
    settings = (("n_init", case["n_init"]), ("max_iter", case["max_iter"]))
    liar = Liar(case["max_iter"])
    with liar.takes_part():
        run = record(Case(case["data"], case["parties"], settings=settings))
    claims, known = liar.claim(run)
    (group,) = run.inside.joint
    true = truth(run, known, group)
    baseline = correlation(from_own_columns(known), true)
    how = f"random numbers, {case['n_init']} restart{'s' * (case['n_init'] > 1)}, at most {case['max_iter']} rounds"
    what = "distances between the others' local centres"
    figure, count = correlation(claims, true), len(known.row)
    return [
        Figure(
            "lying party",
            "cells",
            _where(case),
            what,
            how,
            "correlation",
            figure,
            baseline,
            None,
            count,
            "lying-party",
        )
    ]


def _of_careless_party(case: dict[str, Any]) -> list[Figure]:
    with careless():
        run = record(Case(case["data"], case["parties"]))
    honest = recorded(Case(case["data"], case["parties"]))
    unnoticed = float(run.error is None)
    return [
        Figure("lying party", "cells", _where(case), "the run", "random numbers", measure, *figures, "careless-party")
        for measure, figures in (
            ("runs that went on to their end", (unnoticed, 1.0, 0.0, 1)),
            ("sums until the end", (float(_sums_of(run)), float(_sums_of(honest)), None, 1)),
        )
    ]


def _sums_of(run: Recording) -> int:
    """Return the number of answered sums."""
    return len({message.number for _, message in run.of(ME).messages(Answer)})


def _of_predicting_party(case: dict[str, Any]) -> list[Figure]:
    fitted = recorded(Case(case["data"], case["parties"]))
    nodes = np.arange(0, len(fitted.results[ME].labels), 20)
    true = party.others_distances(fitted, nodes)
    baseline = party.within_rows(party.distances_of(fitted.data[ME], fitted.models[ME], nodes), true)
    claims = dict(enumerate(bisect(fitted, nodes, 16), start=1))
    return [
        Figure(
            "lying party",
            "prediction",
            _where(case),
            "others' distances of a node to the centres",
            f"bisection, {count} predictions of each node",
            "correlation",
            party.within_rows(claims[count], true),
            baseline,
            None,
            len(nodes),
            "lying-prediction",
        )
        for count in (1, 4, 8, 16)
    ]


def _of_coordinator(case: dict[str, Any]) -> list[Figure]:
    choose, first, once, always = STRATEGIES[case["how"]]
    is_fit = case["task"] == "fit"
    if not is_fit:
        first = 0  # a prediction has few sums
        fitted = recorded(Case(case["data"], case["parties"]))
        nodes = np.arange(100) if case["task"] == "prediction" else np.arange(1)
    sums = _sums_of(recorded(Case(case["data"], case["parties"])) if is_fit else record_prediction(fitted, nodes, 0))
    after, unnoticed, lies = [], 0, 0
    for seed in range(case["runs"]):
        change = WrongAnswers(choose, first, seed, once)
        with unwatched():
            if is_fit:
                run = record(Case(case["data"], case["parties"], session=seed), change)
            else:
                run = record_prediction(fitted, nodes, seed + 1, change)
        if change.lied:
            lies += 1
            after.append(change.sums_after)
            unnoticed += not noticed(run)
    bound = 0.0 if always else None
    sentence = "lying-coordinator" if always else "rare-lies"
    method = "cells" if is_fit else "prediction"
    what = {"fit": "the run", "prediction": "100 nodes", "prediction of one node": "one node"}[case["task"]]
    latest = float(np.mean(after)) if after else 0.0
    shown = (
        ("sums answered after the first lie", latest, float(sums - first - 1), bound),
        ("unnoticed lies", unnoticed / max(lies, 1), 1.0, bound),
    )
    return [
        Figure("lying coordinator", method, _where(case), what, case["how"], measure, *values, lies, sentence)
        for measure, *values in shown
    ]
