"""What must not change a diagnosis: units, turned axes, the order of nodes, and what clusters are called."""

import json

import numpy as np
import pytest

from analysis.planted import around, planted
from kcagc import KCAGC, diagnose
from kcagc.analysis import diagnosis as theory
from kcagc.analysis.conditions import conditions
from kcagc.protocol import fit


@pytest.fixture(scope="module")
def blurred():
    """Groups that overlap, so that figures are of every kind."""
    return planted(3, noise=0.3)


def model(**changes):
    chosen = {"n_clusters": 3, "n_local_clusters": "k", "psi": 1, "accept": ("revealing-labels",), "random_state": 0}
    return KCAGC(**(chosen | changes))


def comparable(found):
    return found.n_bad, [(pair.nodes, pair.bad, pair.wrong_side, pair.confused) for pair in found.pairs]


@pytest.mark.parametrize("scale", [1e-30, 0.1, 7.0, 1e30])
def test_scale_shift_and_rotation_change_no_condition(blurred, scale):
    rows, labels = blurred[0][0], blurred[2]
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))
    before = conditions(around(rows, labels))
    after = conditions(around(scale * (rows @ turn + 5), labels))
    assert 0 < before.n_bad < len(labels)  # otherwise there would be nothing to compare
    assert after.norm == pytest.approx(scale * before.norm)
    assert after.deltas == pytest.approx([scale * delta for delta in before.deltas])
    assert after.c == pytest.approx(before.c)
    assert after.pair == before.pair
    assert comparable(after) == comparable(before)


def test_whole_tables_in_other_units_give_the_same_diagnosis(blurred):
    tables, graph, groups = blurred
    before = diagnose(model(), tables, groups, adjacency=graph)
    after = diagnose(model(), [1000 * tables[0], 0.001 * tables[1]], groups, adjacency=graph)
    assert after.bound.c == pytest.approx(before.bound.c)
    assert after.bound.epsilon == before.bound.epsilon
    assert (after.restricted.violate_a, after.restricted.violate_b) == (
        before.restricted.violate_a,
        before.restricted.violate_b,
    )
    assert after.conclusions == before.conclusions


def test_the_order_of_nodes_changes_nothing(blurred):
    tables, graph, groups = blurred
    order = np.random.default_rng(2).permutation(len(groups))
    before = diagnose(model(), tables, groups, adjacency=graph)
    after = diagnose(model(), [table[order] for table in tables], groups[order], adjacency=graph[order][:, order])
    assert after.conclusions == before.conclusions
    assert after.joint.c == pytest.approx(before.joint.c)
    assert [one.own.n_bad for one in after.parties] == [one.own.n_bad for one in before.parties]
    assert sorted(after.restricted.m0) == pytest.approx(sorted(before.restricted.m0))


def test_the_names_of_clusters_change_the_names_and_nothing_else(blurred):
    tables, graph, groups = blurred
    called = np.array(["zoo", "art", "mud"])
    before = diagnose(model(), tables, groups, adjacency=graph)
    after = diagnose(model(), tables, called[groups], adjacency=graph)
    assert {called[name] for name in before.joint.pair} == set(after.joint.pair)
    assert after.joint.clusters == ("art", "mud", "zoo")
    assert after.joint.c == pytest.approx(before.joint.c)
    assert after.joint.n_bad == before.joint.n_bad
    assert after.restricted.violate_a == before.restricted.violate_a
    assert [after.restricted.m0[place] for place in (2, 0, 1)] == pytest.approx(before.restricted.m0)


def test_local_targets_that_are_given_take_the_place_of_those_found(blurred):
    tables, graph, groups = blurred
    four = model(n_local_clusters=4, n_components=3)
    same = diagnose(four, tables, groups, adjacency=graph, local_labels=[groups, groups])
    own = diagnose(four, tables, groups, adjacency=graph)
    for given, found in zip(same.parties, own.parties, strict=True):
        assert given.own == given.target == found.target
        assert len(found.own.sizes) == 4


@pytest.mark.parametrize("scaling", ["unit", "U", "US"])
def test_rows_and_local_clusters_are_those_of_a_fit(blurred, monkeypatch, scaling):
    tables, graph, groups = blurred
    of_fit, of_diagnosis = [], []
    in_fit, in_diagnosis = fit.local_result, theory.compute_local

    async def spy_on_fit(*given):
        of_fit.append(await in_fit(*given))
        return of_fit[-1]

    def spy_on_diagnosis(*given):
        of_diagnosis.append(in_diagnosis(*given))
        return of_diagnosis[-1]

    monkeypatch.setattr(fit, "local_result", spy_on_fit)
    monkeypatch.setattr(theory, "compute_local", spy_on_diagnosis)
    chosen = model(n_local_clusters="2k", scaling=scaling, filter="norm", psi=3, random_state=5)
    chosen.fit(tables, adjacency=graph)
    diagnose(chosen, tables, groups, adjacency=graph)
    assert len(of_diagnosis) == 2
    for ours, theirs in zip(of_diagnosis, of_fit, strict=True):
        assert np.array_equal(ours.rows, theirs.rows)
        assert np.array_equal(ours.labels, theirs.labels)


def test_a_fitted_model_is_diagnosed_by_what_it_found(blurred):
    tables, graph, _ = blurred
    fitted = model().fit(tables, adjacency=graph)
    found = diagnose(fitted, tables, adjacency=graph)
    assert found.joint.sizes == tuple(np.bincount(fitted.labels_).tolist())
    assert found == diagnose(model(), tables, fitted.labels_, adjacency=graph)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_diagnosis_is_json_and_text(noise):
    tables, graph, groups = planted(0, noise=noise)
    found = diagnose(model(psi=0), tables, groups, adjacency=graph, names=["alice", "bob"])
    said = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert [party["name"] for party in said["parties"]] == ["alice", "bob"]
    assert said["joint"]["bad"] == found.joint.n_bad
    assert said["conclusions"] == list(found.conclusions)
    assert "bob, own" in found.summary()
    assert found.conclusions[0] in found.summary()
    assert repr(found).startswith("Diagnosis(2 tables of 120 nodes")
    assert "\n" not in repr(found)


def test_one_cluster_alone_is_separated_from_nothing(blurred):
    tables, graph, groups = blurred
    found = diagnose(model(), tables, np.zeros(len(groups)), adjacency=graph)
    assert (found.joint.c, found.joint.pair, found.joint.n_bad) == (np.inf, None, 0)
    assert found.as_dict()["joint"]["c"] is None


def test_clusters_at_the_same_place_are_not_separated_however_little_they_spread():
    found = conditions(around([[0.0, 1.0]] * 4 + [[5.0, 5.0]] * 2, [0, 0, 1, 1, 2, 2]))
    assert (found.norm, found.c, found.pair) == (0.0, 0.0, (0, 1))
    assert found.n_bad == 4
    assert [(pair.first, pair.second) for pair in found.not_separated] == [(0, 1)]


def test_a_summary_opens_with_what_the_tool_is_for(blurred):
    tables, graph, groups = blurred
    found = diagnose(model(), tables, groups, adjacency=graph)
    for summary in (found.summary(), found.parties[0].summary()):
        assert summary.startswith("This is a research tool.")
        assert "says nothing about the quality of the clusters" in summary.split("\n\n")[0]
