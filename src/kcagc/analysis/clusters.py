"""A target partition of the nodes (the paper's T), and rows around the means of its clusters (the paper's X - C)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kcagc._types import FloatArray, IntArray
from kcagc.cluster.lloyd import blocks_of, weighted_means
from kcagc.data.files import PathLike
from kcagc.data.table import Schema, Wanted
from kcagc.data.table_files import read_table
from kcagc.errors import DataError
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds

Name = int | float | str | bool


@dataclass(frozen=True, eq=False)
class Clusters:
    """The cluster of each node as a number below k, the names of the clusters, and their sizes."""

    codes: IntArray
    names: tuple[Name, ...]
    sizes: IntArray

    @classmethod
    def of(cls, labels: ArrayLike, n_nodes: int, where: str) -> Clusters:
        """Check labels, numbers or strings, one for each node; clusters without nodes do not exist."""
        given = np.asarray(labels)
        if given.ndim != 1 or len(given) != n_nodes:
            raise DataError(f"{where}: must be one label for each of the {n_nodes} nodes, not of shape {given.shape}")
        if given.dtype.kind in "fO":  # the types that can hold NaN, which differs from itself, or None
            missing = [row for row, label in enumerate(given.tolist()) if label is None or label != label]  # noqa: PLR0124
            if missing:
                raise DataError(f"{where}: the label in row {missing[0]} is missing")
        try:
            names, codes, sizes = np.unique(given, return_inverse=True, return_counts=True)
        except TypeError as error:
            raise DataError(f"{where}: labels must be all numbers or all strings ({error})") from error
        return cls(codes.astype(np.int64), tuple(map(_json_name, names.tolist())), sizes.astype(np.int64))

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.codes)


def _json_name(label: Any) -> Name:
    return label if isinstance(label, int | float | str) else str(label)


def read_labels(path: PathLike, party: str, graph: Graph) -> IntArray:
    """Read the columns `id` and `cluster` of a labels file and return the cluster of each node in the graph's order."""
    ids = NodeIds.numbered(graph.n_nodes) if graph.ids is None else graph.ids
    # A CSV file does not distinguish the string "7" from the number 7; the graph does.
    table = read_table(path, Wanted(("id",), Schema.only("cluster"), ids.are_text), party=party)
    clusters = table.numbers[:, 0]
    fractions = np.flatnonzero(clusters != np.floor(clusters))
    if fractions.size:
        row = int(fractions[0])
        raise table.error(row, "cluster", f"{clusters[row]:g} is not a whole number, as clusters are")
    try:
        order = ids.alignment(table.node_ids("id"), where=str(path))
    except DataError as error:
        raise DataError(f"{error}; the file may belong to another run", party=party) from error
    found: IntArray = clusters[order].astype(np.int64)
    return found


@dataclass(frozen=True, eq=False)
class ClusteredRows:
    """Rows of one party, or of all parties side by side, with their clusters and the cluster means (the paper's μ)."""

    rows: FloatArray
    clusters: Clusters
    means: FloatArray

    @classmethod
    def of(cls, rows: FloatArray, clusters: Clusters) -> ClusteredRows:
        """Compute the means."""
        empty = np.zeros((len(clusters), rows.shape[1]))
        return cls(rows, clusters, weighted_means(rows, np.ones(len(rows)), clusters.codes, empty))

    def residuals(self, block: slice) -> FloatArray:
        """Return some rows of X - C."""
        return self.rows[block] - self.means[self.clusters.codes[block]]


def spectral_norm(parts: Sequence[ClusteredRows]) -> float:
    """Return ‖X - C‖, the largest singular value, of parts side by side: [X¹ - Ĉ¹, X² - Ĉ², ...].

    It is the root of the largest eigenvalue of the q × q Gram matrix, which is added up over blocks of rows. Neither an
    n × n matrix nor a second n × q table is needed.
    """
    width = sum(part.rows.shape[1] for part in parts)
    gram = np.zeros((width, width))
    for block in blocks_of(parts[0].rows):
        away = np.hstack([part.residuals(block) for part in parts])
        gram += away.T @ away
    return float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))


def finite(value: float) -> float | None:
    """Return a number for JSON, which has no infinity: None instead."""
    return float(value) if np.isfinite(value) else None
