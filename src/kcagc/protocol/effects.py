"""What a role asks of whoever runs it. A role is a coroutine that does nothing itself but compute and ask.

It has no socket, clock, thread or randomness of its own; it awaits one of the effects below, and the runner carries it
out and hands back the result. So the same coroutine runs in one process, over a network, or from a journal.

Messages between two roles arrive in the order they were sent, and a role always says whose message it waits for. Such
a network computes the same whatever the order in which messages of different senders happen to arrive (G. Kahn, 1974).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Coroutine, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from kcagc.disclosure import Entry
from kcagc.errors import KcagcError

T = TypeVar("T")


@dataclass(frozen=True)
class Send:
    """Let these bytes leave; the entry goes into the ledger first."""

    to: str
    payload: bytes
    entry: Entry


@dataclass(frozen=True)
class Wait:
    """Wait for the next message of any of these; gives (sender, payload)."""

    senders: frozenset[str]


@dataclass(frozen=True)
class StoreResult:
    """Compute something that need not come out the same twice: its result is stored, and reloaded ever after."""

    name: str
    compute: Callable[[], bytes]


@dataclass(frozen=True)
class LoadResult:
    """Give what `Once` stored under this name, or None."""

    name: str


@dataclass(frozen=True)
class CommitMask:
    """Commit durably that a label hides the content with this digest; another digest under it ends the run."""

    label: bytes
    digest: bytes


@dataclass(frozen=True)
class Disclose:
    """Record something that opened here or was put out, without a message of its own."""

    entry: Entry


@dataclass(frozen=True)
class Progress:
    """Report progress; `total` is 0 if it is unknown, and an upper limit if `limit` is true."""

    stage: str
    done: int = 0
    total: int = 0
    limit: bool = False


@dataclass(frozen=True)
class Flush:
    """Let what was said so far leave now: what follows takes long, and others need not wait for it.

    Nothing said before it may depend on what `Once` computes after it.
    """


Effect = Send | Wait | StoreResult | LoadResult | CommitMask | Disclose | Progress | Flush
Role = Coroutine[Effect, Any, T]


class perform:  # noqa: N801 - awaited like a function
    """Hand an effect to the runner and give back its result."""

    def __init__(self, effect: Effect) -> None:
        self._effect = effect

    def __await__(self) -> Generator[Effect, Any, Any]:
        return (yield self._effect)


async def progress(stage: str, done: int = 0, total: int = 0, *, limit: bool = False) -> None:
    """Say how far it is."""
    await perform(Progress(stage, done, total, limit))


async def flush() -> None:
    """Let what was said so far leave before what follows."""
    await perform(Flush())


async def stored_result(name: str, compute: Callable[[], bytes]) -> bytes:
    """Compute, or reload what was computed before."""
    return cast(bytes, await perform(StoreResult(name, compute)))


async def load_result(name: str) -> bytes | None:
    """Give what was computed before, if anything was."""
    return cast(bytes | None, await perform(LoadResult(name)))


async def wait(senders: Collection[str]) -> tuple[str, bytes]:
    """Give the next message of any of these."""
    return cast(tuple[str, bytes], await perform(Wait(frozenset(senders))))


async def together(children: Sequence[Role[T]]) -> list[T]:
    """Run several coroutines of one role side by side, as long as no two wait for the same sender."""
    results: dict[int, T] = {}
    waiting: dict[int, frozenset[str]] = {}

    async def advance(index: int, value: Any) -> None:
        while True:
            try:
                effect = children[index].send(value)
            except StopIteration as end:
                results[index] = end.value
                return
            if isinstance(effect, Wait):
                waiting[index] = effect.senders
                return
            value = await perform(effect)

    try:
        for index in range(len(children)):
            await advance(index, None)
        while waiting:
            sender, payload = await wait(frozenset().union(*waiting.values()))
            (index,) = (one for one, senders in waiting.items() if sender in senders)
            del waiting[index]
            await advance(index, (sender, payload))
    finally:
        for child in children:
            child.close()
    return [results[index] for index in range(len(children))]


async def combine_halves(aggregator: Role[Any], member: Role[T], name: str) -> T:
    """Run the two halves of a party that also sums: what one half sends to `name` reaches the other and never leaves.

    Everybody else speaks to the aggregator half only.
    """
    halves: dict[str, Role[Any]] = {"aggregator": aggregator, "member": member}
    inbox: dict[str, deque[bytes]] = {half: deque() for half in halves}
    waiting: dict[str, frozenset[str]] = {}
    result: list[T] = []

    async def advance(half: str, value: Any) -> None:
        other = "member" if half == "aggregator" else "aggregator"
        while True:
            try:
                effect = halves[half].send(value)
            except StopIteration as end:
                if half == "member":
                    result.append(end.value)
                return
            value = None
            if isinstance(effect, Wait):
                if name in effect.senders and inbox[half]:
                    value = (name, inbox[half].popleft())
                else:
                    waiting[half] = effect.senders
                    return
            elif isinstance(effect, Send) and effect.to == name:
                inbox[other].append(effect.payload)
            else:
                value = await perform(effect)

    try:
        for half in halves:
            await advance(half, None)
        while waiting:
            ready = [half for half, senders in waiting.items() if name in senders and inbox[half]]
            if ready:
                if ready[0] == "member":  # what it does may take long, and the others need not wait for it
                    await flush()
                del waiting[ready[0]]
                await advance(ready[0], (name, inbox[ready[0]].popleft()))
            elif outside := waiting.get("aggregator", frozenset()) - {name}:
                message = await wait(outside)
                del waiting["aggregator"]
                await advance("aggregator", message)
            else:
                raise KcagcError(f"{name}: both halves wait for each other")
    finally:
        for role in halves.values():
            role.close()
    return result[0]
