"""A thread of its own for what takes long, so that the network is answered meanwhile."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """Does one thing after the other. It ends with the process: what it leaves unfinished, the journal makes good."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, asyncio.Future[Any], Callable[[], Any]]]
        self._tasks = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True, name="role").start()

    async def call(self, function: Callable[..., T], *values: Any) -> T:
        """Have something done, and give its result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._tasks.put((loop, future, lambda: function(*values)))
        # Once begun it is done to the end, whoever gave up waiting: half a step is no step.
        return await asyncio.shield(future)

    def _work(self) -> None:
        while True:
            loop, future, act = self._tasks.get()
            result, error = None, None
            try:
                result = act()
            except BaseException as problem:
                error = problem
            try:
                loop.call_soon_threadsafe(_settle, future, result, error)
            except RuntimeError:  # the loop is gone, and nobody waits
                return


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
