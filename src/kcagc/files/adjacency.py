"""A graph that is saved as a matrix of weights, its rows brought into the order of the nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from kcagc._types import Sparse
from kcagc.errors import DataError
from kcagc.files.matrix import read_matrix
from kcagc.files.names import kind_and_example, read_ids
from kcagc.files.nodes import Known
from kcagc.files.opening import LISTS, InputFile, PathLike
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds
from kcagc.text import quoted

_LISTED = 3  # ids that a message names


def matrix_of(file: InputFile, known: Known, ids: PathLike | None) -> tuple[Sparse, int]:
    """Give the adjacency in a file, which must have a row for every node, and how many edges were left out.

    A row for another node is an error, unless only some nodes are wanted.
    """
    matrix = read_matrix(file)
    try:
        adjacency = Graph.from_matrix(matrix).adjacency
    except DataError as error:
        raise file.error(str(error)) from error
    n_rows = adjacency.shape[0]
    if ids is None:
        names, about = NodeIds(np.arange(n_rows, dtype=np.int64), where="rows"), file
        said = f"rows are called 0 to {n_rows - 1} (a file with other names can be given as ids)"
    else:
        names, about = read_ids(ids, file.party, file, n_rows), InputFile.named(ids, file.party, LISTS)
        said = f"ids are {kind_and_example(names.values)}"
    if isinstance(names.values, list) != known.are_text:
        raise about.error(f"{said}, but {known.said}; write them the same way in both files")
    _check_same(about, names, known)
    order = names.positions(known.ids.values, where=str(file.path))
    if np.array_equal(order, np.arange(n_rows)):
        return adjacency, 0
    ordered = adjacency[order][:, order]
    ordered.sort_indices()
    return ordered, _edges(adjacency) - _edges(ordered)


def _check_same(about: InputFile, names: NodeIds, known: Known) -> None:
    ours, theirs = set(_listed(known.ids)), set(_listed(names))
    problems = [
        f"{what} {', '.join(map(quoted, sorted(found)[:_LISTED]))}"
        + (f" and {len(found) - _LISTED} more" if len(found) > _LISTED else "")
        for found, what in (
            (ours - theirs, "there is no row for"),
            (set() if known.only else theirs - ours, "there are no features for"),
        )
        if found
    ]
    if problems:
        raise about.error(f"rows do not match the nodes of the features: {'; '.join(problems)} ({known.said})")


def _edges(adjacency: Sparse) -> int:
    """Count edges, loops included."""
    return (int(adjacency.nnz) + int(np.count_nonzero(adjacency.diagonal()))) // 2


def _listed(ids: NodeIds) -> list[Any]:
    return ids.values if isinstance(ids.values, list) else ids.values.tolist()
