"""Everything one party brings, in the one order that all parties share whatever the order of their files."""

from __future__ import annotations

from dataclasses import dataclass

from kcagc._types import Features
from kcagc.files.features import read_features
from kcagc.files.names import in_order, picked
from kcagc.files.opening import PathLike
from kcagc.files.shared_graph import read_graph
from kcagc.graph.structure import Graph


@dataclass(frozen=True, eq=False)
class PartyFiles:
    """A party's checked graph and features: row i of `values` belongs to node i of `graph`."""

    graph: Graph
    values: Features
    columns: list[str]


def read_party(
    features: PathLike,
    graph: PathLike,
    *,
    party: str,
    id_column: str | None = None,
    feature_ids: PathLike | None = None,
    source: str = "source",
    target: str = "target",
    weight: str | None = None,
    graph_ids: PathLike | None = None,
) -> PartyFiles:
    """Read both files and sort nodes by id, numbers by size and strings by code point.

    Parties that read the same nodes and edges in different orders get the same graph. Without ids there is no order
    but that of the file, which then must be the same at all parties.
    """
    table = read_features(features, party=party, id_column=id_column, ids=feature_ids)
    values, ids = table.values, table.ids
    if ids is not None:
        order = in_order(ids)
        values, ids = values[order], picked(ids, order)
    nodes = values.shape[0] if ids is None else ids
    shared = read_graph(graph, party=party, nodes=nodes, source=source, target=target, weight=weight, ids=graph_ids)
    return PartyFiles(shared, values, table.columns)
