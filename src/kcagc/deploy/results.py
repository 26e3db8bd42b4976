"""The result folder of a role: labels, model, ledger and summary of a run."""

from __future__ import annotations

import json
import platform
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np

from kcagc.data.files import PRIVATE, read_saved, write_bytes, write_labels, write_text
from kcagc.data.fitted_rules import FittedRules
from kcagc.disclosure import Disclosure, Ledger
from kcagc.errors import ParameterError
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds
from kcagc.protocol.agreement import Agreement
from kcagc.protocol.fit_result import FitResult, MergeReport, SweepResult
from kcagc.protocol.local import PartyModel
from kcagc.protocol.match import MatchResult
from kcagc.protocol.parameters import Parameters, PsiChoice

if TYPE_CHECKING:
    from kcagc.deploy.run import RoleRun

FORMAT = "kcagc model 3"
AUDIT, AUDIT_SIGNATURE = "audit.json", "audit.sig"
PACKAGES = ("kcagc", "numpy", "scipy", "scikit-learn", "cryptography", "msgspec")
_SUMS = {f"message/{kind}" for kind in ("masked", "plain", "answer", "split", "clusters", "finished")}

Disclosed = list[tuple[float, Disclosure]]  # disclosures, each with its time


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

    def check(self, me: str) -> None:
        """Raise an error, before a run, if the results could not be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                pass
        except OSError as error:
            raise ParameterError(
                f"{me}: {self.folder}: no results can be written here ({error.strerror or error}); nothing was sent. "
                "Set [output] folder, or --output, to another folder"
            ) from error


class SavedModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file that a fit leaves at every role for predictions: the session and its parameters.

    At a party it also holds the private share of the model, the ids of the nodes, and `table`: how the party's table
    became numbers, which a prediction repeats.
    """

    format: str
    role: str
    session: str
    parameters: Parameters
    share: PartyModel | None = None
    ids: list[str | int] | None = None
    table: FittedRules | None = None

    @classmethod
    def of_party(cls, model: PartyModel, graph: Graph, table: FittedRules | None = None) -> Self:
        """Return the model of a party."""
        ids = None if graph.ids is None else list(graph.ids.values)
        return cls(FORMAT, model.party, model.session, model.parameters, model, ids, table)

    def save(self, path: Path) -> None:
        """Write the model, readable for its owner only."""
        write_bytes(path, msgspec.msgpack.encode(self, enc_hook=int), mode=PRIVATE)

    @classmethod
    def load(cls, path: Path, role: str) -> Self:
        """Read a model of this role."""
        model = read_saved(path, cls, FORMAT, "a model of kcagc", party=role)
        if model.role != role:
            raise ParameterError(f"{path}: is the model of {model.role}, not of {role}")
        return model

    def prediction(self) -> Parameters:
        """Return the parameters of a prediction with this model."""
        return msgspec.structs.replace(self.parameters, task="predict", model=self.session)


def write_results(files: ResultFiles, run: RoleRun, result: Any, disclosed: Disclosed) -> dict[str, Any]:
    """Write all files of a finished run and return its summary; each file is complete or absent."""
    name, graph, rows = run.config.me, run.graph, run.new_rows
    files.folder.mkdir(parents=True, exist_ok=True)
    summary = summary_of(name, run.agreement, result, disclosed)
    if run.config.approved is not None:
        summary["agreement"] = run.config.approved.as_dict()
    is_fit, is_sweep = run.agreement.parameters.task == "fit", bool(run.agreement.parameters.most_clusters)
    if is_fit:
        summary["method"] = str(run.config.method_choice())
        searched = getattr(result, "psi_search", None)
        summary["psi"] = str(run.config.psi_choice() if searched is None else PsiChoice(searched.psi, searched.reason))
    if run.engine_choice is not None:
        summary["engine"] = str(run.engine_choice)
    if run.input is not None:
        summary["data"] = run.input.summary()
    if run.kept is not None:
        summary["sessions"] = run.kept.counts()
    written = {"ledger": files.ledger}
    write_ledger(files, disclosed)
    if graph is not None and not is_sweep:
        new_ids = None if rows is None else NodeIds(rows, where=name) if graph.ids is None else graph.ids.take(rows)
        ids = graph.ids if rows is None else new_ids
        write_labels(files.labels, ids, result.labels, confidence=run.confidence(result), mode=PRIVATE)
        written["labels"] = files.labels
    if is_fit and not is_sweep:
        if graph is None:
            model = SavedModel(FORMAT, name, result.session.hex(), run.agreement.parameters)
        else:
            model = SavedModel.of_party(result.model, graph, None if run.input is None else run.input.preprocessing)
        model.save(files.model)
        written["model"] = files.model
    summary["files"] = {what: path.name for what, path in written.items()}
    write_text(files.summary, json.dumps(summary, indent=2, ensure_ascii=False) + "\n", mode=PRIVATE)
    return summary


