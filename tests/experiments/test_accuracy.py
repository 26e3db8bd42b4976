"""The study of settings: its graphs, its cells, its smallest form, and the figures of its page."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from experiments.accuracy import page, study
from experiments.joint import graphs
from experiments.joint.planted import DRAWN, OTHER, Planted
from experiments.joint.real import REAL, Real
from experiments.paper.experiment import PUBLIC, Options
from experiments.paper.store import ROOT, Records
from kcagc.errors import DataError


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    return folder, quick(folder)


def quick(folder):
    asked = [sys.executable, "-m", "experiments.accuracy", "--quick", "--results", str(folder)]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_smallest_form_has_every_part_and_a_page(done):
    folder, run = done
    assert run.returncode == 0, run.stderr[-3000:]
    cells = json.loads((folder / "accuracy.json").read_text())["cells"]
    assert {cell["config"]["part"] for cell in cells} == set(study.PARTS)
    assert not [cell for cell in cells if study.refused(cell["result"])]
    text = (folder / "accuracy.md").read_text()
    for heading in ("The filter order", "Weighting of columns", "Restarts", "What was tried and did not help"):
        assert f"## {heading}" in text
    assert (folder / "accuracy" / "psi.svg").stat().st_size > 1000


def test_a_second_run_computes_nothing(done):
    folder, _ = done
    before = (folder / "accuracy.json").read_bytes()
    assert "cells are there" in quick(folder).stderr
    assert (folder / "accuracy.json").read_bytes() == before


def test_no_time_left_starts_one_cell_only(tmp_path):
    asked = [sys.executable, "-m", "experiments.accuracy", "--quick", "--minutes", "0", "--results", str(tmp_path)]
    run = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    assert len(json.loads((tmp_path / "accuracy.json").read_text())["cells"]) == 1


def test_no_graph_was_both_used_to_choose_and_kept_to_check():
    assert sorted(study.NAMES) == sorted({*PUBLIC, *study.CHOSEN, *OTHER, *DRAWN, *REAL})
    assert sum(map(len, study.KINDS.values())) == len(set(study.NAMES))
    seeds = [one.seed for one in (OTHER | DRAWN).values()]
    assert len(set(seeds)) == len(seeds)


def test_every_graph_has_every_order_a_search_and_both_defaults():
    cells = study.cells(Options())
    assert len({json.dumps(cell, sort_keys=True) for cell in cells}) == len(cells)
    for name in {*study.NAMES} - {*REAL}:
        own = [cell for cell in cells if cell["graph"] == name]
        assert {cell["psi"] for cell in own if cell["part"] == "order"} == set(study.ORDERS)
        assert sum(cell["part"] == "search" and cell["weighting"] == "auto" for cell in own) == study.SEARCHES
        runs = [cell for cell in own if cell["part"] == "run"]
        today, before = ([cell for cell in runs if cell["defaults"] == one] for one in (study.TODAY, study.BEFORE))
        assert [one["parties"] for one in today] == [one["parties"] for one in before]
        assert len(today) == (2 if name in study.MANY else 1)


@pytest.mark.parametrize("name", [*OTHER, *list(DRAWN)[::6]])
def test_graphs_of_other_kinds_are_what_they_are_called(name):
    wanted: Planted = (OTHER | DRAWN)[name]
    data = graphs.dataset(name)
    assert (data.n_nodes, data.n_classes) == (wanted.nodes, wanted.classes)
    assert set(data.labels) == set(range(wanted.classes))
    assert abs(data.adjacency - data.adjacency.T).nnz == 0
    assert not data.adjacency.diagonal().any()
    degrees = data.adjacency.sum(axis=1)
    assert degrees.mean() == pytest.approx(wanted.degree, abs=0.1)
    assert (degrees.max() > 15 * degrees.mean()) == wanted.hubs
    rows = sparse.coo_array(data.adjacency)
    within = np.mean(data.labels[rows.row] == data.labels[rows.col])
    if not wanted.triangles:
        assert within == pytest.approx(wanted.homophily, abs=0.06)
    cubed = (data.adjacency @ data.adjacency).multiply(data.adjacency).sum()
    closed = cubed / (degrees * (degrees - 1)).sum()
    assert (closed > 0.075) == (wanted.triangles > 0)
    sizes = np.bincount(data.labels)
    assert (sizes.max() > 2 * sizes.min()) == wanted.unbalanced
    assert sum(data.party_columns) == data.features.shape[1] == wanted.width + wanted.noise
    values = data.features.data if sparse.issparse(data.features) else data.features
    assert np.isfinite(values).all()
    assert data.features.sum() != graphs.dataset("small").features.sum() or name == "small"


def test_a_real_graph_that_is_not_there_is_refused_and_not_part_of_the_study(monkeypatch):
    missing = Real("nothing", read=pytest.fail, available=lambda: False)
    monkeypatch.setitem(REAL, "packages", missing)
    with pytest.raises(DataError, match="packages: its source is not on this machine"):
        missing.build("packages")
    assert "packages" not in {cell["graph"] for cell in study.cells(Options())}


@pytest.mark.parametrize("name", ["digits", "wine", "cancer"])
def test_graphs_of_neighbours_join_rows_of_one_class_mostly(name):
    data = REAL[name].build(name)
    rows = sparse.coo_array(data.adjacency)
    assert abs(data.adjacency - data.adjacency.T).nnz == 0
    assert np.mean(data.labels[rows.row] == data.labels[rows.col]) > 0.85
    assert (data.n_nodes, data.n_classes) == (len(data.labels), len(set(data.labels.tolist())))


def made(path, cells):
    """Return records of these cells."""
    records = Records(path, lambda: {"commit": "none", "when": "today", "machine": "none", "python": "3"})
    for config, result in cells:
        records.add(config, result, 1.0)
    return records


def ordered(psi, accuracy, modularity=0.0, seed=0, graph="cora"):
    config = {"part": "order", "graph": graph, "weighting": "auto", "scaling": "unit", "psi": psi, "seed": seed}
    return config, {"accuracy": accuracy, "modularity": modularity}


def searched(psi, modularity, error, seed=0, graph="cora"):
    config = {"part": "search", "graph": graph, "weighting": "auto", "seed": seed}
    found = {"psi": psi, "values": [1, 3, 5], "modularity": modularity, "error": error}
    return config, found | {"accuracy": 50.0, "auto_seconds": 0.2, "fixed_seconds": 0.1}


def test_the_loss_of_a_rule_is_the_distance_to_the_best_order_of_the_classes(tmp_path):
    orders = [ordered(1, 60.0, 0.1), ordered(3, 70.0, 0.2), ordered(5, 66.0, 0.3), ordered(5, 68.0, 0.1, seed=1)]
    searches = [searched(3, [0.1, 0.4, 0.39], [0.02, 0.0, 0.02]), searched(5, [0.1, 0.35, 0.36], [0.1, 0.02, 0.0], 1)]
    found = {one.rule: one.loss for one in page.losses(made(tmp_path / "a.json", [*orders, *searches]))}
    assert found[page.SEARCH] == pytest.approx((0 + 3) / 2)
    assert found[page.ONE_ERROR] == 0  # ψ = 3 both times
    assert found[page.ALL_EDGES] == pytest.approx(3)  # ψ = 5 both times
    assert (found["1"], found["3"], found["5"]) == (10, 0, 3)
    assert "8" not in found


def test_defaults_are_compared_case_by_case(tmp_path):
    def ran(graph, parties, today, before):
        where = {"part": "run", "graph": graph, "parties": parties, "split": "random", "seed": 0}
        both = ((study.TODAY, today), (study.BEFORE, before))
        return [(where | {"defaults": one}, {"accuracy": accuracy}) for one, accuracy in both]

    cells = [*ran("cora", 2, 70.0, 60.0), *ran("cora", 16, 65.0, 66.0), *ran("hubs", 2, 90.0, 90.0)]
    records = made(tmp_path / "a.json", cells[:-1])
    assert [(one.graph, one.parties) for one in page.pairs(records)] == [("cora", 16), ("cora", 2)]
    records = made(tmp_path / "b.json", cells)
    page.render(records, Records(tmp_path / "none.json"), tmp_path / "accuracy.md")
    text = (tmp_path / "accuracy.md").read_text()
    assert "| public graphs, L = 2 to 4 | 1 | 70.0 | 60.0 | +10.0 | 1 / 0 / 0 | 1.00 / 2.00 | – |" in text
    assert "| **all cases** | 3 | 75.0 | 72.0 | +3.0 | 1 / 1 / 1 | 1.50 / 1.50 | – |" in text
    assert "The study is not complete" in text
