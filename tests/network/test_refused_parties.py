"""A party with a defect in its folder ends with the right exit code and error; the other roles continue."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from kcagc.data.files import PRIVATE, write_bytes
from kcagc.net.trial_authority import CERTIFICATE_DAYS, trial_authority
from kcagc.secagg.keys import Identity
from network.adversaries import OtherServer
from network.roles import AGGREGATOR, PATIENCE, PATIENT, Collaboration, assert_one_line


@pytest.fixture(scope="module")
def waiting_run(fork_server, tmp_path_factory):
    """An aggregator and two of three parties. c connects with many defects, and at last without any."""
    roles = Collaboration(tmp_path_factory.mktemp("waiting_run"), fork_server, limits=PATIENT)
    try:
        # Under load a living process may need longer to answer.
        aggregator = roles.start_aggregator(patches={"kcagc.runtime.server._ALIVE_TIMEOUT": 20.0})
        genuine = roles.start_parties("a", "b")
        for name in "ab":
            aggregator.wait_for_line(f"{name} is connected")
        yield roles, aggregator
        roles.assert_finishes(aggregator, *genuine, roles.start("c"))
        assert [role.log for role in roles.roles if "Traceback" in role.log] == []
    finally:
        roles.close()


@pytest.fixture
def c(waiting_run):
    """The folders of the roles. The folder of c is restored after the test."""
    roles, _ = waiting_run
    folder = roles.folder("c")
    before = {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}
    yield roles
    for path, content in before.items():
        write_bytes(path, content, mode=PRIVATE)


def assert_refused(waiting_run, code, words, logged=None, **how):
    """Start c and assert how it ends; `logged` is the aggregator's line about it, if there is one."""
    roles, aggregator = waiting_run
    since, start = aggregator.n_lines, time.monotonic()
    party = roles.start("c", **how)
    assert party.ends() == code, party.log
    assert_one_line(party, f"^kcagc: .*{words}")
    assert time.monotonic() - start < PATIENCE
    if logged is not None:
        assert_one_line(aggregator, logged, since)
    refusals = aggregator.lines("rejected|before a valid frame", since)
    assert len(refusals) == (0 if logged is None else 1), aggregator.log
    assert aggregator.running


LONG_AGO = datetime.now(UTC) - timedelta(days=CERTIFICATE_DAYS)


def test_an_expired_certificate_is_found_before_connecting(waiting_run, c):
    c.certify("c", start=LONG_AGO, days=3)
    assert_refused(waiting_run, 2, "certificate.pem: .* expired on")


def test_a_certificate_of_the_future_is_found_before_connecting(waiting_run, c):
    c.certify("c", start=datetime.now(UTC) + timedelta(days=2), days=3)
    assert_refused(waiting_run, 2, "certificate.pem: .* is not valid before")


def test_a_key_of_another_certificate_is_found_before_connecting(waiting_run, c):
    _, key = c.authority.issue("c.kcagc.internal", client=True)
    write_bytes(c.folder("c") / "private" / "tls-key.pem", key, mode=PRIVATE)
    assert_refused(waiting_run, 2, "tls-key.pem: does not belong to the certificate")


def test_a_certificate_of_an_authority_outside_the_own_file_is_found_before_connecting(waiting_run, c):
    c.certify("c", authority=trial_authority("another"))
    assert_refused(waiting_run, 2, "is not signed by an authority in")


def test_a_certificate_for_another_name_is_found_before_connecting(waiting_run, c):
    c.certify("c", called="b")
    assert_refused(waiting_run, 2, "is for b.kcagc.internal, but .*c.kcagc.internal for c")


def test_a_certificate_for_servers_only_is_found_before_connecting(waiting_run, c):
    pem, key = c.authority.issue("c.kcagc.internal", server=True)
    write_bytes(c.folder("c") / "private" / "tls-key.pem", key, mode=PRIVATE)
    write_bytes(c.folder("c") / "certificate.pem", pem)
    assert_refused(waiting_run, 2, "does not allow this use: .*clientAuth")


def test_a_certificate_that_the_aggregator_does_not_trust_ends_the_party(waiting_run, c):
    another = trial_authority("another")
    c.certify("c", authority=another, trusting=[c.authority, another])
    assert_refused(waiting_run, 11, "coordinator: .*does not accept our certificate")


