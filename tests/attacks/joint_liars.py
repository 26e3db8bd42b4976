"""Attacks of roles that lie in the joint method: made-up columns, shifted centres, false scores, false answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np

from attacks import party
from attacks.joint import (
    Places,
    auc,
    binary_columns,
    dense,
    distance_correlation,
    estimated_places,
    joint_case,
    predicted,
    r_squared,
    replay,
    side_by_side,
    truth,
    unit,
)
from attacks.liars import STRATEGIES, Bisection, WrongAnswers, _integers, noticed, unwatched
from attacks.party import ME, within_rows
from attacks.results import Figure
from attacks.transcripts import Case, Recording, has_data, record, record_prediction, recorded
from kcagc.protocol import joint as joint_method
from kcagc.protocol import messages, shared_kmeans
from kcagc.protocol.local import PartyData
from kcagc.protocol.messages import Split
from kcagc.secagg.masks import FRACTION_BITS
from kcagc.secagg.shares import ROW_BITS
from kcagc.simulation import COORDINATOR

TITLE = "Roles that lie, joint method"
SENTENCES = {
    "joint-marked": (
        "A party whose made-up columns mark single nodes, and that gets weights in a prediction, reads from them the "
        "others' part of the joint rows of these nodes: exactly, if it knows this part for as many marked nodes as "
        "the joint subspace has dimensions."
    ),
    "joint-nothing": (
        "A party that contributes a constant column gets clusters that describe the others alone: if these have few "
        "columns, the clusters give a single column away."
    ),
    "joint-holder": (
        "A holder that shifts its shares of the centres is not noticed, and reads the unit rows of all nodes nearly "
        "exactly."
    ),
    "joint-bisection": (
        "A party that sends false parts of scores in predictions learns the others' part of the scores of a node "
        "better with each prediction of this node."
    ),
    "joint-answers": (
        "A coordinator that answers comparisons of the joint method at random, or returns one false score, ends the "
        "run in the same round."
    ),
    "joint-rare-answers": "A single wrong answer to a comparison of the joint method can stay unnoticed.",
}
_SHIFT, _FALL = 1.5, 1 << 26
_COLUMNS = 64  # made-up columns of a liar


@dataclass(eq=False)
class ShiftingHolder:
    """A holder that adds chosen vectors to its shares of the centres, and sends costs that fall."""

    shifts: list[np.ndarray] = field(default_factory=list)
    random: Any = field(default_factory=lambda: np.random.default_rng(0))

    @contextmanager
    def takes_part(self) -> Iterator[None]:
        """Let the k-means of party ME be that of this holder."""
        real, real_costs = shared_kmeans._Run.round, shared_kmeans._Run._new_costs

        async def round_(run: Any, active: list[Any], others: list[Any]) -> Any:
            if run.rows.sums.channel.me == ME:
                for one in active:
                    shift = _SHIFT * unit(self.random.normal(size=one.centers.shape))
                    self.shifts.append(shift)
                    one.centers = one.centers + _integers(shift, ROW_BITS)
            return await real(run, active, others)

        def costs(run: Any, active: list[Any], own: np.ndarray) -> Any:
            return real_costs(run, active, own - run.rounds * _FALL if run.rows.sums.channel.me == ME else own)

        lies = {"round": round_, "_new_costs": costs}
        with unwatched(), patch.multiple(shared_kmeans._Run, **lies):
            yield

    def claim(self, run: Recording, size: int) -> np.ndarray:
        """Return the estimated unit rows, in the frame of the shares."""
        known, shifts = replay(run.of(ME)), np.concatenate(self.shifts)
        start = np.zeros((known.weights.shape[1], size))
        np.add.at(start, known.row, shifts[known.near] - shifts[known.far])
        places = Places(known, size, shifts)
        return places.fit(places.fit(unit(start), 60, slope=5.0), 60)


def marking(nodes: np.ndarray) -> Any:
    """Return a context in which half of the components of party ME are replaced: each marks one of these nodes."""
    real = joint_method.find_components

    async def found(name: str, *rest: Any) -> Any:
        one = await real(name, *rest)
        if name == ME:
            rows = one.rows.copy()
            rows[:, -len(nodes) :] = 0.0
            rows[nodes] = 0.0
            rows[nodes, rows.shape[1] - len(nodes) + np.arange(len(nodes))] = 0.1 * 2.0**one.basis.scale
            one._rows = rows
        return one

    return patch.object(joint_method, "find_components", found)


def with_table(case: Case, table: Any) -> dict[str, PartyData]:
    """Return the data of a run in which party ME has another table."""
    found = case.party_data()
    own = found[ME]
    return found | {ME: PartyData.build(ME, own.graph, table, own.filter)}


def false_scores(size: int) -> Any:
    """Return a coordinator that adds a number to one score of the third round."""
    seen = []

    def change(sender: str, _receiver: str, payload: bytes) -> bytes:
        message = messages.decode(payload, sender) if sender == COORDINATOR else None
        if isinstance(message, Split):
            seen.append(message)
            if len(seen) == 5:
                words = np.frombuffer(message.words, dtype="<u8").copy()
                words[7] += np.uint64(size)
                return messages.encode(msgspec.structs.replace(message, words=words.tobytes()))
        return payload

    return change


def bisect(fitted: Recording, nodes: np.ndarray, predictions: int, spread: float) -> Iterator[np.ndarray]:
    """Predict the same nodes again and again with chosen parts of scores; return claims about the others' part."""
    state, real = Bisection(len(nodes), len(fitted.models[ME].joint.scored), spread), joint_method.part_of_scores
    for session in range(1, predictions + 1):
        sent = state.numbers()

        def part(*given: Any, sent: np.ndarray = sent) -> np.ndarray:
            return -_integers(sent, FRACTION_BITS) if given[-1] == ME else real(*given)

        with unwatched(), patch.object(joint_method, "part_of_scores", part):
            run = record_prediction(fitted, nodes, session)
        if run.error is not None:
            raise run.error
        state.learn(party.replay_prediction(run.of(ME), sent))
        yield -state.mean


