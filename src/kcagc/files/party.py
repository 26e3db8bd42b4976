"""Everything one party brings, in the one order that all parties share whatever the order of their files."""

from __future__ import annotations

from dataclasses import dataclass

from kcagc._types import Features
from kcagc.errors import ParameterError
from kcagc.files.features import read_raw
from kcagc.files.listed import matched
from kcagc.files.names import in_order, picked, read_id_list
from kcagc.files.nodes import Known
from kcagc.files.opening import KINDS, InputFile, PathLike
from kcagc.files.raw import RawTable
from kcagc.files.reading import Reading
from kcagc.files.shared_graph import read_adjacency
from kcagc.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class PartyFiles:
    """A party's checked graph and its table: row i of the table belongs to node i of the graph.

    Where only the nodes of a list were wanted, `listed` says how many there are, and the others what that changed.
    """

    graph: Graph
    table: RawTable
    listed: int | None = None
    rows_left_out: int = 0
    rows_filled_in: int = 0
    edges_left_out: int = 0

    @property
    def values(self) -> Features:
        """The columns of numbers."""
        return self.table.numbers

    @property
    def columns(self) -> list[str]:
        """What the columns are called."""
        return self.table.columns


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
    reading: Reading | None = None,
    node_list: PathLike | None = None,
) -> PartyFiles:
    """Read both files and sort nodes by id, numbers by size and strings by code point.

    Parties that read the same nodes and edges in different orders get the same graph. Without ids there is no order
    but that of the file, which then must be the same at all parties. With `node_list`, a file of ids, these nodes and
    no others are taken; one of them without a row gets a row of missing cells.
    """
    table = read_raw(features, party=party, id_column=id_column, ids=feature_ids, reading=reading)
    n_read, listed = table.n_rows, None
    if node_list is not None:
        if table.ids is None:
            raise ParameterError(
                f"node_list: {features} has no ids to look up in {node_list}; say which column holds them (id_column), "
                "or for a matrix which file (feature_ids)"
            )
        listed = read_id_list(node_list, party)
        known = Known.listed(picked(listed, in_order(listed)))
        rows = matched(table.ids, known, InputFile.named(feature_ids or features, party, KINDS))
        table = table.selected(rows, known.ids)
    else:
        if table.ids is not None:
            order = in_order(table.ids)
            table = table.selected(order, picked(table.ids, order))
        known = Known.of(table.n_rows if table.ids is None else table.ids)
    adjacency, edges = read_adjacency(
        graph, party=party, known=known, source=source, target=target, weight=weight, ids=graph_ids
    )
    filled = int((table.rows < 0).sum())
    return PartyFiles(
        Graph(adjacency, table.ids),
        table,
        listed=None if listed is None else len(listed),
        rows_left_out=n_read - (table.n_rows - filled),
        rows_filled_in=filled,
        edges_left_out=edges,
    )
