"""The labels that a run left at a party, read back into the order of its graph."""

from __future__ import annotations

import numpy as np

from kcagc._types import IntArray
from kcagc.errors import DataError
from kcagc.files.delimited import read_delimited
from kcagc.files.names import node_ids
from kcagc.files.opening import TABLES, InputFile, PathLike
from kcagc.files.parquet import read_parquet
from kcagc.files.table import Wanted
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds


def read_labels(path: PathLike, party: str, graph: Graph) -> IntArray:
    """Read columns `id` and `cluster`, a row for each node of the graph in any order."""
    file = InputFile.named(path, party, TABLES)
    ids = NodeIds(np.arange(graph.n_nodes), where="nodes") if graph.ids is None else graph.ids
    # A CSV file does not tell the string "7" from the number: the graph does.
    wanted = Wanted(names=("id",), numbers=("cluster",), as_text=isinstance(ids.values, list))
    table = (read_parquet if file.kind == "parquet" else read_delimited)(file, wanted)
    clusters = table.numbers[:, 0]
    broken = np.flatnonzero(clusters != np.floor(clusters))
    if broken.size:
        row = int(broken[0])
        raise table.error(row, "cluster", f"{clusters[row]:g} is no cluster: clusters are whole numbers")
    try:
        order = ids.alignment(node_ids(table, "id").values, where=f"{party}: {path}")
    except DataError as error:
        raise DataError(f"{error}; it belongs to another run, perhaps") from error
    found: IntArray = clusters[order].astype(np.int64)
    return found
