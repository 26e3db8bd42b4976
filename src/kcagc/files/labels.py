"""The result: which cluster each node is in and how clearly, as a file."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from kcagc._types import FloatArray, IntArray
from kcagc.errors import DataError, ParameterError
from kcagc.files.atomic import PUBLIC, write_bytes, write_text
from kcagc.files.names import in_order, picked
from kcagc.files.opening import PathLike
from kcagc.files.parquet import pyarrow_for
from kcagc.graph.ids import NodeIds

_DIGITS = 4  # of a confidence


def check_labels_path(path: PathLike) -> None:
    """Refuse a name that `write_labels` would refuse, which is worth knowing before a long run."""
    ending = Path(path).suffix.lower()
    if ending not in (".csv", ".parquet"):
        raise ParameterError(f"{path}: labels are written to a file whose name ends in .csv or .parquet")
    if ending == ".parquet":
        pyarrow_for(path)


def write_labels(
    path: PathLike,
    ids: NodeIds | None,
    labels: ArrayLike,
    *,
    confidence: FloatArray | None = None,
    mode: int = PUBLIC,
) -> None:
    """Write a row `id, cluster` for each node, sorted by id; the file appears whole or not at all.

    `confidence` adds a column of that name, from 0 to 1: see `kcagc.report.insights.measures.confidence`.

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
    if confidence is not None and len(confidence) != len(clusters):
        raise DataError(f"labels: {len(confidence)} confidences for {len(clusters)} labels")
    order = in_order(known)
    sure = None if confidence is None else np.round(confidence[order], _DIGITS)
    write = _csv if Path(path).suffix.lower() == ".csv" else _parquet
    write(path, picked(known, order), clusters[order].astype(np.int64), sure, mode)


def _csv(path: PathLike, ids: NodeIds, clusters: IntArray, sure: FloatArray | None, mode: int) -> None:
    names = map(_cell, ids.values) if isinstance(ids.values, list) else map(str, ids.values.tolist())
    if sure is None:
        header, pairs = "id,cluster\n", zip(names, clusters.tolist(), strict=True)
        rows = (f"{name},{cluster}\n" for name, cluster in pairs)
    else:
        header, told = "id,cluster,confidence\n", zip(names, clusters.tolist(), sure.tolist(), strict=True)
        rows = (f"{name},{cluster},{value:.{_DIGITS}f}\n" for name, cluster, value in told)
    write_text(path, "".join((header, *rows)), mode=mode)


def _cell(text: str) -> str:
    """Quote what needs it; the csv module of Python 3.11 leaves a carriage return bare, which would end the line."""
    return '"' + text.replace('"', '""') + '"' if re.search(r'[,"\r\n]', text) else text


def _parquet(path: PathLike, ids: NodeIds, clusters: IntArray, sure: FloatArray | None, mode: int) -> None:
    arrow, parquet = pyarrow_for(path)
    kind = arrow.string() if isinstance(ids.values, list) else arrow.int64()
    columns = {"id": arrow.array(ids.values, type=kind), "cluster": arrow.array(clusters)}
    if sure is not None:
        columns["confidence"] = arrow.array(sure)
    table = arrow.table(columns)
    content = io.BytesIO()
    parquet.write_table(table, content)
    write_bytes(path, content.getvalue(), mode=mode)
