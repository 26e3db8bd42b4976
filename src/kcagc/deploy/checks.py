"""Everything that can be found out before a run: keys, data, policy, and whether others can be reached."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kcagc.deploy.run import RoleRun
from kcagc.errors import KcagcError, PeerTimeoutError, RejectedError, SessionError
from kcagc.net.address import split_address
from kcagc.net.probe import Kind, probe
from kcagc.protocol.plan import risks
from kcagc.runtime.journal import Journal


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: how it is, and the error if it is not well."""

    what: str
    words: str
    error: KcagcError | None = None
    warnings: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether a run can go on with it."""
        return self.error is None


def check(run: RoleRun, *, reach: bool = True) -> Iterator[Finding]:
    """Look at one thing after the other, and go on where one is not well; nothing about data leaves this machine."""
    looks: list[tuple[str, Callable[[RoleRun], tuple[str, tuple[str, ...]]]]] = [
        ("identity", _identity),
        ("certificate", _certificate),
        ("policy", _policy),
        ("journal", _journal),
    ]
    if run.config.role == "party":
        looks.append(("data", _data))
    if reach:
        looks.append(("network", _port if run.config.listens else _reach))
    for what, look in looks:
        try:
            words, warnings = look(run)
        except KcagcError as error:
            yield Finding(what, str(error), error)
        else:
            yield Finding(what, words, None, warnings)


def _identity(run: RoleRun) -> tuple[str, tuple[str, ...]]:
    path = run.config.file(run.config.document.me.identity)
    return f"{run.identity.public.hex()[:16]}…, the key that the roles list for {run.config.me}", _open_to_others(path)


def _certificate(run: RoleRun) -> tuple[str, tuple[str, ...]]:
    found = run.config.credentials()
    soon = (f"{found.certificate_file}: {found.days_left} days left",) if found.days_left < 14 else ()
    words = f"for {', '.join(sorted(found.names))}, {found.days_left} days left"
    return words, (*found.warnings, *soon)


def _policy(run: RoleRun) -> tuple[str, tuple[str, ...]]:
    if run.config.role != "party":
        return "a coordinator discloses nothing of its own", ()
    run.config.policy().check(risks(run.agreement))
    opened = risks(run.agreement)
    return f"accepts {', '.join(opened)}, which this run opens" if opened else "nothing opens beyond the default", ()


def _journal(run: RoleRun) -> tuple[str, tuple[str, ...]]:
    if not run.journal.exists():
        return "no run so far", ()
    journal = Journal(run.journal)
    try:
        words = {
            "new": "no run so far",
            "running": "a run was interrupted: the same command goes on with it",
            "finished": "the run has finished; --new-session starts another, if all roles are given it",
            "failed": f"the last run ended with: {journal.why}",
        }
        return words[journal.status], _open_to_others(run.journal)
    finally:
        journal.close()


def _data(run: RoleRun) -> tuple[str, tuple[str, ...]]:
    run.check_data()
    data = run.data
    if data is None:
        raise SessionError(f"{run.config.me}: has no data")
    nodes, columns = data.features.shape
    ids = "called by their row number" if data.graph.ids is None else f"whose ids are {data.graph.ids.kind}"
    alone = int((data.graph.adjacency.indptr[1:] == data.graph.adjacency.indptr[:-1]).sum())
    warnings = (f"{alone:,} nodes have no edge: they are clustered by their features alone",) if alone else ()
    words, notes = _prepared(run, columns)
    return f"{nodes:,} nodes {ids}, {words}, {data.graph.n_edges:,} edges", (*notes, *warnings)


def _prepared(run: RoleRun, columns: int) -> tuple[str, tuple[str, ...]]:
    """Say what became of the columns, and which nodes take part."""
    found = {} if run.input is None else run.input.told()
    read = found.get("columns_read", columns)
    words = f"{columns:,} columns" if read == columns else f"{read:,} columns that became {columns:,}"
    if found.get("nodes") != "list":
        return words, ()
    left, filled, edges = (found[name] for name in ("rows_left_out", "rows_filled_in", "edges_left_out"))
    told = (
        (left, f"{left:,} rows of other nodes than those of node_list are left out"),
        (filled, f"{filled:,} nodes of node_list have no row here: everything about them counts as missing"),
        (edges, f"{edges:,} edges to other nodes than those of node_list are left out"),
    )
    return words, tuple(line for count, line in told if count)


def _reach(run: RoleRun) -> tuple[str, tuple[str, ...]]:
    config, aggregator = run.config, run.agreement.aggregator
    found = probe(config.document.network.address, config.credentials(), config.tls_names()[aggregator], 5.0)
    if found.accepted:
        return found.words, ()
    waiting = {Kind.REFUSED, Kind.UNREACHABLE, Kind.NAME_UNKNOWN, Kind.SILENT, Kind.CLOSED}
    raise (PeerTimeoutError if found.kind in waiting else RejectedError)(found.words)


def _port(run: RoleRun) -> tuple[str, tuple[str, ...]]:
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


def _open_to_others(path: Path) -> tuple[str, ...]:
    try:
        mode = path.stat().st_mode & 0o077
    except OSError:
        return ()
    return (f"{path}: others on this machine can read it; chmod 600 mends that",) if mode else ()


def as_row(finding: Finding) -> dict[str, Any]:
    """Give a finding for scripts."""
    code = 0 if finding.error is None else finding.error.exit_code
    row = {"what": finding.what, "ok": finding.sound, "words": finding.words, "exit_code": code}
    return {**row, "warnings": list(finding.warnings)}
