"""Driver: runs the coroutine of one role and carries out its effects. Also its store, its status, and its thread."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from kcagc.disclosure import Disclosure, Ledger
from kcagc.errors import AbortedError, KcagcError, MaskReuseError, PeerError
from kcagc.protocol.effects import CommitMask, Disclose, Flush, LoadResult, Progress, Role, Send, StoreResult, Wait
from kcagc.protocol.messages import MAX_TEXT, Abort, encode

T = TypeVar("T")
Watcher = Callable[[str, Progress], None]
Sent = list[tuple[str, bytes]]  # (receiver, payload)


@dataclass(frozen=True)
class RoleStatus:
    """What a running role waits for, and its traffic.

    `waiting_for` are the peers whose message it needs (none while it computes), `disconnected` the peers without a
    connection. The bytes are those of messages that this process sent and received.
    """

    waiting_for: tuple[str, ...]
    disconnected: tuple[str, ...]
    bytes_sent: int
    bytes_received: int


class Store(Protocol):
    """The results and mask labels of one role in one session.

    A durable store needs the secrets of the session stored as durably, before the role starts.
    """

    def store_result(self, name: str, compute: Callable[[], bytes], keep: bytes = b"") -> bytes:
        """Return the result stored under a name; compute and store it if there is none.

        With `keep`, the result that an earlier session stored under this key counts too.
        """

    def load_result(self, name: str) -> bytes | None:
        """Return the result stored under a name, or None."""

    def commit_mask(self, label: bytes, digest: bytes) -> None:
        """Store that a mask label hides the content with this digest; raise `MaskReuseError` for a second digest."""


def mask_reuse() -> MaskReuseError:
    """Return the error for a second content under one mask label."""
    return MaskReuseError("refusing to reuse a mask for different data; nothing was sent")


class MemoryStore:
    """A store that lasts as long as the process; `kept` are results that sessions have in common."""

    def __init__(self, kept: dict[bytes, bytes] | None = None) -> None:
        self.results: dict[str, bytes] = {}
        self.kept = {} if kept is None else kept
        self.labels: dict[bytes, bytes] = {}

    def store_result(self, name: str, compute: Callable[[], bytes], keep: bytes = b"") -> bytes:
        """Compute and store a result on its first use."""
        if name not in self.results:
            self.results[name] = self.kept[keep] if keep in self.kept else compute()
            if keep:
                self.kept[keep] = self.results[name]
        return self.results[name]

    def load_result(self, name: str) -> bytes | None:
        """Return a stored result, or None."""
        return self.results.get(name)

    def commit_mask(self, label: bytes, digest: bytes) -> None:
        """Store the content of a label; refuse another one."""
        if self.labels.setdefault(label, digest) != digest:
            raise mask_reuse()


class Driver:
    """Runs one role from message to message."""

    def __init__(
        self,
        name: str,
        role: Role[Any],
        peers: tuple[str, ...],
        *,
        store: Store | None = None,
        ledger: Ledger | None = None,
        common: Ledger | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self.name, self.peers = name, peers
        self.ledger = Ledger() if ledger is None else ledger
        self._common = common  # a ledger of all roles in this process, with each disclosure once
        self.waiting_for: frozenset[str] = frozenset()
        self.flushes = False  # whether a `Flush` effect interrupts a step
        self.interrupted = False  # a step was interrupted by `Flush`: call `go_on`
        self.finished = False
        self.result: Any = None
        self.error: Exception | None = None
        self.watcher = watcher
        self._role = role
        self._store = MemoryStore() if store is None else store

    def start(self) -> Sent:
        """Run until the role waits; return the messages that it sent."""
        return self._advance(None)

    def deliver(self, sender: str, payload: bytes) -> Sent:
        """Pass a message to the role, which waits for it; return the messages that it sent."""
        if sender not in self.waiting_for:
            raise KcagcError(f"{self.name}: received a message of {sender}, but does not wait for one")
        return self._advance((sender, payload))

    def go_on(self) -> Sent:
        """Continue an interrupted step; return the messages that it sent since."""
        return self._advance(None)

    def fail(self, error: Exception) -> Sent:
        """End the role with an error from outside, for example a timeout; return the messages to its peers."""
        if self.finished:
            return []
        self.finished, self.error, self.waiting_for = True, error, frozenset()
        return self._abort(error)

    def _advance(self, value: Any) -> Sent:
        sent: Sent = []
        self.waiting_for, self.interrupted = frozenset(), False
        try:
            while True:
                effect = self._role.send(value)
                value = None
                if isinstance(effect, Wait):
                    self.waiting_for = effect.senders
                    return sent
                if isinstance(effect, Flush):
                    if self.flushes and sent:
                        self.interrupted = True
                        return sent
                elif isinstance(effect, Send):
                    self._record(effect.entry)
                    sent.append((effect.to, effect.payload))
                elif isinstance(effect, Disclose):
                    self._record(effect.entry)
                elif isinstance(effect, StoreResult):
                    value = self._store.store_result(effect.name, effect.compute, effect.keep)
                elif isinstance(effect, LoadResult):
                    value = self._store.load_result(effect.name)
                elif isinstance(effect, CommitMask):
                    self._store.commit_mask(effect.label, effect.digest)
                elif self.watcher is not None:
                    self.watcher(self.name, effect)
        except StopIteration as end:
            self.finished, self.result = True, end.value
        except Exception as error:
            sent += self.fail(error)
        return sent

    def _record(self, entry: Disclosure) -> None:
        self.ledger.record(entry)
        if self._common is not None and self.name in (entry.sender, entry.receiver):
            self._common.record(entry)

    def _abort(self, error: Exception) -> Sent:
        """Return messages that name the role that ended the run and its public reason, without anything about data."""
        self._role.close()
        origin, reason = self.name, error.public_message if isinstance(error, KcagcError) else KcagcError.public_message
        informed, final = "", False  # a peer that knows of the end already
        if isinstance(error, PeerError) and error.recoverable and error.peer in self.peers:
            origin, reason = error.peer, f"it broke the rules, says {self.name}"
        elif isinstance(error, AbortedError):
            origin, reason, informed, final = error.peer, error.reason, error.peer, error.final
        payload = encode(Abort(origin[:MAX_TEXT], reason[:MAX_TEXT], final))
        receivers = [peer for peer in self.peers if peer != informed]
        for peer in receivers:
            self._record(Disclosure(self.name, peer, "message/abort", "abort", (), len(payload)))
        return [(peer, payload) for peer in receivers]


class Worker:
    """A thread that runs the steps of a role one after the other, so that the network is served meanwhile.

    It is a daemon: the process can end in the middle of a step, and the journal then holds nothing of that step.
    """

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()  # (event loop, future, function)
        self._pending: set[asyncio.Future[Any]] = set()
        self._stopped = False
        threading.Thread(target=self._work, daemon=True, name="role").start()

    async def call(self, function: Callable[..., T], *values: Any) -> T:
        """Run a function in the thread and return its result."""
        if self._stopped:
            raise RuntimeError("the thread of this role has ended")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        self._tasks.put((loop, future, partial(function, *values)))
        return await asyncio.shield(future)  # a step runs to its end even if the caller is cancelled

    def stop(self) -> None:
        """End the thread after the functions that wait for it; their callers wait no longer."""
        self._stopped = True
        self._tasks.put(None)
        for future in list(self._pending):
            future.cancel()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            loop, future, function = task
            try:
                settle = partial(future.set_result, function())
            except BaseException as error:
                settle = partial(future.set_exception, error)
            try:
                loop.call_soon_threadsafe(_unless_done, future, settle)
            except RuntimeError:  # the event loop is closed
                return


def _unless_done(future: asyncio.Future[Any], settle: Callable[[], None]) -> None:
    if not future.done():  # no caller waits after `Worker.stop`
        settle()
