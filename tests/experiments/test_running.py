import json
import os

import pytest
from rich.console import Console

from experiments.paper.experiment import Options
from experiments.paper.running import run
from experiments.paper.store import Records
from toy_experiment import TOY, TOY_ALONE

QUIET = Console(quiet=True)


def test_a_finished_cell_is_not_computed_again(tmp_path):
    records = Records(tmp_path / "toy.json")
    assert run(TOY_ALONE, Options(seeds=3), records, QUIET) == 3
    assert run(TOY_ALONE, Options(seeds=3), Records(tmp_path / "toy.json"), QUIET) == 0
    assert run(TOY_ALONE, Options(seeds=5), Records(tmp_path / "toy.json"), QUIET) == 2


def test_all_cells_are_computed_anew_where_that_is_asked_for(tmp_path):
    records = Records(tmp_path / "toy.json")
    run(TOY_ALONE, Options(seeds=3), records, QUIET)
    assert run(TOY_ALONE, Options(seeds=3), records, QUIET, again=True) == 3
    assert len(records) == 3


def test_what_is_finished_is_kept_when_a_cell_fails(tmp_path):
    with pytest.raises(ValueError, match="unlucky"):
        run(TOY_ALONE, Options(seeds=20), Records(tmp_path / "toy.json"), QUIET)
    assert len(Records(tmp_path / "toy.json")) == 13


def test_cells_run_in_processes_with_one_thread_each_and_timed_ones_here(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    records = Records(tmp_path / "beside.json")
    run(TOY, Options(seeds=4), records, QUIET)
    results = [result for _, result in records.all()]
    assert {result["threads"] for result in results} == {"1"}
    assert os.getpid() not in {result["process"] for result in results}
    assert "OMP_NUM_THREADS" not in os.environ
    alone = Records(tmp_path / "alone.json")
    run(TOY_ALONE, Options(seeds=1), alone, QUIET)
    assert alone.one()["process"] == os.getpid()


def test_a_log_gets_a_line_for_each_cell_with_how_many_are_left(tmp_path, capsys):
    run(TOY_ALONE, Options(seeds=2), Records(tmp_path / "toy.json"), Console(stderr=True))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "seed=0" in lines[0]
    assert lines[0].endswith("1 left")
    assert lines[1].endswith("0 left")


def test_every_cell_says_where_it_was_computed(tmp_path):
    run(TOY_ALONE, Options(seeds=2), Records(tmp_path / "toy.json"), QUIET)
    kept = json.loads((tmp_path / "toy.json").read_text())
    (run_,) = kept["runs"].values()
    assert {"commit", "python", "versions", "machine", "when"} <= set(run_)
    assert all(cell["run"] in kept["runs"] and cell["seconds"] >= 0 for cell in kept["cells"])
