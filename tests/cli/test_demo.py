"""`kcagc demo`: four processes find what no party finds alone, and none of them outlives the command."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kcagc import KCAGC
from kcagc.cli import demo as module
from kcagc.cli import terminal
from kcagc.cli.main import cli
from kcagc.data import TablePreprocessor
from kcagc.datasets import load
from kcagc.deploy.trial import Processes
from kcagc.disclosure.texts import TEXTS
from kcagc.errors import KcagcError, ParameterError

PATIENCE = 120.0  # seconds, on a machine that does many other things
ROLES = ["bank", "telecom", "shop", "coordinator"]


def start(*arguments, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "kcagc", "demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "100", **environment},
    )


@pytest.fixture(scope="module")
def json_result(tmp_path_factory):
    """The JSON output of the demo and its folder, with a narrow ASCII terminal."""
    folder = tmp_path_factory.mktemp("demo") / "roles"
    plain = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C", "COLUMNS": "60"}
    process = start("--json", "--folder", str(folder), **plain)
    printed, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, "")
    return json.loads(printed), folder


@pytest.fixture(scope="module")
def text_result(tmp_path_factory):
    """The text output of the demo, its log, and its temporary folder."""
    temporary = tmp_path_factory.mktemp("temporary")
    process = start(TMPDIR=str(temporary))
    printed, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    return printed, errors, temporary


def test_together_is_better_than_alone(json_result):
    rows = json_result[0]["clusterings"]
    assert [row["who"] for row in rows] == ["bank", "telecom", "shop", "together", "all pooled"]
    assert rows[3]["accuracy"] > 0.85
    assert rows[4]["accuracy"] > 0.9
    assert max(row["accuracy"] for row in rows[:3]) < 0.8
    assert abs(rows[3]["accuracy"] - rows[4]["accuracy"]) < 0.01
    assert {sum(row["cluster_sizes"]) for row in rows} == {600}


def test_the_reports_use_words_and_units_that_each_organisation_knows(json_result):
    for party, frame in load("demo").frames().items():
        clusters = (json_result[1] / party / "result" / "clusters.json").read_text()
        assert set(re.findall(r"[\w :]+ \([\w/ ]+\)", clusters)) <= set(frame.columns)
        assert sum(name in clusters for name in frame.columns) > 5


def test_the_processes_find_what_the_estimator_finds(json_result):
    data = load("demo")
    same_rule = TablePreprocessor(default={"scale": "standard"})
    model = KCAGC(n_clusters=5, transformers=same_rule, random_state=0)
    model.fit(list(data.frames().values()), adjacency=data.adjacency)
    assert json_result[0]["clusterings"][3]["cluster_sizes"] == np.bincount(model.labels_).tolist()
    for party in ROLES[:-1]:
        lines = (json_result[1] / party / "result" / "labels.csv").read_text().splitlines()
        assert lines[0] == "id,cluster,confidence"
        assert [int(line.split(",")[1]) for line in lines[1:]] == model.labels_.tolist()
        assert all(0 <= float(line.split(",")[2]) <= 1 for line in lines[1:])


def test_the_json_output_has_disclosures_and_paths(json_result):
    result, folder = json_result
    assert result["folder"] == str(folder)
    assert {path.name for path in folder.iterdir()} == set(ROLES)
    assert list(result["disclosed"]["bytes_sent"]) == ROLES
    assert all(sent > 0 for sent in result["disclosed"]["bytes_sent"].values())
    learned = {(row["receivers"], row["text"]) for row in result["disclosed"]["learned"]}
    assert {receivers for receivers, _ in learned} == {"every party", "coordinator"}
    for kind in ("output/labels", "message/answer"):
        assert ("every party", TEXTS[kind].learns) in learned
    for kind in ("message/padded", "opened/rows", "opened/comparisons.blinded"):
        assert ("coordinator", TEXTS[kind].learns) in learned


def test_the_text_output_has_the_same_results(json_result, text_result):
    printed, errors, temporary = text_result
    (folder,) = temporary.iterdir()  # a new folder without --folder
    assert str(folder) in printed
    assert "600 people, 1,800 links between them, 5 hidden groups" in printed
    for row in json_result[0]["clusterings"]:
        assert f"{100 * row['accuracy']:.1f} %" in printed
        assert " ".join(map(str, sorted(row["cluster_sizes"], reverse=True))) in printed
    for who in ("bank alone", "telecom alone", "shop alone", "together", "all pooled", "Disclosures"):
        assert who in printed
    for name in ROLES:
        assert f" {name}: " in errors  # as lines, without a terminal
    assert "Traceback" not in errors


def test_the_demo_fits_a_screen(text_result):
    lines = text_result[0].splitlines()
    assert len(lines) < 45
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_narrow_or_plain_terminal_loses_no_names_and_no_figures(json_result, monkeypatch, columns, encoding):
    result, _ = json_result
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal.replace_missing_characters()
    module._show(result["clusterings"], result["disclosed"], Path("/here"), "/here/report.html", 7.0)
    stream.flush()
    printed = stream.buffer.getvalue().decode(encoding)
    figures = [f"{100 * row['accuracy']:.1f} %" for row in result["clusterings"]]
    for text in ("telecom alone", *figures, "every party", "coordinator", "/here"):
        assert text in printed
    assert max(map(len, printed.splitlines())) <= columns
    if columns == 100:
        assert ("####" if encoding == "ascii" else "████") in printed


def test_an_existing_folder_is_refused_before_any_process_starts(json_result):
    before = sorted(json_result[1].rglob("*"))
    done = CliRunner().invoke(cli, ["demo", "--folder", str(json_result[1])])
    assert isinstance(done.exception, ParameterError)
    assert str(done.exception) == f"{json_result[1] / 'bank'}: exists already; nothing was written"
    assert done.stdout == ""
    assert sorted(json_result[1].rglob("*")) == before


# Failures.


def children(pid):
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def alive(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def until(done, what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, what
        time.sleep(0.02)


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this system does not list processes")


@pytest.fixture
def running(tmp_path):
    """A demo whose four processes have started."""
    process = start("--folder", str(tmp_path / "roles"))
    until(lambda: len(children(process.pid)) == 4, "four processes to start")
    yield process, children(process.pid)
    process.kill()
    process.communicate()


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all_processes_and_prints_one_line(running, number):
    process, pids = running
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert errors.endswith("kcagc: interrupted\n")
    assert "Traceback" not in errors
    assert not [pid for pid in pids if alive(pid)]


@needs_proc
def test_a_killed_process_is_named_and_all_others_are_stopped(running):
    process, pids = running
    os.kill(pids[1], signal.SIGKILL)
    printed, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "kcagc: telecom ended with exit code -9" in errors
    assert "together" not in printed
    assert not [pid for pid in pids if alive(pid)]


def test_the_error_repeats_the_last_log_lines_of_a_failed_process(tmp_path):
    processes = Processes()
    processes.start("telecom", ["party", "--config", str(tmp_path / "nowhere.toml")])
    try:
        with pytest.raises(KcagcError) as caught:
            list(processes.records())
    finally:
        processes.stop()
    assert str(caught.value) == (
        f"telecom ended with exit code 2:\nkcagc: {tmp_path / 'nowhere.toml'}: No such file or directory"
    )
