"""A list of edges, a row for each, whose ends are looked up among the nodes of the features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kcagc._types import FloatArray, IntArray, Sparse
from kcagc.errors import DataError
from kcagc.files.cells import whole_numbers
from kcagc.files.delimited import read_delimited
from kcagc.files.nodes import Known
from kcagc.files.opening import InputFile
from kcagc.files.parquet import read_parquet
from kcagc.files.table import Table, Wanted
from kcagc.graph.graph import Graph
from kcagc.text import quoted

_LISTED = 3  # unknown ids that a message names


def edges_of(file: InputFile, known: Known, source: str, target: str, weight: str | None) -> tuple[Sparse, int]:
    """Give the adjacency of the edges in a file, rows in the order of the nodes, and how many were left out."""
    # Nothing in a CSV file says whether 12 is a number or a string, so it is what the features have.
    wanted = Wanted((source, target), () if weight is None else (weight,), as_text=known.are_text)
    table = read_parquet(file, wanted) if file.kind == "parquet" else read_delimited(file, wanted)
    ends = _positions(table, source, known), _positions(table, target, known)
    inside = (ends[0] >= 0) & (ends[1] >= 0)
    weights = None
    if weight is not None:
        weights = table.numbers[:, 0]
        negative = np.flatnonzero(weights < 0)
        if negative.size:
            row = int(negative[0])
            raise table.error(row, weight, f"the weight is negative ({weights[row]:g}); weights must be 0 or more")
    chosen = (ends[0][inside], ends[1][inside], None if weights is None else weights[inside])
    try:
        adjacency = Graph.from_edges(*chosen, n_nodes=len(known.ids)).adjacency
    except DataError:
        if weights is None:
            raise
        raise _conflict(table, ends, weights) from None
    return adjacency, int(np.count_nonzero(~inside))


def edge_ends(file: InputFile, known: Known, source: str, target: str) -> IntArray:
    """Give which of the nodes `known` the edges of a file name; -1 stands for another node."""
    wanted = Wanted((source, target), (), as_text=known.are_text)
    table = read_parquet(file, wanted) if file.kind == "parquet" else read_delimited(file, wanted)
    known = replace(known, only=True)
    return np.concatenate([_positions(table, column, known) for column in (source, target)])


def _positions(table: Table, column: str, known: Known) -> IntArray:
    values = table.names[column]
    if isinstance(values, list) != known.are_text:
        row = 0
        if isinstance(values, list) and table.word == "line":  # in a text, one string makes strings of all
            row = next((row for row, value in enumerate(values) if whole_numbers([value]) is None), 0)
        kind = "a string" if isinstance(values, list) else "a number"
        message = f"the id {quoted(values[row])} is {kind}, but {known.said}; write them the same way in both files"
        raise table.error(row, column, message)
    found = known.rows(values)
    unknown = [] if known.only else np.flatnonzero(found < 0).tolist()
    if not unknown:
        return found
    also = "".join(f", {quoted(values[row])} in {table.place(row)}" for row in unknown[1:_LISTED])
    more = f" and {len(unknown) - _LISTED} more" if len(unknown) > _LISTED else ""
    message = f"there is no node {quoted(values[unknown[0]])}{also}{more} ({known.said})"
    raise table.error(unknown[0], column, message)


def _conflict(table: Table, ends: tuple[IntArray, IntArray], weights: FloatArray) -> DataError:
    """Find the first edge that is repeated with another weight."""
    low, high = np.minimum(*ends), np.maximum(*ends)
    seen: dict[tuple[int, int], int] = {}
    for row, edge in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        if edge[0] < 0:  # an end that is left out
            continue
        first = seen.setdefault(edge, row)
        if weights[first] != weights[row]:
            message = (
                f"the edge is in {table.place(first)} already, with the weight {weights[first]} instead of "
                f"{weights[row]}; give each edge one weight"
            )
            return table.error(row, table.columns[0], message)
    raise AssertionError("no edge has two weights")
