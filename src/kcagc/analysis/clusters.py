"""A target partition of the nodes (the paper's T), and rows around the means of its clusters (the paper's X - C)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kcagc._types import FloatArray, IntArray
from kcagc.cluster.lloyd import blocks_of, weighted_means
from kcagc.errors import DataError

Name = int | float | str | bool


@dataclass(frozen=True, eq=False)
class Clusters:
    """Which cluster each node is in, as a number below k; what the clusters are called; how many nodes each has."""

    codes: IntArray
    names: tuple[Name, ...]
    sizes: IntArray

    @classmethod
    def of(cls, labels: ArrayLike, n_nodes: int, where: str) -> Clusters:
        """Check labels of any kind, numbers or strings, one for each node; a cluster without nodes does not exist."""
        given = np.asarray(labels)
        if given.ndim != 1 or len(given) != n_nodes:
            raise DataError(f"{where}: must be one label for each of the {n_nodes} nodes, not of shape {given.shape}")
        if given.dtype.kind in "fO":  # the kinds that can hold a NaN, which differs from itself, or a None
            missing = [row for row, label in enumerate(given.tolist()) if label is None or label != label]  # noqa: PLR0124
            if missing:
                raise DataError(f"{where}: the label in row {missing[0]} is missing")
        try:
            names, codes, sizes = np.unique(given, return_inverse=True, return_counts=True)
        except TypeError as error:
            raise DataError(f"{where}: labels must be all numbers or all strings ({error})") from error
        return cls(codes.astype(np.int64), tuple(map(_name, names.tolist())), sizes.astype(np.int64))

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def n_nodes(self) -> int:
        """How many nodes there are."""
        return len(self.codes)


def _name(label: Any) -> Name:
    """Keep what JSON can say."""
    return label if isinstance(label, int | float | str) else str(label)


@dataclass(frozen=True, eq=False)
class Around:
    """Rows of one party, or of all side by side, the clusters they are in, and the means of these (the paper's μ)."""

    rows: FloatArray
    clusters: Clusters
    means: FloatArray

    @classmethod
    def of(cls, rows: FloatArray, clusters: Clusters) -> Around:
        """Find the means."""
        empty = np.zeros((len(clusters), rows.shape[1]))
        return cls(rows, clusters, weighted_means(rows, np.ones(len(rows)), clusters.codes, empty))

    def residuals(self, block: slice) -> FloatArray:
        """Give some rows of X - C."""
        return self.rows[block] - self.means[self.clusters.codes[block]]


def spectral_norm(parts: Sequence[Around]) -> float:
    """Give ‖X - C‖, the largest singular value, of parts side by side: [X¹ - Ĉ¹, X² - Ĉ², ...].

    It is the root of the largest eigenvalue of the q × q Gram matrix, added up over blocks of rows: nothing of the
    size n × n, nor a second n × q table, is ever held.
    """
    width = sum(part.rows.shape[1] for part in parts)
    gram = np.zeros((width, width))
    for block in blocks_of(parts[0].rows):
        away = np.hstack([part.residuals(block) for part in parts])
        gram += away.T @ away
    return float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))
