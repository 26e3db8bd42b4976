"""The largest collaboration: sixteen parties as sixteen processes on a real graph."""

import json

import numpy as np
import pytest

from kcagc import KCAGC
from kcagc.datasets import load
from kcagc.datasets.catalog import entry
from kcagc.deploy.trial import Trial

PARTIES = [f"party-{number:02}" for number in range(1, 17)]


def labels_of(folder, name):
    lines = (folder / name / "result" / "labels.csv").read_text().splitlines()[1:]
    return {line.split(",")[0]: int(line.split(",")[1]) for line in lines}


@pytest.mark.real_data
def test_sixteen_processes_find_on_cora_what_the_estimator_finds(tmp_path, monkeypatch):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # there are more processes than cores
    monkeypatch.setenv("KCAGC_REPORT", "0")
    data, psi = load("cora"), entry("cora").paper.psi
    settings = {"n_clusters": data.n_classes, "psi": psi, "n_local_clusters": "k"}
    trial = Trial(tmp_path, PARTIES, examples=data, random_state=0, **settings)
    for config in trial.configs.values():  # each party has few columns, and its labels reveal some of them
        config.write_text(config.read_text().replace("accept = []", 'accept = ["revealing-labels"]'))
    with trial.running() as processes:
        for _ in processes.records():
            pass
    first, *others = (labels_of(tmp_path, name) for name in PARTIES)
    assert all(other == first for other in others)

    # The processes bring nodes into the order of their ids, which are strings.
    ids = [f"person-{number:03}" for number in range(data.n_nodes)]
    order = np.array(sorted(range(data.n_nodes), key=ids.__getitem__))
    model = KCAGC(n_clusters=7, n_local_clusters="k", psi=psi, random_state=0, accept=("revealing-labels",))
    model.fit([table[order] for table in data.parties(16)], adjacency=data.adjacency[order][:, order])
    np.testing.assert_array_equal([first[ids[node]] for node in order], model.labels_)
    runs = [json.loads((tmp_path / name / "result" / "run.json").read_text()) for name in PARTIES]
    assert max(run["rounds"] for run in runs) > 10
