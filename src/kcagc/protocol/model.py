"""What a party keeps after a fit, to place new nodes: its embedder and its own coordinates of the centres."""

from __future__ import annotations

from typing import Self

import msgspec
import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.cluster.lloyd import weighted_means
from kcagc.errors import DataError
from kcagc.graph.filters import StoredFilter
from kcagc.protocol.arrays import Stored, restore, store
from kcagc.protocol.local import Embedder, LocalResult
from kcagc.protocol.parameters import Parameters


class PartyModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One party's share of a fitted model; it holds that party's private data and belongs to it alone."""

    session: str
    party: str
    parameters: Parameters
    n_nodes: int
    filter: StoredFilter
    embedder: Embedder
    clusters: tuple[int, ...]
    stored_centers: Stored

    @classmethod
    def of(cls, session: bytes, party: str, parameters: Parameters, local: LocalResult, labels: IntArray) -> Self:
        """Keep the mean of one's own rows in every cluster that has nodes; an empty one has no place."""
        used, among = np.unique(labels, return_inverse=True)
        rows = local.rows
        centers = weighted_means(rows, np.ones(len(rows)), among, np.zeros((len(used), rows.shape[1])))
        clusters = tuple(int(cluster) for cluster in used)
        kept = (local.filter, local.embedder, clusters, store(centers))
        return cls(session.hex(), party, parameters, len(labels), *kept)

    @property
    def centers(self) -> FloatArray:
        """The centres in this party's own coordinates, one row for each of `clusters`."""
        return restore(self.stored_centers)

    def to_bytes(self) -> bytes:
        """Write the model."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a model."""
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except msgspec.DecodeError as error:
            raise DataError(f"not a model of kcagc: {error}") from error
