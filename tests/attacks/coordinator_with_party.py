"""The coordinator together with one party: it has the group's key, so it removes the blinding of every sum.

Both know which comparison each entry is, because the party computes its own part of it, and both know the local labels
of all parties. What is left is a sum over the other parties. With the first sum, whose centres are cells, they solve
for the distances between the local clusters of each other party by least squares.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.linalg import lsqr

from attacks.coordinator_truth import factors_of
from attacks.results import Figure
from attacks.transcripts import Case, Joint, Recording, Transcript, recorded
from kcagc.cluster.lloyd import weighted_means
from kcagc.protocol.cells import Cells, intersect
from kcagc.protocol.messages import PackedLabels, unpack
from kcagc.secagg.blinding import Blinding
from kcagc.secagg.keys import framed
from kcagc.secagg.masks import MAX_ENCODED
from kcagc.simulation import COORDINATOR

TITLE = "The coordinator together with one party"
SENTENCES = {
    "collusion": (
        "A coordinator that cooperates with one party removes the blinding. Both together learn the exact sum of the "
        "other parties' differences of distances for each comparison, and estimate the distances of each other party."
    )
}
INSIDER = "party-1"


def cases(short: bool) -> list[dict[str, Any]]:
    """Return the runs to attack."""
    runs = [("demo", 3, "cells")] if short else [("demo", 3, "cells"), ("cora", 2, "cells"), ("cora", 3, "cells")]
    more = [] if short else [("cora", 4, "tree"), ("wiki", 3, "cells")]
    return [{"data": data, "parties": parties, "method": method} for data, parties, method in runs + more]


def attack(case: dict[str, Any]) -> list[Figure]:
    """Remove the blinding of the first sum and solve for each other party's distances."""
    run = recorded(Case(case["data"], case["parties"], case["method"]))
    (group, joint), *_ = run.inside.joint.items()
    others = [name for name in joint.rows if name != INSIDER]
    known = run.of(COORDINATOR, INSIDER)
    labels = local_labels(known)
    about = comparisons_of(run, group)
    deltas = unblinded(known, group, len(joint.rows), len(about[0]))
    sums = others_differences(deltas, *about, joint)
    true = _true_differences(joint, others, *about)
    exact = float((np.abs(sums - true) < 1e-5).mean())
    cells = intersect([labels[name] for name in joint.rows])
    position = {name: place for place, name in enumerate(joint.rows)}
    solved = separated(sums, about[0], joint, cells, [position[name] for name in others])
    data = f"{case['data']}, {case['parties']} parties"
    common = ("coordinator with one party", case["method"], data)
    found = [
        Figure(
            *common, "sum over the other parties", "key of the group", "exact differences", exact, 0.0, None,
            len(sums), "collusion",
        )
    ]  # fmt: skip
    if len(others) == 1:  # the sum over the others is the other party's own
        return found
    right, without = [], []
    for name, estimate in zip(others, solved, strict=True):
        truth = centre_distances(joint.rows[name], joint.sizes, cells.codes[:, position[name]])
        own = centre_distances(joint.rows[INSIDER], joint.sizes, cells.codes[:, position[name]])
        right.append(np.corrcoef(estimate, truth)[0, 1])
        without.append(np.corrcoef(own, truth)[0, 1])
    found.append(
        Figure(
            *common, "distances between one other party's local clusters", "least squares over the first sum",
            "correlation", float(np.mean(right)), float(np.mean(without)), None, len(solved[0]), "collusion",
        )
    )  # fmt: skip
    return found


def local_labels(known: Transcript) -> dict[str, np.ndarray]:
    """Return the local labels of all parties, which the party sent and received in the first layer."""
    found: dict[str, np.ndarray] = {}
    n_nodes = next(iter(known.data.values())).graph.n_nodes
    for one in known.contents:
        if isinstance(one.content, PackedLabels) and one.sender not in found:
            content = one.content
            found[one.sender] = unpack(content.packed, n_nodes, content.n_clusters, one.sender, "labels")
    return found


def comparisons_of(run: Recording, group: str) -> tuple[np.ndarray, np.ndarray]:
    """Return what the comparisons of the first sum are about, and their number; the party's program knows both."""
    blinded = run.inside.blinded[group, 0]
    assert blinded.about is not None
    return blinded.about, np.arange(len(blinded.about))


def unblinded(known: Transcript, group: str, n_members: int, count: int) -> np.ndarray:
    """Return the odd integers of the first sum of a group, in their own order, with the key of the group."""
    first = next(one for one in known.opened() if one.group == group and one.number == 0)
    blinding = Blinding.from_key(
        known.group_keys()[group], known.session_id(), framed(group, 0), len(first.values), n_members
    )
    values = np.empty(len(first.values))
    values[blinding.order] = first.values.astype(float)
    scaled = np.where(blinding.negative, -values, values) / factors_of(blinding)
    return (2 * np.floor(scaled / 2) + 1)[:count]  # the odd integer within 1


def others_differences(deltas: np.ndarray, about: np.ndarray, _: np.ndarray, joint: Joint) -> np.ndarray:
    """Subtract the party's own part: what is left is the sum over the others of D_a - D_b."""
    return deltas / 2 / (MAX_ENCODED / 4) - differences_of(joint, INSIDER, about)


def differences_of(joint: Joint, name: str, about: np.ndarray) -> np.ndarray:
    """Return one party's part of the comparisons of the first sum, whose centres are cells."""
    rows, starts = joint.rows[name], joint.starts
    assert starts is not None
    restart, row, first, second = about.T
    to_first = ((rows[row] - rows[starts[restart, first]]) ** 2).sum(axis=1)
    to_second = ((rows[row] - rows[starts[restart, second]]) ** 2).sum(axis=1)
    return np.asarray(to_first - to_second)


def _true_differences(joint: Joint, others: list[str], about: np.ndarray, _: np.ndarray) -> np.ndarray:
    return np.sum([differences_of(joint, name, about) for name in others], axis=0)


def separated(sums: np.ndarray, about: np.ndarray, joint: Joint, cells: Cells, others: list[int]) -> list[np.ndarray]:
    """Solve for the distances between the local clusters of each other party: all sums are linear in them."""
    starts = joint.starts
    assert starts is not None
    restart, row, first, second = about.T
    equation, unknown, sign, sizes = [], [], [], []
    for party in others:
        count = int(cells.codes[:, party].max()) + 1
        numbers = np.full((count, count), -1)
        for number, (one, other) in enumerate(combinations(range(count), 2)):
            numbers[one, other] = numbers[other, one] = number + sum(sizes)
        codes = cells.codes[:, party]
        for centre, weight in ((first, 1.0), (second, -1.0)):
            place = numbers[codes[row], codes[starts[restart, centre]]]
            used = np.flatnonzero(place >= 0)
            equation.append(used)
            unknown.append(place[used])
            sign.append(np.full(len(used), weight))
        sizes.append(count * (count - 1) // 2)
    system = coo_array(
        (np.concatenate(sign), (np.concatenate(equation), np.concatenate(unknown))), shape=(len(sums), sum(sizes))
    ).tocsr()
    solved = lsqr(system, sums, damp=1e-3)[0]
    return np.split(solved, np.cumsum(sizes)[:-1])


def centre_distances(rows: np.ndarray, sizes: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the squared distances between the means of the nodes with each code."""
    count = int(codes.max()) + 1
    means = weighted_means(rows, sizes.astype(float), codes, np.zeros((count, rows.shape[1])))
    return np.array([((means[one] - means[other]) ** 2).sum() for one, other in combinations(range(count), 2)])
