"""A role that can be killed at any moment and go on: its station, its journal and its numbered correspondence, joined.

Nothing here waits or connects. Whoever runs it hands in what arrives, and sends what is in the outboxes.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kcagc.disclosure import Entry, Ledger
from kcagc.errors import AbortedError, EquivocationError, KcagcError, PeerError, SessionError
from kcagc.protocol.effects import Role
from kcagc.protocol.messages import Abort, decode, expect, is_early, tag_of
from kcagc.runtime.driver import Driver, Watcher
from kcagc.runtime.journal import MADE_AGAIN, Journal
from kcagc.runtime.peer_queue import Letter, PeerQueue
from kcagc.text import printable


class DurableLedger(Ledger):
    """A ledger whose entries are safe in the journal before what they speak of leaves."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def record(self, entry: Entry) -> None:
        """Add one, here and in the journal."""
        super().record(entry)
        self._journal.record(entry)


class DurableRole:
    """Steps a role, a transaction a step. `aggregator` is for the aggregator, which keeps masked vectors in memory."""

    def __init__(
        self,
        name: str,
        role: Role[Any],
        letters: Mapping[str, PeerQueue],
        journal: Journal,
        *,
        aggregator: bool,
        watcher: Watcher | None = None,
    ) -> None:
        self.letters, self._is_aggregator, self._journal, self._watcher = letters, aggregator, journal, watcher
        self.on_release: Callable[[], None] = lambda: None  # called when messages can leave in the middle of a step
        self._live = self._complete = self._broken = False
        self._sent_later = False  # whether this role has sent anything that follows local clusters
        self._later: set[str] = set()  # who has sent anything that follows local clusters
        self._numbers = dict.fromkeys(letters, 0)
        self._forgotten = dict.fromkeys(letters, 0)
        self._unsettled: dict[str, list[Letter]] = {peer: [] for peer in letters}
        self._station = Driver(
            name, role, tuple(letters), store=journal, ledger=DurableLedger(journal), watcher=self._watch
        )

    @property
    def finished(self) -> bool:
        """Whether the role has ended, well or not, and its last words are safe and in the outboxes.

        Asked from another thread than the one that steps the role, which may be in the middle of its last step.
        """
        return self._complete

    @property
    def error(self) -> Exception | None:
        """Why it ended, if not well."""
        return self._station.error

    @property
    def result(self) -> Any:
        """What it ended with."""
        return self._station.result

    @property
    def waiting_for(self) -> frozenset[str]:
        """Whose message it needs to go on."""
        return self._station.waiting_for

    @property
    def ledger(self) -> Ledger:
        """Everything that left this role or opened to it."""
        return self._station.ledger

    def early(self, besides: str = "") -> bool:
        """Say whether all, besides one, have said nothing yet that beginning anew would not say again alike."""
        # Proposed starts are far apart in a party's features, and another session would propose others.
        return self._later <= {besides} and not self._sent_later and not self.ledger.of("inside/confirmation.starts")

    def resume(self) -> None:
        """Begin, or replay the journal: the same messages in give the same messages out, or nothing is sent."""
        kept, sent = self._journal.incoming(), self._journal.outgoing()
        inbox: dict[str, deque[bytes]] = {peer: deque() for peer in self.letters}
        for message in kept:
            self.letters[message.peer].restore_arrived(message.number, message.digest)
            if message.payload is None or not is_early(message.payload, message.peer):
                self._later.add(message.peer)
            if message.payload is not None:
                inbox[message.peer].append(message.payload)
        staged = self._staged(self._station.start())
        while ready := [peer for peer in sorted(self.waiting_for) if inbox[peer]]:
            staged += self._staged(self._station.deliver(ready[0], inbox[ready[0]].popleft()))
        if self._station.error is not None and (kept or sent):
            raise self._replay_failed(self._station.error)
        if any(inbox.values()) or any(self._numbers[one.peer] < one.number for one in sent):
            raise self._replay_failed(KcagcError("it asks for other messages than before"))
        self._journal.commit()
        stored = {(one.peer, one.number) for one in sent}
        made = {(peer, number): payload for peer, number, payload in staged}
        for one in sent:
            again = one.payload == MADE_AGAIN
            self._restore_sent(one.peer, one.number, made[one.peer, one.number] if again else one.payload)
        self._post([(peer, number, payload) for peer, number, payload in staged if (peer, number) not in stored])
        self._live, self._complete = True, self._station.finished
        # Not while replaying: what left in the middle of a step is told apart by its number.
        self._station.releases = True

    def take_in(self, sender: str, number: int, payload: bytes) -> None:
        """Take in a message, and do all that it allows; afterwards outboxes and `safe` numbers have moved on.

        A number that cannot come next is a `PeerError`: the message is not taken, and the role goes on. Other bytes
        under a number that was used end the run.
        """
        with self._steps():
            self._take_in(sender, number, payload)

    def fail(self, error: Exception) -> None:
        """End the role from outside; its peers are told."""
        with self._steps():
            self._end(error)

    def keep_acknowledged(self) -> None:
        """Make safe what peers have said is safe with them: after the last step no other will do it."""
        with self._steps():
            self._forget_acknowledged()
            self._journal.commit()

    @contextlib.contextmanager
    def _steps(self) -> Iterator[None]:
        """When the journal fails, nothing of the step at hand leaves, and no other is begun."""
        if self._broken:
            raise SessionError(f"{self._journal.path}: the journal has failed, and nothing is done without it")
        try:
            yield
        except SessionError:
            self._broken = True
            self._journal.roll_back()
            raise

    def _take_in(self, sender: str, number: int, payload: bytes) -> None:
        letters = self.letters[sender]
        try:
            if not letters.take_in(number, payload):
                return
        except EquivocationError as error:
            self._end(error)
            return
        if self._station.finished:
            letters.safe = number  # it changes nothing any more, and its sender need not wait
            return
        try:
            ends = tag_of(payload, sender) == "abort"
            if not is_early(payload, sender):
                self._later.add(sender)
        except PeerError as error:
            self._end(error)
            return
        if ends:  # need not wait until somebody asks for this sender's message
            self._end(self._aborted(sender, payload))
            letters.safe = number  # its sender has been heard, and may leave
            return
        while not self._station.finished and (
            ready := [one for one in sorted(self.waiting_for) if self.letters[one].has_letter]
        ):
            self._deliver(ready[0])
            while self._station.stopped:
                self.on_release()
                self._finish_step(self._station.go_on())

    def _end(self, error: Exception) -> None:
        self._finish_step(self._station.fail(error))

    def _deliver(self, sender: str) -> None:
        letter = self.letters[sender].next_letter()
        if self._is_aggregator and tag_of(letter.payload, sender) == "masked":
            self._unsettled[sender].append(letter)
            self._finish_step(self._station.deliver(sender, letter.payload))
            return
        self._settle(sender)
        self._journal.keep_incoming(sender, letter.number, letter.digest, letter.payload)
        self._finish_step(self._station.deliver(sender, letter.payload), sender, letter.number)

    def _settle(self, peer: str) -> int:
        """Keep the digests of vectors that an answer to their sender, or its next message, has made superfluous."""
        last = 0
        for letter in self._unsettled[peer]:
            self._journal.keep_incoming(peer, letter.number, letter.digest, None)
            last = letter.number
        self._unsettled[peer].clear()
        return last

    def _finish_step(self, sent: list[tuple[str, bytes]], sender: str = "", kept: int = 0) -> None:
        """Make a step safe and let its messages leave; `kept` is the number of the sender's message that led to it."""
        if isinstance(self._station.error, SessionError):
            raise self._station.error
        if not sent and not kept:  # a vector whose sum is not complete: it stays in memory
            self._complete = self._station.finished
            return
        if self._station.error is not None:
            self._journal.note_failing(str(self._station.error))
        staged = self._staged(sent)
        safe = {peer: self._settle(peer) for peer in {peer for peer, _ in sent}}
        if kept:
            safe[sender] = max(safe.get(sender, 0), kept)
        self._forget_acknowledged()
        self._journal.commit()
        for peer, number in safe.items():
            self.letters[peer].safe = max(self.letters[peer].safe, number)
        self._post(staged)
        self._complete = self._station.finished

    def _forget_acknowledged(self) -> None:
        for peer, letters in self.letters.items():
            if letters.acknowledged > self._forgotten[peer]:
                self._forgotten[peer] = letters.acknowledged
                self._journal.forget_outgoing(peer, self._forgotten[peer])

    def _staged(self, sent: list[tuple[str, bytes]]) -> list[tuple[str, int, bytes]]:
        staged = []
        for peer, payload in sent:
            self._numbers[peer] += 1
            # A masked vector may be many megabytes, in every round.
            whole = self._is_aggregator or tag_of(payload, peer) != "masked"
            self._sent_later = self._sent_later or not is_early(payload, peer)
            self._journal.keep_outgoing(peer, self._numbers[peer], payload, whole=whole)
            staged.append((peer, self._numbers[peer], payload))
        return staged

    def _post(self, staged: list[tuple[str, int, bytes]]) -> None:
        for peer, number, payload in staged:
            self.letters[peer].post(number, payload)

    def _restore_sent(self, peer: str, number: int, payload: bytes | None) -> None:
        if payload is not None:
            self.letters[peer].post(number, payload)
        else:  # safe at the peer already
            self.letters[peer].sent = self.letters[peer].acknowledged = number

    def _replay_failed(self, why: Exception) -> SessionError:
        self._journal.roll_back()
        if isinstance(why, SessionError):
            return why
        return SessionError(
            f"{self._journal.path}: the run cannot be replayed from its journal ({why}); nothing was sent. Start all "
            "roles with --new-session"
        )

    def _aborted(self, sender: str, payload: bytes) -> KcagcError:
        try:
            message = expect(decode(payload, sender), Abort, sender)
        except PeerError as error:
            return error
        # Who hears everybody takes nobody's word for who ended the run.
        origin = sender if self._is_aggregator else printable(message.origin)
        return AbortedError(printable(message.reason), peer=origin)

    def _watch(self, name: str, progress: Any) -> None:
        if self._live and self._watcher is not None:
            self._watcher(name, progress)
