"""The estimator: what a user sees of a collaborative run."""

import json
import re

import msgspec
import networkx
import numpy as np
import pandas
import polars
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils import estimator_html_repr

from data.tensors import Data, Tensor
from kcagc import AGC, KCAGC
from kcagc.data import TablePreprocessor
from kcagc.datasets import generate, load, split_columns
from kcagc.disclosure import RISKS
from kcagc.engines import LOCAL
from kcagc.errors import DataError, ParameterError, PolicyError
from kcagc.graph import AttributedGraph, ChebyshevFilter, Graph, HalfFilter
from kcagc.metrics import accuracy, ari
from kcagc.protocol.local import PartyModel
from kcagc.protocol.parameters import PARAMETERS

DEMO = load("demo")
PARTIES = DEMO.parties()


def fitted(**changes):
    chosen = {"n_clusters": 5, "psi": 2, "random_state": 0} | changes
    return KCAGC(**chosen).fit(PARTIES, adjacency=DEMO.adjacency)


def test_together_the_parties_find_what_none_finds_alone():
    model = fitted()
    assert accuracy(DEMO.labels, model.labels_) > 0.85  # alone 0.64 to 0.74
    assert model.labels_.dtype == np.intp
    assert np.array_equal(np.unique(model.labels_), np.arange(5))


def test_a_seed_repeats_the_labels_but_never_the_bytes():
    first, second = fitted(), fitted()
    np.testing.assert_array_equal(first.labels_, second.labels_)
    sessions = [next(iter(model.models_.values())).session for model in (first, second)]
    assert sessions[0] != sessions[1]


def test_dense_sparse_and_a_checked_graph_give_the_same_labels():
    model = KCAGC(n_clusters=5, psi=2, random_state=0)
    dense = model.fit(PARTIES, adjacency=DEMO.adjacency.toarray()).labels_
    tables = [sparse.csr_array(table) for table in PARTIES]
    np.testing.assert_array_equal(model.fit(tables, adjacency=Graph.from_matrix(DEMO.adjacency)).labels_, dense)
    np.testing.assert_array_equal(model.fit_predict(PARTIES, adjacency=DEMO.adjacency), dense)


def test_by_default_the_method_is_joint_and_no_labels_leave_a_party():
    model = fitted()
    assert (model.method, model.method_) == ("auto", "joint")
    assert model.models_["party-1"].parameters.joint_rows == "shares"
    assert model.method_reason_ == "it comes closest to the clusters of pooled columns"
    assert not model.ledger_.of("encrypted/labels")
    assert not any(entry.weaker for entry in model.ledger_)
    pooled = AGC(n_clusters=5, psi=2, scaling="unit", random_state=0).fit(DEMO.features, adjacency=DEMO.adjacency)
    assert ari(pooled.labels_, model.labels_) > 0.95
    np.testing.assert_array_equal(fitted(method="joint").labels_, model.labels_)


def test_with_local_clusters_the_method_is_flat_up_to_three_parties_and_a_tree_beyond():
    model = fitted(n_local_clusters="2k")
    assert model.merges_[0].group == "1.1"
    assert (model.method_, model.method_reason_) == ("cells", '"joint" does not use n_local_clusters, which is set')
    tables = split_columns(DEMO.features, 5)
    settings = {"n_clusters": 5, "n_local_clusters": "k", "psi": 2, "random_state": 0, "n_init": 2}
    model = KCAGC(**settings).fit(tables, adjacency=DEMO.adjacency)
    assert [merge.group for merge in model.merges_] == ["1.1", "2.1"]
    assert model.method_ == model.models_["party-1"].parameters.method == "tree"


@pytest.mark.parametrize(
    "changes", [{"method": "cells"}, {"method": "cells", "n_init": 1}, {"method": "basic"}, {"aggregator": "party"}]
)
def test_every_value_that_opens_is_counted_once(changes):
    model = fitted(accept=tuple(RISKS), **changes)
    opened = [entry.shape[0] for entry in model.ledger_.of("opened/")]
    assert len(opened) == model.rounds_
    assert sum(opened) == model.secure_sums_ + sum(model.further_sums_.values())
    checks = 128 * model.rounds_ if model.aggregator == "coordinator" else 0
    assert model.further_sums_["checks"] >= checks
    assert (model.further_sums_["checks"] > 0) == (checks > 0)
    assert (model.further_sums_["other restarts"] > 0) == (model.n_init > 1)


