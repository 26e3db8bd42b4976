"""Parameters of a run: the only declaration of their names, types, defaults, valid values and meanings.

`RunSettings` holds what an estimator, a configuration file or a command asks for. `RunSettings.resolve` makes every
choice that was left open, and returns the `Parameters` that all roles compare and sign before anything else. Defaults,
lists of choices and descriptions come from `PARAMETERS`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

import msgspec
import numpy as np
from msgspec import Meta

from kcagc._types import GraphSharing
from kcagc.cluster.kmeans import random_from
from kcagc.cluster.local import Scaling
from kcagc.cluster.search import PSI_GRID
from kcagc.cluster.sweep import check_range
from kcagc.errors import ParameterError
from kcagc.graph.filters import Filter, HalfFilter, NormFilter, SearchedFilter
from kcagc.protocol.declaration import Parameter, declared
from kcagc.text import listed

Task = Literal["fit", "predict", "match", "count"]
MATCHING: tuple[Task, ...] = ("match", "count")  # tasks that compare ids and read no columns
Method = Literal["joint", "cells", "basic", "tree"]
JointForm = Literal["shares", "coordinator"]
VirtualNodes = Literal["cell", "local"]
AggregatorKind = Literal["coordinator", "party"]

# Of a party, for each cluster and at least: what parties have in common may lie in directions that look like noise to
# each of them.
JOINT_COMPONENTS, MIN_JOINT_COMPONENTS = 4, 64
_NOT_FOR_JOINT = ("n_local_clusters", "scaling", "unit", "virtual_nodes", "fan_in")  # settings
FIXED_PSI = 5  # where the parties cannot search
NO_GRAPH = "none"  # the value of `graph` for a session without edges
FLAT_UP_TO = 3  # parties; with more, the cells of all parties together are nearly as many as the nodes

_Count = Annotated[int, Meta(ge=1)]
# Not tuple[int, int]: msgspec 0.22 crashes on a union of it and an integer with limits.
_Range = Annotated[tuple[int, ...], Meta(min_length=2, max_length=2)]
_Positive = Annotated[float, Meta(gt=0, le=sys.float_info.max)]
_Multiple = Annotated[str, Meta(pattern=r"^\s*([0-9]*k|[0-9]+)\s*$")]


def _about(meaning: str) -> Meta:
    return Meta(description=meaning)


def joint_components(n_clusters: int) -> int:
    """Return the default number of components of a party in the joint method, if it has so many columns."""
    return max(JOINT_COMPONENTS * n_clusters, MIN_JOINT_COMPONENTS)


class MethodChoice(NamedTuple):
    """The method of a fit, and in words why it was taken."""

    method: Method
    reason: str

    def __str__(self) -> str:
        return f"{self.method}, because {self.reason}"


class PsiChoice(NamedTuple):
    """The order of the filter, None if the parties search for it, and in words why."""

    psi: int | None
    reason: str

    def __str__(self) -> str:
        return f"{'auto' if self.psi is None else self.psi}, because {self.reason}"


class RunSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Settings of a fit as a user gives them; `None`, "auto" and "2k" stand for values that `resolve` computes."""

    n_clusters: Annotated[
        _Count | _Range,
        _about(
            "Number of clusters k to find, or a range such as (2, 20): then the session compares all numbers of the "
            "range and finds no clusters of its own."
        ),
    ]
    psi: Annotated[
        Annotated[int, Meta(ge=0)] | Literal["auto"],
        _about(
            'Order of the graph filter: how many times each node is averaged with its neighbours. With "auto", the '
            'method "joint" clusters with several values and takes the one whose clusters predict held-out edges best; '
            "other methods take 5."
        ),
    ] = "auto"
    aggregator: Annotated[
        AggregatorKind,
        _about(
            'Role that adds the masked vectors. "coordinator": a role without data, which does not learn the labels; '
            '"party": the last party in the list, as in the paper. The last party learns more than a coordinator.'
        ),
    ] = "coordinator"
    n_local_clusters: Annotated[
        Annotated[int, Meta(ge=2)] | _Multiple | None,
        _about(
            'Number of local clusters of each party: a number, or a multiple of k such as "2k". The default is '
            '"2k" for up to 3 parties and "k" for more. The methods "basic" and "joint" have none: if you set it, the '
            'method "auto" does not take "joint".'
        ),
    ] = None
    min_local_size: Annotated[
        _Count,
        _about(
            "Least number of nodes of a local cluster. Each party joins smaller ones with the nearest, before it sends "
            'its local labels. With the method "joint", no centre of a smaller cluster is disclosed.'
        ),
    ] = 5
    method: Annotated[
        Literal["auto", "joint", "cells", "basic", "tree"],
        _about(
            '"joint" clusters the rows of all parties in their joint subspace, as on pooled data, '
            '"cells" clusters the cells of all parties (Protocol 3), "tree" merges the cells of a few parties at a '
            'time, "basic" clusters every node (Protocol 2, many more secure sums). "auto" takes "joint" if a '
            "coordinator aggregates and n_local_clusters, scaling, unit, virtual_nodes and fan_in have their defaults; "
            'otherwise "cells" for up to 3 parties and "tree" for more.'
        ),
    ] = "auto"
    joint_rows: Annotated[
        JointForm,
        _about(
            'Who sees the rows of the joint subspace, for the method "joint". "shares": no role, because two parties '
            'hold shares of them; "coordinator": the coordinator sees them without names, which is faster.'
        ),
    ] = "shares"
    filter: Annotated[
        Literal["half", "norm"],
        _about(
            'Graph filter (smoothing) with ψ steps: "half" is (1 - λ/2)^ψ, "norm" is (1 - λ/‖L‖)^ψ, where λ are the '
            "eigenvalues of the graph Laplacian L."
        ),
    ] = "half"
    n_components: Annotated[
        _Count | None,
        _about(
            "Number of singular vectors that each party projects its columns on. The default is 4k, at least 64, "
            'for the method "joint" and k for the others.'
        ),
    ] = None
    scaling: Annotated[
        Scaling,
        _about(
            'Scaling of the projected rows: "unit" scales each row to length 1, "U" takes the left singular vectors '
            'as in the paper, "US" multiplies them by the singular values and divides them by `unit`. The method '
            '"joint" always scales joint rows to length 1.'
        ),
    ] = "unit"
    unit: Annotated[
        _Positive, _about('Length that rows are divided by if scaling is "US". Agree on it before you look at data.')
    ] = 1.0
    virtual_nodes: Annotated[
        VirtualNodes,
        _about(
            'How each party represents a cell: "cell" takes the mean of the nodes in the cell, "local" the mean of the '
            "party's own local cluster."
        ),
    ] = "cell"
    fan_in: Annotated[int, Meta(ge=2), _about('Number of groups that one merge joins, for the method "tree".')] = 4
    max_iter: Annotated[
        _Count, _about("Maximum number of Lloyd iterations. Honest runs need 10 as a rule, and rarely more than 25.")
    ] = 30
    n_init: Annotated[
        _Count,
        _about(
            "Number of k-means restarts. They run at the same time, and the one with the lowest cost is kept. The "
            'method "joint" has a number of its own.'
        ),
    ] = 10
    graph: Annotated[
        GraphSharing,
        _about(
            '"shared" if all parties have the same edges, "own" if each party has its own, "none" if the run has no '
            "graph: then only the columns decide the clusters, and psi is 0."
        ),
    ] = "shared"

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Return validated settings; NumPy numbers are as good as Python's.

        Raises
        ------
        ParameterError
            If a name is unknown or missing, or a value is invalid. The message begins with the name.
        """
        for name in values:
            if name not in PARAMETERS:
                raise ParameterError(f"{name}: there is no such setting; the settings are {', '.join(PARAMETERS)}")
        missing = [name for name, one in PARAMETERS.items() if one.required and name not in values]
        if missing:
            raise ParameterError(f"{missing[0]}: is missing; it must be {PARAMETERS[missing[0]].expected}")
        return cls(**{name: PARAMETERS[name].check(value) for name, value in values.items()})

    def graph_filter(self) -> Filter:
        """Return the graph filter; its order is open if the parties search for it."""
        psi = self.choose_psi().psi
        if psi is None:
            return SearchedFilter(self.filter)
        if self.graph == NO_GRAPH:  # nothing is averaged, so both filters are the same
            return HalfFilter(0)
        return HalfFilter(psi) if self.filter == "half" else NormFilter(psi)

    @property
    def clusters(self) -> tuple[int, int]:
        """The least and the largest number of clusters; they are the same unless there is a range."""
        if isinstance(self.n_clusters, int):
            return self.n_clusters, self.n_clusters
        least, most = self.n_clusters
        return least, most

    def choose_psi(self) -> PsiChoice:
        """Return the order of the filter and the reason; None if the parties search for it.

        Raises
        ------
        ParameterError
            If the parties cannot search: they have no graph in common, or there is only one cluster. Or if there is
            no graph to average along, but psi is not 0.
        """
        if self.graph == NO_GRAPH:
            if self.psi not in ("auto", 0):
                raise ParameterError(
                    f"psi: is {self.psi}, but there is no graph along which values could be averaged; leave psi out, "
                    "or give a graph"
                )
            return PsiChoice(0, "there is no graph")
        if self.psi != "auto":
            return PsiChoice(self.psi, "it is set")
        method = self.choose_method(FLAT_UP_TO).method
        if method != "joint":
            return PsiChoice(FIXED_PSI, f'the method "{method}" does not search for it')
        if self.joint_rows == "coordinator":
            return PsiChoice(FIXED_PSI, 'joint_rows = "coordinator" does not search for it')
        if self.graph == "own":
            raise ParameterError(
                'psi: "auto" needs a graph that all parties share, to judge clusters by its edges; set psi to a number'
            )
        if self.clusters[1] == 1:
            raise ParameterError('psi: "auto" needs two clusters or more; set psi to a number')
        return PsiChoice(None, "the parties search for the value whose clusters predict held-out edges best")

    def local_clusters(self, n_parties: int) -> int:
        """Return the number of local clusters of each party for the methods that have local clusters."""
        asked, k = self.n_local_clusters, self.clusters[1]
        if asked is None:
            return max(2 * k if n_parties <= FLAT_UP_TO else k, 2)
        if isinstance(asked, str):
            number, multiple = re.fullmatch(r"([0-9]*)(k?)", asked.strip()).groups()  # type: ignore[union-attr]
            asked = int(number or 1) * (k if multiple else 1)
        if asked < 2:
            raise ParameterError(f"n_local_clusters: each party needs 2 local clusters or more, not {asked}")
        return asked

    def choose_method(self, n_parties: int) -> MethodChoice:
        """Return the method of a fit and the reason: for "auto", the best method that needs no acceptance.

        All roles compute the same choice, because it depends on nothing but the agreed settings and participants.

        Raises
        ------
        ParameterError
            If a setting is only for the method "joint", and another one excludes this method; or if the method
            "joint" is set, and with it a setting that it does not use.
        """
        changed = [name for name in _NOT_FOR_JOINT if getattr(self, name) != PARAMETERS[name].default]
        unused = "" if self.n_init == PARAMETERS["n_init"].default else "; it does not use n_init"
        if self.method == "joint" and changed:
            raise ParameterError(
                f'{changed[0]}: the method "joint" does not use {listed(changed, last="or")}; leave '
                f"{'them' if changed[1:] else 'it'} out, or set another method"
            )
        if isinstance(self.n_clusters, tuple):
            return self._choose_for_range(changed)
        if self.method != "auto":
            return MethodChoice(self.method, f"it is set{unused if self.method == 'joint' else ''}")
        if self.aggregator != "coordinator":
            changed = ["aggregator"]
            reason = 'a party aggregates, and "joint" needs a coordinator'
        elif changed:
            reason = f'"joint" does not use {listed(changed, last="or")}, which {"are" if changed[1:] else "is"} set'
        else:
            return MethodChoice("joint", f"it comes closest to the clusters of pooled columns{unused}")
        if self.joint_rows != PARAMETERS["joint_rows"].default:
            raise ParameterError(
                f'joint_rows: is only for the method "joint", but {reason}; set method, or leave joint_rows or '
                f"{changed[0]} out"
            )
        return MethodChoice(self.method_with_labels(n_parties), reason)

    def _choose_for_range(self, changed: list[str]) -> MethodChoice:
        """Return the method that compares several numbers of clusters: "joint", in shares."""
        check_range(*self.clusters)
        reason = ""
        if self.method not in ("auto", "joint"):
            reason = f'the method "{self.method}" would send new local labels for each of them'
        elif self.aggregator != "coordinator":
            reason = "a party aggregates, and only a coordinator can serve this"
        elif changed:
            reason = f'the method "joint" does not use {changed[0]}'
        elif self.joint_rows == "coordinator":
            reason = 'joint_rows is "coordinator"'
        elif self.graph == "own":
            reason = "the parties have no graph in common, by whose edges clusters could be judged"
        elif self.graph == NO_GRAPH:
            reason = "there is no graph, by whose edges clusters could be judged"
        if reason:
            raise ParameterError(
                f"n_clusters: a range of numbers cannot be compared here, because {reason}; set n_clusters to a "
                "number, or change that"
            )
        return MethodChoice("joint", "only this method compares several numbers of clusters")

    def method_with_labels(self, n_parties: int) -> Method:
        """Return the method of the settings or, for "auto", the one that "auto" takes among those with local labels."""
        if self.method != "auto":
            return self.method
        return "cells" if n_parties <= FLAT_UP_TO else "tree"

    def resolve(self, n_parties: int, graph_filter: Filter | None = None) -> Parameters:
        """Return the parameters of a fit by `n_parties` parties; `graph_filter` replaces the filter of the settings."""
        method, chosen = self.choose_method(n_parties).method, graph_filter or self.graph_filter()
        least, most = self.clusters
        resolved = {
            "method": method,
            "n_clusters": least,
            "most_clusters": most if isinstance(self.n_clusters, tuple) else 0,
            "n_local_clusters": 0 if method in ("basic", "joint") else self.local_clusters(n_parties),
            "filter": repr(chosen),
            "orders": PSI_GRID if isinstance(chosen, SearchedFilter) else (),
            # k and not k̂, which Protocol 1 prints: further directions are mostly noise, and "U" gives them the same
            # weight as the first. At k̂ = 8k the paper's figures need k of them (Cora 68, the paper 70; 53 with k̂).
            "n_components": self.n_components or (joint_components(most) if method == "joint" else most),
        }
        unchanged = {name: getattr(self, name) for name in PARAMETERS if name in _RESOLVED}
        return Parameters(**(unchanged | resolved))


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of one session, without anything left open: all roles hold the same, and sign them."""

    task: Annotated[
        Task,
        _about(
            '"fit" finds clusters, "predict" assigns new nodes to them, "match" finds the ids that all parties have, '
            '"count" only counts these.'
        ),
    ] = "fit"
    method: Method
    n_clusters: _Count
    most_clusters: Annotated[
        int,
        Meta(ge=0),
        _about("Largest number of clusters, if the session compares all numbers from n_clusters on; otherwise 0."),
    ] = 0
    orders: Annotated[
        tuple[_Count, ...],
        Meta(max_length=32),
        _about("Orders of the graph filter that the parties compare; empty if the order is set."),
    ] = ()
    joint_rows: JointForm = "shares"
    n_local_clusters: Annotated[int, Meta(ge=0)]  # 0 for methods without local clusters
    min_local_size: _Count
    filter: str
    n_components: _Count
    scaling: Scaling
    unit: _Positive
    virtual_nodes: VirtualNodes
    fan_in: Annotated[int, Meta(ge=2)]
    aggregator: AggregatorKind
    max_iter: _Count
    n_init: _Count
    graph: GraphSharing
    model: Annotated[str, _about("Session of the fit that a prediction continues.")] = ""

    @property
    def has_local_clusters(self) -> bool:
        """Whether parties send local labels."""
        return self.method in ("cells", "tree")

    def check(self) -> None:
        """Raise `ParameterError` for a value that no session can have."""
        for name, parameter in _RESOLVED.items():
            parameter.check(getattr(self, name))
        if self.method == "joint" and self.aggregator != "coordinator":
            raise ParameterError(
                'aggregator: the method "joint" needs a coordinator: a party as aggregator could read the rows of the '
                "others; use a coordinator, or another method"
            )
        if (self.orders or self.most_clusters) and (
            self.method != "joint" or self.joint_rows != "shares" or self.graph != "shared"
        ):
            raise ParameterError('orders: only the method "joint" in shares, on a shared graph, compares settings')
        if self.most_clusters:
            check_range(self.n_clusters, self.most_clusters)
        if self.graph == NO_GRAPH and self.filter != repr(HalfFilter(0)):
            raise ParameterError(f"filter: must be {HalfFilter(0)!r} in a session without a graph, not {self.filter}")
        if self.task == "fit" and self.has_local_clusters and self.n_local_clusters < 2:
            raise ParameterError(f"n_local_clusters: must be a whole number, 2 or more, not {self.n_local_clusters}")


PARAMETERS: dict[str, Parameter] = declared(RunSettings)
_RESOLVED: dict[str, Parameter] = declared(Parameters)


def describe_parameter(name: str) -> str:
    """Return the description of a setting or of a parameter of a session; empty for an unknown name."""
    found = PARAMETERS.get(name) or _RESOLVED.get(name)
    return found.meaning if found else ""


def settings_of(estimator: Any, graph: GraphSharing) -> tuple[RunSettings, Filter]:
    """Return the settings and the filter of an estimator, whose `filter` may also be a `Filter`."""
    values = {name: getattr(estimator, name) for name in PARAMETERS if name != "graph"}
    own = values["filter"]
    if isinstance(own, Filter):
        del values["filter"], values["psi"]
    settings = RunSettings.read(values | {"graph": graph})
    if isinstance(own, Filter) and graph == NO_GRAPH:
        raise ParameterError(
            f"filter: {own!r} needs a graph, and there is none; leave filter out, or give adjacency=..."
        )
    return settings, own if isinstance(own, Filter) else settings.graph_filter()


def draw_seed(random_state: Any) -> int:
    """Return the seed of the parties' common choices."""
    return int(random_from(random_state).randint(np.iinfo(np.int32).max))
