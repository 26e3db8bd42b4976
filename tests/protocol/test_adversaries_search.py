"""Lying roles while the parties search for ψ or compare numbers of clusters: every run ends, and names the culprit."""

from collections import Counter
from dataclasses import replace
from functools import cache

import msgspec
import numpy as np
import pytest

from adversaries import COORDINATOR, Changing, Insider, Scenario, but, data_with, parameters, party_names
from kcagc.cluster import held_out
from kcagc.cluster.held_out import hold_out_edges
from kcagc.errors import AbortedError, DataError, MaskReuseError, PeerError
from kcagc.graph.filters import HalfFilter, SearchedFilter
from kcagc.protocol import aggregator, joint, search
from kcagc.protocol.agreement import graph_digest
from kcagc.protocol.effects import CommitMask
from kcagc.protocol.local import PartyData
from kcagc.protocol.messages import Answer, EncryptedMessages, Masked, Padded, Split, Step
from kcagc.secagg.keys import framed
from kcagc.secagg.shares import COMPONENT_BITS
from protocol.test_adversaries_joint import FALSE_SPLITS, added, ended
from protocol.test_adversaries_signs import LIES, LyingAggregator, noise

N, ORDERS = 70, (1, 2, 5)
KINDS = ("psi", "clusters", "both")
SEARCH = "sizes of the search for psi"


def scenario_of(kind="psi", widths=(3, 4, 3)):
    """Return a session that searches for ψ and then fits, or compares numbers of clusters, or both."""
    chosen = SearchedFilter("half") if kind != "clusters" else HalfFilter(2)
    changes = {"orders": ORDERS if kind != "clusters" else (), "most_clusters": 0 if kind == "psi" else 5}
    data = {name: PartyData(one.graph, one.features, chosen) for name, one in data_with(tuple(widths), N).items()}
    settings = parameters(method="joint", n_components=12, filter=repr(chosen), **changes)
    return Scenario(settings, len(widths), n=N, data=data)


@cache
def honest(kind="psi"):
    return scenario_of(kind).run()


def no_result(outcome):
    """Whether the run ended without a result, and no role waits."""
    assert not [one for name, one in outcome.results.items() if name != COORDINATOR]
    assert not outcome.waiting
    assert {type(error) for error in outcome.errors.values()} <= {PeerError, AbortedError, DataError}
    return str(outcome.raised)


@pytest.mark.parametrize("kind", KINDS)
def test_an_honest_session_has_one_result(kind):
    outcome = honest(kind)
    assert outcome.raised is None
    found = [outcome.results[name] for name in party_names(3)]
    if kind == "psi":
        assert len({tuple(one.labels) for one in found}) == 1
    else:
        assert len({repr(one.sweep) for one in found}) == 1
    assert len({repr(one.psi_search) for one in found}) == 1


# What the coordinator sees of several blocks


def covariances(one):
    words = np.frombuffer(one.covariance, dtype="<i8").astype(float)
    return np.ldexp(words, -2 * COMPONENT_BITS).reshape(len(ORDERS), one.n_components, -1)


def test_no_two_covariances_of_a_search_have_one_basis():
    """In one basis, more smoothing makes every variance smaller: the difference of two covariances has no sign else."""
    first = [one for _, _, one in honest().messages(Padded)][:3]
    for one in first:
        least = [
            np.linalg.eigvalsh(before - after)[0] / np.trace(before)
            for before, after in zip(covariances(one), covariances(one)[1:], strict=False)
        ]
        assert min(least) < -1e-3
        lengths = [np.trace(block) for block in covariances(one)]
        assert lengths == sorted(lengths, reverse=True)


def test_covariances_in_one_basis_would_be_found(monkeypatch):
    """As if one rotation turned all blocks."""
    real = search.rotation
    monkeypatch.setattr(search, "rotation", lambda key, session, *_, size: real(key, session, "same", size=size))
    one = next(one for _, _, one in scenario_of().run().messages(Padded))
    pairs = zip(covariances(one), covariances(one)[1:], strict=False)
    assert min(np.linalg.eigvalsh(before - after)[0] / np.trace(before) for before, after in pairs) > -1e-6


def test_no_pad_of_a_search_is_that_of_the_fit():
    words = [np.frombuffer(one.words, dtype="<u8") for _, _, one in honest().messages(Padded)]
    assert len(words) == 6
    for place, one in enumerate(words):
        for other in words[:place]:
            count = min(len(one), len(other))
            near = np.abs((one[:count] - other[:count]).view(np.int64)) < 1 << 40
            assert near.mean() < 0.01


# Blocks of the wrong shape

