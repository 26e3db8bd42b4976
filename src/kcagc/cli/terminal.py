"""Output to a person or a script: a console for each stream, log lines, progress, and the status of a running role."""

from __future__ import annotations

import codecs
import contextlib
import json
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

import click
from rich.console import Console

from kcagc.text import printable, seconds, size

if TYPE_CHECKING:
    from rich.table import Table

    from kcagc.protocol.effects import Progress
    from kcagc.runtime.driver import RoleStatus

_PLAIN = {**dict(zip("▁▂▃▄▅▆▇█", "._-=+*%#", strict=True)), "λ": "lambda", "±": "+-", "ψ": "psi", "…": "..."}
_MEASURED_ROUNDS = 8  # rounds whose mean duration is used
_SHOWN_PHASES = 12
_FIRST_LINE = 2.0  # seconds to the first status line of --watch without a terminal, and of a slow step
_NEXT_LINE = 5.0  # seconds from one such line to the next


def replace_missing_characters() -> None:
    """Replace characters that a terminal's encoding lacks, so that no output fails."""
    codecs.register_error("kcagc.plain", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="kcagc.plain")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


def _console(stream: TextIO) -> Console:
    # A file has no width, and lines for a script or a log must not be cut at 80 characters.
    width = None if stream.isatty() or os.environ.get("COLUMNS") else 120
    return Console(file=stream, width=width, highlight=False, markup=True)


def out() -> Console:
    """Return the console for results."""
    return _console(sys.stdout)


def messages() -> Console:
    """Return the console for everything that is not a result."""
    return _console(sys.stderr)


def print_json(value: Any) -> None:
    """Print a value for scripts."""
    click.echo(json.dumps(value, indent=2))


class SlowStep:
    """A line on stderr about a step that has not ended after two seconds."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts
        self._timer: threading.Timer | None = None

    def begin(self, name: str) -> None:
        """Start the clock of a step; steps without a text are silent."""
        if name in self._texts:
            self._timer = threading.Timer(_FIRST_LINE, click.echo, [f"{self._texts[name]} ...", sys.stderr])
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@contextlib.contextmanager
def steps(what: str, total: int) -> Iterator[Any]:
    """Show a progress bar of `total` steps on stderr if it is a terminal; call the result at the start of each step.

    Called with `new=False`, it only changes the text of the current step.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = messages()
    console.quiet = not console.is_terminal  # rich would end even a disabled bar with an empty line
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn()
    bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True, disable=console.quiet)
    started: list[str] = []
    with bar:
        task = bar.add_task(f"{what}: starting", total=total)

        def step(text: str, *, new: bool = True) -> None:
            bar.update(task, description=f"{what}: {text}", completed=len(started) - (not new))
            if new:
                started.append(text)

        yield step


def progress_text(step: Progress) -> str:
    """Return a phase with its count, if it has one."""
    if not step.done:
        return step.stage
    return f"{step.stage} {step.done} of {step.total}" if step.total and not step.limit else f"{step.stage} {step.done}"


@dataclass
class Phase:
    """A phase of a run: its progress, when it started, and when it ended."""

    progress: Progress
    started: float
    ended: float | None = None


