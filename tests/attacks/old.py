"""The attacks on sums with rows, against an earlier version: they must find there what they were written to find.

`python -m attacks old` needs a checkout of that version (`git worktree add FOLDER 430e9a0`), named by the environment
variable KCAGC_OLD. The runs are recorded in a process of their own that imports the old version.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

TITLE = "Version 0.5.0 (commit 430e9a0), for comparison"
SENTENCES = {
    "old": (
        "Up to version 0.6.0, the coordinator received rows of summed distances and could link the rows of one cell, "
        "and with them its distances up to one scale."
    )
}
OLD = "KCAGC_OLD"


def cases(short: bool) -> list[dict[str, Any]]:
    """Return the runs to attack."""
    graphs = [("demo", 3)] if short else [("demo", 3), ("cora", 2), ("cora", 3), ("wiki", 2)]
    version = git(folder(), "describe", "--always", "--abbrev=10")
    return [{"data": data, "parties": parties, "attacked_commit": version} for data, parties in graphs]


def folder() -> Path:
    """Return the checkout of the old version."""
    found = os.environ.get(OLD)
    if not found or not (Path(found) / "src" / "kcagc" / "protocol" / "sums.py").exists():
        raise RuntimeError(f"set {OLD} to a checkout of version 0.5.0: git worktree add FOLDER 430e9a0")
    return Path(found)


def git(where: Path, *asked: str) -> str:
    return subprocess.run(
        ["git", "-C", where, *asked],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def attack(case: dict[str, Any]) -> list[Any]:
    """Record a run of the old version and attack it."""
    with tempfile.TemporaryDirectory() as at:
        target = Path(at) / "sums.npz"
        environment = os.environ | {"PYTHONPATH": str(folder() / "src")}
        command = [sys.executable, __file__, case["data"], str(case["parties"]), str(target)]
        subprocess.run(command, check=True, env=environment, cwd=at)
        with np.load(target) as kept:
            return figures_of(case, dict(kept))


def figures_of(case: dict[str, Any], kept: dict[str, np.ndarray]) -> list[Any]:
    """Attack the recorded sums, and compare the claims with the truth beside them."""
    from sklearn.metrics import adjusted_rand_score

    from attacks import coordinator_rows as attacks
    from attacks.results import Figure

    def figure(attacked: str, by: str, measure: str, value: float, baseline: float, count: int) -> Figure:
        data = f"{case['data']}, {case['parties']} parties"
        return Figure("coordinator", "cells", data, attacked, by, measure, value, baseline, None, count, "old")

    n_cells = len(kept["sizes"])
    first = kept["sums-0"].astype(float)
    cell, start = kept["rows-0"] % n_cells, kept["rows-0"] // n_cells
    centre = np.take_along_axis(kept["starts"][start], kept["columns-0"], axis=1)
    k = first.shape[1]
    chance = 1 / n_cells

    left, right = attacks.linked_by_ratios(first)
    rows = np.unique(np.concatenate([left, right]) // k)
    same = cell[left // k] == cell[right // k]
    found = [
        figure("same cell in two restarts", "equal ratios", "rows linked", len(rows) / len(first), 0.0, len(first)),
    ]
    if not len(left):  # no two restarts share two starting cells
        return found + _later_sums(kept, figure)
    found.append(figure("same cell in two restarts", "equal ratios", "right links", same.mean(), chance, len(left)))
    both = same & (centre.ravel()[left] == centre.ravel()[right])
    found.append(
        figure("same centre in two restarts", "equal ratios", "right links", both.mean(), 1 / (n_cells * k), len(left))
    )
    profile = attacks.profiles(first, left, right)
    exact, total = _exact_distances(profile, cell, kept["distances-0"].ravel()[_flat(kept)])
    found.append(figure("distances, up to one scale for each cell", "linked rows", "exact to 1e-6", exact, 0.0, total))
    names = attacks.centre_names(profile)
    named = np.unique(names[names >= 0])
    right = sum(int(np.unique(centre[names == name], return_counts=True)[1].max()) for name in named)
    n_named = int((names >= 0).sum())
    how = "linked rows and the pattern of shared centres"
    found.append(
        figure("which centre a value belongs to", how, "values named rightly", right / n_named, 1 / k, n_named)
    )
    components, clusters = attacks.anonymous_clusters(profile, names, k)
    if len(components):
        truth = [int(np.bincount(kept["labels"][cell[profile.component == one]]).argmax()) for one in components]
        found.append(
            figure(
                "clusters of unnamed cells",
                how,
                "adjusted Rand index",
                adjusted_rand_score(truth, clusters),
                0.0,
                len(components),
            )
        )
    return found + _later_sums(kept, figure)


def _later_sums(kept: dict[str, np.ndarray], figure: Any) -> list[Any]:
    """Link the rows of sums that follow each other."""
    from attacks import coordinator_rows as attacks

    n_sums, n_cells = int(kept["n_sums"]), len(kept["sizes"])
    mutual, total, right_ones = 0, 0, 0
    for number in range(1, n_sums - 1):
        one, other = kept[f"sums-{number}"], kept[f"sums-{number + 1}"]
        left, right = attacks.mutual_nearest(one.astype(float), other.astype(float))
        mutual, total = mutual + len(left), total + min(len(one), len(other))
        cells = kept[f"rows-{number}"][left] % n_cells, kept[f"rows-{number + 1}"][right] % n_cells
        right_ones += int((cells[0] == cells[1]).sum())
    what, how = "same cell in the next sum", "mutual nearest rows"
    return [
        figure(what, how, "rows linked", mutual / total, 0.0, total),
        figure(what, how, "right links", right_ones / mutual, 1 / n_cells, mutual),
    ]


def _flat(kept: dict[str, np.ndarray]) -> np.ndarray:
    """Return where each value of the first sum lies in the table of true distances."""
    rows, columns = kept["rows-0"], kept["columns-0"]
    return (rows[:, None] * columns.shape[1] + columns).ravel()


def _exact_distances(profile: Any, cell: np.ndarray, true: np.ndarray) -> tuple[float, int]:
    """Return the share of distances in components of two rows or more that are right up to the scale of the cell."""
    values, right, total = true.reshape(profile.scaled.shape), 0, 0
    for one in np.unique(profile.component):
        rows = np.flatnonzero(profile.component == one)
        if len(rows) > 1:
            ratio = np.log(profile.scaled[rows] / np.where(values[rows] > 0, values[rows], np.nan)).ravel()
            ratio = ratio[np.isfinite(ratio)]
            total += len(ratio)
            right += int((np.abs(ratio - np.median(ratio)) < 1e-6).sum())
    return right / max(total, 1), total


def record(data: str, n_parties: int, target: Path) -> None:
    """Run the old version, and keep the sums that open to its coordinator beside their truth."""
    from kcagc import KCAGC
    from kcagc.datasets import load
    from kcagc.datasets.catalog import entry
    from kcagc.protocol import fit, hub, rounds, sums

    loaded = load(data)
    kept: dict[str, Any] = {}
    opened: list[np.ndarray] = []
    orders: list[Any] = []
    real_open, real_joint, real_shuffle = hub.unmasked, fit.joint_kmeans, sums.Shuffle.from_key
    real_distances, numbers = rounds._distances, []

    def spied_open(*given: Any) -> Any:
        opened.append(real_open(*given))
        return opened[-1]

    async def spied_joint(of_group: Any, rows: Any, sizes: Any, k: int, starts: Any, *rest: Any) -> Any:
        kept.setdefault("rows", {})[of_group.channel.me] = rows
        kept["sizes"], kept["starts"] = sizes, starts
        result = await real_joint(of_group, rows, sizes, k, starts, *rest)
        kept["labels"] = result.labels
        return result

    def spied_shuffle(key: bytes, session: bytes, label: bytes, shape: Any) -> Any:
        found = real_shuffle(key, session, label, shape)
        if not orders or orders[-1][0] != label:
            orders.append((label, found, shape, list(numbers)))
        return found

    def spied_distances(rows: Any, every: Any) -> Any:
        numbers[:] = [all_starts.index(id(one)) if id(one) in all_starts else _new(all_starts, one) for one in every]
        return real_distances(rows, every)

    def _new(known: list[int], one: Any) -> int:
        known.append(id(one))
        alive.append(one)
        return len(known) - 1

    all_starts: list[int] = []
    alive: list[Any] = []
    hub.unmasked, fit.joint_kmeans, rounds._distances = spied_open, spied_joint, spied_distances
    sums.Shuffle.from_key = spied_shuffle
    psi = 2 if data == "demo" else entry(data).paper.psi
    model = KCAGC(n_clusters=loaded.n_classes, psi=psi, random_state=0)
    model.fit(loaded.parties(n_parties), adjacency=loaded.adjacency)

    m = len(kept["sizes"])
    points = np.hstack(list(kept["rows"].values()))
    saved: dict[str, Any] = {"n_sums": len(opened), "sizes": kept["sizes"], "labels": kept["labels"]}
    saved["starts"] = kept["starts"]
    n_starts = len(kept["starts"])
    chosen = points[kept["starts"].ravel()].reshape(n_starts, -1, points.shape[1])
    away = ((points[None, :, None, :] - chosen[:, None]) ** 2).sum(axis=3)
    saved["distances-0"] = away.reshape(n_starts * m, -1)
    for number, (values, (_, shuffle, shape, active)) in enumerate(zip(opened, orders, strict=True)):
        _, n_rows, k = shape
        saved[f"sums-{number}"] = values[: n_rows * k].reshape(n_rows, k)
        order = shuffle.rows[0]
        here = [one % n_starts for one in active]  # every party has its own starts, in the same order
        saved[f"rows-{number}"] = np.array(here)[order // m] * m + order % m
        saved[f"columns-{number}"] = shuffle.columns[0]
    np.savez(target, **saved)


if __name__ == "__main__":
    record(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
