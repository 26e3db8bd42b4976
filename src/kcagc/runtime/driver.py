"""One role and what is around it: its store, its ledger, who watches. It carries out effects, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kcagc.disclosure import Entry, Ledger
from kcagc.errors import AbortedError, KcagcError, MaskReuseError, PeerError
from kcagc.protocol.effects import CommitMask, Disclose, Flush, LoadResult, Progress, Role, Send, StoreResult, Wait
from kcagc.protocol.messages import MAX_TEXT, Abort, encode

Watcher = Callable[[str, Progress], None]


class Store(Protocol):
    """Where a role keeps what must outlive it. A store belongs to one session and one role, as do the secrets.

    Whoever makes a store durable must keep the session's secrets as durably, and before the role starts.
    """

    def once(self, name: str, compute: Callable[[], bytes]) -> bytes:
        """Give what is stored under a name; if nothing is, compute and store it first."""

    def recall(self, name: str) -> bytes | None:
        """Give what is stored under a name, or None."""

    def use(self, label: bytes, digest: bytes) -> None:
        """Commit that a label hides a content with this digest, or raise `MaskReuseError`."""


class MemoryStore:
    """A store that lasts as long as the process."""

    def __init__(self) -> None:
        self.results: dict[str, bytes] = {}
        self.labels: dict[bytes, bytes] = {}

    def once(self, name: str, compute: Callable[[], bytes]) -> bytes:
        """Compute what is not there yet."""
        if name not in self.results:
            self.results[name] = compute()
        return self.results[name]

    def recall(self, name: str) -> bytes | None:
        """Give what was computed, if it was."""
        return self.results.get(name)

    def use(self, label: bytes, digest: bytes) -> None:
        """Remember a label's content, and refuse another."""
        if self.labels.setdefault(label, digest) != digest:
            raise MaskReuseError("a label that hides one content was about to hide another; nothing was sent")


class Driver:
    """Steps one role from message to message."""

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
        self._common = common  # of all roles in this process, each disclosure once
        self.waiting_for: frozenset[str] = frozenset()
        self.releases = False  # whether a step may stop for what was said to leave
        self.stopped = False  # in the middle of a step, where what was said is to leave: see `go_on`
        self.finished = False
        self.result: Any = None
        self.error: Exception | None = None
        self._role = role
        self._store = MemoryStore() if store is None else store
        self._watcher = watcher

    def start(self) -> list[tuple[str, bytes]]:
        """Run until the role waits; give what it sent, as (receiver, payload)."""
        return self._advance(None)

    def deliver(self, sender: str, payload: bytes) -> list[tuple[str, bytes]]:
        """Hand the role a message it waits for; give what it sent in turn."""
        if sender not in self.waiting_for:
            raise KcagcError(f"{self.name}: was handed a message of {sender}, which it does not wait for")
        return self._advance((sender, payload))

    def go_on(self) -> list[tuple[str, bytes]]:
        """Go on with a step that stopped; give what it sent since."""
        self.stopped = False
        return self._advance(None)

    def fail(self, error: Exception) -> list[tuple[str, bytes]]:
        """End the role from outside (a lost connection, a time limit); give what its peers are told."""
        if self.finished:
            return []
        self.finished, self.error, self.waiting_for = True, error, frozenset()
        return self._farewell(error)

    def _advance(self, value: Any) -> list[tuple[str, bytes]]:
        sent: list[tuple[str, bytes]] = []
        self.waiting_for = frozenset()
        try:
            while True:
                effect = self._role.send(value)
                value = None
                if isinstance(effect, Wait):
                    self.waiting_for = effect.senders
                    return sent
                if isinstance(effect, Flush):
                    if self.releases and sent:
                        self.stopped = True
                        return sent
                elif isinstance(effect, Send):
                    self._record(effect.entry)
                    sent.append((effect.to, effect.payload))
                elif isinstance(effect, Disclose):
                    self._record(effect.entry)
                elif isinstance(effect, StoreResult):
                    value = self._store.once(effect.name, effect.compute)
                elif isinstance(effect, LoadResult):
                    value = self._store.recall(effect.name)
                elif isinstance(effect, CommitMask):
                    self._store.use(effect.label, effect.digest)
                elif self._watcher is not None:
                    self._watcher(self.name, effect)
        except StopIteration as end:
            self.finished, self.result = True, end.value
        except Exception as error:
            sent += self.fail(error)
        return sent

    def _record(self, entry: Entry) -> None:
        self.ledger.record(entry)
        if self._common is not None and self.name in (entry.sender, entry.receiver):
            self._common.record(entry)

    def _farewell(self, error: Exception) -> list[tuple[str, bytes]]:
        """Tell the peers which role ended the run and why, in words that say nothing about data."""
        self._role.close()
        origin, reason = self.name, error.public_message if isinstance(error, KcagcError) else KcagcError.public_message
        if isinstance(error, PeerError) and error.recoverable and error.peer in self.peers:
            origin, reason = error.peer, f"it broke the rules, says {self.name}"
        if isinstance(error, AbortedError):
            origin, reason = error.peer, error.reason
        payload = encode(Abort(origin[:MAX_TEXT], reason[:MAX_TEXT]))
        heard = error.peer if isinstance(error, AbortedError) else ""  # who said so need not hear it again
        told = [peer for peer in self.peers if peer != heard]
        for peer in told:
            self._record(Entry(self.name, peer, "message/abort", "abort", (), len(payload)))
        return [(peer, payload) for peer in told]
