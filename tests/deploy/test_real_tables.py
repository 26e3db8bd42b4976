"""Tables as people have them, with words, gaps and nodes that are not there, fitted and predicted by processes."""

import csv
import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pandas
import pytest
from click.testing import CliRunner

from deploy.collaboration import edges_of, edit, made, names_of, on_a_free_port, table_of
from kcagc import KCAGC
from kcagc.cli.main import cli
from kcagc.data import TablePreprocessor
from kcagc.deploy.results import SavedModel
from kcagc.graph import Graph

PARTIES = ("alice", "bob", "carol")
ALL = 40
FITTED = [node for node in range(ALL) if node % 5]
LACKING = {"alice": [], "bob": [1, 7, 21], "carol": [2]}  # nodes of the list without a row
COLUMNS = {
    "age": {"missing": "median", "scale": "standard"},
    "city": {"kind": "categorical", "missing": "indicator", "max_levels": 3},
    "note": {"kind": "drop"},
}
DEFAULT = {"missing": "mean", "scale": "minmax"}
CITIES = ("Rome, Italy", 'the "old" town', "Bern", "Oslo", "Lima")


def frame(party):
    """A party's table: numbers with gaps, a city by group, free text."""
    seed = PARTIES.index(party)
    random = np.random.default_rng(seed)
    numbers = table_of(seed, ALL)
    table = pandas.DataFrame({"id": names_of(ALL), "age": 40 + 9 * numbers[:, 0], "f1": numbers[:, 1]})
    table["city"] = [CITIES[(node % 3 + (node % 11 == 0) * 2) % 5] for node in range(ALL)]
    table["note"] = [f"line one\nof {node}, so to say" for node in range(ALL)]
    for column in ("age", "f1", "city"):
        table.loc[random.choice(ALL, 4, replace=False), column] = None
    return table


def rows_of(party, nodes):
    table = frame(party).iloc[[node for node in nodes if node not in LACKING[party]]]
    return table.sample(frac=1, random_state=PARTIES.index(party))


def written(table):
    text = io.StringIO()
    table.to_csv(text, index=False, quoting=csv.QUOTE_MINIMAL)
    return text.getvalue()


def together(*commands):
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


def prepare(path, party):
    """Write a party's files and rules: rows beyond the list, edges to nodes beyond it, and later new nodes."""
    data = path.parent / "data"
    names = names_of(ALL)
    edges = "".join(f"{names[one]},{names[two]}\n" for one, two in edges_of(ALL))
    for stem, nodes in (("", range(ALL)), ("more-", range(ALL))):
        table = rows_of(party, nodes)
        if stem and party == "alice":  # a city that nobody has seen before
            table.loc[table["id"] == names[5], "city"] = "Atlantis"
        (data / f"{stem}features.csv").write_text(written(table))
        (data / f"{stem}edges.csv").write_text("source,target\n" + edges)
    (data / "nodes.csv").write_text("id\n" + "".join(f"{names[node]}\n" for node in FITTED))
    (data / "more-nodes.txt").write_text("".join(f"{name}\n" for name in names))
    rules = "\n".join(
        [
            'node_list = "data/nodes.csv"',
            'default = { missing = "mean", scale = "minmax" }',
            'columns.age = { missing = "median", scale = "standard" }',
            'columns.city = { kind = "categorical", missing = "indicator", max_levels = 3 }',
            'columns.note = { kind = "drop" }',
        ]
    )
    edit(path, r"^# (\[predict\]|features = |graph = \"data|id_column = )", r"\1")
    edit(path, r"^(\[predict\])", r'\1\nnode_list = "data/more-nodes.txt"')
    edit(path, r'^source = "source"', f'source = "source"\n{rules}')


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    configs = made(tmp_path_factory.mktemp("roles"), PARTIES, data=False)
    on_a_free_port(configs)
    for name, path in configs.items():
        edit(path, r"^# random_state = 0", "random_state = 0")
        if name in PARTIES:
            prepare(path, name)
    fits = together(
        *(["coordinator" if name not in PARTIES else "party", "--config", path] for name, path in configs.items())
    )
    places = together(
        *(["predict", "--config", path, "--model", path.parent / "result" / "model.kcagc"] for path in configs.values())
    )
    return configs, dict(zip(configs, fits, strict=True)), dict(zip(configs, places, strict=True))


