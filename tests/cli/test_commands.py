import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from kcagc import __version__
from kcagc.cli.main import cli


def run(*arguments):
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


def kcagc(*arguments, **environment):
    """The installed command, as a user starts it."""
    return subprocess.run(
        [sys.executable, "-c", "from kcagc.cli.main import main; main()", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100", **environment},
    )


def test_the_demo_shows_that_together_is_better():
    done = kcagc("demo")
    assert done.returncode == 0
    assert "600 nodes, 1,800 edges, 5 hidden classes" in done.stdout
    for who in ("bank alone", "telecom alone", "shop alone", "all pooled"):
        assert who in done.stdout
    assert done.stderr == ""


def test_the_demo_for_scripts():
    rows = json.loads(run("demo", "--json").stdout)
    assert [row["who"] for row in rows] == ["bank", "telecom", "shop", "all pooled"]
    assert rows[3]["accuracy"] > 0.9
    assert max(row["accuracy"] for row in rows[:3]) < 0.8
    assert sum(rows[0]["cluster_sizes"]) == 600


def test_the_demo_fits_a_screen():
    lines = kcagc("demo", COLUMNS="80").stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_the_list_says_where_each_graph_is(monkeypatch):
    monkeypatch.delenv("KCAGC_DATA", raising=False)
    shown = run("datasets", "list").stdout
    assert "comes with kcagc" in shown
    rows = {row["name"]: row for row in json.loads(run("datasets", "list", "--json").stdout)}
    assert rows["cora"]["at"] == "to download, 0.2 MB"
    assert rows["demo"]["edges"] == 1800


def test_info_of_the_embedded_dataset():
    shown = json.loads(run("datasets", "info", "demo", "--json").stdout)
    assert (shown["nodes"], shown["edges"], shown["features"], shown["classes"]) == (600, 1800, 48, 5)
    assert shown["edges_within_a_class"] == 0.5
    assert run("datasets", "fetch", "demo").stdout == "comes with kcagc\n"


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


@pytest.mark.real_data
def test_baselines_prints_our_figure_beside_the_papers():
    (row,) = json.loads(run("baselines", "cora", "--method", "agc", "--seeds", "2", "--json").stdout)
    assert row["dataset"] == "cora"
    assert row["paper"] == 68.17
    assert abs(row["difference"]) <= 0.3
    assert "68.17" in run("baselines", "cora", "--method", "agc", "--seeds", "1").stdout


def test_an_unknown_dataset_ends_in_one_line_and_its_exit_code():
    done = kcagc("datasets", "info", "coral")
    assert done.returncode == 3
    assert done.stderr == "kcagc: dataset: there is none called 'coral'; there are demo, cora, citeseer, pubmed, wiki\n"
    assert done.stdout == ""


def test_a_download_that_fails_ends_in_its_exit_code(tmp_path):
    done = kcagc("datasets", "fetch", "cora", KCAGC_DATA="", KCAGC_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 8
    assert "nothing was kept" in done.stderr
    assert not (tmp_path / "cache").exists()


def test_version_and_help():
    assert run("--version").stdout == f"kcagc, version {__version__}\n"
    assert "demo" in run("-h").stdout


def test_help_loads_nothing_heavy():
    """So that it answers at once: numerical libraries take most of a second to import."""
    script = "import sys, kcagc.cli.main; print(sorted({'numpy', 'scipy', 'sklearn', 'pooch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
