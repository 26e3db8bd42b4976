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
from kcagc.protocol.joint_kmeans import refill_empty_clusters
from kcagc.protocol.local import PartyData
from kcagc.protocol.parameters import RunSettings
from kcagc.secagg.masks import encode
from kcagc.simulation import simulate_fit

EVERYTHING = Policy(RISKS)


def parameters(**changes):
    chosen = {"method": "cells", "n_clusters": 3, "n_local_clusters": 3, "filter": "HalfFilter(psi=1)"}
    chosen |= {"n_components": 3, "n_init": 2, "max_iter": 30, "graph": "shared", "min_local_size": 1} | changes
    if chosen["method"] in ("basic", "joint"):
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
    return simulate_fit(chosen, data, policy=policy, seeds=seeds, ledger=ledger, choose=choose)


def limits_of(chosen):
    """Return the largest squared distance that a party may have, and how finely distances are compared."""
    bound, bits = (32.0, 21) if chosen.scaling == "US" else (4.0, 24)
    return bound, 40 if chosen.aggregator == "party" else bits


def pooled_kmeans(rows, sizes, k, starts, seed, max_iter, bound, fraction_bits):
    """Do on the tables of all parties (a list) what the protocol does on masked sums; every comparison is exact.

    A restart that comes to a partition that another one has had is left out, as it would end where that one does; so is
    one that would not become the cheapest even if it fell three times as far again as in its last round.
    """
    weights, shares, place = sizes.astype(float), sizes / sizes.sum(), np.arange(len(sizes))
    every = range(len(starts))
    centers, labels, members, base, moved = [], [], [], [], []
    joined, ended, gone, owners, costs, best, rounds = {}, set(), set(), {}, {}, 0, dict.fromkeys(every, 0)
    for chosen in starts:
        own = [one[chosen] for one in rows]
        distances = [
            encode(_distances(one, center), bound, fraction_bits) for one, center in zip(rows, own, strict=True)
        ]
        winners = sum(distances).argmin(axis=1)
        winners[chosen] = np.arange(k)
        margins = sum((one - 9 * one[place, winners][:, None] + 2) >> 2 for one in distances)
        margins[place, winners] = 0
        clear = (margins >= 0).all(axis=1)
        clear[chosen] = True
        first, kept = np.full(len(sizes), -1), np.where(clear, winners, -1)
        first[chosen] = np.arange(k)
        centers.append([weighted_means(one[clear], weights[clear], winners[clear], one[chosen]) for one in rows])
        labels.append(winners)
        base.append(winners)
        members.append(kept)
        moved.append(_changed(first, kept, k))
    for iteration in range(1, max_iter + 1):
        active = [number for number in every if number not in ended]
        if not active:
            break
        distances = {
            number: [
                encode(_distances(one, own), bound, fraction_bits)
                for one, own in zip(rows, centers[number], strict=True)
            ]
            for number in active
        }
        now = {
            number: np.array([np.rint((one[place, base[number]] * shares).sum()) for one in distances[number]], int)
            for number in active
        }
        before, known = {number: costs[number] for number in active if number in costs}, costs | now
        best = min(sorted(known), key=lambda number: known[number].sum())
        stopped = {
            number
            for number, cost in before.items()
            if number != best and ((4 * known[number] - 3 * cost - known[best] + 2) >> 2).sum() > 0
        }
        costs = {number: cost for number, cost in known.items() if number not in stopped}
        gone |= stopped
        for number in active:
            total = sum(distances[number])
            unknown = moved[number][base[number]][:, None] | moved[number][None, :]
            unknown[place, base[number]] = True
            found = np.where(unknown, total, np.iinfo(np.int64).max).argmin(axis=1)
            same = rounds[number] > 0 and np.array_equal(found, labels[number])
            labels[number], rounds[number] = found, iteration
            if same or number in stopped:
                ended.add(number)
                continue
            filled = refill_empty_clusters(found, sizes, k, (seed, 1, number, iteration))
            centers[number] = [
                weighted_means(one, weights, filled, own) for one, own in zip(rows, centers[number], strict=True)
            ]
            moved[number] = _changed(members[number], filled, k)
            base[number] = members[number] = filled
            groups = frozenset(tuple(np.flatnonzero(filled == cluster)) for cluster in np.unique(filled))
            owner = owners.setdefault(groups, number)
            if owner != number and owner not in joined and owner not in gone:
                joined[number] = owner
                ended.add(number)
    while best in joined:
        best = joined[best]
    return labels[best]


def _distances(rows, centers):
    total = np.zeros((len(rows), len(centers)))
    for x, c in zip(rows.T, centers.T, strict=True):  # one coordinate after the other, as the parties do
        total += (x[:, None] - c) ** 2
    return total


def _changed(before, after, k):
    """Return the clusters whose members differ."""
    return np.array([not np.array_equal(before == cluster, after == cluster) for cluster in range(k)])
