"""Local labels of narrow tables are refused unless accepted, those of wide tables pass, and no cluster is small."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from collaborations import parameters, random_parties, run_fit
from kcagc import KCAGC
from kcagc.datasets import generate, load
from kcagc.disclosure import Ledger, Policy
from kcagc.engines import LOCAL
from kcagc.errors import AbortedError, DataError, PolicyError
from kcagc.graph import Graph, HalfFilter
from kcagc.protocol.label_policy import LIMITS, NARROW, check_labels, measure_labels, observed_nodes
from kcagc.protocol.local import (
    ObservedRows,
    PartyData,
    compute_labels,
    compute_local,
    compute_rows,
    join_small_clusters,
)
from kcagc.protocol.parameters import RunSettings

NODES, K = 2000, 5
NAME = "revealing-labels"
NO_OTHER_LABELS = None


def sensitive_among(n_columns, seed=0):
    """A graph, and a table with a yes or no in 30 % of the nodes that neither the graph nor other columns tell."""
    made = generate(NODES, K, degree=6, homophily=0.6, signal=1.0, features=(11, 2), seed=seed)
    random = np.random.default_rng(seed)
    table = np.column_stack([random.random(NODES) < 0.3, np.asarray(made.parties()[0])])[:, :n_columns]
    return Graph.from_matrix(made.adjacency), (table - table.mean(axis=0)) / table.std(axis=0)


def words(n_columns, n_per_node, seed=0):
    """A graph, and a sparse table of ones: each node has words of its class, and others at random."""
    made = generate(NODES, K, degree=6, homophily=0.6, signal=1.0, features=(2, 2), seed=seed)
    random = np.random.default_rng(seed)
    rate = np.full((K, n_columns), 0.5 * n_per_node / n_columns)
    for group in range(K):
        rate[group, random.choice(n_columns, n_columns // 10, replace=False)] *= 6
    table = (random.random((NODES, n_columns)) < rate[made.labels]).astype(float)
    return Graph.from_matrix(made.adjacency), sparse.csr_array(table)


def local(graph, table, psi, columns=(), **changes):
    settings = RunSettings(n_clusters=K, psi=psi, method="cells", **changes)
    return compute_local(PartyData.build("bank", graph, table, HalfFilter(psi), columns), settings.resolve(2), 0)


def checked(found, columns=(), accept=()):
    return check_labels("bank", found.measurement, found.whole, columns, Policy(accept))


@pytest.mark.parametrize("psi", [1, 5])
@pytest.mark.parametrize("n_columns", [1, 4, 12])
def test_a_yes_or_no_in_a_narrow_table_is_refused_by_name_and_figure(n_columns, psi):
    graph, table = sensitive_among(n_columns)
    found, names = local(graph, table, psi), ["smoker", *(f"f{number}" for number in range(1, n_columns))]
    assert not found.whole
    first = found.measurement.columns[0]
    assert (first.column, first.kind, first.limit) == (0, "yes or no", 0.6)
    assert first.auc > 0.6 + 0.02
    with pytest.raises(PolicyError) as refused:
        checked(found, names)
    message = str(refused.value)
    assert message.startswith("bank: the local labels would reveal column 'smoker' (yes or no)")
    assert f"AUC {first.auc:.2f} (limit 0.60)" in message
    assert f"{found.measurement.gain:.2f} (limit {NARROW:.2f})" in message
    assert f'accept "{NAME}"' in message
    assert refused.value.public_message == "aborted"
    assert checked(found, names, [NAME]) == "labels.revealing"


def test_without_names_a_column_is_called_by_its_number():
    graph, table = sensitive_among(1)
    with pytest.raises(PolicyError, match="column '0'"):
        checked(local(graph, table, 1))


def test_more_columns_and_more_smoothing_reveal_less():
    found = {(m, psi): local(*sensitive_among(m), psi).measurement for m in (1, 4, 12) for psi in (1, 5)}
    for psi in (1, 5):
        gains = [found[m, psi].gain for m in (1, 4, 12)]
        assert gains == sorted(gains, reverse=True)
    assert all(found[m, 5].gain < found[m, 1].gain for m in (1, 4, 12))


def test_a_wide_table_of_words_passes():
    found = local(*words(400, 12), 5)
    assert found.measurement.n_columns > 100
    assert found.measurement.gain < NARROW
    assert checked(found) == "labels"


def test_a_heavy_yes_or_no_makes_a_wide_table_narrow():
    graph, table = words(400, 12)
    heavy = 20.0 * (np.random.default_rng(0).random(NODES) < 0.3)
    found = local(graph, sparse.hstack([table, sparse.csr_array(heavy[:, None])], format="csr"), 2).measurement
    assert found.gain > NARROW
    assert found.revealed[0].column == 400


def test_a_copy_of_a_column_does_not_hide_it():
    graph, table = sensitive_among(4)
    found = local(graph, np.column_stack([table, -table[:, 0], 2 * table[:, 0]]), 1).measurement
    assert {one.column for one in found.revealed} >= {0, 4, 5}


def test_one_category_in_many_columns_is_narrow():
    graph, _ = sensitive_among(1)
    group = np.random.default_rng(0).integers(30, size=NODES)
    found = local(graph, np.eye(30)[group], 1, n_local_clusters=12).measurement
    assert found.narrow
    assert found.revealed


def test_a_category_is_measured_by_its_values_and_a_number_by_its_half():
    graph, table = sensitive_among(3)
    table[:, 0] = np.random.default_rng(0).integers(4, size=NODES)
    kinds = {one.column: one.kind for one in local(graph, table, 1).measurement.columns}
    assert kinds == {0: "category", 1: "number", 2: "number"}
    assert LIMITS["number"] > LIMITS["category"] == LIMITS["yes or no"]


@pytest.mark.parametrize("seed", range(8))
def test_labels_at_random_predict_nothing(seed):
    graph, table = sensitive_among(12)
    labels = np.random.default_rng(seed).integers(10, size=NODES)
    found = measure_labels(graph, table, labels, lambda *_: NO_OTHER_LABELS)
    assert not any(one.predicted for one in found.columns)
    assert max(one.auc for one in found.columns) < 0.57
    assert abs(found.gain) < 0.02


def test_labels_of_the_column_itself_predict_it_out_of_fold():
    graph, table = sensitive_among(1)
    found = measure_labels(graph, table, (table[:, 0] > 0).astype(np.int64), lambda *_: NO_OTHER_LABELS)
    assert found.columns[0].auc == 1.0
    assert found.gain == 0.5


def test_a_party_ends_the_run_alone_and_before_its_labels_leave():
    graph, narrow = sensitive_among(4)
    wide = generate(NODES, K, degree=6, homophily=0.6, signal=1.0, features=(40, 2), seed=1).parties()[0]
    chosen = RunSettings(n_clusters=K, psi=5, n_init=1, method="cells").resolve(2)
    data = {
        "bank": PartyData.build("bank", graph, narrow, HalfFilter(5), ["smoker", "a", "b", "c"]),
        "shop": PartyData.build("shop", graph, wide, HalfFilter(5)),
    }
    ledger = Ledger()
    with pytest.raises(PolicyError, match=r"^bank: .*column 'smoker'"):
        run_fit(chosen, data, policy=Policy(), ledger=ledger)
    assert [entry for entry in ledger if entry.sender == "bank" and entry.kind.startswith("encrypted/labels")] == []
    run_fit(chosen, data, policy=Policy([NAME]), ledger=ledger)
    sent = {entry.sender: (entry.kind, entry.weaker) for entry in ledger if entry.kind.startswith("encrypted/labels")}
    assert sent == {"bank": ("encrypted/labels.revealing", True), "shop": ("encrypted/labels", False)}


def test_the_estimator_refuses_and_accepts_alike():
    graph, narrow = sensitive_among(4)
    model = KCAGC(n_clusters=K, n_init=1, method="cells", random_state=0)
    with pytest.raises(PolicyError, match=r"^party-[12]: the local labels would reveal column '0'"):
        model.fit([narrow, narrow], adjacency=graph)
    model.set_params(accept=[NAME]).fit([narrow, narrow], adjacency=graph)
    assert model.ledger_.of("encrypted/labels.revealing")


def test_the_basic_method_has_no_labels_to_refuse():
    graph, narrow = sensitive_among(1)
    model = KCAGC(n_clusters=3, n_init=1, method="basic", max_iter=3, random_state=0)
    model.fit([narrow, narrow], adjacency=graph)
    assert not model.ledger_.of("encrypted/labels")


@pytest.mark.parametrize("psi", [2, 5])
def test_the_demo_passes(psi):
    demo = load("demo")
    graph = Graph.from_matrix(demo.adjacency)
    assert {checked(local(graph, table, psi)) for table in demo.parties()} == {"labels"}


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["cora", "citeseer", "wiki", "pubmed"])
def test_tables_of_words_of_the_public_graphs_pass(name):
    data = load(name)
    graph = Graph.from_matrix(data.adjacency)
    chosen = RunSettings(n_clusters=data.n_classes, method="cells").resolve(3)
    for number, table in enumerate(data.parties(3)):
        found = compute_local(PartyData.build(f"party-{number}", graph, table, HalfFilter(5)), chosen, 0)
        assert checked(found) == "labels"
        assert found.measurement.gain < NARROW - 0.02


@given(seed=st.integers(0, 10_000), n=st.integers(2, 60), k=st.integers(1, 12), least=st.integers(1, 20))
def test_no_cluster_is_small_unless_it_is_the_only_one(seed, n, k, least):
    random = np.random.default_rng(seed)
    rows, labels = random.normal(size=(n, 2)), random.integers(k, size=n)
    joined = join_small_clusters(rows, labels, least)
    sizes = np.bincount(joined)
    assert (sizes > 0).all()
    assert len(sizes) == 1 or sizes.min() >= least
    for cluster in np.unique(labels):  # clusters are joined and never divided
        assert len(np.unique(joined[labels == cluster])) == 1
    if np.bincount(labels, minlength=k)[np.unique(labels)].min() >= least:
        assert len(sizes) == len(np.unique(labels))


def test_a_small_cluster_joins_the_nearest():
    rows = np.array([[0.0], [0.1], [5.0], [9.0], [9.1]])
    assert join_small_clusters(rows, np.array([0, 0, 1, 2, 2]), 2).tolist() == [0, 0, 1, 1, 1]


@given(seed=st.integers(0, 1000), least=st.integers(1, 4))
def test_local_clusters_have_the_agreed_size(seed, least):
    (data,) = random_parties(seed, 1, n_nodes=40).values()
    chosen = parameters(n_local_clusters=6, min_local_size=least)
    found = compute_local(data, chosen, seed)
    assert np.bincount(found.labels).min() >= least
    assert found.n_clusters == found.labels.max() + 1 <= 6
    if least == 1:
        assert found.n_clusters == 6


def test_a_size_that_leaves_one_cluster_is_refused_with_a_remedy():
    (data,) = random_parties(0, 1, n_nodes=12).values()
    with pytest.raises(DataError, match="min_local_size: 12 nodes do not form two local clusters of 7 nodes; use a sm"):
        compute_local(data, parameters(min_local_size=7), 0)


@pytest.mark.parametrize(
    ("n_columns", "as_table"), [(12, True), (12, False), (300, False)], ids=["table", "all columns again", "operator"]
)
def test_a_measurement_is_that_of_a_table_smoothed_without_the_columns(monkeypatch, n_columns, as_table):
    """The rows that a party kept, those it computes again after a crash, and every block smoothed anew say the same."""
    graph, table = sensitive_among(12) if n_columns == 12 else words(n_columns, 30)
    settings = RunSettings(n_clusters=K, psi=3, method="cells").resolve(2)
    monkeypatch.setattr("kcagc.protocol.label_policy.MEASURED_NODES", 100)
    data = PartyData.build("bank", graph, table, HalfFilter(3))
    rows = compute_rows(data, settings)
    found = compute_local(data, settings, 0) if as_table else compute_labels(data, rows, settings, 0)
    assert 100 < len(observed_nodes(graph)) < NODES
    assert found.measurement.n_nodes == 100

    def smoothed_anew(self, stored, embedder):
        smoothed = HalfFilter(3).apply(graph, self._data.features)
        return embedder.rows(LOCAL, smoothed)[observed_nodes(graph)]

    monkeypatch.setattr(ObservedRows, "project", smoothed_anew)
    anew = compute_labels(data, rows, settings, 0)
    assert found.measurement.gain == pytest.approx(anew.measurement.gain, abs=1e-9)
    for one, other in zip(found.measurement.columns, anew.measurement.columns, strict=True):
        assert (one.column, one.auc) == (other.column, other.auc)
        assert one.without == pytest.approx(other.without, abs=1e-9)


def test_a_measurement_survives_the_journal():
    found = local(*sensitive_among(4), 1)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=type(found)).measurement == found.measurement


def test_other_parties_learn_only_that_the_run_ended():
    assert str(AbortedError(PolicyError().with_public_message("aborted").public_message, peer="bank")).endswith(
        "bank ended the run: aborted, for a reason that only its own log gives"
    )
