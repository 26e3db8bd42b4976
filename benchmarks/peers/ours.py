"""The job with kcagc: parties and coordinator as processes over gRPC with mutual TLS, without a filter."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.harness import UNLIMITED, run_roles
from benchmarks.peers.job import Job
from experiments.paper.network.measure import common_labels, figures_of, parties_of
from experiments.paper.network.roles import MeasuredRole
from experiments.paper.network.stopwatch import Stopwatch, run_installed
from kcagc.datasets.dataset import Dataset

_ROLE_FUNCTION = "benchmarks.peers.ours:run_role"


def settings_of(job: Job, method: str, n_parties: int) -> dict[str, Any]:
    """Return the settings of a session on unchanged features: no filter, all directions, one restart."""
    chosen = {
        "n_clusters": job.n_clusters,
        "psi": 0,
        "method": method,
        "n_components": -(-job.rows.shape[1] // n_parties),
        "scaling": "US",
        "unit": 4.0,  # squared distances of one party are below 200, and must be at most 32 in this unit
        "n_init": 1,
        "max_iter": job.n_iterations,
        "random_state": 0,
    }
    return chosen if method == "basic" else chosen | {"n_local_clusters": "k"}


def dataset_of(job: Job) -> Dataset:
    """Return the job's rows as the nodes of a graph without edges."""
    n = len(job.rows)
    return Dataset("job", sparse.csr_array((n, n)), job.rows, np.zeros(n, dtype=np.int64), job.n_clusters)


def run(
    job: Job, method: str, n_parties: int, *, counted: bool = False
) -> tuple[dict[str, Any], np.ndarray, list[int]]:
    """Return the figures, the labels, and the initial centres of the parties (for the basic method)."""
    settings = settings_of(job, method, n_parties)
    runs = run_roles(dataset_of(job), n_parties, settings, UNLIMITED if counted else None, function=_ROLE_FUNCTION)
    parties = parties_of(runs)
    return figures_of(runs), common_labels(parties), _start(parties)


def _start(parties: list[MeasuredRole]) -> list[int]:
    starts = {tuple(detail) for one in parties for _, what, detail in one.events if what == "start"}
    if len(starts) > 1:
        raise RuntimeError("the parties used different initial centres")
    return list(starts.pop()) if starts else []


def run_role(plan: dict[str, Any]) -> int:
    """Run a role with a stopwatch that also records the initial centres; return its exit code."""
    from kcagc.protocol import fit  # noqa: PLC0415

    watch = Stopwatch()
    watch.install()
    agreed = fit._agreed_starts

    def noted(*values: Any) -> Any:
        found = agreed(*values)
        watch.note("start", found[0].tolist())
        return found

    fit._agreed_starts = noted
    return run_installed(watch, plan)
