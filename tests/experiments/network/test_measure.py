"""Measured runs are real runs: the labels of the estimator, and not a delay less than the protocol has."""

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments.paper.network.measure import common_labels, default_settings, interval, measure, paper_settings
from experiments.paper.network.relay import Network
from experiments.paper.network.roles import MeasuredRole, MeasuredRun, warmed
from kcagc import KCAGC, metrics
from kcagc.datasets import generate, load

NEAR = Network("near", delay=0.0, rate=1000e6)
AWAY = Network("away", delay=0.03, rate=400e6)


@pytest.fixture(scope="module")
def fork_server():
    with warmed() as process:
        yield process


@pytest.fixture(scope="module")
def data():
    return load("demo")


def accuracy_of(data, n_parties, **settings):
    model = KCAGC(n_clusters=data.n_classes, psi=2, **{"random_state": 0, **settings})
    model.fit(data.parties(n_parties), adjacency=data.adjacency)
    return round(metrics.accuracy(data.labels, model.labels_), 4)


def paper(data, **changes):
    return paper_settings(data.n_classes, "k", random_state=0, **changes)


def test_a_coordinator_and_three_parties(fork_server, data):
    found = measure(data, 3, default_settings("k", random_state=0), NEAR, fork_server=fork_server)
    assert found["accuracy"] == accuracy_of(data, 3, n_local_clusters="k")
    assert found["settings"]["psi"] == 2
    assert found["bytes_sent"].keys() == {"party-01", "party-02", "party-03", "coordinator"}
    for name in ("party-01", "party-02", "party-03"):
        assert found["bytes_on_link"][name][0] > found["bytes_sent"][name]  # TLS and frames come on top
        assert found["local_cpu_seconds"][name] > 0
        assert found["local_seconds"][name] < found["seconds"]
        assert found["cpu_seconds"][name] > found["local_cpu_seconds"][name]
        assert 30 < found["peak_megabytes"][name] < 1000
        assert found["commits"][name][0] >= found["rounds"]
    json.dumps(found)


def test_without_a_relay_the_labels_are_the_same(fork_server, data):
    settings = default_settings("k", random_state=0)
    found = measure(data, 3, settings, None, fork_server=fork_server)
    assert found["accuracy"] == accuracy_of(data, 3, n_local_clusters="k")
    assert (found["network"], found["bytes_on_link"]) == ("none", {})


@pytest.mark.parametrize("n_parties", [2, 4])
def test_the_last_party_sums_as_in_the_paper(fork_server, data, n_parties):
    settings = paper(data)
    found = measure(data, n_parties, settings, NEAR, fork_server=fork_server)
    assert found["accuracy"] == accuracy_of(data, n_parties, **settings)
    assert len(found["bytes_sent"]) == n_parties  # there is no coordinator
    assert len(found["bytes_on_link"]) == n_parties - 1
    assert found["sums"] >= found["rounds"] > 0


def test_any_setting_of_the_file_can_be_given(fork_server):
    data = generate(60, 3, degree=6, homophily=0.55, signal=0.9, features=(5, 5), seed=3)
    settings = {"psi": 3, "method": "basic", "max_iter": 2, "n_init": 1, "filter": "norm", "random_state": 1}
    found = measure(data, 2, settings, None, fork_server=fork_server)
    assert found["settings"]["n_clusters"] == 3
    assert found["rounds"] <= 1 + 2 * 2  # the first assignment, and at most two sums in each iteration


@pytest.mark.parametrize("aggregator", ["coordinator", "party"])
def test_every_delay_of_the_protocol_is_in_the_time(fork_server, data, aggregator):
    settings = paper(data) if aggregator == "party" else default_settings("k", random_state=0)
    found = measure(data, 2, settings, AWAY, fork_server=fork_server, trace=True)
    # Hello, comparison, cluster numbers and receipt go there and back at most once each, and so does every sum.
    messages = found["critical_path"]["messages"]
    assert 2 * found["rounds"] < messages <= 8 + 2 * found["rounds"]
    assert found["seconds"] >= messages * AWAY.delay
    parts = ("in_transit", "local_work", "commits", "other_work")
    assert sum(found["critical_path"][part] for part in parts) == pytest.approx(found["seconds"], abs=2e-3)
    assert found["path"].count("\n") == messages
    assert {what for _, what, _ in found["trace"]["party-01"]} >= {"connected", "local begins", "sends", "labels"}


def test_a_role_that_ends_badly_is_quoted_and_the_others_end_too(fork_server, data, tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)party-03 does not listen.*labelled-sums"):
        measure(data, 3, {"aggregator": "party"}, None, fork_server=fork_server, patience=30)
    roles = MeasuredRun(tmp_path, data, 2, {"n_clusters": 5, "psi": 2})
    (tmp_path / "party-02" / "data" / "features.npz").write_bytes(b"")
    with pytest.raises(RuntimeError, match="party-02 ended with exit code"):
        roles.run(fork_server, None, 30)


def test_a_run_that_takes_too_long_is_ended(fork_server, data):
    with pytest.raises(RuntimeError, match="did not end in 0 seconds"):
        measure(data, 2, default_settings("k"), None, fork_server=fork_server, patience=0.01)


def run_roles(name, *events, labels=(0, 1)):
    return MeasuredRole(name, {}, np.array(labels), list(events), 0, 0.0, None)


def test_different_labels_are_refused():
    same = [run_roles("a"), run_roles("b")]
    assert common_labels(same).tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="c has other labels than a"):
        common_labels([*same, run_roles("c", labels=(1, 1))])


def test_the_time_runs_from_the_last_connection_to_the_last_labels():
    one = run_roles("a", (1.0, "connected", "aggregator"), (3.0, "local begins", ""), (9.0, "labels", ""))
    two = run_roles("b", (2.0, "connected", "aggregator"), (3.5, "local begins", ""), (8.0, "labels", ""))
    assert interval([one, two]) == (2.0, 9.0)
    early = run_roles("c", (1.5, "local begins", ""), (2.5, "connected", "aggregator"), (8.0, "labels", ""))
    with pytest.raises(RuntimeError, match="c began its local work before"):
        interval([one, two, early])
    late = run_roles("d", (2.0, "connected", "aggregator"), (2.1, "read ends", ""), (8.0, "labels", ""))
    with pytest.raises(RuntimeError, match="d read its files after"):
        interval([one, late])
