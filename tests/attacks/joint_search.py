"""Attacks on searches of the joint method: what a party and the coordinator learn more than from one fit.

A party reads the answers for every value of ψ, or for every number of clusters. The coordinator sees covariances and
rows of several blocks: it might put blocks together, link rows of the same node, or guess which ψ was chosen.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment

from attacks.coordinator import Reporter, link_figures
from attacks.joint import (
    Learned,
    Truth,
    _means,
    _Replay,
    alike,
    answers_of,
    binary_columns,
    column_auc,
    estimated_places,
    explained,
    joint_case,
    replay,
    side_by_side,
    truth,
    unit,
)
from attacks.joint_party import _FEW, _HALF, View
from attacks.party import ME, _without_progress
from attacks.results import Figure
from attacks.transcripts import Case, Recording, Transcript, has_data, recorded
from kcagc.cluster.joint import choose_centers, refill_empty_clusters, start_sets
from kcagc.graph import Graph, HalfFilter
from kcagc.protocol.messages import Padded, Step
from kcagc.protocol.search import SearchPlan, search_plans
from kcagc.protocol.shared_kmeans import place_among_first
from kcagc.protocol.shared_rows import ROTATION_VALUES, score_chunks
from kcagc.secagg.blinding import secret_order
from kcagc.secagg.keys import framed
from kcagc.secagg.shares import COMPONENT_BITS

TITLE = "Searches, joint method"
SENTENCES = {
    "joint-search": (
        "A search for ψ gives a party answers about differently smoothed columns. They can tell it more about the "
        "others' part of the joint rows than a fit with the same ψ alone."
    ),
    "joint-sweep": (
        "A comparison of numbers of clusters gives a party answers about many small clusters. They tell it more "
        "about single columns of the others than a fit does."
    ),
    "joint-blocks": (
        "Each party turns its components by another rotation for every ψ. So a coordinator that knows the graph learns "
        "no more about the smoothed rows of single nodes from two values of ψ than from one."
    ),
    "joint-block-links": "The coordinator cannot find rows of the same node for several values of ψ.",
    "joint-order": (
        "A coordinator that compares the singular values of the fit with those of the search can sometimes guess which "
        "ψ was chosen."
    ),
}
_RANGE = (2, 20)
_MOST = 500_000  # answers that a party uses of a comparison of numbers of clusters
_MARGIN = 0.01
_BLOCK_MARGIN = 0.04  # of R², between two sets of random directions


# What a party reads of a search


def replay_search(transcript: Transcript, plan: SearchPlan, first: int = 0) -> tuple[list[Learned], int]:
    """Return everything that opened to a party in a search, for each block, and the number of the next sum."""
    (me,) = transcript.roles
    _, seed, answer = answers_of(transcript)
    n = transcript.data[me].graph.n_nodes
    sums_of_rows = -(-plan.blocks * n // max(1, ROTATION_VALUES // plan.dimensions**2))
    here = _Replay(answer, number=first + sums_of_rows + 1)
    chunks = len(score_chunks([one.k for one in plan.sets], n))
    centers = [_first_centers(n, one.k, seed, one.restart) for one in plan.sets]
    means: list[Any] = [None] * len(plan.sets)
    labels: list[Any] = [None] * len(plan.sets)
    weights: list[list[np.ndarray]] = [[] for _ in range(plan.blocks)]
    noted: list[list[tuple[np.ndarray, ...]]] = [[] for _ in range(plan.blocks)]
    every: list[list[np.ndarray]] = [[] for _ in range(plan.blocks)]
    for number in range(1, plan.schedule.rounds + 1):
        here.number += chunks
        if number == 1:
            nothing = [np.zeros((n, one.k), dtype=np.int64) for one in plan.sets]
            found, _ = asyncio.run(_without_progress(place_among_first(here, nothing)))  # type: ignore[arg-type]
            near = [(np.arange(one.k) != mine[:, None]) for one, mine in zip(plan.sets, found, strict=True)]
            answers = [np.ones(int(one.sum()), dtype=bool) for one in near]
            before = found
        else:
            before = labels
            near = [(np.arange(one.k) != mine[:, None]) for one, mine in zip(plan.sets, before, strict=True)]
            counts = [int(one.sum()) for one in near]
            flat = answer(here.number, sum(counts))
            here.number += 1
            answers = np.split(flat, np.cumsum(counts)[:-1])
            found = []
            for one, mine, others, stay in zip(plan.sets, before, near, answers, strict=True):
                better = np.zeros(others.shape, dtype=bool)
                better[others] = ~stay
                found.append(choose_centers(better, mine, seed, one.restart, number))
        for place, one in enumerate(plan.sets):
            start = sum(len(some) for some in weights[one.block])
            row, other = np.nonzero(near[place])
            mine, stays = before[place][row], answers[place]
            noted[one.block].append((row, start + np.where(stays, mine, other), start + np.where(stays, other, mine)))
            weights[one.block].append(centers[place])
            sizes = np.ones(n, dtype=np.int64)
            labels[place] = refill_empty_clusters(found[place], sizes, one.k, (seed, 1, one.restart, number))
            every[one.block].append(labels[place])
            new = _means(labels[place], one.k)
            last = new if means[place] is None or plan.schedule.centers_are_means(number + 1) else means[place]
            centers[place], means[place] = 2 * new - last, new
    learned = []
    for some, notes, told in zip(weights, noted, every, strict=True):
        row, near_, far = (np.concatenate(one) for one in zip(*notes, strict=True))
        learned.append(Learned(np.concatenate(some), row, near_, far, np.array(told), told[-1]))
    return learned, here.number


def _first_centers(n: int, k: int, seed: int, restart: int) -> np.ndarray:
    return np.stack([np.bincount(nodes, minlength=n) / len(nodes) for nodes in start_sets(n, k, seed, restart)])


# The runs


def cases(short: bool) -> list[dict[str, Any]]:
    """Return the runs to attack."""
    runs = [("demo", 3, task) for task in ("psi", "clusters")]
    if not short:
        runs += [("narrow", 2, task) for task in ("psi", "clusters")]
        if has_data("cora"):
            runs += [("cora", 2, task) for task in ("psi", "clusters")]
    return [dict(zip(("data", "parties", "task"), run, strict=True)) for run in runs]


def search_case(data: str, parties: int, task: str) -> Case:
    """Return a run with a search for ψ and then a fit, or a comparison of numbers of clusters at the usual ψ."""
    setting = ("psi", "auto") if task == "psi" else ("n_clusters", _RANGE)
    return Case(data, parties, "joint", 0, (("joint_rows", "shares"), setting))


def attack(case: dict[str, Any]) -> list[Figure]:
    """Attack one run."""
    run = recorded(search_case(case["data"], case["parties"], case["task"]))
    if case["task"] == "clusters":
        return _of_sweep(case, run)
    return [*_of_search(case, run), *_of_coordinator(case, run)]


def _figure(
    case: dict[str, Any], role: str, sentence: str, what: tuple[str, str, str], values: tuple[float, float],
    bound: float | None = None, count: int = 0,
) -> Figure:  # fmt: skip
    data = f"{case['data']}, {case['parties']} parties"
    method = "joint, search for ψ" if case["task"] == "psi" else "joint, 2 to 20 clusters"
    return Figure(role, method, data, *what, *values, bound, count, sentence)


# A curious party


@lru_cache(maxsize=2)
def _fit_alone(data: str, parties: int, psi: int) -> tuple[Truth, View, int]:
    """Return the truth of a fit with this ψ and no search, and what a party has in it."""
    case = Case(data, parties, "joint", 0, (("joint_rows", "shares"), ("psi", psi)))
    run = recorded(case)
    true, known = truth(run), replay(run.of(ME))
    return true, View(case, true.components[ME], known, true.rows.shape[1]), len(known.row)


def _about(
    case: dict[str, Any], sentence: str, true: Truth, baseline: tuple[Truth, View], sets: dict[float, list], count: int
) -> list[Figure]:
    """Return how well a party estimates the directions of rows, the others' part and columns; and from a fit alone."""
    alone, view = baseline
    how, found = "answers of all rounds", []
    whole = [explained(sets[0.0], true.units, _HALF), explained([side_by_side([view.places])], alone.units, _HALF)]
    what = ("unit rows of all nodes", f"{how}, one linear map known", "R²")
    found.append(_figure(case, "party", sentence, what, (whole[0], whole[1]), count=count))
    for share in (_FEW, _HALF):
        after = explained(sets[share], true.others(ME), share)
        before = explained(view.of("after", share), alone.others(ME), share)
        what = ("others' part of the joint rows", f"{how}, {share:.0%} of the nodes known", "R²")
        found.append(_figure(case, "party", sentence, what, (after, before), count=count))
    columns = np.hstack([binary_columns(table) for table in joint_case(case["data"], case["parties"]).tables()[1:]])
    areas = column_auc(sets[_HALF], columns), column_auc(view.of("after", _HALF), columns)
    what = ("single columns, half of the nodes known", how, "AUC")
    return [*found, _figure(case, "party", sentence, what, areas, count=count)]


