"""What a person sees of a role at work: a line that moves while somebody watches, plain lines where nobody does."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from kcagc.cli import screen


class Watching:
    """Says what happens, on stderr."""

    def __init__(self, name: str) -> None:
        self._name, self._stage = name, ""
        self._console = screen.messages()
        self._lock = threading.Lock()
        self._status: Any = None

    @contextlib.contextmanager
    def shown(self) -> Iterator[Watching]:
        """Show the moving line as long as this lasts."""
        if not self._console.is_terminal:
            yield self
            return
        with self._console.status(f"{self._name}: starting", spinner="dots") as self._status:
            yield self

    def log(self, words: str) -> None:
        """Say something that stays."""
        with self._lock:
            clock = time.strftime("%H:%M:%S")
            if self._status is not None:  # until there is progress to show
                self._status.update(f"{self._name}: {screen.harmless(words)}")
            said = screen.harmless(words).replace("\n", " ")  # nothing that a peer says looks like a line of its own
            self._console.print(f"{clock} {self._name}: {said}", markup=False, soft_wrap=not self._console.is_terminal)

    def watch(self, _: str, step: Any) -> None:
        """Say how far the role is."""
        if self._status is not None:
            count = f" {step.done}" + (f" of {step.total}" if step.total else "") if step.done else ""
            self._status.update(f"{self._name}: {step.stage}{count}")
        elif step.stage != self._stage:
            self._stage = step.stage
            self.log(step.stage)