def cases(short: bool) -> list[dict[str, Any]]:
    """Return the lies to try."""
    graphs = [("demo", 3)] if short else [("demo", 3), ("narrow", 2)]
    graphs += [("cora", 2)] if not short and has_data("cora") else []
    found = [
        {"data": data, "parties": parties, "liar": liar}
        for data, parties in graphs
        for liar in ("holder", "marking", "predictions")
    ]
    widths = (4,) if short else (1, 4, 12)
    found += [{"data": f"narrow-{width}", "parties": 2, "liar": "nothing"} for width in widths]
    return [*found, {"data": "demo", "parties": 3, "liar": "coordinator"}]


def attack(case: dict[str, Any]) -> list[Figure]:
    """Run one lie."""
    liars = {
        "holder": _of_holder,
        "marking": _of_marking,
        "predictions": _of_predictions,
        "nothing": _of_nothing,
        "coordinator": _of_coordinator,
    }
    return liars[case["liar"]](case, joint_case(case["data"], case["parties"]))


def _figure(case: dict[str, Any], sentence: str, attacked: str, by: str, measure: str, *values: Any) -> Figure:
    role = "lying coordinator" if case["liar"] == "coordinator" else "lying party"
    method = "joint prediction" if case["liar"] == "predictions" else "joint"
    return Figure(role, method, f"{case['data']}, {case['parties']} parties", attacked, by, measure, *values, sentence)


def _of_holder(case: dict[str, Any], here: Case) -> list[Figure]:
    liar = ShiftingHolder()
    with liar.takes_part():
        run = record(here)
    if run.error is not None:
        raise run.error
    true = truth(run)
    size = true.units.shape[1]
    honest, honest_true = recorded(here), truth(recorded(here)).units
    places = estimated_places(replay(honest.of(ME)), size)
    turn, _, other = np.linalg.svd(places.T @ honest_true)  # even with the best rotation
    values = r_squared(liar.claim(run, size), true.units), r_squared(places @ turn @ other, honest_true)
    count = len(liar.shifts)
    by = "chosen shifts of all centres"
    return [_figure(case, "joint-holder", "unit rows of all nodes", by, "R²", *values, None, count)]


