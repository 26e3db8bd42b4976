"""Attacks on local labels find what narrow tables give away, and nothing where labels say nothing."""

import numpy as np
import pytest

from attacks import labels
from attacks.labels import (
    THEM,
    auc,
    groups_after,
    infer,
    known_nodes,
    labels_of,
    narrow_table,
    run_with,
    without_labels,
)
from attacks.party import ME
from attacks.transcripts import Content, Transcript
from kcagc.protocol.messages import PackedLabels, pack


@pytest.fixture(scope="module")
def narrow():
    table = narrow_table(600, 1, seed=3)
    return table[:, 0] > 0, run_with("demo", table, psi=1)


def saying(run, chosen):
    """Return the transcript of party-1 with other labels of party-2."""
    count = int(chosen.max()) + 1
    told = Content(THEM, ME, PackedLabels(count, pack(chosen, count), b"", 0), ME)
    seen = run.of(ME)
    return Transcript(seen.roles, seen.events, (told,), seen.data, seen.secrets)


def test_the_labels_of_a_transcript_are_those_that_the_party_sent(narrow):
    _, run = narrow
    sent = next(
        one.content for one in run.of(THEM).contents if isinstance(one.content, PackedLabels) and one.sender == THEM
    )
    found = labels_of(run.of(ME), THEM)
    assert pack(found, sent.n_clusters) == sent.packed


def test_a_column_alone_in_its_table_is_recovered(narrow):
    true, run = narrow
    known = known_nodes(true, 20, seed=0)
    assert auc(infer([run.of(ME)], THEM, known, true[known]), true, known) > 0.9
    assert abs(auc(without_labels(run.of(ME), known, true[known]), true, known) - 0.5) < 0.1


def test_planted_labels_that_are_the_column_reveal_it_and_random_ones_do_not(narrow):
    true, run = narrow
    known = known_nodes(true, 100, seed=0)
    random = np.random.default_rng(0).integers(10, size=len(true))
    leak, nothing = (
        auc(infer([saying(run, chosen)], THEM, known, true[known]), true, known)
        for chosen in (true.astype(np.int64), random)
    )
    assert leak > 0.99
    assert abs(nothing - 0.5) < 0.1


def test_the_inverse_filter_undoes_the_filter(narrow):
    true, run = narrow
    data, column = run.data[ME], true[:, None].astype(float)
    smooth = data.filter.apply(data.graph, column)
    found = labels.sharpened(data, smooth, 1e-6)
    assert np.corrcoef(found[:, 0], true)[0, 1] > 0.99 > np.corrcoef(smooth[:, 0], true)[0, 1]


def test_labels_with_another_seed_divide_the_nodes_further_and_the_same_labels_do_not():
    table = narrow_table(600, 12, seed=0)
    runs = [run_with("demo", table, psi=2, session=session).of(ME) for session in (0, 1, 0)]
    assert groups_after(runs[:2], THEM) > 2 * groups_after(runs[:1], THEM)
    assert groups_after([runs[0], runs[2]], THEM) == groups_after(runs[:1], THEM)


def test_the_short_form_of_the_suite_runs():
    found = [one for case in labels.cases(short=True) for one in labels.attack(case)]
    assert {one.sentence for one in found} <= set(labels.SENTENCES)
    assert all(one.holds for one in found)
    assert len(found) > 5
