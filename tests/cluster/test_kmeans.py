"""The promises of the k-means that everything else rests on."""

import os
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_info, threadpool_limits

from kcagc import metrics
from kcagc.cluster import fit_kmeans
from kcagc.cluster import kmeans as kmeans_module
from kcagc.errors import DataError, ParameterError


def rows_with_repeats(seed, n=40, dimensions=2):
    random = np.random.default_rng(seed)
    rows = np.round(random.standard_normal((n, dimensions)), 1)
    return rows[random.integers(n // 2, size=n)]


@given(st.integers(0, 10_000), st.integers(1, 5), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(seed, k, random):
    rows = rows_with_repeats(seed)
    order = np.array(random.sample(range(len(rows)), len(rows)))
    one = fit_kmeans(rows, k, n_init=2, random_state=seed)
    other = fit_kmeans(rows[order], k, n_init=2, random_state=seed)
    assert_array_equal(one.labels[order], other.labels)
    assert one.centers.tobytes() == other.centers.tobytes()


@given(st.integers(0, 10_000), st.integers(1, 5))
def test_a_weight_is_as_many_copies_of_the_row(seed, k):
    random = np.random.default_rng(seed)
    rows, weights = rows_with_repeats(seed), random.integers(1, 5, size=40)
    weighted = fit_kmeans(rows, k, weights=weights, n_init=2, random_state=seed)
    copied = fit_kmeans(np.repeat(rows, weights, axis=0), k, n_init=2, random_state=seed)
    assert_array_equal(np.repeat(weighted.labels, weights), copied.labels)
    assert weighted.centers.tobytes() == copied.centers.tobytes()
    assert weighted.inertia == copied.inertia


@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from([0.25, 2.0, 1024.0]))
def test_scaled_weights_change_nothing(seed, k, factor):
    rows, weights = rows_with_repeats(seed), np.random.default_rng(seed).uniform(0.5, 2, 40)
    one = fit_kmeans(rows, k, weights=weights, n_init=2, random_state=seed)
    other = fit_kmeans(rows, k, weights=factor * weights, n_init=2, random_state=seed)
    assert_array_equal(one.labels, other.labels)


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_a_row_without_weight_is_labelled_and_moves_nothing(seed, k):
    rows = rows_with_repeats(seed)
    extra = np.random.default_rng(seed).standard_normal((7, 2)) * 5
    alone = fit_kmeans(rows, k, n_init=2, random_state=seed)
    joined = fit_kmeans(np.concatenate([rows, extra]), k, weights=[1] * 40 + [0] * 7, n_init=2, random_state=seed)
    assert_array_equal(joined.labels[:40], alone.labels)
    assert_allclose(joined.centers, alone.centers, atol=1e-12)
    away = ((extra[:, None] - joined.centers) ** 2).sum(axis=2)
    assert_array_equal(joined.labels[40:], away.argmin(axis=1))


def test_one_and_two_threads_give_the_same_labels_in_one_process():
    rows = np.random.default_rng(0).standard_normal((20_000, 12))
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(fit_kmeans(rows, 9, n_init=2, random_state=0))
    assert_array_equal(found[0].labels, found[1].labels)


@pytest.mark.parametrize("dataset", ["demo", "generated"])
def test_the_whole_of_protocol_1_gives_the_same_labels_for_any_thread_count(dataset):
    """In processes of their own, because some libraries read the number of threads only when they start."""
    script = f"""
import hashlib
from kcagc.cluster import cluster_locally
from kcagc.datasets import generate, load
from kcagc.graph import HalfFilter
data = load("demo") if {dataset!r} == "demo" else generate(5000, 6, features=40, homophily=0.6, seed=5)
found = cluster_locally(data.adjacency, data.features, data.n_classes, filter=HalfFilter(3), random_state=0)
print(hashlib.sha256(found.labels.astype("<i8").tobytes()).hexdigest())
"""
    answers = {
        subprocess.run(
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "OMP_NUM_THREADS": threads,
                "OPENBLAS_NUM_THREADS": threads,
            },
        ).stdout
        for threads in ("1", "2", "3")
    }
    assert len(answers) == 1


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e200])
def test_rows_and_weights_of_any_magnitude_give_the_same_labels(scale):
    rows, weights = rows_with_repeats(0), np.random.default_rng(0).uniform(0.5, 2, 40)
    plain = fit_kmeans(rows, 3, weights=weights, random_state=0)
    found = fit_kmeans(rows * scale, 3, weights=weights * 1e300, random_state=0)
    assert metrics.accuracy(found.labels, plain.labels) == 1.0
    assert_allclose(found.centers / scale, plain.centers, atol=1e-9)


