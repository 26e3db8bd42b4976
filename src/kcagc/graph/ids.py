"""Checks of what users pass in: node ids (the names of nodes, and the row of each) and matrices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from kcagc._types import FloatArray, IntArray, Labels, Sparse
from kcagc.errors import DataError
from kcagc.text import listed, quoted

_LISTED = 3
_LARGEST = np.iinfo(np.int64).max


class NodeIds:
    """Distinct node ids in row order, either all integers or all strings.

    Attributes
    ----------
    values : ndarray of shape (n_nodes,) or list of str
        The ids; integers are an int64 array, strings a list.
    """

    def __init__(self, values: IntArray | list[str], *, where: str) -> None:
        """Store ids of one type, as `one_kind` returns them; error messages begin with `where`."""
        self.values = values
        if isinstance(values, list):
            # A dictionary: every entry of a string array would take the space of the longest string.
            self._row: dict[str, int] = {}
            for row, value in enumerate(values):
                first = self._row.setdefault(value, row)
                if first != row:
                    raise _repeated(value, first, row, where)
        else:
            self._order = np.argsort(values, kind="stable")
            self._sorted = values[self._order]
            repeated = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
            if repeated.size:  # a stable sort keeps the earlier row first
                first, second = self._order[repeated[0]], self._order[repeated[0] + 1]
                raise _repeated(values[first], first, second, where)

    @classmethod
    def of(cls, values: Iterable[Any], *, where: str) -> NodeIds:
        """Build node ids from any iterable; raise `DataError` for repeated, missing or mixed ids."""
        return cls(one_kind(values, where), where=where)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def kind(self) -> str:
        """The type of the ids in words: "numbers" or "strings"."""
        return _kind(self.values)

    @classmethod
    def numbered(cls, n: int) -> NodeIds:
        """Return the ids 0, 1, ..., n-1 of nodes without names."""
        return cls(np.arange(n, dtype=np.int64), where="nodes")

    @property
    def are_text(self) -> bool:
        """Whether the ids are strings."""
        return isinstance(self.values, list)

    def tolist(self) -> list[Any]:
        """Return the ids as Python strings or integers."""
        return self.values if isinstance(self.values, list) else self.values.tolist()

    def take(self, rows: IntArray) -> NodeIds:
        """Return the ids of some rows, in the order of `rows`."""
        values = self.values
        return NodeIds([values[row] for row in rows] if isinstance(values, list) else values[rows], where="ids")

    def sorted_rows(self) -> IntArray:
        """Return the rows in the order that all parties share: numbers by size, strings by code point."""
        if isinstance(self.values, list):
            return np.array(sorted(range(len(self)), key=self.values.__getitem__), dtype=np.int64)
        return self._order

    def find(self, values: IntArray | list[str]) -> IntArray:
        """Return the row of each of `values`, which are of the same kind as these ids; -1 where there is none."""
        if isinstance(values, list):
            return np.fromiter((self._row.get(value, -1) for value in values), np.int64, len(values))
        if len(self) == 0 or len(values) == 0:
            return np.full(len(values), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self._sorted, values), len(self) - 1)
        return np.where(self._sorted[at] == values, self._order[at], -1)

    def positions(self, values: Iterable[Any], *, where: str) -> IntArray:
        """Return the row of each of `values`; an unknown id is an error that names the id and its row."""
        wanted = one_kind(values, where)
        self._check_kind(wanted, where)
        found = self.find(wanted)
        unknown = np.flatnonzero(found < 0)
        if unknown.size:
            named = [f"{quoted(wanted[row])} in row {row}" for row in unknown]
            raise DataError(f"{where}: no node has the id {listed(named, at_most=_LISTED)}")
        return found

    def alignment(
        self,
        values: Iterable[Any] | NodeIds,
        *,
        where: str,
        whose: str = "the graph's",
        missing: bool = False,
        extra: bool = False,
    ) -> IntArray:
        """Return, for each of these ids, the row of a table whose rows are named `values`.

        Both must hold the same ids. With `missing`, an id without a row gets -1; with `extra`, rows of other ids are
        left out.
        """
        rows = values if isinstance(values, NodeIds) else NodeIds.of(values, where=where)
        self._check_kind(rows.values, where, whose)
        found, known = rows.find(self.values), self.find(rows.values)
        absent = [] if missing else [self.values[row] for row in np.flatnonzero(found < 0)]
        unknown = [] if extra else [rows.values[row] for row in np.flatnonzero(known < 0)]
        problems = [
            f"{len(ids)} {what} ({listed([quoted(one) for one in sorted(ids)], at_most=_LISTED)})"
            for ids, what in ((absent, f"of {whose} ids are missing"), (unknown, f"are not among {whose} ids"))
            if ids
        ]
        if problems:
            raise DataError(f"{where}: ids do not match {whose}: {'; '.join(problems)}")
        return found

    def _check_kind(self, values: IntArray | list[str], where: str, whose: str = "the graph's") -> None:
        if len(values) and len(self) and _kind(values) != self.kind:
            raise DataError(
                f"{where}: ids here are {_kind(values)} (such as {quoted(values[0])}), but {whose} ids are "
                f"{self.kind} (such as {quoted(self.values[0])}); write them the same way in both"
            )


def one_kind(values: Iterable[Any], where: str) -> IntArray | list[str]:
    """Return ids as int64 or strings; raise `DataError` for missing ids, fractions and mixtures."""
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise DataError(f"{where}: ids must be one column, but have shape {values.shape}")
        masked = np.flatnonzero(np.ma.getmaskarray(values))
        if masked.size:
            raise DataError(f"{where}: row {masked[0]} has no id")
        if values.dtype.kind == "i" or (values.dtype.kind == "u" and not (values > _LARGEST).any()):
            return np.asarray(values).astype(np.int64)
    ids: Sequence[Any] = values.tolist() if isinstance(values, np.ndarray) else list(values)
    kinds = [_kind_of(value) for value in ids]
    for row, kind in enumerate(kinds):
        if kind is None:
            raise DataError(
                f"{where}: row {row} has no usable id ({ids[row]!r}); ids are strings or whole numbers below 2^63"
            )
        if kind is not kinds[0]:
            raise DataError(
                f"{where}: row {row} is {quoted(ids[row])} and row 0 is {quoted(ids[0])}; "
                "ids must be all numbers or all strings"
            )
    return [str(value) for value in ids] if str in kinds else np.array([int(value) for value in ids], dtype=np.int64)


def _kind_of(value: Any) -> type | None:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int if abs(int(value)) <= _LARGEST else None
    return str if isinstance(value, str) and value else None


def _kind(values: NDArray[Any] | list[str]) -> str:
    return "strings" if isinstance(values, list) else "numbers"


def _repeated(value: Any, first: int, second: int, where: str) -> DataError:
    return DataError(f"{where}: id {quoted(value)} appears twice, in rows {first} and {second}")


def first_rows(values: NDArray[Any]) -> IntArray:
    """Return for each row the first row with the same value."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return first[inverse]


