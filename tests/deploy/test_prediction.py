"""Four processes fit and predict: the labels are those of the estimator for any order of the files."""

import csv
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from deploy.collaboration import edges_of, edit, made, names_of, on_a_free_port, table_of, write_data
from kcagc import KCAGC
from kcagc.federation.verify import Pins, verify_folder, verify_together
from kcagc.runtime.journal import Journal

PARTIES = ("alice", "bob", "carol")
ALL = 40
NEW = (0, 3, 4, 11, 17, 18, 26, 39)  # between those that were fitted, by their names
FITTED = tuple(node for node in range(ALL) if node not in NEW)


def together(*commands):
    """Run commands side by side to their ends, and give what each printed for scripts."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "kcagc", *map(str, command), "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for command in commands
    ]
    try:
        ended = [(*process.communicate(timeout=200), process.returncode) for process in running]
    finally:
        for process in running:
            process.kill()
    assert [code for _, _, code in ended] == [0] * len(ended), [said for _, said, _ in ended]
    return [json.loads(printed) for printed, _, _ in ended]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folders after a fit and a prediction, and what each command printed."""
    root = tmp_path_factory.mktemp("roles")
    configs = made(root, PARTIES, data=False)
    on_a_free_port(configs)
    for name, path in configs.items():
        edit(path, r"^# random_state = 0", "random_state = 0")
        if name == "bob":
            edit(path, r'^labels = "labels.csv"', 'labels = "labels.parquet"')
        if name in PARTIES:
            edit(path, r"^# (\[predict\]|features = |graph = \"data|id_column = )", r"\1")
            seed, data = PARTIES.index(name), path.parent / "data"
            write_data(data, seed=seed, count=ALL, keep=FITTED, shuffled=True)
            write_data(data, seed=seed, count=ALL, shuffled=name != "alice", stem="more-")
    fits = together(
        *(["coordinator" if name not in PARTIES else "party", "--config", path] for name, path in configs.items())
    )
    places = together(
        *(["predict", "--config", path, "--model", path.parent / "result" / "model.kcagc"] for path in configs.values())
    )
    return configs, dict(zip(configs, fits, strict=True)), dict(zip(configs, places, strict=True))


@pytest.fixture(scope="module")
def expected():
    """The labels of the fitted and of the new nodes, found in one process with new rows after the fitted ones."""
    order = [*FITTED, *NEW]
    one, two = np.array(edges_of(ALL)).T
    whole = sparse.coo_array((np.ones(len(one)), (one, two)), shape=(ALL, ALL)).tocsr()
    whole = (whole + whole.T)[order][:, order]
    tables = [table_of(seed, ALL)[order] for seed in range(3)]
    n = len(FITTED)
    model = KCAGC(n_clusters=3, psi=1, random_state=0)
    model.fit([table[:n] for table in tables], adjacency=sparse.csr_array(whole[:n][:, :n]))
    names = names_of(ALL)
    new = model.predict(tables, adjacency=sparse.csr_array(whole))
    called = [names[node] for node in order]
    return dict(zip(called, model.labels_.tolist(), strict=False)), dict(zip(called[n:], new.tolist(), strict=True))


def labels(path):
    if path.suffix == ".parquet":
        from pyarrow import parquet

        found = parquet.read_table(path).to_pydict()
        return dict(zip(found["id"], found["cluster"], strict=True))
    with path.open() as file:
        return {row["id"]: int(row["cluster"]) for row in csv.DictReader(file)}


@pytest.mark.parametrize("party", PARTIES)
def test_processes_find_the_labels_of_the_estimator_for_fitted_and_for_new_nodes(runs, expected, party):
    result = runs[0][party].parent / "result"
    file = "labels.parquet" if party == "bob" else "labels.csv"
    fitted, new = expected
    assert len(set(new.values())) > 1  # so that there is something to compare
    assert labels(result / file) == fitted
    assert labels(result / "prediction" / file) == new
    assert sorted(new) == [names_of(ALL)[node] for node in NEW]


def test_a_prediction_leaves_its_files_and_those_of_the_fit_stay(runs):
    for name, path in runs[0].items():
        result = path.parent / "result"
        labels = "labels.parquet" if name == "bob" else "labels.csv"
        mine = {labels, "clusters.json", "nodes.npz"} if name in PARTIES else set()
        always = {"ledger.jsonl", "run.json", "report.html", "audit.json", "audit.sig"}
        assert {one.name for one in result.iterdir()} == always | {"model.kcagc", "prediction"} | mine
        assert {one.name for one in (result / "prediction").iterdir()} == always | mine


