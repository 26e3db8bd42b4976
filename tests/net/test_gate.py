"""The gate in front of gRPC: which connections it keeps, which it closes, and that it passes bytes on unchanged."""

import asyncio
import contextlib
import hashlib
import os
import socket

import pytest

from kcagc.errors import KcagcError
from kcagc.net import gate as module
from kcagc.net.gate import Gate

PATIENCE = 20.0


async def echo(reader, writer):
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


class Place:
    """A gate with a server behind it, which records what it calls its connections."""

    def __init__(self, gate, server, peers):
        self.gate, self._server, self.peers = gate, server, peers
        self._writers = []
        self.serving = 0

    async def connect(self, host="127.0.0.1", *, served=True):
        """Connect from an address of this machine; wait until the server behind the gate has the connection."""
        before = len(self.peers)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.gate.port, local_addr=(host, 0))
        self._writers.append(writer)
        while served and len(self.peers) == before:
            await asyncio.sleep(0.001)
        return reader, writer

    async def close(self):
        for writer in self._writers:
            writer.transport.abort()
        self._server.close()
        while self.serving:
            await asyncio.sleep(0.001)
        await self.gate.stop()


@contextlib.asynccontextmanager
async def place(host="127.0.0.1", **options):
    gate, peers = Gate(host, 0, **options), []

    async def serve(reader, writer):
        made.serving += 1
        peers.append(f"unix:{writer.get_extra_info('peername')}")
        await echo(reader, writer)
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        made.serving -= 1

    server = await asyncio.start_unix_server(serve, gate.target)
    gate.start()
    made = Place(gate, server, peers)
    try:
        async with asyncio.timeout(PATIENCE):
            yield made
    finally:
        await made.close()


async def is_closed(reader):
    return await reader.read(1) == b""


async def answers(reader, writer):
    writer.write(b"x")
    return await reader.read(1) == b"x"


def run(test):
    asyncio.run(test())


def test_bytes_arrive_unchanged_in_both_directions():
    async def test():
        content = os.urandom(9 << 20)
        async with place() as one:
            reader, writer = await one.connect()
            writer.write(content)
            writing = asyncio.create_task(writer.drain())
            received = await reader.readexactly(len(content))
            await writing
            assert hashlib.sha256(received).digest() == hashlib.sha256(content).digest()

    run(test)


def test_a_reader_that_stops_fills_no_memory(monkeypatch):
    monkeypatch.setattr(module, "_FLUSH_SECONDS", 0.1)

    async def test():
        async with place() as one:
            _, writer = await one.connect()
            sent = 0
            with contextlib.suppress(TimeoutError):
                while sent < 256 << 20:
                    writer.write(bytes(1 << 20))
                    async with asyncio.timeout(0.5):
                        await writer.drain()
                    sent += 1 << 20
            assert sent < 64 << 20  # buffers of the system and of both ends of the test included

    run(test)


def test_the_oldest_stranger_is_closed_for_a_new_one():
    async def test():
        async with place() as one:
            one.gate.max_strangers = 3
            first, *others = [await one.connect() for _ in range(4)]
            assert await is_closed(first[0])
            assert [await answers(*other) for other in others] == [True] * 3
            assert one.gate.refused.total() == 1

    run(test)


def test_a_stranger_displaces_connections_of_its_own_address_first():
    async def test():
        async with place() as one:
            one.gate.max_strangers = 3
            honest = await one.connect("127.0.0.1")
            many = [await one.connect("127.0.0.2") for _ in range(10)]
            assert [await is_closed(reader) for reader, _ in many[:8]] == [True] * 8
            assert await answers(*honest)
            assert await answers(*many[9])

    run(test)


def test_an_authenticated_connection_is_never_displaced_and_shows_its_address():
    async def test():
        async with place() as one:
            one.gate.max_strangers = 2
            reader, writer = await one.connect()
            port = writer.get_extra_info("sockname")[1]
            assert one.gate.authenticated(one.peers[0]) == f"127.0.0.1:{port}"
            for _ in range(5):
                await one.connect()
            assert await answers(reader, writer)
            assert one.gate.authenticated("unix:/elsewhere/99") == "a connection that has ended"

    run(test)


def test_a_connection_that_proves_nothing_in_time_is_closed(monkeypatch):
    monkeypatch.setattr(module, "_STRANGER_SECONDS", 0.05)

    async def test():
        async with place() as one:
            known = await one.connect()
            one.gate.authenticated(one.peers[0])
            late = await one.connect()
            assert await is_closed(late[0])
            assert await answers(*known)

    run(test)


