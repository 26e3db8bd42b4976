"""What one party knows about each node: distances to centres, edges by cluster, columns that fit its cluster."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kcagc._types import Features, Flags, FloatArray, IntArray, Sparse
from kcagc.cluster.local import CenterDistances, confidence_of
from kcagc.data.files import PRIVATE, write_bytes
from kcagc.errors import DataError
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds
from kcagc.report.insights.measures import ClusterTotals, add_shift, is_mostly_zero, spread_of

REASONS = 3  # columns kept for each node
OTHERS = 2  # clusters besides its own that most edges of a node lead to
NODES_FORMAT = "kcagc nodes 1"
_CELLS = 1 << 22  # of temporary arrays
_SIGN = 1e-6  # of a squared difference in standard deviations: less is a rounding error


@dataclass(frozen=True, eq=False)
class NodeInsights:
    """What a party knows about each of its nodes after a run; it is private, and no role receives it.

    Attributes
    ----------
    party : str
        The party whose columns these are.
    n_clusters : int
        k.
    ids : NodeIds or None
        The ids of the nodes; None calls them 0, 1, 2, ...
    cluster, other : ndarray of shape (n_nodes,)
        The cluster of each node, and the other cluster whose centre is nearest in the party's rows (-1: none).
    to_own, to_other : ndarray of shape (n_nodes,)
        Distances to the centres of these two clusters, in the party's rows.
    edges, inside : ndarray of shape (n_nodes,) or None
        Edges of each node to other nodes, and those to nodes of its cluster; None without the graph.
    to_clusters, to_counts : ndarray of shape (n_nodes, OTHERS)
        The other clusters that most edges lead to (-1: none), and how many.
    reasons, values : ndarray of shape (n_nodes, REASONS)
        Columns that fit the cluster of the node better than the other one (-1: none), and the node's values.
    columns, means : list of str and ndarray of shape (k, columns)
        Names of the columns that are reasons, and their mean in each cluster; for tables of mostly zeros the share of
        nodes with the column.
    mostly_zero : bool
        Whether `means` are shares.
    by_logarithm : ndarray of shape (columns,) or None
        Which of the columns have means of logarithms, converted back; None: no column.
    """

    party: str
    n_clusters: int
    ids: NodeIds | None
    cluster: IntArray
    other: IntArray
    to_own: FloatArray
    to_other: FloatArray
    edges: IntArray | None
    inside: IntArray | None
    to_clusters: IntArray
    to_counts: IntArray
    reasons: IntArray
    values: FloatArray
    columns: list[str]
    means: FloatArray
    mostly_zero: bool
    by_logarithm: Flags | None = None

    def __len__(self) -> int:
        return len(self.cluster)

    @property
    def confidence(self) -> FloatArray:
        """How clearly each node belongs to its cluster in the party's rows, from 0 to 1."""
        return confidence_of(CenterDistances(self.to_own**2, self.to_other**2, self.other))

    @property
    def sizes(self) -> list[int]:
        """The number of nodes in each cluster."""
        return [int(one) for one in np.bincount(self.cluster, minlength=self.n_clusters)]

    def id_of(self, row: int) -> str | int:
        """Return the id of a node."""
        if self.ids is None:
            return row
        value = self.ids.values[row]
        return value if isinstance(value, str) else int(value)

    def row_of(self, node: Any) -> int | None:
        """Return the row of an id; text stands for a number where the ids are numbers."""
        text, row = str(node), -1
        if self.ids is not None and self.ids.are_text:
            row = int(self.ids.find([text])[0])
        elif (text.isdecimal() or (text[:1] == "-" and text[1:].isdecimal())) and len(text) < 19:
            number = int(text)
            row = number if self.ids is None else int(self.ids.find(np.array([number], dtype=np.int64))[0])
        return row if 0 <= row < len(self) else None

    def typical(self, cluster: int, most: int) -> list[int]:
        """Return the rows nearest to the centre of a cluster; of equally near ones those with most edges inside."""
        rows = np.flatnonzero(self.cluster == cluster)
        inside = np.zeros(len(rows)) if self.inside is None else self.inside[rows]
        return [int(row) for row in rows[np.lexsort((-inside, np.round(self.to_own[rows], 6)))[:most]]]

    def borderline(self, cluster: int, most: int) -> list[int]:
        """Return the rows of a cluster for which the nearest other centre is about as near as its own."""
        rows = np.flatnonzero((self.cluster == cluster) & (self.other >= 0))
        both = self.to_own[rows] + self.to_other[rows]
        gap = np.abs(self.to_other[rows] - self.to_own[rows]) / np.where(both > 0, both, 1.0)
        return [int(row) for row in rows[np.argsort(gap, kind="stable")[:most]]]

    def save(self, path: Path) -> None:
        """Write everything to one file, readable by its owner only."""
        arrays: dict[str, NDArray[Any]] = {
            "format": np.array(NODES_FORMAT),
            "party": _bytes(self.party),
            "n_clusters": np.array(self.n_clusters),
            "mostly_zero": np.array(self.mostly_zero),
            "cluster": self.cluster.astype(np.int32),
            "other": self.other.astype(np.int32),
            "to_own": self.to_own.astype(np.float32),
            "to_other": self.to_other.astype(np.float32),
            "to_clusters": self.to_clusters.astype(np.int32),
            "to_counts": self.to_counts.astype(np.int32),
            "reasons": self.reasons.astype(np.int32),
            "values": self.values.astype(np.float32),
            "means": self.means.astype(np.float32),
            **_packed("columns", self.columns),
        }
        if self.by_logarithm is not None:
            arrays["by_logarithm"] = self.by_logarithm
        if self.edges is not None and self.inside is not None:
            arrays |= {"edges": self.edges.astype(np.int32), "inside": self.inside.astype(np.int32)}
        if self.ids is not None:
            values = self.ids.values
            arrays |= _packed("ids", values) if isinstance(values, list) else {"ids": values}
        target = io.BytesIO()
        np.savez(target, **arrays)  # type: ignore[arg-type]
        write_bytes(path, target.getvalue(), mode=PRIVATE)

    @classmethod
    def load(cls, path: Path) -> NodeInsights:
        """Read what `save` wrote."""
        try:
            # From memory: numpy leaves the file open if it is damaged.
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as found:
                if str(found["format"]) != NODES_FORMAT:
                    raise DataError(
                        f"{path}: has the format {str(found['format'])!r}, but this version of kcagc reads "
                        f"{NODES_FORMAT!r}. Use the version that wrote it"
                    )
                return cls._read(found)
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise DataError(
                f"{path}: cannot be read ({error}). The file is written at the end of a run with a report; restore it "
                "from a copy, or start a new session"
            ) from error

    @classmethod
    def _read(cls, found: Any) -> NodeInsights:
        ids: NodeIds | None = None
        if "ids.text" in found:
            ids = NodeIds(_unpacked(found, "ids"), where="nodes")
        elif "ids" in found:
            ids = NodeIds(found["ids"], where="nodes")
        wide = {name: found[name].astype(np.int64) for name in ("cluster", "other", "to_clusters", "to_counts")}
        real = {name: found[name].astype(np.float64) for name in ("to_own", "to_other", "values", "means")}
        n = len(wide["cluster"])
        if any(len(one) != n for name, one in {**wide, **real}.items() if name != "means"):
            raise ValueError("its arrays have different lengths")
        edges, inside = (found[name].astype(np.int64) if name in found else None for name in ("edges", "inside"))
        return cls(
            party=found["party"].tobytes().decode(),
            n_clusters=int(found["n_clusters"]),
            ids=ids,
            edges=edges,
            inside=inside,
            reasons=found["reasons"].astype(np.int64),
            columns=_unpacked(found, "columns"),
            mostly_zero=bool(found["mostly_zero"]),
            by_logarithm=found["by_logarithm"].astype(bool) if "by_logarithm" in found else None,
            **wide,
            **real,
        )


