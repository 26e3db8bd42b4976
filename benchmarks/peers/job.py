"""The job of all systems: rows whose columns belong to several parties, common initial centres, ten iterations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

N_ROWS, N_COLUMNS, N_CLUSTERS, N_ITERATIONS = 2708, 64, 7, 10


@dataclass(frozen=True, eq=False)
class Job:
    """The rows with all columns; each party holds a contiguous part of the columns."""

    rows: NDArray[np.float64]
    n_clusters: int
    n_iterations: int

    @classmethod
    def make(cls, n_rows: int = N_ROWS, n_columns: int = N_COLUMNS, *, seed: int = 0) -> Job:
        """Draw overlapping Gaussian clusters, so that ten iterations are not enough to converge."""
        random = np.random.default_rng(seed)
        centers = random.standard_normal((N_CLUSTERS, n_columns)) * 0.3
        rows = centers[random.integers(N_CLUSTERS, size=n_rows)] + random.standard_normal((n_rows, n_columns))
        return cls(rows, N_CLUSTERS, N_ITERATIONS)

    def save(self, path: Path, start: NDArray[np.int64], n_parties: int) -> None:
        """Write the input of a program in another environment."""
        np.savez(
            path,
            rows=self.rows,
            start=start,
            n_iterations=self.n_iterations,
            ends=np.cumsum([len(part) for part in np.array_split(np.arange(self.rows.shape[1]), n_parties)]),
        )

    def lloyd(self, start: NDArray[np.int64], *, margin: bool = False) -> tuple[NDArray[np.int64], int]:
        """Return the labels of plain Lloyd from these rows as centres, and the number of iterations with changes.

        With `margin`, the initial assignment with margin 9 comes first.
        """
        centers = self.rows[start].copy()
        labels = np.full(len(self.rows), -1)
        if margin:
            away = squared_distances(self.rows, centers)
            nearest, least = away.argmin(axis=1), np.sort(away, axis=1)
            centers = _means(self.rows, np.where(9 * least[:, 0] <= least[:, 1], nearest, -1), centers)
        changing = 0
        for _ in range(self.n_iterations):
            found = squared_distances(self.rows, centers).argmin(axis=1)
            changing += not np.array_equal(found, labels)
            labels = found
            centers = _means(self.rows, labels, centers)
        return labels, changing

    def cost(self, labels: NDArray[np.int64]) -> float:
        """Return the sum of squared distances of all rows to the mean of their cluster."""
        clusters = [self.rows[labels == label] for label in np.unique(labels)]
        return float(sum(((rows - rows.mean(axis=0)) ** 2).sum() for rows in clusters))


def squared_distances(rows: NDArray[np.float64], centers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return them as n × k."""
    return np.stack([((rows - center) ** 2).sum(axis=1) for center in centers], axis=1)


def _means(rows: NDArray[np.float64], members: NDArray[np.int64], before: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each cluster's mean; a cluster without members keeps its centre."""
    return np.stack(
        [
            rows[members == cluster].mean(axis=0) if (members == cluster).any() else old
            for cluster, old in enumerate(before)
        ]
    )
