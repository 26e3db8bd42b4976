"""Meetings over TLS with a coordinator in this process: roles found a federation, and strangers cannot connect."""

import asyncio
import stat
import time

import msgspec
import pytest

from federation.meeting_hall import Hall, all_join
from kcagc.deploy.config import Config
from kcagc.deploy.run import RoleRun
from kcagc.errors import ParameterError, PeerError, PeerTimeoutError, RejectedError
from kcagc.federation import meetings
from kcagc.federation.codes import Code
from kcagc.federation.joining import join
from kcagc.federation.meeting import Introduction, MeetingKeys, State, tls_name, visitor_name
from kcagc.net.trial_authority import authority_for
from kcagc.secagg.keys import Identity


@pytest.fixture
def hall(tmp_path):
    return Hall(tmp_path / "coordinator")


@pytest.fixture
def folders(tmp_path):
    return {name: tmp_path / name for name in ("bank", "shop")}


def meet(hall, folders, **more):
    async def run():
        async with hall.open():
            code = await hall.invite(folders["bank"], folders, **more)
            return code, await all_join(code, folders)

    return asyncio.run(run())


def test_everybody_gets_a_configuration_with_the_same_pinned_keys(hall, folders):
    _, joined = meet(hall, folders)
    one, two = joined
    assert one.participants == two.participants
    assert one.fingerprint == two.fingerprint
    assert list(one.participants) == ["bank", "shop", "coordinator"]
    founded = hall.folder / "federations" / "fraud" / "kcagc.toml"
    configs = [Config.load(path) for path in (one.config, two.config, founded)]
    assert len({config.agreement().federation for config in configs}) == 1
    assert len({config.agreement().inputs() for config in configs}) == 1
    assert all(config.document.session.n_clusters == 3 for config in configs)
    for config in configs:
        run = RoleRun(config)
        assert config.identity().public == one.participants[config.me]
        assert run.endpoint.certificate
    # The coordinator trusts the parties' authorities, and each of them can only issue for its own party.
    assert configs[2].credentials().ca.count(b"BEGIN CERTIFICATE") == 3


def test_private_keys_are_readable_for_their_owner_only_and_are_nowhere_else(hall, folders):
    meet(hall, folders)
    for folder in folders.values():
        private = sorted((folder / "private").iterdir())
        assert [path.name for path in private] == ["identity.pem", "tls-key.pem"]
        assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
    private = [path for path in hall.folder.parent.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]
    assert len(private) == 2 * 2 + 2
    assert stat.S_IMODE((hall.folder / "admission.txt").stat().st_mode) == 0o600


def test_the_secret_of_an_invitation_never_reaches_the_coordinator(hall, folders):
    code, _ = meet(hall, folders)
    for path in hall.folder.rglob("*"):
        assert path.is_dir() or code.secret not in path.read_bytes()


def test_a_role_that_was_interrupted_joins_with_the_same_command_and_keys(hall, folders):
    async def run():
        async with hall.open():
            code = await hall.invite(folders["bank"])
            first = asyncio.ensure_future(join(code, "shop", folders["shop"]))
            while "meeting/wait" not in hall.requests:
                await asyncio.sleep(0.01)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            key = (folders["shop"] / "private" / "identity.pem").read_bytes()
            joined = await all_join(code, folders)
            assert (folders["shop"] / "private" / "identity.pem").read_bytes() == key
            return joined

    one, two = asyncio.run(run())
    assert one.fingerprint == two.fingerprint


def test_a_meeting_survives_a_restart_of_the_coordinator(hall, folders):
    async def run():
        async with hall.open():
            code = await hall.invite(folders["bank"])
            first = asyncio.ensure_future(join(code, "shop", folders["shop"]))
            while "meeting/wait" not in hall.requests:
                await asyncio.sleep(0.01)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
        async with hall.open():
            code = Code(code.kind, code.secret, code.fingerprint, hall.admission.address, code.federation)
            return await all_join(code, folders)

    one, two = asyncio.run(run())
    assert one.fingerprint == two.fingerprint


def test_a_stranger_without_a_code_cannot_send_a_request(hall, folders):
    async def run():
        async with hall.open():
            await hall.invite(folders["bank"])
            before = len(hall.requests)
            forged = Code.fresh("invitation", b"f" * 16, hall.admission.address, "fraud")
            with pytest.raises(PeerTimeoutError, match="does not know this code"):
                await join(forged, "shop", folders["shop"])
            assert len(hall.requests) == before

    asyncio.run(run())


