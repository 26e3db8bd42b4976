"""The connection between two roles: the handshake that opens a stream, and the exchange of messages on it.

The handshake has three frames: the aggregator's challenge, the party's opening, the aggregator's welcome. Both sides
sign with their pinned identity keys. The aggregator accepts a party whose certificate has the expected name, whose
signature covers that certificate, and which has the same inputs, the same session and the newest journal.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import msgspec

from kcagc.errors import AgreementError, PeerError, RejectedError, SessionError
from kcagc.net import frames
from kcagc.net.frames import ConnectionLost, Rejected, RejectionReason, Stream
from kcagc.protocol.agreement import Agreement, compare_inputs
from kcagc.runtime.durable import PeerQueue
from kcagc.runtime.journal import SessionPosition
from kcagc.secagg.keys import Identity, opening_statement, random_token, verify, welcome_statement
from kcagc.text import printable

if TYPE_CHECKING:  # only an aggregator imports the server
    from kcagc.net.grpc_server import ServerStream

F = TypeVar("F", bound=frames.Frame)

_HANDSHAKE_TIMEOUT = 20.0  # seconds for a challenge, and for an opening
_MAX_PENDING = 4  # complete messages that wait for the role before the connection stops reading
NEW_SESSION = "Start all roles with --new-session"


@dataclass(frozen=True, eq=False)
class Endpoint:
    """What a role presents in a handshake, and the TLS names that it expects of the other roles."""

    name: str
    identity: Identity
    agreement: Agreement
    tls_names: Mapping[str, str]
    certificate: bytes  # digest of its own certificate


# The aggregator's side of the handshake.


async def identify(
    stream: ServerStream, endpoint: Endpoint, earlier: Agreement | None = None
) -> tuple[frames.Open, bytes]:
    """Challenge a new stream; return the verified opening and its signed bytes.

    Raise `Rejected` if the opening is not from an expected party. A party may also come with the agreement of an
    `earlier` session, which the caller compares.
    """
    nonce = random_token()
    await stream.send(frames.Challenge(endpoint.name, nonce, frames.STREAM_PROTOCOL))
    try:
        frame = await _receive(stream, frames.Open, "an opening", stream.address)
    except TimeoutError:
        raise Rejected(RejectionReason.MISBEHAVIOUR, "no opening arrived in time") from None
    name, expected = frame.name, endpoint.name
    if frame.protocol != frames.STREAM_PROTOCOL:
        message = f"{expected} uses {frames.STREAM_PROTOCOL}, the other role {frame.protocol!r}: install one version"
        raise Rejected(RejectionReason.AGREEMENT, message)
    if name not in endpoint.agreement.parties or name == expected:
        raise Rejected(RejectionReason.IDENTITY, f"{name!r} is not a party that {expected} expects")
    if endpoint.tls_names[name] not in stream.names:
        shown = ", ".join(sorted(stream.names)) or "no name"
        message = f"the certificate is for {shown}, but the one of {name} must be for {endpoint.tls_names[name]}"
        raise Rejected(RejectionReason.IDENTITY, message)
    signed = opening_statement(expected, nonce, _unsigned(frame))
    if not verify(endpoint.agreement.participant(name).identity, signed, frame.signature):
        message = f"the opening is not signed by the identity key that {expected} has pinned for {name}"
        raise Rejected(RejectionReason.IDENTITY, message)
    if frame.certificate != stream.certificate:
        message = f"{name} signed another certificate than the one presented: a device in between decrypts connections"
        raise Rejected(RejectionReason.IDENTITY, message)
    if earlier is not None and frame.inputs == earlier.inputs():
        return frame, signed
    try:
        compare_inputs(expected, endpoint.agreement, name, frame.inputs)
    except AgreementError as error:
        raise Rejected(RejectionReason.AGREEMENT, str(error)) from error
    return frame, signed


def check_position(opened: frames.Open, aggregator: str, position: SessionPosition, queue: PeerQueue) -> None:
    """Reject a party that is in another session, or whose journal is older than this session."""
    name, known = opened.name, position.bound.get(opened.name)
    same, received = known == opened.attempt, max(opened.safe, opened.arrived)
    message = ""
    if opened.bound not in (b"", position.attempt):
        message = f"that session is over: {aggregator} has started another one"
        raise Rejected(RejectionReason.OVER, message)
    if known is not None and not same and queue.arrived:
        message = f"{aggregator} is in an earlier session with {name}, which came without the journal of that session: "
        message += (
            f"restore the folder state of {name} and start it again, or start {name} with --new-session and then "
        )
        message += "all roles that end"
        raise Rejected(RejectionReason.SESSION, message)
    if same and queue.arrived > opened.sent:
        message = f"{aggregator} has received {queue.arrived} messages of {name}, whose journal contains {opened.sent}"
        message += ": it is an old copy, and resuming it could reveal hidden data"
    elif same and opened.safe < queue.acknowledged:
        message = f"{name} has acknowledged {queue.acknowledged} messages of {aggregator}, but its journal contains "
        message += f"{opened.safe}: it is an old copy"
    elif received > queue.sent:
        message = f"{name} has received {received} messages of {aggregator}, whose journal contains {queue.sent}: it "
        message += "is an old copy"
    if message:
        raise Rejected(RejectionReason.SESSION, f"{message}. {NEW_SESSION}")


async def welcome(stream: Stream, endpoint: Endpoint, attempt: bytes, queue: PeerQueue, signed: bytes) -> None:
    """Accept a party; `attempt` is the aggregator's name of the session, `signed` the bytes that the party signed."""
    answer = frames.Welcome(attempt, queue.safe, queue.arrived, queue.sent, b"")
    signature = endpoint.identity.sign(welcome_statement(endpoint.name, signed, _unsigned(answer)))
    await stream.send(msgspec.structs.replace(answer, signature=signature))


