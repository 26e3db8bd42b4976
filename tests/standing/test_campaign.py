"""The campaign on a standing coordinator in its smallest form, and the stored figures of the long one."""

import json
import re
from pathlib import Path

import pytest

from standing.__main__ import FEDERATIONS, MOST, RESULTS, all_at_once
from standing.campaign import PARTIES, Standing, growth, many_runs

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "serve.md"


@pytest.fixture(scope="module")
def stored():
    return json.loads(RESULTS.read_text())


def test_federations_run_at_once_and_a_killed_party_blocks_no_other(fork_server, tmp_path):
    with Standing(tmp_path, fork_server, FEDERATIONS, peer_timeout=8) as standing:
        found = all_at_once(standing, 1)
        log = standing.log("serve")
    assert set(found["seconds"][0]) == set(FEDERATIONS)
    assert len(found["beside_a_killed_party"]) == len(FEDERATIONS)
    assert found["descriptors"][1] < 300
    assert found["threads"][1] < 30
    assert "Traceback" not in log


def test_runs_follow_each_other_on_one_process(fork_server, tmp_path):
    with Standing(tmp_path, fork_server, ["east"]) as standing:
        found = many_runs(standing, "east", 3)
    assert [one["run"] for one in found] == [1, 2, 3]
    assert max(one["descriptors"] for one in found) < 150


def test_growth_compares_the_end_with_the_begin():
    found = [{"memory_mib": 100.0 + (50 if run < 2 else 0.5 * run)} for run in range(40)]
    assert growth(found, "memory_mib") == pytest.approx(16.0)
    assert growth([{"memory_mib": 7.0}] * 40, "memory_mib") == 0


def test_nothing_grew_in_the_stored_campaign(stored):
    row = stored["in_a_row"]
    assert row["runs"] == len(row["each"]) == 200
    for field, most in MOST.items():
        assert round(growth(row["each"], field), 1) == row["growth"][field] <= most
    assert set(stored["at_once"]["seconds"][0]) == set(FEDERATIONS)
    assert len(PARTIES) == 3


def test_the_page_shows_the_stored_figures(stored):
    each = {one["run"]: one for one in stored["in_a_row"]["each"]}
    rows = re.findall(
        r"^\| (\d+) \| ([\d.]+) s \| (\d+) MiB \| (\d+) \| (\d+) \|$", PAGE.read_text(), flags=re.MULTILINE
    )
    assert [int(row[0]) for row in rows] == [1, 10, 50, 100, 200]
    for run, seconds, memory, descriptors, threads in rows:
        one = each[int(run)]
        shown = (float(seconds), int(memory), int(descriptors), int(threads))
        assert shown == (round(one["seconds"], 1), round(one["memory_mib"]), one["descriptors"], one["threads"])