def test_a_visitor_of_one_meeting_has_no_access_to_another_one(hall, folders, tmp_path, monkeypatch):
    """Its authority is limited to one name: a certificate under it for another meeting is refused by TLS."""

    async def run():
        async with hall.open():
            one = await hall.invite(folders["bank"])
            other = await hall.invite(tmp_path / "clinic", ("clinic", "lab"), federation="care")
            keys = MeetingKeys(one.secret)
            before = len(hall.requests)
            monkeypatch.setattr(MeetingKeys, "visitors", lambda _: authority_for(visitor_name(keys.id), keys._visitors))
            with pytest.raises(PeerTimeoutError, match="does not know this code"):
                await join(other, "lab", folders["shop"])
            assert len(hall.requests) == before

    asyncio.run(run())


def test_an_admission_code_opens_meetings_and_nothing_else(hall, folders):
    async def run():
        async with hall.open():
            code = await hall.invite(folders["bank"])
            stolen = Code("invitation", hall.admission.secret, code.fingerprint, code.address, "fraud")
            with pytest.raises(PeerError, match="it has no invitation for this code"):
                await join(stolen, "shop", folders["shop"])
            wrong = Code("admission", code.secret, hall.admission.fingerprint, code.address)
            hall.admission = wrong
            with pytest.raises(RejectedError, match="needs the admission code"):
                await hall.invite(folders["shop"], federation="second")

    asyncio.run(run())


def test_a_code_is_of_no_use_after_the_meeting(hall, folders, tmp_path):
    async def run():
        async with hall.open():
            code = await hall.invite(folders["bank"])
            await all_join(code, folders)
            with pytest.raises(RejectedError, match="shop has already joined, with the key"):
                await join(code, "shop", tmp_path / "stranger")
            with pytest.raises(RejectedError, match="a meeting 'fraud' at this coordinator already"):
                await hall.invite(tmp_path / "again")

    asyncio.run(run())


def test_an_expired_code_is_refused(hall, folders):
    late = []
    hall.clock = lambda: time.time() + (7200 if late else 0)

    async def run():
        async with hall.open():
            code = await hall.invite(folders["bank"])
            late.append(True)
            with pytest.raises((RejectedError, PeerTimeoutError), match="expired"):
                await join(code, "shop", folders["shop"])
            with pytest.raises(PeerTimeoutError, match="does not know this code"):  # TLS no longer trusts its visitors
                await join(code, "shop", folders["shop"])

    asyncio.run(run())


def test_an_admission_code_for_another_coordinator_is_refused(hall, folders, tmp_path):
    async def run():
        async with hall.open():
            genuine = hall.admission
            hall.admission = Code("admission", genuine.secret, b"x" * 16, genuine.address)
            with pytest.raises(PeerError, match="is not the one of the admission code") as caught:
                await hall.invite(folders["bank"])
            assert caught.value.peer == "coordinator"

    asyncio.run(run())


def tampered(method, change):
    def answer(asked, payload):
        if asked != method:
            return payload
        state = msgspec.msgpack.decode(payload, type=State)
        return msgspec.msgpack.encode(change(state))

    return answer


def forge_shop(state):
    """Replace the key of the shop by one of the coordinator, which does not have the code."""
    found = [one for one in state.introductions if one.name == "shop"]
    if not found:
        return state
    identity, meeting = Identity.generate(), found[0].tls_name.split(".")[1]
    name = tls_name("shop", meeting)
    forged = Introduction(
        name="shop", identity=identity.public, tls_name=name, authority=authority_for(name).certificate_pem
    ).signed(meeting, identity)
    forged = msgspec.structs.replace(forged, mac=found[0].mac)
    others = [one for one in state.introductions if one.name != "shop"]
    return msgspec.structs.replace(state, introductions=(*others, forged))


def test_a_coordinator_that_replaces_an_introduction_founds_no_federation(hall, folders):
    changes = [tampered(method, forge_shop) for method in ("meeting/wait", "meeting/join")]

    def change(method, payload):
        for one in changes:
            payload = one(method, payload)
        return payload

    hall.change = change
    _, joined = meet(hall, folders)
    for error in joined:
        assert isinstance(error, PeerError)
        assert error.peer == "coordinator"
        assert "of shop that was not made with the code" in str(error)
    assert not list(hall.folder.glob("federations/*"))
    assert not any((folder / "kcagc.toml").exists() for folder in folders.values())