def _of_search(case: dict[str, Any], run: Recording) -> list[Figure]:
    (plan,) = search_plans(run.case.parameters())
    blocks, number = replay_search(run.of(ME), plan)
    known, true = replay(run.of(ME), number), truth(run)
    psi = run.results[ME].psi_search.psi
    alone, view, _ = _fit_alone(case["data"], case["parties"], psi)
    here = View(search_like(case, psi), true.components[ME], known, true.rows.shape[1])
    places = [estimated_places(one, plan.dimensions) for one in blocks]
    lengths = here.length
    all_labels = np.concatenate([known.labels, *(one.labels for one in blocks)])
    nearest = places[plan.values.index(psi)]
    stacked = np.hstack(places)
    sets = {
        0.0: [side_by_side([here.places]), side_by_side([here.places, *places])],
        _FEW: [
            *here.after[1:],
            side_by_side([here.places, nearest]),
            side_by_side([stacked]),
            side_by_side([stacked * lengths]),
            side_by_side([here.main, here.places, *places]),
        ],
        _HALF: [here.after[0], side_by_side([here.after[0], *places, stacked * lengths, alike(all_labels, 100)])],
    }
    count = len(known.row) + sum(len(one.row) for one in blocks)
    return _about(case, "joint-search", true, (alone, view), sets, count)


