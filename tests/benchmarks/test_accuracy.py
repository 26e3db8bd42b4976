"""The accuracy script measures what it prints, shown on a small graph."""

from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from benchmarks import accuracy
from kcagc.datasets import generate

SMALL = generate(150, 3, homophily=0.9, signal=4.0, features=(6, 6), seed=0, name="small")
FACTS = SimpleNamespace(name="small", paper=SimpleNamespace(psi=2, agc=90.0, gcc=100.0))


@pytest.mark.parametrize("method", accuracy.BASELINES)
def test_a_baseline_is_scored_next_to_the_figure_of_the_paper(method):
    row = accuracy.baseline(FACTS, SMALL, method, 2)
    assert row["accuracy"] > 90
    assert row["difference"] == pytest.approx(row["accuracy"] - row["paper"], abs=0.011)
    assert row["order"] == 2 if method == "agc" else row["order"] >= 1


@pytest.mark.parametrize("method", accuracy.PAPER)
def test_a_protocol_is_scored_between_two_parties(method):
    row = accuracy.protocol(SMALL, 2, method, {"n_init": 1}, 2)
    assert row["accuracy"] > 90
    assert row["rounds"] > 1


def test_the_tables_are_printed_and_the_figures_of_the_protocols_stored(monkeypatch, tmp_path):
    monkeypatch.setattr(accuracy, "load", lambda name: SMALL)
    monkeypatch.setattr(accuracy, "entry", lambda name: FACTS)
    monkeypatch.setattr(accuracy, "RESULTS", tmp_path / "collaboration.json")
    done = CliRunner().invoke(accuracy.main, ["small", "--baseline-seeds", "1", "--seeds", "1"], catch_exceptions=False)
    assert done.exit_code == 0
    assert [line.split()[1] for line in done.output.splitlines() if line.startswith("small")] == ["AGC", "GCC"]
    assert done.output.count("restart") == len(accuracy.PAPER) * len(accuracy.VARIANTS)
    assert (tmp_path / "collaboration.json").exists()
