"""Sixteen organisations as sixteen processes: the most that there can be, on a real graph."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from kcagc import KCAGC
from kcagc.datasets import load
from kcagc.datasets.catalog import entry

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "processes.py"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # restored afterwards, with what the benchmark sets
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    spec = importlib.util.spec_from_file_location("processes", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.real_data
def test_sixteen_processes_find_on_cora_what_the_estimator_finds(benchmark):
    figures, labels = benchmark.measure("cora", 16, "k")
    data = load("cora")
    # The processes bring nodes into the order of their ids, which are strings.
    order = np.array(sorted(range(data.n_nodes), key=lambda number: f"person-{number:03}"))
    model = KCAGC(n_clusters=7, n_local_clusters="k", psi=entry("cora").paper.psi, random_state=0)
    model.fit([table[order] for table in data.parties(16)], adjacency=data.adjacency[order][:, order])
    np.testing.assert_array_equal(labels[order], model.labels_)
    assert figures["rounds of a party"] > 10
    assert 0 < figures["milliseconds a round"] < 5000
