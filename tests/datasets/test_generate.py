import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from kcagc.datasets import generate, load, split_columns
from kcagc.datasets.generator import generate_demo
from kcagc.errors import DataError, ParameterError
from kcagc.graph import Graph


@given(
    n=st.integers(40, 300),
    k=st.integers(2, 4),
    degree=st.floats(0, 4),
    homophily=st.floats(0, 1),
    seed=st.integers(0, 2**31),
)
def test_the_graph_has_the_edges_and_the_homophily_that_were_asked_for(n, k, degree, homophily, seed):
    data = generate(n, k, degree=degree, homophily=homophily, features=2, seed=seed)
    graph = Graph.from_matrix(data.adjacency)  # which checks symmetry
    assert graph.n_edges == round(n * degree / 2)
    assert graph.n_self_loops == 0
    assert set(data.adjacency.data) <= {1.0}
    assert np.ptp(np.bincount(data.labels, minlength=k)) <= 1
    row, column = data.adjacency.nonzero()
    within = np.count_nonzero(data.labels[row] == data.labels[column]) // 2
    assert within == round(round(n * degree / 2) * homophily)


def test_edges_do_not_favour_low_node_numbers():
    """At few edges the draws have a surplus of many, and dropping it from the sorted end would show."""
    upper, lower = 0, 0
    for seed in range(60):
        degrees = np.diff(generate(400, 2, degree=0.1, features=1, seed=seed).adjacency.indptr)
        lower += degrees[:200].sum()
        upper += degrees[200:].sum()
    assert lower / upper == pytest.approx(1, abs=0.1)


def test_dense_features_have_the_signal_that_was_asked_for():
    data = generate(20_000, 3, degree=2, signal=5, features=(40, 60), seed=1)
    assert data.party_columns == (40, 60)
    assert isinstance(data.features, np.ndarray)
    for part in data.parties():
        means = np.array([part[data.labels == label].mean(axis=0) for label in range(3)])
        apart = np.linalg.norm(means[:, None] - means, axis=2)[np.triu_indices(3, 1)]
        assert apart.mean() == pytest.approx(5 * np.sqrt(2), rel=0.25)
        noise = part - means[data.labels]
        assert noise.std() == pytest.approx(1, rel=0.02)


def test_without_signal_classes_look_alike():
    data = generate(20_000, 2, degree=2, signal=0, features=10, seed=1)
    means = [data.features[data.labels == label].mean(axis=0) for label in range(2)]
    assert np.abs(means[0] - means[1]).max() < 0.06


def test_sparse_features_are_binary_words_of_the_sparsity_that_was_asked_for():
    data = generate(5000, 4, degree=2, signal=3, features=(200, 100), sparsity=0.95, seed=2)
    assert sparse.issparse(data.features)
    assert set(data.features.data) == {1.0}
    assert 1 - data.features.nnz / (5000 * 300) == pytest.approx(0.95, abs=0.001)


@pytest.mark.parametrize("sparsity", [0.99, 0.9, 0.7])
def test_words_are_as_much_more_frequent_in_their_class_as_was_asked_for(sparsity):
    data = generate(6000, 3, degree=2, signal=2, features=90, sparsity=sparsity, seed=2)
    assert data.features.has_canonical_format
    assert 1 - data.features.nnz / (6000 * 90) == pytest.approx(sparsity, abs=0.003)
    frequency = np.array([data.features[data.labels == label].mean(axis=0) for label in range(3)])
    own = frequency.argmax(axis=0)
    for label in range(3):
        ratio = frequency[label, own == label].mean() / frequency[label, own != label].mean()
        assert ratio == pytest.approx(3, rel=0.15)


def test_words_too_frequent_for_the_signal_are_refused():
    with pytest.raises(ParameterError, match=r"sparsity: 0\.3 is too low for signal 5"):
        generate(100, 2, degree=2, signal=5, features=10, sparsity=0.3)


def test_a_seed_gives_the_same_dataset_and_another_a_different_one():
    one, same, other = (generate(100, 2, seed=seed) for seed in (5, 5, 6))
    assert_array_equal(one.features, same.features)
    assert_array_equal(one.adjacency.toarray(), same.adjacency.toarray())
    assert (one.adjacency != other.adjacency).nnz > 0


