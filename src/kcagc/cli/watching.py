"""What a person sees of a role at work: a line that moves, or with --watch a board; plain lines where nobody does."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from kcagc.cli import terminal
from kcagc.cli.status import Board
from kcagc.text import printable

_SAY_AFTER = 2.0  # seconds to the first line about all that can be seen, where there is no terminal
_SAY_AGAIN = 5.0  # and from one to the next


class Watching:
    """Says what happens, on stderr; `in_full` shows the board."""

    def __init__(self, name: str, *, in_full: bool = False) -> None:
        self._name, self._stage, self._in_full = name, "", in_full
        self._console = terminal.messages()
        self._lock = threading.RLock()
        self._status: Any = None
        self._board = Board(name)
        self._say_at = time.monotonic() + _SAY_AFTER
        self._said_line = ""

    @contextlib.contextmanager
    def shown(self) -> Iterator[Watching]:
        """Show what moves as long as this lasts; the board stays as it was at the end."""
        with self._logging():
            if not self._console.is_terminal:
                yield self
            elif self._in_full:
                from rich.live import Live

                with Live(console=self._console, get_renderable=self._board.table, refresh_per_second=4):
                    yield self
                    self._board.end()
            else:
                with self._console.status(f"{self._name}: starting", spinner="dots") as self._status:
                    yield self

    @contextlib.contextmanager
    def _logging(self) -> Iterator[None]:
        """Show the log records of kcagc as lines of this role."""
        logger, handler = logging.getLogger("kcagc"), _LineHandler(self.log)
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before)

    def log(self, words: str) -> None:
        """Say something that stays."""
        with self._lock:
            clock = time.strftime("%H:%M:%S")
            if self._status is not None:  # until there is progress to show
                self._status.update(f"{self._name}: {printable(words)}")
            said = printable(words.replace("\n", " "))  # nothing that a peer says looks like a line of its own
            self._console.print(f"{clock} {self._name}: {said}", markup=False, soft_wrap=not self._console.is_terminal)

    def watch(self, _: str, step: Any) -> None:
        """Take in how far the role is, and say so."""
        self._board.step(step)
        if self._status is not None:
            count = f" {step.done}" + (f" of {step.total}" if step.total else "") if step.done else ""
            self._status.update(f"{self._name}: {step.stage}{count}")
        elif self._console.is_terminal:
            return  # the board shows it
        elif step.stage != self._stage:
            self._stage = step.stage
            self.log(step.stage)

    def look(self, seen: Any) -> None:
        """Take in what can be seen of the role from outside; without a terminal, say it now and then."""
        self._board.glimpse(seen)
        if self._console.is_terminal or time.monotonic() < self._say_at:
            return
        self._say_at, line = time.monotonic() + _SAY_AGAIN, self._board.line()
        if line != self._said_line:
            self._said_line = line
            self.log(line)


class _LineHandler(logging.Handler):
    """Pass the text of each log record to a function."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__()
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        self._show(record.getMessage())
