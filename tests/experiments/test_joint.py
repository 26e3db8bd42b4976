"""The study of accuracy: its graphs, its cells, its smallest form, and the page in the docs."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from experiments.accuracy.page import PAGE, render
from experiments.joint import graphs, study
from experiments.joint.page import runs
from experiments.paper.experiment import PUBLIC, Options
from experiments.paper.store import RESULTS, ROOT, Records

SMALL = tuple(study.METHODS.keys() - {"tree"})  # two parties form no tree


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    return folder, quick(folder)


def quick(folder):
    asked = [sys.executable, "-m", "experiments.joint", "--quick", "--results", str(folder)]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_smallest_form_has_every_method_and_a_page(done):
    folder, run = done
    assert run.returncode == 0, run.stderr[-3000:]
    cells = json.loads((folder / "joint.json").read_text())["cells"]
    assert {cell["config"]["method"] for cell in cells} == {"reference", "pooled", "alone", *SMALL}
    page = (folder / "accuracy.md").read_text()
    assert "joint, in shares" in page
    assert (folder / "accuracy" / "ratio.svg").stat().st_size > 1000


def test_a_second_run_computes_nothing(done):
    folder, _ = done
    before = (folder / "joint.json").read_bytes()
    assert "cells are there" in quick(folder).stderr
    assert (folder / "joint.json").read_bytes() == before


def test_the_joint_method_is_nearest_to_the_pooled_data(done):
    found = runs(Records(done[0] / "joint.json"))
    ratio = {method: np.mean([run.ratio for run in found if run.method == method]) for method in SMALL}
    assert min(ratio["shares"], ratio["coordinator"]) > 0.97 > max(ratio["cells"], ratio["basic"])


def test_every_graph_is_compared_with_two_and_sixteen_parties_in_both_splits():
    cells = study.cells(Options(seeds=2))
    assert len({json.dumps(cell, sort_keys=True) for cell in cells}) == len(cells)
    for name in (*PUBLIC, "dense-weak-0.5", "words-strong-heavy"):
        for count in (2, 4, 8, 16):
            some = [cell for cell in cells if cell["graph"] == name and cell.get("parties") == count]
            assert {cell["split"] for cell in some} == {"contiguous", "random"}
            assert {cell["seed"] for cell in some} == {0, 1}
            assert {"shares", "coordinator", "cells", "alone"} <= {cell["method"] for cell in some}
    assert {cell.get("parties") for cell in cells if cell["graph"] == "narrow"} == {None, 4}


@pytest.mark.parametrize("name", graphs.GENERATED)
def test_generated_graphs_are_what_they_are_called(name):
    data, split = graphs.dataset(name), graphs.splits(name)[0]
    tables = graphs.parties(name, 2, split)
    assert sum(table.shape[1] for table in tables) == data.features.shape[1]
    lengths = np.sqrt((data.features * data.features).sum(axis=1))
    assert (lengths.max() > 20 * np.median(lengths)) == ("heavy" in name) or "words" in name
    assert (data.n_classes == 2) == (name == "two-classes")
    if name == "zeros":
        assert not tables[2].any()


def test_a_random_split_has_the_same_columns_in_another_order():
    columns = np.hstack(graphs.parties("dense-weak-0.5", 4, "random"))
    whole = graphs.dataset("dense-weak-0.5").features
    assert (columns != whole).any()
    np.testing.assert_array_equal(np.sort(columns, axis=1), np.sort(whole, axis=1))


def test_a_run_that_is_refused_is_kept_with_its_reason():
    cell = {"graph": "zeros", "parties": 3, "split": "given", "method": "shares", "seed": 0}
    assert "party-3" in study.compute(cell)["error"]


def test_the_page_in_the_docs_is_what_the_kept_results_give(tmp_path):
    render(Records(RESULTS / "accuracy.json"), Records(RESULTS / "joint.json"), tmp_path / "docs" / "accuracy.md")
    assert (tmp_path / "docs" / "accuracy.md").read_text() == PAGE.read_text()
    for name in ("ratio", "psi", "defaults"):
        assert (PAGE.parent / "accuracy" / f"{name}.svg").exists()
