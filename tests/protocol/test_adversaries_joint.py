"""Lying roles in the joint method: false signs, false shares, false clusters, and parties that send noise."""

import msgspec
import numpy as np
import pytest

from adversaries import COORDINATOR, Changing, Scenario, but, data_with, parameters, party_names
from kcagc.cluster import joint as cluster_joint
from kcagc.errors import AbortedError, MaskReuseError, PeerError
from kcagc.protocol import aggregator, joint
from kcagc.protocol.effects import CommitMask
from kcagc.protocol.messages import AnonymousClusters, Answer, Masked, Padded, Split, Step, pack, unpack
from kcagc.protocol.party import Party
from kcagc.secagg.keys import framed
from protocol.test_adversaries_signs import LIES, LyingAggregator, noise

FORMS = ("shares", "coordinator")


def scenario_of(form="shares", widths=(3, 3, 3), **changes):
    chosen = parameters(**({"method": "joint", "joint_rows": form, "n_components": 12} | changes))
    return Scenario(chosen, len(widths), data=data_with(widths))


def ended(outcome, *, named=COORDINATOR):
    """Whether the run ended without a result, and every error names the culprit or the role that noticed it."""
    assert not outcome.labels
    assert not outcome.waiting
    assert outcome.origins
    for error in outcome.origins.values():
        assert type(error) is PeerError
        assert error.peer == named
    for error in outcome.errors.values():
        assert not isinstance(error, AbortedError) or error.peer in {named, *outcome.origins}
    return str(outcome.raised)


def one_result(outcome):
    """Whether all parties that have labels have the same."""
    return len({str(labels) for labels in outcome.labels.values()}) <= 1


# A coordinator that answers comparisons by lies


@pytest.mark.parametrize("lie", LIES)
def test_a_coordinator_that_does_not_answer_by_the_signs_ends_the_fit_in_the_same_sum(lie):
    outcome = scenario_of().run(LyingAggregator(LIES[lie]))
    assert "coordinator answered wrongly, or a party sent numbers that are not its" in ended(outcome)
    assert len({one.number for _, _, one in outcome.messages(Answer)}) == 1


@pytest.mark.parametrize("lie", ["at random", "the opposite", "small magnitudes", "one in four"])
def test_a_coordinator_that_is_honest_at_first_is_noticed_when_it_lies(lie):
    honest = scenario_of().run()
    later = sorted({one.number for _, _, one in honest.messages(Answer)})[2]
    outcome = scenario_of().run(LyingAggregator(LIES[lie], first=later))
    assert f"sum {later})" in ended(outcome)


@pytest.mark.parametrize("to", party_names(3))
def test_a_coordinator_that_tells_one_party_another_answer_is_noticed(to):
    """That party opens nothing with the others any more, or has no checks that hold, or another result."""

    def another(message):
        return msgspec.structs.replace(message, signs=bytes([message.signs[0] ^ 1]) + message.signs[1:])

    for at in range(3):
        outcome = scenario_of().run(Changing(Answer, another, to=to, at=at))
        assert outcome.raised is not None
        assert not outcome.labels


# A coordinator that sends false shares


def added(size, where=slice(None)):
    """Return an edit that adds random numbers below this size to some words of shares."""
    random = np.random.RandomState(0)

    def edit(one):
        words = np.frombuffer(one.words, dtype="<u8").copy()
        chosen = words[where]
        chosen += random.randint(1, size + 1, size=chosen.shape).view(np.uint64)
        return but(words=words.tobytes())(one)

    return edit


@pytest.mark.parametrize("at", [2, 3, 5])
@pytest.mark.parametrize("size", [1, 1 << 20, 1 << 36, 1 << 62])
@pytest.mark.parametrize(
    "where",
    [slice(0, 1), slice(40, 43), slice(None), slice(0, None, 3)],
    ids=["one", "some", "all", "one cluster"],
)
def test_false_shares_of_scores_end_the_fit_in_the_next_sum(where, size, at):
    """Even one share that is false by one unit: the check rows do not fit, and the next sum of the holders is noise."""
    numbers = [one.number for _, _, one in scenario_of().run().messages(Split)]
    edit = Changing(Split, added(size, where), at=at)
    outcome = scenario_of().run(edit)
    assert edit.done == 1
    assert "the masks of a sum do not cancel" in ended(outcome, named="")
    assert max((one.number for _, _, one in outcome.messages(Answer)), default=0) < numbers[at]


def test_a_coordinator_that_ignores_that_a_sum_does_not_open_is_noticed_by_the_parties(monkeypatch):
    """It has shares of false scores and no sum of comparisons: any answer fails the checks."""
    monkeypatch.setattr(aggregator, "open_sum", lambda total, _: total[:-2].view(np.int64))
    outcome = scenario_of().run(Changing(Split, added(1 << 36), at=3))
    assert "checks of the comparisons failed" in ended(outcome)


