"""A session that begins anew tells the same local clusters: its secrets are new, its seeds are not."""

from deploy.collaboration import made, task
from kcagc.runtime.journal import Journal


def test_all_sessions_of_one_process_have_the_same_seeds_and_other_secrets(tmp_path):
    one = task(made(tmp_path)["alice"])
    journal = Journal(one.journal)
    first = one.open_session(journal).drawn
    journal.fail("bob has another graph")
    second = one.open_session(journal).drawn
    assert (first.seed, first.aggregator_seed) == (second.seed, second.aggregator_seed)
    assert first.private != second.private
    assert first.shuffling != second.shuffling
    journal.close()


def test_another_process_draws_seeds_of_its_own(tmp_path):
    configs = made(tmp_path)
    assert task(configs["alice"]).seeds != task(configs["alice"]).seeds
