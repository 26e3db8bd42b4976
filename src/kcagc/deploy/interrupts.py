"""How a command ends on Ctrl-C and SIGTERM: in order, and in any case within five seconds.

Python handles a signal between two steps of its main thread. A long computation of a library in that thread would delay
it, and the exit handlers of libraries wait for threads that still compute: OpenBLAS does, and so does every pool of
threads. Therefore a thread of its own learns of the signal at once. If the command has not ended in order soon after,
this thread ends the process. An orderly end runs no exit handlers either while other threads are alive.

A session survives both: its journal is consistent at every moment, and the same command resumes the run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
EXIT_CODE = 130  # of an interrupted command, as shells report it
MESSAGE = "interrupted"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 4.0  # seconds for an orderly end
_STREAMS_END = 2.0  # seconds for gRPC's own tasks to end after its server has stopped
_SHOW_CURSOR = b"\x1b[?25h"


class _Interrupts:
    """The signals of this process since `handle`."""

    def __init__(self) -> None:
        self.cancel: Callable[[], None] | None = None  # how the work in an event loop is stopped
        self.limited = True  # whether the process is ended when its patience is over
        self.watcher: threading.Thread | None = None
        self._received = False

    def start(self) -> None:
        """Handle both signals from now on."""
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        self.watcher = threading.Thread(target=self._watch, args=(woken,), daemon=True, name="signals")
        self.watcher.start()
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: Any) -> None:
        """Stop the work, in the main thread; a second signal changes nothing, as the process ends anyway."""
        first, self._received = not self._received, True
        if self.cancel is not None:
            self.cancel()
        elif first:
            raise KeyboardInterrupt

    def _watch(self, woken: int) -> None:
        while not set(os.read(woken, 64)) & set(_SIGNALS):
            pass
        if self.cancel is not None:
            self.cancel()  # also if the signal has reached another thread, so that it wakes the event loop
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            time.sleep(0.05)
            if not self.limited:
                end = time.monotonic() + _PATIENCE
        # Not through `sys.stderr`: the main thread may be in the middle of a line and hold its lock.
        shown = _SHOW_CURSOR if os.isatty(2) else b""
        with contextlib.suppress(OSError):
            os.write(2, shown + f"kcagc: {MESSAGE}\n".encode())
        os._exit(EXIT_CODE)


_interrupts = _Interrupts()


def handle_interrupts() -> None:
    """Handle Ctrl-C and SIGTERM from now on: `KeyboardInterrupt`, and an end soon after. Call it in the main thread."""
    if _interrupts.watcher is None:
        _interrupts.start()


@contextlib.contextmanager
def cancelled_by_interrupts(cancel: Callable[[], None]) -> Iterator[None]:
    """Call `cancel` on a signal instead of raising `KeyboardInterrupt`; it may be called twice, from any thread."""
    _interrupts.cancel = cancel
    try:
        yield
    finally:
        _interrupts.cancel = None


@contextlib.contextmanager
def unlimited() -> Iterator[None]:
    """Allow an orderly end to take as long as it needs, for example because other processes must be stopped."""
    _interrupts.limited = False
    try:
        yield
    finally:
        _interrupts.limited = True


async def until_stopped(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine; end it in order on Ctrl-C and SIGTERM, so that the same command resumes it."""
    import asyncio  # noqa: PLC0415 - commands without a network do not need it

    task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            task.cancel()

    def stop_soon() -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(stop)

    with cancelled_by_interrupts(stop_soon):
        try:
            return await task
        except asyncio.CancelledError:
            if not stopped:
                raise
            raise KeyboardInterrupt from None
        finally:
            # If gRPC's own tasks are cancelled before they end by themselves, they write errors to stderr.
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others:
                await asyncio.wait(others, timeout=_STREAMS_END)


def end_process(code: int) -> NoReturn:
    """End the process with an exit code; after a failure do not wait for threads that still compute."""
    others = {threading.main_thread(), _interrupts.watcher}
    if code != 0 and any(thread not in others for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)
