"""Names of clusters: kept beside the results, shown everywhere, and never lost by a new report."""

import csv
import json
import shutil
import stat

import pytest

from kcagc.errors import DataError, ParameterError
from kcagc.report.folder import NODES, RunFolder, names_in, nodes_in, read_summary
from kcagc.report.insights.quality import compare_with_known
from kcagc.report.names import NAMES, ClusterNames, add_names
from kcagc.report.page import rename, write_page
from report.folders import as_prediction
from report.reading import read


@pytest.fixture
def folder(run, tmp_path):
    return shutil.copytree(run.tasks["alice"].files.folder, tmp_path / "result")


def named(folder, cluster, text):
    summary = read_summary(folder)
    names = names_in(folder, summary).renamed(cluster, text, n_clusters=3)
    rename(folder, summary, names)
    return names


def labels_of(folder):
    with (folder / "labels.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_name_is_on_the_page_in_the_labels_and_in_explanations(folder):
    before = labels_of(folder)
    named(folder, 1, "Night shift")
    text = read((folder / "report.html").read_text()).text
    assert "Cluster 1 · Night shift" in text
    after = labels_of(folder)
    assert [{key: row[key] for key in ("id", "cluster", "confidence")} for row in after] == before
    assert {(row["cluster"], row["name"]) for row in after} == {("0", ""), ("1", "Night shift"), ("2", "")}
    assert stat.S_IMODE((folder / "labels.csv").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / NAMES).stat().st_mode) == 0o600


def test_a_new_report_and_a_comparison_with_classes_keep_the_names(folder, tmp_path):
    named(folder, 1, "Night shift")
    known = tmp_path / "known.csv"
    known.write_text("id,label\n" + "".join(f"n{number:03},class {number % 3}\n" for number in range(24)))
    quality = compare_with_known(folder, known)
    assert quality.nodes == 24
    assert "Cluster 1 · Night shift" in read(write_page(folder).read_text()).text
    assert names_in(folder, read_summary(folder)).of(1) == "Night shift"


def test_a_name_can_be_changed_and_removed_and_leaves_the_labels_as_they_were(folder):
    before = (folder / "labels.csv").read_bytes()
    named(folder, 1, "Night shift")
    named(folder, 1, "  Early \n birds ")
    assert {row["name"] for row in labels_of(folder)} == {"", "Early birds"}
    named(folder, 1, "")
    assert (folder / "labels.csv").read_bytes() == before


@pytest.mark.parametrize("cluster", [-1, 3, 10**9])
def test_only_clusters_of_the_run_have_names(cluster):
    with pytest.raises(ParameterError, match=f"there is no cluster {cluster}; this run has the clusters 0 to 2"):
        ClusterNames().renamed(cluster, "x", n_clusters=3)


@pytest.mark.parametrize("name", ["x" * 61, "a\x1b[2Jb", "\u202egnp"])
def test_a_name_cannot_control_a_terminal_or_fill_a_page(name):
    with pytest.raises(ParameterError, match="cannot name a cluster"):
        ClusterNames().renamed(0, name, n_clusters=3)


@pytest.mark.parametrize("name", ["</script><b>", '"quoted", with, commas', "=1+1", "Café – Zürich 北"])
def test_any_printable_name_comes_back_from_the_labels(folder, name):
    named(folder, 2, name)
    assert {row["name"] for row in labels_of(folder)} == {"", name}
    html = read((folder / "report.html").read_text())
    assert f"Cluster 2 · {name}" in html.text
    assert not list(html.every("b"))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"format": "other", "names": {}}',
        '{"format": "kcagc names 1"}',
        '{"format": "kcagc names 1", "names": {"x": "a"}}',
        '{"format": "kcagc names 1", "names": {"9": "a"}}',
        '{"format": "kcagc names 1", "names": {"1": 5}}',
        '{"format": "kcagc names 1", "names": ["a"]}',
    ],
)
def test_a_file_of_names_that_was_edited_wrongly_is_an_error_that_names_it(folder, text):
    (folder / NAMES).write_text(text)
    with pytest.raises(DataError, match=r"names\.json: "):
        RunFolder.read(folder)


def test_names_are_added_to_a_parquet_file_of_labels(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    path = tmp_path / "labels.parquet"
    parquet.write_table(pa.table({"id": ["a", "b"], "cluster": [0, 1]}), path)
    add_names(path, ClusterNames({1: "Night"}))
    add_names(path, ClusterNames({1: "Day"}))
    assert parquet.read_table(path).to_pydict() == {"id": ["a", "b"], "cluster": [0, 1], "name": ["", "Day"]}
    add_names(path, ClusterNames())
    assert parquet.read_table(path).column_names == ["id", "cluster"]


def test_a_folder_without_nodes_explains_why(run, folder, tmp_path):
    summary = read_summary(folder)
    (folder / NODES).unlink()
    with pytest.raises(ParameterError, match=r"has no nodes\.npz.*--new-session"):
        nodes_in(folder, summary)
    with pytest.raises(ParameterError, match="coordinator, which knows no nodes"):
        nodes_in(tmp_path, {"role": "coordinator"})
    with pytest.raises(ParameterError, match="result of a sweep"):
        nodes_in(tmp_path, {"role": "party"})
    assert "Find a node" not in read(write_page(folder).read_text()).text


def test_a_new_session_starts_without_the_names_of_the_last_one(run, folder):
    from kcagc.deploy.results import ResultFiles, keep_earlier_results

    named(folder, 1, "Night shift")
    keep_earlier_results(ResultFiles.of(folder, "labels.csv"))
    (earlier,) = (folder / "earlier").iterdir()
    assert json.loads((earlier / NAMES).read_text())["names"] == {"1": "Night shift"}
    assert not [path.name for path in folder.iterdir() if path.is_file()]


def test_a_prediction_shows_the_names_of_its_own_fit_only(run, folder):
    named(folder, 1, "Night shift")
    fit = read_summary(folder)
    predicted = as_prediction(run, folder / "prediction")
    summary = read_summary(predicted)
    assert names_in(predicted, summary).of(1) == ""
    summary["parameters"]["model"] = fit["session"]
    assert names_in(predicted, summary).of(1) == "Night shift"
    assert names_in(predicted, {**summary, "task": "fit"}).of(1) == ""
