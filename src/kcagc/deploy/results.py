"""The result folder of a role: labels, model, ledger and summary of a run."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.data.files import PRIVATE, write_labels, write_text
from kcagc.data.party_files import PartyInput
from kcagc.deploy.fingerprints import versions
from kcagc.deploy.saved_model import SavedModel
from kcagc.disclosure import Disclosure, Ledger
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds
from kcagc.protocol.aggregator import AggregatorResult
from kcagc.protocol.agreement import Agreement
from kcagc.protocol.fit import FitResult, MergeReport
from kcagc.protocol.predict import PredictResult


@dataclass(frozen=True)
class ResultFiles:
    """The files that a run leaves in its result folder."""

    folder: Path
    labels: Path
    ledger: Path
    model: Path
    summary: Path

    @classmethod
    def of(cls, folder: Path, labels: str) -> ResultFiles:
        """Return the files in `folder`; the configuration names only that of the labels."""
        return cls(folder, *(folder / name for name in (labels, "ledger.jsonl", "model.kcagc", "run.json")))


def write_results(
    files: ResultFiles,
    name: str,
    agreement: Agreement,
    result: Any,
    disclosed: list[tuple[float, Disclosure]],
    graph: Graph | None,
    rows: IntArray | None,
    confidence: FloatArray | None = None,
    brought: PartyInput | None = None,
) -> dict[str, Any]:
    """Write all files of a finished run and return its summary; each file is complete or absent."""
    files.folder.mkdir(parents=True, exist_ok=True)
    summary = summary_of(name, agreement, result, disclosed)
    if brought is not None:
        summary["data"] = brought.summary()
    written = {"ledger": files.ledger}
    write_ledger(files, disclosed)
    if isinstance(result, FitResult) and graph is not None:
        write_labels(files.labels, graph.ids, result.labels, confidence=confidence, mode=PRIVATE)
        table = None if brought is None else brought.preprocessing
        SavedModel.of_party(result.model, graph, table).save(files.model)
        written |= {"labels": files.labels, "model": files.model}
    elif isinstance(result, PredictResult) and graph is not None and rows is not None:
        ids = NodeIds(rows, where=name) if graph.ids is None else graph.ids.take(rows)
        write_labels(files.labels, ids, result.labels, confidence=confidence, mode=PRIVATE)
        written |= {"labels": files.labels}
    elif isinstance(result, AggregatorResult) and agreement.parameters.task == "fit":
        SavedModel.of_coordinator(name, result.session, agreement.parameters).save(files.model)
        written |= {"model": files.model}
    summary["files"] = {what: path.name for what, path in written.items()}
    write_text(files.summary, json.dumps(summary, indent=2, ensure_ascii=False) + "\n", mode=PRIVATE)
    return summary


def keep_earlier_results(files: ResultFiles) -> None:
    """Move the results of an earlier session, if there are any, to a folder named after their date."""
    if not files.folder.exists():
        return
    from kcagc.report.folder import CLUSTERS, QUALITY, REPORT  # noqa: PLC0415 - a first run needs no report

    shown = (files.folder / name for name in (CLUSTERS, QUALITY, REPORT))
    every = (files.ledger, files.labels, files.model, files.summary, *shown)
    there = [path for path in every if path.exists()]
    if there:
        moment = datetime.fromtimestamp(min(path.stat().st_mtime for path in there), UTC)
        earlier = files.folder / "earlier" / f"{moment:%Y-%m-%dT%H-%M-%S}"
        earlier.mkdir(parents=True, exist_ok=True)
        for path in there:
            path.replace(earlier / path.name)


def write_ledger(files: ResultFiles, disclosed: list[tuple[float, Disclosure]]) -> None:
    """Write the disclosures so far, each with its time."""
    files.folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"at": _moment(at, "milliseconds"), **entry.as_dict()}, ensure_ascii=False) + "\n"
        for at, entry in disclosed
    ]
    write_text(files.ledger, "".join(lines), mode=PRIVATE)


def _moment(at: float, precision: str = "seconds") -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec=precision)


def _seconds_in_sums(disclosed: list[tuple[float, Disclosure]]) -> float:
    """Return the time from the first masked vector, or the first answer, to the last message of a sum."""
    kinds = {"message/masked", "message/plain", "message/answer", "message/choice", "message/finished"}
    moments = [at for at, entry in disclosed if entry.kind in kinds]
    return moments[-1] - moments[0] if moments else 0.0


def summary_of(
    name: str, agreement: Agreement, result: Any, disclosed: list[tuple[float, Disclosure]]
) -> dict[str, Any]:
    """Return the numbers of the run."""
    seat, ledger = agreement.participant(name), Ledger(entry for _, entry in disclosed)
    start = disclosed[0][0] if disclosed else time.time()
    summary: dict[str, Any] = {
        "format": "kcagc run 1",
        "name": name,
        "role": seat.role,
        "task": agreement.parameters.task,
        "started": _moment(start),
        "finished": _moment(time.time()),
        "seconds": round(time.time() - start, 3),
        "seconds_in_sums": round(_seconds_in_sums(disclosed), 3),
        "roles": [
            {"name": one.name, "role": one.role, "identity": one.identity.hex()} for one in agreement.participants
        ],
        "parameters": msgspec.to_builtins(agreement.parameters),
        "bytes_sent": ledger.bytes_sent(name),
        "messages_sent": len([entry for entry in ledger.of("message/") if entry.sender == name]),
        "packages": versions(),
    }
    if isinstance(result, FitResult):
        summary |= {
            "session": result.model.session,
            "nodes": len(result.labels),
            "cluster_sizes": np.bincount(result.labels, minlength=agreement.parameters.n_clusters).tolist(),
            "rounds": sum(one.rounds for one in result.merges),
            "delays": result.delays,
            "merges": [_merge(one) for one in result.merges],
        }
    elif isinstance(result, PredictResult):
        sizes = np.bincount(result.labels, minlength=agreement.parameters.n_clusters).tolist()
        summary |= {"nodes": len(result.labels), "cluster_sizes": sizes, "rounds": result.rounds}
    elif isinstance(result, AggregatorResult):
        summary |= {"session": result.session.hex(), "rounds": result.sums}
    return summary


def _merge(report: MergeReport) -> dict[str, Any]:
    return {
        "group": report.group,
        "layer": report.layer,
        "parties": report.n_parties,
        "rows": report.n_rows,
        "rows_of_one_node": report.n_single,
        "clusters": report.n_clusters,
        "iterations": report.n_iter,
        "converged": report.converged,
        "rounds": report.rounds,
        "sums": report.sums.winning,
        "history": [
            {"round": number, "moved": one.moved, "inertia": one.cost}
            for number, one in enumerate(report.history, start=1)
        ],
    }