def keep_earlier_results(files: ResultFiles, *, unfinished: bool = True, list_stays: bool = False) -> None:
    """Move the results of an earlier session, if there are any, to a folder named after their date.

    Without `unfinished`, only those of a finished run, which has an audit file. With `list_stays`, a copy of the node
    list stays until a new one replaces it, because a configuration may name it.
    """
    if not (files.folder if unfinished else files.folder / AUDIT).exists():
        return
    from kcagc.report.folder import CLUSTERS, NODES, QUALITY, REPORT  # noqa: PLC0415 - a first run needs no report
    from kcagc.report.names import NAMES  # noqa: PLC0415

    shown = (files.folder / name for name in (CLUSTERS, NODES, QUALITY, NAMES, REPORT))
    audit = (files.folder / name for name in (AUDIT, AUDIT_SIGNATURE))
    every = (files.ledger, files.labels, files.model, files.summary, *audit, *shown)
    there = [path for path in every if path.exists()]
    if there:
        moment = datetime.fromtimestamp(min(path.stat().st_mtime for path in there), UTC)
        earlier = files.folder / "earlier" / f"{moment:%Y-%m-%dT%H-%M-%S}"
        earlier.mkdir(parents=True, exist_ok=True)
        for path in there:
            path.replace(earlier / path.name)
        if list_stays and files.labels in there:
            shutil.copy2(earlier / files.labels.name, files.labels)


def write_ledger(files: ResultFiles, disclosed: Disclosed) -> None:
    """Write the disclosures so far, each with its time."""
    files.folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"at": _moment(at, "milliseconds"), **entry.as_dict()}, ensure_ascii=False) + "\n"
        for at, entry in disclosed
    ]
    write_text(files.ledger, "".join(lines), mode=PRIVATE)


def _moment(at: float, precision: str = "seconds") -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec=precision)


def _seconds_in_sums(disclosed: Disclosed) -> float:
    """Return the time from the first masked vector, or the first answer, to the last message of a sum."""
    moments = [at for at, entry in disclosed if entry.kind in _SUMS]
    return moments[-1] - moments[0] if moments else 0.0


def summary_of(name: str, agreement: Agreement, result: Any, disclosed: Disclosed) -> dict[str, Any]:
    """Return the numbers of the run."""
    role, ledger = agreement.participant(name).role, Ledger(entry for _, entry in disclosed)
    start = disclosed[0][0] if disclosed else time.time()
    summary: dict[str, Any] = {
        "format": "kcagc run 1",
        "name": name,
        "role": role,
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
    if isinstance(result, MatchResult):
        counts = {"ids": result.n_own, "common": result.n_common}
        if result.n_other is not None:
            counts["ids_of_other"] = result.n_other
        return summary | {"session": result.session} | counts
    if role == "coordinator":
        return summary | {"session": result.session.hex(), "rounds": result.sums}
    if isinstance(result, FitResult | SweepResult) and result.psi_search is not None:
        summary["psi_search"] = asdict(result.psi_search)
    if isinstance(result, SweepResult):
        return summary | {
            "nodes": result.n_nodes,
            "session": result.session,
            "rounds": result.rounds,
            "delays": result.delays,
            "sweep": result.sweep.document(),
        }
    sizes = np.bincount(result.labels, minlength=agreement.parameters.n_clusters).tolist()
    summary |= {"nodes": len(result.labels), "cluster_sizes": sizes}
    if not isinstance(result, FitResult):
        return summary | {"rounds": result.rounds}
    rounds = sum(one.rounds for one in result.merges)
    merges = [_merge(one) for one in result.merges]
    return summary | {
        "session": result.model.session,
        "cost": result.cost,
        "rounds": rounds,
        "delays": result.delays,
        "merges": merges,
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that compute."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in PACKAGES}}


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
        "history": [{"round": number, "moved": moved} for number, moved in enumerate(report.moved, start=1)],
    }
