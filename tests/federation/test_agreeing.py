"""Proposals over TLS with a standing coordinator in this process: runs need one that all have approved."""

import asyncio
import json
import threading
import time

import msgspec
import pytest

from deploy.collaboration import edit
from federation.agreeing_roles import Agreeing, changed_record, ended
from kcagc.deploy.agreed import ProposalFolder
from kcagc.deploy.run import RoleRun
from kcagc.errors import AgreementError, ParameterError, PeerError, PolicyError, RejectedError
from kcagc.federation import agreeing as module
from kcagc.federation.agreeing import decide, disclosure_digest
from kcagc.federation.proposals import Proposals
from kcagc.federation.waiting import next_run
from kcagc.protocol.approval import ProposalState
from kcagc.runtime import session


@pytest.fixture
def agreeing(tmp_path):
    return Agreeing(tmp_path)


def served(agreeing, work):
    """Run a coroutine function while the coordinator serves."""

    async def run():
        async with agreeing.serving() as service:
            return await work(service)

    return asyncio.run(run())


def test_a_run_has_the_settings_of_the_proposal_and_nobody_edits_a_file(agreeing):
    files = [path.read_bytes() for path in (*agreeing.configs.values(), agreeing.coordinator)]

    async def work(service):
        found = await agreeing.propose(n_clusters=2)
        assert found.undecided == ["bob"]
        assert (await agreeing.approve()).approved
        summaries = await agreeing.run_all()
        await ended(service)
        return found, summaries

    found, summaries = served(agreeing, work)
    kept = agreeing.place / "federations" / "east" / "runs" / "0001" / "run.json"
    for one in (*summaries, json.loads(kept.read_text())):
        assert one["parameters"]["n_clusters"] == 2
        assert one["agreement"]["digest"] == found.digest.hex()
        assert [one["name"] for one in one["agreement"]["decisions"]] == ["alice", "bob", "east-coordinator"]
    assert len(summaries[0]["cluster_sizes"]) == 2
    after = [path.read_bytes().split(b"address =")[0] for path in (*agreeing.configs.values(), agreeing.coordinator)]
    assert after == [text.split(b"address =")[0] for text in files]


def test_a_proposal_is_used_up_and_the_next_one_needs_no_new_session(agreeing):
    async def work(service):
        await agreeing.propose(n_clusters=2)
        await agreeing.approve()
        first = await agreeing.run_all()
        await ended(service)
        assert await agreeing.run_all() == first  # the same command shows the results again
        for name in agreeing.configs:
            with pytest.raises(AgreementError, match="proposal 1 allows 1 run of fit, and no more are left"):
                await agreeing.run_party(name, new_session=True)
        await agreeing.propose(n_clusters=3, runs=2)
        await agreeing.approve()
        second = await agreeing.run_all()
        await ended(service)
        third = await agreeing.run_all(new_session=True)
        await ended(service)
        return [len({one["session"] for one in runs}) for runs in (first, second, third)], first, second, third

    sizes, *runs = served(agreeing, work)
    assert sizes == [1, 1, 1]
    assert len({one[0]["session"] for one in runs}) == 3
    assert [one[0]["agreement"]["number"] for one in runs] == [1, 2, 2]
    folders = [ProposalFolder.of(agreeing.config(name)) for name in ("alice", "bob", "east-coordinator")]
    assert [[len(folder.sessions(number)) for number in (1, 2)] for folder in folders] == [[1, 2]] * 3


def test_a_finished_run_does_not_hide_a_newer_proposal(agreeing, caplog):
    async def work(service):
        await agreeing.propose(n_clusters=2)
        await agreeing.approve()
        first = await agreeing.run_all()
        await ended(service)
        await agreeing.propose(n_clusters=3)
        assert await agreeing.run_party("alice") == first[0]

    served(agreeing, work)
    assert "there is a newer proposal 2. It waits for the approval of bob." in caplog.messages


def test_a_party_that_comes_with_an_earlier_proposal_reads_which_one_waits(agreeing):
    """The coordinator has approved the newer one, so it takes part in no earlier one."""

    async def work(_):
        await agreeing.propose(n_clusters=2)
        await agreeing.approve()
        await agreeing.propose(n_clusters=3)
        with pytest.raises(
            AgreementError, match=r"proposal 2 of alice waits for the approval of bob\. At one party run"
        ):
            await agreeing.run_party("bob")

    served(agreeing, work)


