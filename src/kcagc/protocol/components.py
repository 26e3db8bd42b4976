"""A party's components for the joint method: filtered columns, projected, and turned by a secret rotation."""

from __future__ import annotations

import msgspec
import numpy as np

from kcagc._types import FloatArray
from kcagc.cluster.lloyd import blocks_of
from kcagc.errors import DataError
from kcagc.graph.filters import StoredFilter
from kcagc.protocol.effects import StoreResult
from kcagc.protocol.local import NO_VARIATION, Embedder, PartyData, labels_key
from kcagc.protocol.messages import store
from kcagc.protocol.parameters import Parameters
from kcagc.secagg.shares import rotation


class ComponentBasis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a party's table becomes components, for the joint method: filter, basis, and the size of the longest row.

    The party has turned the basis by a secret rotation: covariances then do not show which column is which. `scale` is
    the power of two that exceeds the length of every row.
    """

    filter: StoredFilter
    embedder: Embedder
    scale: int


class Components:
    """A party's components: they stay in memory and are computed again after a crash, which may change last bits.

    Whatever leaves the party therefore comes from a stored result: the basis, the rows of the sample, the scores. There
    is one copy of them, divided by 2^scale in place once the parties have agreed on the scale.
    """

    def __init__(self, data: PartyData) -> None:
        self._data, self._scale = data, 0
        self._rows: FloatArray | None = None
        self.engine = data.engine
        self.basis: ComponentBasis

    @property
    def rows(self) -> FloatArray:
        """The components of all nodes, n × q, divided by 2^scale."""
        if self._rows is None:
            data, n_components, scale = self._data, self.basis.embedder.basis.shape[1], self._scale
            chosen = self.basis.filter.restore(data.filter)
            smoothed = data.engine.smooth(chosen, data.graph, data.features, n_components)
            self._rows, self._scale = self.basis.embedder.rows(data.engine, smoothed), 0
            self.scale_to(scale)
        return self._rows

    @property
    def width(self) -> int:
        """The number of components."""
        return self.basis.embedder.basis.shape[1]

    def scale_to(self, scale: int) -> None:
        """Divide all rows by a power of two, which is exact."""
        if self._rows is not None:
            np.ldexp(self._rows, self._scale - scale, out=self._rows)
        self._scale = scale

    def compute(self, parameters: Parameters, key: bytes) -> bytes:
        """Filter, project, and turn by a secret rotation; return the encoded basis."""
        data = self._data
        stored = data.filter.fixed_on(data.graph).stored()
        chosen = stored.restore(data.filter)
        smoothed = data.engine.smooth(chosen, data.graph, data.features, parameters.n_components)
        fitted = data.engine.singular_vectors(smoothed, parameters.n_components)
        basis = fitted.basis @ rotation(key, b"", "components", size=fitted.n_components)
        embedder = Embedder(store(basis), store(fitted.singular_values), fitted.noise_floor, "US", 1.0)
        self._rows = rows = embedder.rows(data.engine, smoothed)
        exponent = int(np.frexp(max(rows.max(), -rows.min()))[1])  # squares of very large or small values leave float64
        longest = max(float(np.linalg.norm(np.ldexp(rows[one], -exponent), axis=1).max()) for one in blocks_of(rows))
        if not longest > 0.0:
            raise DataError(NO_VARIATION)
        return msgspec.msgpack.encode(ComponentBasis(stored, embedder, exponent + int(np.frexp(longest)[1])))


async def note_joint_session(data: PartyData, parameters: Parameters) -> None:
    """Count the session as one more with these data, as one with local labels is."""
    await StoreResult("joint session", lambda: b"1", keep=labels_key(data, parameters))


async def find_components(name: str, data: PartyData, parameters: Parameters, key: bytes) -> Components:
    """Return the components of this session; `key` is the secret of the rotation that turns them."""
    found = Components(data)

    def compute() -> bytes:
        try:
            return found.compute(parameters, key)
        except DataError as error:
            raise DataError(str(error), party=name) from error

    found.basis = msgspec.msgpack.decode(await StoreResult("components", compute), type=ComponentBasis)
    return found
