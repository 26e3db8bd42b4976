"""The centre separation assumption, ‖μ_r - μ_s‖ ≥ c (Δ_r + Δ_s): of one party ("local"), or of all side by side.

Paper, "Theoretical analysis", equations `equation.delta` and `eq.local_center_separation`; `eq.center_separation` in
the proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kcagc._types import FloatArray
from kcagc.analysis.clusters import Around, spectral_norm


@dataclass(frozen=True, eq=False)
class Separation:
    """‖X - C‖, every Δ_r, and for each pair the largest c that it allows.

    That is infinite where a cluster is compared with itself, and where nothing lies away from its mean.
    """

    norm: float
    deltas: FloatArray
    allowed: FloatArray

    @property
    def c(self) -> float:
        """The largest c that every pair allows; infinite for one cluster alone."""
        return float(self.allowed.min())

    @property
    def pair(self) -> tuple[int, int] | None:
        """The pair that limits c, if there are two clusters."""
        if len(self.deltas) < 2:
            return None
        upper = np.where(np.triu(np.ones_like(self.allowed), 1) > 0, self.allowed, np.inf)
        first, second = np.argwhere(upper == self.c)[0] if np.isfinite(self.c) else (0, 1)
        return int(first), int(second)


def separation(around: Around) -> Separation:
    """Compare every pair of means with Δ_r = √k ‖X - C‖ / √n_r for k clusters that have nodes.

    Where two means coincide c is 0, also if no node lies away from them, when the inequality would allow any c: such
    clusters cannot be told apart.
    """
    k, sizes = len(around.clusters), around.clusters.sizes
    norm = spectral_norm([around])
    deltas = np.sqrt(k) * norm / np.sqrt(sizes)
    # k × k × q is small: there are as many clusters as a person can look at, or some hundred local ones.
    distances = np.stack([np.linalg.norm(around.means - mean, axis=1) for mean in around.means])
    needed = deltas[:, None] + deltas[None, :]
    allowed = np.divide(distances, needed, out=np.full((k, k), np.inf), where=needed > 0)
    allowed[distances == 0] = 0.0
    np.fill_diagonal(allowed, np.inf)
    return Separation(norm, deltas, allowed)
