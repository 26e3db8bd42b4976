"""The graphs of the experiment on sweeps: every kind is what its name says, and the two sets share no graph."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.sweep import KINDS, SETS, Case, measure, table_of, weighted


def cases(name):
    return [Case.draw(name, number) for number in range(SETS[name])]


def test_no_graph_was_used_to_choose_and_to_check():
    chosen, checked = ({one.seed for one in cases(name)} for name in ("choose", "check"))
    assert len(chosen) == SETS["choose"]
    assert len(checked) == SETS["check"]
    assert not chosen & checked


@pytest.mark.parametrize("kind", sorted({kind for kinds in KINDS.values() for kind in kinds}))
def test_every_kind_is_a_graph_with_the_wanted_classes(kind):
    made = Case(kind, 400, 4, 8.0, 0.8, 3.0, words=False, seed=3)
    for data in (made.build(), replace(made, words=True).build()):
        adjacency = data.adjacency
        assert abs(adjacency - adjacency.T).sum() == 0
        assert adjacency.diagonal().sum() == 0
        assert adjacency.sum() / data.n_nodes == pytest.approx(8, abs=0.2)
        sizes = np.bincount(data.labels, minlength=4)
        assert (sizes.max() > 1.2 * sizes.min()) == ("unbalanced" in kind)
        rows, columns = adjacency.nonzero()
        assert np.mean(data.labels[rows] == data.labels[columns]) == pytest.approx(0.8, abs=0.12)
    degrees = np.asarray(made.build().adjacency.sum(axis=0))
    assert (degrees.max() > 30) == ("hubs" in kind)


def test_words_are_weighted_and_numbers_are_not():
    words = Case("equal", 300, 3, 8.0, 0.8, 3.0, words=True, seed=1).build().features
    numbers = Case("equal", 300, 3, 8.0, 0.8, 3.0, words=False, seed=1).build().features
    assert set(np.unique(words.data)) == {1.0}
    assert len(np.unique(weighted(words).data)) > 5
    assert weighted(numbers) is numbers


def test_a_graph_is_measured_and_counted():
    found = measure(Case("equal", 400, 3, 8.0, 0.85, 3.0, words=False, seed=5).build(), most=8)
    assert found["accuracy"] > 0.95
    assert found["low"] <= 3 <= found["high"]
    text = table_of([{"kind": "equal"} | found, {"kind": "heavy"} | found | {"low": 5, "high": 8, "best": 5}])
    assert "| all with clear structure | 2 | 50.0 % |" in text
