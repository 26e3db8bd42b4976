"""How the graph joins clusters: of all link ends in a cluster, what share leads to which other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kcagc._types import FloatArray, IntArray
from kcagc.graph.graph import Graph
from kcagc.graph.ids import membership


@dataclass(frozen=True, eq=False)
class Links:
    """Weight of links between clusters (k × k): row r, column s adds up the links that lead from r to s.

    A link inside a cluster has both ends there and counts twice, so that a row's total is that of its nodes' degrees.
    """

    weights: FloatArray

    @property
    def shares(self) -> list[list[float | None]]:
        """Each row divided by its total; a cluster without links has None."""
        totals = self.weights.sum(axis=1)
        return [
            [float(value / total) if total else None for value in row]
            for row, total in zip(self.weights, totals, strict=True)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Give all of it, for JSON."""
        return {"weights": self.weights.tolist(), "shares": self.shares}


def links_between(graph: Graph, labels: IntArray, n_clusters: int) -> Links:
    """Add up the links between clusters: one sparse product."""
    members = membership(labels, n_clusters)
    return Links((members.T @ (graph.adjacency @ members)).toarray())
