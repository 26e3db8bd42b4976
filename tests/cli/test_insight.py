"""`kcagc explain` and `kcagc name`, as a user types them, with the mistakes that users make."""

import json
import shutil

import pytest
from click.testing import CliRunner

from kcagc.cli.main import cli
from kcagc.errors import KcagcError
from report.folders import run_in


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_in(tmp_path_factory.mktemp("three"))


@pytest.fixture
def party(run, tmp_path, monkeypatch):
    """The folder of a party, which is the working directory."""
    monkeypatch.delenv("KCAGC_CONFIG", raising=False)
    folder = shutil.copytree(run.configs["alice"].parent, tmp_path / "alice")
    monkeypatch.chdir(folder)
    return folder


def kcagc(*arguments):
    done = CliRunner().invoke(cli, [str(one) for one in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def failure(*arguments):
    with pytest.raises(KcagcError) as caught:
        CliRunner().invoke(cli, [str(one) for one in arguments], catch_exceptions=False)
    return str(caught.value)


def test_explain_finds_the_run_by_the_configuration_the_folder_or_the_working_directory(party, tmp_path, monkeypatch):
    shown = kcagc("explain", "n004")
    assert shown.startswith("n004 is in cluster ")
    assert "By the columns of alice alone" in shown
    assert kcagc("explain", "n004", "--config", party / "kcagc.toml") == shown
    assert kcagc("explain", "n004", "--result", party / "result") == shown
    monkeypatch.chdir(party / "result")
    assert kcagc("explain", "n004") == shown
    monkeypatch.chdir(tmp_path)
    assert "Name the party's configuration with --config, or its result folder with --result" in failure(
        "explain", "n004"
    )
    assert "has no run.json" in failure("explain", "n004", "--result", tmp_path)


def test_explain_agrees_with_the_labels(party):
    lines = (party / "result" / "labels.csv").read_text().splitlines()[1:]
    for line in lines[::5]:
        node, cluster, confidence = line.split(",")
        found = json.loads(kcagc("explain", node, "--json"))
        assert (found["node"], str(found["cluster"])) == (node, cluster)
        assert found["confidence"] == pytest.approx(float(confidence), abs=2e-4)
        assert found["sentences"]


def test_an_unknown_id_names_similar_ones(party):
    assert "no node has the id 'n04'" in failure("explain", "n04")
    assert "Similar ids" in failure("explain", "N004")


def test_a_coordinator_cannot_explain_and_has_nothing_to_name(run):
    folder = run.tasks["coordinator"].files.folder
    assert "coordinator, which knows no nodes" in failure("explain", "n004", "--result", folder)
    assert "a coordinator receives no labels" in failure("name", "--result", folder)


def test_a_name_is_kept_shown_and_removed(party):
    kcagc("name", 1, "Night shift")
    assert "1  Night shift (" in kcagc("name")
    assert [one["name"] for one in json.loads(kcagc("name", "--json"))] == ["", "Night shift", ""]
    assert "Night shift" in (party / "result" / "report.html").read_text()
    assert "(Night shift)" in "".join(kcagc("explain", f"n{number:03}") for number in range(3))
    kcagc("report", party / "result")
    assert "Night shift" in (party / "result" / "report.html").read_text()
    kcagc("name", 1, "")
    assert "Night shift" not in kcagc("name") + (party / "result" / "report.html").read_text()


def test_mistakes_in_names_are_explained(party):
    assert "this run has the clusters 0 to 2" in failure("name", 3, "x")
    assert 'kcagc name 1 "Night shift"' in failure("name", 1)
    done = CliRunner().invoke(cli, ["name", "Night shift", "1"])
    assert done.exit_code == 2
    assert "not a valid integer" in done.output


def test_the_explanation_of_a_party_has_no_column_of_another(run):
    """The tables of the parties have the same names of columns, so their values are compared."""
    from deploy.collaboration import table_of

    found = json.loads(kcagc("explain", "n004", "--json", "--result", run.tasks["alice"].files.folder))
    own, others = table_of(0)[4], [table_of(seed)[4] for seed in (1, 2)]
    assert found["reasons"]
    for reason in found["reasons"]:
        assert any(reason["value"] == pytest.approx(value, rel=1e-6) for value in own)
        assert not any(reason["value"] == pytest.approx(value, rel=1e-6) for other in others for value in other)
