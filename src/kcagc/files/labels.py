"""The result: which cluster each node is in, as a file."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from kcagc._types import IntArray
from kcagc.errors import DataError, ParameterError
from kcagc.files.atomic import PUBLIC, write_bytes, write_text
from kcagc.files.names import in_order, picked
from kcagc.files.opening import PathLike
from kcagc.files.parquet import pyarrow_for
from kcagc.graph.ids import NodeIds


def check_labels_path(path: PathLike) -> None:
    """Refuse a name that `write_labels` would refuse, which is worth knowing before a long run."""
    ending = Path(path).suffix.lower()
    if ending not in (".csv", ".parquet"):
        raise ParameterError(f"{path}: labels are written to a file whose name ends in .csv or .parquet")
    if ending == ".parquet":
        pyarrow_for(path)


def write_labels(path: PathLike, ids: NodeIds | None, labels: ArrayLike, *, mode: int = PUBLIC) -> None:
    """Write a row `id, cluster` for each node, sorted by id; the file appears whole or not at all.

    Without ids, nodes are called 0, 1, 2, ... Ids are written as they are, also those that a spreadsheet takes for a
    formula: an id with a sign put before it would match no table any more. A CSV file does not tell the string "7" from
    the number; a Parquet file does.
    """
    check_labels_path(path)
    clusters = np.asarray(labels)
    if clusters.ndim != 1 or clusters.dtype.kind not in "iu":
        raise DataError(f"labels: must be one column of whole numbers, not {clusters.dtype} of shape {clusters.shape}")
    known = NodeIds(np.arange(len(clusters), dtype=np.int64), where="ids") if ids is None else ids
    if len(known) != len(clusters):
        raise DataError(f"labels: {len(clusters)} labels for {len(known)} ids")
    order = in_order(known)
    write = _csv if Path(path).suffix.lower() == ".csv" else _parquet
    write(path, picked(known, order), clusters[order].astype(np.int64), mode)


def _csv(path: PathLike, ids: NodeIds, clusters: IntArray, mode: int) -> None:
    names = map(_cell, ids.values) if isinstance(ids.values, list) else map(str, ids.values.tolist())
    rows = (f"{name},{cluster}\n" for name, cluster in zip(names, clusters.tolist(), strict=True))
    write_text(path, "".join(("id,cluster\n", *rows)), mode=mode)


def _cell(text: str) -> str:
    """Quote what needs it; the csv module of Python 3.11 leaves a carriage return bare, which would end the line."""
    return '"' + text.replace('"', '""') + '"' if re.search(r'[,"\r\n]', text) else text


def _parquet(path: PathLike, ids: NodeIds, clusters: IntArray, mode: int) -> None:
    arrow, parquet = pyarrow_for(path)
    kind = arrow.string() if isinstance(ids.values, list) else arrow.int64()
    table = arrow.table({"id": arrow.array(ids.values, type=kind), "cluster": arrow.array(clusters)})
    content = io.BytesIO()
    parquet.write_table(table, content)
    write_bytes(path, content.getvalue(), mode=mode)
