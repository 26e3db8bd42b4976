"""A standing coordinator in this process, and parties that connect to it over TLS."""

import asyncio
import contextlib
import json
from collections import Counter
from functools import partial

import pytest
from click.testing import CliRunner

from deploy.collaboration import edit
from federation.folders import federation, meet_at
from kcagc.cli.main import cli
from kcagc.deploy.config import Config
from kcagc.deploy.run import RoleRun, open_journal, role_spec, stored_summary
from kcagc.errors import AbortedError, AgreementError, ParameterError, PolicyError, RejectedError, SessionError
from kcagc.federation.codes import fingerprint
from kcagc.federation.folder import StandingFolder
from kcagc.federation.joining import _Visit
from kcagc.federation.service import Service
from kcagc.federation.waiting import next_run
from kcagc.net import frames, grpc_client
from kcagc.net.frames import Rejected
from kcagc.net.grpc_client import request
from kcagc.runtime.client import RoleClient, announce_end
from kcagc.secagg.keys import Identity


@contextlib.asynccontextmanager
async def serving(folder):
    service = Service(StandingFolder.open(folder), "127.0.0.1:0")
    service.refresh()
    task = asyncio.create_task(service.run())
    try:
        yield service
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def run_party(config, *, new_session=False):
    """Run a party to its end in this process; return its summary."""
    run = RoleRun(Config.load(config))
    journal = open_journal(run, new_session=new_session)
    try:
        await RoleClient(role_spec(run, journal, [], None, None), run.config.document.network.address).run()
        return stored_summary(journal)
    finally:
        journal.close()


async def run_parties(configs, port, **options):
    meet_at(configs, port)
    return await asyncio.gather(*(run_party(one, **options) for one in configs.values()))


async def ended(federation):
    """Wait until a federation has no open run."""
    async with asyncio.timeout(30):
        while federation.run is not None:
            await asyncio.sleep(0.01)


@pytest.fixture
def place(tmp_path):
    return tmp_path / "standing"


async def two_federations_twice(tmp_path, place):
    federations = {name: federation(tmp_path, place, name) for name in ("east", "west")}
    async with serving(place) as service:
        for again in (False, True):
            found = await asyncio.gather(
                *(run_parties(configs, service.port, new_session=again) for configs in federations.values())
            )
            for summaries in found:
                assert len({one["session"] for one in summaries}) == 1
            for hosted in service.federations.values():
                await ended(hosted)
        return {name: one.records.all() for name, one in service.federations.items()}


def test_two_federations_run_at_once_and_again_on_one_coordinator(tmp_path, place):
    records = asyncio.run(two_federations_twice(tmp_path, place))
    assert {name: [one.state for one in found] for name, found in records.items()} == {
        "east": ["finished", "finished"],
        "west": ["finished", "finished"],
    }
    for name in records:
        for number in ("0001", "0002"):
            found = {path.name for path in (place / "federations" / name / "runs" / number).iterdir()}
            assert found >= {"state.json", "ledger.jsonl", "run.json"}


async def ask(place, config, method, payload=b""):
    async with serving(place) as service:
        run = RoleRun(Config.load(config))
        name = run.endpoint.tls_names[run.agreement.aggregator]
        address = f"127.0.0.1:{service.port}"
        return await request(address, name, run.credentials, method, payload, peer="coordinator")


def test_a_method_that_this_version_does_not_have_is_refused_with_a_remedy(tmp_path, place):
    configs = federation(tmp_path, place, "east")
    with pytest.raises(Rejected, match=r"no method 'no/such'.*install the same version"):
        asyncio.run(ask(place, configs["alice"], "no/such"))


async def party_with_another_list(tmp_path, place):
    configs = federation(tmp_path, place, "east")
    alice = configs["alice"]
    bob = Config.load(alice).document.participants[1].identity
    edit(alice, bob, Identity.generate().public.hex())
    async with serving(place) as service:
        meet_at({"alice": alice}, service.port)
        await run_party(alice)


def test_a_party_with_other_participants_learns_what_must_be_the_same(tmp_path, place):
    with pytest.raises(AgreementError, match="no federation with these participants is served here; names, roles"):
        asyncio.run(party_with_another_list(tmp_path, place))


