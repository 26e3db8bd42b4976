"""Signed proposals and decisions: nobody but their makers can make, change or repeat them."""

import time

import msgspec
import pytest

from federation.agreeing_roles import Agreeing, changed_record, with_decisions
from kcagc.deploy.agreed import ProposalFolder, agreed, note_result, require_agreed
from kcagc.errors import AgreementError, DataError, ParameterError, PeerError, PolicyError, RejectedError
from kcagc.federation.agreeing import (
    ProposalTerms,
    automatic_decision,
    check_readable,
    checked,
    decide,
    make_proposal,
    pages,
)
from kcagc.protocol.approval import Decision, ProposalState, RunProposal, SignedRecord, _statement
from kcagc.protocol.parameters import RunSettings
from kcagc.secagg.keys import Identity

NOW = 1_800_000_000.0
SETTINGS = RunSettings.read({"n_clusters": 3, "psi": 1})


@pytest.fixture
def agreeing(tmp_path):
    return Agreeing(tmp_path)


def proposal(agreeing, name="alice", *, number=1, accepts=(), now=NOW, settings=SETTINGS, **terms):
    return make_proposal(agreeing.config(name), settings, ProposalTerms(**terms), number, accepts, now)


def all_approve(agreeing, found):
    """Return a proposal with the approvals of all, as each of them signs it."""
    others = ("bob", "east-coordinator")
    signed = [decide(agreeing.config(name), found, approves=True, now=NOW) for name in others]
    state = ProposalState(found.state.proposal, (*found.state.decisions, *signed))
    return checked(agreeing.config("alice"), state, relayed_by="east-coordinator")


def check(agreeing, state):
    return checked(agreeing.config("bob"), state, relayed_by="east-coordinator")


CHANGES = {
    "number": 2,
    "nonce": msgspec.to_builtins(bytes(32)),
    "proposer": "bob",
    "made": 1,
    "expires": 2**39,
    "runs": 2,
    "tasks": ["fit", "match"],
    "settings": {"n_clusters": 4, "psi": 1},
    "parameters": None,
    "texts": "0.0.0",
    "disclosure": msgspec.to_builtins(bytes(32)),
}


@pytest.mark.parametrize("field", CHANGES)
def test_a_change_of_any_field_of_a_proposal_is_found(agreeing, field):
    state = proposal(agreeing).state
    value = CHANGES[field]
    if field == "parameters":
        value = msgspec.json.decode(state.proposal.content)["parameters"] | {"n_clusters": 4}
    with pytest.raises(PeerError, match="is not signed by the identity key of") as caught:
        check(agreeing, ProposalState(changed_record(state.proposal, **{field: value})))
    assert caught.value.peer == "east-coordinator"


def test_every_field_of_a_proposal_is_tried_above():
    fields = {one.name for one in msgspec.structs.fields(RunProposal)}
    assert fields - CHANGES.keys() == {"format", "federation"}  # any other value of these is refused before


@pytest.mark.parametrize(
    "change", [{"approves": False}, {"name": "bob"}, {"accepts": ["two-party-sum"]}, {"made": 7}, {"reason": "no"}]
)
def test_a_change_of_a_decision_is_found(agreeing, change):
    state = proposal(agreeing).state
    with pytest.raises(PeerError, match="is not signed by its identity key"):
        check(agreeing, with_decisions(state, changed_record(state.decisions[0], **change)))


def test_an_approval_by_a_stranger_is_refused(agreeing):
    found = proposal(agreeing)
    own = msgspec.json.decode(found.state.decisions[0].content, type=Decision)
    for name, message in (("bob", "decision of bob .* is not signed by its"), ("mallory", "'mallory', a stranger")):
        forged = SignedRecord.of(msgspec.structs.replace(own, name=name), Identity.generate())
        with pytest.raises(PeerError, match=message):
            check(agreeing, with_decisions(found.state, *found.state.decisions, forged))


def test_an_approval_of_another_proposal_or_federation_cannot_be_repeated(agreeing, tmp_path):
    first, second = proposal(agreeing), proposal(agreeing, number=2)
    approval = decide(agreeing.config("bob"), first, approves=True, now=NOW)
    with pytest.raises(PeerError, match="a decision of bob is about another proposal than number 2"):
        check(agreeing, with_decisions(second.state, *second.state.decisions, approval))
    with pytest.raises(PeerError, match="there are two decisions of bob"):
        check(agreeing, with_decisions(first.state, approval, approval))
    other = Agreeing(tmp_path / "other")
    with pytest.raises(PeerError, match="is for another federation"):
        check(other, first.state)


