"""A party's part in prediction: new nodes go to the nearest centre, k masked values for each.

The graph that the new nodes have joined is filtered, and the rows wanted are projected with the basis of the fit,
never with a new one. Training nodes keep the labels of the fit; asked for by number, they too get the nearest centre,
which for the optimized method is another cluster for some per cent of them, because cells move as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from kcagc._types import AnyFloatArray, FloatArray, IntArray
from kcagc.errors import DataError, ParameterError
from kcagc.protocol.arrays import Stored, restore, store
from kcagc.protocol.distances import reproducible_distances
from kcagc.protocol.effects import progress, stored_result
from kcagc.protocol.local import PartyData
from kcagc.protocol.model import PartyModel
from kcagc.protocol.parameters import Parameters
from kcagc.protocol.party import Party, PartyContext
from kcagc.secagg.keys import digest

BATCH_VALUES = 1 << 20  # values in one masked vector


@dataclass(frozen=True, eq=False)
class PredictResult:
    """The clusters of the nodes that were asked for, and what they took."""

    labels: IntArray
    rounds: int
    sums: int
    rows: FloatArray | None = None  # the party's own points of these nodes


def predict_parameters(model: PartyModel) -> Parameters:
    """Give the parameters of a prediction that continues this model: all parties must hold shares of the same."""
    return msgspec.structs.replace(model.parameters, task="predict", model=model.session)


async def predict_party(membership: PartyContext, data: PartyData, model: PartyModel, nodes: IntArray) -> PredictResult:
    """Predict as one party: `data` is the graph and table with the new rows, `nodes` the rows to place."""
    party = Party(membership)
    n = data.graph.n_nodes
    if party.agreement.parameters != predict_parameters(model) or model.party != party.name:
        raise ParameterError(f"{party.name}: the session's parameters are not those of the model")
    data.check_filter(party.name, model.parameters.filter)
    width = model.embedder.basis.shape[0]
    if data.features.shape[1] != width:
        raise DataError(
            f"{party.name}: features: {data.features.shape[1]} columns, but the model was made from {width}"
        )
    if nodes.size == 0 or nodes.min() < 0 or nodes.max() >= n:
        raise ParameterError(f"{party.name}: nodes: must be some of the {n} rows")

    await party.begin()
    await progress("filtering and projecting own features")

    def filtered() -> AnyFloatArray:
        return model.filter.restore(data.filter).apply(data.graph, data.features)

    local = await stored_result(
        "rows to predict",
        lambda: msgspec.msgpack.encode(store(model.embedder.rows(filtered()[nodes]))),
    )
    rows = restore(msgspec.msgpack.decode(local, type=Stored))
    await party.confirm(data, subject=np.asarray(nodes, dtype="<i8").tobytes())
    (merge,) = party.merges
    sums = party.sums_of(merge, digest("predict"))
    centers = model.centers
    step = max(1, BATCH_VALUES // len(centers))
    found = []
    for start in range(0, len(rows), step):
        await progress("predicting", start, len(rows))
        values = reproducible_distances(rows[start : start + step], centers)
        winning, _ = await sums.winners("predict", values[None])
        found.append(winning[0])
    await sums.finish()
    labels = np.array(model.clusters, dtype=np.int64)[np.concatenate(found)]
    await party.compare_results(sums.transcript, labels, "prediction")
    return PredictResult(labels, sums.number, sums.values_sent["predict"], rows)
