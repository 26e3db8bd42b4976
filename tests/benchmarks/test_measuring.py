"""Every benchmark runs in its smallest form, and its figures describe the run."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import (
    breakdown,
    dask,
    delays,
    fit_over_agc,
    joint,
    match,
    million,
    plan,
    scaling,
    startup,
    versions,
)
from benchmarks import (
    filter as filtering,
)
from benchmarks.harness import run_roles
from benchmarks.page import NAMES, benchmark, book, render
from benchmarks.peers import ours
from benchmarks.peers.job import Job
from benchmarks.peers.theirs import PEERS
from benchmarks.presentation import Target
from experiments.paper.experiment import Options
from experiments.paper.network.measure import merges_of, parties_of
from kcagc.datasets.dataset import Dataset

pytestmark = pytest.mark.timeout(300)

DEMO = {"dataset": "demo", "configuration": "default", "parties": 2, "local": "k"}
SMALL = {"nodes": 1500, "degree": 8, "columns": 6, "clusters": 3, "local": 5, "psi": 2}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Return a book with a cell of every benchmark but two: peers need other environments, and one needs a GPU."""
    found = book(tmp_path_factory.mktemp("results"))
    for one, cell in (
        (fit_over_agc, DEMO | {"turns": 1}),
        (breakdown, DEMO),
        (delays, DEMO),
        (versions, DEMO | {"network": "lan", "turns": 1}),
        (joint, {"network": "wan", "dataset": "demo", "parties": 3, "joint_rows": "shares", "turns": 1}),
        (million, SMALL),
        (scaling, {name: value for name, value in SMALL.items() if name != "local"} | {"dtype": "float64"}),
        (startup, {"command": startup.HELP, "times": 1}),
        (plan, plan.cells(Options(quick=True))[0]),
        (filtering, {"nodes": 2000, "dtype": "float32", "degree": 8, "columns": 8, "psi": 2, "turns": 1}),
        (match, {"parties": 2, "ids": 200, "overlap": 0.6}),
        (dask, {"nodes": 2000, "edges": 20_000, "columns": 48, "psi": 2, "compare": True}),
    ):
        found[one.BENCHMARK.name].add(cell, json.loads(json.dumps(one.compute(cell))), 0.0)
    return found


def result(kept, name):
    return next(found for _, found in kept[name].all())


def test_a_fit_is_divided_by_what_was_measured_beside_it(kept):
    found = result(kept, "fit-over-agc")
    assert found["ratio_to_agc"] == pytest.approx(found["fit"] / found["agc"], abs=1e-3)
    assert found["slower"] < found["sum"] < 2 * found["slower"] + 1e-3
    assert found["accuracy"] > 50


def test_the_shares_of_every_role_add_up_to_the_run(kept):
    found = result(kept, "breakdown")
    assert found["shares"].keys() == {"party-01", "party-02", "coordinator"}
    for spent in found["shares"].values():
        assert sum(spent.values()) == pytest.approx(found["seconds"], abs=2e-3)
    for name in ("party-01", "party-02"):
        for kind in ("local work", "joint work", "masking", "encoding", "journal", "network"):
            assert found["shares"][name][kind] > 0, kind
        assert found["bytes_on_wire"][name] > found["bytes_sent"][name]
    assert found["shares"]["coordinator"]["local work"] == 0


def test_the_delays_that_a_run_reports_are_those_of_its_trace(kept):
    found = result(kept, "delays")
    assert found["delays"] == found["reported"] <= found["wanted"]
    assert found["delays"] < found["with_receipts"]
    assert found["seconds"] >= found["on_critical_path"] * found["delay"]


def test_a_joint_run_in_the_wan_takes_its_delays(kept):
    found = result(kept, "joint")
    assert found["on_critical_path"] >= found["delays"] > 2 * found["rounds"]
    assert found["seconds"][0] >= 0.1 * found["delays"]
    assert max(found["bytes_on_link"]["party-01"]) > found["bytes_sent"]["party-01"]


def test_coefficients_are_fitted_to_what_runs_needed(kept):
    runs = list(kept["plan"].all())
    (cell, found), origin = runs[0], {"commit": "0123456789", "when": "now", "machine": "here"}
    coefficients = plan.fitted(runs, origin)
    off = plan.errors(cell, found, coefficients)
    assert 0.4 < off["processor"] < 2.5  # the geometric mean over the parties is 1
    assert off["memory"] == pytest.approx(1.0, rel=0.05)
    assert 0.99 < off["bytes"] < 1.5
    doubled = found | {"cpu_seconds": {name: 2 * spent for name, spent in found["cpu_seconds"].items()}}
    assert plan.errors(cell, doubled, coefficients)["processor"] == pytest.approx(off["processor"] / 2)


def test_a_large_run_is_measured_with_its_parties_alone_beside_it(kept):
    found = result(kept, "million")
    assert len(found["local_alone"]) == 3
    assert 0 < found["bytes_after_labels"] <= found["most_bytes_after_labels"]
    assert found["accuracy"] > 50
    assert set(found["peak_megabytes"]) == {"party-01", "party-02", "party-03", "coordinator"}
    for one in found["joint"].values():
        assert one["accuracy"] > 50
        assert all(one["bytes_both_ways"][name] > sent for name, sent in one["bytes_sent"].items())


