"""Weights for nodes outside the sample and for new nodes: each party gets those of its own components.

The score of a node for a cluster is the product of its joint row and the direction of the centre. It is a sum over the
parties: each party multiplies its own components by its weights, which are directions times centres. The holders have
shares of both. The coordinator multiplies them under pads and returns the product in shares, and the holders open to
each party the part that belongs to its components. With its weights, a party knows its own part of every score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kcagc._types import Flags, FloatArray, IntArray
from kcagc.cluster.lloyd import blocks_of
from kcagc.errors import DataError, PeerError
from kcagc.protocol.effects import Progress
from kcagc.protocol.messages import RunStage, Step, WeightShares
from kcagc.protocol.party import Party
from kcagc.protocol.secure_sum import SecureSums
from kcagc.protocol.tournament import GROUP_SIZE, nearest
from kcagc.secagg.keys import digest
from kcagc.secagg.masks import FRACTION_BITS, MAX_DISTANCE
from kcagc.secagg.shares import (
    DIRECTION_BITS,
    ROW_BITS,
    RingMatrix,
    draw_until,
    drawn_share,
    pad,
    ring_product,
    rounded_share,
)
from kcagc.text import listed

BATCH_VALUES = 1 << 20  # scores that are compared together
PROBES = 1 << 12  # room for probes, so that the padded length of a vector is not the next larger one
_OPENED_BITS = 24  # fraction bits of weights that a party gets
_ROOM = DIRECTION_BITS + ROW_BITS + 2
_COMPONENT_BITS, _WEIGHT_BITS = 22, 22  # rows are at most 4 long, weights 1: sums below 2^47 are exact in float64
_TOLERANCE = 1e-2


@dataclass(frozen=True, eq=False)
class SharedModel:
    """A holder's shares of the directions (all components × d) and of the centres (k × d); zero for other parties.

    `widths` are the numbers of components of all parties; `known` marks the clusters with enough nodes.
    """

    directions: IntArray
    centers: IntArray
    widths: tuple[int, ...]
    known: Flags


async def open_weights(party: Party, sums: SecureSums, shared: SharedModel, seed: bytes) -> FloatArray:
    """Return the weights of this party's components for the clusters that are known (q × clusters)."""
    await Progress("joint clustering: weights for other nodes")
    names, holders = party.agreement.parties, sums.holders
    shape = (len(shared.directions) + 1, len(shared.centers))
    own = np.zeros(shape, dtype=np.int64)
    if party.name in holders:
        own = await _product(sums, shared, seed, shape, second=party.name == holders[1])
        own[:, ~shared.known] = 0
    else:
        await sums.skip(Step.WEIGHTS, shared.directions.size + shared.centers.size)
    await sums.finish()
    ends = np.cumsum(shared.widths).tolist()
    places = {name: slice(end - width, end) for name, end, width in zip(names, ends, shared.widths, strict=True)}
    stage = RunStage(Step.WEIGHTS)
    if party.name in holders:
        contents = {
            other: WeightShares(own[places[other]].astype("<i8").tobytes(), own[-1].astype("<i8").tobytes())
            for other in party.others
        }
        await party.send_encrypted(stage, dict(contents), "weights")
    received = await party.receive_encrypted(
        stage, tuple(holder for holder in holders if holder != party.name), WeightShares
    )
    weights, lengths = own[places[party.name]], own[-1]
    for sender, theirs in received.items():
        if (len(theirs.weights), len(theirs.lengths)) != (8 * weights.size, 8 * lengths.size):
            raise PeerError(f"sent shares of weights of {len(theirs.weights)} bytes", peer=sender)
        weights = weights + np.frombuffer(theirs.weights, dtype="<i8").reshape(weights.shape)
        lengths = lengths + np.frombuffer(theirs.lengths, dtype="<i8")
    # Parties that received other lengths than the others open nothing with them from here on.
    sums.transcript = digest(sums.transcript, lengths.astype("<i8").tobytes())
    squares = np.ldexp(lengths[shared.known].astype(np.float64), -_OPENED_BITS)
    found = np.ldexp(weights[:, shared.known].astype(np.float64), -_OPENED_BITS)
    valid = (squares > 0.0) & (squares <= 1.0 + _TOLERANCE)
    if not valid.all() or (np.linalg.norm(found, axis=0) > np.sqrt(squares) + _TOLERANCE).any():
        roles = listed([*holders, sums.group.aggregator], last="or")
        raise PeerError(f"the shares of the weights do not fit together: {roles} computed wrongly")
    return np.asarray(found / np.sqrt(squares))


