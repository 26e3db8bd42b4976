"""Finished runs of a role: their report, their stored summary, and the erasure of journals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from kcagc.data.files import PRIVATE, write_text
from kcagc.data.fitted_rules import FittedRules
from kcagc.deploy.audit import LAST_AUDIT, write_audit
from kcagc.deploy.config import Config
from kcagc.deploy.interrupts import until_stopped
from kcagc.deploy.run import Kind, RoleRun, erase_journal, journal_path, result_files, stored_summary
from kcagc.errors import KcagcError, SessionError
from kcagc.protocol.effects import REPORT_STAGE, Progress
from kcagc.protocol.parameters import NO_GRAPH
from kcagc.report.folder import CLUSTERS, NODES, REPORT
from kcagc.report.insights.description import Description, Insights
from kcagc.report.insights.measures import Units
from kcagc.report.page import write_page
from kcagc.runtime.client import close_finished_session
from kcagc.runtime.driver import Watcher
from kcagc.runtime.durable import RECEIPTS
from kcagc.runtime.journal import InvalidJournalError, Journal, changed_inputs, remove
from kcagc.runtime.kept import KEPT, erase_kept

logger = logging.getLogger(__name__)

_STEPS = 8  # labels, top features, nodes, quality, map, files, own columns, page
_CLOSE_TIMEOUT = 3.0  # seconds to reach an aggregator that may still wait for the end of this party's stream


def write_report(run: RoleRun, result: Any = None, *, watcher: Watcher | None = None) -> None:
    """Write the page and the description of the clusters; without a result, write the page if it is not there.

    The labels are written before this. An error here becomes a line in the log and does not fail the run.
    """

    steps: list[str] = []

    def progress(step: str) -> None:
        steps.append(step)
        logger.debug("writing the report: %s", step)
        if watcher is not None:
            watcher(run.config.me, Progress(REPORT_STAGE, min(len(steps), _STEPS), _STEPS))

    try:
        if result is not None:
            progress("labels")
            describe_clusters(run, result, progress=progress)
            progress("own columns")
            compare_alone(run, result)
        elif (run.files.folder / REPORT).exists():
            return
        progress("page")
        write_page(run.files.folder)
    except Exception as error:
        why = str(error) or type(error).__name__
        folder = run.files.folder
        logger.warning(
            "the report could not be written: %s. The results are complete; try: kcagc report %s", why, folder
        )


def complete_folder(
    run: RoleRun,
    summary: dict[str, Any],
    receipts: bytes | None,
    results: list[Any],
    *,
    watcher: Watcher | None = None,
) -> dict[str, Any]:
    """Write the report of a result, if there is one, and the signed audit file; return the summary with its additions.

    The session is over by then, so no role waits for this one.
    """
    if results:
        write_report(run, results[0], watcher=watcher)
        with contextlib.suppress(OSError, ValueError):  # it has added what own columns alone would have found
            summary = json.loads(run.files.summary.read_text(encoding="utf-8"))
    if receipts is not None:
        try:
            write_audit(run, receipts)
        except OSError as error:
            logger.warning(
                "%s: the audit file could not be written: %s. Run the same command again", run.files.folder, error
            )
    return summary


def describe_clusters(run: RoleRun, result: Any, *, progress: Callable[[str], None] = lambda _: None) -> None:
    """Write `clusters.json` and `nodes.npz`, from which page and explanations can be made without the data."""
    data, share = run.data, run.share(result)
    if data is None or share is None:
        return
    new, ids = run.new_rows, data.graph.ids
    found = Insights.of(
        Description(
            labels=result.labels,
            n_clusters=run.agreement.parameters.n_clusters,
            table=data.features if new is None else data.features[new],
            columns=None if run.input is None else run.input.columns,
            weights=None if run.input is None else run.input.weights,
            rows=result.rows,
            confidence=None,
            graph=data.graph if new is None and run.agreement.parameters.graph != NO_GRAPH else None,
            ids=ids if new is None or ids is None else ids.take(new),
            party=run.config.me,
            centers=share.centers,
            center_clusters=share.clusters,
            units=_units(run),
        ),
        progress=progress,
    )
    progress("files")
    found.nodes.save(run.files.folder / NODES)
    text = json.dumps(found.clusters, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    write_text(run.files.folder / CLUSTERS, text + "\n", mode=PRIVATE)


def compare_alone(run: RoleRun, result: Any) -> None:
    """Add to `run.json` what this party's own columns would have found alone; nothing is sent."""
    data, rows = run.data, getattr(result, "rows", None)
    if data is None or rows is None or run.model is not None:
        return
    from kcagc.report.insights.worth import Together, compare_with_own  # noqa: PLC0415 - only a party's fit needs it

    logger.info("comparing with the clusters of own columns alone")
    parameters = run.agreement.parameters
    clusters, graph = (result.labels, parameters.n_clusters), data.graph if parameters.graph != NO_GRAPH else None
    found = compare_with_own(Together(*clusters, rows, parameters.method, graph, result.restarts))
    if found is not None:
        summary = json.loads(run.files.summary.read_text(encoding="utf-8")) | {"worth": found.as_dict()}
        text = json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False)
        write_text(run.files.summary, text + "\n", mode=PRIVATE)


