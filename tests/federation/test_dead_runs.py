"""A run that cannot go on, because its proposal was declined or a key was revoked, blocks no later run."""

import asyncio
import contextlib

import pytest

from federation.agreeing_roles import Agreeing, ended
from kcagc.deploy.agreed import ProposalFolder, agreed, unless_revoked
from kcagc.errors import RejectedError
from kcagc.runtime import client


@pytest.fixture
def agreeing(tmp_path):
    return Agreeing(tmp_path)


async def stopped(task):
    task.cancel()
    with contextlib.suppress(BaseException):
        await task


async def alone(agreeing, service, name="alice"):
    """Start one party; return its task and the federation as soon as its run is open."""
    task, hosted = asyncio.create_task(agreeing.run_party(name)), service.federations["east"]
    async with asyncio.timeout(30):
        while hosted.run is None or name not in hosted.run.server.connected:
            await asyncio.sleep(0.01)
    return task, hosted


async def declined(agreeing, name="bob"):
    role = agreeing.role(name)
    await role.update()
    await role.decide(role.newest(), approves=False, reason="stop")


def records(hosted):
    return [(one.number, one.state) for one in hosted.records.all()]


def test_an_interrupted_run_whose_proposal_was_declined_fails_and_the_next_one_begins(agreeing):
    async def work():
        async with agreeing.serving() as service:
            await agreeing.propose(runs=3)
            await agreeing.approve()
            task, _ = await alone(agreeing, service)
            await declined(agreeing)
            await stopped(task)
        async with agreeing.serving() as service:
            hosted = service.federations["east"]
            async with asyncio.timeout(30):
                while records(hosted) != [(1, "failed")]:
                    await asyncio.sleep(0.01)
            await agreeing.propose()
            await agreeing.approve()
            await agreeing.run_all()
            await ended(service)
            assert "proposal 1 is not approved by all" in hosted.records.read(1).cause
            return records(hosted)

    assert asyncio.run(work()) == [(1, "failed"), (2, "finished")]


def test_a_proposal_that_is_declined_while_an_opening_is_on_its_way_opens_no_run(agreeing, monkeypatch):
    honest, hold = client.answer_challenge, asyncio.Event()

    async def slow(*given, **more):
        await hold.wait()
        return await honest(*given, **more)

    async def work():
        async with agreeing.serving() as service:
            await agreeing.propose(runs=3)
            await agreeing.approve()
            monkeypatch.setattr(client, "answer_challenge", slow)
            task = asyncio.create_task(agreeing.run_party("bob"))
            await asyncio.sleep(1.0)
            await declined(agreeing)
            hold.set()
            with pytest.raises(Exception, match="bob has declined proposal 1: stop"):
                await task
            hosted = service.federations["east"]
            assert records(hosted) == []
            await agreeing.propose()
            await agreeing.approve()
            await agreeing.run_all(new_session=True)
            await ended(service)
            return records(hosted)

    assert asyncio.run(work()) == [(1, "finished")]


def test_a_run_that_cannot_begin_leaves_no_record(agreeing, monkeypatch):
    async def work():
        async with agreeing.serving() as service:
            await agreeing.propose()
            await agreeing.approve()
            hosted = service.federations["east"]
            with monkeypatch.context() as broken:
                broken.setattr("kcagc.federation.hosting.role_spec", lambda *_: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    await hosted.opened()
            assert records(hosted) == []
            await agreeing.run_all()
            await ended(service)
            return records(hosted)

    assert asyncio.run(work()) == [(1, "finished")]


def test_a_revoked_key_ends_the_open_run_and_no_party_opens_another(agreeing):
    async def work():
        async with agreeing.serving() as service:
            await agreeing.propose(runs=3)
            await agreeing.approve()
            task, hosted = await alone(agreeing, service)
            ProposalFolder.of(agreeing.config("east-coordinator")).revoke("alice", "stolen")
            with pytest.raises(RejectedError, match="identity key of alice was revoked here"):
                await task
            await ended(service)
            with pytest.raises(RejectedError, match="identity key of alice was revoked here"):
                await agreeing.run_party("bob")
            assert "identity key of alice was revoked here" in hosted.records.read(1).cause
            return records(hosted)

    assert asyncio.run(work()) == [(1, "failed")]


def test_a_party_that_revokes_a_key_during_a_run_ends_its_part(agreeing):
    async def work():
        async with agreeing.serving() as service:
            await agreeing.propose(runs=3)
            await agreeing.approve()
            config = agreed(agreeing.config("alice"))

            async def connected():
                await asyncio.Event().wait()

            task = asyncio.create_task(unless_revoked(config, connected()))
            await asyncio.sleep(0.1)
            ProposalFolder.of(config).revoke("bob", "stolen")
            with pytest.raises(RejectedError, match="identity key of bob was revoked here") as caught:
                await task
            assert caught.value.public_message == "it has revoked the identity key of bob"
            return service

    asyncio.run(work())