def numbers(given: Sparse | ArrayLike, where: str) -> Any:
    """Return a two-dimensional array or sparse matrix of real numbers; raise `DataError` for anything else."""
    if sparse.issparse(given):
        matrix: Any = given
        if hasattr(matrix, "check_format"):
            try:  # SciPy does not check its indices, and a wrong one would read foreign memory
                matrix.check_format(full_check=True)
            except ValueError as error:
                raise DataError(f"{where}: the sparse matrix is damaged ({error})") from error
    else:
        if isinstance(given, np.ma.MaskedArray) and np.ma.getmaskarray(given).any():
            raise DataError(f"{where}: some values are masked; fill them in or remove their rows")
        try:
            matrix = np.asarray(given)
        except ValueError as error:
            raise DataError(f"{where}: not a matrix ({error})") from error
    if matrix.dtype.kind not in "biuf":
        raise DataError(f"{where}: values must be real numbers, but their type is {matrix.dtype}")
    if matrix.ndim != 2:
        raise DataError(f"{where}: must have two dimensions, but has {matrix.ndim}")
    return matrix


def float_type(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """Return float32 for float32, and float64 for every other type."""
    return np.float32 if dtype == np.float32 else np.float64


def canonical_csr(matrix: Any) -> Sparse:
    """Return a CSR array of floats with sorted indices and repeated entries added up.

    The caller's matrix is not changed; a matrix already in this form is not copied.
    """
    # Convert to floats first: sums of repeated entries of a small integer type would wrap around.
    result = sparse.csr_array(matrix.astype(float_type(matrix.dtype), copy=False))
    if not result.has_canonical_format:
        result = result.copy()
        result.sum_duplicates()
    return result


def entry_at(matrix: Any, place: int) -> tuple[int, int]:
    """Return row and column of entry number `place` of a CSR matrix or of a flattened dense one."""
    if sparse.issparse(matrix):
        return int(np.searchsorted(matrix.indptr, place, side="right")) - 1, int(matrix.indices[place])
    return divmod(place, int(matrix.shape[1]))


def membership(labels: Labels, n_clusters: int, weights: FloatArray | None = None) -> Sparse:
    """Return the n × k matrix with the weight of row i (default 1) in the column of its cluster.

    Its transpose times a table adds the rows of each cluster in row order, for any number of threads.
    """
    n = len(labels)
    return sparse.csr_array(
        (np.ones(n) if weights is None else weights, labels, np.arange(n + 1)), shape=(n, n_clusters)
    )