def test_without_all_approvals_no_run_starts_at_any_role(agreeing):
    async def work(_):
        with pytest.raises(AgreementError, match=r"no proposal has been made\. At one party run kcagc propose"):
            await agreeing.run_party("alice")
        await agreeing.propose()
        with pytest.raises(AgreementError, match="proposal 1 of alice waits for the approval of bob"):
            await agreeing.run_party("alice")
        # A party whose file asks for no approval is refused by the coordinator.
        edit(agreeing.configs["bob"], "^required = true", "required = false")
        with pytest.raises(AgreementError, match="needs a proposal that all participants have approved"):
            await agreeing.run_party("bob")

    served(agreeing, work)


def test_a_coordinator_that_strips_the_agreement_is_refused_by_the_parties(agreeing):
    async def work(_):
        await agreeing.propose()
        await agreeing.approve()
        edit(agreeing.coordinator, "^required = true", "required = false")
        with pytest.raises(AgreementError, match=r"approved proposal: east-coordinator has 'none', alice has '"):
            await agreeing.run_party("alice")

    served(agreeing, work)


def test_each_party_accepts_weaker_disclosures_by_name(agreeing):
    weak = {"method": "joint", "joint_rows": "coordinator"}

    async def work(service):
        with pytest.raises(
            PolicyError, match=r"alice: proposal 1 needs anonymous-geometry.*--accept anonymous-geometry"
        ):
            await agreeing.propose(**weak)
        await agreeing.propose(**weak, accepts=["anonymous-geometry"])
        with pytest.raises(PolicyError, match="bob: proposal 1 needs anonymous-geometry"):
            await agreeing.approve()
        with pytest.raises(ParameterError, match="there is no risk 'geometry'"):
            await agreeing.approve(accepts=["geometry"])
        found = await agreeing.approve(accepts=["anonymous-geometry"])
        await agreeing.run_all()
        await ended(service)
        return found

    found = served(agreeing, work)
    assert {name: one.accepts for name, one in found.decisions.items()} == {
        "alice": ("anonymous-geometry",),
        "bob": ("anonymous-geometry",),
        "east-coordinator": (),
    }


def test_a_party_declines_with_a_reason_that_all_read(agreeing):
    async def work(_):
        await agreeing.propose()
        bob = agreeing.role("bob")
        await bob.update()
        await bob.decide(bob.newest(), approves=False, reason="k is too small")
        with pytest.raises(AgreementError, match="bob has declined proposal 1: k is too small"):
            await agreeing.run_party("alice")
        # A decline is not taken back; a decline after an approval counts.
        assert (await bob.decide(bob.newest(), approves=True)).declined
        await agreeing.propose()
        await agreeing.approve()
        alice = agreeing.role("alice")
        await alice.update()
        assert (await alice.decide(alice.newest(), approves=False)).declined
        with pytest.raises(AgreementError, match="alice has declined proposal 2"):
            await agreeing.run_party("bob")

    served(agreeing, work)


def test_a_party_that_waits_approves_by_itself_what_its_operator_allows(tmp_path):
    agreeing = Agreeing(tmp_path, automatic=("never", "same", "any"))

    async def work(service):
        bob = RoleRun(agreeing.config("bob"))
        waiting = asyncio.create_task(next_run(bob, agreeing.role("bob").update))
        hosted = service.federations["east"]
        async with asyncio.timeout(30):
            while not hosted.waiting["bob"]:
                await asyncio.sleep(0.01)
        other = await agreeing.propose(n_clusters=2)
        assert other.undecided == ["bob"]
        await agreeing.propose(n_clusters=3, runs=6)  # more than max_runs
        found = await agreeing.propose(n_clusters=3)
        async with asyncio.timeout(30):
            while not found.approved:
                await asyncio.sleep(0.01)
                alice = agreeing.role("alice")
                await alice.update()
                found = alice.newest()
        running = asyncio.create_task(agreeing.run_party("alice"))
        await waiting
        await asyncio.gather(running, agreeing.run_party("bob"))
        await ended(service)
        return list(ProposalFolder.of(agreeing.config("alice")).newest())

    third, second, first = served(agreeing, work)
    assert (third.approved, second.undecided, first.undecided) == (True, ["bob", "east-coordinator"], ["bob"])


def test_an_operator_of_the_coordinator_decides_in_its_folder(tmp_path):
    agreeing = Agreeing(tmp_path, automatic=("never", "never", "never"))

    async def work(service):
        await agreeing.propose()
        assert (await agreeing.approve()).undecided == ["east-coordinator"]
        coordinator = agreeing.role("east-coordinator")
        await coordinator.decide(coordinator.newest(), approves=True)
        await agreeing.run_all()
        await ended(service)

    served(agreeing, work)


