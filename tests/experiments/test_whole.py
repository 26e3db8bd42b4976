"""All experiments in their smallest form, as `make reproduce NAME=all QUICK=1 DATASETS=demo` runs them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.paper.experiment import NAMES
from experiments.paper.graphsage import missing
from experiments.paper.page import PAGE, render
from experiments.paper.store import RESULTS, ROOT, Book

pytestmark = pytest.mark.timeout(600)


def reproduce(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    asked = [*names, "--quick", "--datasets", "demo", "--results", str(folder)]
    return subprocess.run(
        [sys.executable, "-m", "experiments.paper", *asked], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    return folder, reproduce(folder, "all")


def test_everything_runs_and_the_page_has_every_section(done):
    folder, run = done
    assert run.returncode == 0, run.stderr[-3000:]
    page = (folder / "paper.md").read_text()
    wanted = [name for name in NAMES if name != "graphsage" or not missing()]
    for name in wanted:
        assert f"`make reproduce NAME={name}`" in page, name
        assert json.loads((folder / f"{name}.json").read_text())["cells"], name


def test_what_was_skipped_is_named(done):
    folder, run = done
    if missing():
        assert "graphsage: skipped, PyTorch is not installed" in run.stderr
        assert "`graphsage`" in (folder / "paper.md").read_text().partition("## Not computed")[2]


def test_every_figure_that_the_page_shows_is_there(done):
    folder, _ = done
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (folder / "paper.md").read_text())
    assert len(shown) >= 4
    for path in shown:
        assert (folder / path).stat().st_size > 1000


def test_a_second_run_computes_nothing(done):
    folder, _ = done
    before = {path.name: path.read_bytes() for path in folder.glob("*.json")}
    again = reproduce(folder, "utility", "lan", "theory")
    assert again.returncode == 0
    assert again.stderr.count("cells are there") == 3
    assert {path.name: path.read_bytes() for path in folder.glob("*.json")} == before


def test_one_that_cannot_run_here_alone_is_an_error(tmp_path):
    if missing():
        assert reproduce(tmp_path, "graphsage").returncode == 1


def test_a_graph_that_nobody_knows_is_an_error_in_words(tmp_path):
    asked = [sys.executable, "-m", "experiments.paper", "datasets", "--datasets", "nowhere", "--results", str(tmp_path)]
    run = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert run.returncode != 0
    assert "nowhere" in run.stderr
    assert "Traceback" not in run.stderr


def test_the_page_in_the_docs_is_what_the_kept_results_give(tmp_path):
    shown = render(Book(RESULTS), tmp_path / "docs" / "paper.md")
    assert (tmp_path / "docs" / "paper.md").read_text() == PAGE.read_text()
    assert set(shown) == set(NAMES), "run what is missing: make reproduce"
    drawn = {path.name for path in (tmp_path / "docs" / "paper").iterdir()}
    assert drawn == {path.name for path in (PAGE.parent / "paper").iterdir()}
