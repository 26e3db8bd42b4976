"""The record itself: one entry for every value that leaves a role or opens to one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from kcagc.disclosure.texts import LINES
from kcagc.errors import KcagcError


@dataclass(frozen=True)
class Entry:
    """One disclosure. `kind` is "link/…", "message/…", "inside/…" (a box), "opened/…" (a sum) or "output/…"."""

    sender: str
    receiver: str
    kind: str
    stage: str
    shape: tuple[int, ...]
    bytes: int

    def __post_init__(self) -> None:
        if self.kind not in LINES:
            raise KcagcError(f"{self.kind}: nothing may be disclosed that has no line in the ledger")

    @property
    def learns(self) -> str:
        """What the receiver learns, in words."""
        return LINES[self.kind].learns

    @property
    def paper(self) -> str:
        """Where the paper names this leak; empty where it does not."""
        return LINES[self.kind].paper

    @property
    def weaker(self) -> bool:
        """Whether this opens more than the default mode does."""
        return LINES[self.kind].weaker

    def fields(self) -> dict[str, Any]:
        """Give what makes the entry, without the words."""
        return asdict(self)

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Self:
        """Make an entry of what `fields` gave."""
        return cls(**{**fields, "shape": tuple(fields["shape"])})

    def as_dict(self) -> dict[str, object]:
        """Give all of it, words included, as a row of JSON."""
        return {**self.fields(), "learns": self.learns, "paper": self.paper, "weaker": self.weaker}


@dataclass(frozen=True)
class Summary:
    """All entries of one kind between one sender and one receiver."""

    sender: str
    receiver: str
    kind: str
    count: int
    bytes: int
    learns: str
    paper: str
    weaker: bool


class Ledger:
    """Entries in the order they were made."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries = list(entries)

    def record(self, entry: Entry) -> None:
        """Add one."""
        self.entries.append(entry)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"Ledger({len(self)} entries, {self.bytes_sent():,} bytes sent)"

    def of(self, prefix: str) -> list[Entry]:
        """Give the entries whose kind begins so, as "opened/"."""
        return [entry for entry in self if entry.kind.startswith(prefix)]

    def bytes_sent(self, sender: str | None = None) -> int:
        """Count the bytes of messages, of all senders or of one; what is inside boxes is not counted twice."""
        return sum(entry.bytes for entry in self.of("message/") if sender in (None, entry.sender))

    def summary(self) -> list[Summary]:
        """Count entries by sender, receiver and kind, in the order they first came."""
        groups: dict[tuple[str, str, str], list[Entry]] = {}
        for entry in self:
            groups.setdefault((entry.sender, entry.receiver, entry.kind), []).append(entry)
        return [
            Summary(*key, len(found), sum(entry.bytes for entry in found), one.learns, one.paper, one.weaker)
            for key, found in groups.items()
            for one in found[:1]
        ]

    def __str__(self) -> str:
        return "\n".join(
            f"{line.sender} -> {line.receiver}  {line.kind} × {line.count}, {line.bytes:,} bytes: {line.learns}"
            + (" [weaker than the default]" if line.weaker else "")
            + (f" (paper: {line.paper})" if line.paper else "")
            for line in self.summary()
        )

    def as_lines(self) -> str:
        """Give JSON lines, one entry each."""
        return "".join(json.dumps(entry.as_dict(), ensure_ascii=False) + "\n" for entry in self)

    def save(self, path: Path | str) -> None:
        """Write JSON lines, one entry each."""
        Path(path).write_text(self.as_lines(), encoding="utf-8")
