"""What a party keeps after a fit, to place new nodes: its embedder and its own coordinates of the centres."""

from __future__ import annotations

import msgspec
import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.cluster.lloyd import weighted_means
from kcagc.protocol.agreement import Parameters
from kcagc.protocol.arrays import Stored, restore, store
from kcagc.protocol.local import Embedder


class PartyModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One party's share of a fitted model; it holds that party's private data and belongs to it alone."""

    session: str
    party: str
    parameters: Parameters
    n_nodes: int
    embedder: Embedder
    stored_centers: Stored

    @property
    def centers(self) -> FloatArray:
        """The centres in this party's own coordinates, k × q."""
        return restore(self.stored_centers)

    def to_bytes(self) -> bytes:
        """Write the model."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> PartyModel:
        """Read a model."""
        return msgspec.msgpack.decode(data, type=cls)


def own_centers(rows: FloatArray, labels: IntArray, k: int) -> Stored:
    """Give the mean of one's own rows in each final cluster; a cluster without nodes lies where nothing is near.

    No row comes nearer to a centre at a far corner than to one among the rows, so an empty cluster stays empty.
    """
    far = np.full((k, rows.shape[1]), 4.0 * max(float(np.abs(rows).max(initial=0.0)), 1.0))
    return store(weighted_means(rows, np.ones(len(rows)), labels, far))