def test_all_connections_together_have_a_limit():
    async def test():
        async with place(max_connections=8) as one:
            known = [
                await one.connect() for _ in range(8) if not [one.gate.authenticated(peer) for peer in one.peers][8:]
            ]
            for peer in one.peers:
                one.gate.authenticated(peer)
            refused = await one.connect(served=False)
            assert await is_closed(refused[0])
            assert [await answers(*each) for each in known] == [True] * 8
            known[0][1].close()
            await known[0][1].wait_closed()
            while len(one.gate._connections) == 8:
                await asyncio.sleep(0.001)
            assert await answers(*await one.connect())

    run(test)


def test_the_last_file_descriptors_are_not_for_connections():
    async def test():
        async with place() as one:
            known = await one.connect()
            one.gate._last_descriptor = 3
            refused = await one.connect(served=False)
            assert await is_closed(refused[0])
            assert await answers(*known)
            assert one.gate.refused.total() == 1

    run(test)


def test_a_connection_ends_when_the_server_behind_the_gate_ends_it():
    async def test():
        async with place() as one:
            reader, _ = await one.connect()
            one.gate.end(next(iter(one.gate._connections.values())))
            assert await is_closed(reader)
            assert one.gate._connections == {}

    run(test)


def test_the_log_has_few_lines_about_many_strangers(caplog):
    async def test():
        async with place() as one:
            one.gate.max_strangers = 2
            for _ in range(30):
                await one.connect()

    run(test)
    assert [record.getMessage() for record in caplog.records] == [
        "closed 1 connection that did not prove an identity (1 are waiting, at most 2 may)"
    ]


def test_a_port_that_is_in_use_is_an_error_with_a_remedy():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(KcagcError, match=f"cannot listen on 127.0.0.1:{port}: the port is in use.*Choose another"):
            Gate("127.0.0.1", port)


def test_a_name_is_served_at_all_of_its_addresses_and_the_folder_is_private_and_removed():
    async def test():
        async with place("localhost") as one:
            assert {each.getsockname()[1] for each in one.gate._sockets} == {one.gate.port}
            folder = one.gate._folder
            assert folder.stat().st_mode & 0o777 == 0o700
            await one.connect()
            assert [path.name for path in folder.iterdir()] == ["grpc"]
        assert not folder.exists()

    run(test)


def test_a_wildcard_is_served_for_ipv4():
    async def test():
        async with place("0.0.0.0") as one:  # noqa: S104
            assert await answers(*await one.connect())

    run(test)


def test_a_folder_that_cannot_be_made_is_an_error_with_a_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path / "absent"))
    monkeypatch.setattr(module, "_LONGEST_PATH", 1000)
    with pytest.raises(KcagcError, match=r"cannot make a folder for temporary files: .*absent.*TMPDIR"):
        Gate("127.0.0.1", 0)


def test_a_holder_of_a_certificate_displaces_its_own_oldest_connection():
    async def test():
        async with place() as one:
            honest = await one.connect()
            one.gate.authenticated(one.peers[0], "bob", 3)
            many = []
            for number in range(6):
                many.append(await one.connect())
                for _ in range(2):  # every call of a connection says so
                    one.gate.authenticated(one.peers[1 + number], "mallory", 3)
            assert [await is_closed(reader) for reader, _ in many[:3]] == [True] * 3
            assert [await answers(*each) for each in (honest, *many[3:])] == [True] * 4
            assert one.gate.refused == {module._TOO_MANY: 3}

    run(test)


def test_if_all_connections_are_taken_the_holder_of_most_loses_one():
    async def test():
        async with place(max_connections=8) as one:
            many = []
            for number in range(8):
                many.append(await one.connect())
                one.gate.authenticated(one.peers[number], "mallory" if number % 2 else f"honest {number}")
            late = [await one.connect() for _ in range(2)]
            assert [await is_closed(many[number][0]) for number in (1, 3)] == [True] * 2
            assert [await answers(*each) for each in (*many[::2], many[5], many[7], *late)] == [True] * 8

    run(test)


def test_small_messages_leave_at_once():
    """Without this option, each waits for the acknowledgement of the one before: 40 ms in every direction of a run."""

    async def option():
        async with place() as made:
            await made.connect()
            (connection,) = made.gate._connections.values()
            return connection.client.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    assert asyncio.run(option()) != 0
