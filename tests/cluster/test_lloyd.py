import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans

from kcagc.cluster import fill_empty, fit_kmeans, run_lloyd, weighted_means
from kcagc.cluster import lloyd as lloyd_module
from kcagc.cluster.lloyd import ROUNDING, assign, canonical_rows, margin_step, squared_distances, squared_norms


def nearest(distances, norms):
    """The definition: distances of a row that differ by no more than rounding are equal, and the lowest number wins."""
    least = distances.min(axis=1)
    return np.argmax(distances <= (least + ROUNDING * (3 * norms + 2 * least))[:, None], axis=1)


def problem(seed, n=60, dimensions=3):
    random = np.random.default_rng(seed)
    return random.standard_normal((n, dimensions)), random.uniform(0.1, 3.0, n)


@given(st.integers(0, 1000), st.integers(1, 6))
def test_it_ends_where_scikit_learn_ends(seed, k):
    rows, weights = problem(seed)
    ours = run_lloyd(rows, weights, rows[:k], max_iter=300)
    theirs = KMeans(k, init=rows[:k], n_init=1, tol=0, max_iter=300).fit(rows, sample_weight=weights)
    assert_array_equal(ours.labels, theirs.labels_)
    assert_allclose(ours.centers, theirs.cluster_centers_, atol=1e-10)
    assert ours.inertia == pytest.approx(theirs.inertia_)
    assert ours.converged


@given(st.integers(0, 1000), st.integers(1, 6))
def test_each_iteration_lowers_the_cost(seed, k):
    rows, weights = problem(seed)
    costs = [run_lloyd(rows, weights, rows[:k], max_iter=rounds).inertia for rounds in range(1, 12)]
    assert (np.diff(costs) <= 1e-9).all()


def test_it_stops_at_max_iter_and_says_so():
    rows, weights = problem(0, n=500)
    cut = run_lloyd(rows, weights, rows[:6], max_iter=2)
    assert (cut.n_iter, cut.converged) == (2, False)
    assert_allclose(cut.centers, weighted_means(rows, weights, cut.labels, rows[:6]))


def test_centres_that_win_nothing_are_given_a_row():
    rows = np.array([[0.0], [1.0], [10.0], [11.0]])
    found = run_lloyd(rows, np.ones(4), np.array([[5.0], [100.0], [200.0]]))
    assert len(np.unique(found.labels)) == 3
    assert found.inertia == pytest.approx(0.5)


def test_the_row_that_fills_an_empty_cluster_is_the_costliest_by_weight():
    rows = np.array([[0.0], [0.1], [2.0], [3.0]])
    found = run_lloyd(rows, np.array([9.0, 9.0, 9.0, 1.0]), np.array([[0.0], [50.0]]), max_iter=1)
    assert_array_equal(found.labels, [0, 0, 1, 0])  # 9 · 2² against 1 · 3²


def test_mirror_images_are_equally_far_whatever_rounding_says():
    random = np.random.default_rng(0)
    for _ in range(50):
        away = random.standard_normal((1, 7))
        rows = random.standard_normal((200, 7))
        rows -= (rows @ away.T) / (away @ away.T) * away  # on the plane between both centres
        labels, _ = assign(rows, np.concatenate([away, -away]))
        assert not labels.any()


def test_an_outlier_does_not_blur_the_others():
    random = np.random.default_rng(0)
    rows = np.concatenate([random.normal(0, 0.05, (50, 2)), random.normal(0.5, 0.05, (50, 2)), [[1e7, 0.0]]])
    found = fit_kmeans(rows, 3, random_state=0)
    assert len(set(found.labels[:50])) == len(set(found.labels[50:100])) == 1
    assert found.labels[0] != found.labels[50]


def test_the_labels_do_not_depend_on_the_block_size(monkeypatch):
    rows, weights = problem(1, n=200)
    whole = run_lloyd(rows, weights, rows[:5])
    monkeypatch.setattr(lloyd_module, "_ROWS", 17)
    assert_array_equal(run_lloyd(rows, weights, rows[:5]).labels, whole.labels)


@given(st.integers(0, 1000), st.integers(1, 5))
def test_the_margin_step_moves_centres_to_the_means_of_rows_that_they_win_by_nine(seed, k):
    rows, weights = problem(seed, dimensions=1)
    centers = rows[:k]
    distances = squared_distances(rows, centers)
    moved = margin_step(rows, weights, centers)
    for cluster in range(k):
        others = np.delete(distances, cluster, axis=1)
        mine = (9 * distances[:, [cluster]] <= others).all(axis=1)
        wanted = weights[mine] @ rows[mine] / weights[mine].sum() if mine.any() else centers[cluster]
        assert_allclose(moved[cluster], wanted)


def test_what_counts_as_rounding_depends_on_the_row_alone():
    """A far-away row must not blur the distances of the others."""
    rows = np.array([[0.0, 0.0], [1e7, 0.0]])
    labels, _ = assign(rows, np.array([[1e-3, 0.0], [0.0, 0.0]]))
    assert_array_equal(labels, [1, 0])
    far = np.array([[0.0, 0.0], [1e7, 0.5], [1e7, -0.5]])
    moved = margin_step(far, np.ones(3), np.array([[0.0, 1e-3], [0.0, 0.0]]))
    assert_array_equal(moved, [[0.0, 1e-3], [0.0, 0.0]])  # the far rows are won by neither centre


def test_a_row_on_two_coinciding_centres_belongs_to_the_lower_number():
    rows = np.array([[0.0], [4.0]])
    moved = margin_step(rows, np.ones(2), np.array([[0.0], [0.0], [3.0]]))
    assert_array_equal(moved, [[0.0], [0.0], [4.0]])


