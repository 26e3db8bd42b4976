"""The curious coordinator: it opens every sum, and tries to learn what the entries are about.

The attacks are in `coordinator_links` and `coordinator_values`. This module runs them on recorded runs, and compares
their claims with the truth (`coordinator_truth`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import rankdata, spearmanr

from attacks.coordinator_links import CHEAP, LINKS, MOST, Claims, common_divisors
from attacks.coordinator_truth import COPY, COST, LIVE, PROBE, Entries
from attacks.coordinator_values import magnitude, number_of_cells, sign_tests, typical_difference
from attacks.results import Figure
from attacks.transcripts import Case, Recording, Sum, record_prediction, recorded
from kcagc.secagg.blinding import FactorRange
from kcagc.secagg.masks import MAX_ENCODED

TITLE = "The coordinator"
SENTENCES = {
    "links": (
        "The coordinator cannot tell which numbers of one or several sums belong to the same cell, node or pair of "
        "cluster centres."
    ),
    "signs": "The sign of every number that the coordinator sees is a coin flip.",
    "magnitudes": (
        "The size of a number tells the coordinator little about the difference of distances behind it: at most 0.12 "
        "bit for each comparison."
    ),
    "checks": "The coordinator cannot tell which numbers are only there to check its answers.",
    "counts": (
        "The coordinator learns roughly how many comparisons each sum contains, and from that roughly how many cells "
        "there are."
    ),
    "distribution": (
        "From all numbers of a sum together, the coordinator can estimate how large the differences of distances are "
        "on the whole."
    ),
    "prediction": "The coordinator cannot recognise a node that is predicted twice.",
}

# Weaknesses that are known and not repaired: whether in predictions, the sentence and the statistic.
OPEN: set[tuple[bool, str, str]] = set()

_LINK_MARGIN = 0.01
_RANK_CORRELATION = 0.15
_BITS = 0.12
_AUC = 0.55
_DEVIATIONS = 4.0
_PAIRS_OF_SUMS = 12  # for attacks that look at all pairs of entries
_NODES = 60  # predicted alone, twice
_LEAST_VALUES = 1000  # of a sum for estimates of its distribution


def cases(short: bool) -> list[dict[str, Any]]:
    """Return the runs to attack."""
    demo = [{"data": "demo", "parties": 3, "method": method} for method in ("cells", "prediction")]
    if short:
        return demo
    public = [("cora", 2, "cells"), ("cora", 3, "cells"), ("wiki", 2, "cells"), ("cora", 4, "tree")]
    public += [("cora", 2, "basic"), ("cora", 2, "prediction")]
    more = [("demo", 3, "basic"), *public]
    return demo + [{"data": data, "parties": parties, "method": method} for data, parties, method in more]


def attack(case: dict[str, Any]) -> list[Figure]:
    """Run all attacks of the coordinator on one run."""
    if case["method"] == "prediction":
        return attack_predictions(recorded(Case(case["data"], case["parties"])))
    settings = (("fan_in", 2),) if case["method"] == "tree" else ()
    return attack_fit(recorded(Case(case["data"], case["parties"], case["method"], settings=settings)))


def attack_fit(run: Recording) -> list[Figure]:
    """Attack the sums of a fit."""
    sums = run.coordinator().opened()
    truth = [run.inside.blinded[one.key].entries() for one in sums]
    report = Reporter(run)
    return [
        *link_figures(report, sums, truth),
        *sign_figures(report, sums, truth),
        *magnitude_figures(report, sums, truth),
        *check_figures(report, sums, truth),
        *count_figures(report, run, sums, truth),
    ]


class Reporter:
    """Builds the figures of one run."""

    def __init__(self, run: Recording) -> None:
        case = run.case
        self.method, self.data = case.method, f"{case.data}, {case.parties} parties"

    def figure(
        self, sentence: str, attacked: str, by: str, measure: str, *values: float, bound: float | None, count: int
    ) -> Figure:
        found, baseline = (float(value) for value in values)
        return Figure(
            "coordinator", self.method, self.data, attacked, by, measure, found, baseline, bound, int(count), sentence
        )


# Links


def link_figures(report: Reporter, sums: list[Sum], truth: list[Entries]) -> list[Figure]:
    """Link entries inside each sum and between any two sums of a group."""
    inside: list[tuple[int, int | None]] = [(number, None) for number in range(len(sums))]
    between: list[tuple[int, int | None]] = [
        (one, other) for one, other in combinations(range(len(sums)), 2) if sums[one].group == sums[other].group
    ]
    found = []
    for by, link in LINKS.items():
        for where, places in (("in one sum", inside), ("in two sums", between)):
            chosen = places if by in CHEAP else _spread(places, _PAIRS_OF_SUMS)
            cells, centres = _Tally(), _Tally()
            for one, other in chosen:
                claims = link(sums[one].values, None if other is None else sums[other].values)
                second = truth[one] if other is None else truth[other]
                cells.add(claims, truth[one].row, second.row, inside=other is None)
                centres.add(claims, truth[one].centres, second.centres, inside=other is None)
            for what, tally in (("same cell or node", cells), ("same pair of centres", centres)):
                if tally.claims:
                    values = tally.share, tally.chance
                    bound = tally.chance + _LINK_MARGIN
                    found.append(
                        report.figure(
                            "links", f"{what} {where}", by, "right links", *values, bound=bound, count=tally.claims
                        )
                    )
    return found


def _spread(places: list[Any], most: int) -> list[Any]:
    """Return some of a list, evenly spread, with its first ones."""
    if len(places) <= most:
        return places
    return [places[round(at)] for at in np.linspace(0, len(places) - 1, most)]


class _Tally:
    """Counts right claims beside what chance gives."""

    def __init__(self) -> None:
        self.claims, self.right, self._chance = 0, 0, 0.0

    def add(self, claims: Claims, first: np.ndarray, second: np.ndarray, *, inside: bool) -> None:
        left, right = claims
        self.claims += len(left)
        self.right += int(((first[left] == second[right]) & (first[left] >= 0)).sum())
        self._chance += len(left) * _chance(first, second, inside=inside)

    @property
    def share(self) -> float:
        """The share of right claims; an attack with few claims gets the rest counted as wrong."""
        return self.right / max(self.claims, MOST)

    @property
    def chance(self) -> float:
        return self._chance / max(self.claims, 1)


def _chance(first: np.ndarray, second: np.ndarray, *, inside: bool) -> float:
    """Return how often a random pair is right."""
    top = int(max(first.max(), second.max(), 0)) + 1
    if top > 1 << 20:
        _, numbered = np.unique(np.concatenate([first, second]), return_inverse=True)
        numbered = np.where(np.concatenate([first, second]) < 0, -1, numbered)
        first, second, top = numbered[: len(first)], numbered[len(first) :], int(numbered.max()) + 1
    one = np.bincount(first[first >= 0], minlength=top).astype(float)
    other = np.bincount(second[second >= 0], minlength=top).astype(float)
    if inside:
        return float((one * (one - 1)).sum() / max(len(first) * (len(first) - 1), 1))
    return float((one * other).sum() / (len(first) * len(second)))


# Signs and magnitudes


def sign_figures(report: Reporter, sums: list[Sum], truth: list[Entries]) -> list[Figure]:
    """Test the signs against coin flips, and against the results of the comparisons."""
    found = [
        report.figure("signs", "signs", by, "standard deviations", value, 0.0, bound=_DEVIATIONS, count=count)
        for by, (value, count) in sign_tests([one.values for one in sums]).items()
    ]
    right = np.concatenate([(one.values > 0) == (true.delta > 0) for one, true in zip(sums, truth, strict=True)])
    share, bound = max(right.mean(), 1 - right.mean()), 0.5 + _DEVIATIONS * 0.5 / np.sqrt(len(right))
    return [
        *found,
        report.figure("signs", "results", "sign", "right guesses", share, 0.5, bound=bound, count=len(right)),
    ]


def magnitude_figures(report: Reporter, sums: list[Sum], truth: list[Entries]) -> list[Figure]:
    """Compare magnitudes with the true differences of each sum; the means count every comparison the same."""
    means = np.zeros((2, 3))
    count, random = 0, np.random.RandomState(0)
    for one, entries in zip(sums, truth, strict=True):
        rows = entries.row >= 0
        n = int(rows.sum())
        if n < _LEAST_VALUES:
            continue
        seen, true = magnitude(one.values)[rows], np.log2(np.abs(entries.delta[rows]).astype(float))
        for turn, compared in enumerate((true, random.permutation(true))):
            means[turn] += n * np.array([spearmanr(seen, compared).statistic, binned_information(seen, compared), 0])
        means[0, 2] += n * entropy_information(true, entries.factors[rows])
        count += n
    if not count:
        return []
    means = np.abs(means / count)
    measures = ("rank correlation", "bits for each comparison, binned", "bits for each comparison, by entropy")
    return [
        report.figure(
            "magnitudes", "difference of distances", "magnitude", measure, *means[:, place], bound=bound, count=count
        )
        for place, (measure, bound) in enumerate(zip(measures, (_RANK_CORRELATION, _BITS, _BITS), strict=True))
    ]


def binned_information(first: np.ndarray, second: np.ndarray, bins: int = 16) -> float:
    """Return the mutual information of two variables in bits: bins of equal counts, with Miller and Madow's term."""
    cells = np.zeros((bins, bins))
    np.add.at(cells, (_binned(first, bins), _binned(second, bins)), 1)
    joint, one, other = (_entropy(counts) for counts in (cells.ravel(), cells.sum(axis=1), cells.sum(axis=0)))
    return max(one + other - joint, 0.0)


