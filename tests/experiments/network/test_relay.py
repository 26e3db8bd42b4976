"""The links of the timing tables do to bytes what a slow network does, and nothing else."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import contextmanager

import pytest

from experiments.paper.network.relay import LAN, WAN, Network, Relay

SLOW = Network("slow", delay=0.0, rate=80e6)  # ten megabytes a second: no machine is too busy for that
FAR = Network("far", delay=0.1, rate=400e6)


@contextmanager
def linked(network):
    """Return both ends of a connection through a relay, and the relay."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Relay(network, listener.getsockname()[1], 1) as relay,
        socket.create_connection(("127.0.0.1", relay.ports[0]), timeout=30) as near,
    ):
        far, _ = listener.accept()
        with far:
            far.settimeout(30)
            yield near, far, relay


def received(end, size):
    parts, left = [], size
    while left:
        parts.append(end.recv(min(left, 1 << 20)))
        assert parts[-1], "the stream ended early"
        left -= len(parts[-1])
    return b"".join(parts)


def sending(end, content):
    thread = threading.Thread(target=end.sendall, args=(content,))
    thread.start()
    return thread


def seconds_for(network, size):
    """Measure how long a transfer takes from the first word of its sender to the last byte."""
    with linked(network) as (near, far, _):
        start_time = time.monotonic()
        thread = sending(near, bytes(size))
        received(far, size)
        ended = time.monotonic()
        thread.join()
    return ended - start_time


def test_the_networks_are_those_of_the_paper():
    assert (LAN.delay, LAN.rate) == (0.0, 1000e6)
    assert (WAN.delay, WAN.rate) == (0.1, 400e6)


@pytest.mark.parametrize("network", [LAN, FAR], ids=lambda one: one.name)
def test_content_and_order_are_kept_in_both_directions_at_once(network):
    there, back = os.urandom(3_000_000), os.urandom(2_000_000)
    with linked(network) as (near, far, relay):
        threads = [sending(near, there), sending(far, back)]
        arrived = []
        listener = threading.Thread(target=lambda: arrived.append(received(near, len(back))))
        listener.start()
        assert received(far, len(there)) == there
        for thread in (*threads, listener):
            thread.join()
        assert arrived == [back]
    assert [count.passed for count in relay.counts[0]] == [len(there), len(back)]


@pytest.mark.parametrize("backwards", [False, True])
def test_a_byte_takes_the_delay_and_little_more(backwards):
    taken = []
    with linked(FAR) as ends:
        one, other = (ends[1], ends[0]) if backwards else ends[:2]
        for _ in range(5):
            start_time = time.monotonic()
            one.sendall(b"x")
            received(other, 1)
            taken.append(time.monotonic() - start_time)
    assert min(taken) >= FAR.delay
    assert min(taken) < FAR.delay + 0.05  # within a few milliseconds if no other process has the processor


def test_delays_run_side_by_side():
    with linked(FAR) as (near, far, _):
        start_time = time.monotonic()
        for number in range(200):
            near.sendall(bytes([number]))
            time.sleep(0.001)
        assert received(far, 200) == bytes(range(200))
        assert time.monotonic() - start_time < 50 * FAR.delay  # one after the other they would take 200


def test_a_round_trip_takes_two_delays():
    with linked(FAR) as (near, far, _):
        start_time = time.monotonic()
        near.sendall(b"question")
        received(far, 8)
        far.sendall(b"answer")
        received(near, 6)
        assert time.monotonic() - start_time >= 2 * FAR.delay


@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_the_rate_is_kept_and_used_whatever_the_delay(delay):
    network, size = Network("both", delay=delay, rate=SLOW.rate), 4_000_000
    least = 8 * size / network.rate
    taken = [seconds_for(network, size) for _ in range(3)]
    assert min(taken) >= delay + least
    assert min(taken) <= delay + 1.1 * least


def test_each_direction_has_the_rate_to_itself():
    size = 2_000_000
    taken = []
    for _ in range(3):
        with linked(SLOW) as (near, far, _):
            start_time = time.monotonic()
            threads = [sending(near, bytes(size)), sending(far, bytes(size))]
            reader = threading.Thread(target=received, args=(near, size))
            reader.start()
            received(far, size)
            for thread in (*threads, reader):
                thread.join()
            taken.append(time.monotonic() - start_time)
    assert min(taken) < 1.5 * 8 * size / SLOW.rate


def test_one_end_can_stop_speaking_and_still_listen():
    with linked(FAR) as (near, far, _):
        start_time = time.monotonic()
        near.sendall(b"all there is")
        near.shutdown(socket.SHUT_WR)
        assert received(far, 12) == b"all there is"
        assert far.recv(1) == b""
        assert time.monotonic() - start_time >= FAR.delay
        far.sendall(b"understood")
        assert received(near, 10) == b"understood"
        far.close()
        assert near.recv(1) == b""


@pytest.mark.parametrize("backwards", [False, True])
def test_a_reset_arrives_as_one_after_the_delay(backwards):
    with linked(FAR) as ends:
        one, other = (ends[1], ends[0]) if backwards else ends[:2]
        other.sendall(b"unread")
        time.sleep(3 * FAR.delay)
        start_time = time.monotonic()
        one.close()  # with something unread, which resets the connection
        with pytest.raises(ConnectionResetError):
            other.recv(1)
        assert time.monotonic() - start_time >= FAR.delay


def test_who_writes_to_somebody_gone_hears_of_it():
    with linked(FAR) as (near, far, _):
        far.close()
        assert near.recv(1) == b""
        with pytest.raises((ConnectionResetError, BrokenPipeError)):  # noqa: PT012 - the first words are still taken
            for _ in range(100):
                near.sendall(b"hello?")
                time.sleep(0.05)


def test_where_nobody_listens_nobody_answers():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = listener.getsockname()[1]
    with Relay(FAR, closed, 1) as relay, socket.create_connection(("127.0.0.1", relay.ports[0])) as near:
        near.settimeout(30)
        with pytest.raises(ConnectionResetError):
            near.recv(1)


def test_what_nobody_reads_is_not_taken_in():
    network = Network("narrow", delay=0.02, rate=400e6)
    with linked(network) as (near, far, relay):
        near.settimeout(1.0)
        with pytest.raises(TimeoutError):
            near.sendall(bytes(100_000_000))
        there, _ = relay.counts[0]
        assert there.held <= network.most_held + (1 << 16)
        assert there.passed < 30_000_000  # as much as sockets take in
        assert far.recv(1)


def test_links_are_apart():
    with socket.create_server(("127.0.0.1", 0)) as listener, Relay(SLOW, listener.getsockname()[1], 2) as relay:
        nears, fars = [], []
        for port in relay.ports:
            nears.append(socket.create_connection(("127.0.0.1", port), timeout=30))
            fars.append(listener.accept()[0])
        full = sending(nears[0], bytes(20_000_000))
        start_time = time.monotonic()
        nears[1].sendall(b"quick")
        assert received(fars[1], 5) == b"quick"
        assert time.monotonic() - start_time < 1.0  # the other link needs two seconds
        received(fars[0], 20_000_000)
        full.join()
        for one in (*nears, *fars):
            one.close()
