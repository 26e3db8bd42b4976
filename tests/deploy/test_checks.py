"""`kcagc check`: each check has its line and its exit code, and no failure hides another."""

import json
import re
import shutil
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from deploy.collaboration import edit, made, task
from kcagc.cli.main import cli
from kcagc.deploy.folders import tls_name
from kcagc.net.tls import Credentials
from kcagc.net.trial_authority import trial_authority
from kcagc.protocol.label_policy import ColumnPrediction, LabelMeasurement
from kcagc.protocol.local import LocalLabels, labels_key
from kcagc.protocol.messages import store
from kcagc.runtime.journal import Journal


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return made(tmp_path_factory.mktemp("participants"))


@pytest.fixture
def folders(written, tmp_path):
    root = written["alice"].parent.parent
    shutil.copytree(root, tmp_path / "participants")
    return {name: tmp_path / "participants" / path.relative_to(root) for name, path in written.items()}


def check(path, *options):
    """Run it twice, for people and for scripts; see that both say the same, and give what they say."""
    arguments = ["check", "--config", str(path), *options]
    shown, told = (CliRunner().invoke(cli, [*arguments, *more]) for more in ([], ["--json"]))
    rows = json.loads(told.stdout)
    assert shown.exit_code == told.exit_code
    head, *lines = shown.stdout.splitlines()
    assert head.startswith(f"{path.parent.name} (")
    expected = []
    for row in rows:
        assert row["ok"] == (row["exit_code"] == 0)
        expected.append(f"{'ok   ' if row['ok'] else 'error'} {row['check']:<12} {row['message']}")
        expected += [f"note  {'':<12} {warning}" for warning in row["warnings"]]
    assert lines == expected
    wrong = [row["exit_code"] for row in rows if not row["ok"]]
    assert told.exit_code == (wrong[0] if wrong else 0)
    return {row["check"]: row for row in rows}


def spoil(path, name):
    """Make one thing wrong."""
    folder = path.parent
    if name == "identity":
        shutil.copy(folder.parent / "bob" / "private" / "identity.pem", folder / "private")
    elif name == "certificate":
        (folder / "ca.pem").write_text("no certificate")
    elif name == "policy":
        edit(path, r"^aggregator = .*", 'aggregator = "party"')
        edit(path, r'^\[\[participants\]\]\nname = "coordinator"\n.*\n.*\n.*\n', "")
    elif name == "journal":
        (folder / "state").mkdir()
        (folder / "state" / "fit.sqlite").write_bytes(b"no journal at all" * 100)
    elif name == "data":
        (folder / "data" / "edges.csv").unlink()


WRONG = [
    ("identity", 2, "private/identity.pem: its public half is not the identity that .* lists for alice"),
    ("certificate", 2, "ca.pem: contains no PEM certificate"),
    ("policy", 4, '"labelled-sums"'),
    ("journal", 12, "state/fit.sqlite: the journal cannot be read"),
    ("data", 3, "alice: .*data/edges.csv: there is no such file"),
]


def test_new_folders_with_data_pass_all_checks(folders):
    found = check(folders["alice"], "--offline")
    assert list(found) == ["identity", "certificate", "method", "policy", "journal", "data", "sessions"]
    assert all(row["ok"] and not row["warnings"] for row in found.values())
    why = "because it comes closest to the clusters of pooled columns; psi is 1, because it is set"
    assert found["method"]["message"] == f"joint, {why}"
    assert found["journal"]["message"] == "no run so far"
    assert found["data"]["message"] == "24 nodes whose ids are strings, 3 columns, " + (
        f"{task(folders['alice']).data.graph.n_edges} edges"
    )
    found = check(folders["coordinator"], "--offline")
    assert list(found) == ["identity", "certificate", "method", "policy", "journal"]
    assert all(row["ok"] for row in found.values())
    edit(folders["alice"], '^# method = "auto"', 'method = "cells"')
    found = check(folders["alice"], "--offline")
    assert list(found)[-1] == "labels"
    assert all(row["ok"] and not row["warnings"] for row in found.values())


