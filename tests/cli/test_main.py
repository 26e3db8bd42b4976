"""Commands in general: help, errors, exit codes, output to files and pipes; and `kcagc datasets`."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kcagc import __version__
from kcagc.cli import roles
from kcagc.cli.main import cli
from kcagc.cli.options import ParameterCommand
from kcagc.datasets import generate
from kcagc.datasets.dataset import write


def run(*arguments):
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


def kcagc(*arguments, **environment):
    """The installed command, as a user starts it."""
    return subprocess.run(
        [sys.executable, "-m", "kcagc", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100", **environment},
    )


def test_the_list_shows_the_file_or_the_download_size_of_each_dataset(monkeypatch):
    monkeypatch.delenv("KCAGC_DATA", raising=False)
    shown = run("datasets", "list").stdout
    assert "comes with kcagc" in shown
    rows = {row["name"]: row for row in json.loads(run("datasets", "list", "--json").stdout)}
    assert "to download, 157.2 kB" in shown
    assert (rows["cora"]["path"], rows["cora"]["download_bytes"]) == (None, 157212)
    assert rows["demo"]["edges"] == 1800


def test_info_of_the_embedded_dataset():
    shown = json.loads(run("datasets", "info", "demo", "--json").stdout)
    assert (shown["nodes"], shown["edges"], shown["features"], shown["classes"]) == (600, 1800, 48, 5)
    assert shown["edges_within_a_class"] == 0.5
    assert Path(run("datasets", "fetch", "demo").stdout.strip()).name == "demo.npz"


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("cora", ("2,708", "5,429", "1,433", "7")),
        ("citeseer", ("3,327", "4,732", "3,703", "6")),
        ("pubmed", ("19,717", "44,338", "500", "3")),
        ("wiki", ("2,405", "17,981", "4,973", "17")),
    ],
)
def test_info_prints_the_counts_of_the_papers_table_1_and_explains_the_edges(name, counts):
    shown = run("datasets", "info", name).stdout
    for count in counts:
        assert count in shown
    assert f"The paper counts {counts[1]} edges: " in shown


def test_an_unknown_dataset_ends_in_one_line_and_its_exit_code():
    done = kcagc("datasets", "info", "coral")
    assert done.returncode == 3
    assert done.stderr.startswith("kcagc: dataset: ")
    assert len(done.stderr.splitlines()) == 1
    assert all(name in done.stderr for name in ("'coral'", "demo", "cora", "citeseer", "pubmed", "wiki"))
    assert done.stdout == ""


def test_a_download_that_fails_ends_in_its_exit_code(tmp_path):
    done = kcagc("datasets", "fetch", "cora", KCAGC_DATA="", KCAGC_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 8
    assert "could not be downloaded" in done.stderr
    assert "KCAGC_DATA" in done.stderr
    assert not any((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("cache", ["/dev/null/x", "/proc/nowhere"])
def test_a_cache_that_cannot_be_used_ends_in_one_line(cache):
    done = kcagc("datasets", "fetch", "cora", KCAGC_DATA="", KCAGC_CACHE=cache)
    assert done.returncode in (3, 8)
    assert len(done.stderr.splitlines()) <= 2
    assert "Traceback" not in done.stderr


def test_output_to_a_file_is_not_cut(tmp_path, monkeypatch):
    folder = tmp_path / ("a_long_name_" * 8)
    folder.mkdir()
    write(generate(20, 2, degree=2), folder / "cora.npz")
    done = kcagc("datasets", "list", KCAGC_DATA=str(folder))
    assert str(folder / "cora.npz") in done.stdout.replace("\n", "").replace(" ", "")


@pytest.mark.parametrize("name", ["we[bold]ird", "we[", "[red]x"])
def test_brackets_in_paths_are_only_brackets(tmp_path, name):
    (tmp_path / name).mkdir()
    write(generate(20, 2, degree=2), tmp_path / name / "cora.npz")
    done = kcagc("datasets", "list", KCAGC_DATA=str(tmp_path / name))
    assert done.returncode == 0
    assert name in done.stdout


def test_a_closed_pipe_prints_no_error():
    writer = subprocess.Popen(
        [sys.executable, "-m", "kcagc", "datasets", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    writer.stdout.close()
    _, said = writer.communicate(timeout=60)
    assert (writer.returncode, said) == (1, "")  # as click does it


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_ends_in_one_line():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kcagc", "datasets", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_ascii_terminal_gets_ascii():
    done = kcagc("datasets", "info", "demo", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "600" in done.stdout


def test_version_and_help():
    assert run("--version").stdout == f"kcagc, version {__version__}\n"
    assert "demo" in run("-h").stdout


def every_command(group=cli, path=()):
    context = click.Context(group, **cli.context_settings)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))


@pytest.mark.parametrize(
    ("path", "command"), [*every_command()], ids=lambda one: " ".join(one) if type(one) is tuple else ""
)
def test_help_of_every_command_describes_it_and_every_option(path, command):
    shown = run(*path, "--help")
    assert shown.exit_code == 0
    plain = " ".join(shown.stdout.split())
    assert " ".join(command.help.split())[:60] in plain
    assert len(command.get_short_help_str(limit=300)) > 20
    for option in command.get_params(click.Context(command, **cli.context_settings)):
        for name in option.opts:
            assert name in plain or name == option.name
        if option.param_type_name == "option":
            assert option.help, f"{path}: {option.name}"
    assert all(name in plain for name in getattr(command, "commands", {}))


def test_help_loads_nothing_heavy():
    """So that it answers at once: numerical libraries take most of a second to import."""
    script = """