@pytest.fixture(scope="module")
def expected():
    """The same by the estimator, from frames and with the rules as a transformer."""
    names = names_of(ALL)
    one, two = zip(*edges_of(ALL), strict=True)
    graph = Graph.from_edges([names[end] for end in one], [names[end] for end in two], ids=names)
    model = KCAGC(
        n_clusters=3,
        psi=1,
        random_state=0,
        id_column="id",
        nodes=[names[node] for node in FITTED],
        transformers=TablePreprocessor(columns=COLUMNS, default=DEFAULT),
    )
    model.fit([rows_of(party, range(ALL)) for party in PARTIES], adjacency=graph)
    tables = [rows_of(party, range(ALL)) for party in PARTIES]
    tables[0].loc[tables[0]["id"] == names[5], "city"] = "Atlantis"
    new = model.predict(tables, adjacency=graph)
    return model, dict(zip([name for name in names if name not in model.node_ids_], new.tolist(), strict=True))


def labels(path):
    with path.open() as file:
        return {row["id"]: int(row["cluster"]) for row in csv.DictReader(file)}


@pytest.mark.parametrize("party", PARTIES)
def test_processes_find_the_labels_that_the_estimator_finds_with_the_same_rules(runs, expected, party):
    result = runs[0][party].parent / "result"
    model, new = expected
    assert labels(result / "labels.csv") == dict(zip(model.node_ids_, model.labels_.tolist(), strict=True))
    assert len(set(new.values())) > 1
    assert labels(result / "prediction" / "labels.csv") == new


def test_the_summary_says_which_nodes_took_part_and_what_became_of_the_columns(runs):
    _, fits, places = runs
    told = {party: fits[party]["data"] for party in PARTIES}
    assert {party: one["rows_filled_in"] for party, one in told.items()} == {"alice": 0, "bob": 3, "carol": 1}
    assert {one["nodes"] for one in told.values()} == {"list"}
    assert {one["listed"] for one in told.values()} == {len(FITTED)}
    assert {one["rows_left_out"] for one in told.values()} == {ALL - len(FITTED)}
    assert len({one["edges_left_out"] for one in told.values()}) == 1
    assert told["alice"]["edges_left_out"] > 0
    assert (told["alice"]["columns_read"], told["alice"]["columns_made"]) == (3, 2 + 3 + 1 + 1)
    assert told["alice"]["rules"]["columns.age"] == COLUMNS["age"]
    assert told["alice"]["columns_weighted"] == places["alice"]["data"]["columns_weighted"] == 3 + 1 + 1
    assert "data" not in fits["coordinator"]
    assert places["bob"]["data"]["listed"] == ALL


def test_the_rules_of_a_party_are_in_its_own_model_only(runs):
    paths = {name: path.parent / "result" / "model.kcagc" for name, path in runs[0].items()}
    kept = {name: SavedModel.load(path, name).table for name, path in paths.items()}
    assert kept["coordinator"] is None
    assert kept["alice"].levels[0].other
    assert len({repr(kept[party].numbers.centre) for party in PARTIES}) == 3
    fill = kept["alice"].numbers.fill[0]
    inside = frame("alice").iloc[FITTED]["age"]
    assert fill == pytest.approx(inside.median())
    for name in (*PARTIES, "coordinator"):
        content = paths[name].read_bytes()
        assert (b"Bern" in content) == (name in PARTIES)
        assert b"so to say" not in content  # what is dropped is kept nowhere
    ledgers = [path.parent / "result" / "ledger.jsonl" for path in runs[0].values()]
    assert not [path for path in ledgers if "Bern" in path.read_text() or "city" in path.read_text()]


def check(path, *options):
    done = CliRunner().invoke(cli, ["check", "--offline", "--config", str(path), "--json", *options])
    return {row["check"]: row for row in json.loads(done.output)}["data"]


def test_check_says_what_a_run_would_do_with_the_table(runs):
    found = check(runs[0]["bob"])
    made = "3 columns that became 7 (5 weighted by inverse document frequency)"
    assert found["message"].startswith(f"{len(FITTED)} nodes whose ids are strings, {made}, ")
    notes = "; ".join(found["warnings"])
    assert "8 rows are left out" in notes
    assert "3 nodes of node_list have no row here" in notes
    assert "edges are left out" in notes


