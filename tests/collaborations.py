"""Small collaborations for the tests: data of several parties, runs with a spy at the seam, pooled references."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import numpy as np
from scipy import sparse

from kcagc.cluster.lloyd import weighted_means
from kcagc.disclosure import RISKS, Ledger, Policy
from kcagc.graph import Graph, HalfFilter
from kcagc.protocol import fit
from kcagc.protocol.aggregator import TIE_TOLERANCE
from kcagc.protocol.joint_kmeans import refill_empty_clusters
from kcagc.protocol.local import PartyData
from kcagc.protocol.parameters import RunSettings
from kcagc.secagg.masks import ONE
from kcagc.simulation import simulate_fit

EVERYTHING = Policy(RISKS)


def parameters(**changes):
    chosen = {"method": "cells", "n_clusters": 3, "n_local_clusters": 3, "filter": "HalfFilter(psi=1)"}
    chosen |= {"n_components": 3, "n_init": 2, "max_iter": 30, "graph": "shared"} | changes
    if chosen["method"] == "basic":
        chosen["n_local_clusters"] = 0
    return msgspec.structs.replace(RunSettings(n_clusters=3, fan_in=2).resolve(3), **chosen)


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
    return simulate_fit(chosen, data, policy=policy, seeds=seeds, aggregator_seed=seed, ledger=ledger, choose=choose)


def pooled_kmeans(rows, sizes, k, starts, seed, max_iter):
    """Do in floating point, on all columns side by side, what the protocol does on masked sums.

    A start that comes to a partition that another one has had is left out, as it would end where that one does; so is
    one that would not become the cheapest even if it fell three times as far again as in its last round.
    """
    weights, shares = sizes.astype(float), sizes / sizes.sum()
    every = range(len(starts))
    centers, labels, rounds = [], [], dict.fromkeys(every, 0)
    joined, ended, gone, owners, costs, best = {}, set(), set(), {}, {}, 0
    for chosen in starts:
        distances = _distances(rows, rows[chosen])
        winners, ordered = _nearest(distances), np.sort(distances, axis=1)
        sure = ordered[:, 0] <= ordered[:, 1] / 9 if k > 1 else np.ones(len(rows), bool)
        winners[chosen], sure[chosen] = np.arange(k), True
        centers.append(weighted_means(rows[sure], weights[sure], winners[sure], rows[chosen]))
        labels.append(winners)
    for iteration in range(1, max_iter + 1):
        active = [number for number in every if number not in ended]
        if not active:
            break
        now = {number: float(((rows - centers[number][labels[number]]) ** 2).sum(axis=1) @ shares) for number in active}
        known = costs | now
        best = next(number for number in sorted(known) if known[number] <= min(known.values()) + TIE_TOLERANCE / ONE)
        falls = {number: max(costs[number] - now[number], 0) for number in active if number in costs}
        stopped = {
            number for number, fall in falls.items() if now[number] - 3 * fall > known[best] + TIE_TOLERANCE / ONE
        }
        if len(starts) == 1:
            stopped = set()
        costs = {number: cost for number, cost in known.items() if number not in stopped}
        gone |= stopped
        for number in active:
            found = _nearest(_distances(rows, centers[number]))
            same = rounds[number] > 0 and np.array_equal(found, labels[number])
            labels[number], rounds[number] = found, iteration
            if same or number in stopped:
                ended.add(number)
                continue
            filled = refill_empty_clusters(found, sizes, k, (seed, 1, number, iteration))
            centers[number] = weighted_means(rows, weights, filled, centers[number])
            groups = frozenset(tuple(np.flatnonzero(filled == cluster)) for cluster in np.unique(filled))
            owner = owners.setdefault(groups, number)
            if owner != number and owner not in joined and owner not in gone:
                joined[number] = owner
                ended.add(number)
    while best in joined:
        best = joined[best]
    return labels[best]


def _distances(rows, centers):
    return ((rows[:, None, :] - centers[None]) ** 2).sum(axis=2)


def _nearest(distances):
    return (distances <= distances.min(axis=1, keepdims=True) + TIE_TOLERANCE / ONE).argmax(axis=1)
