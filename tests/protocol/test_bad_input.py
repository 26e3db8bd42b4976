"""What users give by mistake: a refusal names the party, the place or the parameter, and nothing about data leaves."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError

from adversaries import tables
from kcagc import KCAGC as EXPORTED
from kcagc.disclosure import Ledger
from kcagc.errors import DataError, KcagcError, ParameterError, PolicyError
from kcagc.estimator import KCAGC
from kcagc.graph.graph import Graph

SMALL = {"n_clusters": 3, "psi": 2, "n_init": 2, "max_iter": 5, "random_state": 0}


def given(count=3):
    adjacency, *features = tables(count)
    return adjacency, [table.copy() for table in features]


def model(**changes):
    return KCAGC(**(SMALL | changes))


def refused(kind, words, features, adjacency, **changes):
    """The fit is refused with words that say where, and no entry of the record is about features."""
    clusterer = model(**changes)
    with pytest.raises(kind, match=words) as caught:
        clusterer.fit(features, adjacency=adjacency)
    assert type(caught.value) is kind
    left = {entry.kind for entry in getattr(clusterer, "ledger_", ())}
    assert not left & {"message/masked", "message/padded", "message/plain", "encrypted/labels"}
    assert not hasattr(clusterer, "labels_")
    return left


def test_the_estimator_is_exported():
    assert EXPORTED is KCAGC


def test_good_input_is_accepted():
    adjacency, features = given()
    fitted = model().fit(features, adjacency=adjacency)
    assert fitted.labels_.shape == (36,)
    assert set(fitted.labels_) == {0, 1, 2}


@pytest.mark.parametrize("party", [0, 1, 2])
def test_another_number_of_rows_is_named_with_its_party(party):
    adjacency, features = given()
    features[party] = features[party][:-1]
    assert not refused(DataError, rf"^party-{party + 1}: features: 35 rows, but the graph has 36", features, adjacency)


def test_graphs_of_different_sizes_are_refused():
    adjacency, features = given()
    features[1] = features[1][:30]
    graphs = [adjacency, adjacency[:30, :30], adjacency]
    assert not refused(DataError, "row for every node.*'party-2': 30", features, graphs)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
def test_a_value_that_is_no_number_is_named_with_party_row_and_column(value, stored):
    adjacency, features = given()
    features[1][17, 2] = value
    features = [stored(table) for table in features]
    words = rf"^party-2: features: the value in row 17, column 2 is {value}"
    assert not refused(DataError, words, features, adjacency)


def test_a_table_of_words_is_refused():
    adjacency, features = given()
    features[2] = features[2].astype(str)
    assert not refused(DataError, "^party-3: features", features, adjacency)


@pytest.mark.parametrize("method", ["joint", "cells", "basic", "tree"])
def test_more_clusters_than_nodes_are_refused(method):
    adjacency, features = given()
    changes = {"n_clusters": 37, "method": method}
    words = "^party-1: n_clusters: 37 clusters, but there are only 36 nodes"
    refused(DataError, words, features, adjacency, **changes)


def test_more_clusters_than_intersections_are_refused_before_anything_is_sent():
    adjacency, features = given()
    words = "^n_local_clusters: .* at most 8 intersections, too few for 9"
    assert not refused(ParameterError, words, features, adjacency, n_clusters=9, n_local_clusters=2)
    words = "at most 4 intersections"
    changes = {"n_clusters": 5, "n_local_clusters": 2, "method": "tree", "fan_in": 2}
    assert not refused(ParameterError, words, features, adjacency, **changes)


def test_more_clusters_than_cells_turn_up_are_refused_with_what_to_do():
    """All parties hold the same table, so that their clusters coincide and there are only as many cells."""
    adjacency, features = given()
    clusterer = model(n_clusters=5, n_local_clusters=3)
    words = "n_local_clusters: .* 3 non-empty intersections, too few for 5 clusters; use more"
    with pytest.raises(DataError, match=words):
        clusterer.fit([features[0]] * 3, adjacency=adjacency)
    assert not Ledger(getattr(clusterer, "ledger_", ())).of("message/masked")
    assert not hasattr(clusterer, "labels_")


@pytest.mark.parametrize("wrong", [0, 1, -3, 2.5, True, "x", "1", "0k", "2x", "k2", "", "-2k", "2.5k", "k k", []])
def test_a_number_of_local_clusters_that_means_nothing_is_refused(wrong):
    adjacency, features = given()
    assert not refused(ParameterError, "^n_local_clusters: ", features, adjacency, n_local_clusters=wrong)


@pytest.mark.parametrize("wrong", ["²", "²k", "①"])
def test_digits_that_are_not_decimal_are_refused_like_any_other_text(wrong):
    adjacency, features = given()
    assert not refused(ParameterError, "^n_local_clusters: ", features, adjacency, n_local_clusters=wrong)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("method", "flat"),
        ("method", None),
        ("scaling", "u"),
        ("scaling", None),
        ("virtual_nodes", "mean"),
        ("aggregator", "server"),
        ("filter", "cubic"),
        ("n_clusters", 0),
        ("n_clusters", 2.0),
        ("n_clusters", "3"),
        ("n_clusters", None),
        ("n_components", 0),
        ("n_components", "k"),
        ("max_iter", 0),
        ("n_init", 0),
        ("n_init", None),
        ("fan_in", 1),
        ("fan_in", 2.5),
        ("unit", 0),
        ("unit", -1.0),
        ("unit", np.nan),
        ("unit", np.inf),
        ("unit", "1"),
        ("psi", -1),
        ("psi", 1.5),
    ],
)
def test_a_parameter_that_means_nothing_is_named(name, wrong):
    adjacency, features = given()
    assert not refused(ParameterError, f"^{name}: ", features, adjacency, **{name: wrong})


@pytest.mark.parametrize("wrong", [("two-party",), ("labelled-sums", "x")])
def test_names_to_accept_must_be_a_list_of_known_names(wrong):
    adjacency, features = given()
    assert not refused(ParameterError, "^accept: there is no risk ", features, adjacency, accept=wrong)


@pytest.mark.parametrize("bare", ["two-party-sum", "labelled-sums", ""])
def test_a_bare_name_to_accept_is_not_taken_for_a_list_of_letters(bare):
    adjacency, features = given()
    assert not refused(ParameterError, "^accept: .*list of names", features, adjacency, accept=bare)


@pytest.mark.parametrize("wrong", [None, 5, ([],)])
def test_what_is_not_a_list_of_names_is_refused_too(wrong):
    adjacency, features = given()
    assert not refused(ParameterError, "^accept: ", features, adjacency, accept=wrong)


def test_a_run_that_opens_more_is_refused_by_name_and_sends_nothing():
    adjacency, features = given()
    left = refused(
        PolicyError,
        r'"labelled-sums".*To run it, accept .*labelled-sums',
        features,
        adjacency,
        aggregator="party",
    )
    assert left <= {"message/abort"}


@pytest.mark.parametrize("party", [0, 2])
@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
def test_a_party_without_columns_is_named(party, stored):
    adjacency, features = given()
    features[party] = stored(np.zeros((36, 0)))
    assert not refused(DataError, rf"^party-{party + 1}: features: there are no columns", features, adjacency)


@pytest.mark.parametrize("method", ["joint", "cells", "basic", "tree"])
@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
def test_a_table_of_zeros_is_refused_and_its_party_named(method, stored):
    adjacency, features = given()
    features[1] = stored(np.zeros((36, 3)))
    refused(DataError, "^party-2: features: ", features, adjacency, method=method)


@pytest.mark.parametrize("method", ["joint", "cells", "basic", "tree"])
def test_some_rows_of_zeros_are_allowed(method):
    _, features = given()
    features[0][5] = 0
    features[1][[0, 35]] = 0
    fitted = model(method=method, psi=1).fit(features, adjacency=sparse.csr_array((36, 36)))
    assert set(fitted.labels_) == {0, 1, 2}
    assert np.isfinite(fitted.models_["party-1"].centers).all()


@pytest.mark.parametrize("method", ["cells", "basic", "tree"])
@pytest.mark.parametrize("scaling", ["unit", "U", "US"])
def test_a_table_of_one_column_is_allowed(method, scaling):
    adjacency, features = given()
    features[1] = features[1][:, :1]
    fitted = model(method=method, scaling=scaling).fit(features, adjacency=adjacency)
    assert fitted.labels_.shape == (36,)


@pytest.mark.parametrize("method", ["joint", "cells", "basic"])
def test_every_party_may_hold_one_column(method):
    adjacency, features = given()
    fitted = model(method=method).fit([table[:, :1] for table in features], adjacency=adjacency)
    assert set(fitted.labels_) <= {0, 1, 2}


@pytest.mark.parametrize("large", [1e30, 1e150, 1e300])
def test_large_values_are_clustered_or_refused_without_a_warning(large):
    adjacency, features = given()
    features[1] = features[1] * large
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            fitted = model().fit(features, adjacency=adjacency)
        except KcagcError as error:
            assert error.party == "party-2"  # noqa: PT017 - either is right
        else:
            assert set(fitted.labels_) == {0, 1, 2}


def test_values_in_other_units_change_nothing_with_unit_length():
    # The joint method clusters as on pooled columns, where larger values count more.
    adjacency, features = given()
    plain = model(method="cells").fit(features, adjacency=adjacency).labels_
    features[1] = features[1] * 2.0**20
    assert_array_equal(plain, model(method="cells").fit(features, adjacency=adjacency).labels_)


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_tables_are_refused(count):
    adjacency, features = given()
    assert not refused(DataError, f"^X: {count} tables?; there must be 2 to 16", features[:count], adjacency)


@pytest.mark.parametrize("method", ["joint", "cells", "basic", "tree"])
def test_seventeen_parties_are_refused(method):
    adjacency, features = given()
    tables17 = [features[number % 3] for number in range(17)]
    assert not refused(DataError, r"^X: 17 tables; there must be 2 to 16", tables17, adjacency, method=method)


def test_sixteen_parties_are_allowed():
    adjacency, features = given()
    fitted = model(method="basic", n_init=1).fit([features[i % 3] for i in range(16)], adjacency=adjacency)
    assert len(fitted.models_) == 16


def test_a_single_matrix_is_not_a_list_of_tables():
    adjacency, features = given()
    assert not refused(DataError, "party-1|X: ", features[0], adjacency)


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_graphs_must_be_one_or_one_for_each_party(count):
    adjacency, features = given()
    words = f"^adjacency: {count} graphs for 3 parties"
    assert not refused(DataError, words, features, [adjacency] * count)


def test_a_directed_graph_is_refused():
    adjacency, features = given()
    directed = sparse.triu(adjacency).tocsr()
    assert not refused(DataError, "^adjacency: ", features, directed)


def test_one_graph_for_each_party_may_differ_and_must_not_where_it_is_shared():
    adjacency, features = given()
    empty = sparse.csr_array((36, 36))
    fitted = model().fit(features, adjacency=[adjacency, empty, adjacency])
    assert set(fitted.labels_) == {0, 1, 2}
    assert fitted.models_["party-1"].parameters.graph == "own"


def test_other_ids_are_found_out_though_rows_are_as_many():
    adjacency, features = given()
    graphs = [Graph.from_matrix(adjacency, ids=range(first, first + 36)) for first in (0, 0, 1)]
    with pytest.raises(KcagcError, match=r"party-\d and party-3 do not have the same node ids"):
        model().fit(features, adjacency=graphs)


# Prediction


@pytest.fixture(scope="module")
def fitted():
    adjacency, features = given()
    return model().fit(features, adjacency=adjacency)


def grown(count=40):
    adjacency, *features = tables(3)
    more = sparse.block_diag([adjacency, sparse.csr_array((count - 36, count - 36))], format="csr")
    extra = np.random.default_rng(0).standard_normal((count - 36, 3))
    return more, [np.vstack([table, extra]) for table in features]


def test_new_nodes_are_placed(fitted):
    adjacency, features = grown()
    assert fitted.predict(features, adjacency=adjacency).shape == (4,)
    assert fitted.predict(features, adjacency=adjacency, nodes=[39, 0]).shape == (2,)


def test_predicting_before_fitting_is_refused():
    adjacency, features = given()
    with pytest.raises(NotFittedError):
        model().predict(features, adjacency=adjacency)


@pytest.mark.parametrize("count", [2, 4])
def test_another_number_of_tables_is_refused(fitted, count):
    adjacency, features = grown()
    with pytest.raises(DataError, match=rf"^X: {count} tables, but the model was made by 3 parties"):
        fitted.predict((features * 2)[:count], adjacency=adjacency)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_another_number_of_columns_is_refused_and_the_party_named(fitted, width):
    adjacency, features = grown()
    features[1] = np.resize(features[1], (40, width))
    with pytest.raises(DataError, match=rf"^party-2: features: {width} columns, but the model was fitted on 3"):
        fitted.predict(features, adjacency=adjacency)
    assert not fitted.prediction_ledger_.of("message/masked")


def test_no_new_nodes_are_refused(fitted):
    adjacency, features = given()
    with pytest.raises(DataError, match="append the new rows"):
        fitted.predict(features, adjacency=adjacency)


@pytest.mark.parametrize(
    "nodes", [[], [-1], [40], [0, 99], [0.5], ["a"], [None], [True], [[0, 1]], [2**63], np.array([1.0])]
)
def test_node_numbers_that_mean_nothing_are_refused(fitted, nodes):
    adjacency, features = grown()
    with pytest.raises(ParameterError, match=r"^nodes: must be row numbers from 0 to 39"):
        fitted.predict(features, adjacency=adjacency, nodes=nodes)


def test_another_kind_of_graph_than_for_the_fit_is_refused(fitted):
    adjacency, features = grown()
    with pytest.raises(ParameterError, match=r"^adjacency: "):
        fitted.predict(features, adjacency=[adjacency] * 3)


def test_a_value_that_is_no_number_is_refused_in_prediction_too(fitted):
    adjacency, features = grown()
    features[2][38, 1] = np.nan
    with pytest.raises(DataError, match=r"^party-3: features: the value in row 38, column 1 is nan"):
        fitted.predict(features, adjacency=adjacency)


def test_rows_of_different_numbers_are_refused_in_prediction_too(fitted):
    adjacency, features = grown()
    features[0] = features[0][:-1]
    with pytest.raises(DataError, match=r"^party-1: features: 39 rows, but the graph has 40"):
        fitted.predict(features, adjacency=adjacency)


def test_a_filter_changed_after_the_fit_does_not_reach_the_prediction():
    """It would place new nodes by other features than the model was made from."""
    adjacency, features = given()
    more, new = grown()
    fitted = model().fit(features, adjacency=adjacency)
    before = fitted.predict(new, adjacency=more, nodes=range(40))
    fitted.set_params(psi=30)
    assert_array_equal(fitted.predict(new, adjacency=more, nodes=range(40)), before)
