"""The graph that parties share, from a list of edges or from a matrix."""

from __future__ import annotations

from kcagc._types import Sparse
from kcagc.errors import ParameterError
from kcagc.files.adjacency import matrix_of
from kcagc.files.edges import edges_of
from kcagc.files.nodes import Known
from kcagc.files.opening import MATRICES, TABLES, InputFile, PathLike
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds


def read_graph(
    path: PathLike,
    *,
    party: str,
    nodes: NodeIds | int,
    source: str = "source",
    target: str = "target",
    weight: str | None = None,
    ids: PathLike | None = None,
) -> Graph:
    """Read the graph on `nodes` (the ids that the features have, or how many rows they have), in the order of these.

    A table (`.csv`, `.tsv`, `.parquet`) has a row for each edge; an edge may come in either direction or in both, as
    `Graph.from_edges` has it. A matrix (`.npz`, `.mtx`) has a row for each node, named by the one-column file `ids` or
    else called 0, 1, 2, ...
    """
    known = Known.of(nodes)
    adjacency, _ = read_adjacency(path, party=party, known=known, source=source, target=target, weight=weight, ids=ids)
    return Graph(adjacency, nodes if isinstance(nodes, NodeIds) else None)


def read_adjacency(
    path: PathLike, *, party: str, known: Known, source: str, target: str, weight: str | None, ids: PathLike | None
) -> tuple[Sparse, int]:
    """Read the edges between the nodes that are `known`, and count those that were left out."""
    file = InputFile.named(path, party, (*TABLES, *MATRICES))
    if file.kind in MATRICES:
        adjacency = matrix_of(file, known, ids)
    else:
        if ids is not None:
            raise ParameterError(f"ids: {path} is a list of edges, which name their nodes; ids are for a matrix")
        if source == target or weight in (source, target):
            raise ParameterError(f"source, target, weight: must be different columns, not {[source, target, weight]}")
        adjacency = edges_of(file, known, source, target, weight)
    return adjacency
