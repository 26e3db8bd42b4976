"""What is wrong with the input is said, with the name of the argument or of the party."""

import numpy as np
import pytest

from analysis.planted import planted
from kcagc import KCAGC, diagnose
from kcagc.analysis.clusters import Clusters
from kcagc.errors import DataError, ParameterError

TABLES, GRAPH, GROUPS = planted(0, size=5)


def tried(X=TABLES, target=GROUPS, *, adjacency=GRAPH, model=None, **changes):
    return diagnose(
        model or KCAGC(n_clusters=3, n_local_clusters="k", psi=1, random_state=0),
        X,
        target,
        adjacency=adjacency,
        **changes,
    )


def test_the_input_that_the_others_spoil_is_good():
    assert tried().joint.n_nodes == 15


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (GROUPS[:-1], "target: must be one label for each of the 15 nodes"),
        (np.zeros((15, 2)), "target: must be one label for each of the 15 nodes"),
        (np.where(np.arange(15) == 4, np.nan, 1.0), "target: the label in row 4 is missing"),
        (np.array([None, *"abcdefghijklmn"], dtype=object), "target: the label in row 0 is missing"),
        (np.array([1, "a"] * 7 + [1], dtype=object), "target: labels must be all numbers or all strings"),
        (None, "target: is missing; give the cluster of every node, or a model that has been fitted"),
    ],
)
def test_a_target_that_names_no_cluster_of_every_node(target, words):
    with pytest.raises(DataError, match=words):
        tried(target=target)


def test_local_labels_are_checked_by_party():
    with pytest.raises(DataError, match=r"^bob: local_labels: must be one label"):
        tried(local_labels=[GROUPS, GROUPS[1:]], names=["alice", "bob"])
    with pytest.raises(ParameterError, match="local_labels: must be a list of 2"):
        tried(local_labels=[GROUPS])
    with pytest.raises(ParameterError, match="local_labels: must be a list of 2"):
        tried(local_labels=GROUPS)


@pytest.mark.parametrize("names", [["alice"], ["alice", "alice"]])
def test_names_that_do_not_tell_parties_apart(names):
    with pytest.raises(ParameterError, match="names: must be 2 different names"):
        tried(names=names)


@pytest.mark.parametrize("name", ["order_constant", "enough"])
@pytest.mark.parametrize("value", [-1, np.nan, "much", None])
def test_constants_that_are_no_numbers(name, value):
    with pytest.raises(ParameterError, match=f"^{name}: must be a number from 0"):
        tried(**{name: value})


def test_tables_and_settings_are_checked_as_for_a_fit():
    with pytest.raises(DataError, match="there must be 2 to 16"):
        tried(X=TABLES[:1])
    with pytest.raises(DataError, match=r"^party-2: "):
        tried(X=[TABLES[0], TABLES[1][1:]])
    with pytest.raises(ParameterError, match="psi: is 1, but there is no graph"):
        tried(adjacency=None)
    with pytest.raises(ParameterError, match="n_local_clusters"):
        tried(model=KCAGC(n_clusters=3, n_local_clusters="many"))


def test_a_table_without_any_difference_names_its_party():
    with pytest.raises(DataError, match=r"^bob: features: all rows are the same"):
        tried(X=[TABLES[0], np.ones((15, 2))], names=["alice", "bob"], model=KCAGC(n_clusters=3, psi=0))
    with pytest.raises(DataError, match=r"^bob: features: all rows are the same"):
        tried(
            X=[TABLES[0], np.ones((15, 2))],
            names=["alice", "bob"],
            model=KCAGC(n_clusters=3, psi=0),
            local_labels=[GROUPS, GROUPS],
        )


@pytest.mark.parametrize("method", ["basic", "joint"])
def test_some_methods_have_no_local_clusters_unless_they_are_given(method):
    model = KCAGC(n_clusters=3, method=method, psi=1)
    with pytest.raises(ParameterError, match=rf'^method: "{method}" has no local clusters'):
        tried(model=model)
    assert tried(model=model, local_labels=[GROUPS, GROUPS]).bound.holds


def test_labels_that_json_does_not_know_are_told_as_text():
    days = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]")
    assert Clusters.of(days, 2, "target").names == ("2024-01-01", "2024-01-02")
