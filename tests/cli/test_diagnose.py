"""`kcagc diagnose`, on a dataset and on one party's own files."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from deploy.collaboration import edit, made, names_of, task
from kcagc.analysis import diagnose_party
from kcagc.analysis.diagnosis import settings_with_labels
from kcagc.cli.main import cli
from kcagc.data import write_labels
from kcagc.errors import DataError, KcagcError, ParameterError
from kcagc.graph.ids import NodeIds

CLASSES = np.arange(24) % 3  # how the tables of the test collaboration are made


def run(*arguments, **environment):
    return CliRunner().invoke(cli, ["diagnose", *map(str, arguments)], catch_exceptions=False, env=environment)


def said(*arguments, **environment):
    done = run(*arguments, "--json", **environment)
    assert done.exit_code == 0
    return json.loads(done.stdout)


@pytest.fixture
def alice(tmp_path):
    """The configuration of a party that has its data, and has taken part in no run."""
    return made(tmp_path)["alice"]


def left(config, ids, labels, name="labels.csv"):
    """Leave the labels of a run where a party's configuration has them."""
    folder = config.parent / "result"
    folder.mkdir(exist_ok=True)
    write_labels(folder / name, NodeIds.of(ids, where="ids"), labels)
    return folder / name


def test_a_dataset_is_diagnosed_in_a_table_and_in_words():
    done = subprocess.run(
        [sys.executable, "-m", "kcagc", "diagnose", "demo"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100", "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("This is a research tool")
    assert '"no guarantee"' in done.stdout
    assert "demo, compared with known classes" in done.stdout
    assert "party-3, own" in done.stdout
    assert "joint, target" in done.stdout
    assert "- Theorem 1 gives no guarantee" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "?" not in done.stdout  # every letter is one that any terminal has


def test_options_are_those_of_a_simulation():
    found = said("demo", "--parties", 2, "--n-local-clusters", "1k", "--psi", 1)
    assert [len(party["own"]["sizes"]) for party in found["parties"]] == [5, 5]
    assert found["joint"]["sizes"] == [120] * 5
    other = said("demo", "--parties", 2, "--n-local-clusters", "1k", "--psi", 4)
    assert other["joint"]["norm"] < found["joint"]["norm"]  # more smoothing, less spread
    # The paper's rows are singular vectors, which have length 1.
    assert all(party["target"]["norm"] <= 1 for party in said("demo", "--paper")["parties"])
    assert all(party["target"]["norm"] > 1 for party in said("demo", "--paper", "--scaling", "US")["parties"])


def test_the_clusters_that_are_found_can_be_the_target():
    found, known = said("demo", "--found"), said("demo")
    assert (found["compared_with"], known["compared_with"]) == ("found clusters", "known classes")
    assert found["joint"]["c"] > known["joint"]["c"]  # clusters lie around their means, classes only mostly


def test_the_constants_of_the_theorem_can_be_set():
    assert said("demo", "--enough", 0)["bound"]["unmet"][0].startswith("the restricted proximity condition")
    small, large = (said("demo", "--order-constant", value)["restricted"] for value in (0, 1))
    assert small["violate_a"] == small["violate_b"] == large["violate_b"] <= large["violate_a"]


def test_before_any_run_a_party_is_compared_with_its_own_clusters(alice):
    found = said("--config", alice)
    assert (found["name"], found["compared_with"], found["target"]) == ("alice", "own clusters", None)
    assert found["own"]["sizes"] == [8, 8, 8]  # clusters of fewer than five nodes are joined
    assert "alice, own" in run("--config", alice).stdout


def test_after_a_run_a_party_is_compared_with_the_labels_of_the_run(alice):
    shuffled = np.random.default_rng(0).permutation(24)
    path = left(alice, names_of(), CLASSES)
    found = said("--config", alice)
    own = task(alice)
    direct = diagnose_party("alice", own.data, settings_with_labels(own.config.document.session, 3).resolve(3), CLASSES)
    assert found["target"] == json.loads(json.dumps(direct.target.as_dict()))
    assert found["target"]["sizes"] == [8, 8, 8]
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *(rows[row] for row in shuffled)]) + "\n")
    assert said("--config", alice) == found


