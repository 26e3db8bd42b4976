"""The network link is cut and restored at any moment: the run goes on, and ends as if nothing had been."""

import asyncio
import random
import time
from collections import deque

import pytest

from kcagc.net.frames import Ack, Ping, Pong
from kcagc.runtime import connection as runtime_link
from kcagc.runtime.peer_queue import PeerQueue
from kill import evidence
from kill.proxy import Link
from kill.scenarios import SCENARIOS

pytestmark = pytest.mark.timeout(600)


def played_over_a_link(campaign, scenario, disturb, **instruments):
    """Play a run whose parties reach the aggregator through a link, and have it disturbed."""
    with campaign.run(scenario) as run, Link(run.port) as link:
        run.address_port = link.port
        run.start_all(**instruments)
        disturb(run, link)
        run.run_to_end()
        assert not link.cut_is_due, "the run ended before the link was to be cut"
        evidence.check(run, campaign.reference(scenario).labels)
        return link.connections


def bytes_surely_passed(campaign, scenario):
    """How many bytes pass differs from run to run (attempts to connect count): give what any run takes."""
    passed = []
    for _ in range(3):
        played_over_a_link(campaign, scenario, lambda run, link: (run.run_to_end(), passed.append(link.passed)))
    return round(0.85 * min(passed))


def test_a_link_that_is_cut_in_the_middle_of_anything_is_taken_up_again(campaign):
    least = bytes_surely_passed(campaign, "coordinator")
    for share in (0.1, 0.5, 1.0):
        at = round(least * share)
        assert played_over_a_link(campaign, "coordinator", lambda _, link, at=at: link.cut_after(at)) > 3


def test_a_link_that_is_lost_while_a_party_computes_is_there_again_for_its_result(campaign):
    """The computation outlives the stream that asked for it, and what comes of it leaves by the next one."""

    def disturb(run, link):
        run.wait_for("a", ("step begins", 1))  # clusters its own features now
        link.cut()

    assert played_over_a_link(campaign, "coordinator", disturb, slow=1.0) >= 6  # looking who is there counts, too


@pytest.mark.kill
@pytest.mark.parametrize("scenario", ["coordinator", "party aggregates", "tree"])
def test_a_link_may_be_cut_at_any_byte(campaign, scenario):
    least = bytes_surely_passed(campaign, scenario)
    cuts = [(round(least * number / 60),) for number in range(1, 61)]

    def cut(at):
        return played_over_a_link(campaign, scenario, lambda _, link: link.cut_after(at))

    connections, failed = campaign.run_all(cuts, cut)
    assert failed == []
    assert connections >= 1.8 * len(cuts) * (len(SCENARIOS[scenario].roles) - 1)  # nearly all came back nearly always


@pytest.mark.kill
def test_a_link_may_be_cut_again_and_again(campaign):
    def unsteady(seed):
        chance = random.Random(seed)  # noqa: S311

        def disturb(_, link):
            for _ in range(chance.randint(3, 10)):
                time.sleep(chance.uniform(0.02, 0.25))
                link.cut(reset=chance.random() < 0.5)

        return played_over_a_link(campaign, "coordinator", disturb)

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

    played_over_a_link(campaign, "coordinator", disturb)


@pytest.mark.kill
@pytest.mark.parametrize("seconds", [2, 12, 35])
def test_a_link_that_passes_nothing_on_for_a_while_delays_the_run(campaign, seconds):
    """Shorter and longer than it takes to find out that nobody is there."""

    def disturb(run, link):
        run.wait_for("b", ("part left", 4))
        link.freeze()
        time.sleep(seconds)
        link.restore()

    played_over_a_link(campaign, "coordinator", disturb)


@pytest.mark.kill
def test_a_role_may_be_killed_while_the_link_is_cut(campaign):
    def both(role, number):
        def disturb(run, link):
            run.wait_for(role, ("part left", number))
            link.cut(stay=True)
            run.kill_and_restart(role, 0.0)
            link.restore()

        return played_over_a_link(campaign, "coordinator", disturb)

    roles = campaign.reference("coordinator").boundaries
    _, failed = campaign.run_all([(role, number) for role in roles for number in range(1, 8)], both)
    assert failed == []


class Lost:
    """A stream whose other end has gone: what had come before can still be read, and then nothing comes."""

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
def test_what_came_before_a_connection_was_lost_is_no_sign_of_life(frames, then, alive):
    async def asked():
        wire = Lost(frames, then=then)
        link = runtime_link.Link(
            wire,
            PeerQueue("b"),
            arrived=0,
            longest=100,
            take_in=None,
            acknowledged=lambda: None,
            told_missing=None,
        )
        work = asyncio.ensure_future(link.run())
        found = await link.alive(0.4)
        await link.stop()
        await asyncio.gather(work, return_exceptions=True)
        return found

    assert asyncio.run(asked()) is alive
