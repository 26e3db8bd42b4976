import networkx
import numpy as np
import pandas
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from data.tensors import Data, Tensor
from kcagc import metrics
from kcagc.baselines import AGC, GCC, MS2CAG, S2GC
from kcagc.cluster import PSI_GRID, fit_kmeans
from kcagc.cluster.joint import run_restarts
from kcagc.datasets import generate
from kcagc.errors import DataError, ParameterError
from kcagc.graph import Graph

ALL = [AGC, GCC, S2GC, MS2CAG]


@parametrize_with_checks([AGC(n_clusters=3, method="joint"), *(make(n_clusters=3, n_init=2) for make in ALL)])
def test_the_conventions_of_scikit_learn_hold(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def planted():
    return generate(300, 3, homophily=0.8, signal=4, features=20, seed=1)


@pytest.mark.parametrize("make", ALL)
def test_planted_communities_are_found(make, planted):
    found = make(n_clusters=3, random_state=0).fit(planted.features, adjacency=planted.adjacency)
    assert metrics.accuracy(planted.labels, found.labels_) > 0.97


@pytest.mark.parametrize("make", ALL)
def test_sparse_dense_and_graph_objects_give_the_same_labels(make, planted):
    words = generate(300, 3, homophily=0.8, signal=9, features=60, sparsity=0.8, seed=1)
    model = make(n_clusters=3, random_state=0)
    wanted = clone(model).fit(words.features.toarray(), adjacency=words.adjacency).labels_
    for features in (words.features, sparse.csc_matrix(words.features)):
        for graph in (words.adjacency, sparse.coo_matrix(words.adjacency), Graph.from_matrix(words.adjacency)):
            assert_array_equal(clone(model).fit(features, adjacency=graph).labels_, wanted)


@pytest.mark.parametrize("make", ALL)
def test_graphs_of_other_libraries_are_taken(make, planted):
    wanted = make(n_clusters=3, random_state=0).fit(planted.features, adjacency=planted.adjacency).labels_
    graph = networkx.from_scipy_sparse_array(planted.adjacency)
    data = Data(edge_index=Tensor(np.vstack(planted.adjacency.nonzero())), num_nodes=300)
    for given in (graph, data):
        found = make(n_clusters=3, random_state=0).fit(planted.features, adjacency=given)
        assert_array_equal(found.labels_, wanted)


@pytest.mark.parametrize("make", ALL)
def test_labels_are_in_the_order_of_the_rows_and_nodes_are_found_by_their_names(make, planted):
    names = [f"n{number:03}" for number in range(300)]
    model = make(n_clusters=3, random_state=0)
    graph = Graph.from_matrix(planted.adjacency, ids=names)
    frame = pandas.DataFrame(planted.features, index=names).rename(columns=str)
    wanted = dict(zip(names, clone(model).fit(frame, adjacency=graph).labels_.tolist(), strict=True))
    shuffled = frame.sample(frac=1, random_state=0)
    found = clone(model).fit(shuffled, adjacency=graph).labels_
    expected = [wanted[name] for name in shuffled.index]
    assert metrics.accuracy(expected, found) == 1.0
    numbered = shuffled.set_axis([names.index(name) for name in shuffled.index])
    assert metrics.accuracy(expected, clone(model).fit(numbered, adjacency=planted.adjacency).labels_) == 1.0
    with pytest.raises(DataError, match="X: index: no node has the id 'm000'"):
        clone(model).fit(frame.rename(index={"n000": "m000"}), adjacency=graph)


@pytest.mark.parametrize("make", ALL)
def test_the_graph_must_fit(make, planted):
    with pytest.raises(ValueError, match="adjacency: has 300 nodes, but X has 299 rows"):
        make(n_clusters=3).fit(planted.features[:-1], adjacency=planted.adjacency)
    with pytest.raises(DataError, match="must be symmetric"):
        make(n_clusters=3).fit(planted.features, adjacency=sparse.triu(planted.adjacency))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (AGC(0), "n_clusters: must be a whole number, 1 or more, not 0"),
        (AGC(3, psi=-1), "psi"),
        (AGC(3, max_psi=0), "max_psi"),
        (AGC(3, scaling="V"), "scaling"),
        (AGC(3, n_init=0), "n_init"),
        (AGC(3, max_iter=2.5), "max_iter"),
        (GCC(True), "n_clusters"),
        (GCC(3, power=-1), "power"),
        (GCC(3, max_power=0), "max_power"),
        (GCC(3, weighting="yes"), "weighting: must be 'auto', 'idf' or 'none', not 'yes'"),
        (AGC(3, weighting=True), "weighting: must be 'auto', 'idf' or 'none', not True"),
        (GCC(3, tol=-1.0), "tol"),
        (S2GC(3, power=None), "power: must be a whole number, 0 or more, not None"),
        (S2GC(3, alpha=1.5), "alpha: must be a number from 0 to 1, not 1.5"),
        (S2GC(3, n_components=0), "n_components"),
        (S2GC(3, n_init=0), "n_init"),
        (MS2CAG(3, power=-1), "power"),
        (MS2CAG(3, alpha=-0.5), "alpha: must be a number from 0 to 100, not -0.5"),
        (MS2CAG(3, gamma=2), "gamma: must be a number from 0 to 1, not 2"),
        (MS2CAG(3, max_iter=0), "max_iter"),
    ],
)
def test_parameters_are_checked_when_fitting(model, message, planted):
    with pytest.raises(ParameterError, match=message):
        model.fit(planted.features, adjacency=planted.adjacency)


