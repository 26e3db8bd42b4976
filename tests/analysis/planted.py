"""Data whose conditions are known by construction, and the paper's formulas as plain loops."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from kcagc.analysis.clusters import ClusteredRows, Clusters


def planted(seed, *, k=3, size=40, parties=2, noise=1e-4, width=4, same=None):
    """Give tables, a graph with edges inside the groups only, and the groups.

    `same=(party, one, two)` gives two groups the same mean in one party's table.
    """
    random = np.random.default_rng(seed)
    groups = np.repeat(np.arange(k), size)
    tables = []
    for party in range(parties):
        means = np.eye(k, width) + random.normal(scale=0.1, size=(k, width))
        if same is not None and same[0] == party:
            means[same[2]] = means[same[1]]
        tables.append(means[groups] + noise * random.normal(size=(len(groups), width)))
    start = np.arange(k * size)
    end = np.where((start + 1) % size == 0, start + 1 - size, start + 1)  # a ring in each group
    half = sparse.coo_array((np.ones(len(start)), (start, end)), shape=(len(start), len(start)))
    return tables, ((half + half.T) > 0).astype(float).tocsr(), groups


def strayed(seed, *, size, stray, noise=1e-3):
    """Give two parties' tables with two far groups, where `stray` nodes of each party lie just beyond the middle."""
    random = np.random.default_rng(seed)
    groups = np.repeat([0, 1], size)
    tables = []
    for party in range(2):
        table = np.eye(2)[groups]
        table[party * stray : (party + 1) * stray] = [0.47, 0.53]
        tables.append(table + noise * random.normal(size=table.shape))
    return tables, sparse.csr_array((2 * size, 2 * size)), groups


def around(rows, labels):
    rows = np.asarray(rows, dtype=float)
    return ClusteredRows.of(rows, Clusters.of(labels, len(rows), "labels"))


def centers_of(rows, labels):
    return np.array([rows[labels == label].mean(axis=0) for label in labels])


def loop_norm(rows, labels):
    return np.linalg.norm(rows - centers_of(rows, labels), 2)


def loop_c(rows, labels):
    names, k, norm, found = sorted(set(labels)), len(set(labels)), loop_norm(rows, labels), np.inf
    for r in names:
        for s in names:
            if r != s:
                delta_r, delta_s = (np.sqrt(k) * norm / np.sqrt(np.sum(labels == x)) for x in (r, s))
                apart = np.linalg.norm(rows[labels == r].mean(axis=0) - rows[labels == s].mean(axis=0))
                found = min(found, apart / (delta_r + delta_s))
    return found


def loop_good(rows, labels):
    """Say of each node whether it satisfies Definition 1: project it, and measure both distances on the line."""
    norm, good = loop_norm(rows, labels), []
    for row, r in zip(rows, labels, strict=True):
        fine = True
        for s in set(labels) - {r}:
            own, other = rows[labels == r].mean(axis=0), rows[labels == s].mean(axis=0)
            direction = (other - own) / np.linalg.norm(other - own)
            projected = own + ((row - own) @ direction) * direction
            closer = np.linalg.norm(projected - other) - np.linalg.norm(projected - own)
            fine &= closer >= (1 / np.sqrt(np.sum(labels == r)) + 1 / np.sqrt(np.sum(labels == s))) * norm
        good.append(fine)
    return np.array(good)


def loop_restricted(tables, locals_, labels, m0, extra):
    """Say of each node whether it satisfies Definition 2; `extra` stands for O(1/c), and is 0 for part (b)."""
    rows = np.hstack(tables)
    around_locals = np.hstack([table - centers_of(table, own) for table, own in zip(tables, locals_, strict=True)])
    norm, local_norm = loop_norm(rows, labels), np.linalg.norm(around_locals, 2)
    good = []
    for row, q in zip(rows, labels, strict=True):
        fine = True
        for p in set(labels) - {q}:
            n_p, n_q = np.sum(labels == p), np.sum(labels == q)
            closer = np.linalg.norm(row - rows[labels == p].mean(axis=0))
            closer -= np.linalg.norm(row - rows[labels == q].mean(axis=0))
            needed = (1 / np.sqrt(n_p) + 1 / np.sqrt(n_q)) * norm
            needed += 2 * (1 + extra * np.sqrt(len(tables)) * m0[q]) / np.sqrt(n_q) * local_norm
            fine &= closer >= needed
        good.append(fine)
    return np.array(good)
