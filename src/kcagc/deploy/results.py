"""What a role leaves in its folder when a run has ended: labels, model, ledger, a summary, and a report of them."""

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
from kcagc.deploy.fingerprints import versions
from kcagc.deploy.party_input import PartyInput
from kcagc.deploy.saved_model import SavedModel
from kcagc.disclosure import Entry, Ledger
from kcagc.files.atomic import PRIVATE, write_text
from kcagc.files.labels import write_labels
from kcagc.files.names import picked
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds
from kcagc.protocol.aggregator import AggregatorResult
from kcagc.protocol.agreement import Agreement
from kcagc.protocol.fit import FitResult, MergeReport
from kcagc.protocol.predict import PredictResult
from kcagc.report.folder import CLUSTERS, QUALITY, REPORT


@dataclass(frozen=True)
class Places:
    """Where the results of a run go."""

    folder: Path
    labels: str

    def ledger(self) -> Path:
        """Give the file of everything that left this role."""
        return self.folder / "ledger.jsonl"

    def summary(self) -> Path:
        """Give the file that says what happened."""
        return self.folder / "run.json"

    def model(self) -> Path:
        """Give the file that prediction needs."""
        return self.folder / "model.kcagc"

    def labels_file(self) -> Path:
        """Give the file that says which node is in which cluster."""
        return self.folder / self.labels

    def clusters(self) -> Path:
        """Give the file that says what a party can tell about the clusters."""
        return self.folder / CLUSTERS

    def quality(self) -> Path:
        """Give the file that compares the clusters with known labels."""
        return self.folder / QUALITY

    def report(self) -> Path:
        """Give the page that shows it all."""
        return self.folder / REPORT


def write_results(
    places: Places,
    name: str,
    agreement: Agreement,
    result: Any,
    disclosed: list[tuple[float, Entry]],
    graph: Graph | None,
    rows: IntArray | None,
    confidence: FloatArray | None = None,
    brought: PartyInput | None = None,
) -> dict[str, Any]:
    """Write all files of a finished run and give its summary; each appears whole or not at all."""
    places.folder.mkdir(parents=True, exist_ok=True)
    summary = summary_of(name, agreement, result, disclosed)
    if brought is not None:
        summary["data"] = brought.told()
    files = {"ledger": places.ledger()}
    write_ledger(places, disclosed)
    if isinstance(result, FitResult) and graph is not None:
        write_labels(places.labels_file(), graph.ids, result.labels, confidence=confidence, mode=PRIVATE)
        table = None if brought is None else brought.kept
        SavedModel.of_party(result.model, graph, table).save(places.model())
        files |= {"labels": places.labels_file(), "model": places.model()}
    elif isinstance(result, PredictResult) and graph is not None and rows is not None:
        ids = NodeIds(rows, where=name) if graph.ids is None else picked(graph.ids, rows)
        write_labels(places.labels_file(), ids, result.labels, confidence=confidence, mode=PRIVATE)
        files |= {"labels": places.labels_file()}
    elif isinstance(result, AggregatorResult) and agreement.parameters.task == "fit":
        SavedModel.of_coordinator(name, result.session, agreement.parameters).save(places.model())
        files |= {"model": places.model()}
    summary["files"] = {what: path.name for what, path in files.items()}
    write_text(places.summary(), json.dumps(summary, indent=2, ensure_ascii=False) + "\n", mode=PRIVATE)
    return summary


def set_aside(places: Places) -> None:
    """Make room for the results of another session: those that are there go into a folder named by when they came."""
    all_of_them = (places.ledger(), places.labels_file(), places.model(), places.summary())
    shown = (places.clusters(), places.quality(), places.report())
    there = [path for path in (*all_of_them, *shown) if path.exists()]
    if there:
        moment = datetime.fromtimestamp(min(path.stat().st_mtime for path in there), UTC)
        aside = places.folder / "earlier" / f"{moment:%Y-%m-%dT%H-%M-%S}"
        aside.mkdir(parents=True, exist_ok=True)
        for path in there:
            path.replace(aside / path.name)


def write_ledger(places: Places, disclosed: list[tuple[float, Entry]]) -> None:
    """Write what left so far, and when, which is worth knowing after a run that failed as well."""
    places.folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"at": _moment(at, "milliseconds"), **entry.as_dict()}, ensure_ascii=False) + "\n"
        for at, entry in disclosed
    ]
    write_text(places.ledger(), "".join(lines), mode=PRIVATE)


def _moment(at: float, precision: str = "seconds") -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec=precision)


def _seconds_in_sums(disclosed: list[tuple[float, Entry]]) -> float:
    """Give the time from the first masked vector, or the first answer, to the last word of a sum."""
    kinds = {"message/masked", "message/plain", "message/answer", "message/choice", "message/finished"}
    moments = [at for at, entry in disclosed if entry.kind in kinds]
    return moments[-1] - moments[0] if moments else 0.0


def summary_of(name: str, agreement: Agreement, result: Any, disclosed: list[tuple[float, Entry]]) -> dict[str, Any]:
    """Say what happened, in numbers."""
    seat, ledger = agreement.seat(name), Ledger(entry for _, entry in disclosed)
    begun = disclosed[0][0] if disclosed else time.time()
    summary: dict[str, Any] = {
        "format": "kcagc run 1",
        "name": name,
        "role": seat.role,
        "task": agreement.parameters.task,
        "begun": _moment(begun),
        "finished": _moment(time.time()),
        "seconds": round(time.time() - begun, 3),
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