@pytest.mark.parametrize("method", ["basic", "cells"])
def test_a_restart_takes_fewer_comparisons_than_the_paper_opens_sums(method):
    model = fitted(method=method, n_init=1)
    (merge,) = model.merges_
    assert merge.distances == (model.n_iter_ + 1) * model.cells_ * 5  # the step with margin 9 is a round
    assert 4 * (model.cells_ - 5) < model.secure_sums_ < merge.distances
    assert model.cells_ == 600 if method == "basic" else model.cells_ <= 10**3


def test_the_cost_is_the_mean_squared_distance_over_all_parties():
    model = fitted()
    cost = 0.0
    for (party, share), table in zip(model.models_.items(), PARTIES, strict=True):
        rows = share.embedder.rows(
            LOCAL, model.filter_.apply(Graph.from_matrix(DEMO.adjacency), sparse.csr_array(table))
        )
        away = rows - share.centers[model.labels_]
        cost += float(np.mean(np.sum(away * away, axis=1)))
        assert party == share.party
    assert model.cost_ == pytest.approx(cost, abs=3 * 2.0**-24)


@pytest.mark.parametrize("n_parties", [4, 5, 7, 8])
def test_a_binary_tree_stays_within_the_papers_bound(n_parties):
    local, k, most = 6, 5, 8
    model = KCAGC(
        n_clusters=k, n_local_clusters=local, method="tree", fan_in=2, psi=2, n_init=1, max_iter=most, random_state=0
    ).fit(split_columns(DEMO.features, n_parties), adjacency=DEMO.adjacency)
    assert len(model.merges_) == n_parties - 1
    assert sum(merge.distances for merge in model.merges_) <= (most + 1) * ((n_parties - 2) * local**3 + k * local**2)
    assert max(merge.n_iter for merge in model.merges_) <= most


def test_bytes_are_those_of_the_messages():
    model = fitted(method="cells", n_init=1)
    assert model.bytes_sent_ == sum(model.bytes_by_role_.values())
    assert set(model.bytes_by_role_) == {"party-1", "party-2", "party-3", "coordinator"}
    words = 8 * sum(entry.shape[0] for entry in model.ledger_.of("opened/"))
    assert words < model.bytes_by_role_["party-1"] < words + 10_000


def test_the_papers_configuration_lets_the_last_party_sum():
    model = KCAGC.paper(n_clusters=5, psi=2, random_state=0).fit(PARTIES, adjacency=DEMO.adjacency)
    parameters = model.models_["party-1"].parameters
    assert (parameters.scaling, parameters.aggregator, parameters.n_local_clusters) == ("U", "party", 5)
    assert parameters.n_components == 5
    assert (parameters.max_iter, parameters.n_init, parameters.virtual_nodes) == (10, 10, "cell")
    assert "coordinator" not in model.bytes_by_role_
    assert any(entry.weaker for entry in model.ledger_)
    assert KCAGC.paper(n_clusters=5, psi=2, max_iter=100).max_iter == 100


def test_a_party_that_sums_is_refused_unless_accepted_by_name():
    with pytest.raises(PolicyError, match='"labelled-sums"') as refused:
        fitted(aggregator="party")
    assert "two-party-sum" not in str(refused.value)
    with pytest.raises(PolicyError, match='"two-party-sum"'):
        KCAGC(n_clusters=5, aggregator="party", accept=("labelled-sums",)).fit(PARTIES[:2], adjacency=DEMO.adjacency)


def test_each_party_may_have_a_graph_of_its_own():
    graphs = []
    for seed in range(3):
        random = np.random.default_rng(seed)
        keep = sparse.triu(DEMO.adjacency, 1).tocoo()
        kept = random.random(keep.nnz) < 0.8
        half = sparse.coo_array((keep.data[kept], (keep.row[kept], keep.col[kept])), shape=keep.shape)
        graphs.append(half + half.T)
    model = KCAGC(n_clusters=5, psi=2, random_state=0).fit(PARTIES, adjacency=graphs)
    assert model.models_["party-1"].parameters.graph == "own"
    assert accuracy(DEMO.labels, model.labels_) > 0.7
    assert len(model.predict(PARTIES, adjacency=graphs, nodes=[3, 5])) == 2
    with pytest.raises(ParameterError, match="adjacency"):
        model.predict(PARTIES, adjacency=DEMO.adjacency, nodes=[3])


