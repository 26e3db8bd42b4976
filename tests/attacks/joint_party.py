"""Attacks of a curious party on the joint method: what the answers of all rounds, and weights, say about the others.

Each attack is compared with the same one without these messages: from the party's own columns, the graph and the final
clusters, which every method gives to every party.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from attacks import party
from attacks.joint import (
    Learned,
    Truth,
    alike,
    bias,
    binary_columns,
    column_auc,
    distance_correlation,
    estimated_places,
    explained,
    graph_basis,
    joint_case,
    replay,
    side_by_side,
    truth,
    unit,
)
from attacks.party import ME, within_rows
from attacks.results import Figure
from attacks.transcripts import Case, has_data, record_prediction, recorded
from kcagc.protocol.messages import PackedLabels, Split, restore, unpack

TITLE = "A curious party, joint method"
SENTENCES = {
    "joint-shares": "A share alone is uniform noise to the holder that receives it.",
    "joint-units": (
        "In the joint method a party sees in every round and restart which centres are nearer to a node. From all "
        "answers it can work out the directions of the joint rows of all nodes nearly, up to one linear map."
    ),
    "joint-rounds": (
        "If a party also knows the others' part of the joint rows of some nodes, it estimates this part for the other "
        "nodes better than from its own columns, the graph and the final clusters."
    ),
    "joint-distances": (
        "A party without such knowledge estimates distances between nodes in the others' columns from all answers of "
        "the joint method; where its own columns are like the others', this is no gain over its own columns."
    ),
    "joint-columns": (
        "The answers of the joint method say little about a single column of a wide table, and more about a column of "
        "a table with few columns."
    ),
    "joint-sessions": "Repeated sessions of the joint method on the same tables reveal a little more each time.",
    "joint-weights": (
        "The weights of its own components, which a prediction opens, tell a party about as much about the others' "
        "part of the scores as the answers of all rounds do."
    ),
    "joint-opened": (
        'With `joint_rows = "coordinator"`, a party sees no intermediate clusters. From the weights that it gets, it '
        "can estimate the others' part of the scores, as it can from the final clusters."
    ),
    "joint-prediction": "A prediction of the joint method that is repeated opens the same weights again.",
}
_FEW, _HALF = 0.01, 0.5
_DEVIATIONS = 4.5
_COLUMN_MARGIN = 0.03  # AUC that answers may add on wide tables


@lru_cache(maxsize=2)
def learned(case: Case) -> Learned:
    """Return what opened to the party in a run."""
    return replay(recorded(case).of(ME))


class View:
    """The numbers that a party has about each node, before and after it reads the answers."""

    def __init__(
        self, case: Case, own: np.ndarray, known: Learned, size: int, places: np.ndarray | None = None
    ) -> None:
        k, basis = known.k, graph_basis(case)
        clusters = np.eye(k)[known.final]
        smooth = basis @ (basis.T @ clusters)
        self.own, self.clusters, self.length = own, clusters, np.linalg.norm(own, axis=1, keepdims=True)
        self.places = estimated_places(known, size) if places is None else places
        self.by_final = estimated_places(known.final_only(), size)
        self.main = own @ np.linalg.svd(own.T @ own)[0][:, :k]
        before, final = [own, unit(own), basis], [own, unit(own), basis, clusters, smooth]
        self.before = [side_by_side(one) for one in (before, [own], [self.main])]
        self.final = [side_by_side(one) for one in (final, [self.main, clusters, smooth], [clusters])]
        more = [*final, alike(known.labels, 60), self.places, self.places * self.length]
        places = [self.places], [self.places * self.length], [self.main, self.places]
        self.after = [side_by_side(one) for one in (more, *places)]

    def of(self, level: str, share: float) -> list[np.ndarray]:
        """Return the sets of features of a level: an attacker that knows few nodes uses few features."""
        return getattr(self, level)[:1] if share == _HALF else getattr(self, level)[1:]

    def distances(self, wanted: np.ndarray) -> tuple[float, float]:
        """Return the correlation with the true distances from all answers, and from own columns or final clusters."""
        claims = [self.places, self.places * self.length]
        base = [self.own, self.main, self.by_final, self.by_final * self.length]
        best, known = (max(distance_correlation(one, wanted) for one in some) for some in (claims, base))
        return best, known


def cases(short: bool) -> list[dict[str, Any]]:
    """Return the runs to attack."""
    runs = [("demo", 3, "fit", 1), ("demo", 3, "prediction", 1), ("demo", 3, "sessions", 3), ("demo", 3, "opened", 1)]
    if not short:
        runs += [("demo", 3, "cells", 1), ("narrow", 2, "cells", 1)]
        runs += [("narrow", parties, "fit", 1) for parties in (2, 3)]
        runs += [("narrow", 2, "prediction", 1), ("narrow", 2, "sessions", 3), ("narrow", 2, "opened", 1)]
        if has_data("cora"):
            runs += [("cora", 2, task, 1) for task in ("fit", "cells", "prediction")]
            runs += [("cora", 2, "opened", 1), ("wiki", 2, "opened", 1)]
    return [dict(zip(("data", "parties", "task", "sessions"), run, strict=True)) for run in runs]


def attack(case: dict[str, Any]) -> list[Figure]:
    """Attack one run."""
    here = joint_case(case["data"], case["parties"])
    how = {"fit": _of_fit, "prediction": _of_prediction, "sessions": _of_sessions, "opened": _of_opened}
    return (how | {"cells": _of_cells})[case["task"]](case, here)


def _figure(
    case: dict[str, Any],
    sentence: str,
    attacked: str,
    by: str,
    measure: str,
    *values: float,
    bound: float | None = None,
    count: int = 0,
) -> Figure:
    data = f"{case['data']}, {case['parties']} parties"
    found, baseline = values
    method = {"prediction": "joint prediction", "opened": "joint, coordinator", "cells": "cells"}.get(
        case["task"], "joint"
    )
    return Figure("party", method, data, attacked, by, measure, found, baseline, bound, count, sentence)


def _about_others(case: dict[str, Any], here: Case, view: View, true: Truth, count: int) -> list[Figure]:
    """Return how well a party estimates rows, distances and columns of the others, with and without the answers."""
    wanted, how, found = true.others(ME), "answers of all rounds", []
    for share in (_FEW, _HALF):
        after, *less = (explained(view.of(level, share), wanted, share) for level in ("after", "final", "before"))
        what, by = "others' part of the joint rows", f"{how}, {share:.0%} of the nodes known"
        found.append(_figure(case, "joint-rounds", what, by, "R²", after, max(less), count=count))
    values, what = view.distances(true.other_components(ME)), "distances in the others' columns"
    found.append(_figure(case, "joint-distances", what, how, "correlation", *values, count=count))
    columns = np.hstack([binary_columns(table) for table in here.tables()[1:]])
    after, *less = (column_auc(view.of(level, _HALF), columns) for level in ("after", "final", "before"))
    bound = max(less) + _COLUMN_MARGIN if here.tables()[1].shape[1] > 100 else None
    what = "single columns, half of the nodes known"
    return [*found, _figure(case, "joint-columns", what, how, "AUC", after, max(less), bound=bound, count=count)]


def _of_fit(case: dict[str, Any], here: Case) -> list[Figure]:
    run, known = recorded(here), learned(here)
    true, count = truth(run), len(known.row)
    view = View(here, true.components[ME], known, true.rows.shape[1])
    rows = [explained([side_by_side(one)], true.units, _HALF) for one in ([view.places], [view.main, view.clusters])]
    places = "unit rows of all nodes", "answers of all rounds, one linear map known", "R²"
    words = np.concatenate([np.frombuffer(one.words, dtype="<u8") for _, one in run.of(ME).messages(Split)])
    noise = "shares of directions, rows and scores", "most biased bit", "standard deviations"
    return [
        _figure(case, "joint-shares", *noise, bias(words), 0.0, bound=_DEVIATIONS, count=len(words)),
        _figure(case, "joint-units", *places, *rows, count=count),
        *_about_others(case, here, view, true, count),
    ]


def _of_cells(case: dict[str, Any], here: Case) -> list[Figure]:
    """Attack the method "cells" on the same tables with the same estimates: local labels stand for the places."""
    run, true = recorded(Case(case["data"], case["parties"])), truth(recorded(here))
    known = party.replay(run.of(ME))
    model, n = party.Points(known), len(true.rows)
    points, local = model.fit(60), {}
    for one in run.of(ME).contents:
        if isinstance(one.content, PackedLabels) and one.sender != ME:
            local[one.sender] = unpack(one.content.packed, n, one.content.n_clusters, ME, "labels")
    places = np.hstack([model.centres(points[name], code)[local[name]] for name, code in known.codes.items()])
    labels = run.results[ME].labels
    no_answers = Learned(np.zeros((0, n)), *np.zeros((3, 0), dtype=np.int64), labels[None], labels)
    view = View(here, true.components[ME], no_answers, true.rows.shape[1], places)
    told = [np.eye(int(one.max()) + 1)[one] for one in local.values()]
    view.after[0] = side_by_side([view.final[0], *told, places])
    return _about_others(case, here, view, true, len(known.row))


def _of_sessions(case: dict[str, Any], here: Case) -> list[Figure]:
    """Put the answers of several sessions together."""
    true, found, known = truth(recorded(here)), [], learned(here)
    for session in range(1, case["sessions"] + 1):
        if session > 1:
            known = known.together(learned(joint_case(case["data"], case["parties"], session=session - 1)))
        if session in (1, case["sessions"]):
            view = View(here, true.components[ME], known, true.rows.shape[1])
            value = explained(view.of("after", _HALF), true.others(ME), _HALF)
            by = f"answers of {session} session{'s' * (session > 1)}, half of the nodes known"
            found.append(
                _figure(
                    case, "joint-sessions", "others' part of the joint rows", by, "R²", value,
                    explained(view.of("final", _HALF), true.others(ME), _HALF), count=len(known.row),
                )
            )  # fmt: skip
    return found


def from_weights(own: np.ndarray, weights: np.ndarray, basis: np.ndarray, n_parties: int) -> list[np.ndarray]:
    """Return estimates of the others' part of the scores: like the own part, or as the weights demand.

    Directions are eigenvectors of the joint covariance: the product of own components and joint rows is own directions
    times one unknown square matrix. The guess for this matrix is what the own part alone gives.
    """
    part = own @ weights
    mixing = n_parties * np.linalg.pinv(weights.T @ weights, rcond=1e-8) @ (part.T @ part)
    spread = np.sqrt((own**2).sum(axis=0))
    prior = np.hstack([basis / np.linalg.norm(basis), own / np.linalg.norm(own)])
    wanted = (weights @ mixing) / spread[:, None] - (own / spread).T @ part
    return [part, prior @ (np.linalg.pinv((own / spread).T @ prior, rcond=1e-6) @ wanted)]


def _of_prediction(case: dict[str, Any], here: Case) -> list[Figure]:
    fitted, known = recorded(here), learned(here)
    true = truth(fitted)
    own, basis = true.components[ME], graph_basis(here)
    weights, again = (record_prediction(fitted, np.arange(20), turn).inside.weights[ME] for turn in (1, 2))
    wanted = np.sum([true.components[name] @ true.weights[name] for name in true.parts if name != ME], axis=0)
    view = View(here, own, known, true.rows.shape[1])
    centers = known.final_only().weights @ view.places
    base = [np.eye(known.k)[known.final], view.places @ unit(centers).T]
    base = [one[:, : wanted.shape[1]] for one in base]
    claims = from_weights(own, weights, basis, case["parties"])
    whole = base[1] * np.linalg.norm(own, axis=1, keepdims=True)  # all parties' scores, up to a factor
    claims.append(case["parties"] * (claims[0] * whole).sum() / (whole**2).sum() * whole - claims[0])
    what = "others' part of the scores"
    values = [max(within_rows(one, wanted) for one in some) for some in (claims, base)]
    lifted = side_by_side([claims[0], claims[1], view.places, view.main])
    base_sets = view.of("after", _FEW)
    few = [
        explained(sets, wanted, _FEW) for sets in ([*base_sets, lifted, lifted[:, : 2 * wanted.shape[1]]], base_sets)
    ]
    return [
        _figure(case, "joint-weights", what, "weights of own components", "correlation", *values, count=weights.size),
        _figure(
            case, "joint-weights", what, "weights and answers, 1% of the nodes known", "R²", *few, count=weights.size
        ),
        _figure(
            case, "joint-prediction", "weights", "a second prediction", "largest difference",
            float(np.abs(weights - again).max()), 0.0, bound=1e-5, count=weights.size,
        ),
    ]  # fmt: skip


def _of_opened(case: dict[str, Any], here: Case) -> list[Figure]:
    """Use the weights that every party gets if the coordinator clusters components without names."""
    run = recorded(joint_case(case["data"], case["parties"], "coordinator"))
    rows = {name: one.rows for name, one in run.results.items()}
    own_weights = {name: restore(one.model.joint.weights) for name, one in run.results.items()}
    wanted = np.sum([rows[name] @ own_weights[name] for name in rows if name != ME], axis=0)
    claims = from_weights(rows[ME], own_weights[ME], graph_basis(here), case["parties"])
    clusters = np.eye(wanted.shape[1] + 1)[np.searchsorted(run.models[ME].joint.scored, run.results[ME].labels)]
    values = max(within_rows(one, wanted) for one in claims), within_rows(clusters[:, : wanted.shape[1]], wanted)
    what, by = "others' part of the scores", "weights of own components"
    return [_figure(case, "joint-opened", what, by, "correlation", *values, count=own_weights[ME].size)]
