"""`kcagc party` with bad files: it ends before it takes part, and names the party, the file and the place.

It tries to tell the aggregator that its data cannot be used. What the others read then is in `network/test_causes.py`.
"""

import contextlib
import re
import shutil
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from click.testing import CliRunner

from deploy.collaboration import edit, made
from kcagc.cli.main import cli
from kcagc.errors import DataError


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return made(tmp_path_factory.mktemp("roles"))


@pytest.fixture
def alice(written, tmp_path):
    shutil.copytree(written["alice"].parent, tmp_path / "alice")
    return tmp_path / "alice" / "kcagc.toml"


def refusal(config, address=None):
    """Run the party, with nobody where the aggregator should be unless there is an address; return what it says."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        arguments = ["party", "--config", str(config), "--address", address or f"127.0.0.1:{nobody.getsockname()[1]}"]
        done = CliRunner().invoke(cli, arguments)
    assert isinstance(done.exception, DataError), done.exception
    assert done.exception.exit_code == 3
    assert done.stdout == ""
    assert not (config.parent / "result" / "labels.csv").exists()
    return str(done.exception)


def change(config, file, pattern, replacement):
    edit(config.parent / "data" / file, pattern, replacement)


FEATURES, EDGES = "features.csv", "edges.csv"
HANDSHAKE = b"\x16"  # the type of a TLS record


@pytest.mark.parametrize(
    ("file", "pattern", "replacement", "words"),
    [
        (FEATURES, r"^n003,", "n002,", r"line 5, column 'id': the id 'n002' is already in line 4"),
        (EDGES, r"\An?source,target\n\w+,", "source,target\nn999,", r"line 2, column 'source': .*'n999'"),
        (FEATURES, r"^(n004,[^,]*),[^,]*,", r"\1,much,", r"line 6, column 'f1': 'much' is not a number"),
        (FEATURES, r"^(n004,[^,]*),[^,]*,", r'\1,"0,5",', r"line 6, column 'f1': '0,5' is not a number"),
        (FEATURES, r"^(n004,[^,]*),[^,]*,", r"\1,,", r"line 6, column 'f1': .*(missing|empty|no value)"),
        (FEATURES, r"^(n004,[^,]*),[^,]*,", r"\1,nan,", r"line 6, column 'f1'"),
        (FEATURES, r"^(n004,[^,]*),[^,]*,", r"\1,inf,", r"line 6, column 'f1'"),
        (FEATURES, r"^(n004,[^,]*),[^,]*,", r"\1,", r"line 6"),
        (FEATURES, r"^n004,", ",", r"line 6, column 'id'"),
        (
            FEATURES,
            r"^n0",
            "1",
            r"edges.csv: line 2, column 'source': the id 'n000' is a string, but the ids .* numbers",
        ),
        (FEATURES, r"(?s)\A.*\Z", "", r"empty"),
        (FEATURES, r"(?s)\n.*\Z", "\n", r"no rows"),
        (FEATURES, r"\Aid,", "name,", r"there is no column 'id'; there are 'name', 'f0', 'f1', 'f2'"),
        (FEATURES, r",", ";", r'set delimiter = ";"'),
        (EDGES, r"(?s)\A.*\Z", "", r"empty"),
        (EDGES, r"\Asource,target", "from,to", r"there is no column 'source'; there are 'from', 'to'"),
    ],
)
def test_a_bad_table_ends_the_party(alice, file, pattern, replacement, words):
    change(alice, file, pattern, replacement)
    said = refusal(alice)
    if not words.startswith("edges"):
        assert said.startswith(f"alice: {alice.parent / 'data' / file}: ")
    assert re.search(words, said), said


def test_a_stranger_in_the_place_of_the_aggregator_receives_only_the_opening_of_tls(alice):
    change(alice, FEATURES, r"^n003,", "n002,")
    received = []

    def listen(listener):
        with contextlib.suppress(TimeoutError), closing(listener.accept()[0]) as connection:
            connection.settimeout(5)
            while content := connection.recv(1 << 16):
                received.append(content)

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as thread:
        listener.settimeout(5)
        listening = thread.submit(listen, listener)
        said = refusal(alice, f"127.0.0.1:{listener.getsockname()[1]}")
        listening.result()
    assert "the id 'n002' is already in line 4" in said
    sent = b"".join(received)
    assert sent[:1] == HANDSHAKE
    assert len(sent) == 5 + int.from_bytes(sent[3:5], "big")  # one record: the greeting of a client
    for secret in (b"n00", b"features", b"alice"):
        assert secret not in sent


def test_a_file_that_is_missing_or_of_no_known_kind_is_named(alice):
    (alice.parent / "data" / FEATURES).unlink()
    assert refusal(alice) == f"alice: {alice.parent / 'data' / FEATURES}: there is no such file"
    edit(alice, r"features\.csv", "features.xlsx")
    assert "features.xlsx: its name must end in .csv, " in refusal(alice)


def test_a_file_that_may_not_be_read_or_is_a_folder_is_named(alice):
    path = alice.parent / "data" / EDGES
    path.unlink()
    path.mkdir()
    assert refusal(alice) == f"alice: {path}: this is a folder, not a file"


def test_a_text_that_is_not_utf_8_is_named_with_its_line(alice):
    path = alice.parent / "data" / FEATURES
    path.write_bytes(path.read_bytes().replace(b"n003", "Zürich".encode("latin-1")))
    assert re.search(r"features.csv: line 5: not UTF-8", refusal(alice))


@pytest.mark.parametrize("keep", [0, 3, 100, 0.5, -1])
def test_a_parquet_file_that_was_cut_off_is_named(alice, keep):
    pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    data = alice.parent / "data"
    whole = data / "features.parquet"
    parquet.write_table(csv.read_csv(data / FEATURES), whole)
    content = whole.read_bytes()
    whole.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    edit(alice, r"features\.csv", "features.parquet")
    assert refusal(alice).startswith(f"alice: {whole}: ")


def test_after_an_error_in_the_data_the_journal_is_private_and_the_same_command_starts_again(alice):
    good = (alice.parent / "data" / FEATURES).read_text()
    change(alice, FEATURES, r"^n003,", "n002,")
    refusal(alice)
    (alice.parent / "data" / FEATURES).write_text(good)
    done = CliRunner().invoke(cli, ["check", "--offline", "--config", str(alice)])
    assert done.exit_code == 0, done.output
    assert "journal      no run so far" in done.output
    for path in (alice.parent / "state").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