@pytest.mark.parametrize("scaling", ["unit", "U", "US"])
def test_every_scaling_runs_and_a_value_out_of_bounds_asks_for_a_larger_unit(scaling):
    unit = 10.0 if scaling == "US" else 1.0
    labels = fitted(scaling=scaling, unit=unit).labels_
    assert accuracy(DEMO.labels, labels) > 0.6
    if scaling == "US":
        large = [1e4 * table for table in PARTIES]
        model = KCAGC(n_clusters=5, psi=2, scaling="US", random_state=0)
        with pytest.raises(DataError, match="unit"):
            model.fit(large, adjacency=DEMO.adjacency)
        model.set_params(unit=1e4 * unit)
        np.testing.assert_array_equal(model.fit(large, adjacency=DEMO.adjacency).labels_, labels)


def test_one_feature_each_as_in_the_paper():
    """Rows of unit length would all be 1 in one dimension; lengths are kept there."""
    tables = [DEMO.features[:, [column]] for column in (0, 17, 33)]
    model = KCAGC(n_clusters=3, psi=2, accept=["revealing-labels"], random_state=0)
    assert len(np.unique(model.fit(tables, adjacency=DEMO.adjacency).labels_)) == 3


def test_a_table_with_few_distinct_rows_has_fewer_local_clusters_and_is_told_whole():
    tables = [PARTIES[0], (np.arange(600) % 3)[:, None] * np.array([[1.0, 2.0]])]
    model = KCAGC(n_clusters=4, psi=0, n_local_clusters=6, random_state=0)
    with pytest.raises(PolicyError, match=r"^party-2: .* each local cluster is one distinct row"):
        model.fit(tables, adjacency=DEMO.adjacency)
    model.set_params(accept=["revealing-labels"]).fit(tables, adjacency=DEMO.adjacency)
    assert model.cells_ <= 6 * 3
    whole = model.ledger_.of("encrypted/labels.whole")
    assert [(entry.sender, entry.weaker) for entry in whole] == [("party-2", True)]


def test_clusters_that_stay_empty_are_spoken_of():
    tables = [(np.arange(600) % 2)[:, None] * 1.0] * 2
    model = KCAGC(n_clusters=4, psi=0, method="basic", random_state=0)
    with pytest.warns(UserWarning, match="only 2 of 4 clusters have nodes"):
        model.fit(tables, adjacency=DEMO.adjacency)


def test_rows_of_a_frame_follow_its_index():
    names = [f"n{number}" for number in range(600)]
    graph = Graph.from_matrix(DEMO.adjacency, ids=names)
    tables = list(PARTIES)
    expected = KCAGC(n_clusters=5, psi=2, random_state=0).fit(tables, adjacency=graph).labels_
    order = np.random.RandomState(0).permutation(600)
    shuffled = pandas.DataFrame(tables[1][order], index=np.array(names, dtype=object)[order])
    frames = [tables[0], shuffled, pandas.DataFrame(tables[2])]
    model = KCAGC(n_clusters=5, psi=2, random_state=0)
    np.testing.assert_array_equal(model.fit(frames, adjacency=graph).labels_, expected)
    built = [AttributedGraph.build(graph, table) for table in tables]
    np.testing.assert_array_equal(model.fit(built, adjacency=graph).labels_, expected)
    other = pandas.DataFrame(tables[1], index=[f"m{number}" for number in range(600)])
    with pytest.raises(DataError, match="party-2: ids do not match"):
        model.fit([tables[0], other, tables[2]], adjacency=graph)
    with pytest.raises(DataError, match=r"party-1: row 0.* column 'name': 'a' is of type str, not a number, and 599"):
        model.fit([pandas.DataFrame({"name": ["a"] * 600}), *tables[1:]], adjacency=graph)


def test_a_graph_that_was_given_as_y_or_inside_a_table_is_missed_in_words():
    with pytest.raises(ParameterError, match=r"^y: the second argument is not used; .* as adjacency="):
        KCAGC(n_clusters=5).fit(PARTIES, DEMO.adjacency)
    tables = [AttributedGraph.build(DEMO.adjacency, table) for table in PARTIES]
    with pytest.raises(ParameterError, match=r"^adjacency: is missing, but the table of party-1 comes with a graph"):
        KCAGC(n_clusters=5).fit(tables)
    with pytest.raises(ParameterError, match=r"^random_state: "):
        KCAGC(n_clusters=5, random_state="a").fit(PARTIES, adjacency=DEMO.adjacency)


def test_filters_by_name_or_as_objects():
    by_name = fitted(filter="half").labels_
    np.testing.assert_array_equal(fitted(filter=HalfFilter(2), psi=99).labels_, by_name)
    assert len(fitted(filter="norm").labels_) == 600
    assert len(fitted(filter=ChebyshevFilter(lambda x: np.exp(-x))).labels_) == 600


