"""Effects: everything that a role asks its driver to do, and the typed channel on top of them.

A role is a coroutine without sockets, clocks, threads or randomness. It awaits one of the effects below; the driver
carries the effect out and returns the result. The same coroutine therefore runs in one process, over a network, or
from a journal.

Messages between two roles arrive in the order in which they were sent, and a role always names the sender whose message
it waits for. Such a network computes the same result for every order of arrival (G. Kahn, 1974).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kcagc.disclosure import Disclosure
from kcagc.disclosure.texts import opened_kind
from kcagc.errors import AbortedError, KcagcError, PeerError
from kcagc.protocol.messages import Abort, AnyMessage, Message, RunStage, Step, decode, encode, expect, kind_of
from kcagc.secagg.masks import Group
from kcagc.text import printable

T = TypeVar("T")
M = TypeVar("M", bound=Message)


class _Awaited(Generic[T]):
    """Base class of the effects: to await an effect hands it to the driver and returns its result."""

    def __await__(self) -> Generator[Any, Any, T]:
        result: T = yield self
        return result


@dataclass(frozen=True)
class Send(_Awaited[None]):
    """Send these bytes; the driver records the entry in the ledger first."""

    to: str
    payload: bytes
    entry: Disclosure


@dataclass(frozen=True)
class Wait(_Awaited[tuple[str, bytes]]):
    """Wait for the next message of any of these senders; the result is (sender, payload)."""

    senders: frozenset[str]


@dataclass(frozen=True)
class StoreResult(_Awaited[bytes]):
    """Compute something that may differ when computed again: the first result is stored and returned ever after.

    With `keep`, a result that an earlier session stored under this key is returned instead: what a role sends about its
    data must not differ from session to session. It is durable before anything that depends on it leaves.
    """

    name: str
    compute: Callable[[], bytes]
    keep: bytes = b""


@dataclass(frozen=True)
class LoadResult(_Awaited[bytes | None]):
    """Return the result stored under this name, or None."""

    name: str


@dataclass(frozen=True)
class CommitMask(_Awaited[None]):
    """Record durably that a mask label hides the content with this digest; another digest ends the run."""

    label: bytes
    digest: bytes


@dataclass(frozen=True)
class Disclose(_Awaited[None]):
    """Record a disclosure that has no message of its own."""

    entry: Disclosure


@dataclass(frozen=True)
class Progress(_Awaited[None]):
    """Report progress; `total` is 0 if it is unknown, and `limit` if the step usually ends before it."""

    stage: str
    done: int = 0
    total: int = 0
    limit: bool = False


@dataclass(frozen=True)
class Flush(_Awaited[None]):
    """Send the messages so far before a long computation, so that other roles do not wait for it.

    No message before a `Flush` may depend on a result that `StoreResult` computes after it.
    """


REPORT_STAGE = "writing the report"  # the stage after the session, in which a role waits for no other

Effect = Send | Wait | StoreResult | LoadResult | CommitMask | Disclose | Progress | Flush
Role = Coroutine[Effect, Any, T]


async def run_concurrently(children: Sequence[Role[T]], *, inside: str = "") -> list[T]:
    """Run several coroutines of one role at the same time, and return their results.

    No two of them may wait for the same sender. With `inside`, there are two children, and a message from one of them
    to this name goes to the other and never leaves.
    """
    results: dict[int, T] = {}
    waiting: dict[int, frozenset[str]] = {}
    inbox: list[deque[bytes]] = [deque() for _ in children]

    async def advance(index: int, value: Any) -> None:
        while True:
            try:
                effect = children[index].send(value)
            except StopIteration as end:
                results[index] = end.value
                return
            value = None
            if isinstance(effect, Wait) and inside in effect.senders and inbox[index]:
                value = (inside, inbox[index].popleft())
            elif isinstance(effect, Wait):
                waiting[index] = effect.senders
                return
            elif isinstance(effect, Send) and inside and effect.to == inside:
                inbox[1 - index].append(effect.payload)
            else:
                value = await effect

    try:
        for index in range(len(children)):
            await advance(index, None)
        while waiting:
            ready = [index for index, senders in waiting.items() if inside in senders and inbox[index]]
            outside = frozenset().union(*waiting.values()) - {inside}
            if ready:
                index = ready[0]
                if index == 1:  # the member half may now compute for a long time
                    await Flush()
                message = (inside, inbox[index].popleft())
            elif outside:
                message = await Wait(outside)
                (index,) = (one for one, senders in waiting.items() if message[0] in senders)
            else:
                raise KcagcError(f"{inside}: both halves wait for each other")
            del waiting[index]
            await advance(index, message)
    finally:
        for child in children:
            child.close()
    return [results[index] for index in range(len(children))]


async def combine_halves(aggregator: Role[Any], member: Role[T], name: str) -> T:
    """Run both halves of a party that is also the aggregator, and return the result of its member half.

    All other roles communicate with the aggregator half only.
    """
    _, result = await run_concurrently([aggregator, member], inside=name)
    return result


class Channel:
    """Typed messages of one role: each is decoded and checked once, and recorded in the ledger when it is sent."""

    def __init__(self, me: str, *, is_aggregator: bool = False) -> None:
        self.me = me
        self._is_aggregator = is_aggregator

    async def send(
        self, to: str, message: Message, stage: RunStage, *, shape: tuple[int, ...] = (), kind: str | None = None
    ) -> None:
        """Send a message; `kind` names its entry in the ledger if that is not the tag of the message."""
        await self.send_bytes(to, encode(message), kind or kind_of(message), stage, shape)

    async def send_bytes(
        self, to: str, payload: bytes, kind: str, stage: RunStage, shape: tuple[int, ...] = ()
    ) -> None:
        """Send a message that is already encoded."""
        await Send(to, payload, Disclosure(self.me, to, f"message/{kind}", str(stage), shape, len(payload)))

    async def receive(self, sender: str, kind: type[M]) -> M:
        """Return the next message of `sender`, which must be of this type."""
        message, _ = await self.receive_with_bytes(sender, kind)
        return message

    async def receive_with_bytes(self, sender: str, kind: type[M]) -> tuple[M, bytes]:
        """Return the next message of `sender`, and its bytes for the transcript."""
        message, payload = await self.receive_any(sender)
        return expect(message, kind, sender), payload

    async def receive_any(self, sender: str) -> tuple[AnyMessage, bytes]:
        """Return the next message of `sender`; raise an `AbortedError` if it ends the run."""
        actual, payload = await Wait(frozenset([sender]))
        if actual != sender:
            raise PeerError(f"sent a message while {sender} was expected", peer=actual)
        message = decode(payload, sender)
        if isinstance(message, Abort):
            # The aggregator receives every role's messages itself, and believes no role about another one.
            origin = sender if self._is_aggregator else printable(message.origin)
            error = AbortedError(printable(message.reason), peer=origin)
            error.final = message.final and not self._is_aggregator
            raise error
        return message, payload

    async def record_sum(self, group: Group, step: Step, number: int, length: int) -> None:
        """Record that a sum opens to its aggregator."""
        stage, members = RunStage.of_group(step, group, number), "+".join(group.members)
        await Disclose(Disclosure(members, group.aggregator, opened_kind(group, step), str(stage), (length,), 0))

    async def record(self, to: str, kind: str, stage: RunStage, shape: tuple[int, ...] = (), size: int = 0) -> None:
        """Record the content of an encrypted message, or a result that this role gives to its operator."""
        await Disclose(Disclosure(self.me, to, kind, str(stage), shape, size))