async def _product(
    sums: SecureSums, shared: SharedModel, seed: bytes, shape: tuple[int, int], *, second: bool
) -> IntArray:
    """Return a holder's shares of directions times centres, and in the last row of the squared lengths of centres."""
    key, session, label = sums.group_key, sums.session.id, sums.label()
    left, right = shared.directions.view(np.uint64), shared.centers.view(np.uint64)
    left_pad = pad(key, session, "weights", label, "directions", shape=left.shape)
    right_pad = pad(key, session, "weights", label, "centers", shape=right.shape)
    without_pads = np.empty(shape, dtype=np.uint64)
    without_pads[:-1] = ring_product(left, right_pad.T) + ring_product(left_pad, right.T)
    without_pads[-1] = np.uint64(2) * (right_pad * right).sum(axis=1)
    words = [left, right]
    if second:
        without_pads[:-1] += ring_product(left_pad, right_pad.T)
        without_pads[-1] += (right_pad * right_pad).sum(axis=1)
        words = [left + left_pad, right + right_pad]
    np.negative(without_pads, out=without_pads)
    sent = np.concatenate([one.ravel() for one in words])
    if second:
        found, draw = draw_until(
            lambda number: drawn_share(seed, session, label, number, shape=shape) + without_pads, _ROOM
        )
        await sums.send_words(Step.WEIGHTS, sent, sums.holders, draw=draw, seed=seed)
    else:
        number = await sums.send_words(Step.WEIGHTS, sent, sums.holders)
        found = await sums.receive_split(number, shape) + without_pads
    return rounded_share(found, DIRECTION_BITS + ROW_BITS - _OPENED_BITS)


def padded_weights(words: RingMatrix, k: int) -> RingMatrix | None:
    """Return the product of padded directions and padded centres, as the coordinator computes it; None if it cannot.

    The number of components and of dimensions, which is the smaller of components and clusters, follow from the length.
    """
    n_components = len(words) // k - k
    size = k
    if n_components < k:
        n_components = size = round((np.sqrt(k * k + 4.0 * len(words)) - k) / 2)
    if n_components < 1 or (n_components + k) * size != len(words):
        return None
    both = words.reshape(-1, size)
    left, right = both[:n_components], both[n_components:]
    return np.concatenate([ring_product(left, right.T), (right * right).sum(axis=1)[None]])


async def assign(sums: SecureSums, step: Step, scores: IntArray) -> IntArray:
    """Return the place of the highest score of each row; `scores` are this party's part (rows × clusters)."""
    n_rows, count = scores.shape
    # A knockout needs the fewest comparisons, small groups the fewest sums.
    group_size = GROUP_SIZE if n_rows * count <= BATCH_VALUES else 2
    batch, found = max(1, (BATCH_VALUES - PROBES) // count), []
    for start in range(0, n_rows, batch):
        await Progress("assigning nodes", start, n_rows)
        distances = -scores[start : start + batch].astype(np.int64)
        candidates = np.tile(np.arange(count), (len(distances), 1))
        winners, _, _ = await nearest(sums, step, distances, candidates, group_size=group_size)
        found.append(winners)
    return np.concatenate(found)


def part_of_scores(rows: FloatArray, nodes: IntArray, weights: FloatArray, name: str) -> IntArray:
    """Return this party's part of the scores of some rows, as integers of 32 bits (nodes × clusters).

    Products of integers below 2^53 are exact whatever the order of the additions: the same when computed again.
    """
    rounded = np.rint(np.ldexp(weights, _WEIGHT_BITS))
    found = np.empty((len(nodes), weights.shape[1]), dtype="<i4")
    for block in blocks_of(nodes):
        some = rows[nodes[block]]
        if not np.linalg.norm(some, axis=1).max() <= MAX_DISTANCE:
            message = f"a new row is more than {MAX_DISTANCE:g} times as long as any row of the fit; check its values"
            raise DataError(message, party=name).with_public_message("aborted")
        whole = np.rint(np.ldexp(some, _COMPONENT_BITS)) @ rounded
        found[block] = np.rint(np.ldexp(whole, FRACTION_BITS - _COMPONENT_BITS - _WEIGHT_BITS))
    return found