def _binned(values: np.ndarray, bins: int) -> np.ndarray:
    return np.minimum((rankdata(values) - 1) * bins / len(values), bins - 1).astype(int)


def _entropy(counts: np.ndarray) -> float:
    used = counts[counts > 0] / counts.sum()
    return float(-(used * np.log2(used)).sum() + (len(used) - 1) / (2 * np.log(2) * counts.sum()))


def entropy_information(true: np.ndarray, factors: np.ndarray) -> float:
    """Return the information of magnitudes by its definition: the entropy of log|v| less that of log f.

    With log f uniform over a known range, the density of log|v| at y is the share of differences within that range
    below y. So nothing is estimated; only the offsets are neglected, which can but lower the information.
    """
    octaves, ordered = np.log2(factors), np.sort(true)
    lowest, highest = octaves.min(), octaves.max()
    grid = np.linspace(ordered[0] + lowest, ordered[-1] + highest, 20_001)
    within = np.searchsorted(ordered, grid - lowest) - np.searchsorted(ordered, grid - highest)
    density = within / len(ordered) / (highest - lowest)
    used = density > 0
    return float(-(density[used] * np.log2(density[used])).sum() * (grid[1] - grid[0]) - np.log2(highest - lowest))


# Checks, counts and the distribution of differences


