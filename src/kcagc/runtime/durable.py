"""A role that survives crashes: its driver, its journal, and numbered queues of messages for each peer.

Nothing here waits or connects. `SessionRun` passes in the messages that arrive, and sends those in the outboxes.

Each direction between two roles counts its messages from 1. The sender keeps a message until the receiver has committed
it; after a lost connection it sends the remaining ones again with the same bytes. The receiver drops repeated messages.
Different bytes under a used number are equivocation and end the run.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kcagc.disclosure import Disclosure, Ledger
from kcagc.errors import AbortedError, EquivocationError, KcagcError, PeerError, SessionError
from kcagc.protocol.effects import Role
from kcagc.protocol.messages import Abort, decode, expect, is_early, tag_of
from kcagc.runtime.driver import Driver, Sent, Watcher
from kcagc.runtime.journal import Journal
from kcagc.secagg.keys import digest
from kcagc.text import printable

RECEIPTS = "receipts"  # fact of a finished session: what `DurableRole.receipts` returns
MAX_WAITING = 32  # messages of one peer that the role has not asked for yet
_VECTORS = ("masked", "padded")  # an aggregator keeps these in memory until it has stored what it computes from them
_RECOMPUTED = (*_VECTORS, "split")  # messages of many megabytes that a replay computes again


@dataclass(frozen=True)
class ReceivedMessage:
    """A message of a peer that waits for the role."""

    number: int
    digest: bytes
    payload: bytes


class PeerQueue:
    """The messages between a role and one peer."""

    def __init__(self, peer: str, *, max_waiting_bytes: int = 1 << 40) -> None:
        self.peer = peer
        self.outbox: dict[int, bytes] = {}  # messages that the peer has not committed yet, by number
        self.sent = 0  # the last number that may leave
        self.acknowledged = 0  # the last number that the peer has committed
        self.arrived = 0  # the last number that has arrived
        self.safe = 0  # the last number of the peer that is committed here
        self.closed = False  # whether the peer has closed a stream, because it has finished
        self.bytes_sent = self.bytes_arrived = 0  # of messages, in this process
        self.inbox: deque[ReceivedMessage] = deque()  # messages that wait for the role
        self._waiting_bytes, self._max_waiting_bytes = 0, max_waiting_bytes
        self._digests: dict[int, bytes] = {}

    def restore_arrived(self, number: int, digest: bytes) -> None:
        """Restore from a journal that this message has arrived and is committed."""
        self.arrived = self.safe = number
        self._digests[number] = digest

    def post(self, number: int, payload: bytes) -> None:
        """Add a committed message to the outbox."""
        self.outbox[number] = payload
        self.sent = number
        self.bytes_sent += len(payload)

    def acknowledge(self, number: int) -> None:
        """Drop the messages that the peer has committed."""
        if number > self.sent:
            raise self._error(f"acknowledged message {number}, but only {self.sent} were sent")
        for done in range(self.acknowledged + 1, number + 1):
            self.outbox.pop(done, None)
        self.acknowledged = max(self.acknowledged, number)

    def receive(self, number: int, payload: bytes) -> bool:
        """Return whether a message is new; refuse a gap, and different bytes under a used number."""
        digest = hashlib.sha256(payload).digest()
        if 0 < number <= self.arrived:
            if self._digests.get(number) != digest:
                error = EquivocationError(f"sent two different messages under number {number}", peer=self.peer)
                raise error.with_public_message(f"{self.peer} sent two different messages under one number")
            return False
        if number != self.arrived + 1:
            raise self._error(f"sent message {number} instead of {self.arrived + 1}")
        waiting = self._waiting_bytes + len(payload)
        if len(self.inbox) >= MAX_WAITING or (self.inbox and waiting > self._max_waiting_bytes):
            raise self._error("sent more messages than the protocol asks for")
        self.arrived, self._waiting_bytes = number, waiting
        self.bytes_arrived += len(payload)
        self._digests[number] = digest
        self.inbox.append(ReceivedMessage(number, digest, payload))
        return True

    def next_message(self) -> ReceivedMessage:
        """Return the oldest waiting message and remove it."""
        message = self.inbox.popleft()
        self._waiting_bytes -= len(message.payload)
        return message

    def digests(self) -> list[bytes]:
        """Return the digests of all messages that have arrived, in their order."""
        return [self._digests[number] for number in range(1, self.arrived + 1)]

    @property
    def settled(self) -> bool:
        """Whether the peer has committed everything."""
        return self.acknowledged == self.sent

    def _error(self, message: str) -> PeerError:
        return PeerError(message, peer=self.peer)


class MessageReceipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many messages a role and one peer have exchanged, and a digest of all in each direction."""

    peer: str
    sent: int
    sent_digest: str
    received: int
    received_digest: str


