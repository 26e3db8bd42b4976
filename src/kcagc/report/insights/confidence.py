"""How clearly a node belongs to its cluster, as one party sees it.

    confidence = max(0, 1 - d(own centre) / d(nearest other centre))

with Euclidean distances in the party's own coordinates (its filtered and projected rows, and the mean of those rows in
each cluster). 1 means that the node lies on its cluster's centre, 0 that another centre is as near or nearer. It is
this party's view only: the joint cluster was chosen from the sum of all parties' distances, so that a node may have 0
here and be in the right place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.cluster.lloyd import ROUNDING, distance_blocks
from kcagc.errors import DataError


def confidence(rows: FloatArray, centers: FloatArray, clusters: Sequence[int], labels: IntArray) -> FloatArray:
    """Give a number from 0 to 1 for each row; `clusters` are the labels that the centres, in their order, stand for.

    A tie is 0. With one centre alone there is nothing to take a node for, and everything is 1.
    """
    known = np.asarray(clusters, dtype=np.int64)
    if len(known) != len(centers) or len(labels) != len(rows):
        raise DataError(f"confidence: {len(known)} clusters for {len(centers)} centres, {len(labels)} labels for rows")
    order = np.argsort(known)
    place = np.minimum(np.searchsorted(known[order], labels), len(known) - 1)
    own = order[place]
    if len(labels) and (known[own] != labels).any():
        raise DataError(f"confidence: cluster {int(labels[known[own] != labels][0])} has no centre")
    found = np.ones(len(rows))
    if len(centers) == 1:
        return found
    scale = float(np.einsum("ij,ij->i", centers, centers).max())
    for block, squared, norms in distance_blocks(rows, centers):
        each = np.arange(len(squared))
        nearest_own = squared[each, own[block]].copy()
        squared[each, own[block]] = np.inf
        other = squared.min(axis=1)
        exact = ROUNDING * (norms + scale)  # below this a distance, or a difference of two, is rounding
        nearest_own = np.where(nearest_own <= exact, 0.0, nearest_own)
        tie = other - nearest_own <= exact
        ratio = np.sqrt(nearest_own / np.where(tie, 1.0, other))
        found[block] = np.where(tie, 0.0, 1.0 - ratio)
    return np.clip(found, 0.0, 1.0)
