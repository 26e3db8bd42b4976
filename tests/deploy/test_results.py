"""The result files: complete or absent, and without secrets."""

import csv
import json
import os
import stat
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from deploy.collaboration import made, names_of, table_of, task
from kcagc.deploy.results import ResultFiles, SavedModel, write_results
from kcagc.disclosure import Ledger, Policy
from kcagc.protocol.aggregator import AggregatorResult
from kcagc.protocol.predict import PredictResult
from kcagc.simulation import simulate_fit


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A fit of all parties in one process: tasks, results, and what was disclosed with the moment of each."""
    configs = made(tmp_path_factory.mktemp("roles"))
    tasks = {name: task(path) for name, path in configs.items()}
    data = {name: one.data for name, one in tasks.items() if one.data is not None}
    ledger = Ledger()
    results = simulate_fit(
        tasks["alice"].agreement.parameters,
        data,
        policy=Policy(),
        seeds=dict.fromkeys(data, 0),
        ledger=ledger,
    )
    disclosed = [(1_000_000_000 + number / 8, entry) for number, entry in enumerate(ledger)]
    return tasks, results, disclosed


def left(run, folder, labels="labels.csv", name="alice"):
    tasks, results, disclosed = run
    write_results(ResultFiles.of(folder, labels), tasks[name], results[name], disclosed)
    return folder


def test_a_fit_leaves_labels_model_ledger_and_summary(run, tmp_path):
    folder = left(run, tmp_path / "deep" / "result")
    assert {path.name for path in folder.iterdir()} == {"labels.csv", "model.kcagc", "ledger.jsonl", "run.json"}
    with (folder / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == names_of()
    assert [int(row["cluster"]) for row in rows] == run[1]["alice"].labels.tolist()
    assert SavedModel.load(folder / "model.kcagc", "alice").share == run[1]["alice"].model
    for name in ("model.kcagc", "ledger.jsonl", "run.json"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


def test_labels_in_parquet_are_those_in_csv(run, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    found = parquet.read_table(left(run, tmp_path, "labels.parquet") / "labels.parquet").to_pydict()
    assert (found["id"], found["cluster"]) == (names_of(), run[1]["alice"].labels.tolist())
    with (left(run, tmp_path / "csv") / "labels.csv").open() as file:
        assert [float(row["confidence"]) for row in csv.DictReader(file)] == found["confidence"]
    assert json.loads((tmp_path / "run.json").read_text())["files"]["labels"] == "labels.parquet"


def test_the_ledger_file_has_every_disclosure_with_its_time(run, tmp_path):
    lines = (left(run, tmp_path) / "ledger.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    assert [entry.pop("at") for entry in entries][:2] == [
        "2001-09-09T01:46:40.000+00:00",
        "2001-09-09T01:46:40.125+00:00",
    ]
    assert entries == [json.loads(json.dumps(entry.as_dict())) for _, entry in run[2]]


def test_the_summary_counts_what_happened(run, tmp_path):
    tasks, results, disclosed = run
    summary = json.loads((left(run, tmp_path) / "run.json").read_text())
    sent = [entry for _, entry in disclosed if entry.sender == "alice" and entry.kind.startswith("message/")]
    assert (summary["name"], summary["role"], summary["task"]) == ("alice", "party", "fit")
    assert (summary["messages_sent"], summary["bytes_sent"]) == (len(sent), sum(entry.bytes for entry in sent))
    assert (summary["nodes"], sum(summary["cluster_sizes"])) == (24, 24)
    assert summary["session"] == results["alice"].model.session
    assert summary["rounds"] == sum(one.rounds for one in results["alice"].merges)
    assert summary["parameters"]["n_clusters"] == 3
    assert [one["name"] for one in summary["roles"]] == list(tasks)
    assert summary["started"] == "2001-09-09T01:46:40+00:00"


@pytest.mark.parametrize("file", ["run.json", "ledger.jsonl"])
def test_summary_and_ledger_hold_no_secret_no_feature_and_no_node(run, tmp_path, file):
    tasks, results, _ = run
    text = (left(run, tmp_path) / file).read_text()
    assert tasks["alice"].identity.public.hex() in text or file == "ledger.jsonl"
    for name in ("alice", "bob", "carol"):
        pem = tasks[name].config.file("private/identity.pem").read_text().splitlines()[1]
        assert pem not in text
    values = [*table_of(0).ravel(), *np.ravel(results["alice"].model.centers)]
    assert not [value for value in values if f"{abs(value):.4f}"[:6] in text]
    assert not [name for name in names_of() if name in text]
    assert str(results["alice"].labels.tolist())[1:-1] not in text


def test_a_prediction_leaves_the_labels_of_new_nodes_and_no_model(run, tmp_path):
    tasks, _, disclosed = run
    result = PredictResult(labels=np.array([2, 0, 1]), rounds=1, sums=9)
    fit = tasks["alice"]
    agreement = fit.config.agreement(msgspec.structs.replace(fit.agreement.parameters, task="predict", model="00"))
    run = SimpleNamespace(
        config=fit.config,
        agreement=agreement,
        graph=fit.graph,
        new_rows=np.array([20, 3, 7]),
        input=None,
        kept=None,
        engine_choice=None,
        confidence=lambda _: None,
    )
    write_results(ResultFiles.of(tmp_path, "labels.csv"), run, result, disclosed)
    assert {path.name for path in tmp_path.iterdir()} == {"labels.csv", "ledger.jsonl", "run.json"}
    assert (tmp_path / "labels.csv").read_text() == "id,cluster\nn003,0\nn007,1\nn020,2\n"
    assert json.loads((tmp_path / "run.json").read_text())["cluster_sizes"] == [1, 1, 1]


def test_a_coordinator_leaves_no_labels_and_its_model_has_none(run, tmp_path):
    tasks, _, disclosed = run
    result = AggregatorResult(session=b"\x02" * 16, sums=5)
    write_results(ResultFiles.of(tmp_path, ""), tasks["coordinator"], result, disclosed)
    assert {path.name for path in tmp_path.iterdir()} == {"model.kcagc", "ledger.jsonl", "run.json"}
    assert SavedModel.load(tmp_path / "model.kcagc", "coordinator").share is None
    assert "cluster_sizes" not in json.loads((tmp_path / "run.json").read_text())


@pytest.mark.parametrize("survivors", range(5))
def test_with_a_full_disk_each_file_is_complete_or_old_and_the_summary_comes_last(
    run, tmp_path, monkeypatch, survivors
):
    """Old results are there before; the disk takes some of the new files and no more."""
    names = ["labels.csv", "model.kcagc", "ledger.jsonl", "run.json"]
    for name in names:
        (tmp_path / name).write_text("old")
    real, written = os.fsync, []

    def fsync(handle):
        if stat.S_ISREG(os.fstat(handle).st_mode):
            written.append(handle)
            if len(written) > survivors:
                raise OSError(28, "No space left on device")
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        if survivors < len(names):
            with pytest.raises(OSError, match="No space left"):
                left(run, tmp_path)
        else:
            left(run, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(names)  # and nothing half written
    new = [name for name in names if (tmp_path / name).read_bytes() != b"old"]
    assert len(new) == survivors
    assert ("run.json" in new) == (survivors == len(names))
    whole = left(run, tmp_path / "whole")
    for name in set(new) - {"run.json"}:
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()