def test_a_signature_of_one_kind_of_record_is_none_of_another_kind(agreeing):
    signed = proposal(agreeing).state.proposal
    key = agreeing.config("alice").identity().public
    assert signed.is_signed_by(RunProposal, key)
    assert not signed.is_signed_by(Decision, key)


def test_a_coordinator_or_stranger_cannot_propose(agreeing):
    state = proposal(agreeing).state
    for proposer in ("east-coordinator", "mallory"):
        with pytest.raises(PeerError, match=f"'{proposer}', which is not a party here"):
            check(agreeing, ProposalState(changed_record(state.proposal, proposer=proposer)))


def test_a_proposal_that_says_other_things_about_disclosures_is_not_approved(agreeing):
    """A proposer whose texts differ: its operator has read other pages than ours would."""
    found = proposal(agreeing)
    altered = msgspec.structs.replace(found.proposal, disclosure=bytes(32), texts="9.9.9")
    state = ProposalState(SignedRecord.of(altered, agreeing.config("alice").identity()))
    with pytest.raises(
        AgreementError, match=r"has read other pages .*texts of kcagc 9\.9\.9.*install the same version"
    ):
        decide(agreeing.config("bob"), check(agreeing, state), approves=True, now=NOW)
    same = msgspec.structs.replace(found.proposal, disclosure=bytes(32))
    state = ProposalState(SignedRecord.of(same, agreeing.config("alice").identity()))
    with pytest.raises(AgreementError, match=r"at bob: the installed files differ, or kcagc serve was started before"):
        decide(agreeing.config("bob"), check(agreeing, state), approves=True, now=NOW)


def test_settings_that_mean_other_parameters_here_are_not_approved(agreeing):
    found = proposal(agreeing)
    parameters = msgspec.structs.replace(found.proposal.parameters, n_clusters=4)
    altered = msgspec.structs.replace(found.proposal, parameters=parameters)
    state = ProposalState(SignedRecord.of(altered, agreeing.config("alice").identity()))
    with pytest.raises(AgreementError, match="its settings lead to other parameters here"):
        decide(agreeing.config("bob"), check(agreeing, state), approves=True, now=NOW)


def test_times_are_checked(agreeing):
    found = proposal(agreeing, days=2.0)
    bob = agreeing.config("bob")
    check_readable(bob, found, NOW + 3600)
    with pytest.raises(AgreementError, match="was valid until"):
        check_readable(bob, found, NOW + 2 * 86_400 + 1)
    with pytest.raises(AgreementError, match="compare the clocks"):
        check_readable(bob, found, NOW - 3600)


@pytest.mark.parametrize(
    ("terms", "message"), [({"runs": 0}, "--runs"), ({"days": 0.0}, "--days"), ({"days": 400.0}, "--days")]
)
def test_terms_have_limits(agreeing, terms, message):
    with pytest.raises(ParameterError, match=message):
        proposal(agreeing, **terms)


def test_an_approved_proposal_expires(agreeing):
    found = all_approve(agreeing, proposal(agreeing, days=2.0))
    config = agreeing.config("alice")
    ProposalFolder.of(config).keep(found)
    assert agreed(config, clock=lambda: NOW).approved is not None
    late = agreed(config, clock=lambda: NOW + 3 * 86_400)
    assert late.approved is None
    with pytest.raises(AgreementError, match="proposal 1 was valid until"):
        require_agreed(late, "fit", clock=lambda: NOW + 3 * 86_400)


def test_a_task_that_the_proposal_does_not_name_needs_another_one(agreeing):
    config = agreeing.config("alice")
    ProposalFolder.of(config).keep(all_approve(agreeing, proposal(agreeing, tasks=("fit", "predict"))))
    assert agreed(config, "predict", clock=lambda: NOW).approved is not None
    with pytest.raises(AgreementError, match="proposal 1 is about fit and predict, and not about match"):
        require_agreed(agreed(config, "match", clock=lambda: NOW), "match", clock=lambda: NOW)


