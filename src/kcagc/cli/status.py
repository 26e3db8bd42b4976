"""What is known of a run while it goes on, and what is not: stages, rounds, who is waited for, bytes, time left."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kcagc.text import printable, seconds, size

if TYPE_CHECKING:
    from rich.table import Table

    from kcagc.protocol.effects import Progress
    from kcagc.runtime.status import RoleStatus

_MEASURED = 8  # rounds whose mean time is taken
_KEPT = 12  # stages that are shown
_ENDS_EARLY = "iteration"  # a stage whose total is a limit: it ends when no node moves any more


@dataclass
class Stage:
    """One stage: since when, how far, and when it ended."""

    name: str
    begun: float
    done: int = 0
    total: int = 0
    ended: float | None = None


class Board:
    """Takes in what happens, from any thread; gives it as a table or as a line."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock, self._begun = name, clock, clock()
        self._stages: list[Stage] = []
        self._rounds: deque[float] = deque(maxlen=_MEASURED + 1)
        self._seen: RoleStatus | None = None
        self._ended: float | None = None
        self._lock = threading.Lock()

    def step(self, told: Progress) -> None:
        """Take in how far the role says it is."""
        now = self._clock()
        with self._lock:
            if not self._stages or self._stages[-1].name != told.stage:
                if self._stages:
                    self._stages[-1].ended = now
                self._stages.append(Stage(told.stage, now))
                self._rounds.clear()
            stage = self._stages[-1]
            stage.done, stage.total = told.done, told.total
            self._rounds.append(now)

    def glimpse(self, seen: RoleStatus) -> None:
        """Take in what can be seen of it from outside."""
        with self._lock:
            self._seen = seen

    def end(self) -> None:
        """Take in that the role has ended well: nobody is waited for, and no time is left."""
        with self._lock:
            self._ended = self._clock()
            if self._stages:
                self._stages[-1].ended = self._ended

    @property
    def stage(self) -> str:
        """What it is at, with its number."""
        return _numbered(self._stages[-1]) if self._stages else "starting"

    @property
    def waiting(self) -> str:
        """Whom it waits for, as far as that can be seen."""
        seen = self._seen
        if seen is None:
            return "not connected yet"
        if seen.missing:
            return f"{', '.join(seen.missing)} (not connected)"
        return ", ".join(seen.waiting_for) if seen.waiting_for else "nobody: this role is computing"

    @property
    def traffic(self) -> str:
        """The bytes of messages so far."""
        if self._seen is None:
            return "nothing yet"
        return f"{size(self._seen.bytes_sent)} sent, {size(self._seen.bytes_received)} received"

    @property
    def left(self) -> str:
        """How long this stage takes still, from the rounds measured; where that says nothing, that it is unknown."""
        stage = self._stages[-1] if self._stages else None
        if stage is None or not stage.total or stage.done >= stage.total or len(self._rounds) < 3:
            return "unknown"
        each = (self._rounds[-1] - self._rounds[0]) / (len(self._rounds) - 1)
        if stage.name.endswith(_ENDS_EARLY):  # a round is one iteration
            most = each * (stage.total - stage.done)
            return f"unknown: it ends when no node moves; {seconds(most)} at the very most, {seconds(each)} a round"
        rate = stage.done / max(self._rounds[-1] - stage.begun, 1e-9)
        return f"about {seconds((stage.total - stage.done) / rate)}" if stage.done else "unknown"

    def line(self) -> str:
        """Give all of it in one line, for a log."""
        return f"{self.stage}; waiting for {self.waiting}; {self.traffic}; time left: {self.left}"

    def table(self) -> Table:
        """Give all of it as a person watches it."""
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            now = self._clock() if self._ended is None else self._ended
            shown = Table.grid(padding=(0, 2, 0, 0))
            shown.add_column(style="dim", no_wrap=True)
            shown.add_column(overflow="fold")
            shown.add_column(justify="right", no_wrap=True)
            shown.add_row(Text("role"), Text(printable(self._name), "bold"), seconds(now - self._begun))
            for stage in self._stages[-_KEPT:]:
                word = Text("done", "green") if stage.ended is not None else Text("now", "bold cyan")
                took = seconds((now if stage.ended is None else stage.ended) - stage.begun)
                shown.add_row(word, Text(printable(_numbered(stage))), took)
            open_ended = [("waiting for", self.waiting), ("time left", self.left)] if self._ended is None else []
            for what, said in (("bytes", self.traffic), *open_ended):
                shown.add_row(Text(what), Text(printable(said)), "")
            return shown


def _numbered(stage: Any) -> str:
    if not stage.done:
        return str(stage.name)
    if stage.total and not stage.name.endswith(_ENDS_EARLY):
        return f"{stage.name} {stage.done} of {stage.total}"
    return f"{stage.name} {stage.done}"