def test_names_settings_and_folders_that_cannot_be_used_are_refused_before_keys_are_made(hall, folders, tmp_path):
    async def run():
        async with hall.open():
            for federation, parties, words in (
                ("Fraud!", ("bank", "shop"), "Invalid federation name 'Fraud!'"),
                ("fraud", ("bank",), "1 party; there must be 2 to 16"),
                ("fraud", ("bank", "bank"), "two roles have the name"),
                ("fraud", ("bank", "coordinator"), "two roles have the name"),
            ):
                with pytest.raises(ParameterError, match=words):
                    await hall.invite(folders["bank"], parties, federation=federation)
            assert not folders["bank"].exists()
            code = await hall.invite(folders["bank"])
            with pytest.raises(ParameterError, match="'clinic' is not invited"):
                await join(code, "clinic", tmp_path / "clinic")
            assert not (tmp_path / "clinic").exists()

    asyncio.run(run())
    _, joined = meet(hall, folders, federation="second")
    assert not any(isinstance(one, Exception) for one in joined)
    with pytest.raises(ParameterError, match="exists already; a role of each federation needs its own folder"):
        meet(hall, folders, federation="third")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_clusters": 3, "random_state": 0}, "an invitation cannot set random_state"),
        ({"n_clusters": 3, "aggregator": "party"}, "an invitation cannot set aggregator"),
        ({"n_clusters": 3, "psi": -1}, "psi"),
    ],
    ids=["seed", "aggregator", "invalid"],
)
def test_the_coordinator_refuses_settings_that_no_invitation_may_have(hall, folders, monkeypatch, settings, words):
    monkeypatch.setattr("kcagc.federation.joining.check_invitation", lambda _: None)

    async def run():
        async with hall.open():
            with pytest.raises(RejectedError, match=words):
                await hall.invite(folders["bank"], settings=settings)

    asyncio.run(run())


def test_keys_that_join_did_not_make_are_not_overwritten(hall, folders):
    own = folders["shop"] / "private" / "tls-key.pem"
    own.parent.mkdir(parents=True)
    own.write_text("my own key")

    async def run():
        async with hall.open():
            with pytest.raises(ParameterError, match=r"tls-key\.pem: exists already; a key is never overwritten"):
                await join(await hall.invite(folders["bank"]), "shop", folders["shop"])

    asyncio.run(run())
    assert own.read_text() == "my own key"


def test_an_admission_code_founds_a_limited_number_of_federations(hall, tmp_path, monkeypatch):
    """They stay after their meetings have expired."""
    monkeypatch.setattr(meetings, "_MAX_FOUNDED", 2)
    late = []
    hall.clock = lambda: time.time() + (7200 if late else 0)

    def places(name):
        return {party: tmp_path / name / party for party in ("bank", "shop")}

    async def run():
        async with hall.open():
            for name in ("one", "two"):
                code = await hall.invite(places(name)["bank"], federation=name)
                if name == "one":
                    await all_join(code, places(name))
            with pytest.raises(RejectedError, match="2 federations were founded with this admission code, or are"):
                await hall.invite(places("three")["bank"], federation="three")
            late.append(True)  # the meeting of the second one has expired, that of the first one, too
            hall.meetings._forget_expired()
            late.clear()
            await hall.invite(places("four")["bank"], federation="four")
            with pytest.raises(RejectedError, match="2 federations were founded"):
                await hall.invite(places("five")["bank"], federation="five")
        (hall.folder / "admission.txt").unlink()  # a new code has its own limit
        async with hall.open():
            await hall.invite(places("six")["bank"], federation="six")

    asyncio.run(run())


@pytest.mark.parametrize("name", ["/etc/passwd", "../../identity.pem", "../../nothing", "a\0b"])
def test_no_visitor_learns_which_files_exist(hall, folders, monkeypatch, name):
    monkeypatch.setattr("kcagc.federation.joining.check_invitation", lambda _: None)

    async def run():
        async with hall.open():
            with pytest.raises(RejectedError, match="Invalid federation name"):
                await hall.invite(folders["bank"], federation=name)

    asyncio.run(run())


VALUES = [
    {"n_local_clusters": None},
    {"n_clusters": 2**63},
    {"n_clusters": 2**64 - 1},
    {"n_clusters": [2, 2**62]},
    {"n_local_clusters": "9" * 3000 + "k"},
    {"psi": {"a": 1}},
    {"psi": b"x"},
    {"tol": float("nan")},
    {"tol": float("inf")},
]


@pytest.mark.parametrize("settings", VALUES, ids=lambda one: str(one)[:40])
def test_a_value_that_no_file_can_have_is_refused_with_its_cause(hall, folders, monkeypatch, settings):
    monkeypatch.setattr("kcagc.federation.joining.check_invitation", lambda _: None)

    async def run():
        async with hall.open():
            with pytest.raises(RejectedError, match=next(iter(settings)) + "|settings|[Pp]arameter"):
                await hall.invite(folders["bank"], settings={"n_clusters": 3, **settings})

    asyncio.run(run())