def test_progress_tells_role_stage_and_how_far():
    seen = []
    fitted(callbacks=[lambda role, step: seen.append((role, step.stage, step.done))], n_init=1)
    assert {role for role, *_ in seen} == {"party-1", "party-2", "party-3", "coordinator"}
    assert [done for role, stage, done in seen if role == "party-1" and "iteration" in stage][:2] == [1, 2]


def test_it_is_an_estimator():
    model = KCAGC(n_clusters=5, psi=2, n_local_clusters="2k")
    assert clone(model).get_params() == model.get_params()
    assert "n_clusters=5" in repr(model)


def test_all_parameters_are_by_name_and_none_is_looked_at_before_a_fit():
    with pytest.raises(TypeError):
        KCAGC(5)
    model = KCAGC(n_clusters="many", method=3, transformers="none", nodes=7)
    assert model.get_params()["n_clusters"] == "many"
    assert model.set_params(n_clusters=4) is model
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"callbacks": 3}, "^callbacks: must be a function or a list of functions, not 3"),
        ({"id_column": 3}, "^id_column: must be the name of a column, not 3"),
        ({"nodes": "some"}, "^nodes: must be 'all', 'intersection' or a list of ids, not 'some'"),
        ({"transformers": [None]}, "^transformers: 1 for 3 parties"),
        ({"transformers": "scale"}, "^transformers: party-1: must have fit and transform.*not 'scale'"),
        ({"accept": "all"}, "^accept: must be a list of names, not 'all'"),
    ],
)
def test_a_parameter_that_means_nothing_is_named_with_what_would_do(changes, said):
    with pytest.raises(ParameterError, match=said):
        fitted(**changes)


def test_a_single_function_may_be_told_about_progress():
    seen = []
    fitted(callbacks=lambda role, step: seen.append((step.stage, step.done, step.total)), n_init=1)
    assert any(done for _, done, _ in seen)


def test_a_prediction_asks_for_a_fit_first():
    with pytest.raises(NotFittedError, match="KCAGC"):
        KCAGC(n_clusters=5).predict(PARTIES, adjacency=DEMO.adjacency)


