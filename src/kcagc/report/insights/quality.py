"""Quality of the clusters: the silhouette of one party's points, and the comparison with known classes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import silhouette_score

from kcagc import metrics
from kcagc._types import FloatArray, IntArray
from kcagc.data.files import PRIVATE, write_text
from kcagc.data.table import Keys, Schema, Wanted
from kcagc.data.table_files import read_table
from kcagc.errors import DataError, ParameterError
from kcagc.report.folder import QUALITY, SUMMARY, RunFolder

SILHOUETTE_NODES = 2_000  # the cost grows with their square


def silhouette(rows: FloatArray, labels: IntArray, *, most: int = SILHOUETTE_NODES) -> float | None:
    """Return the mean silhouette of the points, or of a fixed sample; None if it is not defined."""
    chosen = sample(len(rows), most)
    points, clusters = rows[chosen], labels[chosen]
    if not 2 <= len(np.unique(clusters)) < len(clusters):
        return None
    return float(silhouette_score(points, clusters))


def sample(n: int, most: int) -> IntArray:
    """Return at most `most` of n rows in ascending order, always the same rows."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.RandomState(0).permutation(n)[:most])


@dataclass(frozen=True)
class KnownQuality:
    """Agreement of clusters with known classes: measures, and numbers of nodes by class (row) and cluster (column)."""

    nodes: int
    measures: dict[str, float]
    classes: list[str]
    counts: list[list[int]]

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return asdict(self)


def against_known(known: list[str], found: IntArray, n_clusters: int) -> KnownQuality:
    """Compare clusters with known classes of the same nodes."""
    classes, codes = np.unique(np.array(known, dtype=object).astype(str), return_inverse=True)
    counts = np.zeros((len(classes), n_clusters), dtype=np.int64)
    np.add.at(counts, (codes, found), 1)
    return KnownQuality(len(found), metrics.table(codes, found), [str(one) for one in classes], counts.tolist())


def compare_with_known(
    folder: Path, labels: Path, *, id_column: str = "id", label_column: str = "label"
) -> KnownQuality:
    """Compare the labels in a run's folder with known classes and store the result there as `quality.json`.

    Nodes without a known class do not count.
    """
    run = RunFolder.read(folder)
    name = run.summary.get("files", {}).get("labels")
    if not isinstance(name, str) or Path(name).name != name:
        raise ParameterError(
            f"{folder / SUMMARY}: {run.name} has no labels to compare, because a coordinator receives none; use the "
            "result folder of a party"
        )
    found = read_table(folder / name, Wanted(("id",), Schema.only("cluster"), text_keys=True), party=run.name)
    known = read_table(labels, Wanted((id_column, label_column), None, True, "other"), party=run.name)
    known.node_ids(id_column)  # a node with two classes is an error
    classes = dict(zip(_texts(known.keys[id_column]), _texts(known.keys[label_column]), strict=True))
    clusters = found.numbers[:, 0].astype(np.int64)
    pairs = [
        (classes[node], cluster)
        for node, cluster in zip(_texts(found.keys["id"]), clusters, strict=True)
        if node in classes
    ]
    if not pairs:
        raise DataError(
            f"{labels}: column {id_column!r} has no id of the {len(clusters)} nodes of this run; use the ids of the "
            "labels file",
            party=run.name,
        )
    quality = against_known([one for one, _ in pairs], np.array([cluster for _, cluster in pairs]), len(run.sizes))
    text = json.dumps(quality.as_dict(), ensure_ascii=False, indent=2)
    write_text(folder / QUALITY, text + "\n", mode=PRIVATE)
    return quality


def _texts(names: Keys) -> list[str]:
    return [str(one) for one in (names if isinstance(names, list) else names.tolist())]