def test_the_adaptive_order_is_reported(planted):
    seen = []
    found = AGC(3, random_state=0).fit(
        planted.features, adjacency=planted.adjacency, progress=lambda order, distance: seen.append(order)
    )
    assert found.psi_ >= 1
    assert len(found.intra_distances_) in (found.psi_, found.psi_ + 1)
    assert seen == list(range(1, len(found.intra_distances_)))
    fixed = AGC(3, psi=found.psi_, random_state=0).fit(planted.features, adjacency=planted.adjacency)
    assert metrics.accuracy(fixed.labels_, found.labels_) == 1.0


def test_without_a_graph_nothing_is_filtered(planted):
    with pytest.warns(UserWarning, match="psi=5 has no effect without adjacency"):
        found = AGC(3, psi=5, random_state=0).fit(planted.features)
    alone = AGC(3, psi=0, random_state=0).fit(planted.features, adjacency=planted.adjacency)
    assert found.psi_ == 0
    assert_array_equal(found.labels_, alone.labels_)


@pytest.mark.parametrize("make", ALL)
def test_a_graph_in_the_place_of_y_is_refused(make, planted):
    for graph in (planted.adjacency, Graph.from_matrix(planted.adjacency)):
        with pytest.raises(ParameterError, match=r"fit\(X, adjacency=\.\.\.\)"):
            make(3).fit(planted.features, graph)


def test_all_orders_are_clustered_from_one_seed_without_the_margin_step(planted, monkeypatch):
    """A choice among orders must not be one among lucky starts; and AGC has no 1/9 step."""
    calls = []

    def recorded(rows, k, **more):
        calls.append(more)
        return fit_kmeans(rows, k, **more)

    monkeypatch.setattr("kcagc.cluster.local.fit_kmeans", recorded)
    AGC(3, max_psi=4, n_init=2, max_iter=17, random_state=np.random.RandomState(0)).fit(
        planted.features, adjacency=planted.adjacency
    )
    assert len(calls) == 4
    assert all(call == calls[0] for call in calls)
    assert (calls[0]["margin"], calls[0]["n_init"], calls[0]["max_iter"]) == (False, 2, 17)


def test_a_choice_that_stopped_at_its_limit_says_so(planted):
    for limit, stopped in ((1, True), (60, False)):
        found = GCC(3, max_power=limit, random_state=0).fit(planted.features, adjacency=planted.adjacency)
        assert found.at_limit_ == stopped
    assert AGC(3, max_psi=1, random_state=0).fit(planted.features, adjacency=planted.adjacency).at_limit_


