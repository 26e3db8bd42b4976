"""Scores of embeddings are those that the table describes."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.paper.graphsage_evaluation import score


@pytest.mark.parametrize("held_out", [None, 0.5])
def test_embeddings_that_separate_the_classes_score_a_hundred(held_out: float | None) -> None:
    labels = np.repeat(np.arange(4), 50)
    embeddings = 20 * np.eye(4)[labels] + np.random.default_rng(0).normal(size=(200, 4))

    assert score(embeddings, labels, held_out=held_out, seed=0) == {"accuracy": 100.0, "f1": 100.0}


def test_held_out_nodes_with_random_classes_are_guessed() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 500)

    found = score(rng.normal(size=(2000, 8)), labels, held_out=0.5, seed=0)

    assert found["accuracy"] == pytest.approx(25, abs=5)
    assert found["f1"] == pytest.approx(25, abs=10)


def test_what_can_only_be_remembered_is_worth_nothing_on_held_out_nodes() -> None:
    """Every node has its own dimension: a classifier knows its class only if it saw its label."""
    labels = np.repeat(np.arange(4), 100)
    alone = 100 * np.eye(len(labels))

    assert score(alone, labels, held_out=None, seed=0)["accuracy"] == 100
    assert score(alone, labels, held_out=0.5, seed=0)["accuracy"] == pytest.approx(25, abs=1)


def test_a_class_that_is_never_found_counts_in_macro_f1_alone() -> None:
    labels = np.repeat([0, 1], [95, 5])

    found = score(np.zeros((100, 2)), labels, held_out=None, seed=0)

    assert found["accuracy"] == 95
    assert found["f1"] == pytest.approx(100 * (2 * 95 / (95 + 100)) / 2)


def test_the_seed_draws_the_held_out_nodes_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 100)
    embeddings = np.eye(3)[labels] + rng.normal(size=(300, 3))

    halves = [score(embeddings, labels, held_out=0.5, seed=seed)["accuracy"] for seed in (0, 0, 1, 2, 3)]

    assert halves[0] == halves[1]
    assert len(set(halves)) > 1
    assert score(embeddings, labels, held_out=None, seed=0) == score(embeddings, labels, held_out=None, seed=1)
