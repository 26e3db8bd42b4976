"""Small collaborations for the tests: data of several parties, runs with a spy at the seam, pooled references."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from kcagc.cluster.lloyd import weighted_means
from kcagc.graph import Graph, HalfFilter
from kcagc.ledger import RISKS, Ledger, Policy
from kcagc.protocol import fit
from kcagc.protocol.agreement import Parameters
from kcagc.protocol.answers import TIE
from kcagc.protocol.local import PartyData
from kcagc.protocol.rounds import refilled
from kcagc.protocol.seeds import random_for
from kcagc.secagg.fixed_point import ONE
from kcagc.simulation import simulate_fit

EVERYTHING = Policy(RISKS)


def parameters(**changes):
    chosen = {"method": "kcagc", "n_clusters": 3, "n_local_clusters": 3, "filter": "HalfFilter(psi=1)"}
    chosen |= {"n_components": 3, "n_init": 2, "max_iter": 30, "graph": "shared"} | changes
    if chosen["method"] == "basic":
        chosen["n_local_clusters"] = 0
    return Parameters(**chosen)


def random_parties(seed, n_parties, n_nodes=30, widths=(1, 4)):
    """Give tables with some structure on a random graph."""
    random = np.random.RandomState(seed)
    upper = sparse.random_array((n_nodes, n_nodes), density=0.1, rng=np.random.default_rng(seed)) > 0
    graph = Graph.from_matrix(((upper + upper.T) > 0).astype(float))
    groups = random.randint(3, size=n_nodes)
    data = {}
    for number in range(1, n_parties + 1):
        width = random.randint(widths[0], widths[1] + 1)
        centers = random.normal(scale=2, size=(3, width))
        table = centers[groups] + random.normal(size=(n_nodes, width))
        data[f"party-{number}"] = PartyData.build(f"party-{number}", graph, table, HalfFilter(1))
    return data


@dataclass
class JointCall:
    """What each member of a group put into one joint k-means, and what came out."""

    k: int
    sizes: np.ndarray
    starts: np.ndarray | None
    seed: int
    rows: dict[str, np.ndarray] = field(default_factory=dict)
    labels: dict[str, np.ndarray] = field(default_factory=dict)


def spied_fit(monkeypatch, chosen, data, *, choose=None, seed=0, policy=EVERYTHING):
    """Run a fit; give the results and, for every group, what went into its joint k-means."""
    calls: dict[str, JointCall] = {}
    real = fit.joint_kmeans

    async def spy(sums, rows, sizes, k, starts, seed, how):
        call = calls.setdefault(sums.group.name, JointCall(k, sizes, starts, seed))
        call.rows[sums.channel.me] = rows
        joint = await real(sums, rows, sizes, k, starts, seed, how)
        call.labels[sums.channel.me] = joint.labels
        return joint

    monkeypatch.setattr(fit, "joint_kmeans", spy)
    results = run_fit(chosen, data, choose=choose, seed=seed, policy=policy)
    monkeypatch.setattr(fit, "joint_kmeans", real)
    return results, calls


def run_fit(chosen, data, *, choose=None, seed=0, policy=EVERYTHING, ledger=None):
    ledger = Ledger() if ledger is None else ledger
    seeds = dict.fromkeys(data, seed)
    return simulate_fit(chosen, data, policy=policy, seeds=seeds, hub_seed=seed, ledger=ledger, choose=choose)


def pooled_kmeans(rows, sizes, k, starts, seed, max_iter):
    """Do in floating point, on all columns side by side, what the protocol does on masked sums.

    A start that comes to a partition that another one has had is left out, as it would end where that one does.
    """
    weights = sizes.astype(float)
    centers, labels, joined, converged = [], [None] * len(starts), set(), set()
    for chosen in starts:
        distances = _distances(rows, rows[chosen])
        winners, ordered = _nearest(distances), np.sort(distances, axis=1)
        sure = ordered[:, 0] <= ordered[:, 1] / 9 if k > 1 else np.ones(len(rows), bool)
        centers.append(weighted_means(rows[sure], weights[sure], winners[sure], rows[chosen]))
    owners = {}
    for iteration in range(1, max_iter + 1):
        for number in range(len(starts)):
            if number in joined | converged:
                continue
            found = _nearest(_distances(rows, centers[number]))
            if labels[number] is not None and np.array_equal(found, labels[number]):
                converged.add(number)
                continue
            labels[number] = found
            filled = refilled(found, sizes, k, random_for(seed, 1, number, iteration))
            centers[number] = weighted_means(rows, weights, filled, centers[number])
            groups = frozenset(tuple(np.flatnonzero(filled == cluster)) for cluster in np.unique(filled))
            owner = owners.setdefault(groups, number)
            if owner != number and owner not in joined:
                joined.add(number)
    best, least = None, np.inf
    for number in sorted(set(range(len(starts))) - joined):
        means = weighted_means(rows, weights, labels[number], centers[number])
        inertia = float(sizes @ ((rows - means[labels[number]]) ** 2).sum(axis=1)) / sizes.sum()
        if inertia < least - TIE / ONE:
            best, least = labels[number], inertia
    return best


def _distances(rows, centers):
    return ((rows[:, None, :] - centers[None]) ** 2).sum(axis=2)


def _nearest(distances):
    return (distances <= distances.min(axis=1, keepdims=True) + TIE / ONE).argmax(axis=1)