class DurableLedger(Ledger):
    """A ledger that the journal stores before the disclosed message leaves."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def record(self, entry: Disclosure) -> None:
        """Add a disclosure here and in the journal."""
        super().record(entry)
        self._journal.record(entry)


class DurableRole:
    """Steps a role, one transaction a step. `aggregator`: this role aggregates and keeps masked vectors in memory.

    `finished`: the role has ended, with or without error, and its last messages are committed and in the outboxes.
    Other threads than the one that steps the role may read it, during the last step too.
    """

    def __init__(
        self,
        name: str,
        role: Role[Any],
        queues: Mapping[str, PeerQueue],
        journal: Journal,
        *,
        aggregator: bool,
        watcher: Watcher | None = None,
    ) -> None:
        self.queues, self._is_aggregator, self._journal, self._watcher = queues, aggregator, journal, watcher
        self.on_flush: Callable[[], None] = lambda: None  # called when messages can leave in the middle of a step
        self.finished = self._journal_failed = False
        self._past_local_labels: set[str] = set()  # roles that sent anything after their local labels
        self._numbers = dict.fromkeys(queues, 0)
        self._dropped = dict.fromkeys(queues, 0)
        self._unstored: dict[str, list[ReceivedMessage]] = {peer: [] for peer in queues}
        self.driver = Driver(name, role, tuple(queues), store=journal, ledger=DurableLedger(journal))

    @property
    def failed(self) -> bool:
        """Whether the role has ended with an error."""
        return self.finished and self.driver.error is not None

    def can_start_over(self, besides: str = "") -> bool:
        """Return whether a new session would only repeat what all roles, except one, have sent so far."""
        # A new session would propose other starting nodes, which depend on the features of a party.
        return self._past_local_labels <= {besides} and not self.driver.ledger.of("encrypted/confirmation.starts")

    def resume(self) -> None:
        """Start, or replay the journal: the same messages in must give the same messages out, or nothing is sent."""
        received, sent = self._journal.incoming(), self._journal.outgoing()
        inbox: dict[str, deque[bytes]] = {peer: deque() for peer in self.queues}
        for message in received:
            self.queues[message.peer].restore_arrived(message.number, message.digest)
            if message.payload is None or not is_early(message.payload, message.peer):
                self._past_local_labels.add(message.peer)
            if message.payload is not None:
                inbox[message.peer].append(message.payload)
        staged = self._numbered(self.driver.start())
        while ready := [peer for peer in sorted(self.driver.waiting_for) if inbox[peer]]:
            staged += self._numbered(self.driver.deliver(ready[0], inbox[ready[0]].popleft()))
        # An error of the session, such as a lost cluster, ends this process only: the same command resumes the role.
        if self.driver.error is not None and (received or sent or isinstance(self.driver.error, SessionError)):
            raise self._replay_failed(self.driver.error)
        if any(inbox.values()) or any(self._numbers[one.peer] < one.number for one in sent):
            raise self._replay_failed(KcagcError("the role asks for other messages than before"))
        self._journal.commit()
        acknowledged = {(one.peer, one.number) for one in sent if one.payload is None}
        for peer, number, payload in staged:
            if (peer, number) in acknowledged:
                self.queues[peer].sent = self.queues[peer].acknowledged = number
            else:
                self.queues[peer].post(number, payload)
        self.finished = self.driver.finished
        # Not during the replay: the numbers show which messages of an interrupted step have left.
        self.driver.flushes, self.driver.watcher = True, self._watcher

    def receive(self, sender: str, number: int, payload: bytes) -> None:
        """Accept a message and take all steps that it allows.

        A number that cannot be the next raises `PeerError`; the message is dropped, and the role continues.
        """
        queue = self.queues[sender]
        with self._steps():
            try:
                if not queue.receive(number, payload):
                    return
            except EquivocationError as error:
                self._end(error)
                return
            if self.driver.finished:
                queue.safe = number  # it changes nothing any more, and its sender need not wait
                return
            try:
                is_abort = tag_of(payload, sender) == "abort"
                if not is_early(payload, sender):
                    self._past_local_labels.add(sender)
            except PeerError as error:
                self._end(error)
                return
            if is_abort:  # ends the run even if the role does not wait for this sender
                self._end(self._aborted(sender, payload))
                queue.safe = number
                return
            while ready := [one for one in sorted(self.driver.waiting_for) if self.queues[one].inbox]:
                self._deliver(ready[0])
                while self.driver.interrupted:
                    self.on_flush()
                    self._finish_step(self.driver.go_on())

    def receipts(self) -> bytes:
        """Return a receipt for every peer, as JSON; call it before the journal forgets the messages."""
        sent: dict[str, list[bytes]] = {peer: [] for peer in self.queues}
        for one in self._journal.outgoing():
            sent[one.peer].append(one.digest)
        made = [
            MessageReceipt(peer, len(sent[peer]), _chained(sent[peer]), queue.arrived, _chained(queue.digests()))
            for peer, queue in self.queues.items()
        ]
        return msgspec.json.encode(made)

    def fail(self, error: Exception) -> None:
        """End the role from outside; its peers receive an abort message."""
        with self._steps():
            self._end(error)

    def store_acknowledged(self) -> None:
        """Commit which messages the peers have committed; after the last step no other step does it."""
        with self._steps():
            self._drop_acknowledged()
            self._journal.commit()

    @contextlib.contextmanager
    def _steps(self) -> Iterator[None]:
        """After an error of the journal, undo the current step and refuse all others."""
        if self._journal_failed:
            raise SessionError(f"{self._journal.path}: the journal has failed, so this run cannot continue")
        try:
            yield
        except SessionError:
            self._journal_failed = True
            self._journal.roll_back()
            raise

    def _end(self, error: Exception) -> None:
        self._finish_step(self.driver.fail(error))

    def _deliver(self, sender: str) -> None:
        message = self.queues[sender].next_message()
        if self._is_aggregator and tag_of(message.payload, sender) in _VECTORS:
            self._unstored[sender].append(message)
            self._finish_step(self.driver.deliver(sender, message.payload))
            return
        self._store_digests(sender)
        self._journal.store_incoming(sender, message.number, message.digest, message.payload)
        self._finish_step(self.driver.deliver(sender, message.payload), sender, message.number)

    def _store_digests(self, peer: str) -> int:
        """Store the digests of masked vectors that a replay no longer needs; return the number of the last one.

        An answer to their sender, or its next message, shows that their sum is complete.
        """
        messages, self._unstored[peer] = self._unstored[peer], []
        for message in messages:
            self._journal.store_incoming(peer, message.number, message.digest, None)
        return messages[-1].number if messages else 0

    def _finish_step(self, sent: Sent, sender: str = "", stored: int = 0) -> None:
        """Commit a step and let its messages leave; `stored` is the number of the sender's message that led to it."""
        if isinstance(self.driver.error, SessionError):
            raise self.driver.error
        if not sent and not stored:  # a vector of an incomplete sum stays in memory
            self.finished = self.driver.finished
            return
        if self.driver.error is not None:
            self._journal.note_failure(str(self.driver.error))
        staged = self._numbered(sent)
        safe = {peer: self._store_digests(peer) for peer in {peer for peer, _ in sent}}
        if stored:
            safe[sender] = max(safe.get(sender, 0), stored)
        self._drop_acknowledged()
        self._journal.commit()
        for peer, number in safe.items():
            self.queues[peer].safe = max(self.queues[peer].safe, number)
        for peer, number, payload in staged:
            self.queues[peer].post(number, payload)
        self.finished = self.driver.finished

    def _drop_acknowledged(self) -> None:
        for peer, queue in self.queues.items():
            if queue.acknowledged > self._dropped[peer]:
                self._dropped[peer] = queue.acknowledged
                self._journal.drop_outgoing(peer, self._dropped[peer])

    def _numbered(self, sent: Sent) -> list[tuple[str, int, bytes]]:
        """Assign numbers to messages and store them; they may leave after the commit."""
        staged = []
        for peer, payload in sent:
            self._numbers[peer] += 1
            if not is_early(payload, peer):
                self._past_local_labels.add(self.driver.name)
            whole = tag_of(payload, peer) not in _RECOMPUTED
            self._journal.store_outgoing(peer, self._numbers[peer], payload, whole=whole)
            staged.append((peer, self._numbers[peer], payload))
        return staged

    def _replay_failed(self, cause: Exception) -> SessionError:
        self._journal.roll_back()
        if isinstance(cause, SessionError):
            return cause
        return SessionError(
            f"{self._journal.path}: the journal cannot be replayed ({cause}); nothing was sent. Start all roles with "
            "--new-session"
        )

    def _aborted(self, sender: str, payload: bytes) -> KcagcError:
        try:
            message = expect(decode(payload, sender), Abort, sender)
        except PeerError as error:
            return error
        # The aggregator receives the aborts of all parties themselves, and does not believe one about another.
        origin = sender if self._is_aggregator else printable(message.origin)
        aborted = AbortedError(printable(message.reason), peer=origin)
        aborted.final = message.final and not self._is_aggregator
        return aborted


def _chained(digests: list[bytes]) -> str:
    return digest("kcagc receipt", *digests).hex()
