"""The files that a report is made from: what a role left in its folder when a run had ended."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from kcagc.errors import DataError, ParameterError

SUMMARY, LEDGER, CLUSTERS, QUALITY, REPORT = "run.json", "ledger.jsonl", "clusters.json", "quality.json", "report.html"


@dataclass(frozen=True)
class Sent:
    """One line of the ledger, and the moment it was made, in seconds since the first."""

    at: float
    sender: str
    receiver: str
    kind: str
    stage: str
    bytes: int
    learns: str
    paper: str
    weaker: bool


@dataclass(frozen=True, eq=False)
class RunFolder:
    """What a run left: its summary, its ledger and, at a party, what that can say about the clusters."""

    summary: dict[str, Any]
    ledger: list[Sent]
    clusters: dict[str, Any]
    quality: dict[str, Any]
    digests: dict[str, str]

    @classmethod
    def read(cls, folder: Path) -> RunFolder:
        """Read a folder; what is not a run, or is damaged, is an error that names the file."""
        if not (folder / SUMMARY).is_file():
            raise ParameterError(
                f"{folder}: has no {SUMMARY}: it is not the result folder of a run that has ended. Name the folder "
                f"that holds {SUMMARY}, as in: kcagc report result"
            )
        summary = _document(folder / SUMMARY)
        if not str(summary.get("format", "")).startswith("kcagc run "):
            raise DataError(f"{folder / SUMMARY}: is not the summary of a run of kcagc")
        names = [LEDGER, *(str(name) for name in dict(summary.get("files", {})).values()), CLUSTERS]
        paths = [folder / name for name in dict.fromkeys(names) if Path(name).name == name and name != SUMMARY]
        return cls(
            summary,
            _ledger(folder / LEDGER),
            _document(folder / CLUSTERS, missing={}),
            _document(folder / QUALITY, missing={}),
            {path.name: _digest(path) for path in paths if path.is_file()},
        )

    @property
    def name(self) -> str:
        """Who this role is."""
        return str(self.summary.get("name", ""))

    @property
    def is_party(self) -> bool:
        """Whether this role has data."""
        return self.summary.get("role") == "party"

    @property
    def predicts(self) -> bool:
        """Whether the run placed new nodes."""
        return self.summary.get("task") == "predict"

    @property
    def sizes(self) -> list[int]:
        """How many nodes each cluster has; a coordinator does not know."""
        return [int(size) for size in self.summary.get("cluster_sizes", ())]

    @property
    def aggregator(self) -> str:
        """Who sums: the last of the roles."""
        roles = self.summary.get("roles", ())
        return str(roles[-1].get("name", "")) if roles else ""


def _document(path: Path, missing: dict[str, Any] | None = None) -> dict[str, Any]:
    if missing is not None and not path.exists():
        return missing
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise DataError(f"{path}: not a JSON file: {error}") from error
    if not isinstance(found, dict):
        raise DataError(f"{path}: must be one JSON object")
    return found


def _ledger(path: Path) -> list[Sent]:
    if not path.exists():
        return []
    entries: list[Sent] = []
    begun: float | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            said = json.loads(line)
            moment = datetime.fromisoformat(said["at"]).timestamp()
            begun = moment if begun is None else begun
            sender, receiver, kind, stage = (str(said[name]) for name in ("sender", "receiver", "kind", "stage"))
            told = (int(said["bytes"]), str(said["learns"]), str(said["paper"]), bool(said["weaker"]))
            entries.append(Sent(moment - begun, sender, receiver, kind, stage, *told))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: line {number}: is not an entry of a ledger: {error}") from error
    return entries


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