def test_the_data_check_counts_weighted_columns(folders):
    table = folders["alice"].parent / "data" / "features.csv"
    head, *rows = table.read_text().splitlines()
    flags = [f"{row},{number % 4 // 3},{number % 6 // 5},{number % 5 // 4},1" for number, row in enumerate(rows)]
    table.write_text("\n".join([f"{head},flag,toys,books,all", *flags]) + "\n")
    said = check(folders["alice"], "--offline")["data"]["message"]
    assert "7 columns (3 weighted by inverse document frequency), " in said
    edit(folders["alice"], r"^# columns.age.*", 'columns.flag = { weighting = "none" }')
    assert "7 columns (2 weighted by" in check(folders["alice"], "--offline")["data"]["message"]
    edit(folders["alice"], r"^# default = .*", 'default = { weighting = "none" }')
    run = task(folders["alice"])
    assert run.input.summary()["columns_weighted"] == 0
    assert run.input.summary()["rules"]["default"] == {"weighting": "none"}


def test_labels_that_an_earlier_session_sent_are_measured_and_not_new_ones(folders):
    edit(folders["alice"], '^# method = "auto"', 'method = "cells"')
    run = task(folders["alice"])
    column = ColumnPrediction(column=0, kind="number", auc=0.93, without=0.5, significant=True)
    planted = LocalLabels(
        store(np.arange(24) % 2), 2, False, LabelMeasurement((column,), 0.4, 24, 1), store(np.zeros(0))
    )
    key = labels_key(run.data, run.agreement.parameters)
    run.kept.keep(b"a session", key, lambda: msgspec.msgpack.encode(planted))
    found = check(folders["alice"], "--offline")
    assert found["sessions"]["message"] == "sessions with these data so far: 1 (1 with the same parties)"
    assert found["labels"]["exit_code"] == 4
    assert "labels predict it with AUC 0.93 (limit 0.85)" in found["labels"]["message"]
    edit(folders["alice"], r"^accept = \[\]", 'accept = ["revealing-labels"]')
    message = check(folders["alice"], "--offline")["labels"]["message"]
    assert message.startswith("2 local clusters of 12 nodes or more")


@pytest.mark.parametrize(("what", "code", "words"), WRONG)
def test_each_failed_check_has_its_exit_code_and_does_not_hide_others(folders, what, code, words):
    spoil(folders["alice"], what)
    found = check(folders["alice"], "--offline")
    assert [name for name, row in found.items() if not row["ok"]] == [what]
    assert found[what]["exit_code"] == code
    assert re.search(words, found[what]["message"])


def test_the_page_of_disclosures_needs_the_configuration_only(folders):
    for folder in ("data", "private"):
        shutil.rmtree(folders["alice"].parent / folder)
    arguments = ["check", "--config", str(folders["alice"]), "--disclosure"]
    shown, as_json = (CliRunner().invoke(cli, [*arguments, *more]) for more in ([], ["--json"]))
    assert (shown.exit_code, as_json.exit_code) == (0, 0)
    assert shown.stdout.startswith("# What this run discloses: page for alice\n")
    page = json.loads(as_json.stdout)
    assert [f"## {section['heading']}" for section in page["sections"]] == [
        line for line in shown.stdout.splitlines() if line.startswith("## ")
    ]


def test_the_page_of_disclosures_names_what_was_not_accepted(folders):
    spoil(folders["alice"], "policy")
    shown = CliRunner().invoke(cli, ["check", "--config", str(folders["alice"]), "--disclosure"])
    assert shown.exit_code == 0
    assert "`labelled-sums` is **not accepted**" in shown.stdout


def test_more_clusters_than_nodes_are_found_before_a_run(folders):
    edit(folders["alice"], r"^n_clusters = 3", "n_clusters = 25")
    found = check(folders["alice"], "--offline")["data"]
    assert (found["exit_code"], found["message"]) == (
        3,
        "alice: n_clusters: 25 clusters requested, but there are 24 nodes",
    )


