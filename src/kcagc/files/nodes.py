"""The nodes that a graph file may name: those that the features have, or those of an agreed list."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kcagc._types import IntArray
from kcagc.errors import DataError
from kcagc.files.names import kind_and_example
from kcagc.files.table import Names
from kcagc.graph.ids import NodeIds
from kcagc.parameters import check_count


@dataclass(frozen=True, eq=False)
class Known:
    """The nodes that edges may name; without names they are called 0, 1, 2, ...

    Another node in a graph file is an error, or with `only` is left out with all its edges.
    """

    ids: NodeIds
    said: str  # what they are called, in words
    only: bool = False

    @classmethod
    def of(cls, nodes: NodeIds | int) -> Known:
        """Take the ids of the features, or the number of their rows."""
        if isinstance(nodes, NodeIds):
            if len(nodes) == 0:
                raise DataError("nodes: there are none")
            return cls(nodes, f"the ids of the features are {kind_and_example(nodes.values)}")
        check_count("nodes", nodes)
        numbered = f"the features have no ids, so that nodes are called 0 to {nodes - 1}"
        return cls(NodeIds(np.arange(nodes, dtype=np.int64), where="nodes"), numbered)

    @classmethod
    def listed(cls, nodes: NodeIds) -> Known:
        """Take the ids of an agreed list; what else a graph file names is left out."""
        return cls(nodes, f"the ids of the node list are {kind_and_example(nodes.values)}", only=True)

    @property
    def are_text(self) -> bool:
        """Whether the ids are strings."""
        return isinstance(self.ids.values, list)

    def rows(self, values: Names) -> IntArray:
        """Find the row of each of `values`, which are of the same kind; -1 says that there is none."""
        if isinstance(values, list):
            row = self._row
            return np.fromiter((row.get(value, -1) for value in values), np.int64, len(values))
        order, ordered = self._ordered
        at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
        return np.where(ordered[at] == values, order[at], -1)

    @cached_property
    def _row(self) -> dict[str, int]:
        return {value: row for row, value in enumerate(self.ids.values)}

    @cached_property
    def _ordered(self) -> tuple[IntArray, IntArray]:
        values = np.asarray(self.ids.values)
        order = np.argsort(values, kind="stable")
        return order, values[order]
