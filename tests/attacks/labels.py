"""Attacks on local labels: a sensitive column from few known values, repeated sessions, rosters, small clusters.

A local label says in which of a few groups a node lies by the smoothed columns of one party. The attacker is another
party. It knows the graph and the filter, so it can undo some of the smoothing: each group becomes a column of ones and
zeros, and a regularised inverse of the filter sharpens it. A few known values then show which groups mean "yes".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from attacks import transcripts
from attacks.party import ME, Points, between, correlation, estimate, own_points, replay, truth
from attacks.results import Figure
from attacks.transcripts import Case, Recording, Transcript, has_data, record
from experiments.paper.configurations import dataset, order_of
from kcagc.graph import Graph, HalfFilter
from kcagc.protocol.agreement import Agreement
from kcagc.protocol.cells import intersect
from kcagc.protocol.local import PartyData
from kcagc.protocol.messages import Hellos, PackedLabels, unpack
from kcagc.simulation import simulate_fit

TITLE = "Local labels"
SENTENCES = {
    "narrow-tables": (
        "Local labels reveal a yes-or-no column of a table with few columns to a party that knows some of its values; "
        "they still say something about it if the table has a hundred columns."
    ),
    "wide-tables": "In a table with many columns, local labels add little to what graph and own columns say anyway.",
    "repeated-sessions": (
        "Local labels are kept: a new session with the same data sends the same labels, and they reveal nothing more."
    ),
    "fresh-labels": "Local labels with another seed in each session would reveal more with every session.",
    "small-clusters": "No local cluster has fewer than five nodes, so that a label does not single out a node.",
    "changed-roster": (
        "Two runs of which one has a further party tell the others hardly more about that party's centres than one."
    ),
}
THEM = "party-2"
_YES = 0.3  # share of nodes with a "yes" in the sensitive column
_SHARPENINGS = (0.1, 0.01)  # regularisation of the inverse filter: more and less careful
_STEPS = 40  # of conjugate gradients
_TINY = 1e-30
_LITTLE = {"any word": 0.05, "a frequent word": 0.1}  # what labels may add to the AUC in a wide table
_NARROW = 100
_PULL_OF_OTHER_RUN = 1000.0


def labels_of(transcript: Transcript, sender: str) -> np.ndarray:
    """Return the local labels that a party received from another one."""
    (me,) = transcript.roles
    n = transcript.data[me].graph.n_nodes
    content = next(
        one.content
        for one in transcript.contents
        if isinstance(one.content, PackedLabels) and (one.sender, one.receiver) == (sender, me)
    )
    return unpack(content.packed, n, content.n_clusters, me, "labels")


def infer(several: Sequence[Transcript], sender: str, nodes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the claim: a score for each node, higher where the sensitive column is likelier to be "yes".

    `several` are the transcripts of one or more sessions; the attacker knows the values of some nodes.
    """
    (me,) = several[0].roles
    data, columns = several[0].data[me], []
    for one in several:
        labels = labels_of(one, sender)
        groups = np.eye(int(labels.max()) + 1)[labels]
        columns += [groups, *(sharpened(data, groups, care) for care in _SHARPENINGS)]
    columns.append(own_points(data, _parameters(several[0])))
    return _scores(np.hstack(columns), nodes, values)


def _parameters(transcript: Transcript) -> Any:
    _, hellos = next(transcript.messages(Hellos))
    return msgspec.msgpack.decode(hellos.hellos[0].inputs, type=Agreement).parameters


