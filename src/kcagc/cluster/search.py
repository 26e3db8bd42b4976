"""The search for the filter order ψ: cluster at each order of a grid, and judge the clusters by held-out edges.

The filter does not use the held-out edges (`HeldOutEdges`). With more smoothing, first more of them lie within
clusters, then fewer. The order with the highest modularity of held-out edges is chosen. The choice needs labels and the
graph only, so `choose_psi` is the same for pooled data and for parties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcagc._types import IntArray
from kcagc.cluster.held_out import HeldOutEdges
from kcagc.cluster.joint import Schedule
from kcagc.errors import ParameterError
from kcagc.text import listed

PSI_GRID = (1, 2, 3, 5, 8, 12, 20, 30)
SEARCH_PLAN = Schedule(2, 2, 8)  # for each order: no restart is dropped
_DIGITS = 9  # of a modularity, so that all parties choose the same order


@dataclass(frozen=True)
class PsiSearch:
    """The chosen filter order, and what the choice was made from.

    Attributes
    ----------
    psi : int
        The chosen order.
    values : tuple of int
        The orders that were tried, ascending.
    modularity : tuple of float
        The modularity of the held-out edges for the clusters at each order.
    error : tuple of float
        The standard error of the difference to the highest modularity, at each order; 0 for the highest.
    reason : str
        Why the order was chosen, in words.

    Examples
    --------
    >>> PsiSearch(2, (1, 2), (0.3, 0.4), (0.01, 0.0), "why").psi
    2
    """

    psi: int
    values: tuple[int, ...]
    modularity: tuple[float, ...]
    error: tuple[float, ...]
    reason: str


def choose_psi(edges: HeldOutEdges, labels: Mapping[int, Sequence[IntArray]]) -> PsiSearch:
    """Choose the order whose clusters have the highest modularity of held-out edges, the lowest order among equals.

    Parameters
    ----------
    edges : HeldOutEdges
        The held-out edges.
    labels : mapping of int to sequence of ndarray
        For each order, the clusters of `edges.nodes` in each restart. The restart with the highest modularity counts.

    Returns
    -------
    PsiSearch

    Raises
    ------
    ParameterError
        If there are no orders to choose from, or an order has no labels.
    """
    if not labels or not all(labels.values()):
        raise ParameterError("psi: there are no orders to choose from")
    values = tuple(sorted(labels))
    found = [max(labels[psi], key=edges.modularity) for psi in values]
    modularity = tuple(round(edges.modularity(one), _DIGITS) for one in found)
    best = modularity.index(max(modularity))
    error = tuple(round(edges.error(one, found[best]), _DIGITS) for one in found)
    return PsiSearch(values[best], values, modularity, error, _reason(values, modularity, error, best))


def _reason(values: tuple[int, ...], modularity: tuple[float, ...], error: tuple[float, ...], best: int) -> str:
    """Return why an order was chosen, and which others are as good."""
    words = f"the modularity of the held-out edges is highest at ψ = {values[best]} ({modularity[best]:.3f})"
    near = [
        str(psi)
        for number, psi in enumerate(values)
        if number != best and modularity[best] - modularity[number] <= error[number]
    ]
    if near:
        words += f"; ψ = {listed(near)} {'is' if len(near) == 1 else 'are'} within one standard error of it"
    if len(values) > 1 and best == len(values) - 1:
        words += "; no larger order was tried"
    return words