import sys
from click.testing import CliRunner
from kcagc.cli.main import cli
for arguments in ARGUMENTS:
    assert CliRunner().invoke(cli, [*arguments, "--help"]).exit_code == 0
print(sorted({"numpy", "scipy", "sklearn", "pooch", "grpc", "cryptography", "pyarrow", "msgspec"} & set(sys.modules)))
"""
    with_parameters = [path for path, command in every_command() if isinstance(command, ParameterCommand)]
    light = [(), *(path for path, _ in every_command() if path not in with_parameters)]
    assert loaded(script, light) == "[]"
    # Options that come from the declaration of run parameters need what that imports, and nothing of a network.
    assert with_parameters == [("init",), ("invite",), ("propose",), ("plan",), ("simulate",), ("diagnose",)]
    heavy = set(re.findall("[a-z]+", loaded(script, with_parameters)))
    assert heavy <= {"numpy", "scipy", "msgspec"}


def loaded(script, arguments):
    command = [sys.executable, "-c", script.replace("ARGUMENTS", repr(arguments))]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_every_run_parameter_is_an_option_of_simulate_with_its_default_and_choices():
    from kcagc.cli.simulate import simulate
    from kcagc.protocol.parameters import PARAMETERS

    options = {one.name: one for one in simulate.get_params(click.Context(simulate, **cli.context_settings))}
    for name, parameter in PARAMETERS.items():
        if name not in ("n_clusters", "graph"):  # the dataset determines them
            assert options[name].opts == [f"--{name.replace('_', '-')}"]
            if name not in ("method", "psi"):  # lists such as "joint,cells"; the sweep checks each value
                assert parameter.meaning in options[name].help
                assert tuple(getattr(options[name].type, "choices", ())) == parameter.choices


def test_the_sizes_of_clusters_are_printed_in_one_line():
    assert roles._sizes("fit", 1200, [300, 500, 400]) == "[bold]1,200 nodes in 3 clusters[/] of 500 400 300"
    assert roles._sizes("predict", 3, [0, 1, 2]) == "[bold]3 new nodes[/]: 1 in cluster 1, 2 in cluster 2"
