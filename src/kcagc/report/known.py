"""Comparing the clusters of a run with classes that somebody knows, for some or all of its nodes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from kcagc.errors import DataError, ParameterError
from kcagc.files.atomic import PRIVATE, write_text
from kcagc.files.delimited import read_delimited
from kcagc.files.names import node_ids
from kcagc.files.opening import TABLES, InputFile
from kcagc.files.parquet import read_parquet
from kcagc.files.table import Names, Table, Wanted
from kcagc.report.folder import QUALITY, SUMMARY, RunFolder
from kcagc.report.insights.quality import KnownQuality, against_known


def compare_with_known(
    folder: Path, labels: Path, *, id_column: str = "id", label_column: str = "label"
) -> KnownQuality:
    """Compare, and keep the comparison beside the run; nodes whose class is not known do not count."""
    run = RunFolder.read(folder)
    name = run.summary.get("files", {}).get("labels")
    if not isinstance(name, str) or Path(name).name != name:
        raise ParameterError(f"{folder / SUMMARY}: {run.name} has no labels to compare: a coordinator learns none")
    found = _read(folder / name, run.name, Wanted(names=("id",), numbers=("cluster",), as_text=True))
    known = _read(labels, run.name, Wanted(names=(id_column, label_column), numbers=(), as_text=True))
    node_ids(known, id_column)  # refuses a node with two classes
    classes = dict(zip(_texts(known.names[id_column]), _texts(known.names[label_column]), strict=True))
    clusters = found.numbers[:, 0].astype(np.int64)
    told = [
        (classes[one], cluster)
        for one, cluster in zip(_texts(found.names["id"]), clusters, strict=True)
        if one in classes
    ]
    if not told:
        raise DataError(
            f"{run.name}: {labels}: column {id_column!r}: names none of the {len(clusters)} nodes of this run"
        )
    quality = against_known([one for one, _ in told], np.array([cluster for _, cluster in told]), len(run.sizes))
    text = json.dumps(quality.as_dict(), ensure_ascii=False, indent=2)
    write_text(folder / QUALITY, text + "\n", mode=PRIVATE)
    return quality


def _read(path: Path, party: str, wanted: Wanted) -> Table:
    file = InputFile.named(path, party, TABLES)
    return (read_parquet if file.kind == "parquet" else read_delimited)(file, wanted)


def _texts(names: Names) -> list[str]:
    return [str(one) for one in (names if isinstance(names, list) else names.tolist())]