def test_a_transformer_is_fitted_by_each_party_alone_and_kept_for_new_rows():
    tables = list(PARTIES)
    given = StandardScaler()
    model = KCAGC(n_clusters=5, psi=2, random_state=0, method="basic", transformers=[given, None, given])
    model.fit(tables, adjacency=DEMO.adjacency)
    assert not hasattr(given, "mean_")  # what was given stays as it was
    np.testing.assert_allclose(model.transformers_["party-1"].mean_, tables[0].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(model.transformers_["party-3"].mean_, tables[2].mean(axis=0), rtol=1e-5)
    scaled = [StandardScaler().fit_transform(tables[0]), tables[1], StandardScaler().fit_transform(tables[2])]
    alone = KCAGC(n_clusters=5, psi=2, random_state=0, method="basic").fit(scaled, adjacency=DEMO.adjacency)
    np.testing.assert_array_equal(model.labels_, alone.labels_)
    more = [np.vstack([table, 100 + table[:2]]) for table in tables]  # would move the means, were they fitted again
    graph = sparse.block_diag([DEMO.adjacency, sparse.csr_array((2, 2))])
    scaled_more = [model.transformers_["party-1"].transform(more[0]), more[1]]
    scaled_more.append(model.transformers_["party-3"].transform(more[2]))
    np.testing.assert_array_equal(model.predict(more, adjacency=graph), alone.predict(scaled_more, adjacency=graph))


def test_a_column_transformer_makes_numbers_of_words():
    frames = [pandas.DataFrame(table).rename(columns=str) for table in PARTIES]
    frames[1]["word"] = ["low" if value < 0 else "high" for value in frames[1]["0"]]
    chosen = ColumnTransformer([("w", OneHotEncoder(), ["word"])], remainder="passthrough")
    accept = ["revealing-labels"]  # 17 columns, of which two are a yes or no
    model = KCAGC(n_clusters=5, psi=2, accept=accept, random_state=0, transformers=[None, chosen, None])
    model.fit(frames, adjacency=DEMO.adjacency)
    assert model.feature_names_["party-2"][:2] == ["w__word_high", "w__word_low"]
    assert model.feature_names_["party-1"] == [str(column) for column in range(16)]
    assert model.n_features_in_ == 16 + 17 + 16
    strange = [frames[0], frames[1].replace({"word": {"low": "sideways"}}), frames[2]]
    with pytest.raises(DataError, match=r"^party-2: transformers: .*sideways"):
        model.predict(strange, adjacency=DEMO.adjacency, nodes=[1])


def test_new_nodes_are_known_by_their_ids_wherever_they_stand():
    names = [f"n{number:03}" for number in range(600)]
    frames = [pandas.DataFrame(table, index=names) for table in PARTIES]
    graph = Graph.from_matrix(DEMO.adjacency, ids=names)
    kept = np.array([number for number in range(600) if number % 50])
    smaller = Graph.from_matrix(DEMO.adjacency[kept][:, kept], ids=[names[number] for number in kept])
    model = KCAGC(n_clusters=5, psi=2, random_state=0, n_init=2)
    model.fit([frame.iloc[kept] for frame in frames], adjacency=smaller)
    shuffled = [frame.sample(frac=1, random_state=seed) for seed, frame in enumerate(frames)]
    found = model.predict(shuffled, adjacency=graph)
    assert len(found) == 12
    np.testing.assert_array_equal(model.predict(frames, adjacency=graph, nodes=names[::50]), found)
    assert model.predict(frames, adjacency=graph, nodes="n050")[0] == found[1]
    with pytest.raises(DataError, match="nodes: no node has the id 'x'"):
        model.predict(frames, adjacency=graph, nodes=["x"])
    with pytest.raises(DataError, match="made with ids, but these nodes have row numbers"):
        model.predict(PARTIES, adjacency=DEMO.adjacency)
    left = [frame.drop(index="n001") for frame in frames]
    rest = [number for number in range(600) if number != 1]
    cut = Graph.from_matrix(DEMO.adjacency[rest][:, rest], ids=list(left[0].index))
    with pytest.raises(DataError, match=r"nodes that were fitted are missing: no node has the id 'n001'"):
        model.predict(left, adjacency=cut)


def test_new_nodes_are_placed_after_a_fit_on_the_nodes_that_all_have():
    names = [f"n{number:03}" for number in range(600)]
    frames = [pandas.DataFrame(table, index=names).rename(columns=str) for table in PARTIES]
    graph = Graph.from_matrix(DEMO.adjacency, ids=names)
    model = KCAGC(n_clusters=5, psi=2, random_state=0, n_init=1, nodes="intersection")
    model.fit([frames[0][5:], frames[1][:590], frames[2]], adjacency=graph)
    assert model.node_ids_ == names[5:590]
    assert len(model.predict([frames[0], frames[1][:595], frames[2]], adjacency=graph)) == 10
    filling = TablePreprocessor(default={"missing": "mean"})
    model.set_params(nodes=names[::2], transformers=filling).fit([frames[0][5:], *frames[1:]], adjacency=graph)
    assert model.node_ids_ == names[::2]
    assert len(model.predict([frames[0][5:], *frames[1:]], adjacency=graph)) == 300


def test_graphs_and_tables_of_other_libraries_give_the_same_labels():
    expected = fitted().labels_
    model = KCAGC(n_clusters=5, psi=2, random_state=0)
    graph = networkx.from_scipy_sparse_array(DEMO.adjacency)
    np.testing.assert_array_equal(model.fit(PARTIES, adjacency=graph).labels_, expected)
    ends = np.vstack(DEMO.adjacency.nonzero())
    dense = list(PARTIES)
    data = [Data(edge_index=Tensor(ends), num_nodes=600, x=Tensor(table)) for table in dense]
    np.testing.assert_array_equal(model.fit(data, adjacency=data[0]).labels_, expected)
    frames = [polars.DataFrame(table) for table in dense]
    np.testing.assert_array_equal(model.fit(frames, adjacency=graph).labels_, expected)


def test_predicting_training_nodes_of_a_converged_basic_fit_gives_their_labels():
    model = fitted(method="basic")
    assert model.converged_
    found = model.predict(PARTIES, adjacency=DEMO.adjacency, nodes=range(600))
    np.testing.assert_array_equal(found, model.labels_)
    assert model.prediction_sums_ == 600 * (3 + 1 + 1)  # all pairs of 3 and of 2 centres, then the two winners


def test_the_optimized_method_predicts_training_nodes_nearly_as_it_labelled_them():
    model = fitted()
    found = model.predict(PARTIES, adjacency=DEMO.adjacency, nodes=np.arange(600))
    assert 0.8 < np.mean(found == model.labels_) < 1


@pytest.mark.parametrize("aggregator", ["coordinator", "party"])
def test_a_copy_of_a_node_is_predicted_where_the_node_is(aggregator):
    model = fitted(method="basic", psi=0, aggregator=aggregator, accept=tuple(RISKS))
    copied = [7, 70, 300]
    tables = [np.vstack([table, table[copied]]) for table in PARTIES]
    graph = sparse.block_diag([DEMO.adjacency, sparse.csr_array((3, 3))])
    found = model.predict(tables, adjacency=graph)
    np.testing.assert_array_equal(found, model.labels_[copied])
    assert model.prediction_sums_ == 3 * (3 + 1 + 1)
    assert model.prediction_ledger_.of("output/prediction")


def test_prediction_is_a_session_of_its_own_with_the_same_basis():
    model = fitted()
    basis = model.models_["party-1"].embedder.basis
    model.predict(PARTIES, adjacency=DEMO.adjacency, nodes=[1])
    assert model.models_["party-1"].embedder.basis == basis
    hello = [entry for entry in model.prediction_ledger_ if entry.kind == "message/hello"]
    assert len(hello) == 3


def test_many_nodes_are_predicted_in_batches(monkeypatch):
    from kcagc.protocol import predict

    model = fitted(method="cells")
    whole = model.predict(PARTIES, adjacency=DEMO.adjacency, nodes=range(600))
    monkeypatch.setattr(predict, "BATCH_VALUES", 500)
    np.testing.assert_array_equal(model.predict(PARTIES, adjacency=DEMO.adjacency, nodes=range(600)), whole)
    assert len(model.prediction_ledger_.of("opened/")) == 6 * 2  # five centres take two sums


def test_a_partys_model_is_bytes_and_back():
    model = fitted().models_["party-2"]
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(model), type=PartyModel)
    assert again == model
    np.testing.assert_array_equal(again.centers, model.centers)