def search_like(case: dict[str, Any], psi: int) -> Case:
    """Return the case whose graph basis is that of the chosen ψ."""
    return Case(case["data"], case["parties"], "joint", 0, (("joint_rows", "shares"), ("psi", psi)))


def _of_sweep(case: dict[str, Any], run: Recording) -> list[Figure]:
    (plan,) = search_plans(run.case.parameters())
    (known,), _ = replay_search(run.of(ME), plan)
    true, view, _ = _fit_alone(case["data"], case["parties"], joint_case(case["data"], case["parties"]).order)
    own, last = view.own, known.labels[-len(plan.sets) :]
    places = estimated_places(replace(known, labels=last), plan.dimensions, _MOST)
    first = places @ np.linalg.svd(places.T @ places)[0][:, : true.rows.shape[1]]
    sets = {
        0.0: [side_by_side([places])],
        _FEW: [
            side_by_side(one)
            for one in ([places], [places * view.length], [first], [first * view.length], [view.main, places])
        ],
        _HALF: [side_by_side([view.before[0], alike(last, 100), places, places * view.length, unit(own)])],
    }
    return _about(case, "joint-sweep", true, (true, view), sets, len(known.row))


# The coordinator


def covariances(message: Padded, blocks: int) -> np.ndarray:
    """Return a party's covariances as the coordinator reads them (blocks × q × q)."""
    words = np.frombuffer(message.covariance, dtype="<i8").astype(float)
    return np.ldexp(words, -2 * COMPONENT_BITS).reshape(blocks, message.n_components, -1)


def named_rows(rows: np.ndarray, mixed: np.ndarray, vectors: np.ndarray) -> float:
    """Return R² of smoothed rows, if each direction is taken for the graph vector that is most like it.

    The evaluator finds these vectors and their signs: what the attacker reaches is less.
    """
    along = rows @ mixed
    along /= np.maximum(np.linalg.norm(along, axis=0), 1e-12)
    like = vectors.T @ along
    which, place = linear_sum_assignment(-np.abs(like))
    claims = np.zeros_like(along)
    claims[:, place] = vectors[:, which] * like[which, place]
    back = np.linalg.lstsq(along, rows, rcond=None)[0]
    return float(1 - ((rows - claims @ back) ** 2).sum() / ((rows - rows.mean(axis=0)) ** 2).sum())