# A party's side of the handshake.


async def receive_challenge(stream: Stream, endpoint: Endpoint, aggregator: str) -> frames.Challenge:
    """Receive the first frame; the party has sent nothing so far."""
    challenge = await _receive(stream, frames.Challenge, "a challenge", aggregator)
    if challenge.protocol != frames.STREAM_PROTOCOL:
        theirs = repr(challenge.protocol) if challenge.protocol else "the protocol of version 0.5.0 or earlier"
        message = f"{aggregator} uses {theirs}, {endpoint.name} {frames.STREAM_PROTOCOL}"
        raise AgreementError(f"{message}: install the same version of kcagc", peer=aggregator)
    if challenge.name != aggregator:
        raise RejectedError(f"{challenge.name!r} listens at its address: correct the address", peer=aggregator)
    return challenge


async def answer_challenge(
    stream: Stream,
    endpoint: Endpoint,
    challenge: frames.Challenge,
    position: SessionPosition,
    queue: PeerQueue,
    timeout: float,
    leaving: str = "",
) -> frames.Welcome:
    """Send the opening and return the aggregator's welcome after checking its signature and position.

    An opening with `leaving`, the reason why this role ends, is answered by a rejection.
    """
    aggregator = queue.peer
    bound = position.bound.get(aggregator, b"")
    unsigned = frames.Open(
        protocol=frames.STREAM_PROTOCOL,
        name=endpoint.name,
        nonce=random_token(),
        certificate=endpoint.certificate,
        attempt=position.attempt,
        bound=bound,
        safe=queue.safe,
        arrived=queue.arrived,
        sent=queue.sent,
        inputs=endpoint.agreement.inputs(),
        signature=b"",
        ended=position.ended,
        leaving=leaving[: frames.MAX_REASON],
    )
    signed = opening_statement(aggregator, challenge.nonce, _unsigned(unsigned))
    await stream.send(msgspec.structs.replace(unsigned, signature=endpoint.identity.sign(signed)))
    answer = await _receive(stream, frames.Welcome, "a welcome", aggregator, max(timeout, _HANDSHAKE_TIMEOUT))
    expected = welcome_statement(aggregator, signed, _unsigned(answer))
    if not verify(endpoint.agreement.participant(aggregator).identity, expected, answer.signature):
        message = f"the server at its address does not have the identity key that {endpoint.name} has pinned"
        raise RejectedError(message, peer=aggregator)
    if bound not in (b"", answer.attempt):
        raise Rejected(RejectionReason.OVER, f"that session is over: {aggregator} has started another one")
    older = max(answer.safe, answer.arrived) > queue.sent or answer.safe < queue.acknowledged
    if older or max(queue.safe, queue.arrived) > answer.sent:
        raise SessionError(
            f"the journals of {endpoint.name} and {aggregator} do not match: one is an old copy. {NEW_SESSION}"
        )
    return answer


def rejection_error(rejection: Rejected, aggregator: str) -> Exception:
    """Return the error that a rejected party raises."""
    message = f"rejects this role: {printable(rejection.message)}"
    if rejection.reason is RejectionReason.SESSION:
        return SessionError(f"{aggregator} {message}")
    if rejection.reason is RejectionReason.AGREEMENT:
        return AgreementError(f"{aggregator} {message}", peer=aggregator)
    kind = RejectedError if rejection.reason is RejectionReason.IDENTITY else PeerError
    return kind(message, peer=aggregator)


async def _receive(stream: Stream, kind: type[F], what: str, sender: str, seconds: float = _HANDSHAKE_TIMEOUT) -> F:
    """Return the next frame, which must be of this kind."""
    # Not `wait_for`: before Python 3.12 it can lose a cancellation.
    async with asyncio.timeout(seconds):
        frame = await stream.receive()
    if not isinstance(frame, kind):
        raise PeerError(f"sent another frame instead of {what}", peer=sender)
    return frame