def test_all_failures_are_reported_together(folders):
    for what, _, _ in WRONG:
        spoil(folders["alice"], what)
    edit(folders["alice"], "^address = .*", 'address = "localhost:1"')
    found = check(folders["alice"])
    assert found.pop("method")["ok"]
    assert [row["exit_code"] for row in found.values()] == [*(code for _, code, _ in WRONG), 2]
    shutil.copy(folders["bob"].parent / "ca.pem", folders["alice"].parent)  # with which the network can be looked at
    assert check(folders["alice"])["network"]["exit_code"] == 10


@pytest.mark.parametrize("name", ["identity.pem", "tls-key.pem"])
def test_a_key_that_other_users_can_read_is_a_warning(folders, name):
    key = folders["alice"].parent / "private" / name
    key.chmod(0o644)
    found = check(folders["alice"], "--offline")
    (warning,) = [warning for row in found.values() for warning in row["warnings"]]
    assert str(key) in warning
    assert "chmod 600" in warning


@pytest.mark.parametrize(("days", "noted"), [(13, True), (20, False)])
def test_a_certificate_is_a_warning_two_weeks_before_it_expires(folders, days, noted):
    renew(folders["alice"].parent, days=days)
    found = check(folders["alice"], "--offline")["certificate"]
    assert found["ok"]
    assert any("days left" in warning for warning in found["warnings"]) == noted


def test_an_expired_certificate_is_an_error(folders):
    renew(folders["alice"].parent, days=1, start=datetime.now(UTC) - timedelta(days=3))
    found = check(folders["alice"], "--offline")["certificate"]
    assert found["exit_code"] == 2
    assert "certificate.pem" in found["message"]


def renew(folder, authority=None, **dates):
    authority = authority or trial_authority("test")
    certificate, key = authority.issue(tls_name(folder.name), client=True, server=True, **dates)
    (folder / "certificate.pem").write_bytes(certificate)
    (folder / "private" / "tls-key.pem").write_bytes(key)
    (folder / "ca.pem").write_bytes(authority.certificate_pem)


def test_nodes_without_edges_are_a_warning(folders):
    edges = folders["alice"].parent / "data" / "edges.csv"
    kept = [line for line in edges.read_text().splitlines() if "n007" not in line]
    edges.write_text("\n".join(kept) + "\n")
    (warning,) = check(folders["alice"], "--offline")["data"]["warnings"]
    assert warning.startswith("1 ")
    assert "without edges" in warning


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("running", "a run was interrupted: the same command resumes it"),
        ("finished", "the run has finished; to start another"),
        ("failed", "the last run ended with: bob ended the run"),
    ],
)
def test_the_journal_says_how_the_last_run_ended(folders, status, words):
    journal = Journal(folders["alice"].parent / "state" / "fit.sqlite")
    journal.set_fact("status", status.encode())
    journal.set_fact("failure", b"bob ended the run")
    journal.commit()
    journal.close()
    assert check(folders["alice"], "--offline")["journal"]["message"].startswith(words)


def test_a_journal_in_use_is_an_error_and_the_check_does_not_change_it(folders):
    journal = Journal(folders["alice"].parent / "state" / "fit.sqlite")
    journal.set_fact("mine", b"still here")
    journal.commit()
    found = check(folders["alice"], "--offline")["journal"]
    assert found["exit_code"] == 12
    assert "another process is using this journal" in found["message"]
    assert journal.fact("mine") == b"still here"
    journal.close()


def test_a_check_writes_no_file(folders):
    before = sorted(folders["alice"].parent.rglob("*"))
    check(folders["alice"], "--offline")
    assert sorted(folders["alice"].parent.rglob("*")) == before


# The network.