def test_rows_that_differ_by_rounding_are_one_row():
    almost = np.array([[1.0], [1.0 - 1e-16], [1.0 + 2.3e-16], [-1.0]])
    with pytest.raises(DataError, match="3 clusters requested, but there are 2 distinct rows"):
        fit_kmeans(almost, 3)


def test_each_part_of_protocol_1_is_used(monkeypatch):
    rows = np.random.default_rng(0).standard_normal((50, 2))
    used = []

    def recorded(name):
        original = getattr(kmeans_module, name)

        def wrapper(*arguments, **more):
            used.append((name, arguments))
            return original(*arguments, **more)

        monkeypatch.setattr(kmeans_module, name, wrapper)

    for name in ("plus_plus", "local_search", "margin_step", "run_lloyd"):
        recorded(name)
    fit_kmeans(rows, 3, n_init=2, random_state=0)
    assert [name for name, _ in used] == ["plus_plus", "local_search", "margin_step", "run_lloyd"] * 2
    assert used[1][1][3] == 3  # as many swaps as clusters
    used.clear()
    fit_kmeans(rows, 3, n_init=1, n_swaps=5, margin=False, random_state=0)
    assert [name for name, _ in used] == ["plus_plus", "local_search", "run_lloyd"]
    assert used[1][1][3] == 5


def test_of_equally_good_starts_the_first_wins(monkeypatch):
    rows = np.random.default_rng(0).standard_normal((50, 2))
    costs = iter([5.0, 5.0 * (1 - 1e-13), 4.0, 4.0 * (1 - 1e-13)])
    original = kmeans_module.run_lloyd

    def graded(*arguments, **more):
        return replace(original(*arguments, **more), inertia=next(costs), n_iter=len(seen))

    seen = []
    monkeypatch.setattr(kmeans_module, "run_lloyd", lambda *a, **m: (seen.append(1), graded(*a, **m))[1])
    assert fit_kmeans(rows, 3, n_init=4, random_state=0).n_iter == 3


def test_memory_is_a_few_copies_of_the_rows():
    rows = np.random.default_rng(0).standard_normal((400_000, 4))
    tracemalloc.start()
    try:
        fit_kmeans(rows, 60, n_init=1, n_swaps=2, max_iter=3, random_state=0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 13 * rows.nbytes  # labels and norms make up for the few columns; an n × k matrix would add 15


def test_of_many_rows_the_starts_compete_on_a_sample_and_all_rows_are_clustered(monkeypatch):
    random = np.random.default_rng(0)
    rows = random.standard_normal((9000, 3)) + 4 * random.standard_normal((8, 3))[random.integers(8, size=9000)]
    whole = fit_kmeans(rows, 8, random_state=0)
    monkeypatch.setattr(kmeans_module, "KMEANS_ALL", 5000)
    monkeypatch.setattr(kmeans_module, "KMEANS_SAMPLE", 1000)
    sampled = fit_kmeans(rows, 8, random_state=0)
    assert sampled.inertia < 1.01 * whole.inertia
    away = ((rows[:, None] - sampled.centers) ** 2).sum(axis=2)
    assert np.mean(away.argmin(axis=1) != sampled.labels) < 0.005
    order = random.permutation(9000)
    assert_array_equal(fit_kmeans(rows[order], 8, random_state=0).labels, sampled.labels[order])


def test_of_a_sample_with_too_few_different_rows_nothing_is_made(monkeypatch):
    monkeypatch.setattr(kmeans_module, "KMEANS_ALL", 50)
    monkeypatch.setattr(kmeans_module, "KMEANS_SAMPLE", 20)
    rows = np.random.default_rng(0).standard_normal((100, 2))
    found = fit_kmeans(rows, 4, weights=np.where(np.arange(100) == 3, 1e9, 1e-9), random_state=0)
    assert len(np.unique(found.labels)) == 4


def test_linear_algebra_keeps_to_one_core_and_gets_its_threads_back():
    def threads():
        return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]

    before, during = threads(), []
    rows = np.random.default_rng(0).standard_normal((50, 2))
    original = kmeans_module.run_lloyd

    def spied(*arguments, **more):
        during.extend(threads())
        return original(*arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kmeans_module, "run_lloyd", spied)
        fit_kmeans(rows, 3, n_init=1, random_state=0)
    assert set(during) == {1}
    assert threads() == before