async def taken_up_and_dropped(tmp_path, place):
    async with serving(place) as service:
        federation(tmp_path, place, "east")
        service.refresh()
        assert set(service.federations) == {"east"}
        path = place / "federations" / "east" / "kcagc.toml"
        text = path.read_text()
        path.write_text(text.replace("[me]", "[mine]"))
        service.refresh()
        assert "mine" in service.problems["east"]
        path.write_text(text)
        service.refresh()
        assert service.problems == {}
        path.unlink()
        service.refresh()
        assert service.federations == {}


def test_a_federation_is_taken_up_repaired_and_dropped_without_a_restart(tmp_path, place):
    asyncio.run(taken_up_and_dropped(tmp_path, place))


async def two_certificates_with_one_name(tmp_path, place):
    for name in ("east", "west"):
        federation(tmp_path, place, name, coordinator="hub")
    async with serving(place) as service:
        return service.problems


def test_two_certificates_with_the_same_name_are_refused(tmp_path, place):
    problems = asyncio.run(two_certificates_with_one_name(tmp_path, place))
    assert set(problems) == {"west"}
    assert "has the name hub.kcagc.internal" in problems["west"]


def test_the_keys_of_a_standing_coordinator_are_made_once_and_private(place):
    first, again = StandingFolder.open(place), StandingFolder.open(place)
    assert first.identity.public == again.identity.public
    assert first.credentials.certificate == again.credentials.certificate
    assert first.tls_name == f"standing-{first.identity.public.hex()[:16]}.kcagc.internal"
    assert first.fingerprint == fingerprint(first.identity.public)
    assert {(place / name).stat().st_mode & 0o777 for name in ("identity.pem", "tls/key.pem")} == {0o600}


async def one_party_of_two(place, configs, service):
    """Start the first party alone; return its task as soon as its run is open."""
    meet_at(configs, service.port)
    task = asyncio.create_task(run_party(configs["alice"]))
    hosted = service.federations[configs["alice"].parent.parent.name]
    async with asyncio.timeout(30):
        while hosted.run is None or "alice" not in hosted.run.server.connected:
            await asyncio.sleep(0.01)
    return task, hosted


async def stopped(task):
    task.cancel()
    await asyncio.wait({task})


async def a_party_is_killed(tmp_path, place):
    east, west = (federation(tmp_path, place, name) for name in ("east", "west"))
    async with serving(place) as service:
        alice, hosted = await one_party_of_two(place, east, service)
        await stopped(alice)
        await run_parties(west, service.port)  # while the run of the other federation waits
        assert [one.state for one in hosted.records.all()] == ["running"]
        found = await run_parties(east, service.port)
        await ended(hosted)
        return found, hosted.records.all()


def test_a_killed_party_blocks_no_other_federation_and_its_run_goes_on(tmp_path, place):
    found, records = asyncio.run(a_party_is_killed(tmp_path, place))
    assert len({one["session"] for one in found}) == 1
    assert [(one.number, one.state) for one in records] == [(1, "finished")]


async def a_run_dies(tmp_path, place):
    configs = federation(tmp_path, place, "east")
    path = place / "federations" / "east" / "kcagc.toml"
    edit(path, r"^peer_timeout = .*", "peer_timeout = 3")
    async with serving(place) as service:
        alice, hosted = await one_party_of_two(place, configs, service)
        with pytest.raises(AbortedError, match=r"bob.*not connected"):
            await alice
        await ended(hosted)
        edit(path, r"^peer_timeout = .*", "peer_timeout = 60")
        await run_parties(configs, service.port)
        await ended(hosted)


