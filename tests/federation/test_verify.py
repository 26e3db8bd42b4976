"""`kcagc verify`: the result folders of finished runs pass offline, and any changed byte is found with its file."""

import asyncio
import json
import shutil

import msgspec
import pytest
from click.testing import CliRunner

from federation.agreeing_roles import Agreeing, ended
from kcagc.cli.main import cli
from kcagc.deploy.audit import audit_statement, read_audit
from kcagc.deploy.config import Config
from kcagc.errors import ParameterError, VerificationError
from kcagc.federation.codes import fingerprint
from kcagc.federation.verify import Pins, verify_folder, verify_together
from kcagc.report.page import write_page
from kcagc.secagg.keys import Identity

FILES = ("labels.csv", "ledger.jsonl", "model.kcagc", "run.json", "audit.json", "audit.sig")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two runs of two parties under one proposal; give the roles."""
    agreeing = Agreeing(tmp_path_factory.mktemp("verify"))

    async def work():
        async with agreeing.serving() as service:
            await agreeing.propose(runs=2)
            await agreeing.approve()
            for new_session in (False, True):
                await agreeing.run_all(new_session=new_session)
                await ended(service)
                if not new_session:
                    result = results(agreeing, "alice")
                    shutil.copytree(result, result / "earlier" / "first")

    asyncio.run(work())
    return agreeing


def results(agreeing, name):
    if name in agreeing.configs:
        return agreeing.configs[name].parent / "result"
    return agreeing.coordinator.parent / "runs" / "0002"


@pytest.fixture
def folder(finished, tmp_path):
    """The results of a party, to be changed by a test."""
    return shutil.copytree(results(finished, "alice"), tmp_path / "result", ignore=shutil.ignore_patterns("earlier"))


@pytest.fixture
def pins(finished):
    return Pins.of_config(finished.configs["bob"])


def verify(*arguments):
    return CliRunner().invoke(cli, ["verify", *map(str, arguments)])


def test_all_roles_pass_together_with_the_keys_in_their_folders(finished):
    folders = [results(finished, name) for name in ("alice", "bob", "east-coordinator")]
    done = verify(*folders)
    assert done.exit_code == 0, done.output
    assert done.output.count("signed by the identity key of") == 3
    assert done.output.count("is signed by alice, bob and east-coordinator") == 3
    for name in ("alice", "bob"):
        assert f"the receipts of {name} and east-coordinator agree" in done.output
    shown = json.loads(verify("--json", *folders).output)
    assert len({one["session"] for one in shown["runs"]}) == 1
    assert set(shown["runs"][0]["files"]) == set(FILES) - {"audit.json", "audit.sig"}


def test_the_audit_files_of_a_role_form_a_chain(finished):
    newest = results(finished, "alice")
    earlier = newest / "earlier" / "first"
    done = verify(newest, earlier)
    assert done.exit_code == 0, done.output
    assert f"{newest} follows {earlier}" in done.output


def test_a_third_party_needs_only_the_fingerprint_or_a_list_of_keys(finished, folder):
    with pytest.raises(ParameterError, match="which would pin the identity keys; name one with --config"):
        verify_folder(folder, Pins.beside(folder))
    together = fingerprint(Config.load(finished.configs["bob"]).agreement().federation)
    for options in (("--fingerprint", together), ("--config", finished.configs["bob"])):
        assert verify(folder, *options).exit_code == 0
    other = fingerprint(b"other")
    done = verify(folder, "--fingerprint", other)
    assert isinstance(done.exception, VerificationError)
    assert f"have the fingerprint {together}, not the given one" in str(done.exception)


@pytest.mark.parametrize("name", FILES)
def test_any_changed_byte_is_found(folder, pins, name):
    path = folder / name
    content = path.read_bytes()
    verify_folder(folder, pins)
    for place in {*range(0, len(content), 1 + len(content) // 60), len(content) - 1}:
        for change in (1, 32):
            path.write_bytes(content[:place] + bytes([content[place] ^ change]) + content[place + 1 :])
            with pytest.raises(VerificationError) as caught:
                verify_folder(folder, pins)
            shown = "audit.json" if name == "audit.sig" else name
            assert caught.value.file.endswith(shown), (place, str(caught.value))
    for changed in (content[:-1], content + b"\n", b""):
        path.write_bytes(changed)
        with pytest.raises(VerificationError, match=name.replace(".", r"\.")):
            verify_folder(folder, pins)
    path.unlink()
    with pytest.raises(VerificationError, match=name.replace(".", r"\.")):
        verify_folder(folder, pins)


@pytest.mark.parametrize("more", [[], ["--fingerprint", " ".join(["12345"] * 8)]])
def test_a_folder_that_is_not_that_of_a_run_is_named(folder, more):
    done = CliRunner().invoke(cli, ["verify", str(folder.parent), *more])
    assert isinstance(done.exception, VerificationError)
    assert f"this is not the result folder of a finished run, or the file was removed; did you mean {folder}?" in str(
        done.exception
    )


def resigned(folder, identity, **fields):
    """Write another audit file with a valid signature of some key."""
    audit = msgspec.structs.replace(read_audit(folder)[0], **fields)
    content = msgspec.json.format(msgspec.json.encode(audit), indent=2)
    (folder / "audit.json").write_bytes(content)
    (folder / "audit.sig").write_text(identity.sign(audit_statement(content)).hex())


def own_key(finished, name):
    return finished.config(name).identity()


def test_a_stranger_cannot_sign_for_a_role(folder, pins):
    resigned(folder, Identity.generate())
    with pytest.raises(VerificationError, match="the identity key of alice has not signed these bytes"):
        verify_folder(folder, pins)


def test_a_role_cannot_put_other_participants_into_its_audit_file(finished, folder, pins):
    roles = read_audit(folder)[0].participants
    changed = (roles[0], msgspec.structs.replace(roles[1], identity="00" * 32), roles[2])
    resigned(folder, own_key(finished, "alice"), participants=changed)
    with pytest.raises(VerificationError, match="bob: names, roles and identity keys are not those pinned"):
        verify_folder(folder, pins)


@pytest.mark.parametrize("what", ["without", "withheld", "other"])
def test_a_role_cannot_leave_out_or_replace_the_agreement(finished, folder, pins, what):
    state = read_audit(folder)[0].proposal
    fields, message = {
        "without": ({"proposal": None, "approval": ""}, "the run needs an approved proposal"),
        "withheld": (
            {"proposal": msgspec.structs.replace(state, decisions=state.decisions[:2])},
            "not all participants have approved",
        ),
        "other": ({"approval": "ab" * 32}, "not all participants have approved the proposal of the run"),
    }[what]
    resigned(folder, own_key(finished, "alice"), **fields)
    with pytest.raises(VerificationError, match=message):
        verify_folder(folder, pins)


def test_a_file_outside_the_folder_is_no_part_of_it(finished, folder, pins):
    files = read_audit(folder)[0].files
    resigned(folder, own_key(finished, "alice"), files={**files, "../secret": "00" * 32})
    with pytest.raises(VerificationError, match=r"audit\.json: does not list '\.\./secret' as a file of this folder"):
        verify_folder(folder, pins)


def test_receipts_that_differ_are_found_although_each_is_signed(finished, folder, pins):
    honest = read_audit(folder)[0].receipts[0]
    coordinator = verify_folder(results(finished, "east-coordinator"), pins)
    for change in (
        {"sent": honest.sent + 1},
        {"sent_digest": "00" * 32},
        {"received": 0},
        {"received_digest": honest.sent_digest},
    ):
        resigned(folder, own_key(finished, "alice"), receipts=(msgspec.structs.replace(honest, **change),))
        with pytest.raises(VerificationError, match="they are not the same messages"):
            verify_together([coordinator, verify_folder(folder, pins)])
    resigned(folder, own_key(finished, "alice"), receipts=())
    with pytest.raises(VerificationError, match="only one of east-coordinator and alice has a receipt"):
        verify_together([coordinator, verify_folder(folder, pins)])


def test_receipts_hold_digests_of_all_messages_and_not_their_content(finished):
    for name in ("alice", "bob"):
        audit = read_audit(results(finished, name))[0]
        summary = json.loads((results(finished, name) / "run.json").read_text())
        (receipt,) = audit.receipts
        assert receipt.peer == "east-coordinator"
        assert receipt.sent == summary["messages_sent"]
        assert len(receipt.sent_digest) == 64


def test_the_report_shows_the_proposal_and_who_approved_it(folder):
    page = write_page(folder).read_text()
    assert "Proposal 1 of alice, made" in page
    assert "for 2 runs; all have signed it" in page
    assert page.count("nothing beyond the default settings") == 3
    ledger = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    approvals = [one for one in ledger if one["kind"] == "link/approval"]
    assert [(one["sender"], one["stage"]) for one in approvals] == [
        (name, "proposal 1") for name in ("alice", "bob", "east-coordinator")
    ]


def test_a_fingerprint_does_not_pass_a_run_whose_proposal_was_removed(finished, folder):
    resigned(folder, own_key(finished, "alice"), proposal=None, approval="")
    together = fingerprint(finished.config("bob").agreement().federation)
    with pytest.raises(VerificationError, match="the run needs an approved proposal, and the audit file has none"):
        verify_folder(folder, Pins.of_fingerprint(together))


def test_the_folders_of_different_runs_do_not_pass_together(finished, pins):
    earlier = finished.coordinator.parent / "runs" / "0001"
    mine, other = results(finished, "alice"), results(finished, "bob")
    for folders in ((mine, earlier), (mine, other, earlier)):
        done = verify(*folders)
        assert isinstance(done.exception, VerificationError)
        assert "have no run in common here: give folders of the same run" in str(done.exception)
    chain = [mine, mine / "earlier" / "first", earlier, results(finished, "east-coordinator")]
    assert verify(*chain).exit_code == 0