@pytest.mark.parametrize("size", [1 << 20, 1 << 36, 1 << 62])
@pytest.mark.parametrize("at", [0, 1])
def test_false_directions_or_unit_rows_never_split_the_parties(at, size):
    """The coordinator chooses the directions, and no role knows what a unit row should be."""
    outcome = scenario_of().run(Changing(Split, added(size), at=at))
    assert one_result(outcome)
    assert outcome.raised is None or type(outcome.raised) is PeerError


FALSE_SPLITS = {
    "empty": but(words=b""),
    "short": lambda one: but(words=one.words[:-8])(one),
    "long": lambda one: but(words=one.words + bytes(8))(one),
    "broken": lambda one: but(words=one.words[:-1])(one),
    "of another sum": lambda one: but(number=one.number + 1)(one),
    "of another group": but(group="1.1"),
    "an answer": lambda one: Answer(one.group, one.number, bytes(10)),
}


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("name", FALSE_SPLITS)
def test_shares_of_the_wrong_shape_or_number_are_refused(name, at):
    edit = Changing(Split, FALSE_SPLITS[name], at=at)
    ended(scenario_of().run(edit))
    assert edit.done == 1


# A coordinator that clusters falsely


def test_random_clusters_are_the_same_for_all_parties():
    """In this form the parties rely on the coordinator for the clusters: nothing shows that they are not the best."""
    random = np.random.RandomState(0)
    told = pack(random.randint(3, size=36), 3)
    outcome = scenario_of("coordinator").run(Changing(AnonymousClusters, but(labels=told)))
    assert outcome.raised is None
    assert one_result(outcome)


@pytest.mark.parametrize("to", party_names(3))
def test_other_clusters_for_one_party_are_noticed(to):
    def another(one):
        labels = unpack(one.labels, 36, 3, COORDINATOR, "labels")
        return but(labels=pack((labels + 1) % 3, 3))(one)

    outcome = scenario_of("coordinator").run(Changing(AnonymousClusters, another, to=to))
    assert "sent different assignments" in ended(outcome)


