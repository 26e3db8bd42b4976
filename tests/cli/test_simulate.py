"""`kcagc simulate`, as a user and as a script would call it."""

import json
import os
import subprocess
import sys
from typing import get_args

import pytest
from click.testing import CliRunner

from kcagc.cli.main import cli
from kcagc.cli.simulate import simulate
from kcagc.data.preprocessing import Missing, Scale
from kcagc.disclosure.texts import TEXTS
from kcagc.errors import ParameterError


def kcagc(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "kcagc", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )


def simulated(*arguments):
    done = CliRunner().invoke(cli, ["simulate", *arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0
    return json.loads(done.stdout)


def test_a_simulation_prints_results_and_disclosures():
    done = kcagc("simulate")
    assert done.returncode == 0
    assert done.stderr == ""
    text = " ".join(done.stdout.split())
    assert text.startswith(
        "demo: 3 parties, the coordinator aggregates Method joint (joint_rows shares), because it comes"
    )
    assert " cells " not in done.stdout.splitlines()[3]
    assert f"coordinator {TEXTS['message/padded'].learns}" in text
    assert TEXTS["opened/comparisons.blinded"].learns in text
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "weaker" not in done.stdout


def test_a_simulation_for_scripts():
    result = simulated("--n-local-clusters", "1k", "--n-init", "1")
    assert (result["parties"], result["method"], result["local_clusters"]) == (3, "cells", 5)
    assert 0 < result["secure_sums"] < (result["iterations"] + 1) * result["cells"] * 5  # the sums of the paper
    assert result["further_sums"]["other restarts"] == 0
    assert result["accuracy"] == result["runs"][0]["accuracy"] > 75
    assert result["bytes"] == sum(result["bytes_by_role"].values())
    assert result["seconds"] > 0


@pytest.mark.parametrize(("parties", "method"), [(2, "cells"), (4, "tree"), (16, "tree")])
def test_any_number_of_parties(parties, method):
    result = simulated(
        "--parties", str(parties), "--n-local-clusters", "k", "--n-init", "2", "--accept", "revealing-labels"
    )
    assert (result["parties"], result["method"]) == (parties, method)


@pytest.mark.parametrize("rows", ["shares", "coordinator"])
def test_the_joint_method_has_no_cells(rows):
    accept = ["--accept", "anonymous-geometry"] if rows == "coordinator" else []
    options = ["--method", "joint", "--joint-rows", rows, *accept]
    result = simulated(*options, "--holdout", "0.1", "--runs", "2")
    assert (result["method"], result["joint_rows"], result["cells"], result["local_clusters"]) == (
        *("joint", rows, None),
        None,
    )
    assert result["predicted"]["accuracy"] > 70
    shown = CliRunner().invoke(cli, ["simulate", *options], catch_exceptions=False).stdout
    assert f"Method joint (joint_rows {rows}), because it is set." in shown
    assert "contain one node only" not in shown


def test_nodes_of_the_holdout_are_predicted():
    result = simulated("--method", "basic", "--holdout", "0.1", "--n-init", "3")
    assert result["predicted"]["nodes"] == 60
    assert result["predicted"]["secure_sums"] == 60 * (3 + 1 + 1)  # pairs of 3 and of 2 centres, then the winners
    assert result["predicted"]["accuracy"] > 70


def test_several_runs_have_a_mean():
    result = simulated("--runs", "3", "--n-init", "2")
    assert [run["seed"] for run in result["runs"]] == [0, 1, 2]
    assert result["accuracy"] == pytest.approx(sum(run["accuracy"] for run in result["runs"]) / 3, abs=0.01)


def test_the_papers_configuration_and_its_ledger(tmp_path):
    done = kcagc("simulate", "--paper", "--parties", "2", "--ledger", str(tmp_path / "run.jsonl"))
    assert done.returncode == 0
    assert "the last party aggregates" in done.stdout
    assert "more than the default" in done.stdout
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert any(line["kind"] == "opened/comparisons.two-party" and line["weaker"] for line in lines)


def test_a_risk_that_is_not_accepted_is_named_with_exit_code_4():
    done = kcagc("simulate", "--aggregator", "party")
    assert done.returncode == 4
    assert '"labelled-sums"' in done.stderr
    assert done.stdout == ""
    assert kcagc("simulate", "--aggregator", "party", "--accept", "labelled-sums").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--n-local-clusters", "2x"], "n_local_clusters"),
        (["--n-local-clusters", "1"], "n_local_clusters"),
        (["--accept", "everything"], "there is no risk 'everything'"),
        (["--parties", "1"], "--parties"),
        (["--method", "magic"], "method: must be"),
        (["--psi", "two"], "psi: must be"),
    ],
)
def test_wrong_options_end_with_exit_code_two(arguments, words):
    done = CliRunner().invoke(cli, ["simulate", *arguments])
    assert getattr(done.exception, "exit_code", done.exit_code) == 2
    assert words in (str(done.exception) if isinstance(done.exception, ParameterError) else done.output)


def test_the_rules_for_tables_are_those_of_a_configuration():
    choices = {option.name: getattr(option.type, "choices", ()) for option in simulate.params}
    assert tuple(choices["scale"]) == get_args(Scale)
    assert tuple(choices["missing"]) == get_args(Missing)