def without_labels(transcript: Transcript, nodes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the claim of a party that reads no labels: from its own columns, and from known values of neighbours."""
    (me,) = transcript.roles
    data = transcript.data[me]
    known = np.zeros((data.graph.n_nodes, 1))
    known[nodes, 0] = np.where(values, 1.0, -1.0)
    near = data.filter.apply(data.graph, known)
    near[nodes] -= known[nodes] * near[nodes].std()  # a node must not vote for itself
    return _scores(np.hstack([own_points(data, _parameters(transcript)), near]), nodes, values)


def sharpened(data: PartyData, columns: np.ndarray, care: float) -> np.ndarray:
    """Return (F² + care)⁻¹ F of columns, where F is the filter, by conjugate gradients."""

    def smooth(values: np.ndarray) -> np.ndarray:
        return data.filter.apply(data.graph, values)

    found, left = np.zeros_like(columns), smooth(columns)
    along, size = left.copy(), (left * left).sum(axis=0)
    for _ in range(_STEPS):
        image = smooth(smooth(along)) + care * along
        step = size / np.maximum((along * image).sum(axis=0), _TINY)
        found += step * along
        left -= step * image
        before, size = size, (left * left).sum(axis=0)
        along = left + size / np.maximum(before, _TINY) * along
    return found


def _scores(columns: np.ndarray, nodes: np.ndarray, values: np.ndarray) -> np.ndarray:
    scaled = (columns - columns.mean(axis=0)) / np.maximum(columns.std(axis=0), 1e-9)
    model = LogisticRegression(C=1 / np.sqrt(scaled.shape[1]), max_iter=500).fit(scaled[nodes], values)
    return scaled @ model.coef_[0]


def auc(scores: np.ndarray, true: np.ndarray, known: np.ndarray) -> float:
    """Return the AUC of scores on the nodes whose value the attacker did not know."""
    rest = np.ones(len(true), dtype=bool)
    rest[known] = False
    return float(roc_auc_score(true[rest], scores[rest]))


def known_nodes(true: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return the nodes whose value the attacker knows: as many with as without."""
    random = np.random.default_rng(seed)
    return np.concatenate([random.permutation(np.flatnonzero(true == value))[: count // 2] for value in (False, True)])


def narrow_table(n: int, columns: int, seed: int) -> np.ndarray:
    """Return a table of independent yes-or-no columns; the first one is the sensitive one."""
    return (np.random.default_rng(seed).random((n, columns)) < _YES).astype(float)


def run_with(data: str, table: Any, psi: int, session: int = 0, **changes: Any) -> Recording:
    """Run party-1 with the first half of the dataset's columns, and party-2 with this table."""
    case = Case(data, 2, session=session, settings=(("psi", psi), ("n_init", 1), *changes.items()))
    own = dataset(data)
    graph, chosen = Graph.from_matrix(own.adjacency), HalfFilter(psi)
    tables = {ME: own.parties(2)[0], THEM: table}
    run = record(case, data={name: PartyData.build(name, graph, one, chosen) for name, one in tables.items()})
    if run.error is not None:
        raise run.error
    return run


def groups_after(several: Sequence[Transcript], sender: str) -> int:
    """Return into how many groups the labels of several sessions together divide the nodes."""
    return len(intersect([labels_of(one, sender) for one in several]))


def cases(short: bool) -> list[dict[str, Any]]:
    """Return the attacks to run."""
    data = "demo" if short or not has_data("cora") else "cora"
    widths = (1, 12) if short else (1, 4, 12)
    found = [
        {"what": "narrow", "data": data, "psi": psi, "columns": columns}
        for psi in ((1,) if short else (1, 5))
        for columns in widths
    ]
    if data == "cora":
        found += [{"what": "wide", "data": data, "psi": 5, "columns": columns} for columns in (100, 716)]
    found += [{"what": "sessions", "data": "demo", "kept": kept} for kept in (False, True)]
    graphs = [("demo", 3)] if data == "demo" else [("demo", 3), ("cora", 3)]
    found += [{"what": "roster", "data": name, "parties": parties} for name, parties in graphs]
    graphs = [("demo", 3)] if data == "demo" else [("demo", 3), ("cora", 2), ("wiki", 2)]
    small = [{"data": name, "parties": parties, "rare": False} for name, parties in graphs]
    small.append({"data": "demo", "parties": 2, "rare": True})
    found += [{"what": "small", "least": least} | one for one in small for least in (1, 5)]
    return found


def attack(case: dict[str, Any]) -> list[Figure]:
    """Run one attack."""
    attacks = {
        "narrow": _on_narrow_table,
        "wide": _on_wide_table,
        "sessions": _on_sessions,
        "roster": _on_rosters,
        "small": _on_small_clusters,
    }
    return attacks[case["what"]](case)


def _on_narrow_table(case: dict[str, Any]) -> list[Figure]:
    n, found = dataset(case["data"]).n_nodes, []
    tables = [narrow_table(n, case["columns"], seed) for seed in range(3)]
    runs = [run_with(case["data"], table, case["psi"], seed) for seed, table in enumerate(tables)]
    for count in (20, 100):
        pairs = [_aucs(run, table[:, 0] > 0, count) for run, table in zip(runs, tables, strict=True)]
        found.append(_inference(case, count, np.mean(pairs, axis=0), "narrow-tables", None))
    return found


def _on_wide_table(case: dict[str, Any]) -> list[Figure]:
    table = np.asarray(dataset(case["data"]).parties(2)[1].todense())[:, : case["columns"]]
    share = table.mean(axis=0)
    words = {
        "a frequent word": np.argsort(-share)[:6],
        "any word": np.random.default_rng(0).permutation(np.flatnonzero((share > 0.02) & (share < 0.5)))[:12],
    }
    run, found = run_with(case["data"], table, case["psi"]), []
    for what, columns in words.items():
        for count in (20, 100):
            figure, baseline = np.mean([_aucs(run, table[:, one] > 0, count) for one in columns], axis=0)
            sentence, bound = "narrow-tables", None
            if case["columns"] > _NARROW:
                sentence, bound = "wide-tables", baseline + _LITTLE[what]
            found.append(_inference(case, count, (figure, baseline), sentence, bound, what))
    return found


def _aucs(run: Recording, true: np.ndarray, count: int) -> tuple[float, float]:
    known = known_nodes(true, count, seed=count)
    with_labels = infer([run.of(ME)], THEM, known, true[known])
    without = without_labels(run.of(ME), known, true[known])
    return auc(with_labels, true, known), auc(without, true, known)


def _inference(
    case: dict[str, Any], count: int, pair: Any, sentence: str, bound: float | None, what: str = "a yes-or-no column"
) -> Figure:
    figure, baseline = pair
    columns = f"{case['columns']} column{'s' * (case['columns'] > 1)}"
    return Figure(
        "party",
        "cells",
        f"{case['data']}, ψ={case['psi']}",
        f"{what} of a table with {columns}",
        f"local labels, {count} known values",
        "AUC",
        float(figure),
        float(baseline),
        bound,
        dataset(case["data"]).n_nodes - count,
        sentence,
    )


def _on_sessions(case: dict[str, Any]) -> list[Figure]:
    """Count groups after several sessions, and infer a column from them."""
    n, found = dataset(case["data"]).n_nodes, []
    table = narrow_table(n, 12, seed=0)
    kept: dict[str, dict[bytes, bytes]] = {ME: {}, THEM: {}}
    runs = []
    for session in range(5):
        given = partial(simulate_fit, kept=kept) if case["kept"] else simulate_fit
        with patch.object(transcripts, "simulate_fit", given):
            runs.append(run_with(case["data"], table, order_of(case["data"]), session).of(ME))
    sentence = "repeated-sessions" if case["kept"] else "fresh-labels"
    true = table[:, 0] > 0
    known = known_nodes(true, 100, seed=1)
    once, first = groups_after(runs[:1], THEM), auc(infer(runs[:1], THEM, known, true[known]), true, known)
    for count in (1, 3, 5):
        how = f"labels of {count} session{'s' * (count > 1)}, {'kept' if case['kept'] else 'a new seed in each'}"
        groups = float(groups_after(runs[:count], THEM))
        score = auc(infer(runs[:count], THEM, known, true[known]), true, known)
        limits = (float(once), first + 0.02) if case["kept"] else (None, None)
        shown = (("groups of nodes", groups, float(once), limits[0]), ("AUC", score, first, limits[1]))
        found += [
            Figure("party", "cells", case["data"], "nodes distinguished", how, measure, *values, n, sentence)
            for measure, *values in shown
        ]
    return found


def _on_rosters(case: dict[str, Any]) -> list[Figure]:
    """Compare a run of all parties with one in which the last party does not take part."""
    settings = (("n_init", 4),)
    full = record(Case(case["data"], case["parties"], settings=settings))
    last = full.case.names[-1]
    fewer = {name: data for name, data in full.data.items() if name != last}
    partial_run = record(Case(case["data"], case["parties"] - 1, settings=settings), data=fewer)
    known, small = replay(full.of(ME)), replay(partial_run.of(ME))
    (group,) = full.inside.joint
    true = {last: truth(full, known, group)[last]}
    alone = estimate(known)
    model = Points(known)
    from_other = Points(small)
    found = from_other.fit(150)
    for name, code in small.codes.items():
        model.guess[name], model.pull[name] = from_other.centres(found[name], code), _PULL_OF_OTHER_RUN
    both = {name: between(model.centres(rows, known.codes[name])) for name, rows in model.fit(150).items()}
    return [
        Figure(
            "party",
            "cells",
            f"{case['data']}, {case['parties']} parties",
            "distances between the local centres of the further party",
            "answers of both runs",
            "correlation",
            correlation(both, true),
            correlation(alone, true),
            None,
            len(known.row),
            "changed-roster",
        )
    ]


def rare_values(n: int) -> np.ndarray:
    """Return a table in which three nodes are far from all others, each in its own direction."""
    table = np.random.default_rng(0).normal(size=(n, 4))
    table[:3, :3] += 30 * np.eye(3)
    return table


def _on_small_clusters(case: dict[str, Any]) -> list[Figure]:
    n = dataset(case["data"]).n_nodes
    if case["rare"]:
        run = run_with(case["data"], rare_values(n), psi=1, min_local_size=case["least"], scaling="US", unit=50.0)
    else:
        run = record(Case(case["data"], case["parties"], settings=(("n_init", 1), ("min_local_size", case["least"]))))
    seen = run.of(ME)
    small = 0
    for name in run.case.names[1:]:
        sizes = np.bincount(labels_of(seen, name))
        small += int(sizes[sizes < 5].sum())
    bound = 0.0 if case["least"] == 5 else None
    return [
        Figure(
            "party",
            "cells",
            "demo, rare values" if case["rare"] else f"{case['data']}, {case['parties']} parties",
            "nodes in a local cluster of fewer than 5",
            f"local labels with min_local_size {case['least']}",
            "nodes",
            float(small),
            0.0,
            bound,
            n,
            "small-clusters",
        )
    ]
