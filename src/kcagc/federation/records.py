"""Records of runs: one file for each run of a federation, in the folder of its results."""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from kcagc.data.files import PRIVATE, write_bytes
from kcagc.text import seconds

RunState = Literal["running", "finished", "failed"]

_FILE = "state.json"


class RunRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run: its number in its federation, its state, when it began and ended, and why it failed."""

    number: int
    state: RunState
    since: float
    until: float | None = None
    cause: str = ""

    def ended(self, cause: str | None) -> RunRecord:
        """Return the record of the run now that it has ended; without a cause it has succeeded."""
        state: RunState = "finished" if cause is None else "failed"
        return msgspec.structs.replace(self, state=state, until=time.time(), cause=cause or "")

    def shown(self, *, served: bool) -> dict[str, Any]:
        """Return the record for people and scripts; `served` is whether the coordinator's process runs."""
        state = "interrupted" if self.state == "running" and not served else self.state
        took = "" if self.until is None else seconds(self.until - self.since)
        result = {
            "running": "",
            "interrupted": "goes on when the coordinator starts",
            "finished": f"finished in {took}",
            "failed": self.cause,
        }
        since = datetime.fromtimestamp(self.since, UTC).isoformat(timespec="seconds")
        return {"run": self.number, "state": state, "since": since, "result": result[state]}


class RunRecords:
    """The records of one federation; `folder` holds a folder for each run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def folder_of(self, number: int) -> Path:
        """Return the folder of a run."""
        return self.folder / f"{number:04}"

    def numbers(self) -> list[int]:
        """Return the numbers of all runs, in their order."""
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        return sorted(int(name) for name in names if name.isdecimal())

    def all(self) -> list[RunRecord]:
        """Return all records, in the order of the runs."""
        return [found for number in self.numbers() if (found := self.read(number)) is not None]

    def last(self) -> RunRecord | None:
        """Return the record of the last run, or None."""
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else None

    def read(self, number: int) -> RunRecord | None:
        """Return the record of a run; None if there is none, or if it is damaged."""
        with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            return msgspec.json.decode((self.folder_of(number) / _FILE).read_bytes(), type=RunRecord)
        return None

    def next(self) -> RunRecord:
        """Return the record of a run that begins now."""
        numbers = self.numbers()
        return RunRecord(numbers[-1] + 1 if numbers else 1, "running", time.time())

    def write(self, record: RunRecord) -> RunRecord:
        """Write a record."""
        folder = self.folder_of(record.number)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_bytes(folder / _FILE, msgspec.json.encode(record), mode=PRIVATE)
        return record