def test_a_revoked_identity_key_is_refused_at_the_coordinator_and_at_a_party(agreeing):
    async def work(_):
        await agreeing.propose(runs=3)
        await agreeing.approve()
        ProposalFolder.of(agreeing.config("east-coordinator")).revoke("bob", "key stolen")
        with pytest.raises(RejectedError, match=r"the identity key of bob was revoked here on .* \(key stolen\)"):
            await agreeing.role("bob").update()
        with pytest.raises(RejectedError, match="No run of this federation starts any more"):
            RoleRun(agreeing.config("east-coordinator")).check()
        edit(agreeing.configs["bob"], "^required = true", "required = false")
        with pytest.raises((AgreementError, RejectedError), match=r"revoked|approved"):
            await agreeing.run_party("bob")
        (agreeing.coordinator.parent / "state" / "revoked.json").unlink()
        ProposalFolder.of(agreeing.config("alice")).revoke("bob", "")
        with pytest.raises(RejectedError, match=r"^bob: the identity key of bob was revoked.*approvals are refused"):
            await agreeing.run_party("alice")

    served(agreeing, work)


def test_a_party_that_was_killed_before_it_wrote_its_results_finishes_although_the_proposal_is_used_up(
    agreeing, monkeypatch
):
    monkeypatch.setattr(session, "_LINGER", 0.5)

    def killed(run, coordinator_ended):
        def write(*_):
            assert coordinator_ended.wait(30)
            raise OSError("no space left")

        object.__setattr__(run, "write", write)

    async def work(service, *, newer):
        await agreeing.propose()
        await agreeing.approve()
        bob, over = asyncio.create_task(agreeing.run_party("bob")), threading.Event()
        alice = asyncio.create_task(agreeing.run_party("alice", change=lambda run: killed(run, over)))
        theirs = await bob
        await ended(service)
        over.set()
        with pytest.raises(OSError, match="no space left"):
            await alice
        if newer:
            await agreeing.propose(n_clusters=2)
            await agreeing.approve()
        mine = await agreeing.run_party("alice")
        assert mine["session"] == theirs["session"]

    async def both(service):
        await work(service, newer=False)
        await work(service, newer=True)

    served(agreeing, both)


def test_a_coordinator_cannot_change_what_it_relays(agreeing, monkeypatch):
    honest = Proposals._read

    async def work(_):
        await agreeing.propose()
        changes = []

        async def read(self, caller, payload):
            (state,) = msgspec.json.decode(await honest(self, caller, payload), type=list[ProposalState])
            return msgspec.json.encode([changes[0](state)])

        monkeypatch.setattr(Proposals, "_read", read)
        bob = agreeing.role("bob")
        settings = {"n_clusters": 9}
        for change, message in (
            (
                lambda one: ProposalState(changed_record(one.proposal, settings=settings), ()),
                "not signed by the identity",
            ),
            (lambda one: ProposalState(changed_record(one.proposal, runs=900), ()), "not signed by the identity"),
            (lambda one: ProposalState(one.proposal, one.decisions[:1] * 2), "two decisions of alice"),
            (lambda one: ProposalState(one.proposal, (changed_record(one.decisions[0], name="bob"),)), "not signed by"),
        ):
            changes[:] = [change]
            with pytest.raises(PeerError, match=message) as caught:
                await bob.update()
            assert caught.value.peer == "east-coordinator"
            assert bob.folder.numbers() == []

    served(agreeing, work)


def test_a_coordinator_that_withholds_an_approval_only_prevents_the_run(agreeing, monkeypatch):
    async def work(_):
        await agreeing.propose()
        honest = Proposals._read

        async def read(self, caller, payload):
            states = msgspec.json.decode(await honest(self, caller, payload), type=list[ProposalState])
            return msgspec.json.encode([ProposalState(one.proposal, one.decisions[:1]) for one in states])

        await agreeing.approve()
        monkeypatch.setattr(Proposals, "_read", read)
        with pytest.raises(AgreementError, match="waits for the approval of bob"):
            await agreeing.run_party("alice")

    served(agreeing, work)