def test_the_ledger_reads_as_words_and_as_json_lines(tmp_path):
    model = fitted(method="cells")
    assert "local label of every node" in str(model.ledger_)
    model.ledger_.save(tmp_path / "ledger.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert len(lines) == len(model.ledger_)
    assert all(line["learns"] for line in lines)
    to_coordinator = {line["kind"] for line in lines if line["receiver"] == "coordinator"}
    assert "encrypted/labels" not in to_coordinator
    assert "output/labels" not in to_coordinator


def test_prediction_filters_as_the_fit_did_whatever_the_parameters_say_now():
    model = fitted(method="basic", filter="norm", psi=3)
    model.set_params(psi=50, filter="half")
    np.testing.assert_array_equal(model.predict(PARTIES, adjacency=DEMO.adjacency, nodes=np.arange(600)), model.labels_)


def test_the_second_filter_keeps_the_cutoff_of_the_fitted_graph():
    model = fitted(method="basic", filter="norm", psi=3)
    kept = model.models_["party-1"].filter
    assert kept.kind == "norm"
    assert 1 < kept.norm < 2
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(kept), type=type(kept)) == kept


def test_restarts_that_meet_are_continued_once():
    """With many starts most end alike; those stop costing anything when they come to where another has been."""
    model = fitted(n_init=20, n_local_clusters="k")
    alone = fitted(n_init=1, n_local_clusters="k")
    assert model.further_sums_["other restarts"] < 19 * alone.secure_sums_
    assert alone.further_sums_["other restarts"] == 0


@pytest.mark.parametrize("X", [DEMO.features, sparse.csr_array(DEMO.features), None, 5])
def test_one_table_is_not_a_list_of_tables(X):
    with pytest.raises(DataError, match=r"^X: must be a dictionary or a list with one table for each party"):
        KCAGC(n_clusters=5).fit(X, adjacency=DEMO.adjacency)


def test_the_number_of_clusters_may_be_a_number_of_numpy():
    labels = np.arange(5)
    model = KCAGC(n_clusters=labels.max() + 1, psi=np.int32(2), n_init=np.int64(2), random_state=0)
    found = model.fit(PARTIES, adjacency=DEMO.adjacency).labels_
    np.testing.assert_array_equal(found, fitted(n_init=2).labels_)


def test_a_notebook_shows_neither_private_models_nor_column_names():
    frames = [pandas.DataFrame(table).add_prefix(f"secret_{number}_") for number, table in enumerate(PARTIES)]
    model = KCAGC(n_clusters=5, psi=2, n_init=1, random_state=0).fit(frames, adjacency=DEMO.adjacency)
    bundle = model._repr_mimebundle_()
    pipeline = estimator_html_repr(make_pipeline(FunctionTransformer(), model))
    for shown in (model._repr_html_(), *bundle.values(), pipeline, model.ledger_._repr_html_(), repr(model.models_)):
        for private in ("secret_", "feature_names_", "column_weights_", "\\x", "b'"):
            assert private not in shown
    assert bundle["text/html"] == model._repr_html_()