def test_a_party_sends_nothing_to_an_aggregator_of_another_authority(waiting_run, c):
    another = trial_authority("another")
    c.certify("c", authority=another, trusting=[another])
    assert_refused(waiting_run, 11, "the server's certificate is not signed by an authority in .*ca.pem")


def test_a_certificate_in_the_name_of_another_party_is_rejected(waiting_run, c):
    c.certify("c", called="b")
    c.edit("c", 'tls_name = "c.kcagc.internal"', 'tls_name = "b.kcagc.internal"')
    logged = "the certificate is for b.kcagc.internal, but the one of c must be for c.kcagc.internal"
    assert_refused(waiting_run, 11, logged, f"rejected a stream from .*{logged}")


def test_another_identity_key_is_rejected(waiting_run, c):
    c.pin_another_key("c")
    logged = "not signed by the identity key that coordinator has pinned for c"
    assert_refused(waiting_run, 11, logged, f"rejected a stream from .*{logged}")


def test_an_identity_key_that_is_not_the_one_listed_is_found_before_connecting(waiting_run, c):
    write_bytes(c.folder("c") / "private" / "identity.pem", Identity.generate().to_pem(), mode=PRIVATE)
    assert_refused(waiting_run, 2, "identity.pem: .*not the identity that .* lists for c")


def test_another_pinned_key_of_the_aggregator_is_a_difference(waiting_run, c):
    c.edit("c", rf'(name = "{AGGREGATOR}"\nrole = "\w+"\nidentity = )"\w+"', rf'\1"{Identity.generate().public.hex()}"')
    assert_refused(waiting_run, 5, "participants: coordinator has", "rejected a stream from .*participants: ")


@pytest.mark.parametrize(("field", "pattern"), [("n_clusters", "n_clusters = 3"), ("n_init", "n_init = 2")])
def test_other_parameters_are_named(waiting_run, c, field, pattern):
    c.edit("c", pattern, f"{field} = 4")
    logged = f"do not agree: {field}: coordinator has ., c has 4"
    assert_refused(waiting_run, 5, logged, f"rejected a stream from .*{logged}")


def test_another_version_of_the_link_is_named(waiting_run, c):
    told = "the aggregator uses kcagc-stream/4, but .* certificate of c.kcagc.internal uses 'kcagc-stream/1': install"
    changed = {"kcagc.net.frames.STREAM_PROTOCOL": "kcagc-stream/1"}
    assert_refused(waiting_run, 5, told, f"rejected a stream from .*{told}", patches=changed)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(64), b""], ids=["http", "zeros", "none"])
def test_a_server_of_another_kind_is_recognised(waiting_run, c, answer):
    with OtherServer(answer) as server:
        party = c.start("c", "--peer-timeout", "1", port=server.port)
        code = party.ends()
    if answer:
        assert code == 11
        assert_one_line(party, "^kcagc: coordinator: .*does not use TLS")
    else:  # which a server that is just being started may do as well
        assert code == 10
        assert_one_line(party, "cannot reach coordinator yet: .*during the TLS handshake")


def test_a_second_connection_of_a_connected_party_is_rejected(waiting_run):
    roles, aggregator = waiting_run
    since = aggregator.n_lines
    second = roles.start("a", "--state", str(roles.root / "elsewhere"))
    assert second.ends() == 12
    assert_one_line(second, "^kcagc: coordinator rejects this role: another process of a is connected already")
    assert_one_line(aggregator, "rejected a stream from .*another process of a is connected already", since)
    assert aggregator.lines("a disconnected", since) == []


def test_a_second_process_of_a_role_in_its_folder_is_rejected(waiting_run):
    roles, _ = waiting_run
    for name in ("a", AGGREGATOR):
        second = roles.start(name)
        assert second.ends() == 12
        assert_one_line(second, "^kcagc: .*another process is using this journal")


def test_a_port_in_use_is_reported_at_once(waiting_run, tmp_path):
    roles, aggregator = waiting_run
    start = time.monotonic()
    second = roles.start(AGGREGATOR, "--listen", f"127.0.0.1:{roles.port}", "--state", str(tmp_path))
    assert second.ends() == 1
    assert time.monotonic() - start < PATIENCE
    assert_one_line(second, f"^kcagc: cannot listen on 127.0.0.1:{roles.port}: the port is in use")
    assert aggregator.running
