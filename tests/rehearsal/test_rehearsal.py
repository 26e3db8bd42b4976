"""Rehearsals with configurations, tables and one party's columns: what a user sees, and every mistake on the way."""

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from deploy.collaboration import edit, task
from kcagc.cli.main import cli
from kcagc.data.party_files import PartyInput
from kcagc.disclosure import Ledger
from kcagc.errors import AgreementError, DataError, ParameterError, PolicyError
from kcagc.graph.graph import Graph
from kcagc.protocol.parameters import PARAMETERS, RunSettings
from kcagc.rehearsal.parties import _split
from kcagc.rehearsal.settings import Grid, toml_block, values_of
from kcagc.simulation import simulate_fit
from rehearsal.examples import NODES, classes, folders, simulate, simulated, tables
from report.reading import read


@pytest.fixture(scope="module")
def configs(tmp_path_factory):
    return folders(tmp_path_factory.mktemp("configs"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def swept(configs, tmp_path_factory):
    """A sweep with a refused method: its document and its page."""
    root = tmp_path_factory.mktemp("swept")
    options = ["--n-clusters", "2-4", "--psi", 1, "--runs", 2, "--page", root / "page.html"]
    options += ["--classes", classes(root), "--class-column", "group", "--method", "joint,tree", "--n-init", 2]
    given = [part for name in ("alice", "bob") for part in ("--config", configs[name])]
    return simulated(*given, *options), (root / "page.html").read_text()


# The same data path, rules and settings as a party


def test_one_setting_gives_the_clusters_of_a_session_with_the_same_configurations(configs):
    found = simulated("--config", configs["alice"], "--config", configs["bob"], "--seed", 3)
    runs = {name: task(configs[name]) for name in ("alice", "bob")}
    first = runs["alice"]
    data = {name: one.data for name, one in runs.items()}
    seeds, ledger = dict.fromkeys(data, 3), Ledger()
    results = simulate_fit(first.agreement.parameters, data, policy=first.config.policy(), seeds=seeds, ledger=ledger)
    (row,) = found["settings"]
    assert row["cluster_sizes"] == np.bincount(results["alice"].labels).tolist()
    # identity keys are of no fixed size in a document, so bytes may differ by a few
    assert row["bytes"] == pytest.approx(ledger.bytes_sent(), rel=0.01)
    assert row["psi"] == 1
    assert row["taken_method"] == "joint"
    assert (found["nodes"], found["parties"]) == (NODES, ["alice", "bob"])


def test_the_rules_of_a_configuration_apply(tmp_path):
    configs = folders(tmp_path)
    path = configs["bob"].parent / "data" / "features.csv"
    path.write_text(
        re.sub(r",[^,]*$", ",", path.read_text(), count=1, flags=re.MULTILINE).replace("id,f0,f1,\n", "id,f0,f1,f2\n")
    )
    lines = path.read_text().splitlines()
    lines[5] = re.sub(r",[^,]*$", ",", lines[5])  # a missing cell
    path.write_text("\n".join(lines) + "\n")
    both = ["--config", configs["alice"], "--config", configs["bob"]]
    with pytest.raises(DataError, match="line 6"):
        simulate(*both)
    with configs["bob"].open("a") as file:
        file.write('\n[data.default]\nmissing = "mean"\n')
    assert simulated(*both)["settings"][0]["ok"]


def test_the_order_of_the_configurations_does_not_matter(configs):
    one = simulated("--config", configs["alice"], "--config", configs["bob"])
    other = simulated("--config", configs["bob"], "--config", configs["alice"])
    assert one["parties"] == other["parties"] == ["alice", "bob"]
    assert one["settings"][0]["modularity"] == other["settings"][0]["modularity"]


def test_an_option_replaces_a_setting_of_the_files(configs):
    found = simulated("--config", configs["alice"], "--config", configs["bob"], "--n-clusters", 2, "--max-iter", 5)
    assert found["settings"][0]["n_clusters"] == 2
    assert len(found["settings"][0]["cluster_sizes"]) == 2
    assert "max_iter = 5" in found["toml"]


def test_each_party_has_the_policy_of_its_file(tmp_path):
    configs = folders(tmp_path)
    for name in configs:
        edit(configs[name], r"^# joint_rows = .*", 'joint_rows = "coordinator"')
    both = ["--config", configs["alice"], "--config", configs["bob"]]
    edit(configs["alice"], r"^accept = .*", 'accept = ["anonymous-geometry"]')
    with pytest.raises(PolicyError, match=r"bob: .*anonymous-geometry"):
        simulate(*both)
    found = simulated(*both, "--accept", "anonymous-geometry")
    assert found["settings"][0]["ok"]
    document = tomllib.loads(found["toml"])
    assert document["policy"]["accept"] == ["anonymous-geometry"]


# The sweep


def test_every_combination_is_a_row_and_a_refused_one_says_why(swept):
    found, _ = swept
    tried = [(row["method"], row["psi"], row["n_clusters"]) for row in found["settings"]]
    assert tried == [(method, psi, k) for method in ("joint", "tree") for psi in (1,) for k in (2, 3, 4)]
    refused = [row for row in found["settings"] if not row["ok"]]
    assert refused
    assert all(row["exit_code"] == PolicyError.exit_code and "revealing-labels" in row["error"] for row in refused)
    for row in found["settings"]:
        if row["ok"]:
            assert row["bytes"] == pytest.approx(sum(row["bytes_by_role"].values()), rel=0.2)
            assert -1 <= row["stability"] <= 1
            assert 0 <= row["accuracy"] <= 1
            assert len(row["taken_psi"]) == 2
            assert row["learned"]
            assert row["worth"].keys() == {"alice", "bob"}


def test_known_classes_of_some_nodes_count(swept):
    found, _ = swept
    assert any("80 of 90 nodes" in note for note in found["notes"])
    best = max((row for row in found["settings"] if row["ok"]), key=lambda row: row["ari"])
    assert best["n_clusters"] == 3
    assert found["advice"][0].startswith("ARI, the agreement with the known classes, is highest for k = 3")


def test_the_settings_to_copy_are_those_of_a_setting_that_is_equally_good(swept):
    found, _ = swept
    assert found["to_copy"] in found["equally_good"]
    row, document = found["settings"][found["to_copy"]], tomllib.loads(found["toml"])
    read_back = RunSettings.read(document["session"])
    assert (read_back.n_clusters, read_back.psi, read_back.method) == (row["n_clusters"], row["psi"], row["method"])
    assert read_back.n_init == 2
    if len(found["equally_good"]) > 1:
        said = " ".join(found["advice"])
        assert "equally good" in said
        assert "fewest bytes" in said


def test_the_page_is_well_made_loads_nothing_and_holds_no_id(swept):
    found, page = swept
    html = read(page)
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)
    ids = [one.attributes["id"] for one in html.every() if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    for name in ("overview", "settings", "curves", "worth", "disclosures", "copy"):
        assert name in ids
    assert "n017" not in page
    assert "revealing-labels" in html.text
    assert "n_clusters = " in html.text
    ran = sum(row["ok"] for row in found["settings"])
    (table,) = [one for one in html.every("table") if one.text.startswith("Each setting that ran")]
    assert len(list(table.every("tr"))) == ran + 1


def test_equally_good_settings_are_said_and_none_is_chosen_silently(files):
    found = simulated(*files, "--n-clusters", 3, "--psi", 1, "--method", "joint,auto")  # the same method twice
    assert found["equally_good"] == [0, 1]
    assert "about equally good" in " ".join(found["advice"])
    shown = simulate(*files, "--n-clusters", 3, "--psi", 1, "--method", "joint,auto").stdout
    assert "Settings with a star are equally good." in shown


def test_without_held_out_edges_nothing_is_recommended(files):
    found = simulated(*files, "--n-clusters", "2,3", "--psi", 1, "--no-held-out")
    assert found["to_copy"] is None
    assert found["toml"] == ""
    assert found["settings"][0]["held_out_modularity"] is None
    assert "nothing can say which" in found["advice"][0]


def test_a_range_in_the_files_is_tried_one_by_one(tmp_path):
    configs = folders(tmp_path)
    for path in configs.values():
        edit(path, r"^n_clusters = .*", "n_clusters = [2, 3]")
    found = simulated("--config", configs["alice"], "--config", configs["bob"])
    assert [row["n_clusters"] for row in found["settings"]] == [2, 3]


def test_if_all_settings_are_refused_the_table_says_so_and_the_exit_code_is_theirs(files):
    done = simulate(*files, "--n-clusters", "500,600", "--psi", 1)
    assert done.exit_code == DataError.exit_code
    assert done.stdout.count("500 clusters, but there are only 90 nodes") == 1
    assert "No setting ran" in done.stdout


def test_a_rehearsal_in_a_file_says_where_it_is(files):
    done = simulate(*files, "--n-clusters", "2,3", "--psi", 1, "--no-held-out")
    assert "1 of 2: k = 2, ψ = 1" in done.stderr
    assert "2 of 2: k = 3, ψ = 1" in done.stderr


def test_an_interrupted_rehearsal_shows_what_has_run(files, monkeypatch):
    from kcagc.rehearsal.runs import Rehearsal

    whole = Rehearsal._outcome

    def outcome(self, setting, begin, watch):
        if self.outcomes:
            raise KeyboardInterrupt
        return whole(self, setting, begin, watch)

    monkeypatch.setattr(Rehearsal, "_outcome", outcome)
    done = simulate(*files, "--n-clusters", "2,3", "--psi", 1, "--no-held-out")
    assert done.exit_code == 130
    assert "interrupted after 1 of 2 settings" in done.stderr
    assert "Was it worth it?" in done.stdout


# One party alone


def test_one_party_rehearses_with_its_table_in_two(configs):
    found = simulated("--config", configs["alice"], "--split", 2)
    assert found["parties"] == ["alice-1", "alice-2"]
    assert any("alice-1 has 2 columns of alice: f0 and f1." in note for note in found["notes"])


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_columns_made_of_one_column_stay_together_and_none_is_lost(parts):
    sources = ["a", "b", "c", "d", "e", "b", "c", "city", "city", "city", "city"]
    made = SourcesOf(sources)
    features = np.arange(4 * len(sources), dtype=float).reshape(4, -1)
    names = [f"{source}{number}" for number, source in enumerate(sources)]
    whole = PartyInput(Graph.from_edges([0, 1], [1, 2], n_nodes=4), features, names, 6, made)
    found, _ = _split({"bank": whole}, parts)
    assert len(found) == parts
    seen = {}
    for party, one in found.items():
        assert one.features.shape == (4, len(one.columns))
        for column in one.columns:
            at = names.index(column)
            assert seen.setdefault(sources[at], party) == party
            np.testing.assert_array_equal(one.features[:, one.columns.index(column)], features[:, at])
    assert sorted(column for one in found.values() for column in one.columns) == sorted(names)
    assert max(len(one.columns) for one in found.values()) <= 6


class SourcesOf:
    def __init__(self, sources):
        self._sources = sources

    def sources(self):
        return self._sources


# Mistakes


def test_different_settings_are_refused_by_the_names_of_both_files(tmp_path):
    configs = folders(tmp_path)
    edit(configs["bob"], r"^n_clusters = .*", "n_clusters = 4")
    both = ["--config", configs["alice"], "--config", configs["bob"]]
    with pytest.raises(AgreementError, match="n_clusters is 3 in the first and 4 in the second") as caught:
        simulate(*both)
    assert str(configs["alice"]) in str(caught.value)
    assert str(configs["bob"]) in str(caught.value)
    assert "--n-clusters" in str(caught.value)
    assert simulated(*both, "--n-clusters", 3)["settings"][0]["ok"]  # as the message advises


def test_a_coordinator_is_not_needed_and_its_settings_must_agree(tmp_path):
    configs = folders(tmp_path)
    with pytest.raises(ParameterError, match="coordinator, which has no table"):
        simulate("--config", configs["coordinator"])
    every = [part for path in configs.values() for part in ("--config", path)]
    assert any("coordinator of its own" in note for note in simulated(*every)["notes"])
    edit(configs["coordinator"], r"^psi = .*", "psi = 7")
    with pytest.raises(AgreementError, match="psi is 1 in the first and 7 in the second"):
        simulate(*every)


def test_other_edges_or_nodes_are_refused_before_anything_runs(tmp_path):
    configs = folders(tmp_path)
    both = ["--config", configs["alice"], "--config", configs["bob"]]
    edges = configs["bob"].parent / "data" / "edges.csv"
    whole = edges.read_text()
    edges.write_text("\n".join(whole.splitlines()[:-1]) + "\n")
    with pytest.raises(AgreementError, match="do not have the same edges"):
        simulate(*both)
    edges.write_text(whole)
    table = configs["bob"].parent / "data" / "features.csv"
    table.write_text(table.read_text() + "n999,1,2,3\n")
    with pytest.raises(AgreementError, match="n999"):
        simulate(*both)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config", "nowhere.toml"], "nowhere.toml: No such file"),
        (["--config", "{alice}"], "--split 2"),
        (["--config", "{alice}", "--config", "{alice}"], "both are the configuration of alice"),
        (["--config", "{alice}", "--config", "{bob}", "--split", "2"], "is for one party"),
        (["--config", "{alice}", "--split", "4"], "has 3 columns, which cannot be split into 4 parts"),
        (["--config", "{alice}", "--dataset", "demo"], "different sources of data"),
        (["--config", "{alice}", "--id-column", "id"], "--id-column: is for --table"),
        (["--config", "{alice}", "--parties", "3"], "--parties: is for a dataset"),
        (["--table", "a.csv"], "--graph: is missing"),
        (["--table", "a.csv", "--graph", "g.csv"], "n_clusters: is missing"),
        (["--table", "a.csv", "--graph", "g.csv", "--n-clusters", "3"], "a.csv: there is no such file"),
        (["--table", "a.csv", "--table", "x/a.csv", "--graph", "g.csv", "--n-clusters", "3"], "both be the party a"),
        (["--table", "coordinator.csv", "--graph", "g.csv", "--n-clusters", "3"], "rename the file"),
        (["--n-clusters", "3..5"], "such as 4,5,6 or 4-8, not '3..5'"),
        (["--n-clusters", "5-3"], "the range 5-3 must go up"),
        (["--n-clusters", "0,3"], "n_clusters"),
        (["--n-clusters", "2-90", "--psi", "0-40"], "at most 400"),
        (["--psi", "1,some"], "or auto, not 'some'"),
        (["--method", "joint,magic"], "not 'magic'"),
        (["--n-clusters", "2,3", "--holdout", "0.1"], "--holdout: is for one setting"),
        (["--n-clusters", "2,3", "--ledger", "l.jsonl"], "--ledger: is for one setting"),
        (["--n-clusters", "2", "--page", "no/page.html"], "the folder no does not exist"),
        (["--split", "2"], "--split: is for your own files"),
        (["--graph", "g.csv"], "--graph: is for your own files"),
        (["--classes", "no.csv", "--n-clusters", "3"], "no.csv"),
    ],
)
def test_mistakes_are_named_with_what_to_do(configs, arguments, words):
    from click.testing import CliRunner

    given = [one.format(alice=configs["alice"], bob=configs["bob"]) for one in arguments]
    done = CliRunner().invoke(cli, ["simulate", *given])
    assert done.exit_code != 0
    assert words in f"{done.output} {done.exception}"
    assert not done.stdout


