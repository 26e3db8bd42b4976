"""What a party knows about each node: compared with the plain formulas, kept in a file, and explained in words."""

import json
import stat
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from kcagc.cluster.local import confidence
from kcagc.data import ColumnRule, TableRules, read_features
from kcagc.errors import DataError
from kcagc.graph import Graph
from kcagc.graph.ids import NodeIds
from kcagc.report.insights.description import MEMBERS, Description, Insights
from kcagc.report.insights.explanation import explain_node
from kcagc.report.insights.measures import Units, cluster_totals
from kcagc.report.insights.nodes import NodeInsights, neighbours_of, reasons_of
from kcagc.report.names import ClusterNames
from report.insights.examples import blobs, ring


@lru_cache
def insights(*, ids=True, graph=True, weights=None):
    rows, labels = blobs(90)
    names = NodeIds([f"node-{one:03}" for one in range(90)], where="test") if ids else None
    columns = ["age", "income", "visits", "calls"]
    weight = None if weights is None else np.array(weights)
    there = ring(90) if graph else None
    return Insights.of(Description(labels, 4, rows, columns, rows, None, there, weight, ids=names, party="bank"))


def random_graph(seed, n=40, share=0.1):
    random = np.random.default_rng(seed)
    upper = np.triu(random.random((n, n)) < share)  # with self loops
    return Graph.from_matrix(np.where(upper | upper.T, 1.0 + random.integers(3), 0.0))


@given(st.integers(0, 10_000), st.integers(1, 7))
def test_edges_are_counted_by_cluster_without_weights_and_self_loops(seed, k):
    graph = random_graph(seed)
    labels = np.random.default_rng(seed).integers(0, k, 40)
    found = neighbours_of(graph, labels, k)
    dense = graph.adjacency.toarray() > 0
    np.fill_diagonal(dense, False)
    counts = dense @ np.eye(k, dtype=int)[labels]
    np.testing.assert_array_equal(found.edges, dense.sum(axis=1))
    np.testing.assert_array_equal(found.inside, counts[np.arange(40), labels])
    counts[np.arange(40), labels] = 0
    for node in range(40):
        for to, number in zip(found.to_clusters[node], found.to_counts[node], strict=True):
            assert (to == -1) == (number == 0)
            assert to == -1 or counts[node, to] == number
        assert found.to_counts[node].tolist() == sorted(counts[node], reverse=True)[:2] + [0] * (2 - min(k, 2))


@given(st.integers(0, 10_000))
def test_a_reason_is_a_column_whose_value_is_nearer_to_the_own_cluster(seed):
    random = np.random.default_rng(seed)
    table, labels = random.normal(size=(30, 20)), np.arange(30) % 3
    other = (labels + 1 + random.integers(0, 2, 30)) % 3
    columns, values, means = reasons_of(table, labels, other, cluster_totals(table, labels, 3))
    expected = np.array([table[labels == cluster].mean(axis=0) for cluster in range(3)])
    np.testing.assert_allclose(means, expected, atol=1e-12)
    score = ((table - expected[other]) ** 2 - (table - expected[labels]) ** 2) / table.var(axis=0)
    for node in range(30):
        kept = [column for column in columns[node] if column >= 0]
        assert kept == [column for column in np.argsort(-score[node]) if score[node, column] > 1e-6][:3]
        np.testing.assert_array_equal(values[node, : len(kept)], table[node, kept])


@pytest.mark.parametrize("kind", [sparse.csr_array, np.asarray])
def test_in_a_table_of_mostly_zeros_only_columns_that_a_node_has_are_reasons(kind):
    random = np.random.default_rng(0)
    labels, other = np.arange(60) % 3, (np.arange(60) + 1) % 3
    table = (random.random((60, 30)) < 0.1) * 2.0
    table[labels == 1, 4] = 1.0
    columns, values, means = reasons_of(kind(table), labels, other, cluster_totals(kind(table), labels, 3))
    assert set(columns[labels == 1, 0]) == {4}
    assert set(values[labels == 1, 0]) == {1.0}
    assert means[1, 4] == 1.0
    chosen = columns >= 0
    assert (table[np.nonzero(chosen)[0], columns[chosen]] != 0).all()


def test_sparse_numbers_with_negative_values_have_the_reasons_of_the_dense_table():
    rows, labels = blobs()
    other, totals = (labels + 1) % 3, cluster_totals(rows, labels, 3)
    dense, thin = (reasons_of(table, labels, other, totals) for table in (rows, sparse.csr_array(rows)))
    for one, two in zip(dense, thin, strict=True):
        np.testing.assert_allclose(one, two)


def test_typical_members_are_nearest_to_the_centre_and_borderline_ones_between_two():
    found = insights()
    nodes = found.nodes
    for one in found.clusters["clusters"][:3]:
        mine = np.flatnonzero(nodes.cluster == one["cluster"])
        nearest = mine[np.argsort(nodes.to_own[mine])][:MEMBERS]
        assert {nodes.row_of(node) for node in one["typical"]} == set(nearest.tolist())
        border = [nodes.row_of(border["id"]) for border in one["borderline"]]
        rest = np.setdiff1d(mine, border)
        gap = np.abs(nodes.to_other - nodes.to_own) / (nodes.to_other + nodes.to_own)
        assert gap[border].max() <= gap[rest].min()
        assert [nodes.other[row] for row in border] == [border["other"] for border in one["borderline"]]
    assert found.clusters["clusters"][3]["typical"] == []


