"""Advice: settings that differ by chance are equally good, others are not, and nothing is chosen silently."""

import tomllib

import numpy as np
import pytest

from kcagc.data.party_files import PartyInput
from kcagc.disclosure import Policy
from kcagc.errors import PolicyError
from kcagc.graph.graph import Graph
from kcagc.rehearsal.advice import advise
from kcagc.rehearsal.parties import Parties
from kcagc.rehearsal.runs import Outcome, Rehearsal, RehearsedRun
from kcagc.rehearsal.settings import Grid

NODES, GROUPS = 300, 3


def truth():
    return np.arange(NODES) % GROUPS


def mixed(share, seed):
    """The true groups, with a share of the nodes in a random one."""
    random, labels = np.random.default_rng(seed), truth()
    wrong = random.random(NODES) < share
    return np.where(wrong, random.integers(GROUPS, size=NODES), labels)


def graph():
    """A graph with 1,500 edges, most of them within the groups."""
    random = np.random.default_rng(7)
    first = random.integers(NODES, size=1500)
    inside = (first + GROUPS * random.integers(1, NODES // GROUPS, size=1500)) % NODES
    second = np.where(random.random(1500) < 0.8, inside, random.integers(NODES, size=1500))
    pairs = {(min(pair), max(pair)) for pair in zip(first.tolist(), second.tolist(), strict=True) if pair[0] != pair[1]}
    one, two = np.array(sorted(pairs)).T
    return Graph.from_edges(one, two, n_nodes=NODES)


def rehearsed(*settings, known=False, runs=3, held_out=True):
    """A rehearsal whose settings found the true groups but for a share of the nodes; None is a refused setting."""
    whole = PartyInput(graph(), np.zeros((NODES, 1)), ["f0"], 1)
    parties = dict.fromkeys(("bank", "shop"), whole)
    classes = [str(one) for one in truth()] if known else None
    policies = dict.fromkeys(parties, Policy(["revealing-labels"]))
    grid = Grid.of({"n_clusters": GROUPS}, {"psi": tuple(range(1, len(settings) + 1))}, range(runs))
    found = Rehearsal.of(Parties(parties, policies, classes=classes), grid, held_out=held_out)
    for setting, (share, size) in zip(grid.settings, settings, strict=True):
        outcome = Outcome(setting, list(parties), grid.session(setting), "joint")
        if share is None:
            outcome.error = PolicyError("bank: refused")
        else:
            labels = [mixed(share, 10 * setting.psi + seed) for seed in range(runs)]
            held = labels if held_out else [None] * runs
            outcome.runs = [
                RehearsedRun(seed, one, setting.psi, 1.0, {"bank": size}, 5, other)
                for seed, (one, other) in enumerate(zip(labels, held, strict=True))
            ]
        found.outcomes.append(outcome)
    return found


def psis(advice):
    return [one.setting.psi for one in advice.best]


@pytest.mark.parametrize("known", [False, True])
def test_a_setting_that_is_far_better_is_the_only_one(known):
    advice = advise(rehearsed((0.1, 900), (0.8, 100), (None, 1), known=known))
    assert psis(advice) == [1]
    assert advice.clear
    assert "clearly better" in " ".join(advice.sentences)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("runs", [2, 3])
def test_settings_that_differ_by_chance_are_equally_good_and_the_cheapest_is_copied(known, runs):
    advice = advise(rehearsed((0.2, 900), (0.2, 100), (0.2, 500), (0.9, 1), known=known, runs=runs))
    assert psis(advice) == [1, 2, 3]
    assert advice.chosen.setting.psi == 2
    assert tomllib.loads(advice.block)["session"]["psi"] == 2
    said = " ".join(advice.sentences)
    assert "3 settings are about equally good" in said
    assert "fewest bytes" in said


def test_one_run_of_each_setting_is_said_to_be_too_few():
    assert "Give --runs 3" in advise(rehearsed((0.1, 1), (0.9, 1), runs=1)).sentences[-1]
    assert "Give --runs 3" not in " ".join(advise(rehearsed((0.1, 1), (0.9, 1), runs=2)).sentences)


def test_without_a_fair_measure_nothing_is_recommended():
    advice = advise(rehearsed((0.1, 900), (0.8, 100), held_out=False))
    assert advice.best == []
    assert advice.block == ""
    assert "nothing can say which" in advice.sentences[0]


def test_known_classes_need_no_held_out_edges():
    assert psis(advise(rehearsed((0.1, 900), (0.8, 100), held_out=False, known=True))) == [1]


def test_the_only_setting_that_ran_is_copied_and_said_to_be_the_only_one():
    advice = advise(rehearsed((None, 1), (0.5, 100)))
    assert psis(advice) == [2]
    assert "Only one setting ran" in advice.sentences[0]
    assert advise(rehearsed((None, 1), (None, 1))).chosen is None


def test_runs_that_do_not_agree_are_mentioned():
    assert "another run may find other clusters" in " ".join(advise(rehearsed((0.6, 1), (0.9, 1))).sentences)
    assert "another run" not in " ".join(advise(rehearsed((0.02, 1), (0.9, 1))).sentences)