FALSE_BLOCKS = {
    "no rows": but(words=b""),
    "a block less": lambda one: but(words=one.words[: -len(one.words) // len(ORDERS)])(one),
    "a row less": lambda one: but(words=one.words[: -8 * one.n_components])(one),
    "a word less": lambda one: but(words=one.words[:-8])(one),
    "a byte less": lambda one: but(words=one.words[:-1])(one),
    "a row more in every block": lambda one: but(words=one.words + bytes(8 * one.n_components * len(ORDERS)))(one),
    "covariances of one block": lambda one: but(covariance=one.covariance[: len(one.covariance) // len(ORDERS)])(one),
    "covariances of more blocks": lambda one: but(covariance=one.covariance * 2)(one),
    "mixtures": but(mixtures=bytes(8)),
    "no components": but(n_components=0),
    "more components": lambda one: but(n_components=one.n_components + 1)(one),
    "very many components": but(n_components=1 << 40),
    "no corrections": but(corrections=()),
    "corrections of one block": lambda one: but(
        corrections=tuple(part[: len(part) // len(ORDERS)] for part in one.corrections)
    )(one),
    "another sample": but(sample=bytes(32)),
}


@pytest.mark.parametrize("liar", ["party-2", "party-3"])
@pytest.mark.parametrize("name", FALSE_BLOCKS)
def test_a_party_with_blocks_of_the_wrong_shape_is_named(name, liar):
    edit = Changing(Padded, FALSE_BLOCKS[name], sender=liar, at=0)
    ended(scenario_of().run(edit), named=liar)
    assert edit.done == 1


def test_a_second_holder_without_a_seed_of_shares_is_named():
    edit = Changing(Padded, but(share_seed=b""), sender="party-2", at=0)
    assert "seed of shares" in ended(scenario_of().run(edit), named="party-2")


# Sizes of components


@pytest.mark.parametrize("stage", [SEARCH, "sizes fit"])
@pytest.mark.parametrize("liar", party_names(3))
def test_a_party_that_tells_the_others_another_number_of_components_is_named(liar, stage):
    scenario = scenario_of()
    insider = Insider(scenario, liar, stage, lambda _, one: but(n_components=one.n_components + 1)(one))
    assert "another number of components" in ended(scenario.run(insider), named=liar)
    assert insider.done == 2


@pytest.mark.parametrize("stage", [SEARCH, "sizes fit"])
@pytest.mark.parametrize("count", [0, 13, 1 << 40])
def test_a_number_of_components_that_was_not_agreed_on_is_refused(count, stage):
    scenario = scenario_of()
    insider = Insider(scenario, "party-3", stage, lambda _, one: but(n_components=count)(one))
    assert f"has {count} components, where 1 to 12 were agreed on" in ended(scenario.run(insider), named="party-3")


def test_in_a_fit_without_a_search_too():
    scenario = Scenario(parameters(method="joint", n_components=12), 3, data=data_with((3, 3, 3)))
    insider = Insider(scenario, "party-3", "confirmation", lambda _, one: but(n_components=1 << 40)(one))
    assert "components, where 1 to 12 were agreed on" in ended(scenario.run(insider), named="party-3")


@pytest.mark.parametrize("field", ["scale", "n_components"])
@pytest.mark.parametrize("to", ["party-1", "party-2"])
def test_a_party_that_tells_two_parties_different_sizes_ends_the_run(to, field):
    scenario = scenario_of(widths=(3, 4, 3))
    edit = lambda other, one: but(**{field: getattr(one, field) + 9 * (other == to)})(one)  # noqa: E731
    insider = Insider(scenario, "party-3", SEARCH, edit)
    outcome = scenario.run(insider)
    assert insider.done == 1
    no_result(outcome)
    assert outcome.origins


def test_rows_that_a_false_scale_makes_zero_end_the_run():
    scenario = scenario_of()
    outcome = scenario.run(Insider(scenario, "party-3", SEARCH, lambda _, one: but(scale=1000)(one)))
    assert outcome.raised is not None
    assert not outcome.labels


@pytest.mark.parametrize("stage", ["sizes", "sizes of the search for clusters", "sizes fit"])
def test_sizes_of_another_search_are_refused(stage):
    group = stage.removeprefix("sizes").strip()
    edit = Changing(
        EncryptedMessages,
        lambda one: msgspec.structs.replace(one, stage=msgspec.structs.replace(one.stage, group=group)),
        sender="party-2",
        where=lambda one: one.stage.step is Step.SIZES,
        at=0,
    )
    assert "was expected" in ended(scenario_of().run(edit), named="party-2")


# Held-out edges


@pytest.mark.parametrize("most", [30, 5_000], ids=["a sample of the nodes", "all nodes"])
def test_a_party_that_holds_out_other_edges_is_named(most, monkeypatch):
    """It would smooth on another graph, and choose another ψ."""
    calls = []

    def drawn(graph, seed):
        calls.append(seed)
        return hold_out_edges(graph, seed + (len(calls) == 3))  # the third party draws third

    monkeypatch.setattr(held_out, "MOST_NODES", most)
    monkeypatch.setattr(joint, "hold_out_edges", drawn)
    one_of_three(scenario_of().run(), "has drawn other held-out edges, or found another ψ")


def test_a_party_that_has_found_another_order_is_named(monkeypatch):
    calls, real = [], search.choose_psi

    def chosen(edges, labels):
        calls.append(1)
        found = real(edges, labels)
        return replace(found, psi=next(psi for psi in ORDERS if psi != found.psi)) if len(calls) == 3 else found

    monkeypatch.setattr(search, "choose_psi", chosen)
    one_of_three(scenario_of().run(), "or found another ψ")


def one_of_three(outcome, words):
    """Whether two parties name the third, before any component leaves."""
    no_result(outcome)
    assert words in str(outcome.raised)
    named = Counter(error.peer for name, error in outcome.origins.items() if name in party_names(3))
    assert named
    assert set(named) <= set(party_names(3))


def test_another_graph_is_noticed_before_the_search():
    scenario = scenario_of()
    graph = scenario.data["party-3"].graph
    fewer = graph.adjacency.tolil(copy=True)
    one, other = next(zip(*graph.adjacency.nonzero(), strict=True))
    fewer[one, other] = fewer[other, one] = 0
    changed = type(graph)(type(graph.adjacency)(fewer.tocsr()), graph.ids)
    assert graph_digest(changed) != graph_digest(graph)
    own = scenario.data["party-3"]
    scenario.data["party-3"] = PartyData(changed, own.features, own.filter)
    outcome = scenario.run()
    assert not outcome.about_data()
    assert outcome.raised is not None


# A coordinator that computes wrongly in a search


@pytest.mark.parametrize("kind", ["psi", "clusters"])
@pytest.mark.parametrize("at", [2, 4, 9])
@pytest.mark.parametrize("size", [1, 1 << 36])
@pytest.mark.parametrize("where", [slice(0, 1), slice(-1, None), slice(None)], ids=["first", "last", "all"])
def test_false_products_in_any_block_end_the_search_in_the_next_sum(where, size, at, kind):
    numbers = [one.number for _, _, one in honest(kind).messages(Split)]
    edit = Changing(Split, added(size, where), at=at)
    outcome = scenario_of(kind).run(edit)
    assert edit.done == 1
    assert "the masks of a sum do not cancel" in ended(outcome, named="")
    assert max((one.number for _, _, one in outcome.messages(Answer)), default=0) < numbers[at]


@pytest.mark.parametrize("kind", ["psi", "clusters"])
def test_products_with_the_rows_of_another_block_or_set_end_the_search(kind, monkeypatch):
    real = aggregator.JointCoordinator._sets

    def exchanged(self, n_words):
        sizes, blocks = real(self, n_words)
        if self._plan is None:
            return sizes, blocks
        return (sizes, [*blocks[1:], blocks[0]]) if kind == "psi" else (sizes[::-1], blocks)

    monkeypatch.setattr(aggregator.JointCoordinator, "_sets", exchanged)
    assert no_result(scenario_of(kind).run())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lie", LIES)
def test_a_coordinator_that_does_not_answer_a_search_by_the_signs_is_named(lie, kind):
    outcome = scenario_of(kind).run(LyingAggregator(LIES[lie]))
    assert "coordinator answered wrongly, or a party sent numbers that are not its" in _named(outcome)


@pytest.mark.parametrize("which", [3, 8, 11, -1])
def test_a_coordinator_that_answers_at_random_only_later_is_named(which):
    later = sorted({one.number for _, _, one in honest("both").messages(Answer)})[which]
    outcome = scenario_of("both").run(LyingAggregator(LIES["at random"], first=later))
    assert f"sum {later})" in _named(outcome)


def _named(outcome):
    text = no_result(outcome)
    assert {error.peer for error in outcome.origins.values()} == {COORDINATOR}
    return text


@pytest.mark.parametrize("to", party_names(3))
@pytest.mark.parametrize("kind", KINDS)
def test_another_answer_for_one_party_is_noticed(kind, to):
    def another(message):
        return msgspec.structs.replace(message, signs=bytes([message.signs[0] ^ 1]) + message.signs[1:])

    for at in (0, 3, 7):
        no_result(scenario_of(kind).run(Changing(Answer, another, to=to, at=at)))


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("name", FALSE_SPLITS)
def test_shares_of_the_wrong_shape_or_number_are_refused(name, at):
    edit = Changing(Split, FALSE_SPLITS[name], at=at)
    ended(scenario_of().run(edit))
    assert edit.done == 1


@pytest.mark.parametrize("kind", ["psi", "clusters"])
@pytest.mark.parametrize("size", [1 << 20, 1 << 62])
@pytest.mark.parametrize("at", [0, 1])
def test_false_directions_or_unit_rows_never_split_the_parties(at, size, kind):
    outcome = scenario_of(kind).run(Changing(Split, added(size), at=at))
    found = [one for name, one in outcome.results.items() if name != COORDINATOR]
    assert len({repr(getattr(one, "labels", None)) for one in found}) <= 1
    assert len({repr(one.psi_search) for one in found}) <= 1


# Parties that send noise, or stop


@pytest.mark.parametrize("kind", ["psi", "clusters"])
@pytest.mark.parametrize("step", [Step.ROWS, Step.SHARES, Step.SCORES, Step.LLOYD])
@pytest.mark.parametrize("sender", ["party-1", "party-2"])
def test_a_holder_that_sends_noise_ends_the_search(sender, step, kind):
    edit = Changing(Masked, noise(1, check_words=True), sender=sender, at=0, where=lambda one: one.step is step)
    assert "the masks of a sum do not cancel" in ended(scenario_of(kind).run(edit), named="")


@pytest.mark.parametrize("step", [Step.SHARES, Step.SCORES, Step.LLOYD])
@pytest.mark.parametrize("sender", ["party-1", "party-2"])
def test_a_holder_that_hides_noise_under_valid_masks_ends_the_search(sender, step):
    edit = Changing(Masked, noise(1, check_words=False), sender=sender, at=0, where=lambda one: one.step is step)
    no_result(scenario_of().run(edit))
    assert edit.done == 1


@pytest.mark.parametrize("step", [Step.ASSIGNMENT, Step.WEIGHTS, Step.GEOMETRY, Step.MARGIN])
def test_a_step_that_a_search_does_not_have_is_refused(step):
    edit = Changing(Masked, but(step=step), sender="party-1", at=0)
    assert "which was not agreed on" in ended(scenario_of().run(edit), named="party-1")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_centres_of_too_few_sets_are_refused(count):
    """Both holders would have to leave out the same sets; the coordinator knows how many there are."""

    def shorter(one):
        return but(words=one.words[: -8 * 2 * count])(one)

    outcome = scenario_of().run(Changing(Masked, shorter, where=lambda one: one.step is Step.SCORES))
    no_result(outcome)


@pytest.mark.parametrize("purpose", ["", " of the search for psi"])
@pytest.mark.parametrize("party", party_names(3))
def test_a_party_hides_no_two_contents_under_the_pads_of_a_search(party, purpose, monkeypatch):
    real = search.find_subspace

    async def again(own, *rest):
        if own.name == party:
            await CommitMask(framed(own.session.id, f"components{purpose}"), bytes(32))
        return await real(own, *rest)

    monkeypatch.setattr(search if purpose else joint, "find_subspace", again)
    outcome = scenario_of().run()
    assert type(outcome.errors[party]) is MaskReuseError
    assert not outcome.labels


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("liar", party_names(3))
def test_a_receipt_of_another_result_is_noticed(liar, kind):
    scenario = scenario_of(kind)
    insider = Insider(scenario, liar, "receipt", lambda _, one: but(digest=bytes(32))(one))
    no_result_of_others(scenario.run(insider), liar)


@pytest.mark.parametrize("liar", party_names(3))
def test_costs_of_the_wrong_length_are_refused(liar):
    scenario = scenario_of("clusters")
    insider = Insider(scenario, liar, "receipt", lambda _, one: but(totals=one.totals[:-8])(one))
    outcome = scenario.run(insider)
    no_result_of_others(outcome, liar)
    assert liar in {error.peer for error in outcome.origins.values()}


def no_result_of_others(outcome, liar):
    assert not [name for name in party_names(3) if name in outcome.results and name != liar]


def test_a_party_that_refuses_ends_the_run_for_all():
    """For example because its table has no variation."""
    scenario = scenario_of()
    own = scenario.data["party-2"]
    scenario.data["party-2"] = PartyData(own.graph, 0 * own.features, own.filter)
    outcome = scenario.run()
    assert not outcome.labels
    assert not outcome.waiting
    assert type(outcome.errors["party-2"]) is DataError
    for name in ("party-1", "party-3", COORDINATOR):
        assert type(outcome.errors[name]) is AbortedError
        assert outcome.errors[name].peer == "party-2"


@pytest.mark.parametrize("at", [0, 1, 2])
def test_parties_with_other_orders_or_ranges_send_nothing(at):
    for changes in ({"orders": (1, 2)}, {"most_clusters": 9}, {"orders": ()}):
        scenario = scenario_of("both")
        name = party_names(3)[at]
        other = msgspec.structs.replace(scenario.parameters, **changes)
        scenario.agreements[name] = Scenario(other, 3, n=N).agreement
        outcome = scenario.run()
        assert outcome.raised is not None
        assert not outcome.about_data()
