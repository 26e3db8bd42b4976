"""What the paper asks of one partition, in one place: separation and proximity, of a party's rows or of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kcagc.analysis.clusters import Around, Name
from kcagc.analysis.proximity import proximity
from kcagc.analysis.separation import separation
from kcagc.analysis.words import finite
from kcagc.text import percent

WORST = 10  # pairs that a script is told: with a hundred local clusters there are thousands
MERGED = 0.25  # ours, not the paper's: with more of a cluster on the wrong side, two clusters count as not told apart


@dataclass(frozen=True)
class Pair:
    """Two clusters: the largest c they allow, their nodes, how many of these are 1-bad, how many on the wrong side.

    On the wrong side is a node that lies nearer to the other cluster's mean than to the mean of all other nodes of its
    own. `confused` is the share of such nodes in `more_in`, that of the two clusters where it is larger.
    """

    first: Name
    second: Name
    c: float
    nodes: int
    bad: int
    wrong: int
    confused: float
    more_in: Name

    @property
    def told_apart(self) -> bool:
        """Whether most nodes of both are on their own side; far less than the theorem asks."""
        return self.c > 0 and self.confused <= MERGED

    def as_dict(self) -> dict[str, Any]:
        """Give what a script reads."""
        return {
            "clusters": [self.first, self.second],
            "c": finite(self.c),
            "nodes": self.nodes,
            "bad": self.bad,
            "wrong_side": self.wrong,
            "confused": self.confused,
            "more_in": self.more_in,
            "told_apart": self.told_apart,
        }


@dataclass(frozen=True, repr=False)
class Conditions:
    """One partition of some rows, measured by the paper's conditions.

    `norm` is ‖X - C‖ and `deltas` are √k ‖X - C‖ / √n_r; `c` is the largest constant of the centre separation
    assumption and `pair` the two clusters that limit it; `n_bad` nodes violate the proximity condition. `pairs` has
    every pair: those that are not told apart first, then by c.
    """

    clusters: tuple[Name, ...]
    sizes: tuple[int, ...]
    norm: float
    deltas: tuple[float, ...]
    c: float
    pair: tuple[Name, Name] | None
    n_bad: int
    pairs: tuple[Pair, ...]

    @property
    def n_nodes(self) -> int:
        """How many nodes there are."""
        return sum(self.sizes)

    @property
    def good(self) -> float:
        """The share of 1-good nodes."""
        return 1 - self.n_bad / self.n_nodes

    @property
    def merged(self) -> tuple[Pair, ...]:
        """The pairs that are not told apart, those with the most nodes on the wrong side first."""
        return tuple(pair for pair in self.pairs if not pair.told_apart)

    def __repr__(self) -> str:
        limit = "" if self.pair is None else f" (pair {self.pair[0]!r}, {self.pair[1]!r})"
        return f"Conditions({len(self.sizes)} clusters, c={self.c:.3g}{limit}, {percent(self.good)} 1-good)"

    def as_dict(self) -> dict[str, Any]:
        """Give what a script reads; an infinite c is None."""
        return {
            "clusters": list(self.clusters),
            "sizes": list(self.sizes),
            "norm": self.norm,
            "deltas": list(self.deltas),
            "c": finite(self.c),
            "pair": None if self.pair is None else list(self.pair),
            "bad": self.n_bad,
            "good": self.good,
            "pairs_not_told_apart": len(self.merged),
            "worst_pairs": [pair.as_dict() for pair in self.pairs[:WORST]],
        }


def conditions(around: Around) -> Conditions:
    """Measure a partition."""
    clusters, apart = around.clusters, separation(around)
    near = proximity(around, apart.norm)
    names, sizes = clusters.names, clusters.sizes
    confused = near.wrong / sizes[:, None]
    first, second = np.triu_indices(len(clusters), 1)
    pairs = [
        Pair(
            names[r],
            names[s],
            float(apart.allowed[r, s]),
            int(sizes[r] + sizes[s]),
            int(near.bad[r, s] + near.bad[s, r]),
            int(near.wrong[r, s] + near.wrong[s, r]),
            float(max(confused[r, s], confused[s, r])),
            names[r] if confused[r, s] >= confused[s, r] else names[s],
        )
        for r, s in zip(first.tolist(), second.tolist(), strict=True)
    ]
    # What a person would notice comes first: nodes on the wrong side; c decides between pairs that have few.
    pairs.sort(key=lambda one: (one.told_apart, -one.wrong if not one.told_apart else one.c, one.c))
    limit = apart.pair
    return Conditions(
        clusters=names,
        sizes=tuple(sizes.tolist()),
        norm=apart.norm,
        deltas=tuple(apart.deltas.tolist()),
        c=apart.c,
        pair=None if limit is None else (names[limit[0]], names[limit[1]]),
        n_bad=int(np.count_nonzero(~near.good)),
        pairs=tuple(pairs),
    )
