"""The joint method: clusters of the pooled data, in both forms, for any number of parties and for awkward tables."""

from collections import Counter
from functools import cache

import msgspec
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from adversaries import COORDINATOR, Scenario, data_with, parameters, party_names, prediction
from kcagc import AGC, KCAGC
from kcagc.cluster import joint as pooled_joint
from kcagc.datasets import generate
from kcagc.disclosure import Policy
from kcagc.errors import DataError, ParameterError, PeerError, PolicyError
from kcagc.metrics import ari
from kcagc.protocol import shared_rows, weights
from kcagc.protocol.joint import _joined_seed
from kcagc.protocol.messages import AnonymousClusters, Confirmation, Masked, Padded, Split
from kcagc.secagg.keys import digest

FORMS = ("shares", "coordinator")
each_form = pytest.mark.parametrize("form", FORMS)


@cache
def made(n_parties=3, columns=48, n_nodes=250, k=4, seed=0, signal=1.5):
    widths = (columns // n_parties,) * n_parties
    per_party = signal * np.sqrt(3 / n_parties)
    degree = min(6, (n_nodes // k - 1) / 2)
    return generate(n_nodes, k, degree=degree, homophily=0.6, signal=per_party, features=widths, seed=seed)


def tables_of(dataset):
    return [np.asarray(table) for table in dataset.parties()]


def estimator(form, k=4, **changes):
    chosen = {"n_clusters": k, "psi": 3, "method": "joint", "joint_rows": form, "random_state": 0}
    return KCAGC(**(chosen | {"accept": ("anonymous-geometry",) if form == "coordinator" else ()} | changes))


def pooled(tables, adjacency, k=4):
    return AGC(n_clusters=k, scaling="unit", psi=3, random_state=0).fit(np.hstack(tables), adjacency=adjacency).labels_


def scenario_of(form, widths=(3, 3, 3), n=36, **changes):
    chosen = parameters(**({"method": "joint", "joint_rows": form, "n_components": 12} | changes))
    return Scenario(chosen, len(widths), n, data=data_with(widths, n))


@cache
def played(form):
    return scenario_of(form).run()


# The clusters of the pooled data


@each_form
@pytest.mark.parametrize("n_parties", [2, 3, 8, 16])
def test_the_clusters_are_those_of_the_pooled_data(n_parties, form):
    dataset = made(n_parties)
    tables = tables_of(dataset)
    found = estimator(form).fit(tables, adjacency=dataset.adjacency).labels_
    reference = pooled(tables, dataset.adjacency)
    assert ari(reference, found) > 0.85
    assert ari(dataset.labels, found) > ari(dataset.labels, reference) - 0.05


def test_both_forms_find_the_same_clusters():
    dataset = made()
    one, other = (estimator(form).fit(tables_of(dataset), adjacency=dataset.adjacency).labels_ for form in FORMS)
    assert ari(one, other) > 0.9


@each_form
def test_a_party_of_noise_costs_little(form):
    dataset = made()
    tables = tables_of(dataset)
    noise = np.random.RandomState(0).normal(size=tables[0].shape)
    found = estimator(form).fit([*tables, noise], adjacency=dataset.adjacency).labels_
    assert ari(dataset.labels, found) > ari(dataset.labels, pooled(tables, dataset.adjacency)) - 0.08


@each_form
@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_party_with_few_columns_takes_part(width, form):
    dataset = made()
    tables = tables_of(dataset)
    tables[1] = tables[1][:, :width]
    found = estimator(form).fit(tables, adjacency=dataset.adjacency).labels_
    assert ari(pooled(tables, dataset.adjacency), found) > 0.85


@each_form
def test_two_clusters(form):
    dataset = made(k=2)
    tables = tables_of(dataset)
    found = estimator(form, k=2).fit(tables, adjacency=dataset.adjacency).labels_
    assert ari(pooled(tables, dataset.adjacency, 2), found) > 0.9


@each_form
def test_one_cluster_has_all_nodes(form):
    dataset = made(n_nodes=40)
    assert not estimator(form, k=1).fit(tables_of(dataset), adjacency=dataset.adjacency).labels_.any()


@each_form
def test_fewer_nodes_than_covariances_like(form):
    """Fifty nodes for each component would be 800; here are 40."""
    dataset = made(n_nodes=40)
    tables = tables_of(dataset)
    found = estimator(form).fit(tables, adjacency=dataset.adjacency).labels_
    assert ari(pooled(tables, dataset.adjacency), found) > 0.5
    assert len(np.unique(found)) == 4


@each_form
def test_as_many_clusters_as_nodes(form):
    dataset = made(n_nodes=12)
    found = estimator(form, k=12).fit(tables_of(dataset), adjacency=dataset.adjacency).labels_
    assert sorted(found.tolist()) == list(range(12))


@each_form
def test_every_party_may_have_a_graph_of_its_own(form):
    dataset = made()
    others = [made(seed=0).adjacency, dataset.adjacency, dataset.adjacency.copy()]
    edges = others[0].tocoo()
    kept = np.random.RandomState(0).uniform(size=edges.nnz) < 0.9
    half = type(others[0])((edges.data[kept], (edges.row[kept], edges.col[kept])), shape=edges.shape)
    others[0] = half.maximum(half.T)
    found = estimator(form).fit(tables_of(dataset), adjacency=others).labels_
    assert ari(pooled(tables_of(dataset), dataset.adjacency), found) > 0.75


@each_form
@pytest.mark.parametrize("factors", [(1e6, 1e6, 1e6), (1e200, 1e200, 1e200), (1e-200, 1e-200, 1e-200)])
def test_the_unit_of_the_columns_does_not_matter(factors, form):
    dataset = made()
    tables = tables_of(dataset)
    plain = estimator(form).fit(tables, adjacency=dataset.adjacency).labels_
    other = [factor * table for factor, table in zip(factors, tables, strict=True)]
    assert ari(plain, estimator(form).fit(other, adjacency=dataset.adjacency).labels_) > 0.95


@each_form
def test_a_party_with_much_larger_columns_decides_as_on_pooled_data(form):
    dataset = made()
    tables = tables_of(dataset)
    tables[0] = 1e3 * tables[0]
    found = estimator(form).fit(tables, adjacency=dataset.adjacency).labels_
    assert ari(pooled(tables, dataset.adjacency), found) > 0.85


# What all parties have in common


@each_form
def test_all_parties_have_the_same_labels_and_the_same_cost(form):
    outcome = played(form)
    assert outcome.raised is None
    assert set(outcome.results) == {*party_names(3), COORDINATOR}
    assert len({tuple(labels) for labels in outcome.labels.values()}) == 1
    assert len({outcome.results[name].cost for name in party_names(3)}) == 1


@each_form
def test_clusters_are_numbered_by_their_first_node(form):
    labels = played(form).results["party-1"].labels
    _, first = np.unique(labels, return_index=True)
    assert (np.diff(first) > 0).all()


@each_form
def test_the_same_random_state_gives_the_same_clusters_whatever_the_keys(form):
    """With shares, all parties draw the same starts; a coordinator gives rows the same coordinates."""
    dataset = made(n_nodes=120, signal=0.6)  # clusters that depend on the starts
    runs = [estimator(form).fit(tables_of(dataset), adjacency=dataset.adjacency).labels_ for _ in range(4)]
    for other in runs[1:]:
        assert_array_equal(runs[0], other)


def test_every_party_contributes_to_the_seed_of_common_choices():
    class Of:
        name = "party-2"

        class agreement:  # noqa: N801
            parties = party_names(3)

    def confirmed(seed):
        return Confirmation(1, bytes(8), "", b"", b"", b"", {}, seed, b"")

    def joined(first, own, third):
        received = {"party-1": confirmed(first.to_bytes(8, "big")), "party-3": confirmed(third.to_bytes(8, "big"))}
        return _joined_seed(Of, received, own)

    base = joined(1, 2, 3)
    assert base == joined(1, 2, 3)
    assert len({base, joined(4, 2, 3), joined(1, 4, 3), joined(1, 2, 4), joined(3, 2, 1)}) == 5
    assert 0 <= base < 1 << 56
    for wrong in (b"", bytes(7), bytes(9)):
        with pytest.raises(PeerError) as caught:
            _joined_seed(Of, {"party-1": confirmed(bytes(8)), "party-3": confirmed(wrong)}, 2)
        assert caught.value.peer == "party-3"


# Very many clusters


def test_many_clusters_take_more_sums_and_find_the_same(monkeypatch):
    """Of rotations and of scores there is a limit in one sum."""
    dataset = made(n_nodes=80)
    one = estimator("shares").fit(tables_of(dataset), adjacency=dataset.adjacency)
    monkeypatch.setattr(shared_rows, "ROTATION_VALUES", 30 * 4 * 4)  # 30 rows of 4 dimensions
    monkeypatch.setattr(shared_rows, "SCORE_VALUES", 3 * 80 * 4)  # 3 sets of centres
    several = estimator("shares").fit(tables_of(dataset), adjacency=dataset.adjacency)
    assert_array_equal(one.labels_, several.labels_)
    sums = [Counter(entry.stage.split()[1] for entry in model.ledger_.of("opened/")) for model in (one, several)]
    assert sums[1]["rows"] == 3 * sums[0]["rows"]
    assert sums[1]["scores"] > 1.5 * sums[0]["scores"]
    assert sums[1]["lloyd"] == sums[0]["lloyd"]
    monkeypatch.setattr(shared_rows, "ROTATION_VALUES", 1)
    monkeypatch.setattr(shared_rows, "SCORE_VALUES", 1)
    assert_array_equal(one.labels_, estimator("shares").fit(tables_of(dataset), adjacency=dataset.adjacency).labels_)


# More nodes than the sample


@pytest.fixture
def small_samples(monkeypatch):
    monkeypatch.setattr(pooled_joint, "MIN_SAMPLE", 60)
    monkeypatch.setattr(pooled_joint, "SAMPLE_VALUES", 1)


@each_form
@pytest.mark.usefixtures("small_samples")
def test_nodes_outside_the_sample_go_to_the_centre_of_the_most_similar_direction(form):
    """The sample has 60 of 250 nodes."""
    dataset = made()
    tables = tables_of(dataset)
    model = estimator(form).fit(tables, adjacency=dataset.adjacency)
    assert (model.labels_ >= 0).all()
    assert ari(pooled(tables, dataset.adjacency), model.labels_) > 0.7
    steps = {entry.stage.split()[1] for entry in model.ledger_.of("opened/")}
    assert "assignment" in steps
    assert ("weights" in steps) is (form == "shares")


@pytest.mark.usefixtures("small_samples")
def test_nodes_are_assigned_in_batches_of_any_size(monkeypatch):
    dataset = made()
    tables = tables_of(dataset)
    one = estimator("shares").fit(tables, adjacency=dataset.adjacency).labels_
    monkeypatch.setattr(weights, "BATCH_VALUES", weights.PROBES + 200)
    assert_array_equal(one, estimator("shares").fit(tables, adjacency=dataset.adjacency).labels_)


@pytest.mark.usefixtures("small_samples")
def test_no_known_centre_is_a_clear_error():
    dataset = made()
    with pytest.raises(DataError, match="min_local_size: no cluster has so many of the 60 nodes in the sample"):
        estimator("shares", min_local_size=61).fit(tables_of(dataset), adjacency=dataset.adjacency)


@pytest.mark.usefixtures("small_samples")
def test_a_cluster_with_few_nodes_keeps_its_centre_to_itself():
    """Its nodes in the sample keep their label; no other node is assigned to it, as no party knows its centre."""
    dataset, least = made(), 15
    model = estimator("shares", min_local_size=least).fit(tables_of(dataset), adjacency=dataset.adjacency)
    known = {one.joint.scored for one in model.models_.values()}
    assert len(known) == 1
    (scored,) = known
    assert 0 < len(scored) < 4
    sizes = np.bincount(model.labels_, minlength=4)
    assert all(0 < sizes[cluster] < least for cluster in range(4) if cluster not in scored)
    assert all(sizes[cluster] >= least for cluster in scored)


# Tables that cannot be clustered


@each_form
def test_a_table_of_zeros_is_a_clear_error_that_names_its_party(form):
    dataset = made(n_nodes=40)
    tables = tables_of(dataset)
    tables[1] = 0 * tables[1]
    with pytest.raises(DataError, match="features: all rows are the same") as caught:
        estimator(form).fit(tables, adjacency=dataset.adjacency)
    assert caught.value.party == "party-2"


@each_form
@pytest.mark.parametrize("k", [2, 4])
def test_one_common_direction_gives_clusters(k, form):
    """All columns are multiples of one: the joint rows have rank one, and two directions."""
    dataset = made(n_nodes=60)
    one = tables_of(dataset)[0][:, :1]
    tables = [one, -2 * one, 5 * one]
    labels = estimator(form, k=k).fit(tables, adjacency=dataset.adjacency).labels_
    assert len(np.unique(labels)) == k  # with more clusters than directions, rounding tells rows apart
    if k == 2:
        assert ari(pooled(tables, dataset.adjacency, 2), labels) == 1


@each_form
def test_columns_of_one_party_in_the_span_of_another_are_no_problem(form):
    dataset = made()
    tables = tables_of(dataset)
    tables[1] = tables[0] @ np.random.RandomState(0).normal(size=(16, 5))
    found = estimator(form).fit(tables, adjacency=dataset.adjacency).labels_
    assert ari(pooled(tables, dataset.adjacency), found) > 0.8


@each_form
def test_rows_of_zeros_get_a_label(form):
    dataset = made(n_nodes=60)
    tables = [table.copy() for table in tables_of(dataset)]
    apart = np.asarray(dataset.adjacency.todense()).copy()
    apart[:5], apart[:, :5] = 0, 0
    for table in tables:
        table[:5] = 0
    labels = estimator(form).fit(tables, adjacency=type(dataset.adjacency)(apart)).labels_
    assert ((labels >= 0) & (labels < 4)).all()


def test_a_party_as_aggregator_is_refused_before_anything_is_sent():
    with pytest.raises(ParameterError, match='aggregator: the method "joint" needs a coordinator'):
        estimator("shares", aggregator="party").fit(tables_of(made()), adjacency=made().adjacency)
    outcome = Scenario(parameters(method="joint", aggregator="party"), 3).run()
    assert isinstance(outcome.raised, ParameterError)
    assert not outcome.about_data()


def test_rows_open_to_the_coordinator_only_if_that_is_accepted_by_name():
    with pytest.raises(PolicyError, match="anonymous-geometry"):
        estimator("coordinator", accept=()).fit(tables_of(made()), adjacency=made().adjacency)
    for accepted in (frozenset(), frozenset({"two-party-sum", "labelled-sums"})):
        scenario = scenario_of("coordinator")
        scenario.policies["party-2"] = Policy(accepted)
        outcome = scenario.run()
        assert isinstance(outcome.origins["party-2"], PolicyError)
        assert not outcome.about_data()
    scenario = scenario_of("shares")
    scenario.policy = Policy()
    assert scenario.run().raised is None


# What leaves a party


def words_of(*arrays):
    """Return the 8-byte words of arrays, without zeros."""
    every = b"".join(np.ascontiguousarray(one).tobytes() for one in arrays)
    return {every[start : start + 8] for start in range(0, len(every), 8)} - {bytes(8)}


@each_form
def test_no_message_of_a_party_contains_its_components(form):
    """Neither its columns nor its components or their basis, as numbers or as integers."""
    outcome, data = played(form), data_with((3, 3, 3))
    for name in party_names(3):
        results = outcome.drivers[name]._store.results
        stored = "sample of components" if form == "shares" else "turned components"
        components = np.frombuffer(results[stored], dtype="<i8")
        rows = outcome.results[name].rows
        model = outcome.results[name].model
        private = words_of(
            components,
            np.ldexp(components.astype(float), -20),
            rows,
            np.rint(np.ldexp(rows, 34)).astype(np.int64),
            data[name].features,
            np.frombuffer(model.embedder.basis.data),
        )
        sent = [payload for sender, _, payload in outcome.sent if sender == name]
        sent += [msgspec.msgpack.encode(content) for sender, _, content in outcome.opened if sender == name]
        assert len(private) > 300
        everything = b"\xff".join(sent)
        assert not [word for word in private if word in everything]


@each_form
def test_the_messages_of_a_run_are_those_of_its_form(form):
    outcome = played(form)
    kinds = {type(message) for _, _, message in outcome.messages(object)}
    assert Masked in kinds
    assert (Padded in kinds) is (form == "shares")
    assert (AnonymousClusters in kinds) is (form == "coordinator")
    assert (Split in kinds) is (form == "shares")
    assert {to for _, to, _ in outcome.messages(Split)} <= {"party-1"}


def test_only_holders_send_vectors_about_shares():
    sent = {(sender, str(one.step)) for sender, _, one in played("shares").messages(Masked)}
    assert {sender for sender, _ in sent} == {"party-1", "party-2"}
    assert {step for _, step in sent} == {"rows", "shares", "scores", "lloyd"}


# New nodes


@cache
def fitted(form):
    whole = made()
    n = 230
    tables = [table[:n] for table in tables_of(whole)]
    return estimator(form).fit(tables, adjacency=whole.adjacency[:n, :n])


@each_form
def test_new_nodes_go_to_the_clusters_of_nodes_like_them(form):
    whole, model = made(), fitted(form)
    found = model.predict(tables_of(whole), adjacency=whole.adjacency)
    assert found.shape == (20,)
    both = np.concatenate([model.labels_, found])
    reference = pooled(tables_of(whole), whole.adjacency)
    assert ari(reference, both) > 0.8
    matched = {cluster: np.bincount(reference[:230][model.labels_ == cluster]).argmax() for cluster in range(4)}
    assert np.mean([matched[one] for one in found.tolist()] == reference[230:]) > 0.7


@each_form
def test_fitted_nodes_keep_their_cluster_when_they_are_predicted(form):
    """Nearly all: the nearest centre and the centre of the most similar direction may differ."""
    whole, model = made(), fitted(form)
    tables = [table[:230] for table in tables_of(whole)]
    again = model.predict(tables, adjacency=whole.adjacency[:230, :230], nodes=np.arange(230))
    assert np.mean(again == model.labels_) > 0.9


@each_form
def test_one_new_node_gets_the_label_that_it_gets_among_others(form):
    whole, model = made(), fitted(form)
    together = model.predict(tables_of(whole), adjacency=whole.adjacency)
    alone = model.predict(tables_of(whole), adjacency=whole.adjacency, nodes=[235])
    assert alone.tolist() == [together[5]]


@each_form
def test_a_new_node_far_longer_than_any_fitted_is_a_clear_error(form):
    whole, model = made(), fitted(form)
    tables = [table.copy() for table in tables_of(whole)]
    tables[1][240] *= 1e4
    with pytest.raises(DataError, match="a new row is more than 4 times as long as any row of the fit") as caught:
        model.predict(tables, adjacency=whole.adjacency)
    assert caught.value.party == "party-2"
    assert caught.value.public_message == "aborted"


@each_form
def test_all_parties_predict_the_same(form):
    outcome = prediction(method="joint", joint_rows=form, n_components=12).run()
    assert outcome.raised is None
    assert len({tuple(labels) for labels in outcome.labels.values()}) == 1
    steps = {str(one.step) for _, _, one in outcome.messages(Masked)}
    assert steps == {"prediction"} | ({"weights"} if form == "shares" else set())


def test_a_digest_of_labels_is_the_same_for_the_same_keys():
    """A run with fixed keys can be repeated to the byte; replay rests on that."""
    one, other = (scenario_of("shares").run() for _ in range(2))
    assert digest(*(payload for *_, payload in one.sent)) == digest(*(payload for *_, payload in other.sent))