def test_an_answer_holds_the_newest_proposals_that_can_still_matter_within_its_limit(agreeing, monkeypatch):
    async def work(_):
        first = await agreeing.propose(days=9)
        size = len(msgspec.json.encode(first.state))
        for _ in range(6):
            await agreeing.propose()
            alice = agreeing.role("alice")
            await alice.decide(alice.newest(), approves=False)
        monkeypatch.setattr("kcagc.federation.proposals._ANSWER_BYTES", 3 * size)
        bob = agreeing.role("bob")
        await bob.update()
        assert bob.folder.numbers() in ([7, 6, 1], [7, 1])
        monkeypatch.setattr("kcagc.federation.proposals._ANSWER_BYTES", 1)
        carol = agreeing.role("bob")
        assert len(await carol._ask("proposal/read", b"", list[ProposalState])) == 1

    served(agreeing, work)


def test_a_party_runs_with_the_proposals_that_it_knows_if_the_answer_cannot_be_read(agreeing, monkeypatch, caplog):
    async def work(service):
        await agreeing.propose()
        await agreeing.approve()
        await agreeing.role("alice").update()

        async def read(self, caller, payload):
            return b" " * 400_000

        monkeypatch.setattr(Proposals, "_read", read)
        await agreeing.run_all()
        await ended(service)

    served(agreeing, work)
    assert "sent a frame that is too long" in caplog.text


def test_declined_proposals_and_those_of_others_keep_no_party_from_proposing(agreeing):
    async def work(_):
        for _ in range(6):
            await agreeing.propose(days=300)
            bob = agreeing.role("bob")
            await bob.update()
            await bob.decide(bob.newest(), approves=False)
        for _ in range(4):
            await agreeing.propose(days=300)
        with pytest.raises(AgreementError, match="4 proposals of alice wait for decisions; first approve or decline"):
            await agreeing.propose()
        assert (await agreeing.propose("bob")).proposal.number == 11

    served(agreeing, work)


def test_a_party_that_sends_many_requests_keeps_nobody_waiting(agreeing, monkeypatch):
    """Costly work is done in a thread, and one request of a party at a time."""
    at_once, most = [], []

    def slow(*_):
        at_once.append(1)
        most.append(len(at_once))
        time.sleep(0.3)
        at_once.pop()

    async def work(_):
        alice, bob = agreeing.role("alice"), agreeing.role("bob")
        found = await agreeing.propose()
        await bob.update()
        decision = decide(bob.config, bob.newest(), approves=True, now=time.time())
        state = msgspec.json.encode(ProposalState(found.state.proposal, (decision,)))
        monkeypatch.setattr("kcagc.federation.proposals.check_readable", slow)
        many = [asyncio.create_task(bob._ask("proposal/decide", state, ProposalState)) for _ in range(6)]
        await asyncio.sleep(0.1)
        since = time.monotonic()
        await alice._ask("proposal/read", b"", list[ProposalState])
        waited = time.monotonic() - since
        await asyncio.gather(*many)
        assert most == [1]  # the others were repetitions of records that are kept
        assert waited < 1.0

    served(agreeing, work)


def test_the_pages_of_a_proposal_are_written_once(agreeing, monkeypatch):
    """Every request that names it would repeat the work."""
    written = []
    honest = module.pages
    monkeypatch.setattr(module, "pages", lambda *given: written.append(given) or honest(*given))

    async def work(_):
        disclosure_digest.cache_clear()
        await agreeing.propose()
        await agreeing.approve()

    served(agreeing, work)
    assert len(written) == 3


def test_a_configuration_and_certificates_are_read_again_when_a_file_has_changed(agreeing):
    async def work(service):
        hosted = service.federations["east"]
        config, credentials = hosted.config(), hosted.credentials()
        assert (hosted.config(), hosted.credentials()) == (config, credentials)
        assert hosted.credentials() is credentials
        edit(agreeing.coordinator, "^max_runs = 5", "max_runs = 6")
        assert hosted.config().document.approval.max_runs == 6
        again = hosted.credentials()
        assert again is not credentials
        again.ca_file.write_bytes(again.ca_file.read_bytes() + b"\n")
        assert hosted.credentials() is not again

    served(agreeing, work)


def test_a_role_may_wait_run_and_decide_at_the_same_time(agreeing):
    """Each of these has a connection of its own; the limit for a role leaves room for them."""

    async def work(service):
        await agreeing.propose(runs=3)
        await agreeing.approve()
        bob = RoleRun(agreeing.config("bob"))
        waiting = [asyncio.create_task(next_run(bob, agreeing.role("bob").update)) for _ in range(2)]
        await asyncio.sleep(0.5)
        running = asyncio.create_task(agreeing.run_party("alice"))
        await asyncio.gather(*waiting)
        await asyncio.gather(running, agreeing.run_party("bob"), *(agreeing.role("bob").update() for _ in range(4)))
        await ended(service)
        return service.refused_connections

    assert served(agreeing, work) == 0