def _units(run: RoleRun) -> Units | None:
    """Return how the party's numbers become numbers in the units of its file."""
    rules = None if run.input is None else run.input.preprocessing
    return Units.of(rules) if isinstance(rules, FittedRules) else None


def finished_summary(run: RoleRun, journal: Journal, *, report: bool) -> dict[str, Any]:
    """Return the summary of a finished run; if the aggregator may still wait, close the stream to it."""
    _check_unchanged(run, journal)
    logger.info("this run has finished already. To start another, restart all roles with --new-session")
    if not run.config.listens:
        address = run.config.document.network.address
        closing = close_finished_session(run.endpoint, run.credentials, address, journal, _CLOSE_TIMEOUT)
        asyncio.run(until_stopped(closing))
    if report:
        write_report(run)
    return complete_folder(run, stored_summary(journal), journal.fact(RECEIPTS), [])


def _check_unchanged(run: RoleRun, journal: Journal) -> None:
    """Raise an error if the data or the configuration changed after the run had finished."""
    try:
        now = run.made_from
    except KcagcError as error:
        logger.warning("the inputs of the finished run cannot be compared: %s", error)
        return
    changed = [name for name in changed_inputs(journal, now) if name in ("the data", "the configuration")]
    if changed:
        then = stored_summary(journal).get("parameters", {})
        present = msgspec.json.decode(msgspec.json.encode(run.agreement.parameters))  # lists, as in the summary
        named = [
            f"{name}: {then.get(name)!r}, now {value!r}" for name, value in present.items() if then.get(name) != value
        ]
        details = f" ({'; '.join(named)})" if named else ""
        raise SessionError(
            f"{run.journal}: the run has finished, and {' and '.join(changed)} changed since{details}. Start all "
            "roles with --new-session, or undo the change to see its results"
        )


def forget_journals(config: Config) -> list[Path]:
    """Overwrite and remove the journals and kept results of a role, and return their paths.

    The ledgers of journals stay among the results.
    """
    erased = []
    kinds: tuple[Kind, ...] = ("fit", "predict", "match")
    for kind in kinds:
        path = journal_path(config, kind)
        if not path.exists():
            continue
        with contextlib.suppress(InvalidJournalError):  # a damaged journal has nothing to find and overwrite
            journal = Journal(path)
            try:
                erase_journal(journal, result_files(config, kind))
            finally:
                journal.close()
        remove(path)
        erased.append(path)
    journal_path(config, "fit").with_name(LAST_AUDIT).unlink(missing_ok=True)
    if erase_kept(folder := journal_path(config, "fit").with_name(KEPT)):
        erased.append(folder)
    return erased
