"""One party's table as it was given: an array, a sparse matrix or a frame, with what it calls its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from kcagc._types import IntArray
from kcagc.errors import DataError, ParameterError
from kcagc.foreign.frames import frame_ids, frame_rows, is_frame, without
from kcagc.foreign.graphs import graph_of, is_geometric
from kcagc.foreign.tensors import plain
from kcagc.graph.graph import AttributedGraph, Graph
from kcagc.graph.ids import NodeIds
from kcagc.secagg.masks import MAX_PARTIES


@dataclass(frozen=True, eq=False)
class Given:
    """A party's table without the column of ids. `rows` are those of what was given, -1 for a node it does not have.

    `numbered` says that rows are called 0, 1, 2, ... and not merely in an order.
    """

    name: str
    content: Any
    ids: NodeIds | None
    rows: IntArray
    numbered: bool = False

    @classmethod
    def of(cls, name: str, table: Any, id_column: str | None) -> Given:
        """Take a table as it comes."""
        if isinstance(table, AttributedGraph):
            return cls(name, table.features, table.graph.ids, np.arange(table.features.shape[0]))
        if is_geometric(table):
            if getattr(table, "x", None) is None:
                raise DataError(f"{name}: the graph has no features (x)")
            return cls.of(name, table.x, None)
        if is_frame(table):
            ids = frame_ids(table, id_column, name)
            numbered = ids is None and hasattr(table, "iloc")
            return cls(name, without(table, id_column), ids, np.arange(len(table)), numbered)
        content = plain(table, name)
        if not sparse.issparse(content):
            try:
                content = np.asarray(content)
            except ValueError as error:
                raise DataError(f"{name}: features: not a matrix ({error})") from error
        elif content.format != "csr":
            content = sparse.csr_array(content)
        return cls(name, content, None, np.arange(content.shape[0] if content.ndim else 0))

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    def selected(self, rows: IntArray, ids: NodeIds | None) -> Given:
        """Give these rows, called so; -1 gives one in which everything is missing."""
        if np.array_equal(rows, np.arange(self.n_rows)):
            return replace(self, ids=ids)
        lacking = rows < 0
        content = self.content
        if is_frame(content):
            content = frame_rows(content, rows)
        elif not lacking.any():
            content = content[rows]
        elif sparse.issparse(content):
            empty = sparse.csr_array(np.full((1, content.shape[1]), np.nan))
            content = sparse.vstack([content, empty], format="csr")[np.where(lacking, self.n_rows, rows)]
        else:
            content = content[np.maximum(rows, 0)].astype(object if content.dtype.kind not in "biuf" else np.float64)
            content[lacking] = np.nan
        return replace(self, content=content, ids=ids, rows=np.where(lacking, -1, self.rows[np.maximum(rows, 0)]))


def check_tables(X: Any, y: Any, adjacency: Any) -> None:
    """Refuse what is no list of two tables or more, and a graph that was forgotten."""
    if not isinstance(X, list | tuple):
        raise DataError(f"X: must be a list with one table for each party, not {type(X).__name__}")
    if not 2 <= len(X) <= MAX_PARTIES:
        raise DataError(f"X: {len(X)} tables; there must be 2 to {MAX_PARTIES}, one for each party")
    if adjacency is None:
        given = "; the second argument is y, which is not used" if y is not None else ""
        raise ParameterError(f"adjacency: is missing; give the graph by name, as adjacency=...{given}")


def graphs_of(adjacency: Any, n_parties: int) -> tuple[list[Graph], bool]:
    """Give every party its graph, and whether it is one that all share."""
    if not isinstance(adjacency, list | tuple):
        return [graph_of(adjacency)] * n_parties, True
    if len(adjacency) != n_parties:
        raise DataError(f"adjacency: {len(adjacency)} graphs for {n_parties} parties")
    return [graph_of(one, f"adjacency[{number}]") for number, one in enumerate(adjacency)], False
