"""The measurement of one run, from the connection of all roles until every party has the labels.

The time starts when the last party is admitted. At that moment all roles have read their files and are connected, and
no party has computed anything: a party starts its local work after the hellos of all parties, which need the last
connection. The time ends when the last party knows the labels, knows that all others have the same labels, and has
stored this in its journal. It contains the whole protocol: hellos, comparison of data, local work, local labels, sums,
receipts. Files are read before it, and results are written after it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from experiments.paper.network.critical_path import critical_path, summed_up, table
from experiments.paper.network.fork_server import ForkServer
from experiments.paper.network.relay import Network
from experiments.paper.network.roles import ROLE_FUNCTION, MeasuredRole, MeasuredRun, warmed
from kcagc.datasets import load
from kcagc.datasets.catalog import EMBEDDED, entry
from kcagc.datasets.dataset import Dataset
from kcagc.disclosure.texts import LABELLED_SUMS, REVEALING_LABELS
from kcagc.metrics import accuracy
from kcagc.secagg.masks import TWO_PARTY_SUM

_PATIENCE = 3600.0


def default_settings(local_clusters: int | str | None = "k", **changes: Any) -> dict[str, Any]:
    """Return the default settings; the number of clusters and ψ come with the dataset.

    Many parties have few columns each, and their labels reveal some of them: that is accepted, the data are public.
    """
    return {"n_local_clusters": local_clusters, "accept": [REVEALING_LABELS], **changes}


def paper_settings(n_clusters: int, local_clusters: int | str = "k", **changes: Any) -> dict[str, Any]:
    """Return the paper's configuration: U, k components, binary tree, ten iterations, the last party as aggregator."""
    return {
        "n_local_clusters": local_clusters,
        "n_components": n_clusters,
        "scaling": "U",
        "fan_in": 2,
        "aggregator": "party",
        "accept": [TWO_PARTY_SUM, LABELLED_SUMS, REVEALING_LABELS],
        "min_local_size": 1,
        "max_iter": 10,
        **changes,
    }


def measure(
    dataset: str | Dataset,
    n_parties: int,
    settings: dict[str, Any],
    network: Network | None,
    *,
    fork_server: ForkServer | None = None,
    trace: bool = False,
    patience: float = _PATIENCE,
    function: str = ROLE_FUNCTION,
) -> dict[str, Any]:
    """Run all roles as processes on links of a network (None: without a relay) and return the figures.

    `settings` are those of `[session]` in a configuration, with `accept` and `random_state`; `n_clusters` and `psi`
    come with a public graph. Many runs share a `fork_server` (see `roles.warmed`). With `trace`, the result also has
    the events of every role (messages sent, received and stored, in seconds since the start), and the critical path as
    a table.
    """
    if fork_server is None:
        with warmed() as own:
            return measure(
                dataset,
                n_parties,
                settings,
                network,
                fork_server=own,
                trace=trace,
                patience=patience,
                function=function,
            )
    data = load(dataset) if isinstance(dataset, str) else dataset
    chosen = complete(data, settings)
    with tempfile.TemporaryDirectory() as folder:
        roles = MeasuredRun(Path(folder), data, n_parties, chosen, function=function).run(
            fork_server, network, patience
        )
    figures: dict[str, Any] = {
        "dataset": data.name,
        "parties": n_parties,
        "network": "none" if network is None else network.name,
        "settings": chosen,
        "accuracy": round(accuracy(data.labels, common_labels(parties_of(roles))), 4),
        **figures_of(roles),
    }
    if trace:
        start_time, _ = interval(roles)
        figures["path"] = table(critical_path(roles, start_time))
        figures["trace"] = {
            one.name: [[round(at - start_time, 5), what, detail] for at, what, detail in one.events] for one in roles
        }
    return figures


def complete(data: Dataset, settings: dict[str, Any]) -> dict[str, Any]:
    """Add the number of clusters and ψ of a dataset to the settings."""
    chosen = {"n_clusters": data.n_classes, **settings}
    if "psi" not in chosen:
        chosen["psi"] = 2 if data.name == EMBEDDED else entry(data.name).paper.psi
    return chosen


def figures_of(roles: list[MeasuredRole]) -> dict[str, Any]:
    """Return the figures of a run, from the events and results of its roles."""
    parties = parties_of(roles)
    start_time, ended = interval(roles)
    return {
        "seconds": round(ended - start_time, 4),
        "rounds": sequential_rounds(parties),
        "sums": sum(merge["rounds"] for merge in merges_of(parties).values()),
        "critical_path": summed_up(critical_path(roles, start_time)),
        "bytes_sent": {one.name: one.summary["bytes_sent"] for one in roles},
        "bytes_on_link": {one.name: [count.passed for count in one.link] for one in roles if one.link},
        "local_seconds": {one.name: round(_spent(one, "local"), 4) for one in parties},
        "local_cpu_seconds": {one.name: round(_detail(one, "local ends"), 4) for one in parties},
        "commits": {one.name: _commits(one, start_time, ended) for one in roles},
        "reading_seconds": {one.name: round(_spent(one, "read"), 4) for one in parties},
        "seconds_to_the_end": round(max(one.when("ended")[-1] for one in roles) - ended, 4),
        "cpu_seconds": {one.name: round(one.cpu, 3) for one in roles},
        "peak_megabytes": {one.name: round(one.peak / 1e6, 1) for one in roles},
    }


def parties_of(roles: list[MeasuredRole]) -> list[MeasuredRole]:
    """Return the roles with data."""
    return [one for one in roles if one.labels is not None]


def common_labels(parties: list[MeasuredRole]) -> np.ndarray:
    """Return the cluster of each node, on which all parties must agree."""
    first, *others = parties
    for one in others:
        if not np.array_equal(one.labels, first.labels):
            raise RuntimeError(f"{one.name} has other labels than {first.name}")
    return first.labels


def interval(roles: list[MeasuredRole]) -> tuple[float, float]:
    """Return when the last party connected, and when the last party had its labels; check that no work came earlier."""
    start_time = max(moment for one in roles for moment in one.when("connected"))
    ended = max(one.when("labels")[-1] for one in roles if one.labels is not None)
    for one in roles:
        if any(moment < start_time for moment in one.when("local begins")):
            raise RuntimeError(f"{one.name} began its local work before all were connected")
        if any(moment > start_time for moment in one.when("read ends")):
            raise RuntimeError(f"{one.name} read its files after all were connected")
    return start_time, ended


def sequential_rounds(parties: list[MeasuredRole]) -> int:
    """Count sequential rounds: merges of one layer run in parallel, layers one after the other."""
    longest: dict[int, int] = {}
    for merge in merges_of(parties).values():
        longest[merge["layer"]] = max(longest.get(merge["layer"], 0), merge["rounds"])
    return sum(longest.values())


def merges_of(parties: list[MeasuredRole]) -> dict[str, dict[str, Any]]:
    """Return every merge of a run once, by its group."""
    return {merge["group"]: merge for one in parties for merge in one.summary["merges"]}


def _spent(one: MeasuredRole, what: str) -> float:
    return sum(one.when(f"{what} ends")) - sum(one.when(f"{what} begins"))


def _detail(one: MeasuredRole, what: str) -> float:
    return sum(detail for _, event, detail in one.events if event == what)


def _commits(one: MeasuredRole, start_time: float, ended: float) -> list[float]:
    """Return the number of commits of a role in the interval, and their seconds."""
    taken = [seconds for at, event, seconds in one.events if event == "commit" and start_time <= at <= ended]
    return [len(taken), round(sum(taken), 4)]
