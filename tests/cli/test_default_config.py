"""Commands of a role find `kcagc.toml` in the working directory, and say what to do if there is none."""

import json
import shutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kcagc.cli.main import cli
from kcagc.deploy.config import Config


def run(*arguments, **environment):
    return CliRunner().invoke(cli, [str(one) for one in arguments], env=environment)


@pytest.fixture(scope="module")
def roles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("default") / "roles"
    assert run("init", folder, "--parties", "alice,bob", "--example-data").exit_code == 0
    return folder


def with_config(command=cli, name=""):
    """The commands that have an option --config, by name."""
    found = {name: command} if any(one.name == "config" for one in command.params) else {}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in command.list_commands(context):
            found |= with_config(command.get_command(context, inner), f"{name} {inner}".strip())
    return found


def test_a_command_in_the_folder_of_a_role_needs_no_option(roles, monkeypatch):
    monkeypatch.chdir(roles / "bob")
    done = run("check", "--offline", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)[0]["check"] == "identity"
    assert "bob (party)" in run("check", "--offline").stdout


def test_an_option_and_the_variable_override_the_working_directory(roles, monkeypatch):
    monkeypatch.chdir(roles / "bob")
    alice = roles / "alice" / "kcagc.toml"
    assert "alice (party)" in run("check", "--offline", "--config", alice).stdout
    assert "alice (party)" in run("check", "--offline", KCAGC_CONFIG=str(alice)).stdout


def test_an_empty_variable_means_the_working_directory(roles, monkeypatch):
    monkeypatch.chdir(roles / "bob")
    assert "bob (party)" in run("check", "--offline", KCAGC_CONFIG="").stdout


# diagnose also takes a dataset, explain and name also a folder of results; verify looks above the folder of a run.
@pytest.mark.parametrize("name", sorted(with_config().keys() - {"diagnose", "explain", "name", "verify"}))
def test_without_a_file_the_error_names_the_folder_and_what_to_do(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = with_config()[name]
    others = [one for one in command.params if one.required and one.name != "config"]
    given = [text for one in others for text in ([one.opts[0], "x"] if isinstance(one, click.Option) else ["x"])]
    done = run(*name.split(), *given)
    assert done.exit_code == 2
    message = " ".join(done.output.replace("\n", " ").split())
    for text in (f"there is no kcagc.toml in {tmp_path}", "--config", "kcagc init"):
        assert text in message
    assert list(tmp_path.iterdir()) == []


def test_a_folder_called_like_the_file_is_not_taken_for_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kcagc.toml").mkdir()
    done = run("check")
    assert done.exit_code == 2
    assert "there is no kcagc.toml" in done.output


def test_help_and_completion_need_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("party", "--help")
    assert done.exit_code == 0
    assert "[default: ./kcagc.toml]" in " ".join(done.output.split())


def test_diagnose_without_a_dataset_reads_the_file_of_the_folder(roles, monkeypatch, tmp_path):
    monkeypatch.chdir(roles / "coordinator")
    done = run("diagnose")
    assert "is the configuration of a coordinator, which has no data to diagnose" in str(done.exception)
    monkeypatch.chdir(tmp_path)
    assert "give either a dataset" in run("diagnose").output


def test_the_configuration_of_the_example_scales_its_columns(roles):
    rules = Config.load(roles / "alice" / "kcagc.toml").document.data.rules()
    assert rules.default.scale == "standard"


def test_columns_in_the_folder_of_a_role_write_its_rules(roles, monkeypatch, tmp_path):
    copy = tmp_path / "bob"
    shutil.copytree(roles / "bob", copy)
    monkeypatch.chdir(copy)
    (copy / "more.csv").write_text("id,age\n" + "".join(f"person-{one:03},{one % 70}\n" for one in range(600)))
    done = run("columns", "more.csv", "--write", "--replace")
    assert done.exit_code == 0, done.output
    assert "age" in Config.load(copy / "kcagc.toml").document.data.columns
    assert Path(Config.load(copy / "kcagc.toml").document.data.features).name == "more.csv"


def test_columns_of_a_table_outside_any_role_need_no_file(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("more.csv").write_text("id,age\n" + "".join(f"p{one},{one % 70}\n" for one in range(100)))
    assert run("columns", "more.csv").exit_code == 0
    assert "there is no kcagc.toml" in run("columns", "more.csv", "--write").output
