"""The joint method in real processes: fit, resume, predict; and in what `kcagc init` and `kcagc check` say about it."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse

from deploy.collaboration import edges_of, edit, made, names_of, on_a_free_port, table_of, write_data
from kcagc import KCAGC
from kcagc.cli.main import cli
from kcagc.deploy.config import Config
from kcagc.deploy.results import SavedModel
from kcagc.errors import ParameterError
from kcagc.protocol.messages import restore

PARTIES = ("alice", "bob", "carol")
ALL, FITTED = 60, 48


def settings(configs, **chosen):
    for path in configs.values():
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in chosen.items())
        edit(path, r"^\[session\]\n", f"[session]\n{lines}")


def joint(root, rows="shares", *, accept=True, count=ALL, keep=range(FITTED)):
    """Write the folders of a joint run on the first nodes, with the rest to predict."""
    configs = made(root, PARTIES, data=False)
    settings(configs, method="joint", joint_rows=rows)
    on_a_free_port(configs)
    for name, path in configs.items():
        edit(path, r"^# random_state = 0", "random_state = 0")
        if name in PARTIES:
            edit(path, r"^# (\[predict\]|features = |graph = \"data|id_column = )", r"\1")
            if accept and rows == "coordinator":
                edit(path, r"^accept = \[\]", 'accept = ["anonymous-geometry"]')
            seed = PARTIES.index(name)
            write_data(path.parent / "data", seed=seed, count=count, keep=keep)
            write_data(path.parent / "data", seed=seed, count=count, stem="more-")
    return configs


def start(*command):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    arguments = [sys.executable, "-m", "kcagc", *map(str, command), "--json"]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def role_of(name):
    return "party" if name in PARTIES else "coordinator"


def ended(processes):
    """Wait for all roles and give what each printed for scripts."""
    try:
        found = {name: (*one.communicate(timeout=200), one.returncode) for name, one in processes.items()}
    finally:
        for one in processes.values():
            one.kill()
    assert {code for _, _, code in found.values()} == {0}, {name: said for name, (_, said, _) in found.items()}
    return {name: json.loads(printed) for name, (printed, _, _) in found.items()}


def fit(configs):
    return ended({name: start(role_of(name), "--config", path) for name, path in configs.items()})


def predict(configs):
    model = "result/model.kcagc"
    return ended(
        {name: start("predict", "--config", path, "--model", path.parent / model) for name, path in configs.items()}
    )


def labels_in(folder):
    with (folder / "labels.csv").open() as file:
        return {row["id"]: int(row["cluster"]) for row in csv.DictReader(file)}


def expected(rows):
    """The labels of the fitted and of the new nodes, from the estimator."""
    one, two = np.array(edges_of(ALL)).T
    whole = sparse.coo_array((np.ones(len(one)), (one, two)), shape=(ALL, ALL)).tocsr()
    whole = whole + whole.T
    tables = [table_of(seed, ALL) for seed in range(3)]
    accept = ("anonymous-geometry",)
    model = KCAGC(n_clusters=3, psi=1, method="joint", joint_rows=rows, accept=accept, random_state=0)
    model.fit([table[:FITTED] for table in tables], adjacency=whole[:FITTED, :FITTED])
    return model, model.predict(tables, adjacency=whole)


@pytest.fixture(scope="module", params=["shares", "coordinator"])
def done(request, tmp_path_factory):
    configs = joint(tmp_path_factory.mktemp("roles"), request.param)
    return request.param, configs, fit(configs), predict(configs)


def test_processes_fit_and_predict_as_the_estimator_does(done):
    rows, configs, fits, predictions = done
    model, new = expected(rows)
    names = names_of(ALL)
    for name in PARTIES:
        folder = configs[name].parent / "result"
        assert labels_in(folder) == dict(zip(names[:FITTED], model.labels_.tolist(), strict=True))
        assert labels_in(folder / "prediction") == dict(zip(names[FITTED:], new.tolist(), strict=True))
        assert fits[name]["cost"] == pytest.approx(model.cost_)
        assert predictions[name]["nodes"] == ALL - FITTED


def test_a_saved_model_has_weights_or_shares(done):
    rows, configs, _, _ = done
    for name in PARTIES:
        saved = SavedModel.load(configs[name].parent / "result" / "model.kcagc", name)
        assert saved.parameters.joint_rows == rows
        assert (saved.share.joint.weights is None) == (rows == "shares")
        holds = rows == "shares" and name in PARTIES[:2]
        assert restore(saved.share.joint.directions).any() == holds


def test_the_summary_counts_nodes_and_no_cells(done):
    rows, configs, fits, _ = done
    (merge,) = fits["alice"]["merges"]
    assert merge["rows"] == FITTED
    assert bool(merge["history"]) == (rows == "shares")
    assert fits["alice"]["seconds_in_sums"] > 0
    text = (configs["alice"].parent / "result" / "report.html").read_text()
    assert "Nodes in the sample" in text
    assert "Cells" not in text
    assert "A cell is" not in text
    assert ("The coordinator found the clusters in points without names" in text) == (rows == "coordinator")


def test_the_ledger_of_a_party_has_no_local_labels(done):
    rows, configs, _, _ = done
    for name in PARTIES:
        lines = (configs[name].parent / "result" / "ledger.jsonl").read_text().splitlines()
        kinds = {json.loads(line)["kind"] for line in lines}
        assert not any(kind.startswith("encrypted/labels") for kind in kinds)
        assert ("message/padded" in kinds) == (rows == "shares")
        assert ("opened/geometry" in kinds) == (rows == "coordinator")
        assert ("opened/rows" in kinds) == (rows == "shares")


def test_killed_roles_resume(tmp_path, done):
    rows, earlier, _, _ = done
    if rows == "coordinator":
        pytest.skip("one exchange: tests/protocol/test_replay.py has every moment of it")
    configs = joint(tmp_path, rows)
    processes = {name: start(role_of(name), "--config", path) for name, path in configs.items()}
    try:
        for victim in ("alice", "coordinator"):
            journal, limit = configs[victim].parent / "state" / "fit.sqlite-wal", time.monotonic() + 100
            while not (journal.exists() and journal.stat().st_size > 100_000) and processes[victim].poll() is None:
                assert time.monotonic() < limit
                time.sleep(0.005)
            processes[victim].send_signal(signal.SIGKILL)
            processes[victim].communicate()
            processes[victim] = start(role_of(victim), "--config", configs[victim])
    except BaseException:
        for one in processes.values():
            one.kill()
        raise
    ended(processes)
    for name in PARTIES:
        found, before = (labels_in(one[name].parent / "result") for one in (configs, earlier))
        assert found == before


# What the configuration and the checks say.


def check(path, *options):
    return CliRunner().invoke(cli, ["check", "--config", str(path), "--offline", *options])


def test_no_local_labels_are_measured_for_a_method_that_sends_none(tmp_path):
    configs = joint(tmp_path)
    result = check(configs["alice"], "--json")
    assert result.exit_code == 0
    assert [row["check"] for row in json.loads(result.stdout)][-2:] == ["data", "sessions"]


def test_rows_for_the_coordinator_are_refused_with_a_remedy_until_accepted(tmp_path):
    configs = joint(tmp_path, "coordinator", accept=False)
    refused = check(configs["alice"])
    assert refused.exit_code == 4
    assert 'accept "anonymous-geometry" in your policy' in refused.stdout
    assert 'otherwise set joint_rows = "shares" at all participants' in refused.stdout
    edit(configs["alice"], r"^accept = \[\]", 'accept = ["anonymous-geometry"]')
    assert check(configs["alice"]).exit_code == 0


def test_a_party_cannot_aggregate(tmp_path):
    configs = made(tmp_path, PARTIES, aggregator="carol")
    settings(configs, method="joint")
    with pytest.raises(ParameterError, match='aggregator: the method "joint" needs a coordinator'):
        Config.load(configs["alice"]).agreement().check()


def test_init_writes_the_settings_and_the_name_to_accept(tmp_path):
    arguments = ["--parties", "ann,bob", "--n-clusters", "5", "--method", "joint", "--joint-rows", "coordinator"]
    assert CliRunner().invoke(cli, ["init", str(tmp_path / "new"), *arguments]).exit_code == 0
    party, coordinator = ((tmp_path / "new" / name / "kcagc.toml").read_text() for name in ("ann", "coordinator"))
    assert '# accept = ["anonymous-geometry"]' in party
    assert "anonymous-geometry" not in coordinator
    parameters = Config.load(tmp_path / "new" / "ann" / "kcagc.toml").parameters()
    assert (parameters.method, parameters.joint_rows) == ("joint", "coordinator")
    for text in (party, coordinator):
        assert 'joint_rows = "coordinator"' in text
        assert f"# n_components = {parameters.n_components}" in text


def test_without_an_option_the_file_has_the_default_as_a_comment(tmp_path):
    text = made(tmp_path, data=False)["alice"].read_text()
    assert '# joint_rows = "shares"' in text
    assert 'accept = ["anonymous-geometry"]' not in text


@pytest.mark.parametrize("rows", ["shares", "coordinator"])
def test_the_page_of_disclosures_is_that_of_the_form(tmp_path, rows):
    configs = joint(tmp_path, rows, accept=False)
    text = " ".join(check(configs["alice"], "--disclosure").stdout.split())
    assert "local label of" not in text
    assert ("how strongly the mixed components vary together" in text) == (rows == "shares")
    assert "they learn the components of every other party for every node" in text
    opened = "learns the components of all parties for every node"
    assert (opened in text) == (rows == "coordinator")
    assert ("`anonymous-geometry` is **not accepted**" in text) == (rows == "coordinator")
    assert ("alice and bob each hold one of two *shares*" in text) == (rows == "shares")


def test_parameters_of_a_model_from_before_the_joint_method_can_be_read(tmp_path):
    parameters = Config.load(made(tmp_path, data=False)["alice"]).parameters()
    before = msgspec.to_builtins(parameters)
    del before["joint_rows"]
    assert msgspec.convert(before, type(parameters)) == parameters
