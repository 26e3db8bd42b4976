"""Attacks of the coordinator on sums that have rows: what versions up to 0.6.0 sent, and what a planted leak sends.

A row holds the summed distances of one cell to the centres of one restart, times a secret factor, in a secret order.
The first sum has no shift, so the ratio of two of its values is the ratio of two distances. Later sums have a shift for
each row, so there the ratio of two differences stays. All of it is read from the opened sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from sklearn.cluster import KMeans

_EXACT = 1e-9  # relative difference of two ratios that are the same number; encoding rounds by about 1e-12


@dataclass(frozen=True)
class Profiles:
    """What linked rows give: for each component of rows, its distances up to one scale, by anonymous centre."""

    component: np.ndarray  # of every row
    centre: np.ndarray  # rows × columns: a number for each set of values that are one distance; -1 if alone
    scaled: np.ndarray  # rows × columns: the values in the scale of the component


def linked_by_ratios(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of values, as flat positions, that are the same distance in two rows of the first sum.

    Two restarts that share two starting cells give a cell the same ratio twice.
    """
    n, k = rows.shape
    first, second = np.nonzero(~np.eye(k, dtype=bool))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(rows[:, first] / rows[:, second])
    row = np.repeat(np.arange(n), len(first))
    flat = ratios.ravel()
    usable = np.isfinite(flat) & (flat >= 0)  # each pair once
    order = np.flatnonzero(usable)[np.argsort(flat[usable], kind="stable")]
    near = np.flatnonzero(np.diff(flat[order]) < _EXACT)
    a, b = order[near], order[near + 1]
    apart = row[a] != row[b]
    a, b = a[apart], b[apart]
    pair_a, pair_b = a % len(first), b % len(first)
    sure = _without_coincidences(n, row[a], row[b])
    a, b, pair_a, pair_b = a[sure], b[sure], pair_a[sure], pair_b[sure]
    left = np.concatenate([row[a] * k + first[pair_a], row[a] * k + second[pair_a]])
    right = np.concatenate([row[b] * k + first[pair_b], row[b] * k + second[pair_b]])
    return left, right