def test_the_page_shows_what_there_is_and_names_what_is_not(kept, tmp_path):
    shown = render(kept, tmp_path / "performance.md")
    page = (tmp_path / "performance.md").read_text()
    assert shown == [name for name in NAMES if name not in ("peers", "gpu")]
    assert "## Not measured\n\n`peers`, `gpu`" in page
    for name in shown:
        assert f"`make bench NAME={name}`" in page
    drawn = {path.stem for path in (tmp_path / "performance").iterdir()}
    assert drawn == set(shown) - {"dask", "delays", "filter", "joint", "match", "plan", "startup", "versions"}


def test_the_filter_is_compared_with_a_copy_of_memory(kept):
    found = result(kept, "filter")
    assert found["seconds"].keys() >= {"new"}
    assert found["gathered"] > 0
    assert found["bandwidth"] > 1e8


def test_a_matching_is_compared_with_the_true_intersection(kept):
    found = result(kept, "match")
    assert found["exact"]
    assert found["common"] == 120


def test_a_killed_worker_changes_no_label(kept):
    found = result(kept, "dask")
    assert found["same_after_kill"]
    assert (found["workers_lost"], found["killed"]["workers_lost"]) == (0, 1)
    assert len(found["worker_bytes"]) == dask.WORKERS
    assert found["largest_difference"] < 1e-9
    assert found["seconds"]["all"] >= found["seconds"]["filter"] > 0


def test_bytes_after_the_labels_do_not_depend_on_the_number_of_nodes():
    random = np.random.default_rng(0)
    corners = random.choice([-1.0, 1.0], size=(12, 2, 4)) * 5 + random.standard_normal((12, 2, 4))

    def sent(copies):
        """Twelve places with as many nodes each: the same cells, whatever the number of copies."""
        rows = np.repeat(corners.reshape(12, 8), copies, axis=0)
        n = len(rows)
        data = Dataset("copies", _path(n), rows, np.zeros(n, dtype=np.int64), 3)
        settings = {"n_clusters": 3, "n_local_clusters": 12, "psi": 0, "n_components": 4, "scaling": "unit"}
        parties = parties_of(
            run_roles(
                data, 2, settings | {"accept": ["revealing-labels"], "n_init": 1, "max_iter": 1, "random_state": 0}
            )
        )
        (merge,) = merges_of(parties).values()
        return merge["rows"], merge["rounds"], [million.bytes_after_labels(one) for one in parties]

    few, many = sent(5), sent(500)
    assert few[:2] == many[:2]
    assert few[2] == many[2]


def _path(n):
    """Return a graph that is a line."""
    from scipy import sparse

    return sparse.csr_array(sparse.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1], shape=(n, n)))


def test_the_basic_method_gives_the_labels_of_plain_lloyd():
    job = Job.make(150, 10)
    figures, labels, start = ours.run(job, "basic", 2, counted=True)
    assert len(start) == job.n_clusters
    np.testing.assert_array_equal(labels, job.lloyd(np.array(start), margin=True)[0])
    assert figures["bytes_on_link"]["party-01"][0] > figures["bytes_sent"]["party-01"]


@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer.title != "SPU, ABY3"], ids=lambda peer: peer.title)
def test_a_peer_gives_the_labels_of_plain_lloyd(peer):
    if not peer.installed:
        pytest.skip(f"{peer.environment} is not there: make setup-peers")
    job = Job(Job.make(40, 6).rows, 3, 2)
    found = peer.run(job, [0, 1, 2])
    np.testing.assert_array_equal(found["labels"], job.lloyd(np.array([0, 1, 2]))[0])
    assert found["bytes_sent"] > 0
    assert found["peak_bytes"] > 0


def test_plain_lloyd_counts_the_iterations_that_change_anything():
    rows = np.array([[0.0], [1.0], [10.0], [11.0]])
    labels, changing = Job(rows, 2, 10).lloyd(np.array([0, 1]))
    assert labels.tolist() == [0, 0, 1, 1]
    assert changing == 2
    assert Job(rows, 2, 10).cost(labels) == pytest.approx(1.0)


def test_two_versions_are_compared_turn_by_turn():
    one = {"rounds": 4, "messages": 12, "megabytes": 1.0, "cpu_seconds": 1.0, "accuracy": 0.5}
    result = {"new": one | {"messages": 18, "seconds": [2.0, 9.0, 3.0]}, "old": one | {"seconds": [1.0, 3.0, 3.0]}}
    assert versions.ratios(result) == {"delays": 1.5, "bytes": 1.0, "seconds": 2.0}


def test_a_figure_above_its_limit_is_missed():
    assert Target("x", 2.0, 2.0).met
    assert Target("x", 2.01, 2.0, "s").row() == ["x", "2.01 s", "≤ 2 s", "**missed**"]


@pytest.mark.parametrize("name", NAMES)
def test_a_quick_run_is_smaller(name):
    quick, whole = (benchmark(name).cells(Options(quick=quick)) for quick in (True, False))
    if not whole:
        pytest.skip(benchmark(name).missing())
    assert 0 < len(quick) <= len(whole)
    assert quick != whole