def test_one_class_and_one_node():
    assert generate(10, 1, degree=2, homophily=1.0, features=1).n_classes == 1
    assert generate(1, 1, degree=0, homophily=1.0, features=1).n_nodes == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_classes": 0}, "n_classes"),
        ({"n_nodes": 3, "n_classes": 4}, "3 nodes are too few for 4 classes"),
        ({"n_nodes": 1e3}, "n_nodes"),
        ({"signal": np.nan}, "signal"),
        ({"signal": np.inf}, "signal"),
        ({"seed": -1}, "seed"),
        ({"homophily": 1.2}, "homophily"),
        ({"n_classes": 1, "homophily": 0.5}, "must be 1 for one class"),
        ({"signal": -1}, "signal"),
        ({"features": (3, 0)}, "features: must be a whole number, 1 or more"),
        ({"features": ()}, "at least one party"),
        ({"sparsity": 1.0}, "sparsity"),
        ({"n_nodes": 20, "n_classes": 2, "degree": 15}, "degree: must be a number from 0 to 4.5"),
    ],
)
def test_what_cannot_be_made_is_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        generate(**arguments)


def test_numpy_integers_are_integers():
    assert generate(np.int64(50), np.int32(2), degree=2, features=np.int64(3)).features.shape == (50, 3)


def dense(table):
    return table.toarray() if sparse.issparse(table) else table


def test_the_embedded_dataset_is_its_recipe():
    embedded, made = load("demo"), generate_demo()
    assert_array_equal(embedded.features, made.features)
    assert_array_equal(embedded.adjacency.toarray(), made.adjacency.toarray())
    assert_array_equal(embedded.labels, made.labels)
    assert embedded.party_columns == made.party_columns


def test_the_columns_of_the_demo_have_names_units_and_plausible_values():
    data = load("demo")
    values = data.in_units()
    assert values.shape == (600, 48)
    assert len({column.name for column in data.columns}) == 48
    for column, column_values in zip(data.columns, values.T, strict=True):
        assert re.fullmatch(r"[^,\"\n]+ \((EUR|[\w/ ]*(per|/)[\w/ ]*|[a-z]+)\)", column.name), column.name
        assert column_values.min() >= 0, column.name
        assert len(np.unique(column_values)) > 25, f"{column.name}: rounding has removed too much"


def test_the_values_of_the_demo_are_its_numbers_up_to_unit_and_rounding():
    data = load("demo")
    for column, numbers, values in zip(data.columns, dense(data.features).T, data.in_units().T, strict=True):
        back = (values - column.centre) / column.spread
        assert np.abs(back - numbers).max() <= 0.5001 * 10.0**-column.decimals / abs(column.spread)


def test_frames_hold_the_columns_of_each_party():
    data = load("demo")
    frames = data.frames()
    assert list(frames) == ["bank", "telecom", "shop"]
    assert "cash withdrawals (per month)" in frames["bank"].columns
    assert "toys (EUR/month)" in frames["shop"].columns
    assert_array_equal(np.hstack(list(frames.values())), data.in_units())


def test_a_dataset_without_names_of_columns_says_so():
    with pytest.raises(DataError, match="generated: this dataset has no names and units of columns"):
        generate(20, 2, degree=2, features=(2, 2)).frames()


def test_frames_without_pandas_name_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(DataError, match="pip install pandas"):
        load("demo").frames()


@given(st.integers(1, 40), st.data())
def test_columns_are_split_into_contiguous_near_equal_parts(width, data):
    parties = data.draw(st.integers(1, width))
    table = np.arange(3.0 * width).reshape(3, width)
    parts = split_columns(table, parties)
    assert_array_equal(np.hstack(parts), table)
    widths = [part.shape[1] for part in parts]
    assert widths == sorted(widths, reverse=True)
    assert max(widths) - min(widths) <= 1
    for part, from_sparse in zip(parts, split_columns(sparse.csr_array(table), parties), strict=True):
        assert from_sparse.format == "csr"
        assert_array_equal(from_sparse.toarray(), part)


def test_more_parties_than_columns_are_refused():
    with pytest.raises(DataError, match="3 columns cannot be split among 4 parties"):
        split_columns(np.ones((2, 3)), 4)
    with pytest.raises(ParameterError, match="n_parties"):
        split_columns(np.ones((2, 3)), 0)


def test_lists_are_split_too():
    assert [part.tolist() for part in split_columns([[1, 2], [3, 4]], 2)] == [[[1], [3]], [[2], [4]]]


def test_a_dataset_without_parties_needs_their_number():
    data = generate(20, 2, degree=2, features=4)
    assert [part.shape[1] for part in data.parties(2)] == [2, 2]
    assert [part.shape[1] for part in data.parties()] == [4]
    with pytest.raises(DataError, match="this dataset defines no parties; pass n_parties"):
        replace(data, party_columns=()).parties()