def _without_coincidences(n: int, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return which links to keep: a single equal ratio may be chance, so it must not join rows that others part."""
    pair = np.minimum(left, right) * n + np.maximum(left, right)
    _, place, support = np.unique(pair, return_inverse=True, return_counts=True)
    strong = support[place] > 1
    joined = _components(n, left[strong], right[strong])
    alone = np.bincount(joined)[joined] == 1
    return strong | alone[left] | alone[right] | (joined[left] == joined[right])


def profiles(rows: np.ndarray, left: np.ndarray, right: np.ndarray) -> Profiles:
    """Join linked rows to cells, and their values to distances in one scale for each cell."""
    n, k = rows.shape
    component = _components(n, left // k, right // k)
    centre = _components(n * k, left, right).reshape(n, k)
    lone = np.bincount(centre.ravel())[centre] == 1
    # Scales: walk from row to row over linked values.
    scale = np.full(n, np.nan)
    steps = sparse.csr_array(
        (rows.ravel()[left] / rows.ravel()[right], (left // k, right // k)), shape=(n, n)
    )  # duplicates add up
    counts = sparse.csr_array((np.ones(len(left)), (left // k, right // k)), shape=(n, n))
    steps.data /= counts.data
    backwards = steps.T.tocsr()
    for start in range(n):
        if not np.isnan(scale[start]):
            continue
        scale[start] = 1.0
        waiting = [start]
        while waiting:
            at = waiting.pop()
            for matrix, forward in ((steps, True), (backwards, False)):
                for place in range(matrix.indptr[at], matrix.indptr[at + 1]):
                    other, ratio = matrix.indices[place], matrix.data[place]
                    if np.isnan(scale[other]):
                        # value[at] / value[other] = ratio of the factors
                        scale[other] = scale[at] * (ratio if forward else 1 / ratio)
                        waiting.append(other)
    return Profiles(component, np.where(lone, -1, centre), rows * scale[:, None])


def _components(size: int, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    graph = sparse.coo_array((np.ones(len(left), bool), (left, right)), shape=(size, size))
    return connected_components(graph, directed=False)[1]


def centre_names(found: Profiles, rounds: int = 2) -> np.ndarray:
    """Return a name for each value that is the same for the same centre of different cells.

    Which centres two restarts share is the same for every cell. So the pattern of shared centres around a value names
    its centre: colour refinement on the graph of rows and centres, cell by cell.
    """
    n = len(found.centre)
    colour_of_row = np.zeros(n, dtype=np.int64)
    names = found.centre.copy()
    used = found.centre >= 0
    sizes = np.zeros(found.centre.max() + 1, dtype=np.int64)
    np.add.at(sizes, found.centre[used], 1)
    colour = sizes.copy()
    for _ in range(rounds):
        per_row = [tuple(sorted(colour[c] for c in line if c >= 0)) for line in found.centre]
        colour_of_row = _numbered([(int(old), line) for old, line in zip(colour_of_row, per_row, strict=True)])
        around: list[list[int]] = [[] for _ in range(len(sizes))]
        for row, column in zip(*np.nonzero(used), strict=True):
            around[found.centre[row, column]].append(int(colour_of_row[row]))
        colour = _numbered([(int(c), tuple(sorted(one))) for c, one in zip(colour, around, strict=True)])
    names[used] = colour[found.centre[used]]
    return names


def _numbered(values: list) -> np.ndarray:
    known: dict = {}
    return np.array([known.setdefault(value, len(known)) for value in values], dtype=np.int64)


def anonymous_clusters(found: Profiles, names: np.ndarray, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Cluster the cells by their scaled distances to named centres; return components and their clusters."""
    rows, columns = np.nonzero(names >= 0)
    name, counts = np.unique(names[rows, columns], return_counts=True)
    common = name[counts >= 0.15 * counts.max()]
    cells = np.unique(found.component)
    big = cells[np.bincount(found.component)[cells] > 1]
    place = {int(one): number for number, one in enumerate(big)}
    table = np.full((len(big), len(common)), np.nan)
    number = {int(one): column for column, one in enumerate(common)}
    for row, column in zip(rows, columns, strict=True):
        cell, centre = int(found.component[row]), number.get(int(names[row, column]))
        if centre is not None and cell in place:
            table[place[cell], centre] = found.scaled[row, column]
    known = ~np.isnan(table)
    keep = known.sum(axis=1) >= max(2, len(common) // 4)
    table, big = table[keep], big[keep]
    if len(big) < 2 * k:  # too little is linked
        return big[:0], big[:0]
    # Factors lie in one range of few octaves, so the mean of a cell's values fixes its scale well enough.
    table = table / np.nanmean(table, axis=1, keepdims=True)
    filled = np.where(np.isnan(table), np.nanmean(table, axis=0, keepdims=True), table)
    filled = np.nan_to_num(filled, nan=1.0)
    near = np.exp(-3 * filled)
    near /= near.sum(axis=1, keepdims=True)
    clusters = KMeans(k, n_init=20, random_state=seed).fit_predict(near)
    return big, clusters


def shapes(rows: np.ndarray) -> np.ndarray:
    """Return what factor, shift and order of the columns leave: sorted differences over the largest difference."""
    ordered = np.sort(rows, axis=1)
    spread = ordered[:, -1:] - ordered[:, :1]
    return (ordered[:, 1:-1] - ordered[:, :1]) / np.where(spread == 0, 1, spread)


def mutual_nearest(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of rows of two sums that are each other's nearest by shape."""
    one, other = shapes(first), shapes(second)
    _, to_other = cKDTree(other).query(one)
    _, to_one = cKDTree(one).query(other)
    left = np.flatnonzero(to_one[to_other] == np.arange(len(one)))
    return left, to_other[left]
