"""Interop: tables and graphs of pandas, polars, NumPy, SciPy, networkx, PyTorch and PyTorch Geometric.

Objects of other libraries are recognised by their attributes. This module imports none of these libraries but NumPy and
SciPy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kcagc._types import FloatArray, IntArray
from kcagc.data.csv_format import read_number, separator_advice
from kcagc.data.edge_lists import EdgeList
from kcagc.data.problems import MOSTLY_NUMBERS, WORDS, Origin, Problems
from kcagc.data.table import ColumnType, Schema, Table, Texts, Wanted, blank_out, select_columns, take_rows
from kcagc.errors import DataError
from kcagc.graph.graph import AttributedGraph, Graph, as_graph
from kcagc.graph.ids import NodeIds
from kcagc.text import quoted

_NOT_AVAILABLE = ("NAType", "NaTType")  # the types of missing values in pandas, which is not imported here
_LISTED = 20  # columns that an error lists


def is_frame(given: Any) -> bool:
    """Return whether an object is a table with named columns, as those of pandas and polars are."""
    return all(hasattr(given, name) for name in ("columns", "dtypes", "shape", "__getitem__"))


def is_pandas(frame: Any) -> bool:
    """Return whether a frame has an index, as those of pandas do."""
    return hasattr(frame, "index") and hasattr(frame, "iloc")


def library_of(table: Any) -> str:
    """Return "pandas" or "polars" for a frame of one of them, and nothing for other tables."""
    root = type(table).__module__.partition(".")[0]
    return root if is_frame(table) and root in ("pandas", "polars") else ""


def is_networkx(given: Any) -> bool:
    """Return whether an object is a graph of networkx."""
    return all(callable(getattr(given, name, None)) for name in ("nodes", "edges", "is_directed", "is_multigraph"))


def is_geometric(given: Any) -> bool:
    """Return whether an object is a graph of PyTorch Geometric."""
    return not isinstance(given, Graph) and hasattr(given, "edge_index") and hasattr(given, "num_nodes")


def from_tensor(value: Any, where: str) -> Any:
    """Return a tensor of PyTorch, on any device, as an array, and any other object unchanged."""
    if not all(hasattr(value, name) for name in ("detach", "cpu", "numpy")):
        return value
    try:
        return value.detach().cpu().numpy()
    except (TypeError, RuntimeError) as error:  # a sparse layout, or a type that NumPy does not have
        raise DataError(f"{where}: this tensor cannot become an array ({error}); make it dense first") from error


def frame_ids(frame: Any, id_column: str | None, where: str) -> NodeIds | None:
    """Return the ids of the rows: the column `id_column`, or a pandas index other than 0, 1, 2, ..."""
    if id_column is not None:
        if id_column not in list(frame.columns):
            listed = ", ".join(map(repr, list(frame.columns)[:_LISTED]))
            raise DataError(f"{where}: there is no column {id_column!r} to name the nodes; there are {listed}")
        return NodeIds.of(frame[id_column].to_numpy(), where=f"{where}: column {id_column!r}")
    if not is_pandas(frame):
        return None
    index = np.asarray(frame.index)
    if np.array_equal(index, np.arange(len(index))):
        return None
    try:
        return NodeIds.of(index, where=f"{where}: index")
    except DataError as error:
        raise DataError(f"{error} (frame.reset_index(drop=True) drops an index that names no nodes)") from error


def in_order_of(given: Any, ids: NodeIds | None, n: int, where: str) -> Any:
    """Return one value for each of n nodes: by its id, if a pandas index names the nodes, and otherwise as given.

    Without ids, an index that holds just the row numbers, in another order, names the nodes.
    """
    if is_frame(given):
        if given.shape[1] != 1:
            raise DataError(f"{where}: has {given.shape[1]} columns; give one, for example table['class']")
        given = given[next(iter(given.columns))]
    index = frame_ids(given, None, where) if is_pandas(given) else None
    if index is None or (ids is None and set(index.tolist()) != set(range(n))):
        return given
    rows = (ids or NodeIds.numbered(n)).alignment(index, where=f"{where}: index", whose="the model's", extra=True)
    return given.iloc[rows]


def without_column(frame: Any, column: str | None) -> Any:
    """Return a frame without a column."""
    if column is None:
        return frame
    return frame.drop(columns=[column]) if is_pandas(frame) else frame.drop(column)


def rows_of(content: Any, rows: IntArray) -> Any:
    """Return rows of a frame, an array or a CSR matrix; row number -1 gives a row whose cells are all missing."""
    if not is_frame(content):
        return take_rows(content, rows)
    absent = rows < 0
    if not is_pandas(content):
        source = content.vstack(content.clear(n=1)) if absent.any() else content
        return source[np.where(absent, len(content), rows)]
    taken = content.iloc[np.maximum(rows, 0)].reset_index(drop=True)
    return taken.mask(np.repeat(absent[:, None], taken.shape[1], axis=1)) if absent.any() else taken


def table_of(content: Any, schema: Schema, origin: Origin) -> Table:
    """Read a frame, an array or a sparse matrix as a file is read; columns of an array are called "0", "1", ..."""
    framed = is_frame(content)
    names = [str(name) for name in (content.columns if framed else range(content.shape[1]))]
    columns = select_columns(names, Wanted(schema=schema), origin)
    if columns.texts and sparse.issparse(content):
        raise origin.fail(f"column {columns.texts[0]!r} cannot be categorical: a sparse matrix holds numbers only")
    texts: dict[str, Texts] = {}
    problems = Problems()
    if not framed and not columns.texts and content.dtype.kind in "biuf":
        block = (sparse.csr_array(content) if sparse.issparse(content) else content).astype(np.float64, copy=False)
        if len(columns.numbers) < len(names):
            block = block[:, [int(name) for name in columns.numbers]]
        if any(one.blank for one in columns.types.values()):
            block = blank_out(block.copy(), columns.numbers, columns.types)
    else:
        if len(set(names)) < len(names):
            raise origin.fail("two columns have the same name; rename one")
        keys = content.columns if framed else range(len(names))
        given = {name: content[key] if framed else content[:, key] for name, key in zip(names, keys, strict=True)}
        block = np.empty((len(content), len(columns.numbers)))
        for place, name in enumerate(columns.numbers):
            block[:, place] = _numbers(given[name], name, columns.type(name), problems)
        blank_out(block, columns.numbers, columns.types)
        for name in columns.texts:
            blank = columns.type(name).blank_texts
            levels = [_text(value) for value in _array(given[name])]
            texts[name] = [None if text is None or text.strip() in blank else text for text in levels]
    found = Table(origin, columns.numbers, block, texts, ids=origin.ids, problems=problems)
    return found.checked(schema.types(found.columns))


def typed_columns(content: Any) -> dict[str, tuple[str, Any]]:
    """Return the columns of a frame or an array, with how each is stored: "numbers", "text", "times" or "other"."""
    framed = is_frame(content)
    given = content if framed else np.asarray(content)
    keys = list(content.columns) if framed else range(given.shape[1])
    return {str(key): _typed(given[key] if framed else given[:, key]) for key in keys}


def _typed(column: Any) -> tuple[str, Any]:
    values = _array(column)
    if values.dtype.kind in "biuf":
        return "numbers", values.astype(np.float64)
    if values.dtype.kind in "mM":
        return "times", [None if np.isnat(value) else value for value in values]
    listed = values.tolist()
    if all(_number(value) is not None for value in listed):
        return "numbers", np.array([_number(value) for value in listed], dtype=np.float64)
    return "text", [_text(value) for value in listed]


def _array(column: Any) -> NDArray[Any]:
    return np.asarray(column if isinstance(column, np.ndarray) else column.to_numpy())


def _numbers(column: Any, name: str, kind: ColumnType, problems: Problems) -> FloatArray:
    values = _array(column)
    if values.dtype.kind in "mM":
        advice = "convert them to numbers, or remove the column"
        problems.add("type", "columns of another type", name, "", "the column holds times", advice=advice)
        return np.zeros(len(values))
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    found = np.zeros(len(values))
    n_words = n_numbers = 0
    for row, value in enumerate(values.tolist()):
        number = _number(value)
        if number is None and (kind.unreadable or str(value).strip() in kind.blank_texts):
            number = math.nan
        if number is None:
            n_words += 1
            first = f"{quoted(value)} is of type {type(value).__name__}, not a number"
            advice = separator_advice(str(value), in_file=False) or WORDS
            if read_number(str(value)) is not None:
                advice = "convert the column to numbers"
            problems.add("word", "cells that are not numbers", name, row, first, advice=advice, value=str(value))
        else:
            found[row] = number
            n_numbers += not math.isnan(number)
    if 0 < n_words < n_numbers:
        problem = problems.known("word", name)
        if problem is not None and problem.advice == WORDS:
            problem.advice = MOSTLY_NUMBERS
    return found


def _number(value: Any) -> float | None:
    if _is_missing(value):
        return math.nan
    return float(value) if isinstance(value, Real) else None


def _text(value: Any) -> str | None:
    """Return a level as text; a whole number is the same text if a gap has made the column fractions."""
    if isinstance(value, np.generic):
        value = value.item()
    if _is_missing(value):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value)
    return None if not text or text.isspace() else text


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in _NOT_AVAILABLE


def graph_of(given: Any, where: str = "adjacency") -> Graph | EdgeList:
    """Return the graph that an argument stands for; a list of edges becomes a graph once the nodes are known.

    A graph is a matrix, a graph of networkx or PyTorch Geometric, a `Graph` or an `AttributedGraph`. A frame whose
    index equals its columns is a matrix that names its nodes.
    """
    if isinstance(given, Graph | EdgeList):
        return given
    if isinstance(given, AttributedGraph):
        return given.graph
    for recognised, convert in _CONVERTERS:
        if recognised(given):
            return convert(given, where)
    if isinstance(given, str | PurePath):
        raise DataError(f"{where}: must be a graph, not the name of a file; read {str(given)!r} first, as a frame")
    pairs = EdgeList.of_pairs(given, where)
    if pairs is not None:
        return pairs
    array = np.asarray(given) if is_nested_list(given) else from_tensor(given, where)
    return EdgeList.of_array(array, where) or as_graph(array)


def is_nested_list(given: Any) -> bool:
    """Return whether an object is a list of rows of equal length, such as [[0, 1], [1, 0]] or [("ann", "bob")]."""
    if not isinstance(given, list | tuple) or not given:
        return False
    rows = all(isinstance(row, list | tuple) and row for row in given)
    return rows and len({len(row) for row in given}) == 1 and not any(_is_nested(cell) for row in given for cell in row)


def _is_nested(cell: Any) -> bool:
    return not isinstance(cell, str | Real | np.generic)


def _from_frame(frame: Any, where: str) -> Graph | EdgeList:
    """Convert a list of edges, or a square frame of weights; its index names the nodes if it equals the columns."""
    edges = EdgeList.of_frame(frame, where)
    if edges is not None:
        return edges
    named = is_pandas(frame) and list(frame.index) == list(frame.columns)
    ids = frame_ids(frame, None, where) if named else None
    return Graph(Graph.from_matrix(frame.to_numpy()).adjacency, ids)


def _from_networkx(given: Any, where: str) -> Graph:
    """Convert a graph: nodes keep their names; the names 0, 1, ..., n-1 in any order are row numbers.

    Edges have the weight `weight`, 1 without one. Weights of parallel edges are added, as networkx does.
    """
    names = list(given.nodes())
    if not names:
        raise DataError(f"{where}: the graph has no nodes")
    try:
        ids = NodeIds.of(names, where=f"{where}: nodes")
    except DataError as error:
        raise DataError(f"{error} (networkx.convert_node_labels_to_integers numbers the nodes)") from error
    numbered = not ids.are_text and set(ids.tolist()) == set(range(len(names)))
    if numbered:
        ids = NodeIds.numbered(len(names))
    edges = [(one, two, 1 if weight is None else weight) for one, two, weight in given.edges(data="weight")]
    source, target = (ids.positions([edge[end] for edge in edges], where=where) for end in (0, 1))
    weights = _weights([edge[2] for edge in edges], where)
    called = None if numbered else ids
    if not given.is_directed():
        joined = Graph.from_edges(source, target, weights, n_nodes=len(names), repeats="sum")
        return Graph(joined.adjacency, called)
    matrix = sparse.coo_array((weights, (source, target)), shape=(len(names), len(names)))
    try:
        return Graph(Graph.from_matrix(matrix.tocsr()).adjacency, called)
    except DataError as error:
        raise DataError(f"{error}. The graph is directed; graph.to_undirected() makes it undirected") from error


def _from_geometric(given: Any, where: str) -> Graph:
    """Convert a graph whose edges are listed in one direction or both, with weights in `edge_weight` or `edge_attr`."""
    ends = np.asarray(from_tensor(given.edge_index, f"{where}: edge_index"))
    if ends.ndim != 2 or ends.shape[0] != 2 or ends.dtype.kind not in "iu":
        raise DataError(
            f"{where}: edge_index: must be whole numbers of shape (2, edges), not {ends.dtype} {ends.shape}"
        )
    weights = None
    for name in ("edge_weight", "edge_attr"):
        found = getattr(given, name, None)
        if found is not None:
            values = np.asarray(from_tensor(found, f"{where}: {name}"))
            if values.size != ends.shape[1]:
                raise DataError(f"{where}: {name}: has shape {values.shape}; one weight for each edge is needed")
            weights = _weights(values.ravel(), where)
            break
    return Graph.from_edges(ends[0], ends[1], weights, n_nodes=int(given.num_nodes))


_CONVERTERS = ((is_networkx, _from_networkx), (is_geometric, _from_geometric), (is_frame, _from_frame))


def _weights(values: Iterable[Any], where: str) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: a weight is not a number ({error})") from error