async def a_party_leaves(tmp_path, place):
    """The second party tells why it does not take part: before a run, and while the first one waits in one."""
    configs = federation(tmp_path, place, "east")
    edit(place / "federations" / "east" / "kcagc.toml", r"^peer_timeout = .*", "peer_timeout = 2")
    async with serving(place) as service:
        meet_at(configs, service.port)
        bob = RoleRun(Config.load(configs["bob"]))
        reason = PolicyError.public_message
        announce = partial(announce_end, bob.endpoint, bob.credentials, bob.config.document.network.address, reason)
        assert await announce()
        hosted = service.federations["east"]
        assert (hosted.run, hosted.records.all()) == (None, [])
        alice, _ = await one_party_of_two(place, configs, service)
        assert await announce()
        with pytest.raises(AbortedError, match=f"bob ended the run: {reason}. It has not come back") as caught:
            await alice
        await ended(hosted)
        return caught.value, [one.state for one in hosted.records.all()]


def test_a_party_that_leaves_opens_no_run_and_the_others_learn_why(tmp_path, place):
    error, states = asyncio.run(a_party_leaves(tmp_path, place))
    assert (error.peer, error.final) == ("bob", True)
    assert states == ["failed"]


def test_a_dead_run_is_recorded_with_its_cause_and_the_next_one_takes_its_place(tmp_path, place):
    asyncio.run(a_run_dies(tmp_path, place))
    shown = CliRunner().invoke(cli, ["runs", str(place), "--json"])
    first, second = json.loads(shown.output)
    assert (first["run"], first["state"], second["run"], second["state"]) == (1, "failed", 2, "finished")
    assert "bob" in first["result"]
    assert "not connected" in first["result"]
    assert second["result"].startswith("finished in ")
    table = CliRunner().invoke(cli, ["runs", str(place)], env={"COLUMNS": "200"})
    assert "bob: not connected" in table.output


async def a_killed_party_comes_back_late(tmp_path, place, name):
    """Kill both parties in a run, wait until the coordinator has given up, and start them again, `name` first."""
    configs = federation(tmp_path, place, "east")
    path = place / "federations" / "east" / "kcagc.toml"
    edit(path, r"^peer_timeout = .*", "peer_timeout = 1")
    async with serving(place) as service:
        tasks = {"alice": (await one_party_of_two(place, configs, service))[0]}
        tasks["bob"] = asyncio.create_task(run_party(configs["bob"]))
        hosted = service.federations["east"]
        async with asyncio.timeout(30):
            while set(hosted.run.server.connected) != {"alice", "bob"}:
                await asyncio.sleep(0)
        await asyncio.gather(*(stopped(one) for one in tasks.values()))
        await ended(hosted)
        edit(path, r"^peer_timeout = .*", "peer_timeout = 60")
        first = asyncio.create_task(run_party(configs[name]))
        await asyncio.sleep(1)
        await asyncio.gather(first, run_party(configs[({"alice", "bob"} - {name}).pop()]))
        await ended(hosted)
        return [one.state for one in hosted.records.all()]


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_killed_parties_that_come_back_late_need_only_the_same_command(tmp_path, place, name):
    assert asyncio.run(a_killed_party_comes_back_late(tmp_path, place, name)) == ["failed", "finished"]


async def the_process_is_replaced(tmp_path, place):
    configs = federation(tmp_path, place, "east")
    async with serving(place) as service:
        alice, _ = await one_party_of_two(place, configs, service)
        await stopped(alice)
    interrupted = CliRunner().invoke(cli, ["runs", str(place), "--json"])
    assert json.loads(interrupted.output)[0]["state"] == "interrupted"
    async with serving(place) as service:
        await run_parties(configs, service.port)
        hosted = service.federations["east"]
        await ended(hosted)
        return hosted.records.all()


def test_a_new_process_goes_on_with_the_interrupted_run(tmp_path, place):
    records = asyncio.run(the_process_is_replaced(tmp_path, place))
    assert [(one.number, one.state) for one in records] == [(1, "finished")]


async def parties_that_stay(tmp_path, place):
    configs = federation(tmp_path, place, "east")
    async with serving(place) as service:
        meet_at(configs, service.port)
        bob = RoleRun(Config.load(configs["bob"]))
        hosted = service.federations["east"]
        for again in (False, True):
            waiting = asyncio.create_task(next_run(bob))
            async with asyncio.timeout(30):
                while not hosted.waiting["bob"]:
                    await asyncio.sleep(0.01)
            alice = asyncio.create_task(run_party(configs["alice"], new_session=again))
            await waiting
            await asyncio.gather(alice, run_party(configs["bob"], new_session=again))
        await ended(hosted)
        return hosted.records.all()


