"""The decisions that the experiment on restarts takes in one process are those of a run."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import restarts
from experiments.paper.configurations import dataset, order_of
from kcagc import KCAGC
from kcagc.cluster.kmeans import fit_kmeans
from kcagc.datasets import split_columns
from kcagc.metrics import accuracy
from kcagc.protocol.parameters import PARAMETERS, draw_seed


@pytest.mark.parametrize(("method", "parties"), [("cells", 2), ("basic", 3), ("tree", 8)])
@pytest.mark.filterwarnings("ignore")
def test_it_keeps_what_a_run_keeps(method, parties):
    data, cell, seed = dataset("demo"), restarts.Cell("demo", parties, "contiguous"), draw_seed(1)
    local = [fit_kmeans(rows, cell.k_local, random_state=seed, fewer=True).labels for rows in cell.rows]
    options = [(10, 100), (3, 100), (10, 3)]
    for (n_init, max_iter), found in zip(options, cell.run(method, seed, local, options), strict=True):
        settings = {"n_clusters": cell.k, "psi": order_of("demo"), "method": method, "random_state": 1}
        whole = {name: 1 for name in ("min_local_size",) if name in PARAMETERS}  # the experiment joins no clusters
        model = KCAGC(**settings, **whole, n_init=n_init, max_iter=max_iter)
        model.fit(split_columns(data.features, parties), adjacency=data.adjacency)
        assert found["accuracy"] == pytest.approx(100 * accuracy(data.labels, model.labels_), abs=1e-3)
        assert found["winner"] == [merge.n_iter for merge in model.merges_]


def test_one_restart_runs_until_its_labels_stay():
    rows = np.array([[0.0], [1.0], [10.0], [11.0]])
    path = restarts.follow(rows, np.ones(4, dtype=np.int64), np.array([0, 1]), (0, 0))
    assert path.labels[-1].tolist() == [0, 0, 1, 1]
    assert path.costs == sorted(path.costs, reverse=True)
    assert restarts.kept([path], 100).end == len(path.labels)