def test_labels_may_be_in_another_folder_and_in_parquet(alice, tmp_path):
    pytest.importorskip("pyarrow")
    left(alice, names_of(), np.zeros(24, dtype=int))
    write_labels(tmp_path / "mine.parquet", NodeIds.of(names_of(), where="ids"), CLASSES)
    assert said("--config", alice, "--labels", tmp_path / "mine.parquet")["target"]["sizes"] == [8, 8, 8]


def test_nodes_without_ids_are_called_by_their_numbers(alice, tmp_path):
    table = alice.parent / "data" / "features.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join(line.split(",", 1)[1] for line in lines) + "\n")
    edges = alice.parent / "data" / "edges.csv"
    edges.write_text(re.sub("n0*(?=[0-9])", "", edges.read_text()))
    edit(alice, r"^id_column = .*$", "")
    write_labels(tmp_path / "labels.csv", None, CLASSES)
    assert said("--config", alice, "--labels", tmp_path / "labels.csv")["target"]["sizes"] == [8, 8, 8]


def test_the_environment_names_a_configuration_unless_a_dataset_is_asked_for(alice):
    assert said(KCAGC_CONFIG=str(alice))["name"] == "alice"
    assert said("demo", KCAGC_CONFIG=str(alice))["dataset"] == "demo"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give either a dataset"),
        (["demo", "--config", "x.toml"], "give either a dataset"),
        (["demo", "--labels", "x.csv"], "--labels: only with --config"),
        (["--config", "x.toml", "--psi", "0"], "--psi: only for a dataset"),
        (["--config", "x.toml", "--found"], "--found: only for a dataset"),
        (["demo", "--parties", "1"], "--parties"),
    ],
)
def test_options_that_exclude_each_other_are_usage_errors(arguments, words):
    done = run(*arguments)
    assert done.exit_code == 2
    assert words in done.output


def refused(*arguments):
    with pytest.raises(KcagcError) as caught:
        run(*arguments)
    return caught.value


def test_a_missing_dataset_or_file_is_named(alice, tmp_path):
    assert "'coral'" in str(refused("coral"))
    error = refused("--config", alice, "--labels", tmp_path / "gone.csv")
    assert isinstance(error, DataError)
    assert str(error) == f"alice: {tmp_path / 'gone.csv'}: there is no such file"


def test_a_coordinator_has_nothing_to_diagnose(alice):
    error = refused("--config", alice.parent.parent / "coordinator" / "kcagc.toml")
    assert isinstance(error, ParameterError)
    assert "is the configuration of a coordinator, which has no data" in str(error)


@pytest.mark.parametrize(
    ("ids", "labels", "words"),
    [
        (names_of()[:-1], CLASSES[:-1], "1 of the graph's ids are missing ('n023'); the file may belong to"),
        ([*names_of()[:-1], "zed"], CLASSES, "1 are not among the graph's ids ('zed')"),
    ],
)
def test_labels_of_other_nodes_are_refused(alice, ids, labels, words):
    path = left(alice, ids, labels)
    error = str(refused("--config", alice))
    assert error.startswith(f"alice: {path}: ids do not match")
    assert words in error


def test_labels_that_are_no_whole_numbers_are_refused_with_their_line(alice):
    path = left(alice, names_of(), CLASSES)
    path.write_text(path.read_text().replace("n002,2", "n002,2.5"))
    assert f"{path}: line 4, column 'cluster': 2.5 is not a whole number" in str(refused("--config", alice))


@pytest.mark.parametrize("method", ["basic", "joint"])
def test_a_method_without_local_clusters_is_refused(alice, method):
    edit(alice, r"^# method = .*$", f'method = "{method}"')
    assert f'"{method}" has no local clusters' in str(refused("--config", alice))
