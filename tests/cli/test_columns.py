"""`kcagc columns`, `kcagc nodes all` and `kcagc check` on messy tables: from raw files to data that a run accepts."""

import json

import pytest
from click.testing import CliRunner

from data import messy
from deploy.collaboration import edit, made
from kcagc.cli.main import cli
from kcagc.deploy.config import Config
from kcagc.deploy.run import RoleRun
from kcagc.errors import DataError, KcagcError, ParameterError


def run(*arguments):
    """Run a command; return its result, and its expected error if there was one."""
    done = CliRunner().invoke(cli, list(map(str, arguments)))
    assert done.exception is None or isinstance(done.exception, KcagcError | SystemExit), done.exception
    return done


def check(config):
    found = json.loads(run("check", "--offline", "--json", "--config", config).stdout)
    return next(one for one in found if one["check"] == "data")


@pytest.fixture
def config(tmp_path):
    """The configuration of a party, with the edges and without a table."""
    path = made(tmp_path, data=False)["alice"]
    messy.edges(path.parent / "data" / "edges.csv")
    return path


CASES = [
    (messy.bank, "features.csv", "Kunden-Nr"),
    (messy.shop, "features.csv", "id"),
    (messy.telecom, "features.tsv", "msisdn"),
]


@pytest.mark.parametrize(("make", "name", "ids"), CASES)
def test_from_a_messy_table_to_data_that_a_run_accepts_without_a_rule_by_hand(config, make, name, ids):
    table = make(config.parent / "data" / name)
    done = run("columns", table, "--config", config, "--id-column", ids, "--write")
    assert done.exit_code == 0, done.stderr
    assert "rules to" in done.stderr
    assert check(config)["ok"]
    data = RoleRun(Config.load(config)).data
    assert data.features.shape[0] == messy.ROWS


def test_every_column_is_shown_with_its_rule_and_its_reason(tmp_path):
    table = messy.shop(tmp_path / "a.csv")
    done = run("columns", table)
    assert done.exit_code == 0
    assert "300 rows, 11 columns, ids in 'id'" in done.stdout
    for part in ('thousands = ","', "amount", "log-standard", "skewed", "unreadable", "█", "dates"):
        assert part in done.stdout, part
    found = json.loads(run("columns", table, "--json").stdout)
    assert (found["id_column"], found["csv"], found["problems"]) == ("id", {"thousands": ","}, [])
    assert [one["column"] for one in found["columns"]][:2] == ["signup", "amount"]
    amount = found["columns"][1]
    assert (amount["type"], amount["rule"], sum(amount["histogram"])) == ("numbers", {"scale": "log-standard"}, 300)


def test_an_unclear_number_must_be_answered_before_anything_is_written(config):
    table = config.parent / "data" / "features.csv"
    table.write_text("id,x\n" + "".join(f'{name},"{1 + row % 9},234"\n' for row, name in enumerate(messy.names())))
    before = config.read_text()
    done = run("columns", "--config", config, "--write")
    assert isinstance(done.exception, ParameterError)
    assert "--thousands ',' if '1,234' is 1234, or --decimal ',' if '1,234' is 1.234" in str(done.exception)
    assert config.read_text() == before
    for option, sign, value in (("thousands", ",", 1234), ("decimal", ",", 1.234)):
        config.write_text(before)
        assert run("columns", "--config", config, f"--{option}", sign, "--write").exit_code == 0
        edit(config, r"^columns.x = .*", "columns.x = {}")
        assert RoleRun(Config.load(config)).data.features.min() == value


def test_a_table_without_the_id_column_of_the_configuration_names_the_likely_one(config):
    messy.bank(config.parent / "data" / "features.csv")
    before = config.read_text()
    assert "there is no column 'id' with the ids" in run("columns", "--config", config).stdout
    done = run("columns", "--config", config, "--write")
    assert "--id-column 'Kunden-Nr'" in str(done.exception)
    assert config.read_text() == before
    assert isinstance(run("columns", "--config", config, "--id-column", "nr").exception, ParameterError)


def test_ids_with_a_few_repeats_or_gaps_are_pointed_out(tmp_path):
    ids = [f"n{row}" for row in range(38)] + ["n3", ""]
    (tmp_path / "a.csv").write_text("Kunden-Nr,x\n" + "".join(f"{one},{row % 7}\n" for row, one in enumerate(ids)))
    done = run("columns", tmp_path / "a.csv", "--json")
    assert json.loads(done.stdout)["id_column"] is None
    (note,) = json.loads(done.stdout)["notes"]
    assert note.startswith("'Kunden-Nr' looks like the ids, but 2 rows repeat an id or have none")
    assert "line 41" in run("columns", tmp_path / "a.csv", "--id-column", "Kunden-Nr").stderr


