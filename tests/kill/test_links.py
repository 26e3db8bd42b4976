"""The network link is cut and restored at any moment: the run continues and ends as an undisturbed run."""

import asyncio
import random
import time
from collections import deque

import pytest

from kcagc.net.frames import Ack, Ping, Pong
from kcagc.runtime.connection import Connection
from kcagc.runtime.durable import PeerQueue
from kill import evidence
from kill.proxy import Link
from kill.scenarios import SCENARIOS

pytestmark = pytest.mark.timeout(600)


def run_over_a_link(campaign, scenario, disturb, **instruments):
    """Run a scenario whose parties reach the aggregator through a link, and disturb it; return the connections."""
    with campaign.run(scenario) as run, Link(run.port) as link:
        run.address_port = link.port
        run.start_all(**instruments)
        disturb(run, link)
        run.run_to_end()
        assert not link.cut_is_due, "the run ended before the link was to be cut"
        evidence.check(run, campaign.reference(scenario).labels)
        return link.connections


def bytes_surely_passed(campaign, scenario):
    """Return a number of bytes that every run exceeds. It differs between runs, as connection attempts count."""
    passed = []
    for _ in range(3):
        run_over_a_link(campaign, scenario, lambda run, link: (run.run_to_end(), passed.append(link.passed)))
    return round(0.85 * min(passed))


def test_a_run_continues_after_its_link_is_cut_inside_a_message(campaign):
    least = bytes_surely_passed(campaign, "coordinator")
    for share in (0.1, 0.5, 1.0):
        at = round(least * share)
        assert run_over_a_link(campaign, "coordinator", lambda _, link, at=at: link.cut_after(at)) > 3


def test_a_link_lost_while_a_party_computes_is_restored_for_its_result(campaign):
    """The computation outlives the stream that requested it; the next stream carries its result."""

    def disturb(run, link):
        run.wait_for("a", ("step begins", 1))  # it clusters its own features now
        link.cut()

    # Connections that test whether the aggregator listens count, too.
    assert run_over_a_link(campaign, "coordinator", disturb, slow=1.0) >= 6


@pytest.mark.kill
@pytest.mark.parametrize("scenario", ["coordinator", "party aggregates", "tree"])
def test_a_link_may_be_cut_at_any_byte(campaign, scenario):
    least = bytes_surely_passed(campaign, scenario)
    cuts = [(round(least * number / 60),) for number in range(1, 61)]

    def cut(at):
        return run_over_a_link(campaign, scenario, lambda _, link: link.cut_after(at))

    connections, failed = campaign.run_all(cuts, cut)
    assert failed == []
    # Nearly all parties reconnected in nearly all runs.
    assert connections >= 1.8 * len(cuts) * (len(SCENARIOS[scenario].roles) - 1)


@pytest.mark.kill
def test_a_link_may_be_cut_several_times(campaign):
    def unsteady(seed):
        chance = random.Random(seed)  # noqa: S311

        def disturb(_, link):
            for _ in range(chance.randint(3, 10)):
                time.sleep(chance.uniform(0.02, 0.25))
                link.cut(reset=chance.random() < 0.5)

        return run_over_a_link(campaign, "coordinator", disturb)

    _, failed = campaign.run_all([(seed,) for seed in range(40)], unsteady)
    assert failed == []


@pytest.mark.kill
@pytest.mark.parametrize("boundary", [("open left", 1), ("part left", 1), ("part left", 3), ("part left", 6)])
def test_a_link_may_be_away_for_seconds(campaign, boundary):
    def disturb(run, link):
        run.wait_for("b", boundary)
        link.cut(stay=True)
        time.sleep(4)
        assert all(run.still_running(role) for role in run.scenario.roles)
        link.restore()

    run_over_a_link(campaign, "coordinator", disturb)


@pytest.mark.kill
@pytest.mark.parametrize("seconds", [2, 12, 35])
def test_a_frozen_link_delays_the_run(campaign, seconds):
    """The time is shorter and longer than the time after which a connection counts as lost."""

    def disturb(run, link):
        run.wait_for("b", ("part left", 4))
        link.freeze()
        time.sleep(seconds)
        link.restore()

    run_over_a_link(campaign, "coordinator", disturb)


@pytest.mark.kill
def test_a_role_may_be_killed_while_the_link_is_cut(campaign):
    def both(role, number):
        def disturb(run, link):
            run.wait_for(role, ("part left", number))
            link.cut(stay=True)
            run.kill_and_restart(role, 0.0)
            link.restore()

        return run_over_a_link(campaign, "coordinator", disturb)

    roles = campaign.reference("coordinator").boundaries
    _, failed = campaign.run_all([(role, number) for role in roles for number in range(1, 8)], both)
    assert failed == []


class LostStream:
    """A stream whose other end is lost: earlier frames can still be read, and then nothing arrives."""

    def __init__(self, frames, *, then=None):
        self._frames, self._then = deque(frames), then
        self.asked = asyncio.Event()

    async def send(self, frame):
        if isinstance(frame, Ping):
            self.asked.set()

    async def receive(self):
        await self.asked.wait()
        while not self._frames:
            await asyncio.sleep(0.02)
            if self._then is not None:
                return self._then
        return self._frames.popleft()


@pytest.mark.parametrize(
    ("frames", "then", "alive"),
    [([], None, False), ([Ack(0), Ack(0)], None, False), ([Pong()], None, True), ([Ack(0)], Ack(0), True)],
    ids=["silence", "leftovers", "an answer", "a long message"],
)
def test_frames_received_before_a_connection_was_lost_are_no_sign_of_life(frames, then, alive):
    async def asked():
        connection = Connection(
            LostStream(frames, then=then),
            PeerQueue("b"),
            arrived=0,
            max_message_bytes=100,
            receive=None,
            on_ack=lambda: None,
            on_waiting_for=None,
        )
        work = asyncio.ensure_future(connection.run())
        found = await connection.alive(0.4)
        await connection.stop()
        await asyncio.gather(work, return_exceptions=True)
        return found

    assert asyncio.run(asked()) is alive