def test_density_counts_each_edge_once():
    rows, _ = blobs(12)
    labels = np.array([0] * 6 + [1] * 5 + [2])
    found = Insights.of(Description(labels, 3, rows, None, rows, None, ring(12))).clusters["clusters"]
    assert [one["edges_inside"] for one in found] == [5, 4, 0]
    assert [one["edges_outside"] for one in found] == [2, 2, 2]
    assert [one["density"] for one in found] == [5 / 15, 4 / 10, None]
    assert [one["linked"][0]["cluster"] for one in found] == [1, 0, 0]


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("graph", [True, False])
def test_a_file_keeps_everything_and_is_for_its_owner_only(tmp_path, ids, graph):
    before = insights(ids=ids, graph=graph).nodes
    before.save(tmp_path / "nodes.npz")
    after = NodeInsights.load(tmp_path / "nodes.npz")
    assert stat.S_IMODE((tmp_path / "nodes.npz").stat().st_mode) == 0o600
    for node in range(90):
        first, second = (explain_node(one, before.id_of(node)) for one in (before, after))
        assert first.text() == second.text()
        assert json.loads(json.dumps(second.to_dict())) == second.to_dict()


def test_numbers_and_unusual_texts_are_ids(tmp_path):
    rows, labels = blobs(6)
    for values in (np.array([7, -3, 10**12, 0, 1, 2]), ["", "ä\nö", "a,b", "\U0001f600" * 9, " x", "1"]):
        found = Insights.of(
            Description(labels, 3, rows, None, rows, None, None, ids=NodeIds(values, where="test"))
        ).nodes
        found.save(tmp_path / "nodes.npz")
        again = NodeInsights.load(tmp_path / "nodes.npz")
        assert [again.row_of(value) for value in values] == list(range(6))


def test_a_damaged_file_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "nodes.npz"
    insights().nodes.save(path)
    whole = path.read_bytes()
    for damaged in (b"", b"no archive", whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"nodes\.npz: cannot be read"):
            NodeInsights.load(path)
    np.savez(path, format=np.array("kcagc nodes 99"))
    with pytest.raises(DataError, match="kcagc nodes 99"):
        NodeInsights.load(path)


def test_a_pickled_object_in_the_file_is_never_loaded(tmp_path):
    path = tmp_path / "nodes.npz"
    np.savez(path, format=np.array("kcagc nodes 1"), cluster=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="cannot be read"):
        NodeInsights.load(path)


def test_an_explanation_agrees_with_the_confidence_of_the_labels():
    found = insights()
    nodes = found.nodes
    rows, labels = blobs()
    centers = np.array([rows[labels == cluster].mean(axis=0) for cluster in range(3)])
    expected = confidence(rows, centers, range(3), labels)
    np.testing.assert_allclose(nodes.confidence, expected, atol=1e-12)
    away = np.linalg.norm(rows[:, None] - centers, axis=2)
    for row in range(0, 90, 7):
        one = found.explain(f"node-{row:03}")
        assert one.distance == pytest.approx(away[row, labels[row]])
        away[row, labels[row]] = np.inf
        assert one.alternative == away[row].argmin()
        assert one.confidence == pytest.approx(expected[row], abs=1e-4)
        mates = nodes.to_own[labels == labels[row]]
        assert one.further_out == (mates > one.distance).sum() / 29
        assert one.edges == 2


def test_an_explanation_names_clusters_edges_and_columns():
    names = ClusterNames({1: "Night shift", 0: "Families"})
    text = insights().explain("node-004", names).text()
    assert text.startswith("node-004 is in cluster 1 (Night shift), which has 30 nodes.")
    assert "The nearest alternative is cluster 0 (Families), whose centre is" in text
    assert "None of its 2 edges leads to its own cluster; 1 to cluster 0 and 1 to cluster 2." in text
    assert "Columns of bank that fit its cluster better than cluster 0:" in text
    assert "- age is -3.67; the mean of its cluster is -3.35, that of cluster 0 0.999" in text


def test_values_and_means_are_without_the_weights_of_columns():
    plain, weighted = insights(), insights(weights=(0.5, 2.0, 1.0, 4.0))
    for reason in weighted.explain("node-004").reasons:
        (same,) = [one for one in plain.explain("node-004").reasons if one.column == reason.column]
        factor = {"age": 0.5, "income": 2.0, "visits": 1.0, "calls": 4.0}[reason.column]
        assert reason.value == pytest.approx(same.value / factor)
        assert reason.mean == pytest.approx(same.mean / factor)