def check_figures(report: Reporter, sums: list[Sum], truth: list[Entries]) -> list[Figure]:
    """Try to tell probes, copies and comparisons of costs from other comparisons by their magnitude."""
    found = []
    for name, kind in (("probes", PROBE), ("copies", COPY), ("comparisons of costs", COST)):
        scores, wanted = [], []
        for one, entries in zip(sums, truth, strict=True):
            if kind in entries.kind and LIVE in entries.kind:
                among = (entries.kind == kind) | (entries.kind == LIVE)
                scores.append(magnitude(one.values)[among])
                wanted.append(entries.kind[among] == kind)
        if scores:
            score, is_kind = np.concatenate(scores), np.concatenate(wanted)
            area = auc(score, is_kind)
            bound = _AUC if kind != COST else None  # nothing depends on their being hidden
            found.append(report.figure("checks", name, "magnitude", "AUC", area, 0.5, bound=bound, count=is_kind.sum()))
    return found


def auc(scores: np.ndarray, wanted: np.ndarray) -> float:
    """Return the area under the ROC curve, of the score or of its opposite."""
    ranks, n = rankdata(scores), int(wanted.sum())
    area = (ranks[wanted].sum() - n * (n + 1) / 2) / (n * (len(scores) - n))
    return float(max(area, 1 - area))