def _bytes(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _packed(name: str, texts: list[str]) -> dict[str, NDArray[Any]]:
    """Return texts as two plain arrays: all bytes, and the length of each text."""
    each = [text.encode() for text in texts]
    lengths = np.fromiter(map(len, each), dtype=np.int64, count=len(each))
    return {f"{name}.text": np.frombuffer(b"".join(each), dtype=np.uint8), f"{name}.lengths": lengths}


def _unpacked(found: Any, name: str) -> list[str]:
    whole, ends = found[f"{name}.text"].tobytes(), np.cumsum(found[f"{name}.lengths"]).tolist()
    return [whole[start:end].decode() for start, end in zip([0, *ends[:-1]], ends, strict=True)]


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Edges of each node: all, those inside its cluster, and the other clusters that most of them lead to."""

    edges: IntArray
    inside: IntArray
    to_clusters: IntArray
    to_counts: IntArray


def neighbours_of(graph: Graph, labels: IntArray, n_clusters: int) -> Neighbours:
    """Count the edges of each node to other nodes by cluster; weights and self loops do not count."""
    n = len(labels)
    pattern: Sparse = graph.adjacency
    edges = np.zeros(n, dtype=np.int64)
    inside = np.zeros(n, dtype=np.int64)
    to_clusters = np.full((n, OTHERS), -1, dtype=np.int64)
    to_counts = np.zeros((n, OTHERS), dtype=np.int64)
    for block in _row_blocks(n, n_clusters):
        first, last = int(pattern.indptr[block.start]), int(pattern.indptr[block.stop])
        ends = pattern.indices[first:last]
        own = np.repeat(np.arange(block.start, block.stop), np.diff(pattern.indptr[block.start : block.stop + 1]))
        other = ends != own
        cell = (own[other] - block.start) * n_clusters + labels[ends[other]]
        size = block.stop - block.start
        counts = np.bincount(cell, minlength=size * n_clusters).reshape(size, n_clusters)
        edges[block] = counts.sum(axis=1)
        each = np.arange(size)
        inside[block] = counts[each, labels[block]]
        counts[each, labels[block]] = 0
        for place in range(min(OTHERS, n_clusters)):
            most = counts.argmax(axis=1)
            found = counts[each, most]
            to_clusters[block, place] = np.where(found > 0, most, -1)
            to_counts[block, place] = found
            counts[each, most] = 0
    return Neighbours(edges, inside, to_clusters, to_counts)


def _row_blocks(n: int, width: int) -> Iterator[slice]:
    step = max(1, _CELLS // max(width, 1))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def reasons_of(
    table: Features, labels: IntArray, other: IntArray, totals: ClusterTotals
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return for each node the columns that fit its cluster better than the other one, its values, and all means.

    For a dense table, a column fits better if the node's value is nearer to the mean of its own cluster; the difference
    of the squared distances, in standard deviations, ranks the columns. For tables of mostly zeros, only columns that
    the node has count, and the difference of the shares of nodes with the column ranks them. Without another cluster,
    all other nodes take its place.
    """
    n, width = table.shape
    counts = totals.counts[:, None]
    everywhere = totals.counts.sum()
    shares = is_mostly_zero(totals)
    whole = totals.present if shares else totals.sums
    inside = whole / np.maximum(counts, 1)
    outside = (whole.sum(axis=0) - whole) / np.maximum(everywhere - counts, 1)
    scale = spread_of(totals)
    columns = np.full((n, REASONS), -1, dtype=np.int64)
    values = np.zeros((n, REASONS))
    rows: Features = table.tocsr() if sparse.issparse(table) else np.asarray(table)
    for block in _row_blocks(n, min(width, 64) if sparse.issparse(table) else width):
        own, away, part = labels[block], other[block], rows[block]
        if shares:
            cells = sparse.csr_array(part)
            cells.eliminate_zeros()
            _present_reasons(cells, own, away, inside, outside, columns[block], values[block])
            continue
        dense = part.toarray() if sparse.issparse(part) else part.astype(float)
        against = np.where((away >= 0)[:, None], inside[away], outside[own]) if len(inside) else dense
        centred = dense - totals.shift
        score = ((centred - against) ** 2 - (centred - inside[own]) ** 2) / scale**2
        _best(score, dense, columns[block], values[block])
    return columns, values, inside if shares else add_shift(inside, totals.shift)


def _best(score: FloatArray, cells: FloatArray, columns: IntArray, values: FloatArray) -> None:
    """Fill in the columns of the highest positive scores of each row, the highest first."""
    most = min(REASONS, score.shape[1])
    if score.shape[1] > 4 * REASONS:
        order = np.argpartition(-score, most - 1, axis=1)[:, :most]
        order = np.take_along_axis(order, np.argsort(-np.take_along_axis(score, order, axis=1), axis=1), axis=1)
    else:
        order = np.argsort(-score, axis=1, kind="stable")[:, :most]
    good = np.take_along_axis(score, order, axis=1) > _SIGN
    columns[:, :most] = np.where(good, order, -1)
    values[:, :most] = np.where(good, np.take_along_axis(cells, order, axis=1), 0.0)


def _present_reasons(
    cells: Sparse,
    own: IntArray,
    away: IntArray,
    inside: FloatArray,
    outside: FloatArray,
    columns: IntArray,
    values: FloatArray,
) -> None:
    row = np.repeat(np.arange(cells.shape[0]), np.diff(cells.indptr))
    column = cells.indices
    here = inside[own[row], column]
    there = np.where(away[row] >= 0, inside[away[row], column], outside[own[row], column])
    score = here - there
    order = np.lexsort((column, -score, row))
    # The place of each cell within its row, in falling order of the score.
    place = np.arange(len(order)) - np.repeat(cells.indptr[:-1], np.diff(cells.indptr))
    kept = (place < REASONS) & (score[order] > _SIGN)
    columns[row[order][kept], place[kept]] = column[order][kept]
    values[row[order][kept], place[kept]] = cells.data[order][kept]
