"""A matching of ids by roles with folders: which ids take part, what is written, and what is refused."""

import json
import stat

import pytest

from deploy.collaboration import NODES, edges_of, edit, made, names_of, write_data
from kcagc.data.node_lists import read_ids
from kcagc.deploy.config import Config
from kcagc.deploy.match import MatchRun
from kcagc.deploy.run import RoleRun
from kcagc.errors import ParameterError, PolicyError
from kcagc.runtime.driver import Driver
from kcagc.runtime.in_process import run_together
from kcagc.runtime.journal import SessionRandomness

KEPT = {"alice": range(4, NODES), "bob": range(20), "carol": range(2, NODES, 2)}


@pytest.fixture
def configs(tmp_path):
    """The folders of three parties, whose tables have some nodes; all have all edges."""
    found = made(tmp_path)
    edges = "".join(f"{names_of()[one]},{names_of()[two]}\n" for one, two in edges_of())
    for seed, (name, keep) in enumerate(KEPT.items()):
        write_data(found[name].parent / "data", seed=seed, keep=keep, shuffled=True)
        (found[name].parent / "data" / "edges.csv").write_text(f"source,target\n{edges}")
        edit(found[name], r"^accept = \[\]", 'accept = ["partial-matches"]')
    return found


def run_of(path, **changes):
    return MatchRun(Config.load(path), **changes)


def matched(configs, **changes):
    """Run all roles in memory, and write the results of each."""
    runs = {name: run_of(path, **changes) for name, path in configs.items()}
    for run in runs.values():
        run.check()
    parties = [name for name in configs if name != "coordinator"]
    drivers = {
        name: Driver(
            name,
            run.role(SessionRandomness.fresh(0)),
            tuple(parties) if name == "coordinator" else ("coordinator",),
        )
        for name, run in runs.items()
    }
    results = run_together(list(drivers.values()))
    return {name: run.write(results[name], [(0.0, one) for one in drivers[name].ledger]) for name, run in runs.items()}


def test_all_parties_write_the_same_list_which_a_fit_takes(configs):
    summaries = matched(configs)
    common = [names_of()[node] for node in range(NODES) if all(node in keep for keep in KEPT.values())]
    for name, kept in KEPT.items():
        path = configs[name].parent / "result" / "match" / "nodes.csv"
        assert read_ids(path, party=name).values == common
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert summaries[name]["common"] == len(common)
        assert summaries[name]["ids"] == len(kept)
        assert json.loads(path.with_name("run.json").read_text())["files"] == summaries[name]["files"]
        edit(configs[name], r"^# node_list = .*", 'node_list = "result/match/nodes.csv"')
        assert RoleRun(Config.load(configs[name])).data.graph.n_nodes == len(common)
    assert not (configs["coordinator"].parent / "result" / "match" / "nodes.csv").exists()
    ledger = (configs["alice"].parent / "result" / "match" / "ledger.jsonl").read_text()
    assert "encrypted/answers.partial" in ledger


def test_ids_are_those_of_the_graph_that_the_table_has(configs):
    table = configs["alice"].parent / "data" / "features.csv"
    table.write_text(table.read_text() + "stranger,1,2,3\n")
    assert run_of(configs["alice"]).ids.values == [names_of()[node] for node in KEPT["alice"]]


def test_without_a_graph_they_are_all_ids_of_the_table(tmp_path):
    path = made(tmp_path, ("alice", "bob"))["alice"]
    edit(path, r'^graph = "data/edges.csv"', "")
    edit(path, r"^(n_clusters = .*)", r'\1\ngraph = "none"')
    edit(path, r"^psi = .*", "")
    table = path.parent / "data" / "features.csv"
    table.write_text(table.read_text() + "stranger,1,2,3\n")
    assert sorted(run_of(path).ids.values) == sorted([*names_of(), "stranger"])


def test_a_list_can_replace_them(configs, tmp_path):
    listed = tmp_path / "listed.csv"
    listed.write_text("id\nn001\nn000\n")
    assert run_of(configs["alice"], list_file=listed).ids.values == ["n001", "n000"]
    with pytest.raises(ParameterError, match="is a coordinator, which has no ids"):
        _ = run_of(configs["coordinator"], list_file=listed).ids


def test_three_parties_must_accept_what_the_first_ones_learn(configs):
    edit(configs["bob"], r'^accept = \["partial-matches"\]', "accept = []")
    with pytest.raises(PolicyError, match='"partial-matches"'):
        run_of(configs["bob"]).check()
    run_of(configs["coordinator"]).check()


def test_only_two_parties_can_count(configs):
    with pytest.raises(ParameterError, match="there are 3"):
        run_of(configs["alice"], counts_only=True).check()


def test_a_matching_has_a_journal_and_inputs_of_its_own(configs):
    run, fit = run_of(configs["alice"]), RoleRun(Config.load(configs["alice"]))
    assert run.journal != fit.journal
    assert run.journal.parent == fit.journal.parent
    other = run_of(configs["alice"], list_file=None)
    assert other.made_from == run.made_from
    table = configs["alice"].parent / "data" / "features.csv"
    table.write_text("".join(table.read_text().splitlines(keepends=True)[:-1]))
    changed = run_of(configs["alice"]).made_from
    assert [name for name in changed if changed[name] != run.made_from[name]] == ["the data"]


def test_a_matching_counts_as_a_run_of_its_proposal(configs, monkeypatch):
    counted = []
    monkeypatch.setattr("kcagc.deploy.match.note_result", lambda config, summary: counted.append(summary["task"]))
    matched(configs)
    assert counted == ["match"] * len(configs)
