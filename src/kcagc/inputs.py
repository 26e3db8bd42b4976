"""What a user hands to the estimator, checked and brought into one form; an error names the party or the argument."""

from __future__ import annotations

import re
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from kcagc._types import Features, IntArray
from kcagc.cluster.projection import Scaling
from kcagc.errors import DataError, ParameterError
from kcagc.graph.attributed import AttributedGraph
from kcagc.graph.filters import Filter, HalfFilter, NormFilter
from kcagc.graph.structure import Graph, as_graph
from kcagc.parameters import check_between, check_choice, check_count
from kcagc.protocol.agreement import Aggregator, Method, Parameters, Seeding, VirtualNodes
from kcagc.protocol.local import PartyData
from kcagc.secagg.fixed_point import MAX_PARTIES

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
    aggregator: Aggregator
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
    try:
        seed, hub_seed = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=2)
    except (ValueError, TypeError) as error:
        raise ParameterError(f"random_state: must be None, a whole number or a RandomState ({error})") from error
    return int(seed), int(hub_seed)


def table_of(name: str, graph: Graph, table: Any) -> Features:
    """Give a party's table as numbers in the graph's order; a DataFrame's own index says which row is which node."""
    if isinstance(table, AttributedGraph):
        return table.features
    if not (hasattr(table, "index") and hasattr(table, "columns") and hasattr(table, "dtypes")):
        return table
    for column, kind in zip(table.columns, table.dtypes, strict=True):
        if getattr(kind, "kind", "O") not in "biuf":
            raise DataError(f"{name}: column {column!r} holds values of type {kind}; only numbers can be clustered")
    values = np.asarray(table)
    if graph.ids is None or np.array_equal(np.asarray(table.index), np.arange(len(table))):
        return values
    return values[graph.ids.alignment(list(table.index), where=name)]


def check_tables(X: Any, y: Any, adjacency: Any) -> None:
    """Refuse what is no list of two tables or more, and a graph that was forgotten."""
    if not isinstance(X, list | tuple):
        raise DataError(f"X: must be a list with one table for each party, not {type(X).__name__}")
    if not 2 <= len(X) <= MAX_PARTIES:
        raise DataError(f"X: {len(X)} tables; there must be 2 to {MAX_PARTIES}, one for each party")
    if adjacency is None:
        given = "; the second argument is y, which is not used" if y is not None else ""
        raise ParameterError(f"adjacency: is missing; give the graph by name, as adjacency=...{given}")


def graphs_of(adjacency: Any, n_parties: int) -> tuple[list[Graph], bool]:
    """Give every party its graph, and whether it is one that all share."""
    if not isinstance(adjacency, list | tuple):
        return [as_graph(adjacency)] * n_parties, True
    if len(adjacency) != n_parties:
        raise DataError(f"adjacency: {len(adjacency)} graphs for {n_parties} parties")
    return [as_graph(one) for one in adjacency], False


def check_rows(data: dict[str, PartyData]) -> None:
    """Refuse graphs of different sizes."""
    rows = {name: one.graph.n_nodes for name, one in data.items()}
    if len(set(rows.values())) > 1:
        raise DataError(f"X: every party must have a row for every node, but there are {rows}")


def wanted_rows(nodes: ArrayLike | None, n_fitted: int, n_nodes: int) -> IntArray:
    """Give the rows to predict: those named, or all after the training rows."""
    if nodes is None:
        if n_nodes <= n_fitted:
            raise DataError(
                f"X: {n_nodes} rows, and {n_fitted} were fitted: append the new rows to them, or name rows by nodes=..."
            )
        return np.arange(n_fitted, n_nodes)
    wanted = np.atleast_1d(np.asarray(list(nodes) if isinstance(nodes, range | set) else nodes))
    sound = wanted.ndim == 1 and wanted.dtype.kind in "iu" and wanted.size > 0
    if not sound or wanted.min() < 0 or wanted.max() >= n_nodes:
        raise ParameterError(f"nodes: must be row numbers from 0 to {n_nodes - 1}")
    return wanted.astype(np.int64)