def _unsigned(frame: frames.Open | frames.Welcome) -> bytes:
    return frames.encode_frame(msgspec.structs.replace(frame, signature=b""))


def pause_before_restart(starts: int) -> float:
    """Return the seconds before a new session, which double each time."""
    return 0.2 * 2.0 ** (starts - 1)


# After the handshake.


class Connection:
    """One stream after its handshake: sends the outbox, receives messages, acknowledges committed ones."""

    def __init__(
        self,
        stream: Stream,
        queue: PeerQueue,
        *,
        arrived: int,
        max_message_bytes: int,
        receive: Callable[[int, bytes], Awaitable[None]],
        on_ack: Callable[[], None],
        on_waiting_for: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._stream, self._queue = stream, queue
        self._receive, self._on_ack, self._on_waiting_for = receive, on_ack, on_waiting_for
        self._next = arrived + 1  # the next message to send: the first that the peer does not have
        self._assembly = frames.Assembly(queue.peer, max_message_bytes)
        self._messages: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(_MAX_PENDING)
        self.wake = asyncio.Event()  # set when there may be something to send
        self._frame_arrived, self._pong_arrived = asyncio.Event(), asyncio.Event()
        self._acknowledged = -1
        self._due: dict[type, frames.Frame] = {}  # of each kind the last frame that has not been sent
        self._waiting_for: tuple[str, ...] = ()
        self.peer_closed = self.close_sent = self._closing = self._ended = False
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Work until the stream ends; raise the error that ended it, except for a lost connection."""
        if self._ended:  # stopped before its start, in favour of another stream of the same peer
            return
        self._tasks = [asyncio.create_task(one()) for one in (self._read, self._process, self._write)]
        try:
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if not task.cancelled():
                    task.result()
        except ConnectionLost:
            return
        finally:
            self._ended = True
            for event in (self._frame_arrived, self._pong_arrived):
                event.set()
            await self.stop()

    def end(self) -> None:
        """End the work without waiting for it."""
        self._ended = True
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        """End the work; the opener of the stream closes it."""
        self.end()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def announce_waiting_for(self, names: tuple[str, ...]) -> None:
        """Send the peer the names of the roles that this one waits for, if they changed."""
        if names != self._waiting_for:
            self._waiting_for = names
            self._send_soon(frames.WaitingFor(names))

    def close(self) -> None:
        """Send, once, that this role has finished."""
        if not self._closing:
            self._closing = True
            self._send_soon(frames.Close())

    def _send_soon(self, frame: frames.Frame) -> None:
        """Send a frame after the messages in the outbox; it replaces an unsent one of its kind.

        A peer that sends many pings and reads no answers therefore cannot fill the memory.
        """
        self._due[type(frame)] = frame
        self.wake.set()

    async def alive(self, seconds: float) -> bool:
        """Return whether the peer answers a ping or is in the middle of a long message.

        Frames that arrived before a connection was lost can still wait to be read. They are read in the first half of
        the time and do not count.
        """
        self._send_soon(frames.Ping())
        for event in (self._pong_arrived, self._frame_arrived):
            event.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds / 2):
                    await event.wait()
            if event.is_set():
                return not self._ended
        return False

    async def _read(self) -> None:
        while True:
            frame = await self._stream.receive()
            self._frame_arrived.set()
            if isinstance(frame, frames.MessagePart):
                message = self._assembly.add(frame)
                if message is not None:
                    await self._messages.put(message)
            elif isinstance(frame, frames.Ack):
                self._queue.acknowledge(frame.number)
                self._on_ack()
            elif isinstance(frame, frames.Ping):
                self._send_soon(frames.Pong())
            elif isinstance(frame, frames.WaitingFor):
                self._on_waiting_for(frame.names)
            elif isinstance(frame, frames.Close):
                self.peer_closed = self._queue.closed = True
            elif isinstance(frame, frames.Pong):
                self._pong_arrived.set()
            else:
                raise PeerError("sent a frame of the handshake in the middle of a stream", peer=self._queue.peer)

    async def _process(self) -> None:
        while True:
            number, payload = await self._messages.get()
            await self._receive(number, payload)
            self.wake.set()

    async def _write(self) -> None:
        while True:
            self.wake.clear()
            safe = self._queue.safe
            if safe > self._acknowledged:
                self._acknowledged = safe
                await self._stream.send(frames.Ack(safe))
            while self._next <= self._queue.sent:
                payload = self._queue.outbox.get(self._next)
                if payload is not None:
                    for part in frames.split(self._next, payload):
                        await self._stream.send(part)
                self._next += 1
            while self._due:
                frame = self._due.pop(next(iter(self._due)))
                await self._stream.send(frame)
                self.close_sent |= isinstance(frame, frames.Close)
            await self.wake.wait()
