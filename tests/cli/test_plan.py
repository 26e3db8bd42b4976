"""`kcagc plan` reads sizes, and prints what every role of a run will need."""

import json
import re

import pytest
from click.testing import CliRunner

from kcagc.cli.main import cli
from kcagc.errors import ParameterError

SIZES = ("--nodes", "1e6", "--edges", "10_000_000", "--columns", "64", "--n-clusters", "16")


def run(*arguments):
    return CliRunner().invoke(cli, ["plan", *map(str, arguments)], catch_exceptions=False)


def document(*arguments):
    done = run(*arguments, "--json")
    assert done.exit_code == 0
    return json.loads(done.stdout)


def test_sizes_may_be_written_in_several_ways():
    assert document(*SIZES) == document(
        "--nodes", "1,000,000", "--edges", "1e7", "--columns", 64, "--n-clusters", 16, "--parties", 2
    )


@pytest.mark.parametrize("wrong", ["1.5", "0", "many", "1e13", "nan"])
def test_what_is_no_size_is_refused_and_named(wrong):
    done = run("--nodes", wrong, "--edges", 10, "--columns", 4, "--n-clusters", 2)
    assert done.exit_code == 2
    assert "--nodes" in done.stderr
    assert wrong in done.stderr


def test_impossible_sizes_are_refused():
    with pytest.raises(ParameterError, match="edges: 1,000 edges, but 10 nodes have at most 45"):
        run("--nodes", 10, "--edges", 1000, "--columns", 4, "--n-clusters", 2)


def test_the_table_has_a_line_for_every_role_and_says_what_is_assumed():
    shown = run(*SIZES, "--method", "cells", "--parties", 3, "--psi", 5).stdout
    assert re.search(r"^every party +\S+", shown, flags=re.MULTILINE)
    assert re.search(r"^coordinator +\S+", shown, flags=re.MULTILINE)
    assert re.search(r"cells: [\d,]+ \(assumed; give --cells if you know better\)", shown)
    assert re.search(r"engine: auto, because the table has 64,000,000 values", shown)
    assert "method: cells, because it is set" in shown


def test_the_document_has_the_same_as_the_table():
    found = document(*SIZES, "--psi", 5, "--latency", 100, "--bandwidth", 400)
    assert found["method"] == "joint"
    assert found["seconds"] > found["seconds_of_network"] > 0.1 * found["delays"]
    assert [one["role"] for one in found["roles"]] == ["the first party", "the second party", "coordinator"]
    assert found["slower_than_coefficients"] is None
    shown = run(*SIZES, "--psi", 5, "--latency", 100, "--bandwidth", 400).stdout
    assert f"{found['delays']:,} delays in a row, {found['secure_sums']:,} secure sums" in shown


def test_roles_on_one_machine_have_no_network():
    assert document(*SIZES, "--one-machine", "--latency", 500)["seconds_of_network"] == 0.0


def test_a_number_of_cells_is_taken():
    few, many = (document(*SIZES, "--method", "cells", "--cells", cells) for cells in (200, 1000))
    assert many["roles"][0]["bytes_sent"] > 2 * few["roles"][0]["bytes_sent"]


def test_the_speed_of_this_machine_is_shown():
    shown = run("--nodes", 1000, "--edges", 5000, "--columns", 4, "--n-clusters", 2, "--measure").stdout
    factors = re.search(
        r"This machine takes, compared with .*: products in the cache ([\d.]+) ×, products beyond it ([\d.]+) ×, "
        r"all else ([\d.]+) ×",
        shown,
    ).groups()
    assert all(float(one) > 0 for one in factors)


def test_the_memory_of_the_machine_decides_the_engine():
    assert "has 1.0 GB" in document(*SIZES, "--memory", 1)["engine_reason"]
    assert "has 1.0 GB" not in document(*SIZES, "--memory", 1000)["engine_reason"]
