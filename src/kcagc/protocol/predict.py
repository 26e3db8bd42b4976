"""A party's part in prediction: new nodes go to the nearest centre, found by comparisons.

The party filters the graph that the new nodes have joined, and projects the requested rows with the basis of the fit,
never with a new one. The nodes of the fit keep their labels. If they are requested here, they too get the nearest
centre; with cells that is another cluster for a few per cent of them, because a cell moves as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.engines import LOCAL
from kcagc.errors import DataError, ParameterError
from kcagc.protocol.effects import Progress, StoreResult
from kcagc.protocol.joint import predict_jointly
from kcagc.protocol.joint_kmeans import reproducible_distances
from kcagc.protocol.local import PartyData, PartyModel
from kcagc.protocol.messages import Step, Stored, restore, store
from kcagc.protocol.parameters import Parameters
from kcagc.protocol.party import Party, PartyContext
from kcagc.protocol.tournament import nearest
from kcagc.secagg.keys import digest

BATCH_VALUES = 1 << 20  # distances that are compared together


@dataclass(frozen=True, eq=False)
class PredictResult:
    """The clusters of the requested nodes, and the effort."""

    labels: IntArray
    rounds: int
    sums: int
    rows: FloatArray | None = None  # the party's own points of these nodes


def predict_parameters(model: PartyModel) -> Parameters:
    """Return the parameters of a prediction with this model; the models of all parties must come from one fit."""
    return msgspec.structs.replace(model.parameters, task="predict", model=model.session)


async def predict_party(context: PartyContext, data: PartyData, model: PartyModel, nodes: IntArray) -> PredictResult:
    """Predict as one party: `data` has the rows of the new nodes, `nodes` are the rows to predict."""
    party = Party(context)
    n = data.graph.n_nodes
    if party.agreement.parameters != predict_parameters(model) or model.party != party.name:
        raise ParameterError(f"{party.name}: the parameters of the session are not those of the model")
    if not model.parameters.orders:  # else the fit has found the filter, and the model holds it
        data.check_filter(party.name, model.parameters.filter)
    columns, fitted = data.features.shape[1], model.embedder.basis.shape[0]
    if columns != fitted:
        raise DataError(f"features: {columns} columns, but the model was fitted on {fitted}", party=party.name)
    if nodes.size == 0 or nodes.min() < 0 or nodes.max() >= n:
        raise ParameterError(f"{party.name}: nodes: must be row numbers from 0 to {n - 1}, at least one")

    await party.open()
    await Progress("filtering and projecting own features")

    def compute() -> bytes:
        smoothed = data.engine.smooth(model.filter.restore(data.filter), data.graph, data.features)
        return msgspec.msgpack.encode(store(model.embedder.rows(LOCAL, data.engine.take(smoothed, nodes))))

    rows = restore(msgspec.msgpack.decode(await StoreResult("rows to predict", compute), type=Stored))
    sent = await party.send_confirmations(data, subject=np.asarray(nodes, dtype="<i8").tobytes())
    await party.receive_confirmations(sent)
    (merge,) = party.merges
    sums = party.secure_sums(merge, digest("predict"))
    if model.joint is not None:
        labels = await predict_jointly(party, sums, model.joint, rows)
        await party.confirm_result(sums.transcript, labels, "prediction")
        return PredictResult(labels, sums.number, len(labels) * (len(model.joint.scored) - 1), rows)
    centers = model.centers
    batch = max(1, BATCH_VALUES // len(centers))
    found, n_comparisons = [], 0
    for start in range(0, len(rows), batch):
        await Progress("predicting", start, len(rows))
        distances = sums.encode(reproducible_distances(rows[start : start + batch], centers))
        candidates = np.tile(np.arange(len(centers)), (len(distances), 1))
        winning, _, asked = await nearest(sums, Step.PREDICTION, distances, candidates)
        found.append(winning)
        n_comparisons += int(asked.sum())
    await sums.finish()
    labels = np.array(model.clusters, dtype=np.int64)[np.concatenate(found)]
    await party.confirm_result(sums.transcript, labels, "prediction")
    return PredictResult(labels, sums.number, n_comparisons, rows)