FALSE_CLUSTERS = {
    "too few": lambda one: but(labels=one.labels[:-1])(one),
    "too many": lambda one: but(labels=one.labels + b"\0")(one),
    "none": but(labels=b""),
    "beyond k": lambda one: but(labels=b"\xff" * len(one.labels))(one),
    "of another sum": but(number=5),
    "of another group": but(group="1.1"),
    "an answer": lambda one: Answer(one.group, one.number, bytes(10)),
    "shares": lambda one: Split(one.group, one.number, bytes(8)),
    "too few weights": lambda one: but(weights=one.weights[:-8])(one),
    "too many weights": lambda one: but(weights=one.weights + bytes(8))(one),
    "no weights": but(weights=b""),
    "a weight that is not a number": lambda one: but(weights=np.float64(np.nan).tobytes() + one.weights[8:])(one),
    "an infinite weight": lambda one: but(weights=one.weights[:-8] + np.float64(-np.inf).tobytes())(one),
    "a long direction": lambda one: but(weights=np.full(len(one.weights) // 8, 0.9).tobytes())(one),
}


@pytest.mark.parametrize("name", FALSE_CLUSTERS)
def test_clusters_of_the_wrong_shape_are_refused(name):
    edit = Changing(AnonymousClusters, FALSE_CLUSTERS[name], to="party-2")
    ended(scenario_of("coordinator").run(edit))
    assert edit.done == 1


# Weights for nodes outside the sample


@pytest.fixture
def small_sample(monkeypatch):
    """The sample has 30 of 36 nodes, so that the weights open."""
    monkeypatch.setattr(cluster_joint, "MIN_SAMPLE", 30)
    monkeypatch.setattr(cluster_joint, "SAMPLE_VALUES", 1)


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize("name", ["empty", "short", "long", "broken", "of another sum", "of another group"])
def test_shares_of_weights_of_the_wrong_shape_or_number_are_refused(name):
    last = len(scenario_of().run().messages(Split)) - 1
    edit = Changing(Split, FALSE_SPLITS[name], at=last)
    ended(scenario_of().run(edit))
    assert edit.done == 1


@pytest.mark.usefixtures("small_sample")
def test_false_shares_of_weights_do_not_fit_together():
    """No party can tell which of the holders and the coordinator computed wrongly."""
    last = len(scenario_of().run().messages(Split)) - 1
    outcome = scenario_of().run(Changing(Split, added(1 << 62), at=last))
    assert not outcome.labels
    assert "the shares of the weights do not fit together" in str(outcome.raised)


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize("liar", ["party-1", "party-2"])
@pytest.mark.parametrize("field", ["weights", "lengths"])
def test_a_holder_that_opens_weights_of_the_wrong_shape_is_named(liar, field, monkeypatch):
    real = Party.send_encrypted

    async def short(party, stage, contents, kind):
        if party.name == liar and kind == "weights":
            contents = {to: but(**{field: getattr(one, field)[:-8]})(one) for to, one in contents.items()}
        await real(party, stage, contents, kind)

    monkeypatch.setattr(Party, "send_encrypted", short)
    assert "sent shares of weights of" in ended(scenario_of().run(), named=liar)


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize("liar", ["party-1", "party-2"])
def test_a_holder_that_opens_other_lengths_to_one_party_ends_the_run(liar, monkeypatch):
    real = Party.send_encrypted

    async def two_faced(party, stage, contents, kind):
        if party.name == liar and kind == "weights":
            lengths = np.frombuffer(contents["party-3"].lengths, dtype="<i8") + 1
            contents = contents | {"party-3": but(lengths=lengths.tobytes())(contents["party-3"])}
        await real(party, stage, contents, kind)

    monkeypatch.setattr(Party, "send_encrypted", two_faced)
    assert "the masks of a sum do not cancel" in ended(scenario_of().run(), named="")


# One pad, two contents


@pytest.mark.parametrize("name", ["components", "mixtures"])
@pytest.mark.parametrize("party", party_names(3))
def test_a_party_sends_no_other_components_under_pads_that_have_hidden_some(party, name, monkeypatch):
    """As after a crash, if it computed other components than those that it had sent."""
    real = joint.find_subspace

    async def again(own, *rest):
        if own.name == party:
            await CommitMask(framed(own.session.id, name), bytes(32))
        return await real(own, *rest)

    monkeypatch.setattr(joint, "find_subspace", again)
    outcome = scenario_of().run()
    assert not outcome.labels
    assert party not in {sender for sender, _, _ in outcome.messages(Padded)}
    assert type(outcome.errors[party]) is MaskReuseError


# Parties that send noise


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sender", ["party-1", "party-2"])
def test_a_party_that_sends_random_words_opens_nothing(sender, form):
    edit = Changing(Masked, noise(1, check_words=True), sender=sender, at=0)
    outcome = scenario_of(form).run(edit)
    assert edit.done == 1
    assert "the masks of a sum do not cancel" in ended(outcome, named="")
    assert not outcome.messages(Answer)


@pytest.mark.parametrize("step", [Step.SHARES, Step.SCORES, Step.LLOYD])
@pytest.mark.parametrize("sender", ["party-1", "party-2"])
def test_a_holder_that_hides_noise_under_valid_masks_ends_the_run_in_a_sum_of_comparisons(sender, step):
    """No role can tell this from wrong answers or products of the coordinator."""
    edit = Changing(Masked, noise(1, check_words=False), sender=sender, at=0, where=lambda one: one.step is step)
    outcome = scenario_of().run(edit)
    assert edit.done == 1
    if step is Step.LLOYD:
        assert "or a party sent numbers that are not its" in ended(outcome)
    else:  # what the coordinator multiplies is noise, and the check rows do not fit
        assert "the masks of a sum do not cancel" in ended(outcome, named="")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "edit",
    [
        but(words=b""),
        but(words=bytes(16)),
        lambda one: but(words=one.words[:-8])(one),
        lambda one: but(words=one.words + bytes(8))(one),
        lambda one: but(words=one.words[:-3])(one),
        but(number=9),
        but(group="1.1"),
        but(step=Step.MARGIN),
        but(step=Step.PREDICTION),
        but(step=Step.ASSIGNMENT),
    ],
    ids=["empty", "nothing", "short", "long", "broken", "number", "group", "margin", "prediction", "assignment"],
)
def test_a_vector_of_the_wrong_shape_step_or_number_is_refused(edit, form):
    outcome = scenario_of(form).run(Changing(Masked, edit, sender="party-2", at=0))
    assert outcome.raised is not None
    assert not outcome.labels
    assert {type(error) for error in outcome.errors.values()} <= {PeerError, AbortedError}


@pytest.mark.parametrize("step", [Step.SHARES, Step.SCORES, Step.LLOYD])
def test_a_vector_of_a_party_that_is_no_holder_is_refused_where_only_holders_send(step):
    """The coordinator waits for the holders only; what a third party sends in between comes too early."""
    copied = []

    class Copying(Changing):
        def __call__(self, sender, receiver, payload):
            passed = super().__call__(sender, receiver, payload)
            if self.done and not copied:
                copied.append(payload)
                passed.append(("party-3", COORDINATOR, payload))
            return passed

    outcome = scenario_of().run(Copying(Masked, lambda one: one, sender="party-1", where=lambda one: one.step is step))
    assert copied
    assert outcome.errors[COORDINATOR].peer in ("party-3", "")
    assert not outcome.labels


@pytest.mark.parametrize("draw", [1, 99, (1 << 48) - 1])
@pytest.mark.parametrize("step", [Step.ROWS, Step.SCORES])
def test_a_second_holder_that_counts_its_draws_falsely_ends_the_run(step, draw):
    edit = Changing(Masked, but(draw=draw), sender="party-2", at=0, where=lambda one: one.step is step)
    outcome = scenario_of().run(edit)
    assert edit.done == 1
    if step is Step.ROWS:
        assert "or a party sent numbers that are not its" in ended(outcome)
    else:
        assert "the masks of a sum do not cancel" in ended(outcome, named="")