def test_errors_about_columns_name_the_options_that_settle_them(files, tmp_path):
    table = tmp_path / "text.csv"
    rows = [f"n{node:03},{'red' if node % 3 else 'blue'},{node % 3}" for node in range(NODES)]
    table.write_text("\n".join(["id,colour,value", *rows]) + "\n")
    given = [*files, "--table", table, "--n-clusters", 3, "--psi", 1, "--no-held-out"]
    with pytest.raises(DataError, match="--categorical COLUMN, --drop COLUMN"):
        simulate(*given)
    assert simulated(*given, "--categorical", "colour")["settings"][0]["ok"]
    assert simulated(*given, "--drop", "colour")["settings"][0]["ok"]
    with pytest.raises(ParameterError, match="no table has a column 'color'"):
        simulate(*given, "--drop", "color")


def test_a_table_without_ids_is_told_which_option_names_them(files, tmp_path):
    renamed = tmp_path / "other.csv"
    bank = files[1]
    renamed.write_text(Path(bank).read_text().replace("id,", "customer,", 1))
    given = ["--table", renamed, *files[2:], "--n-clusters", 3, "--psi", 1, "--no-held-out"]
    with pytest.raises(DataError, match="--id-column"):
        simulate(*given)


def test_how_a_table_is_written_is_found_out_and_said(files, tmp_path):
    given = ["--n-clusters", 3, "--psi", 1, "--no-held-out"]
    tables = [Path(files[files.index("--table", at) + 1]) for at in (0, 2)]
    european = []
    for one in tables:
        to = tmp_path / one.name
        to.write_text(one.read_text().replace(",", ";").replace(".", ","))
        european += ["--table", to]
    found = simulated(*european, *files[files.index("--graph") :], *given)
    assert any('delimiter = ";", decimal = ","' in note for note in found["notes"])
    same = simulated(*files, *given)
    assert found["settings"][0]["cluster_sizes"] == same["settings"][0]["cluster_sizes"]


def test_values_of_options():
    assert values_of("4,5,6", "n_clusters") == (4, 5, 6)
    assert values_of("4-6, 5,9", "n_clusters") == (4, 5, 6, 9)
    assert values_of("auto,2", "psi", ("auto",)) == ("auto", 2)
    assert Grid.of({"n_clusters": 3}, {"psi": None}, [0]).settings[0].psi == PARAMETERS["psi"].default


@pytest.mark.parametrize(
    "changes", [{}, {"psi": 3, "method": "cells", "n_local_clusters": "2k"}, {"scaling": "US", "unit": 2.5}]
)
def test_the_lines_to_copy_give_the_same_settings(changes):
    settings = RunSettings.read({"n_clusters": 4, **changes})
    assert RunSettings.read(tomllib.loads(toml_block(settings))["session"]) == settings


def test_a_dataset_is_swept_with_its_known_classes():
    found = simulated("--n-clusters", "5", "--psi", 1, "--no-held-out")
    assert found["settings"][0]["accuracy"] > 0.85
    assert json.dumps(found)