@pytest.mark.parametrize(
    ("pattern", "replacement", "words"),
    [
        (r"^columns.age = .*\n", 'columns.age = { scale = "standard" }\n', "column 'age': the value is missing"),
        (r"^columns.city = .*\n", "", "column 'city': .* is not a number"),
        (r"^columns.city = .*\n", 'columns.city = { kind = "categorical" }\n', "column 'city': the value is missing"),
        (r"^columns.note = .*\n", 'columns.nota = { kind = "drop" }\n', "no column 'nota'; .*did you mean 'note'"),
        (r"^columns.note = .*\n", 'columns.id = { kind = "drop" }\n', "column 'id' holds the ids"),
        (r"^node_list = .*\n", 'node_list = "data/none.csv"\n', "data/none.csv: there is no such file"),
    ],
)
def test_what_the_rules_do_not_cover_is_named_with_party_file_line_and_column(runs, pattern, replacement, words):
    path = runs[0]["bob"]
    before = path.read_text()
    head, predict = before.split("[predict]")
    try:
        path.write_text(head)
        edit(path, pattern, replacement)
        path.write_text(path.read_text() + "[predict]" + predict)
        found = check(path)
    finally:
        path.write_text(before)
    assert found["exit_code"] == 3
    assert re.search(words, found["message"]), found["message"]
    assert found["message"].startswith("bob: ")


def test_a_node_without_a_row_is_an_error_where_a_column_has_no_rule_for_it(runs):
    path = runs[0]["carol"]
    features = path.parent / "data" / "features.csv"
    before, table = features.read_text(), pandas.read_csv(features)
    config = path.read_text()
    try:
        features.write_text(written(table[["id", "age", "f1"]].fillna(1.0)))
        head, predict = config.split("[predict]")
        path.write_text(head)
        edit(path, r"^(columns|default).*\n", "")
        path.write_text(path.read_text() + "[predict]" + predict)
        found = check(path)
    finally:
        features.write_text(before)
        path.write_text(config)
    assert found["exit_code"] == 3
    assert "column 'age': 1 cell (node 'n002' (it has no row))" in found["message"]
    assert [(one["kind"], one["column"], one["count"]) for one in found["problems"]] == [
        ("missing", "age", 1),
        ("missing", "f1", 1),
    ]


def test_a_prediction_names_a_column_that_is_gone_or_new(runs):
    path = runs[0]["alice"]
    model = path.parent / "result" / "model.kcagc"
    more = path.parent / "data" / "more-features.csv"
    before = more.read_text()
    try:
        more.write_text(before.replace("id,age,", "id,aged,", 1))
        assert "there is no column 'age'" in check(path, "--model", str(model))["message"]
        table = pandas.read_csv(io.StringIO(before))
        more.write_text(written(table.assign(extra=1.0)))
        assert "column 'extra' was not in the table that was fitted" in check(path, "--model", str(model))["message"]
        more.write_text(written(table[["note", "f1", "city", "id", "age"]]))  # another order is none of these
        assert check(path, "--model", str(model))["ok"]
    finally:
        more.write_text(before)


def test_the_common_nodes_of_all_parties_are_found_from_the_lists_that_each_gives(runs, tmp_path):
    lists = []
    for party in PARTIES:
        lists.append(tmp_path / f"{party}.csv")
        command = ["nodes", "have", "--config", str(runs[0][party]), "--output", str(lists[-1])]
        done = CliRunner().invoke(cli, command)
        assert done.exit_code == 0, done.output
        assert lists[-1].stat().st_mode & 0o077 == 0
    done = CliRunner().invoke(cli, ["nodes", "common", *map(str, lists), "--output", str(tmp_path / "all.csv")])
    assert done.exit_code == 0, done.output
    names = names_of(ALL)
    lacking = {node for nodes in LACKING.values() for node in nodes}
    ends = {node for edge in edges_of(ALL) for node in edge}
    wanted = [names[node] for node in range(ALL) if node not in lacking and node in ends]
    assert (tmp_path / "all.csv").read_text().splitlines() == ["id", *wanted]