def test_a_table_without_any_ids_lists_its_columns(config):
    (config.parent / "data" / "features.csv").write_text("age,city\n" + "3,ulm\n" * 20)
    said = str(run("columns", "--config", config).exception)
    assert said.endswith("there are 'age', 'city': name one with --id-column")


def test_problems_that_no_rule_settles_are_reported_with_the_exit_code_of_data(config):
    table = config.parent / "data" / "features.csv"
    table.write_text("id,x\na,1\na,2\n,3\n")
    done = run("columns", "--config", config, "--write", "--json")
    assert done.exit_code == DataError.exit_code
    assert {(one["kind"], one["column"]) for one in json.loads(done.stdout)["problems"]} >= {("id", "id")}
    assert "No rule settles these problems" in done.stderr


def test_rules_are_replaced_only_when_asked(config):
    messy.shop(config.parent / "data" / "features.csv")
    assert run("columns", "--config", config, "--write").exit_code == 0
    first = config.read_text()
    assert "--replace" in str(run("columns", "--config", config, "--write").exception)
    assert run("columns", "--config", config, "--write", "--replace").exit_code == 0
    assert config.read_text() == first


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x.csv", "--replace"], "--replace: is for --write"),
        (["x.csv", "--decimal", ";"], "--decimal: must be"),
        (["x.csv"], "there is no such file"),
        (["x.docx"], "x.docx: its name must end in"),
    ],
)
def test_wrong_calls_name_what_is_wrong(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert said in str(run("columns", *arguments).exception)


@pytest.mark.parametrize("arguments", [(), ("--write",), ("x.csv", "--write")])
def test_without_a_configuration_the_error_names_the_folder_and_init(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    said = run("columns", *arguments).output
    assert f"there is no kcagc.toml in {tmp_path}" in said.replace("\n", "")
    assert "kcagc init" in said


def test_the_error_about_nodes_without_a_row_leads_to_a_run_with_all_nodes(config):
    """Each step is the one that the last message names."""
    table = messy.shop(config.parent / "data" / "features.csv")
    messy.edges(config.parent / "data" / "edges.csv", more=("X1", "X2", "X3"))
    assert run("columns", "--config", config, "--write").exit_code == 0
    found = check(config)
    assert not found["ok"]
    assert "3 of " in found["message"]
    assert "`kcagc nodes all`" in found["message"]
    listed = config.parent / "data" / "nodes.csv"
    done = run("nodes", "all", "--config", config, "--output", listed)
    assert f"{listed}: all " in done.stderr
    edit(config, r"^# (node_list = )", r"\1")
    assert check(config)["ok"]  # the proposal has counted with nodes without a row
    edit(config, r"^(columns\.amount = ).*", r"\1{}")
    assert "column 'amount'" in check(config)["message"]
    shown = run("columns", "--config", config, "--write", "--replace")
    assert "3 of " in shown.stdout
    assert check(config)["ok"]
    names = set(listed.read_text().split()) - {"id"}
    data = RoleRun(Config.load(config)).data
    assert set(data.graph.ids.values) == names
    assert {"X1", "X2", "X3"} <= names
    assert table.exists()


def test_check_lists_all_problems_and_prints_them_on_lines_of_their_own(config):
    messy.telecom(config.parent / "data" / "features.tsv")
    edit(config, "features.csv", "features.tsv")
    edit(config, r'^id_column = "id"', 'id_column = "msisdn"')
    found = check(config)
    assert {(one["kind"], one["column"]) for one in found["problems"]} == {
        ("word", "plan"), ("word", "cell"), ("missing", "data_gb")
    }  # fmt: skip
    text = run("check", "--offline", "--config", config).stdout
    assert "\n            column 'plan': 300 cells (line 2 " in text


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_narrow_terminal_gets_fewer_facts_and_whole_names(tmp_path, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    table = messy.shop(tmp_path / "a.csv")
    done = run("columns", table)
    assert done.exit_code == 0
    facts = done.stdout.split("Proposed rules")[0].splitlines()[1:]
    assert max(map(len, facts)) <= width or width == 40
    shown = [line for line in facts if line.startswith("column ") and line.split()[:2] == ["column", "type"]]
    assert len(shown) == 1
    names = table.read_text().splitlines()[0].split(",")[1:]
    firsts = [line.split(" ")[0].strip() for line in facts]
    assert all(name in firsts for name in names if " " not in name), firsts
    assert ("histogram" in shown[0]) == (width > 40)
