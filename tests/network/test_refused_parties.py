"""Our own party with something wrong in its folder: it ends with the right code and word, and nobody else notices."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from kcagc.files.atomic import PRIVATE, write_bytes
from kcagc.net.trial_authority import CERTIFICATE_DAYS, trial_authority
from kcagc.secagg.identity import Identity
from network.adversaries import Shop
from network.roles import AGGREGATOR, PATIENCE, Collaboration, assert_one_line


@pytest.fixture(scope="module")
def siege(fork_server, tmp_path_factory):
    """An aggregator and two of three parties; c comes in many wrong ways, and at last in the right one."""
    roles = Collaboration(
        tmp_path_factory.mktemp("siege"), fork_server, limits="peer_timeout = 200\nmessage_timeout = 200"
    )
    try:
        # Under load a living process may take its time to say so.
        aggregator = roles.start_aggregator(patches={"kcagc.runtime.server._ALIVE_WITHIN": 20.0})
        genuine = roles.start_parties("a", "b")
        for name in "ab":
            aggregator.wait_for_line(f"{name} is connected")
        yield roles, aggregator
        roles.assert_finishes(aggregator, *genuine, roles.start("c"))
        assert [role.log for role in roles.roles if "Traceback" in role.log] == []
    finally:
        roles.close()


@pytest.fixture
def c(siege):
    """The folder of c, which is as before when a test has ended."""
    roles, _ = siege
    folder = roles.folder("c")
    before = {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}
    yield roles
    for path, content in before.items():
        write_bytes(path, content, mode=PRIVATE)


def assert_refused(siege, code, words, logged=None, **how):
    """Let c try, and see how it ends; `logged` is what the aggregator says about it, if it hears of it."""
    roles, aggregator = siege
    since, begun = aggregator.n_lines, time.monotonic()
    party = roles.start("c", **how)
    assert party.ends() == code, party.log
    assert_one_line(party, f"^kcagc: .*{words}")
    assert time.monotonic() - begun < PATIENCE
    if logged is not None:
        assert_one_line(aggregator, logged, since)
    refusals = aggregator.lines("refused|without a word", since)
    assert len(refusals) == (0 if logged is None else 1), aggregator.log
    assert aggregator.running


LONG_AGO = datetime.now(UTC) - timedelta(days=CERTIFICATE_DAYS)


def test_an_expired_certificate_is_found_before_connecting(siege, c):
    c.certify("c", start=LONG_AGO, days=3)
    assert_refused(siege, 2, "certificate.pem: .* ran out on")


def test_a_certificate_of_the_future_is_found_before_connecting(siege, c):
    c.certify("c", start=datetime.now(UTC) + timedelta(days=2), days=3)
    assert_refused(siege, 2, "certificate.pem: .* is not valid before")


def test_a_key_of_another_certificate_is_found_before_connecting(siege, c):
    _, key = c.authority.issue("c.kcagc.internal", client=True)
    write_bytes(c.folder("c") / "private" / "tls-key.pem", key, mode=PRIVATE)
    assert_refused(siege, 2, "tls-key.pem: does not belong to the certificate")


def test_an_authority_that_is_not_ones_own_is_found_before_connecting(siege, c):
    c.certify("c", authority=trial_authority("another"))
    assert_refused(siege, 2, "is not signed by an authority in")


def test_a_certificate_for_another_name_is_found_before_connecting(siege, c):
    c.certify("c", called="b")
    assert_refused(siege, 2, "is for b.kcagc.internal, but the roles list c.kcagc.internal for c")


def test_a_certificate_for_servers_only_is_found_before_connecting(siege, c):
    pem, key = c.authority.issue("c.kcagc.internal", server=True)
    write_bytes(c.folder("c") / "private" / "tls-key.pem", key, mode=PRIVATE)
    write_bytes(c.folder("c") / "certificate.pem", pem)
    assert_refused(siege, 2, "is not for this use: .*clientAuth")


def test_a_certificate_of_an_unknown_authority_is_not_tried_for_ever(siege, c):
    another = trial_authority("another")
    c.certify("c", authority=another, trusting=[c.authority, another])
    assert_refused(siege, 11, "coordinator: .*does not accept our certificate")


def test_an_aggregator_of_another_authority_is_not_spoken_to(siege, c):
    another = trial_authority("another")
    c.certify("c", authority=another, trusting=[another])
    assert_refused(siege, 11, "no authority in .*ca.pem vouches for the server's certificate")


def test_a_certificate_in_the_name_of_another_party_is_refused(siege, c):
    c.certify("c", called="b")
    c.edit("c", 'tls_name = "c.kcagc.internal"', 'tls_name = "b.kcagc.internal"')
    told = "the certificate is for b.kcagc.internal, but c's must be for c.kcagc.internal"
    assert_refused(siege, 11, told, f"refused a stream from .*{told}")


def test_another_identity_key_is_refused(siege, c):
    c.pin_another_key("c")
    told = "not signed by the identity key that coordinator has pinned for c"
    assert_refused(siege, 11, told, f"refused a stream from .*{told}")


def test_an_identity_key_that_is_not_the_one_listed_is_found_before_connecting(siege, c):
    write_bytes(c.folder("c") / "private" / "identity.pem", Identity.generate().to_pem(), mode=PRIVATE)
    assert_refused(siege, 2, "identity.pem: is not the key whose public half is listed for c")


def test_another_pinned_key_of_the_aggregator_is_a_difference(siege, c):
    c.edit("c", rf'(name = "{AGGREGATOR}"\nrole = "\w+"\nidentity = )"\w+"', rf'\1"{Identity.generate().public.hex()}"')
    assert_refused(siege, 5, "roles: coordinator has", "refused a stream from .*roles: coordinator has")


@pytest.mark.parametrize(("field", "pattern"), [("n_clusters", "n_clusters = 3"), ("n_init", "n_init = 2")])
def test_other_parameters_are_named(siege, c, field, pattern):
    c.edit("c", pattern, f"{field} = 4")
    told = f"do not agree: {field}: coordinator has ., c has 4"
    assert_refused(siege, 5, told, f"refused a stream from .*{told}")


def test_another_version_of_the_link_is_named(siege, c):
    told = "coordinator speaks 'kcagc-link/1', c kcagc-link/0: install the same version"
    changed = {"kcagc.runtime.stream_handshake.LINK": "kcagc-link/0"}
    assert_refused(siege, 5, told, "ended without a word", patches=changed)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(64), b""], ids=["http", "zeros", "none"])
def test_a_server_of_another_kind_is_recognised(siege, c, answer):
    with Shop(answer) as shop:
        party = c.start("c", "--peer-timeout", "1", port=shop.port)
        code = party.ends()
    if answer:
        assert code == 11
        assert_one_line(party, "^kcagc: coordinator: .*does not speak TLS")
    else:  # which a server that is just being started may do as well
        assert code == 10
        assert_one_line(party, "cannot reach coordinator yet: .*ends as soon as TLS begins")


def test_a_party_that_is_connected_already_is_not_let_in_twice(siege):
    roles, aggregator = siege
    since = aggregator.n_lines
    second = roles.start("a", "--state", str(roles.root / "elsewhere"))
    assert second.ends() == 12
    assert_one_line(second, "^kcagc: coordinator refuses: another process of a is connected already")
    assert_one_line(aggregator, "refused a stream from .*another process of a is connected already", since)
    assert aggregator.lines("a is gone", since) == []


def test_a_role_runs_once_in_its_folder(siege):
    roles, _ = siege
    for name in ("a", AGGREGATOR):
        second = roles.start(name)
        assert second.ends() == 12
        assert_one_line(second, "^kcagc: .*another process is using this journal")


def test_a_port_in_use_is_said_at_once(siege, tmp_path):
    roles, aggregator = siege
    begun = time.monotonic()
    second = roles.start(AGGREGATOR, "--listen", f"127.0.0.1:{roles.port}", "--state", str(tmp_path))
    assert second.ends() == 1
    assert time.monotonic() - begun < PATIENCE
    assert_one_line(second, f"^kcagc: cannot listen on 127.0.0.1:{roles.port}: the port is in use")
    assert aggregator.running