class RunStatus:
    """The status of a running role, as a table or as one line. Methods may be called from any thread."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock, self._started = name, clock, clock()
        self._phases: list[Phase] = []
        self._rounds: deque[float] = deque(maxlen=_MEASURED_ROUNDS + 1)
        self._seen: RoleStatus | None = None
        self._ended: float | None = None
        self._lock = threading.Lock()

    def progress(self, step: Progress) -> bool:
        """Take a progress report of the role; return whether it starts a phase."""
        now = self._clock()
        with self._lock:
            new = not self._phases or self._phases[-1].progress.stage != step.stage
            if new:
                if self._phases:
                    self._phases[-1].ended = now
                self._phases.append(Phase(step, now))
                self._rounds.clear()
            self._phases[-1].progress = step
            self._rounds.append(now)
            return new

    def connections(self, seen: RoleStatus) -> None:
        """Take the state of the role's connections."""
        with self._lock:
            self._seen = seen

    def end(self) -> None:
        """Take note that the role has finished."""
        with self._lock:
            self._ended = self._clock()
            if self._phases:
                self._phases[-1].ended = self._ended

    @property
    def _session_ended(self) -> bool:
        """Whether the role writes its report: all results are there, and its connections are closed."""
        from kcagc.protocol.effects import REPORT_STAGE

        return bool(self._phases) and self._phases[-1].progress.stage == REPORT_STAGE

    @property
    def phase(self) -> str:
        """The current phase with its count."""
        return progress_text(self._phases[-1].progress) if self._phases else "starting"

    @property
    def waiting(self) -> str:
        """The participants that the role waits for."""
        seen = self._seen
        if self._session_ended:
            return "no participant: the session has ended"
        if seen is None:
            return "not connected yet"
        if seen.disconnected:
            return f"{', '.join(seen.disconnected)} (not connected)"
        return ", ".join(seen.waiting_for) if seen.waiting_for else "no participant: this role is computing"

    @property
    def traffic(self) -> str:
        """The bytes of messages so far."""
        if self._seen is None:
            return "nothing yet"
        return f"{size(self._seen.bytes_sent)} sent, {size(self._seen.bytes_received)} received"

    @property
    def left(self) -> str:
        """The remaining time of this phase, estimated from its rounds; "unknown" if they do not determine it."""
        phase = self._phases[-1] if self._phases else None
        if phase is None or len(self._rounds) < 3 or self._session_ended:  # steps of a report take unequal times
            return "unknown"
        step = phase.progress
        if not step.total or step.done >= step.total:
            return "unknown"
        if step.limit:
            each = (self._rounds[-1] - self._rounds[0]) / (len(self._rounds) - 1)
            most = each * (step.total - step.done)
            return f"unknown: it ends when no node moves; at most {seconds(most)}, {seconds(each)} a round"
        rate = step.done / max(self._rounds[-1] - phase.started, 1e-9)
        return f"about {seconds((step.total - step.done) / rate)}" if step.done else "unknown"

    def line(self) -> str:
        """Return the status as one line for a log."""
        return f"{self.phase}; waiting for {self.waiting}; {self.traffic}; time left: {self.left}"

    def table(self) -> Table:
        """Return the status as a table for a terminal."""
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            now = self._clock() if self._ended is None else self._ended
            shown = Table.grid(padding=(0, 2, 0, 0))
            shown.add_column(style="dim", no_wrap=True)
            shown.add_column(overflow="fold")
            shown.add_column(justify="right", no_wrap=True)
            shown.add_row(Text("role"), Text(printable(self._name), "bold"), seconds(now - self._started))
            for phase in self._phases[-_SHOWN_PHASES:]:
                word = Text("done", "green") if phase.ended is not None else Text("now", "bold cyan")
                took = seconds((now if phase.ended is None else phase.ended) - phase.started)
                shown.add_row(word, Text(printable(progress_text(phase.progress))), took)
            open_ended = [("waiting for", self.waiting), ("time left", self.left)] if self._ended is None else []
            for what, text in (("bytes", self.traffic), *open_ended):
                shown.add_row(Text(what), Text(printable(text)), "")
            return shown


class StatusDisplay(logging.Handler):
    """Shows a running role on stderr: log lines, and on a terminal its status as one line or, in full, as a table.

    With `as_json`, each log line is a JSON object with the fields time, role, level and message. `part` returns the
    federation that a record is about, in a process that serves several; the object then has the field federation too.
    """

    def __init__(
        self, name: str, *, full: bool = False, as_json: bool = False, part: Callable[[], str] = lambda: ""
    ) -> None:
        super().__init__(logging.INFO)
        self._part = part
        self._name, self._full, self._json = name, full, as_json
        self._console = messages()
        self._moving = self._console.is_terminal and not as_json
        self._spinner: Any = None
        self._status = RunStatus(name)
        self._next_line, self._last_line = time.monotonic() + _FIRST_LINE, ""

    @contextlib.contextmanager
    def shown(self) -> Iterator[StatusDisplay]:
        """Show the log records of kcagc and the status inside this context; a full table stays at its end."""
        logger = logging.getLogger("kcagc")
        before = logger.level
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        try:
            with self._moving_part():
                yield self
        finally:
            logger.removeHandler(self)
            logger.setLevel(before)

    @contextlib.contextmanager
    def _moving_part(self) -> Iterator[None]:
        if not self._moving:
            yield
        elif self._full:
            from rich.live import Live

            with Live(console=self._console, get_renderable=self._status.table, refresh_per_second=4):
                yield
                self._status.end()
        else:
            with self._console.status(f"{self._name}: starting", spinner="dots") as self._spinner:
                yield

    def emit(self, record: logging.LogRecord) -> None:
        """Write a log record as one line."""
        message = record.getMessage()
        if self._json:
            moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
            line = {"time": moment, "role": self._name, "level": record.levelname.lower(), "message": message}
            if part := self._part():
                line["federation"] = part
            click.echo(json.dumps(line), err=True)
            return
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        text = printable(message.replace("\n", " "))  # text of a peer must not look like a line of its own
        if self._spinner is not None:
            self._spinner.update(f"{self._name}: {text}")
        self._console.print(
            f"{clock} {self._part() or self._name}: {text}", markup=False, soft_wrap=not self._console.is_terminal
        )

    def progress(self, _: str, step: Progress) -> None:
        """Take a progress report of the role, and show it."""
        new = self._status.progress(step)
        if self._spinner is not None:
            self._spinner.update(f"{self._name}: {progress_text(step)}")
        elif not self._moving and new:
            _logger.info("%s", step.stage)

    def connections(self, seen: RoleStatus) -> None:
        """Take the state of the connections; without a terminal, log the whole status every few seconds."""
        self._status.connections(seen)
        if self._moving or time.monotonic() < self._next_line:
            return
        self._next_line, line = time.monotonic() + _NEXT_LINE, self._status.line()
        if line != self._last_line:
            self._last_line = line
            _logger.info("%s", line)


_logger = logging.getLogger(__name__)