def test_a_role_that_has_approved_a_proposal_takes_part_in_no_earlier_one(agreeing):
    """The coordinator could hold back the last approval of the newer one."""
    config = agreeing.config("alice")
    folder = ProposalFolder.of(config)
    folder.keep(all_approve(agreeing, proposal(agreeing, runs=9)))
    assert agreed(config, clock=lambda: NOW).approved.proposal.number == 1
    folder.keep(proposal(agreeing, number=2))
    assert agreed(config, clock=lambda: NOW).approved is None
    declined = decide(agreeing.config("bob"), folder.read(2), approves=False, reason="", now=NOW)
    folder.keep(check(agreeing, with_decisions(folder.read(2).state, declined)))
    assert agreed(config, clock=lambda: NOW).approved.proposal.number == 1


def test_a_proposal_of_another_party_leaves_the_earlier_one_valid_until_this_role_approves(agreeing):
    config = agreeing.config("alice")
    folder = ProposalFolder.of(config)
    folder.keep(all_approve(agreeing, proposal(agreeing, runs=9)))
    folder.keep(proposal(agreeing, "bob", number=2))
    assert agreed(config, clock=lambda: NOW).approved.proposal.number == 1


def test_two_proposals_under_one_number_are_refused(agreeing):
    folder = ProposalFolder.of(agreeing.config("bob"))
    folder.keep(proposal(agreeing))
    with pytest.raises(AgreementError, match="two different proposals have the number 1"):
        folder.keep(proposal(agreeing))


def test_a_changed_file_in_the_folder_is_named(agreeing):
    folder = ProposalFolder.of(agreeing.config("bob"))
    folder.keep(proposal(agreeing))
    path = folder.path / "0001" / "proposal.json"
    content = path.read_bytes()
    path.write_bytes(content.replace(b'n_clusters\\":3', b'n_clusters\\":4', 1))
    with pytest.raises(PeerError, match=r"the folder .*0001: proposal 1 is not signed"):
        folder.read(1)
    path.write_bytes(content[:40])
    with pytest.raises(DataError, match=r"proposal\.json: is damaged"):
        folder.read(1)


def test_an_approval_accepts_nothing_by_itself(agreeing):
    settings = RunSettings.read({"n_clusters": 3, "psi": 1, "method": "joint", "joint_rows": "coordinator"})
    with pytest.raises(PolicyError, match="An approval does not accept that"):
        proposal(agreeing, settings=settings)
    found = proposal(agreeing, settings=settings, accepts=["anonymous-geometry"])
    with pytest.raises(PolicyError, match="--accept anonymous-geometry"):
        decide(agreeing.config("bob"), found, approves=True, now=NOW)
    approval = decide(agreeing.config("bob"), found, approves=True, accepts=["anonymous-geometry"], now=NOW)
    state = with_decisions(found.state, *found.state.decisions, approval)
    alone = agreed_by_bob(agreeing, check(agreeing, state))
    assert alone.document.policy.accept == ["anonymous-geometry"]


def agreed_by_bob(agreeing, found):
    coordinator = decide(agreeing.config("east-coordinator"), found, approves=True, now=NOW)
    config = agreeing.config("bob")
    ProposalFolder.of(config).keep(check(agreeing, with_decisions(found.state, *found.state.decisions, coordinator)))
    return agreed(config, clock=lambda: NOW)


def test_an_unattended_role_stays_within_what_its_operator_set(tmp_path):
    agreeing = Agreeing(tmp_path, automatic=("never", "same", "any"))
    same, other = RunSettings.read({"n_clusters": 3, "psi": 1}), RunSettings.read({"n_clusters": 4, "psi": 1})
    weak = RunSettings.read({"n_clusters": 3, "psi": 1, "method": "joint", "joint_rows": "coordinator"})
    bob, coordinator = agreeing.config("bob"), agreeing.config("east-coordinator")
    cases = [
        (proposal(agreeing, settings=same), True, True),
        (proposal(agreeing, settings=other), False, True),
        (proposal(agreeing, settings=same, runs=6), False, False),  # max_runs is 5
        (proposal(agreeing, settings=weak, accepts=["anonymous-geometry"]), False, True),
    ]
    for found, by_bob, by_coordinator in cases:
        assert (automatic_decision(bob, found, NOW) is not None) is by_bob
        assert (automatic_decision(coordinator, found, NOW) is not None) is by_coordinator
    assert automatic_decision(bob, cases[0][0], NOW + 40 * 86_400) is None