def test_ties_do_not_hang_on_rounding():
    """Points on a lattice, each centre equally far from many: the same answer from every rotation of the work."""
    grid = np.array([(x, y) for x in range(12) for y in range(12)], dtype=float) / 7
    answers = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            answers.append(fit_kmeans(grid, 4, random_state=1).labels)
    assert_array_equal(answers[0], answers[1])


def test_it_finds_planted_clusters():
    random = np.random.default_rng(3)
    labels = random.integers(6, size=600)
    rows = random.standard_normal((600, 4)) + 9 * random.standard_normal((6, 4))[labels]
    assert metrics.accuracy(labels, fit_kmeans(rows, 6, random_state=0).labels) == 1.0


def test_it_is_no_worse_than_scikit_learn_on_average():
    costs = []
    for seed in range(10):
        rows = np.random.default_rng(seed).standard_normal((300, 3))
        ours = fit_kmeans(rows, 8, random_state=seed).inertia
        costs.append(ours / KMeans(8, n_init=10, random_state=seed).fit(rows).inertia_)
    assert np.mean(costs) < 1.005


def test_data_far_from_the_origin_lose_no_digits():
    random = np.random.default_rng(4)
    labels = random.integers(3, size=200)
    rows = random.standard_normal((200, 2)) * 0.1 + np.array([[0, 0], [1, 0], [0, 1]])[labels]
    assert_array_equal(fit_kmeans(rows, 3, random_state=0).labels, fit_kmeans(rows + 2.0**20, 3, random_state=0).labels)


def test_what_a_role_computes_with_is_imported_without_scikit_learn():
    """It takes longer to import than a role takes to cluster."""
    script = "import sys, kcagc.deploy.run; print(sorted({'sklearn', 'pandas'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


def test_more_starts_cost_no_more():
    rows = np.random.default_rng(5).standard_normal((400, 5))
    few, many = (fit_kmeans(rows, 10, n_init=starts, n_swaps=0, random_state=0).inertia for starts in (1, 20))
    assert many <= few


def test_without_a_seed_every_run_draws_anew_and_with_one_none_does():
    rows = np.random.default_rng(6).standard_normal((200, 5))
    fixed = {fit_kmeans(rows, 8, n_init=1, random_state=7).inertia for _ in range(5)}
    free = {fit_kmeans(rows, 8, n_init=1).inertia for _ in range(10)}
    assert len(fixed) == 1
    assert len(free) > 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"k": 4}, DataError, "4 clusters requested, but there are 3 distinct rows"),
        ({"k": 0}, ParameterError, "n_clusters"),
        ({"k": 5}, DataError, "5 clusters requested, but there are 4 rows"),
        ({"k": 1, "rows": np.zeros((0, 2))}, DataError, "1 clusters requested, but there are 0 rows"),
        ({"k": 2, "rows": [1.0, 2.0]}, DataError, "rows: must have two dimensions"),
        ({"k": 2, "rows": [[1.0], [np.nan]]}, DataError, "rows: the value in row 1, column 0 is nan"),
        ({"k": 2, "n_init": 0}, ParameterError, "n_init"),
        ({"k": 2, "random_state": -1}, ParameterError, "random_state: must be None, a whole number"),
        ({"k": 2, "random_state": "now"}, ParameterError, "random_state: must be None, a whole number"),
        ({"k": 2, "max_iter": 0}, ParameterError, "max_iter"),
        ({"k": 2, "n_swaps": -1}, ParameterError, "n_swaps"),
        ({"k": 2, "weights": [1, 1]}, DataError, "4 rows but weights of shape"),
        ({"k": 2, "weights": [1, 1, -1, 1]}, DataError, "row 2 has weight -1.0"),
        ({"k": 2, "weights": [1, np.nan, 1, 1]}, DataError, "row 1 has weight nan"),
        ({"k": 3, "weights": [1, 0, 1, 1]}, DataError, "3 clusters requested, but there are 2 distinct rows"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message):
    rows = arguments.pop("rows", [[0.0], [1.0], [2.0], [2.0]])
    with pytest.raises(error, match=message):
        fit_kmeans(rows, arguments.pop("k"), **arguments)
