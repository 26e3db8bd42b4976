"""Typed messages over effects: every message is read once, checked once, and written into the ledger as it leaves."""

from __future__ import annotations

from typing import TypeVar

from kcagc.disclosure import Entry
from kcagc.disclosure.texts import opened_kind
from kcagc.errors import AbortedError, PeerError
from kcagc.protocol.effects import Disclose, Send, perform, wait
from kcagc.protocol.messages import Abort, AnyMessage, Message, decode, encode, expect, kind_of
from kcagc.secagg.masks import Group
from kcagc.text import printable

M = TypeVar("M", bound=Message)


class Channel:
    """How one role speaks and listens."""

    def __init__(self, me: str, *, hears_everybody: bool = False) -> None:
        self.me = me
        self._hears_everybody = hears_everybody

    async def send(
        self, to: str, message: Message, *, stage: str, shape: tuple[int, ...] = (), kind: str | None = None
    ) -> bytes:
        """Let a message leave, and give its bytes; `kind` names its line in the ledger where it is not the type's."""
        payload = encode(message)
        await self.send_bytes(to, payload, kind or kind_of(message), stage, shape)
        return payload

    async def send_bytes(self, to: str, payload: bytes, kind: str, stage: str, shape: tuple[int, ...] = ()) -> None:
        """Let a message leave that has been written already."""
        await perform(Send(to, payload, Entry(self.me, to, f"message/{kind}", stage, shape, len(payload))))

    async def receive(self, sender: str, kind: type[M]) -> M:
        """Give the next message of `sender`, which must be of this kind."""
        message, _ = await self.receive_with_bytes(sender, kind)
        return message

    async def receive_with_bytes(self, sender: str, kind: type[M]) -> tuple[M, bytes]:
        """Give the message, and its bytes for the transcript."""
        message, payload = await self.hear(sender)
        return expect(message, kind, sender), payload

    async def hear(self, sender: str) -> tuple[AnyMessage, bytes]:
        """Give the next message of `sender`, whatever it is but the end of the run."""
        came_from, payload = await wait([sender])
        if came_from != sender:
            raise PeerError(f"sent a message while {sender} was awaited", peer=came_from)
        message = decode(payload, sender)
        if isinstance(message, Abort):
            # Who hears everybody takes nobody's word for who ended the run.
            origin = sender if self._hears_everybody else printable(message.origin)
            raise AbortedError(printable(message.reason), peer=origin)
        return message, payload

    async def opened(self, group: Group, step: str, stage: str, shape: tuple[int, ...], n_costs: int = 0) -> None:
        """Record that a sum opens to its receiver; its members record it as well as the receiver itself.

        Costs that came with it have a line of their own.
        """
        members = "+".join(group.members)
        await self._disclosed(members, group.aggregator, opened_kind(group, step), stage, shape)
        if n_costs:
            await self._disclosed(members, group.aggregator, opened_kind(group, "costs"), stage, (n_costs,))

    async def put_out(self, what: str, shape: tuple[int, ...]) -> None:
        """Record a result."""
        await self._disclosed(self.me, self.me, f"output/{what}", what, shape)

    async def _disclosed(self, sender: str, receiver: str, kind: str, stage: str, shape: tuple[int, ...]) -> None:
        await perform(Disclose(Entry(sender, receiver, kind, stage, shape, 0)))