def test_a_revoked_key_neither_proposes_nor_approves(agreeing):
    by_alice, by_bob = proposal(agreeing), proposal(agreeing, "bob", number=2)
    approval = decide(agreeing.config("alice"), by_bob, approves=True, now=NOW)
    ProposalFolder.of(agreeing.config("bob")).revoke("alice", "laptop stolen")
    with pytest.raises(
        RejectedError, match=r"^alice: the identity key of alice was revoked here on .* \(laptop stolen\)"
    ):
        check(agreeing, by_alice.state)
    check(agreeing, by_bob.state)
    with pytest.raises(RejectedError, match="its proposals and approvals are refused"):
        check(agreeing, with_decisions(by_bob.state, *by_bob.state.decisions, approval))
    with pytest.raises(RejectedError, match="found a new one without it"):
        decide(agreeing.config("bob"), by_bob, approves=True, now=NOW)


def test_the_page_of_a_matching_names_what_it_discloses(agreeing):
    found = proposal(agreeing, tasks=("match", "count"))
    shown = [pages(one, "bob") for one in found.agreements()]
    assert all(text.startswith("# What a matching of ids discloses") for text in shown)
    assert "Hidden ids" in shown[0]
    assert shown[0] != shown[1]


def test_a_new_proposal_has_the_time_of_the_clock(agreeing):
    found = proposal(agreeing, now=time.time())
    assert abs(found.proposal.made - time.time()) < 60


def test_a_record_with_spaces_that_kcagc_does_not_write_is_refused(agreeing):
    """Its maker could make the answers of the coordinator longer than a frame."""
    state = proposal(agreeing).state
    for padded in (state.proposal.content + "\n" * 9000, state.proposal.content.replace(":", ": ", 1)):
        signed = SignedRecord(padded, agreeing.config("alice").identity().sign(_statement(RunProposal, padded)))
        with pytest.raises(PeerError, match="has spaces or other characters that kcagc does not write"):
            check(agreeing, ProposalState(signed))


def test_a_decision_that_accepts_what_does_not_exist_is_refused(agreeing):
    """The text would reach the terminals of the others."""
    found = proposal(agreeing)
    own = msgspec.json.decode(found.state.decisions[0].content, type=Decision)
    hostile = msgspec.structs.replace(own, accepts=("\x1b[2K\nAll have approved it.",))
    signed = SignedRecord.of(hostile, agreeing.config("alice").identity())
    with pytest.raises(PeerError, match=r"alice accepts '\?\[2K\?All have approved it\.', and there is no such"):
        check(agreeing, with_decisions(found.state, signed))


def test_an_unattended_role_with_the_same_settings_approves_fits_only(tmp_path):
    agreeing = Agreeing(tmp_path, automatic=("never", "same", "any"))
    bob = agreeing.config("bob")
    for tasks in (("match",), ("count",), ("predict",), ("fit", "predict")):
        assert automatic_decision(bob, proposal(agreeing, tasks=tasks), NOW) is None
    assert automatic_decision(bob, proposal(agreeing), NOW) is not None


def test_every_task_is_counted_by_itself(agreeing):
    config = agreeing.config("alice")
    folder = ProposalFolder.of(config)
    folder.keep(all_approve(agreeing, proposal(agreeing, tasks=("fit", "match", "predict"), runs=2)))
    for task in ("match", "predict"):
        for session in ("a", "a", "b"):
            run = agreed(config, task, clock=lambda: NOW)
            assert run.approved is not None
            note_result(run, {"task": task, "started": session} | ({"session": session} if task == "match" else {}))
        assert agreed(config, task, clock=lambda: NOW).approved is None
        reason = f"proposal 1 allows 2 runs of {task}, and no more are left"
        assert folder.for_next_run("alice", task, NOW) == (None, reason)
    assert agreed(config, "fit", clock=lambda: NOW).approved is not None


def test_a_role_that_has_approved_a_proposal_goes_back_to_no_earlier_one_when_it_expires(agreeing):
    """The coordinator could hold back the last approval of the newer one until then."""
    config = agreeing.config("alice")
    folder = ProposalFolder.of(config)
    folder.keep(all_approve(agreeing, proposal(agreeing, runs=9, days=30.0)))
    folder.keep(proposal(agreeing, number=2, days=1.0))
    later = NOW + 1.5 * 86_400
    assert folder.for_next_run("alice", "fit", later)[0] is None
    assert "proposal 2 was valid until" in folder.for_next_run("alice", "fit", later)[1]
    assert folder.for_next_run("bob", "fit", later)[0].proposal.number == 1
