"""The checks of `kcagc check`: keys, certificate, policy, journal, data, earlier sessions and connectivity."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kcagc.deploy.agreed import ProposalFolder
from kcagc.deploy.run import RoleRun
from kcagc.disclosure.texts import REVEALING_LABELS
from kcagc.errors import DataError, KcagcError, PeerTimeoutError, RejectedError, SessionError
from kcagc.net.probe import probe
from kcagc.net.tls import split_address
from kcagc.protocol.label_policy import check_labels, describe_column, describe_width
from kcagc.protocol.local import LocalLabels, LocalResult, compute_local, labels_key
from kcagc.protocol.messages import restore
from kcagc.protocol.parameters import NO_GRAPH
from kcagc.protocol.plan import risks
from kcagc.runtime.journal import Journal
from kcagc.text import count, listed

_Result = tuple[str, tuple[str, ...]]  # what was found, and warnings
_SHOWN = 3  # columns that local labels predict best
_UNNAMED = (
    "rows have no ids and there is no graph: nothing can check that row i is the same node at every party; name the "
    "column that holds ids (id_column)"
)
_SOON = 14  # days before the end of a certificate at which to warn


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    check: str
    message: str
    error: KcagcError | None = None
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether a run is possible with it."""
        return self.error is None

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as a row for scripts."""
        code = 0 if self.error is None else self.error.exit_code
        row = {"check": self.check, "ok": self.ok, "message": self.message, "exit_code": code}
        problems = self.error.problems if isinstance(self.error, DataError) else ()
        return {**row, "warnings": list(self.warnings), "problems": list(problems)}


def run_checks(
    run: RoleRun, *, connect: bool = True, begin: Callable[[str], None] = lambda _: None
) -> Iterator[Finding]:
    """Run all checks, also after one has failed; no data leave this machine.

    `begin` is called with the name of each check before it runs.
    """
    checks: list[tuple[str, Callable[[RoleRun], _Result]]] = [
        ("identity", _identity),
        ("certificate", _certificate),
        ("method", _method),
        *([("approval", _approval)] if run.config.document.approval.required else []),
        ("policy", _policy),
        ("journal", _journal),
    ]
    if run.config.role == "party":
        checks += [("data", _data), ("sessions", _sessions)]
        if run.agreement.parameters.task == "fit" and run.agreement.parameters.has_local_clusters:
            checks.append(("labels", _labels))
    if connect:
        checks.append(("network", _listen if run.config.listens else _connect))
    failed = set()
    for name, check in checks:
        if name in ("sessions", "labels") and "data" in failed:  # they need them
            continue
        begin(name)
        try:
            message, warnings = check(run)
        except KcagcError as error:
            failed.add(name)
            yield Finding(name, str(error), error)
        else:
            yield Finding(name, message, None, warnings)


def _identity(run: RoleRun) -> _Result:
    message = f"{run.identity.public.hex()[:16]}…, the key that [[participants]] lists for {run.config.me}"
    return message, _readable_by_others(run.config.file(run.config.document.me.identity))


def _certificate(run: RoleRun) -> _Result:
    found = run.config.credentials()
    soon = (f"{found.certificate_file}: {found.days_left} days left",) if found.days_left < _SOON else ()
    return f"for {', '.join(sorted(found.names))}, {found.days_left} days left", (*found.warnings, *soon)


def _method(run: RoleRun) -> _Result:
    fitted = f"{run.agreement.parameters.method}, as in the fit"
    if run.model is not None:
        return fitted, ()
    return f"{run.config.method_choice()}; psi is {run.config.psi_choice()}", ()


def _approval(run: RoleRun) -> _Result:
    """Find out, from the folder of this role alone, whether the next run has an approved proposal."""
    folder = ProposalFolder.of(run.config)
    folder.require_not_revoked()
    found, reason = folder.for_next_run(run.config.me, run.agreement.parameters.task, time.time())
    if found is None:
        return "the next run needs a proposal that all approve (kcagc propose, kcagc approve)", (reason,)
    return f"all have approved proposal {found.proposal.number} of {found.proposal.proposer}", ()


def _policy(run: RoleRun) -> _Result:
    if run.config.role != "party":
        return "a coordinator has no data to disclose", ()
    opened = risks(run.agreement)
    run.config.policy().check(opened)
    return f"accepts {listed(opened)}, which this run needs" if opened else "this run needs no entry in the policy", ()


def _journal(run: RoleRun) -> _Result:
    if not run.journal.exists():
        return "no run so far", ()
    journal = Journal(run.journal)
    try:
        messages = {
            "new": "no run so far",
            "running": "a run was interrupted: the same command resumes it",
            "finished": "the run has finished; to start another, restart all roles with --new-session",
            "failed": f"the last run ended with: {journal.failure}",
        }
        return messages[journal.status], _readable_by_others(run.journal)
    finally:
        journal.close()


def _data(run: RoleRun) -> _Result:
    run.check_data()
    data = run.data
    if data is None:
        raise SessionError(f"{run.config.me}: has no data")
    nodes, columns = data.features.shape
    ids = "called by their row number" if data.graph.ids is None else f"whose ids are {data.graph.ids.kind}"
    made, notes = _columns_and_nodes(run, columns)
    if run.agreement.parameters.graph == NO_GRAPH:
        unnamed = (_UNNAMED,) if data.graph.ids is None else ()
        return f"{nodes:,} nodes {ids}, {made}, no graph", (*notes, *unnamed)
    alone = int((data.graph.adjacency.indptr[1:] == data.graph.adjacency.indptr[:-1]).sum())
    warnings = (f"{count(alone, 'node')} without edges: only features decide the cluster",) if alone else ()
    return f"{nodes:,} nodes {ids}, {made}, {data.graph.n_edges:,} edges", (*notes, *warnings)


def _sessions(run: RoleRun) -> _Result:
    run.check_sessions()
    if run.kept is None:
        return "a prediction sends no local labels", ()
    with_data, with_parties = run.kept.counts().values()
    return f"sessions with these data so far: {with_data} ({with_parties} with the same parties)", ()


def _labels(run: RoleRun) -> _Result:
    """Measure what the local labels would reveal: those of an earlier session, which a run sends again, or new ones."""
    data, me, parameters = run.data, run.config.me, run.agreement.parameters
    if data is None:
        raise SessionError(f"{me}: has no data")
    kept = None if run.kept is None else run.kept.load(labels_key(data, parameters))
    local: LocalLabels | LocalResult = (
        compute_local(data, parameters, run.seed) if kept is None else msgspec.msgpack.decode(kept, type=LocalLabels)
    )
    if local.measurement is None:
        return "this method has none", ()
    found, smallest = local.measurement, int(np.bincount(restore(local.stored_labels)).min())
    kind = check_labels(me, found, local.whole, data.columns, run.config.policy())
    clusters = f"{local.n_clusters} local clusters of {smallest:,} nodes or more"
    verdict = "may be sent" if kind == "labels" else f"need {REVEALING_LABELS}, which the policy accepts"
    if not found.n_columns:
        return f"{clusters}; they {verdict}: too few nodes to measure what they reveal", ()
    shown = tuple(describe_column(one, data.columns) for one in found.columns[:_SHOWN])
    return f"{clusters}; they {verdict}", (describe_width(found), *shown)


def _columns_and_nodes(run: RoleRun, columns: int) -> _Result:
    """Describe what became of the columns, and which rows and edges the node list leaves out."""
    found = {} if run.input is None else run.input.summary()
    read = found.get("columns_read", columns)
    made = f"{columns:,} columns" if read == columns else f"{read:,} columns that became {columns:,}"
    if found.get("columns_weighted"):
        made += f" ({found['columns_weighted']:,} weighted by inverse document frequency)"
    if found.get("nodes") != "list":
        return made, ()
    left, filled, edges = (found[name] for name in ("rows_left_out", "rows_filled_in", "edges_left_out"))
    notes = (
        (left, f"{left:,} rows are left out: their nodes are not in node_list"),
        (filled, f"{filled:,} nodes of node_list have no row here: all their values count as missing"),
        (edges, f"{edges:,} edges are left out: they lead to nodes that are not in node_list"),
    )
    return made, tuple(line for count, line in notes if count)


def _connect(run: RoleRun) -> _Result:
    config, aggregator = run.config, run.agreement.aggregator
    found = probe(config.document.network.address, config.credentials(), config.tls_names()[aggregator], 5.0)
    if found.accepted:
        return found.message, ()
    raise (PeerTimeoutError if found.transient else RejectedError)(found.message)


def _listen(run: RoleRun) -> _Result:
    listen = run.config.document.network.listen
    host, port = split_address(listen, "network.listen", any_port=True)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family[0], family[1]) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(family[4])
    except OSError as error:
        raise KcagcError(f"cannot listen on {listen}: {error.strerror or error}") from error
    return f"{listen} is free to listen on", ()


def _readable_by_others(path: Path) -> tuple[str, ...]:
    try:
        mode = path.stat().st_mode & 0o077
    except OSError:
        return ()
    return (f"{path}: other users of this machine can read it; run: chmod 600 {path}",) if mode else ()
