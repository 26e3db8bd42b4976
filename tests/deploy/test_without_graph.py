"""Runs without a graph in real processes: fit, predict, report; and what the checks say where roles differ."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from deploy.collaboration import edit, made, names_of, on_a_free_port, table_of, task
from deploy.test_joint import ended, labels_in, role_of, start
from kcagc import KCAGC
from kcagc.cli.main import cli
from kcagc.deploy.config import Config
from kcagc.deploy.run import RoleRun
from kcagc.errors import AgreementError, ParameterError
from kcagc.protocol.agreement import compare_agreements

PARTIES = ("alice", "bob")
FITTED, ALL = 45, 60


def write_table(folder, seed, count, *, stem=""):
    table, names = table_of(seed, count).tolist(), names_of(count)
    order = np.random.default_rng(seed).permutation(count)  # every party sorts by id
    lines = [f"{names[row]},{','.join(map(repr, table[row]))}" for row in order]
    (folder / f"{stem}features.csv").write_text("\n".join(["id,f0,f1,f2", *lines]) + "\n")


def folders(root):
    configs = made(root, PARTIES, data=False)
    on_a_free_port(configs)
    for name, path in configs.items():
        edit(path, r"^psi = 1.*", 'psi = "auto"')
        edit(path, r'^# graph = "shared".*', 'graph = "none"')
        edit(path, r"^# random_state = 0", "random_state = 0")
        if name in PARTIES:
            edit(path, r'^graph = "data/edges.csv"\nsource = "source"\ntarget = "target"\n', "")
            edit(path, r"^# (\[predict\]|features = |id_column = )", r"\1")
            write_table(path.parent / "data", PARTIES.index(name), FITTED)
            write_table(path.parent / "data", PARTIES.index(name), ALL, stem="more-")
    return configs


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    configs = folders(tmp_path_factory.mktemp("roles"))
    return configs, ended({name: start(role_of(name), "--config", path) for name, path in configs.items()})


def test_processes_find_the_clusters_of_the_estimator_without_a_graph(done):
    configs, fits = done
    model = KCAGC(n_clusters=3, random_state=0).fit({name: table_of(at, FITTED) for at, name in enumerate(PARTIES)})
    for name in PARTIES:
        found = labels_in(configs[name].parent / "result")
        assert found == dict(zip(names_of(FITTED), model.labels_.tolist(), strict=True))
        assert fits[name]["cost"] == pytest.approx(model.cost_)
        assert fits[name]["parameters"]["graph"] == "none"
        assert fits[name]["psi"] == "0, because there is no graph"


def test_a_prediction_without_a_graph_reads_the_rows_of_the_new_nodes(done):
    path = done[0]["alice"]
    run = RoleRun.predict(Config.load(path), path.parent / "result" / "model.kcagc")
    run.check()
    assert run.new_rows.tolist() == list(range(FITTED, ALL))


def test_the_report_speaks_of_no_edges(done):
    configs, _ = done
    found = json.loads((configs["alice"].parent / "result" / "clusters.json").read_text())
    assert "links" not in found
    assert "modularity" not in found["quality"]
    page = (configs["alice"].parent / "result" / "report.html").read_text()
    for words in ("Modularity", "averaged with its neighbours", "Links between clusters", "The graph has no links"):
        assert words not in page


def checked(path, *options):
    result = CliRunner().invoke(cli, ["check", "--config", str(path), "--offline", *options])
    return result.exit_code, " ".join(result.stdout.split())


def test_a_check_and_the_page_of_disclosures_say_that_there_is_no_graph(tmp_path):
    path = folders(tmp_path)["alice"]
    code, text = checked(path)
    assert code == 0
    assert "45 nodes whose ids are strings, 3 columns, no graph" in text
    assert "nothing can check" not in text
    _, page = checked(path, "--disclosure")
    assert "This run uses no links between nodes" in page
    assert "Whether ids agree" in page
    for words in ("linked nodes", "same links", "neighbours", "large graph", "values of ψ"):
        assert words not in page
    edit(path, r'^id_column = "id"\n', "")
    text = (path.parent / "data" / "features.csv").read_text()
    (path.parent / "data" / "features.csv").write_text("\n".join(line.partition(",")[2] for line in text.splitlines()))
    _, text = checked(path)
    assert "rows have no ids and there is no graph: nothing can check that row i is the same node" in text


def test_a_party_with_a_graph_and_one_without_refuse_each_other_in_one_sentence(tmp_path):
    configs, others = folders(tmp_path / "one"), made(tmp_path / "two", PARTIES)
    without, having = Config.load(configs["alice"]).agreement(), Config.load(others["bob"]).agreement()
    message = r'^alice and bob do not agree: alice takes part without a graph \(graph = "none"\), bob with one; all'
    with pytest.raises(AgreementError, match=message) as error:
        compare_agreements("alice", without, "bob", having)
    assert "filter" not in str(error.value)
    with pytest.raises(AgreementError, match=r"^bob and alice do not agree: alice takes part without a graph"):
        compare_agreements("bob", having, "alice", without)


@pytest.mark.parametrize("section", ["data", "predict"])
def test_a_file_of_edges_and_the_settings_must_fit_each_other(tmp_path, section):
    path = folders(tmp_path / "without")["alice"]
    edit(path, rf"^\[{section}\]\n", f'[{section}]\ngraph = "edges.csv"\n')
    with pytest.raises(
        ParameterError, match=rf'{section}\.graph: names a file of edges, but \[session\] has graph = "none"'
    ):
        Config.load(path)
    path = made(tmp_path / "with", PARTIES)["alice"]
    edit(path, r"^# (\[predict\]|features = |graph = \"data|id_column = )", r"\1")
    edit(path, rf'^graph = "data/{"more-" if section == "predict" else ""}edges.csv".*\n', "")
    with pytest.raises(
        ParameterError, match=rf'{section}\.graph: is missing; .* set graph = "none" in \[session\] of all'
    ):
        Config.load(path)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("psi = 3", "psi: is 3, but there is no graph along which values could be averaged"),
        ("n_clusters = [2, 5]", "there is no graph, by whose edges clusters could be judged"),
    ],
)
def test_what_needs_edges_is_refused_with_the_reason(tmp_path, setting, words):
    path = folders(tmp_path)["alice"]
    edit(path, rf"^{setting.split()[0]} = .*", setting)
    with pytest.raises(ParameterError, match=words):
        Config.load(path)


def test_an_empty_file_of_edges_is_a_graph_and_no_graph_is_none(tmp_path):
    path = made(tmp_path, PARTIES)["alice"]
    (path.parent / "data" / "edges.csv").write_text("source,target\nn000,n001\n")
    assert "22 nodes without edges" in checked(path)[1]
    assert task(path).agreement.parameters.graph == "shared"


def test_a_list_of_nodes_that_the_table_has_is_not_made_without_a_graph(tmp_path):
    path = folders(tmp_path)["alice"]
    result = CliRunner().invoke(cli, ["nodes", "have", "--config", str(path), "--output", str(tmp_path / "have.csv")])
    assert "the run has no graph, so this list would hold all ids of alice" in f"{result.output}{result.exception}"
    assert not (tmp_path / "have.csv").exists()


def test_init_writes_a_run_without_a_graph(tmp_path):
    arguments = ["init", str(tmp_path / "new"), "--parties", "ann,bob", "--graph", "none", "--example-data"]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    path = tmp_path / "new" / "ann" / "kcagc.toml"
    assert not (path.parent / "data" / "edges.csv").exists()
    assert "psi is 0, because there is no graph" in checked(path)[1]
    edit(path, r"^# (\[predict\]|features = |id_column = )", r"\1")
    assert Config.load(path).document.predict.graph is None