def test_the_docstring_names_every_parameter_with_its_type_and_default():
    documented = dict(re.findall(r"^    (\w+) : (.*)$", KCAGC.__doc__, flags=re.MULTILINE))
    for name, parameter in PARAMETERS.items():
        if name != "graph":
            default = 8 if parameter.required else parameter.default
            ending = f"default={default!r}".replace("'", '"')
            assert documented[name].endswith(ending)
            assert all(f'"{choice}"' in documented[name] for choice in parameter.choices)
            first = " ".join(KCAGC.__doc__.partition(f"    {name} : ")[2].split("\n", 1)[1].split())
            assert first.startswith(parameter.meaning[:40])


WORDS = generate(300, 3, degree=6, homophily=0.7, features=(40, 40), sparsity=0.9, signal=6, seed=1)


def words_fitted(tables, **changes):
    return KCAGC(**({"n_clusters": 3, "psi": 2, "random_state": 0} | changes)).fit(tables, adjacency=WORDS.adjacency)


def weighted_by_hand(table, weights):
    return sparse.csr_array(table.multiply(weights[None, :]))


def test_every_party_weights_its_own_columns_by_its_own_rows():
    model = words_fitted(WORDS.parties())
    for table, weights in zip(WORDS.parties(), model.column_weights_.values(), strict=True):
        np.testing.assert_allclose(weights, np.log(301 / (1 + (table != 0).sum(axis=0))) + 1)
    by_hand = [weighted_by_hand(*both) for both in zip(WORDS.parties(), model.column_weights_.values(), strict=True)]
    for weighting in ("none", "auto"):  # "auto" leaves real numbers as they are
        again = words_fitted(by_hand, weighting=weighting)
        np.testing.assert_array_equal(again.labels_, model.labels_)
        assert all((one == 1).all() for one in again.column_weights_.values())
    dense = words_fitted([table.toarray() for table in WORDS.parties()])
    np.testing.assert_array_equal(dense.labels_, model.labels_)
    plain = words_fitted(WORDS.parties(), weighting="none")
    assert plain.cost_ != model.cost_
    assert KCAGC.paper(n_clusters=3, psi=2).weighting == "none"


def test_pooled_columns_have_the_weights_that_the_parties_have():
    model = words_fitted(WORDS.parties())
    pooled = AGC(3, psi=2, method="joint", random_state=0).fit(WORDS.features, adjacency=WORDS.adjacency)
    np.testing.assert_allclose(pooled.column_weights_, np.concatenate(list(model.column_weights_.values())))
    assert ari(pooled.labels_, model.labels_) > 0.9
    by_hand = weighted_by_hand(WORDS.features, pooled.column_weights_)
    same = AGC(3, psi=2, method="joint", weighting="none", random_state=0).fit(by_hand, adjacency=WORDS.adjacency)
    np.testing.assert_array_equal(same.labels_, pooled.labels_)


@pytest.mark.parametrize("transformer", [None, TablePreprocessor(), FunctionTransformer()])
def test_new_nodes_get_the_weights_of_the_fit(transformer):
    """The new nodes have words that no fitted node has; weights of all rows would be others."""
    tables, graph = [table.toarray() for table in WORDS.parties()], WORDS.adjacency
    model = KCAGC(n_clusters=3, psi=2, random_state=0, transformers=transformer)
    model.fit([table[:250] for table in tables], adjacency=graph[:250][:, :250])
    weights = list(model.column_weights_.values())
    tables[0][250:, :5] = 1
    by_hand = [table * weight for table, weight in zip(tables, weights, strict=True)]
    other = KCAGC(n_clusters=3, psi=2, random_state=0, weighting="none")
    other.fit([table[:250] for table in by_hand], adjacency=graph[:250][:, :250])
    np.testing.assert_array_equal(model.predict(tables, adjacency=graph), other.predict(by_hand, adjacency=graph))
    for name, one in model.column_weights_.items():
        assert (one != 1).any(), name


def test_a_rule_for_a_column_precedes_the_weighting_of_the_estimator():
    rules = TablePreprocessor(columns={"0": {"weighting": "idf"}, "1": {"weighting": "none"}})
    for weighting in ("auto", "idf", "none"):
        model = words_fitted([table.toarray() for table in WORDS.parties()], transformers=rules, weighting=weighting)
        found = model.column_weights_["party-1"] != 1
        assert (found[0], found[1]) == (True, False)
        assert (found[2:] == (weighting != "none")).all()
        assert rules.get_params()["default"] is None


