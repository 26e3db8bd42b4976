"""The end of a connection: a role knows when its last frame has left."""

import asyncio

from kcagc.net.frames import Ack, Close, ConnectionLost
from kcagc.runtime.connection import Connection
from kcagc.runtime.durable import PeerQueue

PATIENCE = 20.0


class SlowStream:
    """A stream that receives nothing, and whose frames leave only after `leaves` is set."""

    def __init__(self):
        self.sent, self.leaves, self.sending = [], asyncio.Event(), asyncio.Event()

    async def send(self, frame):
        self.sending.set()
        await self.leaves.wait()
        self.sent.append(frame)

    async def receive(self):
        await asyncio.Event().wait()


async def receive(number, payload):
    raise AssertionError("nothing was sent")


def connection_on(stream):
    return Connection(
        stream,
        PeerQueue("alice", max_waiting_bytes=1 << 20),
        arrived=0,
        max_message_bytes=1 << 20,
        receive=receive,
        on_ack=lambda: None,
        on_waiting_for=lambda names: None,
    )


async def closing():
    stream = SlowStream()
    connection = connection_on(stream)
    running = asyncio.create_task(connection.run())
    connection.close()
    async with asyncio.timeout(PATIENCE):
        await stream.sending.wait()
    before = connection.close_sent
    stream.leaves.set()
    async with asyncio.timeout(PATIENCE):
        while not connection.close_sent:
            await asyncio.sleep(0.001)
    await connection.stop()
    await running
    return before, stream.sent


def test_a_close_counts_as_sent_only_when_it_has_left():
    """Otherwise the aggregator ends the stream before it, and the party looks for the aggregator for 20 seconds."""
    before, sent = asyncio.run(closing())
    assert before is False
    assert sent == [Ack(0), Close()]


async def lost():
    stream = SlowStream()

    async def fails(frame):
        raise ConnectionLost("gone")

    stream.send = fails
    connection = connection_on(stream)
    connection.close()
    async with asyncio.timeout(PATIENCE):
        await connection.run()
    return connection.close_sent


def test_a_close_on_a_lost_connection_does_not_count():
    assert asyncio.run(lost()) is False