def _of_marking(case: dict[str, Any], here: Case) -> list[Figure]:
    table, random = here.tables()[0], np.random.default_rng(0)
    data = None
    if table.shape[1] < _COLUMNS:  # a liar has as many columns as it likes
        more = random.normal(size=(table.shape[0], _COLUMNS - table.shape[1])) * 0.1
        data = with_table(here, np.hstack([dense(table), more]))
    filled = np.flatnonzero(np.linalg.norm(truth(recorded(here)).others(ME), axis=1) > 1e-9)
    nodes = random.choice(filled, _COLUMNS // 2, replace=False)
    with unwatched(), marking(nodes):
        run = record(here, data=data)
        opened = record_prediction(run, np.arange(5)).inside.weights[ME][-len(nodes) :]
    true = truth(run)
    wanted, size = true.others(ME)[nodes], true.rows.shape[1]
    known, places = np.arange(len(nodes)) < size, estimated_places(replay(run.of(ME)), size)
    exact = np.linalg.lstsq(opened[known], wanted[known], rcond=None)[0]
    lengths = np.linalg.norm(true.components[ME], axis=1, keepdims=True).clip(1e-3)
    sets = [side_by_side([places[nodes]]), side_by_side([(places * lengths)[nodes]])]
    without = predicted(sets, wanted, known)
    what, count = "others' part of the joint rows of marked nodes", len(nodes)
    apart = distance_correlation(opened, wanted, 2000), distance_correlation(places[nodes], wanted, 2000)
    values = r_squared((opened @ exact)[~known], wanted[~known]), r_squared(without[~known], wanted[~known])
    return [
        _figure(case, "joint-marked", what, f"weights, d = {size} marked nodes known", "R²", *values, None, count),
        _figure(case, "joint-marked", "distances between marked nodes", "weights", "correlation", *apart, None, count),
    ]


def by_label(labels: np.ndarray, columns: np.ndarray) -> float:
    """Return how well clusters predict single columns, if the share of ones in each cluster is known: mean AUC."""
    means = np.stack([columns[labels == one].mean(axis=0) for one in np.unique(labels)])
    place = np.searchsorted(np.unique(labels), labels)
    return float(np.nanmean([auc(means[place, j], columns[:, j]) for j in range(columns.shape[1])]))


def _of_nothing(case: dict[str, Any], here: Case) -> list[Figure]:
    columns = binary_columns(here.tables()[1])
    with unwatched():
        run = record(here, data=with_table(here, np.ones((len(columns), 1))))
    if run.error is not None:
        raise run.error
    values = [by_label(one.results[ME].labels, columns) for one in (run, recorded(here))]
    return [_figure(case, "joint-nothing", "single columns", "final clusters", "AUC", *values, None, columns.shape[1])]


def _of_predictions(case: dict[str, Any], here: Case) -> list[Figure]:
    fitted = recorded(here)
    true, n = truth(fitted), len(fitted.results[ME].labels)
    nodes = np.arange(0, n, max(n // 60, 1))
    own = (true.components[ME] @ true.weights[ME])[nodes]
    wanted = sum(true.components[name] @ true.weights[name] for name in true.parts if name != ME)[nodes]
    spread = 1.5 * float((own - own.mean(axis=1, keepdims=True)).std())  # the others' part is like the own part
    claims = dict(enumerate(bisect(fitted, nodes, 12, spread), start=1))
    what, base = "others' part of the scores of a node", within_rows(own, wanted)
    return [
        _figure(case, "joint-bisection", what, f"bisection, {count} predictions of each node", "correlation",
                within_rows(claims[count], wanted), base, None, len(nodes))
        for count in (1, 4, 12)
    ]  # fmt: skip


def _of_coordinator(case: dict[str, Any], here: Case) -> list[Figure]:
    lies = {name: STRATEGIES[name] for name in ("random answers", "smallest 10 % flipped", "one answer flipped, once")}
    found = []
    for how, (choose, first, once, always) in lies.items():
        unnoticed = 0
        for seed in range(3):
            with unwatched():
                run = record(replace(here, session=seed), WrongAnswers(choose, first, seed, once))
            unnoticed += not noticed(run)
        sentence, bound = ("joint-answers", 0.0) if always else ("joint-rare-answers", None)
        found.append(_figure(case, sentence, "the run", how, "unnoticed lies", unnoticed / 3, 1.0, bound, 3))
    for size in (1, 1 << 36):
        with unwatched():
            run = record(here, false_scores(size))
        by = f"one score false by {size:,}"
        value = float(run.error is None)
        found.append(_figure(case, "joint-answers", "the run", by, "unnoticed lies", value, 1.0, 0.0, 1))
    return found
