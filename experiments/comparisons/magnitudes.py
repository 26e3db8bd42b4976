"""What the size of a blinded value still says about the size of the difference behind it, by octaves of the factor."""

from __future__ import annotations

import numpy as np
from scipy.stats import spearmanr

from experiments.paper.experiment import Result
from experiments.restarts import Cell
from kcagc._types import FloatArray
from kcagc.cluster.kmeans import fit_kmeans
from kcagc.cluster.lloyd import weighted_means
from kcagc.protocol.cells import initial_cells, intersect, virtual_nodes

FRACTION_BITS = 24
_STEPS = 64  # of the histogram, in an octave
_SAMPLES = 200_000


def differences(name: str, parties: int, iterations: int = 8, restarts: int = 10) -> FloatArray:
    """Return Δ of every row and every other centre in Lloyd's iterations on the cells of a graph."""
    cell = Cell(name, parties, "contiguous")
    local = [fit_kmeans(rows, cell.k_local, random_state=0, fewer=True).labels for rows in cell.rows]
    cells = intersect(local)
    points = [virtual_nodes(rows, cells, "cell", own) for rows, own in zip(cell.rows, local, strict=True)]
    rows, found = np.concatenate(points, axis=1), []
    for start in initial_cells(cells.codes, cells.sizes, cell.k, restarts, 0):
        centers, labels = rows[start], None
        for _ in range(iterations):
            away = ((rows[:, None, :] - centers) ** 2).sum(axis=2)
            if labels is not None:
                other = np.arange(cell.k) != labels[:, None]
                between = away - np.take_along_axis(away, labels[:, None], axis=1)
                found.append(2 * np.rint(between[other] * 2**FRACTION_BITS) + 1)
            labels = away.argmin(axis=1)
            centers = weighted_means(rows, cells.sizes.astype(float), labels, centers)
    return np.concatenate(found)


def leak(values: FloatArray, octaves: int, random: np.random.Generator) -> Result:
    """Return an upper bound on the bits that |f·Δ + e| gives about |Δ|, and their rank correlation."""
    chosen = random.choice(values, _SAMPLES)
    moved = np.log2(np.abs(chosen + random.uniform(-1, 1, _SAMPLES)))  # e / f is uniform between -1 and 1
    counts = np.bincount(np.floor((moved - moved.min()) * _STEPS).astype(int)) / _SAMPLES
    of_factor = np.full(octaves * _STEPS, 1 / (octaves * _STEPS))
    seen = np.convolve(counts, of_factor)
    seen = seen[seen > 0]
    bits = float(-(seen * np.log2(seen)).sum() - np.log2(octaves * _STEPS))
    blinded = moved + random.uniform(0, octaves, _SAMPLES)
    return {"bits": round(bits, 4), "rank_correlation": round(float(spearmanr(np.abs(chosen), blinded)[0]), 4)}