def separated(rows: list[np.ndarray], shown: np.ndarray, vectors: np.ndarray) -> tuple[float, float]:
    """Return R² of the rows of the last block, from two blocks at a time and from this block alone.

    Two covariances in one basis have common directions, along which a table is one graph vector each. The baseline also
    tries as many covariances that have nothing to do with the last.
    """
    last, random = len(rows) - 1, np.random.default_rng(0)
    found, alone = [], [named_rows(rows[last], np.linalg.eigh(shown[last])[1], vectors)]
    for one in shown[:last]:
        turn = np.linalg.qr(random.normal(size=one.shape))[0]
        for tried, into in ((one, found), (turn.T @ one @ turn, alone)):
            covered = tried + 1e-9 * np.trace(tried) * np.eye(len(tried))
            into.append(named_rows(rows[last], eigh(shown[last], covered)[1], vectors))
    return max(found), max(alone)


def linked(lengths: np.ndarray, nodes: np.ndarray) -> tuple[float, float]:
    """Return how often the row with the next length is of the same node, and how often by chance."""
    order = np.argsort(lengths)
    same = (nodes[order][1:] == nodes[order][:-1]).mean()
    each = np.bincount(nodes)
    return float(same), float((each * (each - 1)).sum() / (len(nodes) * (len(nodes) - 1)))


def nearest_spectrum(shown: np.ndarray, fitted: np.ndarray) -> int:
    """Return the block whose singular values are most like those of the fit."""
    spectra = [np.linalg.eigvalsh(one)[::-1] for one in (*shown, fitted)]
    *each, wanted = (np.log(np.maximum(one, 1e-9 * one[0]) / one.sum()) for one in spectra)
    return int(np.argmin([np.abs(one - wanted).mean() for one in each]))


def graph_vectors(graph: Graph) -> np.ndarray:
    """Return all vectors of the filter of a graph."""
    filtered = HalfFilter(1).prepare(graph, np.float64)(np.eye(graph.n_nodes))
    return np.linalg.eigh((filtered + filtered.T) / 2)[1]


def _link_comparisons(case: dict[str, Any], run: Recording) -> list[Figure]:
    """Link comparisons of the same node in the search: in one sum, and in two."""
    if case["data"] == "cora":  # long lists
        return []
    sums = [one for one in run.coordinator().opened() if one.step == Step.LLOYD]
    sums = [sums[0], sums[4]]
    entries = [run.inside.blinded[one.key].entries() for one in sums]
    found = [one for one in link_figures(Reporter(run), sums, entries) if one.attacked.startswith("same cell or node")]
    return [
        _figure(
            case, "coordinator", "joint-block-links",
            (one.attacked.replace("cell or node", "node"), one.by, one.measure), (one.figure, one.baseline),
            one.bound, one.count,
        )
        for one in found
    ]  # fmt: skip


def _of_coordinator(case: dict[str, Any], run: Recording) -> list[Figure]:
    seen, (plan,) = run.coordinator(), search_plans(run.case.parameters())
    sent: dict[str, list[Padded]] = {}
    for event, one in seen.messages(Padded):
        sent.setdefault(event.sender, []).append(one)
    name, blocks = "party-2", plan.blocks
    rows = [np.ldexp(one.astype(float), -COMPONENT_BITS) for one in np.split(run.inside.blocks[name], blocks)]
    values = separated(rows, covariances(sent[name][0], blocks), graph_vectors(run.data[name].graph))
    opened = next(one for one in seen.opened() if one.step == Step.ROWS)
    vectors = opened.values.reshape(-1, plan.dimensions).astype(float)
    key = next(iter(run.of(ME).group_keys().values()))
    order = secret_order(key, seen.session_id(), framed(opened.group, opened.number), len(vectors))
    n = len(rows[0])
    links = linked(np.linalg.norm(vectors, axis=1), (np.arange(blocks * n)[: len(vectors)] % n)[order])
    psi = run.results[ME].psi_search.psi
    guesses = [
        plan.values[nearest_spectrum(covariances(first, blocks), covariances(last, 1)[0])] == psi
        for first, last in sent.values()
    ]
    blocks_of = ("smoothed rows of all nodes, graph known", "common directions of two covariances", "R²")
    same = ("rows of the same node for two values of ψ", "next length", "right links")
    chosen = ("chosen ψ", "nearest singular values", "right guesses")
    return [
        *_link_comparisons(case, run),
        _figure(case, "coordinator", "joint-blocks", blocks_of, values, values[1] + _BLOCK_MARGIN, n),
        _figure(case, "coordinator", "joint-block-links", same, links, links[1] + _MARGIN, len(vectors)),
        _figure(case, "coordinator", "joint-order", chosen, (float(np.mean(guesses)), 1 / blocks), None, len(guesses)),
    ]