def test_values_and_means_are_in_the_units_of_the_file(tmp_path):
    random = np.random.default_rng(0)
    income, visits, calls = random.normal(40_000, 9_000, 60), random.lognormal(3, 1, 60), random.random(60)
    labels = (income > 40_000).astype(np.int64)
    path = tmp_path / "bank.csv"
    lines = [f"{a!r},{b!r},{c!r}" for a, b, c in zip(*(one.tolist() for one in (income, visits, calls)), strict=True)]
    path.write_text("income,visits,calls\n" + "\n".join(lines) + "\n")
    table = read_features(path, party="bank")
    scale = {"income": ColumnRule(scale="standard"), "visits": ColumnRule(scale="log1p")}
    rules = TableRules(columns=scale).fit(table)
    made = rules.apply(table)
    given = Description(labels, 2, made, rules.feature_names(), made, None, None, units=Units.of(rules))
    found = Insights.of(given)
    (top,) = [one for one in found.clusters["clusters"][1]["top_features"] if one["feature"] == "income"]
    assert top["mean"] == pytest.approx(income[labels == 1].mean())
    assert top["mean_outside"] == pytest.approx(income[labels == 0].mean())
    columns = {"income": income, "visits": visits, "calls": calls}
    means = {
        name: [
            (np.expm1(np.log1p(one[labels == c]).mean()) if name == "visits" else one[labels == c].mean())
            for c in (0, 1)
        ]
        for name, one in columns.items()
    }
    seen = set()
    for row in range(60):
        for reason in found.explain(row).reasons:
            seen.add(reason.column)
            assert reason.value == pytest.approx(columns[reason.column][row])
            assert reason.by_logarithm == (reason.column == "visits")
            assert reason.mean == pytest.approx(means[reason.column][labels[row]])
            assert reason.mean_other == pytest.approx(means[reason.column][1 - labels[row]])
    assert seen == set(columns)
    tops = [one for described in found.clusters["clusters"] for one in described["top_features"]]
    assert {one["feature"] for one in tops if one.get("by_logarithm")} == {"visits"}
    found.nodes.save(tmp_path / "nodes.npz")
    texts = [explain_node(NodeInsights.load(tmp_path / "nodes.npz"), row).text() for row in range(60)]
    assert texts == [found.explain(row).text() for row in range(60)]
    for name, words in (("visits", "typical value (mean of the logarithms)"), ("income", "mean")):
        lines = [line for text in texts for line in text.splitlines() if line.startswith(f"- {name} ")]
        assert lines
        assert all(f"; the {words} of its cluster is" in line for line in lines)


def explained(edges, labels, rows=None, n=4):
    """Explain node 0 of a small graph."""
    rows = np.arange(n, dtype=float)[:, None] if rows is None else rows
    matrix = np.zeros((n, n))
    for one, two in edges:
        matrix[one, two] = matrix[two, one] = 1
    graph = Graph.from_matrix(matrix)
    labels = np.array(labels)
    return Insights.of(Description(labels, int(labels.max()) + 1, rows, ["x"], rows, None, graph)).explain(0).text()


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([(1, 2)], "It has no edges to other nodes."),
        ([(0, 0), (1, 2)], "It has no edges to other nodes."),
        ([(0, 1)], "Its only edge leads to its own cluster."),
        ([(0, 2)], "Its only edge does not lead to its own cluster."),
        ([(0, 1), (0, 2)], "Of its 2 edges, 1 leads to its own cluster; 1 to cluster 1."),
    ],
)
def test_numbers_of_edges_have_the_grammar_of_their_number(edges, words):
    assert words in explained(edges, [0, 0, 1, 1])


def test_a_single_cluster_has_no_alternative():
    assert "There is no other cluster." in explained([(0, 1)], [0, 0, 0, 0])


def test_a_node_in_the_middle_is_called_borderline_and_one_on_the_other_side_too():
    rows = np.array([[5.0], [0.0], [10.0], [10.0], [0.0], [0.0]])
    labels = [0, 0, 1, 1, 0, 0]
    assert "about equally far away" not in explained([], labels, rows, 6)
    rows[0] = 9.0  # nearer to the other cluster, by the columns of this party
    text = explained([], labels, rows, 6)
    assert "cluster 1 is nearer" in text
    assert "depend on the columns of all parties" in text


@pytest.mark.parametrize(
    ("ids", "node", "words"),
    [
        (True, "node-04", "Similar ids: 'node-0"),
        (True, "NODE-004", "Similar ids: 'node-004'"),
        (True, "zzz", "ids look like 'node-000'. The file of labels lists all ids"),
        (True, "", "no node has the id ''"),
        (False, "90", "name a row from 0 to 89"),
        (False, "-1", "name a row from 0 to 89"),
        (False, "9" * 30, "name a row from 0 to 89"),
        (False, "1.0", "name a row from 0 to 89"),
        (False, "²", "name a row from 0 to 89"),
    ],
)
def test_an_unknown_id_is_an_error_that_helps(ids, node, words):
    with pytest.raises(DataError, match="no node has the id") as caught:
        insights(ids=ids).explain(node)
    assert words in str(caught.value)
