"""`kcagc report`: the page of a folder, with and without known labels, and its errors."""

import json
import shutil

import pytest
from click.testing import CliRunner

from deploy.collaboration import names_of
from kcagc import metrics
from kcagc.cli.main import cli
from report.folders import run_in


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    return run_in(tmp_path_factory.mktemp("roles"))


@pytest.fixture
def folder(ended, tmp_path):
    """What alice has, to be changed by a test."""
    return shutil.copytree(ended.tasks["alice"].files.folder, tmp_path / "result")


def report(*arguments):
    return CliRunner().invoke(cli, ["report", *map(str, arguments)])


def known(path, rows, header="id,label"):
    path.write_text("\n".join([header, *(f"{one},{two}" for one, two in rows)]) + "\n")
    return path


CLASSES = [(name, "abc"[number % 3]) for number, name in enumerate(names_of())]


def test_the_same_folder_gives_the_same_page(folder):
    before = (folder / "report.html").read_bytes()
    (folder / "report.html").unlink()
    done = report(folder)
    assert (done.exit_code, done.stdout.strip()) == (0, str(folder / "report.html"))
    assert (folder / "report.html").read_bytes() == before


def test_the_comparison_with_known_labels_is_stored_and_shown_later(ended, folder, tmp_path):
    assert report(folder, "--labels", known(tmp_path / "known.csv", reversed(CLASSES))).exit_code == 0
    told = json.loads((folder / "quality.json").read_text())
    labels = ended.results["alice"].labels
    assert told["measures"] == metrics.table([one for _, one in CLASSES], labels)
    assert [sum(row) for row in told["counts"]] == [8, 8, 8]
    page = (folder / "report.html").read_text()
    assert f"{100 * told['measures']['accuracy']:.1f} %" in page
    assert "Nodes by known class and cluster" in page
    report(folder)
    assert (folder / "report.html").read_text() == page


def test_nodes_without_a_known_label_do_not_count_and_columns_may_have_other_names(folder, tmp_path):
    path = known(tmp_path / "some.csv", [*CLASSES[:10], ("stranger", "z")], "node,class")
    assert report(folder, "--labels", path, "--id-column", "node", "--label-column", "class").exit_code == 0
    told = json.loads((folder / "quality.json").read_text())
    assert (told["nodes"], told["classes"]) == (10, ["a", "b", "c"])


def test_labels_without_confidences_as_earlier_versions_wrote_them_can_be_compared(folder, tmp_path):
    lines = (folder / "labels.csv").read_text().splitlines()
    (folder / "labels.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")
    assert report(folder, "--labels", known(tmp_path / "known.csv", CLASSES)).exit_code == 0


@pytest.mark.parametrize(
    ("rows", "header", "said"),
    [
        ([("x", "a")], "id,label", "has no id of the 24 nodes"),
        (CLASSES, "id,colour", "there is no column 'label'"),
        ([*CLASSES, CLASSES[0]], "id,label", "is already in line 2"),
    ],
)
def test_known_labels_that_cannot_be_used_are_refused_by_name(folder, tmp_path, rows, header, said):
    done = report(folder, "--labels", known(tmp_path / "known.csv", rows, header))
    assert said in str(done.exception)
    assert "known.csv" in str(done.exception)
    assert not (folder / "quality.json").exists()


def test_a_coordinator_has_nothing_to_compare(ended, tmp_path):
    done = report(ended.tasks["coordinator"].files.folder, "--labels", known(tmp_path / "known.csv", CLASSES))
    assert "a coordinator receives none" in str(done.exception)


def test_the_error_about_a_folder_without_a_run_names_the_missing_file(tmp_path):
    assert "has no run.json" in str(report(tmp_path).exception)
    assert "has no run.json" in str(report(tmp_path / "nowhere").exception)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("run.json", "{", "run.json: is not a JSON file"),
        ("run.json", "[]", "run.json: must hold one JSON object"),
        ("run.json", '{"format": "else"}', "is not the summary of a run"),
        ("clusters.json", "nonsense", "clusters.json: is not a JSON file"),
        ("clusters.json", '{"format": "kcagc clusters 1"}', "clusters.json: has the format 'kcagc clusters 1'"),
        ("ledger.jsonl", "{}\n", "ledger.jsonl: line 1"),
    ],
)
def test_a_damaged_file_is_named(folder, file, content, said):
    before = (folder / "report.html").read_bytes()
    (folder / file).write_text(content)
    assert said in str(report(folder).exception)
    assert (folder / "report.html").read_bytes() == before
