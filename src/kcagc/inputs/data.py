"""All parties' tables on the graph, matched, made into numbers and checked: what a run in one process starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kcagc.errors import DataError
from kcagc.graph.filters import Filter
from kcagc.graph.graph import Graph
from kcagc.inputs.given import Given
from kcagc.inputs.matching import Nodes, matched
from kcagc.inputs.preparing import prepared, transformers_for
from kcagc.protocol.local import PartyData


@dataclass(frozen=True, eq=False)
class Brought:
    """What all parties bring, by name; row i is the same node everywhere."""

    data: dict[str, PartyData]
    transformers: dict[str, Any]
    columns: dict[str, list[str]]
    n_features: int

    @property
    def graph(self) -> Graph:
        """The graph of the first party, whose nodes are those of all."""
        return next(iter(self.data.values())).graph


def bring(
    names: Sequence[str],
    graphs: Sequence[Graph],
    X: Sequence[Any],
    filter_: Filter,
    *,
    id_column: str | None = None,
    nodes: Nodes = "all",
    transformers: Any = None,
    fitted: dict[str, Any] | None = None,
) -> Brought:
    """Match tables and graphs, and make numbers of the tables; `fitted` are the transformers of a fit, to be used."""
    made = transformers_for(transformers, names) if fitted is None else fitted
    tables = [Given.of(name, table, id_column) for name, table in zip(names, X, strict=True)]
    ordered, aligned = matched(graphs, tables, nodes)
    data: dict[str, PartyData] = {}
    columns: dict[str, list[str]] = {}
    for name, graph, table in zip(names, ordered, aligned, strict=True):
        values, columns[name] = prepared(table, made.get(name), fit=fitted is None)
        data[name] = PartyData.build(name, graph, values, filter_)
    given = sum(_width(table.content) for table in tables)
    return Brought(data, made, columns, given)


def _width(content: Any) -> int:
    shape: tuple[int, ...] = getattr(content, "shape", ())
    if len(shape) != 2:
        raise DataError(f"X: a table must have two dimensions, but has {len(shape)}")
    return int(shape[1])