class RoleServer:
    """An aggregator's TLS and nothing behind it; it keeps every byte that comes after the handshake."""

    def __init__(self, folder, *, insist=True):
        renewed = Credentials.load(
            folder / "ca.pem", folder / "certificate.pem", folder / "private" / "tls-key.pem", owner="test", server=True
        )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=renewed.ca.decode())
        context.load_cert_chain(renewed.certificate_file, renewed.key_file)
        context.verify_mode = ssl.CERT_REQUIRED if insist else ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        self.context, self.received, self.names = context, b"", []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def _serve(self):
        while True:
            try:
                plain, _ = self._socket.accept()
            except OSError:
                return
            plain.settimeout(5)
            try:
                with self.context.wrap_socket(plain, server_side=True) as stream:
                    self.names += [value for _, value in stream.getpeercert()["subjectAltName"]]
                    stream.sendall(bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))  # the first word of HTTP/2: no settings
                    while data := stream.recv(1 << 16):
                        self.received += data
            except OSError:
                continue

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)
        assert not self._thread.is_alive()


def test_only_a_handshake_reaches_the_aggregator(folders):
    with RoleServer(folders["coordinator"].parent) as listener:
        edit(folders["alice"], "^address = .*", f'address = "localhost:{listener.port}"')
        found = check(folders["alice"])
    assert listener.names == ["alice.kcagc.internal"] * 2  # for people and for scripts
    assert b"kcagc" not in listener.received
    # Beyond the handshake, at most HTTP/2's opening words, which say nothing: no headers and no data.
    assert http2_kinds(listener.received) <= {4, 6, 7, 8}
    assert found["network"]["message"].startswith(f"localhost:{listener.port}: the aggregator accepts our certificate")


def http2_kinds(received):
    """The kinds of HTTP/2 frames: 0 is data, 1 headers, 4 settings, 6 ping, 7 goodbye, 8 window."""
    rest, kinds = received, set()
    while rest:
        rest = rest.removeprefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        if len(rest) >= 9:
            kinds.add(rest[3])
            rest = rest[9 + int.from_bytes(rest[:3], "big") :]
        else:
            assert not rest
    return kinds


def test_no_aggregator_is_a_timeout_and_another_tls_name_a_rejection(folders):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    edit(folders["alice"], "^address = .*", f'address = "localhost:{free}"')
    found = check(folders["alice"])["network"]
    assert found["exit_code"] == 10
    assert found["message"].startswith(f"localhost:{free}: no server listens there")
    edit(folders["alice"], "coordinator.kcagc.internal", "another.example")
    with RoleServer(folders["coordinator"].parent) as listener:
        edit(folders["alice"], "^address = .*", f'address = "localhost:{listener.port}"')
        found = check(folders["alice"])["network"]
    assert found["exit_code"] == 11
    assert "another.example" in found["message"]


def test_an_aggregator_of_another_authority_is_rejected(folders):
    renew(folders["coordinator"].parent)
    with RoleServer(folders["coordinator"].parent) as listener:
        edit(folders["alice"], "^address = .*", f'address = "localhost:{listener.port}"')
        assert check(folders["alice"])["network"]["exit_code"] == 11


def test_a_port_in_use_is_an_error_and_a_free_port_stays_free(folders):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        edit(folders["coordinator"], "^listen = .*", f'listen = "127.0.0.1:{port}"')
        found = check(folders["coordinator"])["network"]
        assert found["exit_code"] == 1
        assert found["message"] == f"cannot listen on 127.0.0.1:{port}: Address already in use"
    assert check(folders["coordinator"])["network"]["message"] == f"127.0.0.1:{port} is free to listen on"
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_check_for_a_prediction_needs_a_model_and_its_section(folders, tmp_path):
    done = CliRunner().invoke(
        cli, ["check", "--offline", "--config", str(folders["alice"]), "--model", str(tmp_path / "m")]
    )
    assert done.exception.exit_code == 2
    assert "needs a section [predict]" in str(done.exception)
    edit(folders["alice"], r"^# (\[predict\]|features = |graph = \"data|id_column = )", r"\1")
    done = CliRunner().invoke(
        cli, ["check", "--offline", "--config", str(folders["alice"]), "--model", str(tmp_path / "m")]
    )
    assert done.exception.exit_code == 2
    assert str(done.exception) == f"alice: {tmp_path / 'm'}: No such file or directory"