def test_the_embedding_is_the_left_singular_vectors(planted):
    found = AGC(3, psi=2, random_state=0).fit(planted.features, adjacency=planted.adjacency)
    np.testing.assert_allclose(found.embedding_.T @ found.embedding_, np.eye(3), atol=1e-10)
    for label in range(3):
        np.testing.assert_allclose(found.embedding_[found.labels_ == label].mean(axis=0), found.cluster_centers_[label])


@pytest.mark.parametrize("method", ["agc", "joint"])
def test_an_order_that_is_searched_is_the_one_of_the_search_and_leads_to_its_clusters(method, planted):
    model = AGC(3, psi="auto", method=method, random_state=0).fit(planted.features, adjacency=planted.adjacency)
    assert model.psi_ == model.psi_search_.psi
    assert (model.psi_search_.values, model.intra_distances_) == (PSI_GRID, [])
    fixed = AGC(3, psi=model.psi_, method=method, random_state=0).fit(planted.features, adjacency=planted.adjacency)
    assert_array_equal(model.labels_, fixed.labels_)
    assert fixed.psi_search_ is None


def test_a_search_that_cannot_work_is_refused_with_a_reason(planted):
    with pytest.raises(ParameterError, match="pass adjacency"):
        AGC(3, psi="auto").fit(planted.features)
    with pytest.raises(ParameterError, match="one cluster is the same at every order"):
        AGC(1, psi="auto").fit(planted.features, adjacency=planted.adjacency)
    with pytest.raises(ParameterError, match="psi: must be"):
        AGC(3, psi="best").fit(planted.features, adjacency=planted.adjacency)
    with pytest.raises(ParameterError, match="power"):
        GCC(3, power="auto").fit(planted.features, adjacency=planted.adjacency)
    path = Graph.from_edges(range(99), range(1, 100))
    with pytest.raises(DataError, match="has 99 edges, and a search needs 100"):
        AGC(3, psi="auto").fit(planted.features[:100], adjacency=path)


def test_a_search_on_a_graph_of_many_nodes_clusters_the_ends_of_held_out_edges_only(monkeypatch):
    data = generate(6000, 3, homophily=0.8, signal=3, features=20, seed=1)
    rows = []

    def recorded(some, k, seed, plan):
        rows.append(len(some))
        return run_restarts(some, k, seed, plan)

    monkeypatch.setattr("kcagc.cluster.search.run_restarts", recorded)
    found = AGC(3, psi="auto", random_state=0).fit(data.features, adjacency=data.adjacency)
    assert len(rows) == len(PSI_GRID)
    assert max(rows) <= 5000
    assert metrics.accuracy(data.labels, found.labels_) > 0.97


def test_cells_that_cannot_be_clustered_are_named_with_their_column_and_what_to_do():
    frame = pandas.DataFrame({"age": np.arange(30.0), "city": ["ulm"] * 30}, index=[f"n{row}" for row in range(30)])
    gaps = frame[["age"]].mask(frame["age"] == 3)
    rules = r"\. In Python, rules are given as TablePreprocessor\(columns={'%s': {\.\.\.}}\)\.fit_transform\(X\)$"
    for estimator in (AGC(2), GCC(2)):
        with pytest.raises(DataError, match=r"^X: node 'n0', column 'city': 'ulm' is of type str.*" + rules % "city"):
            estimator.fit(frame)
        with pytest.raises(DataError, match=r"^X: node 'n3', column 'age': the value is missing.*" + rules % "age"):
            estimator.fit(gaps)
        with pytest.raises(DataError, match=r"^X: row 3, column '0': the value is missing"):
            estimator.fit(gaps.to_numpy())
        with pytest.raises(ParameterError, match=r"^n_clusters: is 2, but X has only 1 sample; take a smaller number"):
            estimator.fit(frame[["age"]][:1])
