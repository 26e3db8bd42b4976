"""How a run is asked for, by an estimator or a configuration file, and the parameters of a session that come of it."""

from __future__ import annotations

import re
from typing import Any, Protocol, cast

import numpy as np

from kcagc.cluster.kmeans import random_from
from kcagc.cluster.local import Scaling
from kcagc.errors import ParameterError
from kcagc.graph.filters import Filter, HalfFilter, NormFilter
from kcagc.parameters import check_between, check_choice, check_count
from kcagc.protocol.agreement import AggregatorKind, Method, Parameters, Seeding, VirtualNodes

FLAT_UP_TO = 3  # parties: beyond, the cells of a flat intersection come near to the number of nodes


def local_clusters(asked: int | str | None, k: int, n_parties: int) -> int:
    """Read a number of local clusters, or a multiple of k such as "2k"; None depends on the number of parties."""
    if asked is None:
        return max(2 * k if n_parties <= FLAT_UP_TO else k, 2)
    if isinstance(asked, str):
        found = re.fullmatch(r"([0-9]*)k", asked.strip())
        if found is None and not re.fullmatch(r"[0-9]+", asked.strip()):
            raise ParameterError(f'n_local_clusters: must be a number or a multiple such as "2k", not {asked!r}')
        asked = int(found.group(1) or 1) * k if found else int(asked)
    check_count("n_local_clusters", asked, least=2)
    return int(asked)


class Settings(Protocol):
    """How a run is asked for, by an estimator or by a configuration file."""

    n_clusters: int
    n_local_clusters: int | str | None
    method: str
    psi: int

    @property
    def filter(self) -> str | Filter:
        """Which filter: by name, or one of one's own."""

    n_components: int | None
    scaling: Scaling
    unit: float
    virtual_nodes: VirtualNodes
    seeding: Seeding
    fan_in: int
    aggregator: AggregatorKind
    max_iter: int
    n_init: int


def parameters_of(asked: Settings, n_parties: int, shared: bool) -> Parameters:
    """Give the parameters of a session, with every choice made that was left open."""
    check_count("n_clusters", asked.n_clusters)
    check_choice("method", asked.method, ("auto", "kcagc", "basic", "tree"))
    method = asked.method
    if method == "auto":
        method = "kcagc" if n_parties <= FLAT_UP_TO else "tree"
    local = 0 if method == "basic" else local_clusters(asked.n_local_clusters, asked.n_clusters, n_parties)
    check_count("n_components", asked.n_components, optional=True)
    for name in ("fan_in", "max_iter", "n_init"):
        check_count(name, getattr(asked, name))
    check_between("unit", asked.unit, 0.0, np.finfo(float).max)
    return Parameters(
        method=cast(Method, method),
        n_clusters=int(asked.n_clusters),
        n_local_clusters=local,
        filter=repr(filter_of(asked.filter, asked.psi)),
        # k and not k̂, which Protocol 1 prints: further directions are mostly noise, and with "U" weigh as much as the
        # first. At k̂ = 8k the paper's figures are out of reach with k̂ of them (Cora 53, its own 70), not with k (68).
        n_components=int(asked.n_components or asked.n_clusters),
        scaling=asked.scaling,
        unit=float(asked.unit),
        virtual_nodes=asked.virtual_nodes,
        seeding=asked.seeding,
        fan_in=int(asked.fan_in),
        aggregator=asked.aggregator,
        max_iter=int(asked.max_iter),
        n_init=int(asked.n_init),
        graph="shared" if shared else "own",
    )


def filter_of(asked: str | Filter, psi: int) -> Filter:
    """Give the filter that was asked for by name, or as it is."""
    if isinstance(asked, Filter):
        return asked
    check_choice("filter", asked, ("half", "norm"))
    return HalfFilter(psi) if asked == "half" else NormFilter(psi)


def seeds_of(random_state: Any) -> tuple[int, int]:
    """Draw the seed of common choices, and that of whoever sums."""
    seed, aggregator_seed = random_from(random_state).randint(np.iinfo(np.int32).max, size=2)
    return int(seed), int(aggregator_seed)