def test_a_centre_that_wins_nothing_clearly_stays():
    rows = np.array([[0.0], [1.0]])
    assert_array_equal(margin_step(rows, np.ones(2), np.array([[0.4], [0.6]])), [[0.4], [0.6]])


def test_a_cluster_without_weight_keeps_its_centre():
    means = weighted_means(np.array([[1.0], [3.0]]), np.array([1.0, 0.0]), np.array([0, 1]), np.array([[9.0], [9.0]]))
    assert_array_equal(means, [[1.0], [9.0]])


def plain_lloyd(rows, weights, centers, max_iter):
    """Every row compared with every centre in every iteration, every mean from nothing."""
    labels = np.full(len(rows), -1)
    for n_iter in range(1, max_iter + 1):
        before = labels
        distances = squared_distances(rows, centers)
        labels = nearest(distances, squared_norms(rows))
        own = np.take_along_axis(distances, labels[:, None], axis=1)[:, 0]
        labels = fill_empty(labels, own * weights, weights, len(centers))
        if np.array_equal(before, labels):
            return labels, centers, n_iter
        centers = weighted_means(rows, weights, labels, centers)
    return labels, centers, max_iter


@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from([1, 2, 5, 100]), st.booleans())
def test_rows_that_are_not_compared_again_have_the_labels_they_would_get(seed, k, max_iter, lattice):
    """On a lattice there are ties in every iteration; far centres make empty clusters."""
    rows, weights = problem(seed, n=150)
    if lattice:
        rows = np.round(2 * rows) / 2
    centers = rows[:k] + np.where(np.arange(k) % 4 == 3, 50.0, 0.0)[:, None]
    labels, centers_wanted, n_iter = plain_lloyd(rows, weights, centers, max_iter)
    found = run_lloyd(rows, weights, centers, max_iter=max_iter)
    assert_array_equal(found.labels, labels)
    assert found.n_iter == n_iter
    assert_allclose(found.centers, centers_wanted, atol=1e-9)


def test_a_heavy_row_that_leaves_a_cluster_takes_nothing_of_the_rest_with_it():
    random = np.random.default_rng(0)
    rows = np.concatenate([random.normal(0, 1, (300, 2)), random.normal(6, 1, (300, 2))])
    weights = np.ones(600)
    weights[[5, 7, 310]] = 1e14
    labels, centers, _ = plain_lloyd(rows, weights, rows[[5, 6, 7, 310]], 100)
    found = run_lloyd(rows, weights, rows[[5, 6, 7, 310]])
    assert_array_equal(found.labels, labels)
    assert_allclose(found.centers, centers, atol=1e-9)


def test_a_share_of_rows_may_still_change_where_that_is_allowed():
    rows, weights = problem(3, n=5000)
    exact, settled = (
        run_lloyd(rows, weights, rows[:8], max_iter=300),
        run_lloyd(rows, weights, rows[:8], tolerance=0.01),
    )
    assert settled.converged
    assert settled.n_iter < exact.n_iter
    assert settled.inertia == pytest.approx(exact.inertia, rel=0.02)
    assert_allclose(settled.centers, weighted_means(rows, weights, settled.labels, rows[:8]))


@given(st.data(), st.integers(1, 12), st.integers(1, 6))
def test_no_cluster_stays_empty_that_could_be_filled(data, n, k):
    labels = np.array(data.draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)))
    costs = np.array(data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)), dtype=float)
    weights = np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=n, max_size=n)))
    filled = fill_empty(labels, costs * weights, weights, k)
    heavy = weights > 0
    assert len(np.unique(filled[heavy])) == min(k, np.count_nonzero(heavy))
    # rows are only ever moved into clusters that were empty, and the rest keep their labels
    was_empty = np.setdiff1d(np.arange(k), labels[heavy])
    moved = filled != labels
    assert np.isin(filled[moved], was_empty).all()
    assert moved.sum() <= len(was_empty)


def test_the_costliest_row_fills_the_first_empty_cluster():
    labels = np.array([0, 0, 0, 3])
    filled = fill_empty(labels, np.array([1.0, 5.0, 3.0, 9.0]), np.ones(4), 4)
    assert_array_equal(filled, [0, 1, 2, 3])
    assert_array_equal(labels, [0, 0, 0, 3])


# Rows in canonical order

tables = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=st.sampled_from([-1.0, -0.0, 0.0, 0.5, 2.0])
)


@given(tables, st.randoms(use_true_random=False))
def test_rows_are_distinct_sorted_and_found_again(rows, random):
    weights = np.array([random.choice([0.1, 0.2, 0.3, 1.0]) for _ in rows])
    distinct, totals, inverse = canonical_rows(rows, weights)
    assert_array_equal(distinct[inverse], rows)
    assert [tuple(row) for row in distinct] == sorted({tuple(row) for row in rows + 0.0})
    for place in range(len(distinct)):
        np.testing.assert_allclose(totals[place], weights[inverse == place].sum())


@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_not_one_bit(rows, random):
    weights = np.array([random.choice([0.1, 0.2, 0.3, 0.7]) for _ in rows])
    order = np.array(random.sample(range(len(rows)), len(rows)))
    distinct, totals, inverse = canonical_rows(rows, weights)
    other_distinct, other_totals, other_inverse = canonical_rows(rows[order], weights[order])
    assert_array_equal(distinct, other_distinct)
    assert totals.tobytes() == other_totals.tobytes()
    assert_array_equal(inverse[order], other_inverse)
