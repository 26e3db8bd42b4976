"""A party's table as it was read, with gaps and text in it, before its rules have made numbers of everything."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from kcagc._types import Features, IntArray
from kcagc.errors import DataError
from kcagc.files.table import Texts
from kcagc.graph.ids import NodeIds


class Source(Protocol):
    """Where a table came from, for messages that name the place."""

    def error(self, row: int, column: str, message: str) -> DataError:
        """Give the error that says `message` about one cell."""

    def lacking(self, node: Any, column: str, message: str) -> DataError:
        """Give the error that says `message` about a column of a node that has no row."""


@dataclass(frozen=True, eq=False)
class RawTable:
    """Columns in the order of the source: `numbers` (dense or CSR, NaN where missing) and `texts` (None where missing).

    `rows` says which row of the source each row was; -1 stands for a node that the source lacks, all of whose cells
    are missing. `ids` names the rows.
    """

    columns: list[str]
    number_columns: list[str]
    numbers: Features
    texts: dict[str, Texts]
    rows: IntArray
    ids: NodeIds | None
    source: Source

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    def error(self, row: int, column: str, message: str) -> DataError:
        """Give the error that says `message` about one cell, by its place in the source."""
        if self.rows[row] >= 0:
            return self.source.error(int(self.rows[row]), column, message)
        return self.source.lacking(row if self.ids is None else self.ids.values[row], column, message)

    def selected(self, rows: IntArray, ids: NodeIds | None) -> RawTable:
        """Give these rows, called so; -1 gives one of missing cells."""
        lacking = np.flatnonzero(rows < 0)
        texts: dict[str, Texts] = {
            name: [None if row < 0 else values[row] for row in rows.tolist()] for name, values in self.texts.items()
        }
        if lacking.size and sparse.issparse(self.numbers):
            empty = sparse.csr_array(np.full((1, self.numbers.shape[1]), np.nan))
            numbers = sparse.vstack([self.numbers, empty], format="csr")[np.where(rows < 0, self.n_rows, rows)]
        else:
            numbers = self.numbers[np.maximum(rows, 0)] if self.n_rows else np.empty((len(rows), 0))
            if lacking.size:
                numbers[lacking] = np.nan
        origin = np.where(rows < 0, -1, self.rows[np.maximum(rows, 0)])
        return replace(self, numbers=numbers, texts=texts, rows=origin, ids=ids)