def test_a_party_that_waits_takes_part_when_another_starts_a_run(tmp_path, place):
    records = asyncio.run(parties_that_stay(tmp_path, place))
    assert [(one.number, one.state) for one in records] == [(1, "finished"), (2, "finished")]


async def a_stranger_waits(tmp_path, place):
    configs = federation(tmp_path, place, "east")
    async with serving(place) as service:
        meet_at(configs, service.port)
        bob = RoleRun(Config.load(configs["bob"]))
        bob.__dict__["identity"] = Identity.generate()
        await next_run(bob)


def test_only_the_pinned_identity_key_can_wait_as_a_party(tmp_path, place):
    with pytest.raises(RejectedError, match="not signed by the identity key"):
        asyncio.run(a_stranger_waits(tmp_path, place))


@pytest.mark.parametrize(("status", "again"), [("running", False), ("failed", True)])
def test_a_party_that_waits_stops_at_an_error_that_would_come_again(tmp_path, place, monkeypatch, status, again):
    """A session that cannot go on ends the command; after one that has failed, the party waits for the next run."""
    config, starts = federation(tmp_path, place, "east")["alice"], []

    def run(*_, **__):
        starts.append(1)
        raise SessionError("the journal cannot be used") if len(starts) == 1 else KeyboardInterrupt

    async def at_once(*_):
        pass

    monkeypatch.setattr("kcagc.cli.roles._run", run)
    monkeypatch.setattr("kcagc.federation.waiting.next_run", at_once)
    monkeypatch.setattr(RoleRun, "status", lambda _: status)
    done = CliRunner().invoke(cli, ["party", "--config", str(config), "--wait"])
    assert len(starts) == 1 + again
    assert ("waiting for the next run" in done.output) == again
    assert isinstance(done.exception, SessionError) == (not again)


def test_runs_of_a_folder_that_is_not_served_are_an_error(tmp_path, place):
    federation(tmp_path, place, "east")
    assert "no runs yet" in CliRunner().invoke(cli, ["runs", str(place)]).output
    wrong = CliRunner().invoke(cli, ["runs", str(place / "federations")])
    assert isinstance(wrong.exception, ParameterError)
    assert "is not a folder of kcagc serve; name the folder that contains federations/" in str(wrong.exception)


async def many_connections(tmp_path, place):
    """Open forty connections with the admission code; return how many of each holder stay open."""
    federation(tmp_path, place, "east")
    async with serving(place) as service:
        code = service.meetings.admit(f"127.0.0.1:{service.port}")
        visit = await _Visit.begin(code)
        frame, channels = frames.encode_frame(frames.Request("meeting/read", b"n" * 32)), []
        for _ in range(40):
            channels.append(grpc_client._channel(code.address, visit.server_name, visit.credentials))
            call = channels[-1].unary_unary(f"/{grpc_client.SERVICE}/{grpc_client.REQUEST}")
            await call(frame, metadata=grpc_client._metadata(b""), timeout=10)
        gate = service._server._gate
        held = Counter(one.holder for one in gate._connections.values())
        for channel in channels:
            await channel.close()
        return held


def test_a_holder_of_the_admission_code_cannot_take_all_connections(tmp_path, place):
    held = asyncio.run(many_connections(tmp_path, place))
    assert len(held) <= 2
    assert max(held.values()) <= 4


def test_certificates_for_other_names_give_nobody_more_connections(tmp_path, place):
    async def holders():
        federation(tmp_path, place, "east")
        federation(tmp_path, place, "west")
        async with serving(place) as service:
            names = ("alice.kcagc.internal", "x.alice.kcagc.internal", "visitor.0123456789.kcagc.internal")
            return [service._holder(frozenset({one})) for one in names] + [service._holder(frozenset())]

    assert asyncio.run(holders()) == [("alice.kcagc.internal", 16), ("", 8), ("", 8), ("", 8)]
