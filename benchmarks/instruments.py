"""A stopwatch and a clock for each kind of work, installed in the process of a role to see where its time goes.

Every function of a module counts for the kind of work of that module. Time in a nested call counts for the inner
function only. The clock watches the thread that steps the role, and the times at which it has work.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from experiments.paper.network.stopwatch import Stopwatch, run_installed

# The first match counts; a name may be a package or a module.
KINDS = {
    "kcagc.secagg": "masking",
    "kcagc.protocol.secure_sum": "masking",
    "kcagc.protocol.messages": "encoding",
    "kcagc.runtime.durable": "encoding",  # digests of received messages
    "kcagc.runtime.journal": "journal",
    "kcagc.protocol.cells": "joint work",
    "kcagc.protocol.aggregator": "joint work",
    "kcagc.protocol.joint_kmeans": "joint work",
    "kcagc.protocol.local": "local work",
}
ORDER = ("local work", "joint work", "masking", "encoding", "journal", "other work", "network", "waiting")
_MARK = "_kind_of_work"


class Clock:
    """The time of each kind of work of the thread that steps the role."""

    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch
        self._thread = 0  # the thread that currently works for the role
        self._spent: dict[str, float] = {}
        self._doing: list[str] = []
        self._since = 0.0

    def install(self) -> None:
        """Replace every function of these modules, wherever it is imported, by a timed one; time every step."""
        from kcagc.runtime.driver import Worker  # noqa: PLC0415 - only in the process of a role

        replaced = {}
        for kind, module in _modules():
            for holder, name, function in _functions(module):
                timed = self._timed(function, kind)
                if isinstance(holder, type):
                    _set_method(holder, name, timed)
                else:
                    replaced[function] = timed
        for module in [one for name, one in sys.modules.items() if name.partition(".")[0] == "kcagc"]:
            for name, value in list(vars(module).items()):
                if inspect.isfunction(value) and value in replaced:
                    setattr(module, name, replaced[value])
        Worker.call = self._calling(Worker.call)  # type: ignore[method-assign]

    def _timed(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        @wraps(function)
        def timed(*values: Any, **named: Any) -> Any:
            if threading.get_ident() != self._thread:
                return function(*values, **named)
            self._turn(kind)
            try:
                return function(*values, **named)
            finally:
                self._turn("")

        setattr(timed, _MARK, kind)
        return timed

    def _turn(self, kind: str) -> None:
        """Start a kind of work within another, or end the innermost."""
        now = time.monotonic()
        self._spent[self._doing[-1]] = self._spent.get(self._doing[-1], 0.0) + now - self._since
        self._since = now
        if kind:
            # Everything that local work calls is local work.
            self._doing.append("local work" if self._doing[-1] == "local work" else kind)
        else:
            self._doing.pop()

    def _calling(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        async def noted(worker: Any, function: Callable[..., Any], *values: Any) -> Any:
            def step() -> Any:
                self._thread, self._spent, self._doing = threading.get_ident(), {}, ["other work"]
                start_time = self._since = time.monotonic()
                try:
                    return function(*values)
                finally:
                    now = time.monotonic()
                    self._spent["other work"] = self._spent.get("other work", 0.0) + now - self._since
                    self._watch.note("step", [start_time, now, dict(self._spent)])

            return await call(worker, step)

        return noted


def _modules() -> Iterator[tuple[str, Any]]:
    seen = set()
    for name, kind in KINDS.items():
        module = importlib.import_module(name)
        inner = [one.name for one in pkgutil.iter_modules(getattr(module, "__path__", []), f"{name}.")]
        for each in [name, *inner]:
            if each not in seen:
                seen.add(each)
                yield kind, importlib.import_module(each)


def _functions(module: Any) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Return every plain function that a module defines, and those of its classes; not coroutines and generators."""
    for name, value in list(vars(module).items()):
        if inspect.isclass(value) and value.__module__ == module.__name__:
            for inner, method in list(vars(value).items()):
                plain = method.__func__ if isinstance(method, classmethod | staticmethod) else method
                if not inner.startswith("__") and _plain(plain) and plain.__module__ == module.__name__:
                    yield value, inner, plain
        elif _plain(value) and value.__module__ == module.__name__:
            yield module, name, value


def _plain(value: Any) -> bool:
    waits = inspect.iscoroutinefunction(value) or inspect.isgeneratorfunction(value)
    return inspect.isfunction(value) and not waits and not hasattr(value, _MARK)


def _set_method(holder: type, name: str, timed: Callable[..., Any]) -> None:
    before = vars(holder)[name]
    kind = type(before) if isinstance(before, classmethod | staticmethod) else None
    setattr(holder, name, kind(timed) if kind else timed)


def run_role(plan: dict[str, Any]) -> int:
    """Run a role with stopwatch and clock; return its exit code."""
    from kcagc.deploy import run as _  # noqa: F401, PLC0415 - imports all modules of a role

    watch = Stopwatch()
    Clock(watch).install()  # first, so that the stopwatch wraps clocked functions
    watch.install()
    return run_installed(watch, plan)