def count_figures(report: Reporter, run: Recording, sums: list[Sum], truth: list[Entries]) -> list[Figure]:
    """Estimate the number of cells from the length of the first sum, and typical differences from all of them."""
    parameters = run.case.parameters()
    found, errors, guesses = [], [], []
    for group, joint in run.inside.joint.items():
        first = next(one for one in sums if one.group == group)
        n_restarts = parameters.n_init if joint.starts is None else len(joint.starts)
        claim = number_of_cells(len(first.values), joint.k, n_restarts)
        guess = _nodes(run) if parameters.method == "basic" else min(
            parameters.n_local_clusters ** len(joint.rows), _nodes(run)
        )  # fmt: skip
        errors.append(abs(claim / len(joint.sizes) - 1))
        guesses.append(abs(guess / len(joint.sizes) - 1))
    what = "number of nodes" if parameters.method == "basic" else "number of cells"
    found.append(
        report.figure(
            "counts", what, "length of the first sum", "relative error", np.mean(errors), np.mean(guesses),
            bound=None, count=len(errors),
        )
    )  # fmt: skip
    off, blind = [], []
    for one, entries in zip(sums, truth, strict=True):
        rows = entries.row >= 0
        if rows.sum() >= _LEAST_VALUES:
            members = run.inside.joint[one.group].rows
            among = FactorRange.of_sum(len(members))
            octaves = among.first / 256, among.last / 256
            middle = float(np.median(np.log2(np.abs(entries.delta).astype(float))))
            off.append(abs(typical_difference(one.values, octaves) - middle))
            blind.append(
                abs(np.log2(2 * len(members) * MAX_ENCODED / 4) - middle)
            )  # every party contributes a difference of 1
    if off:
        found.append(
            report.figure(
                "distribution", "median difference of a sum", "upper tail of all magnitudes", "octaves off",
                np.mean(off), np.mean(blind), bound=None, count=len(off),
            )
        )  # fmt: skip
    return found


def _nodes(run: Recording) -> int:
    return len(next(iter(run.results.values())).labels)


# Prediction


def attack_predictions(fitted: Recording, n_nodes: int = _NODES) -> list[Figure]:
    """Predict single nodes, each in two sessions, and try to recognise them; look for their differences."""
    nodes = np.random.RandomState(0).permutation(_nodes(fitted))[:n_nodes]
    runs = [[record_prediction(fitted, np.array([node]), session=1 + turn) for node in nodes] for turn in range(2)]
    report = Reporter(runs[0][0])
    sums = [one for turn in runs for run in turn for one in run.coordinator().opened()]
    truth = [
        run.inside.blinded[one.key].entries() for turn in runs for run in turn for one in run.coordinator().opened()
    ]
    claimed, right = 0, 0
    for one, entries in zip(sums, truth, strict=True):
        true = np.abs(entries.delta)
        for divisor in common_divisors(one.values, most=3):
            claimed += 1
            right += int((true[divisor.entries] == divisor.value).sum() > 1)
    first, second = ([[look(one.values) for one in run.coordinator().opened()] for run in turn] for turn in runs)
    scores = np.array([[likeness(one, other) for other in second] for one in first])
    same = np.eye(len(nodes), dtype=bool)
    figures = [
        report.figure(
            "prediction", "same node in two predictions", "magnitudes and common divisors", "AUC",
            auc(scores.ravel(), same.ravel()), 0.5, bound=0.5 + _DEVIATIONS * np.sqrt(1 / (12 * len(nodes))),
            count=len(nodes),
        ),
        report.figure(
            "prediction", "exact differences of one node", "common divisor up to an offset", "right among the best 3",
            right / max(claimed, 1), 0.0, bound=_LINK_MARGIN, count=claimed,
        ),
    ]  # fmt: skip
    return [*figures, *sign_figures(report, sums, truth), *check_figures(report, sums, truth)]


Look = tuple[np.ndarray, frozenset[int]]


def look(vector: np.ndarray) -> Look:
    """Return what may be the same in two predictions of one node: where magnitudes lie, and common divisors."""
    return (
        np.quantile(magnitude(vector), [0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98]),
        frozenset(one.value for one in common_divisors(vector, most=12)),
    )


def likeness(first: list[Look], second: list[Look]) -> float:
    """Return a score of two predictions being of the same node."""
    return sum(
        10.0 * len(mine & theirs) - float(np.abs(one - other).sum())
        for (one, mine), (other, theirs) in zip(first, second, strict=False)
    )


def failures(figures: Iterable[Figure]) -> list[Figure]:
    """Return the figures that are beyond their bounds."""
    return [one for one in figures if not one.holds]


def is_open(one: Figure) -> bool:
    """Return whether a figure belongs to a weakness that is known and not repaired."""
    return (one.method == "prediction", one.sentence, one.by) in OPEN