def test_a_weighting_that_does_not_fit_is_refused():
    with pytest.raises(ParameterError, match=r"^weighting: must be 'auto', 'idf' or 'none', not 'tfidf'"):
        fitted(weighting="tfidf")
    frames = [pandas.DataFrame(table).add_prefix("c") for table in PARTIES]
    with pytest.raises(
        DataError, match=r"^party-1: row \d+, column 'c\d+': weighting 'idf' is for numbers of 0 or more"
    ):
        KCAGC(n_clusters=5, weighting="idf").fit(frames, adjacency=DEMO.adjacency)
    assert all((one == 1).all() for one in fitted().column_weights_.values())


NAMED = dict(zip(("bank", "telecom", "shop"), PARTIES, strict=True))


def test_names_of_a_dictionary_are_those_of_the_parties_everywhere():
    seen = set()
    settings = {"n_clusters": 5, "psi": 2, "random_state": 0, "callbacks": lambda role, _: seen.add(role)}
    model = KCAGC(**settings).fit(NAMED, adjacency=DEMO.adjacency)
    names = set(NAMED)
    for found in (model.models_, model.feature_names_, model.transformers_, model.column_weights_):
        assert list(found) == list(NAMED)
    assert seen == {*names, "coordinator"} == set(model.bytes_by_role_)
    senders = {sender for entry in model.ledger_ for sender in entry.sender.split("+")}
    assert senders == {*names, "coordinator"}
    np.testing.assert_array_equal(model.labels_, fitted().labels_)
    with pytest.raises(DataError, match=r"^shop: features: 599 rows, but the graph has 600 nodes"):
        KCAGC(**settings).fit(NAMED | {"shop": PARTIES[2][1:]}, adjacency=DEMO.adjacency)


def test_a_prediction_matches_tables_by_name_and_refuses_other_names():
    old, new = slice(0, 590), slice(590, None)
    tables = {name: table[old] for name, table in NAMED.items()}
    model = KCAGC(n_clusters=5, psi=2, random_state=0).fit(tables, adjacency=DEMO.adjacency[old][:, old])
    wanted = model.predict(list(NAMED.values()), adjacency=DEMO.adjacency)
    assert len(wanted) == len(range(600)[new])
    turned = {name: NAMED[name] for name in ("shop", "bank", "telecom")}
    np.testing.assert_array_equal(model.predict(turned, adjacency=DEMO.adjacency), wanted)
    with pytest.raises(
        DataError, match=r"^X: 'hotel' is no party of this model; its parties are bank, telecom and shop"
    ):
        model.predict({"bank": PARTIES[0], "hotel": PARTIES[1], "shop": PARTIES[2]}, adjacency=DEMO.adjacency)


@pytest.mark.parametrize("name", ["", 5, "a\nb", "x" * 65, "coordinator"])
def test_a_name_that_no_party_can_have_is_refused(name):
    with pytest.raises(DataError, match=r"^X: (invalid name of a party|a party cannot have the name)"):
        KCAGC().fit({"bank": PARTIES[0], name: PARTIES[1]}, adjacency=DEMO.adjacency)


def test_transformers_by_name_are_for_the_parties_of_that_name():
    frame = pandas.DataFrame({"age": [1.0, None, 3.0] * 200, "town": ["a", "b", "c"] * 200})
    rules = TablePreprocessor(columns={"town": {"kind": "categorical"}}, default={"missing": "mean"})
    model = KCAGC(n_clusters=3, psi=1, random_state=0, transformers={"bank": rules})
    model.fit({"bank": frame, "shop": PARTIES[0]}, adjacency=DEMO.adjacency)
    assert model.feature_names_["bank"] == ["age", "town=a", "town=b", "town=c"]
    assert model.transformers_["shop"] is None
    with pytest.raises(
        ParameterError, match=r"^transformers: there is no party 'bink'; the parties are bank, telecom and shop"
    ):
        clone(model).set_params(transformers={"bink": rules}).fit(NAMED, adjacency=DEMO.adjacency)


def test_without_a_number_there_are_eight_clusters_as_in_scikit_learn_and_agc():
    assert KCAGC().n_clusters == AGC().n_clusters == 8
    assert len(np.unique(KCAGC(psi=1, random_state=0).fit(NAMED, adjacency=DEMO.adjacency).labels_)) == 8
