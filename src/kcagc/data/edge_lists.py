"""Lists of edges from memory: two columns, the `edge_index` of PyTorch Geometric, pairs, or a pandas or polars frame.

A list of edges names nodes but does not list them. The nodes are those of the tables, so that a node without edges is
not lost, and the ends of the edges are matched with the ids of the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kcagc._types import FloatArray, IntArray, check_weights
from kcagc.errors import DataError
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds, one_kind
from kcagc.text import count, listed, quoted

_LISTED = 3  # unknown ids or columns that an error names
SAME_WAY = "write ids the same way in both, or cluster without a graph"
_FORMS = (
    "a list of edges is an array of shape (m, 2) or (2, m), a list of pairs, or a frame with the columns source and "
    "target and, if edges have weights, weight"
)


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Edges whose ends are ids or row numbers; which nodes there are is not known yet."""

    where: str
    ends: tuple[IntArray | list[str], IntArray | list[str]]
    weights: FloatArray | None = None

    @classmethod
    def of_array(cls, given: Any, where: str) -> Self | None:
        """Read an array of shape (m, 2) or (2, m); return None for a square one, which is a matrix, and for others.

        Raises
        ------
        DataError
            If an array of texts has another shape: it can be no matrix either.
        """
        if sparse.issparse(given) or not isinstance(given, np.ndarray) or given.ndim != 2:
            return None
        rows, columns = given.shape
        if rows != columns and columns == 2:
            return cls._of(given[:, 0], given[:, 1], where)
        if rows != columns and rows == 2:
            return cls._of(given[0], given[1], where)
        if rows != columns or given.dtype.kind not in "biuf":
            unclear = " (with two edges, both shapes are the same)" if rows == columns == 2 else ""
            raise DataError(
                f"{where}: an array of shape {given.shape} and type {given.dtype} is neither a matrix of n × n weights "
                f"nor a list of edges; {_FORMS}{unclear}"
            )
        return None

    @classmethod
    def of_pairs(cls, given: Any, where: str) -> Self | None:
        """Read a list of tuples (source, target); return None for any other list."""
        if not isinstance(given, list | tuple) or not given:
            return None
        if not all(isinstance(one, tuple) and len(one) == 2 and all(map(_is_id, one)) for one in given):
            return None
        return cls._of([one for one, _ in given], [two for _, two in given], where)

    @classmethod
    def of_frame(cls, frame: Any, where: str) -> Self | None:
        """Read the columns source and target, or two columns of any name; return None for a square frame.

        A column `weight` holds weights. Further columns are not used.
        """
        names = list(frame.columns)
        if "source" in names and "target" in names:
            weights = None if "weight" not in names else _weights(frame["weight"], len(frame), where)
            return cls._of(_column(frame["source"]), _column(frame["target"]), where, weights)
        index = getattr(frame, "index", None)
        is_matrix = index is not None and list(index) == names
        if len(names) == 2 and not is_matrix:
            return cls._of(_column(frame[names[0]]), _column(frame[names[1]]), where)
        if len(names) != len(frame):
            columns = listed([repr(name) for name in names], at_most=_LISTED)
            raise DataError(f"{where}: has the columns {columns}, which name no edges; {_FORMS}")
        return None

    @classmethod
    def _of(cls, source: Any, target: Any, where: str, weights: FloatArray | None = None) -> Self:
        ends = one_kind(_whole(source), f"{where}: source"), one_kind(_whole(target), f"{where}: target")
        if len(ends[0]) and isinstance(ends[0], list) != isinstance(ends[1], list):
            raise DataError(
                f"{where}: the first source is {quoted(ends[0][0])} and the first target {quoted(ends[1][0])}; write "
                "all ends as numbers, or all as strings"
            )
        return cls(where, ends, weights)

    def graph(
        self,
        nodes: NodeIds,
        *,
        named: bool,
        outside: bool = False,
        tables: Mapping[str, NodeIds] | None = None,
    ) -> Graph:
        """Return the graph on `nodes`; `named` says whether these are ids of tables, and not only row numbers.

        Edges to other nodes are an error, which names those of `tables` that lack them; with `outside`, they are left
        out.
        """
        known = f"the ids of the tables are {nodes.kind} (such as {quoted(nodes.values[0])})"
        if not named:
            known = f"the tables have no ids, so nodes are called 0 to {len(nodes) - 1}"
        source, target = (self._positions(values, nodes, known) for values in self.ends)
        inside = (source >= 0) & (target >= 0)
        if outside and len(inside) and not inside.any():
            raise DataError(
                f"{self.where}: none of the {len(inside):,} edges joins two nodes that take part (the first begins at "
                f"{quoted(self.ends[0][0])}; {known}); {SAME_WAY}"
            )
        if not outside and not inside.all():
            raise self._unknown(source, target, known, tables or {})
        weights = None if self.weights is None else self.weights[inside]
        try:
            made = Graph.from_edges(source[inside], target[inside], weights, n_nodes=len(nodes))
        except DataError as error:
            raise DataError(f"{self.where}: {error} (a parameter of Graph.from_edges)") from error
        return Graph(made.adjacency, nodes if named else None)

    def _positions(self, values: IntArray | list[str], nodes: NodeIds, known: str) -> IntArray:
        if not len(values):
            return np.zeros(0, dtype=np.int64)
        if isinstance(values, list) != nodes.are_text:
            kind = "strings" if isinstance(values, list) else "numbers"
            raise DataError(
                f"{self.where}: the ends of edges are {kind} (such as {quoted(values[0])}), but {known}; write them "
                "the same way, and name the column of the tables that holds them (id_column=...)"
            )
        return nodes.find(values)

    def _unknown(self, source: IntArray, target: IntArray, known: str, tables: Mapping[str, NodeIds]) -> DataError:
        """Return the error about edges to nodes that a table lacks; `tables` are those of a collaboration."""
        edges = np.flatnonzero((source < 0) | (target < 0)).tolist()
        missing: dict[Any, int] = {}
        for values, found in zip(self.ends, (source, target), strict=True):
            for row in edges:
                if found[row] < 0:
                    missing.setdefault(values[row], row)
        wanted = one_kind(list(missing), self.where)
        alike = {name: ids.find(wanted) for name, ids in tables.items() if ids.are_text == isinstance(wanted, list)}
        without = [name for name, rows in alike.items() if (rows < 0).any()]
        held = any((rows >= 0).any() for rows in alike.values())
        which = f" at {listed(without)}" if held else " in any table" if tables else ""
        named = listed([f"{quoted(node)} in edge {row}" for node, row in missing.items()], at_most=_LISTED)
        advice = ", or use nodes='intersection', which leaves them out" if tables else ""
        return DataError(
            f"{self.where}: there is no row{which} for {count(len(missing), 'node')} of {count(len(edges), 'edge')}: "
            f"{named} ({known}); add the rows, or remove these edges{advice}"
        )


def _is_id(value: Any) -> bool:
    return isinstance(value, str | Integral) and not isinstance(value, bool)


def _column(column: Any) -> NDArray[Any]:
    return np.asarray(column.to_numpy())


def _whole(values: Any) -> Any:
    """Return whole numbers as integers, which files of numbers and gaps elsewhere turn into fractions."""
    array = values if isinstance(values, np.ndarray) else None
    if array is not None and array.dtype.kind == "f" and (array == np.rint(array)).all():
        return array.astype(np.int64)
    return values


def _weights(column: Any, n_edges: int, where: str) -> FloatArray:
    try:
        values = np.asarray(column.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: a weight is not a number ({error})") from error
    return check_weights(values, n_edges, f"{where}: weight")