@pytest.mark.parametrize("kind", ["fit", "predict"])
def test_printed_and_stored_summaries_agree_between_all_roles(runs, kind):
    configs, *printed = runs
    summaries = printed[kind == "predict"]
    folder = "result" if kind == "fit" else "result/prediction"
    for name, path in configs.items():
        assert json.loads((path.parent / folder / "run.json").read_text()) == summaries[name]
        assert summaries[name]["task"] == kind
        assert summaries[name]["bytes_sent"] > summaries[name]["messages_sent"] > 0
    assert len({str(one["parameters"]) for one in summaries.values()}) == 1
    assert len({str(one["roles"]) for one in summaries.values()}) == 1
    counted = {str((one["nodes"], one["cluster_sizes"])) for name, one in summaries.items() if name in PARTIES}
    assert len(counted) == 1
    if kind == "predict":
        fits = printed[0]
        assert {one["parameters"]["model"] for one in summaries.values()} == {one["session"] for one in fits.values()}


@pytest.mark.parametrize(("kind", "folder"), [("fit", "result"), ("predict", "result/prediction")])
def test_the_ledger_file_is_the_ledger_of_the_journal_and_nothing_secret_is_left_there(runs, kind, folder):
    for path in runs[0].values():
        journal = Journal(path.parent / "state" / f"{kind}.sqlite")
        try:
            kept = [entry.as_dict() for _, entry in journal.ledger()]
            assert journal.status == "finished"
            assert journal.fact("drawn") is None
            assert not journal.incoming()
            assert not list(journal.outgoing())
        finally:
            journal.close()
        lines = [json.loads(line) for line in (path.parent / folder / "ledger.jsonl").read_text().splitlines()]
        assert [{**entry, "shape": list(entry["shape"])} for entry in kept] == [
            {name: value for name, value in line.items() if name != "at"} for line in lines
        ]
        assert sorted(line["at"] for line in lines) == [line["at"] for line in lines]
        assert len(lines) > 5


def test_no_role_has_a_value_of_another_in_any_of_its_files(runs):
    """Neither a number of a table nor a key of another organisation lies in a folder that is not its own."""
    contents = {
        name: {file: file.read_bytes() for file in path.parent.rglob("*") if file.is_file()}
        for name, path in runs[0].items()
    }
    for name, files in contents.items():
        secrets = [file.read_bytes().splitlines()[1] for file in (runs[0][name].parent / "private").iterdir()]
        if name in PARTIES:
            table = (runs[0][name].parent / "data" / "features.csv").read_bytes()
            secrets += re.findall(rb"-?\d+\.\d{6,}", table)[:30]
        assert len(secrets) in (2, 32)
        for other in contents.keys() - {name}:
            assert not [file for file, content in contents[other].items() for one in secrets if one in content]
        assert files
    for file, content in contents["coordinator"].items():
        assert b"n001" not in content, file  # nor does the coordinator have the name of any node


def test_a_finished_run_with_changed_settings_is_an_error(runs):
    from click.testing import CliRunner

    from kcagc.cli.main import cli

    path = runs[0]["coordinator"]
    before = path.read_text()
    edit(path, "^psi = 1", "psi = 4")
    try:
        done = CliRunner().invoke(cli, ["coordinator", "--config", str(path), "--json"])
    finally:
        path.write_text(before)
    assert done.exception.exit_code == 12
    told = "the configuration changed since (filter: 'HalfFilter(psi=1)', now 'HalfFilter(psi=4)')"
    assert told in str(done.exception)


def test_the_audit_files_of_all_roles_pass_for_the_fit_and_the_prediction(runs):
    for folder in ("result", "result/prediction"):
        found = [verify_folder(path.parent / folder, Pins.of_config(path)) for path in runs[0].values()]
        together = verify_together(found)
        assert len(together) == len(PARTIES)  # each party and the coordinator have a receipt of the other
        assert all("agree" in one for one in together)
        assert {one.audit.task for one in found} == {"predict" if "prediction" in folder else "fit"}


def test_a_finished_prediction_returns_its_stored_summary(runs):
    from click.testing import CliRunner

    from kcagc.cli.main import cli

    path = runs[0]["coordinator"]
    model = path.parent / "result" / "model.kcagc"
    arguments = ["predict", "--config", str(path), "--model", str(model)]
    page = path.parent / "result" / "prediction" / "report.html"
    page.unlink()
    done = CliRunner().invoke(cli, [*arguments, "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == runs[2]["coordinator"]
    assert "this run has finished already" in done.stderr
    assert page.exists()  # as after a process that was killed before it wrote it
