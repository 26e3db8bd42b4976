"""Sums and answers that lie: parties that were told different things never end with different labels."""

from itertools import combinations

import msgspec
import pytest

from adversaries import COORDINATOR, Changing, Scenario, but, fit, parameters, prediction
from kcagc.errors import AbortedError, KcagcError, PeerError
from kcagc.protocol.messages import (
    Abort,
    Answer,
    EncryptedMessages,
    Finished,
    Hello,
    Hellos,
    Masked,
    RelayedMessages,
    RunStage,
    Step,
    decode,
    encode,
    unpack,
)

RUNS = {
    "flat": (3, {"n_init": 2}),
    "flat, two parties": (2, {"n_init": 2, "virtual_nodes": "local"}),
    "flat, one start": (3, {"n_init": 1}),
    "flat, stopped early": (3, {"n_init": 2, "max_iter": 1}),
    "basic": (3, {"n_init": 2, "method": "basic", "max_iter": 3}),
    "tree": (4, {"n_init": 2, "method": "tree", "max_iter": 2}),
    "tree, uneven": (5, {"n_init": 1, "method": "tree", "n_local_clusters": 4}),
}
MODES = ("coordinator", "party")


NOTICED = (
    "transcripts differ",  # the next sum does not open
    "sent different assignments",  # the receipts differ
    "checks of the comparisons failed",  # a probe, a copy, or a comparison that has a copy
    "contradict each other",
    "the cost of a restart rose",
)


def another_answer(message):
    """Give an answer that is as good as the true one in form, and differs in the first sign."""
    return msgspec.structs.replace(message, signs=bytes([message.signs[0] ^ 1]) + message.signs[1:])


class TellingOneParty:
    """Changes the message with this number among all answers."""

    def __init__(self, number, edit=another_answer):
        self.number, self.edit, self.seen, self.receiver = number, edit, 0, None

    def __call__(self, sender, receiver, payload):
        message = decode(payload, sender)
        if isinstance(message, Answer):
            self.seen += 1
            if self.seen - 1 == self.number:
                self.receiver = receiver
                payload = encode(self.edit(message))
        return [(sender, receiver, payload)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", RUNS)
def test_no_party_ends_with_labels_if_one_party_receives_a_different_answer(name, mode):
    """Every answer of the run in turn: first and middle rounds, the last before the end, lower merges."""
    count, changes = RUNS[name]
    scenario = Scenario(parameters(aggregator=mode, **changes), count)
    honest = scenario.run()
    assert honest.raised is None
    total = len(honest.messages(Answer))
    assert total
    for number in range(total):
        adversary = TellingOneParty(number)
        outcome = scenario.run(adversary)
        assert adversary.receiver is not None
        assert type(outcome.raised) is PeerError, (number, outcome.raised)
        assert not outcome.labels, number
        words = str(outcome.raised)
        finished = "'finished'" in words and "'masked'" in words  # one thinks that it has converged, others do not
        assert finished or any(how in words for how in NOTICED), words


def layer(group):
    return 0 if group == "all" else int(group.split(".")[0])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["flat", "basic", "tree"])
def test_no_further_sum_opens_after_parties_received_different_answers(name, mode):
    """Masks hang on everything that was told, so that a difference costs one answer and not the whole run."""
    count, changes = RUNS[name]
    scenario = Scenario(parameters(aggregator=mode, **changes), count)
    honest = scenario.run()
    answers = [one for _, to, one in honest.messages(Answer) if to == "party-1"]
    for lie in answers:
        edit = Changing(Answer, another_answer, to="party-1", where=lambda one, lie=lie: one == lie)
        outcome = scenario.run(edit)
        assert edit.done == 1
        after = [
            entry.stage
            for entry in outcome.ledger.of("opened/")
            for group, number in [(entry.stage.split()[0], int(entry.stage.split()[2]))]
            if (group == lie.group and number > lie.number) or layer(group) > layer(lie.group)
        ]
        assert after == []


@pytest.mark.parametrize("mode", MODES)
def test_the_last_answer_is_compared_by_the_parties_themselves(mode):
    """After it no sum would show the difference; the checks of its receiver or the receipts do."""
    scenario = Scenario(parameters(aggregator=mode, method="basic", n_init=1, max_iter=1))
    answers = scenario.run().messages(Answer)
    told = set()
    for byte in range(8):

        def edit(one, byte=byte):
            return but(signs=one.signs[:byte] + bytes([one.signs[byte] ^ 1]) + one.signs[byte + 1 :])(one)

        outcome = scenario.run(TellingOneParty(len(answers) - 1, edit))
        assert not outcome.labels
        assert {error.peer for error in outcome.origins.values()} == {scenario.aggregator}
        told |= {how for how in NOTICED for error in outcome.origins.values() if how in str(error)}
    # Of few comparisons every one has a copy, unless the aggregator is a party and knows them all.
    assert "sent different assignments" in told or mode == "coordinator"
    assert told <= {"sent different assignments", "checks of the comparisons failed", "contradict each other"}


def test_a_false_answer_to_two_of_three_parties_is_detected():
    for to in ("party-1", "party-2", "party-3"):
        lies = Changing(Answer, another_answer, where=lambda one: one.number == 2)

        def adversary(sender, receiver, payload, to=to, lies=lies):
            return [(sender, receiver, payload)] if receiver == to else lies(sender, receiver, payload)

        outcome = fit(adversary)
        assert lies.done == 2
        assert type(outcome.raised) is PeerError
        assert not outcome.labels


def test_different_margin_flags_are_detected():
    adversary = Changing(Answer, another_answer, to="party-2", where=lambda one: one.number == 0)
    outcome = fit(adversary)
    assert adversary.done == 1
    assert type(outcome.raised) is PeerError
    assert not outcome.labels


@pytest.mark.parametrize("mode", MODES)
def test_a_prediction_with_different_answers_ends_without_labels(mode):
    scenario = prediction(aggregator=mode)
    for number in range(2 if mode == "party" else 3):
        outcome = scenario.run(TellingOneParty(number))
        assert type(outcome.raised) is PeerError
        assert not outcome.labels


def test_an_answer_written_in_other_bytes_is_another_answer():
    """Even where it reads the same: what is hashed are the bytes, so a relay cannot mark one party's messages."""

    def rewritten(message):
        fields = msgspec.to_builtins(message, builtin_types=(bytes,))
        return msgspec.msgpack.encode(dict(reversed(list(fields.items()))))

    adversary = Changing(Answer, rewritten, to="party-2", at=0)
    outcome = fit(adversary)
    assert adversary.done == 1
    assert outcome.raised is None or type(outcome.raised) is PeerError
    assert len({str(labels) for labels in outcome.labels.values()}) <= 1


BAD_ANSWERS = {
    "an earlier round": (but(number=0), "answered sum 0 of group 1.1 where sum 1"),
    "a later round": (but(number=2), "answered sum 2"),
    "a negative round": (but(number=-1), "cannot be read"),
    "another group": (but(group="2.1"), "of group 2.1"),
    "no signs": (but(signs=b""), "signs: 0 bytes where"),
    "too few signs": (lambda one: but(signs=one.signs[:-1])(one), "signs: "),
    "too many signs": (lambda one: but(signs=one.signs + b"\0")(one), "signs: "),
    "signs that are words": (
        lambda one: msgspec.msgpack.encode(msgspec.to_builtins(one, builtin_types=(bytes,)) | {"signs": "all"}),
        "cannot be read",
    ),
    "another type": (lambda _: Masked("1.1", "lloyd", 1, bytes(24)), "sent 'masked' where 'answer' was expected"),
    "a type for the aggregator": (lambda _: Finished("1.1"), "sent 'finished' where 'answer' was expected"),
    "an unknown type": (lambda _: msgspec.msgpack.encode({"kind": "gossip"}), "cannot be read"),
    "no type": (lambda _: msgspec.msgpack.encode({"group": "1.1"}), "cannot be read"),
    "no map": (lambda _: msgspec.msgpack.encode([1, 2]), "cannot be read"),
    "nothing": (lambda _: b"", "cannot be read"),
    "an unknown field": (
        lambda one: msgspec.msgpack.encode(msgspec.to_builtins(one, builtin_types=(bytes,)) | {"more": 1}),
        "cannot be read",
    ),
    "a field of another type": (
        lambda one: msgspec.msgpack.encode(msgspec.to_builtins(one, builtin_types=(bytes,)) | {"number": "one"}),
        "cannot be read",
    ),
    "half of it": (lambda one: encode(one)[: len(encode(one)) // 2], "cannot be read"),
    "bytes behind it": (lambda one: encode(one) + b"\0", "cannot be read"),
    "deep nesting": (lambda _: b"\x91" * 100_000, "cannot be read"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_an_answer_that_does_not_fit_the_sum_is_refused(name, mode):
    edit, words = BAD_ANSWERS[name]
    adversary = Changing(Answer, edit, to="party-1", at=1)
    outcome = fit(adversary, aggregator=mode)
    aggregator = COORDINATOR if mode == "coordinator" else "party-3"
    assert adversary.done == 1
    assert type(outcome.raised) is PeerError
    assert words in str(outcome.raised)
    assert outcome.raised.peer == aggregator
    assert not outcome.labels
    for who, error in outcome.errors.items():
        assert who == "party-1" or (isinstance(error, AbortedError) and error.peer == "party-1")


@pytest.mark.parametrize("data", [b"\x40", b"\x80", b"\xc0"])
def test_bits_behind_the_last_number_must_be_empty(data):
    """Otherwise a relay could mark a message without changing what it says."""
    with pytest.raises(PeerError, match="aggregator: labels: the unused last bits are not zero"):
        unpack(data, 3, 4, "aggregator", "labels")


BAD_VECTORS = {
    "an earlier sum": (but(number=0), "sum 0 where sum 1"),
    "a later sum": (but(number=2), "sum 2 where sum 1 was expected"),
    "another group": (but(group="2.1"), "sent a message of group 2.1"),
    "a step that was not agreed on": (but(step=Step.PREDICTION), "requested a sum of 'prediction'"),
    "a step that has no sums": (but(step=Step.RECEIPT), "requested a sum of 'receipt'"),
    "an opening of everything": (but(step="pairs"), "cannot be read"),
    "a step unheard of": (but(step=""), "cannot be read"),
    "another agreed step": (but(step=Step.MARGIN), "transcripts differ"),
    "a word less": (lambda one: but(words=one.words[8:])(one), "transcripts differ"),
    "a word more": (lambda one: but(words=one.words + bytes(8))(one), "transcripts differ"),
    "a broken word": (lambda one: but(words=one.words[1:])(one), "sent a vector of"),
    "no words": (but(words=b""), "sent a vector of 0 bytes"),
    "nothing but check words": (but(words=bytes(16)), "sent a vector of 16 bytes"),
    "the end, too early": (lambda one: Finished(one.group), "transcripts differ: party-2 is finished"),
    "a field of the version before": (
        lambda one: msgspec.msgpack.encode(msgspec.to_builtins(one, builtin_types=(bytes,)) | {"costs": [0]}),
        "cannot be read",
    ),
    "another type": (
        lambda _: EncryptedMessages(RunStage(Step.RECEIPT), ()),
        "sent 'encrypted' where 'masked' was expected",
    ),
    "a type for parties": (lambda _: Hellos(()), "sent 'hellos' where 'masked' was expected"),
    "random bytes": (lambda _: bytes(range(100, 200)), "cannot be read"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BAD_VECTORS)
def test_the_aggregator_refuses_a_vector_that_was_not_expected(name, mode):
    edit, words = BAD_VECTORS[name]
    adversary = Changing(Masked, edit, sender="party-2", at=1)
    outcome = fit(adversary, aggregator=mode)
    assert adversary.done == 1
    assert type(outcome.raised) is PeerError
    assert words in str(outcome.raised)
    assert "party-2" in str(outcome.raised)
    assert not outcome.labels
    assert len(outcome.ledger.of("opened/")) == 1


@pytest.mark.parametrize("sender", ["party-1", "party-2"])
@pytest.mark.parametrize("mode", MODES)
def test_a_changed_check_word_is_detected(mode, sender):
    """The low bytes of a sum may be changed by its sender; the words behind it say whether masks are gone."""

    def edit(one):
        return but(words=one.words[:-1] + bytes([one.words[-1] ^ 1]))(one)

    outcome = fit(Changing(Masked, edit, sender=sender, at=0), aggregator=mode)
    assert type(outcome.raised) is PeerError
    assert "masks of a sum do not cancel" in str(outcome.raised)
    assert not outcome.ledger.of("opened/")


def test_a_vector_from_another_round_or_session_does_not_open():
    """Its masks are of another label; with the number rewritten it fits in form, and its masks do not cancel."""
    scenario = Scenario(parameters(n_local_clusters=6, n_clusters=4))
    honest = [one for sender, _, one in scenario.run().messages(Masked) if sender == "party-2" and one.step == "lloyd"]
    first, second = next((one, two) for one, two in combinations(honest, 2) if len(one.words) == len(two.words))
    forged = but(number=second.number)(first)
    outcome = scenario.run(Changing(Masked, lambda _: forged, sender="party-2", where=lambda one: one == second))
    assert type(outcome.raised) is PeerError
    assert "masks of a sum do not cancel" in str(outcome.raised)
    earlier = [
        one for sender, _, one in Scenario(scenario.parameters, session=4).run().messages(Masked) if sender == "party-2"
    ]
    outcome = scenario.run(Changing(Masked, lambda _: earlier[0], sender="party-2", at=0))
    assert type(outcome.raised) is PeerError
    assert "masks of a sum do not cancel" in str(outcome.raised)


def test_vectors_swapped_between_two_parties_are_only_a_sum():
    """Addition has no order: this changes nothing, and the parties end with the labels of the honest run."""
    scenario = Scenario(parameters())
    honest = scenario.run()
    ours = {name: [one for sender, _, one in honest.messages(Masked) if sender == name] for name in scenario.parties}
    swap = {"party-1": "party-2", "party-2": "party-1"}

    def adversary(sender, receiver, payload):
        message = decode(payload, sender)
        if isinstance(message, Masked) and sender in swap:
            payload = encode(ours[swap[sender]][message.number])
        return [(sender, receiver, payload)]

    outcome = scenario.run(adversary)
    assert outcome.raised is None
    assert outcome.labels == honest.labels


def test_the_aggregator_refuses_a_member_that_continues_after_others_finished():
    adversary = Changing(Finished, lambda one: [Masked(one.group, "lloyd", 99, bytes(24)), one], sender="party-3")
    outcome = fit(adversary)
    assert type(outcome.raised) is PeerError
    assert "party-3" in str(outcome.raised)
    assert not outcome.labels


def test_a_party_cannot_send_vectors_for_another_group_of_its_layer():
    swap = {"1.1": "1.2", "1.2": "1.1"}
    for kind in (Masked, Finished):
        adversary = Changing(kind, lambda one: but(group=swap.get(one.group, one.group))(one), sender="party-3")
        outcome = fit(adversary, count=4, method="tree")
        assert type(outcome.raised) is PeerError
        assert "party-3: sent a message of group 1.1, not of 1.2" in str(outcome.raised)


def test_an_answer_to_another_group_of_the_layer_is_refused():
    scenario = Scenario(parameters(method="tree", n_local_clusters=3), 4)
    theirs = [one for _, to, one in scenario.run().messages(Answer) if to == "party-1" and one.group == "1.1"]
    adversary = Changing(Answer, lambda _: theirs[0], to="party-3", at=0)
    outcome = scenario.run(adversary)
    assert type(outcome.raised) is PeerError
    assert "answered sum 0 of group 1.1 where sum 0 of group 1.2 was expected" in str(outcome.raised)


@pytest.mark.parametrize("kind", [Hello, Hellos, EncryptedMessages, RelayedMessages, Masked, Answer, Finished])
@pytest.mark.parametrize("mode", MODES)
def test_a_lost_message_stops_the_run_and_never_leads_to_different_labels(kind, mode):
    adversary = Changing(kind, lambda _: None, at=0)
    outcome = fit(adversary, aggregator=mode)
    assert adversary.done == 1
    assert isinstance(outcome.raised, KcagcError)
    assert not outcome.labels


@pytest.mark.parametrize("to", ["party-1", "party-2", "party-3"])
def test_a_party_without_all_receipts_does_not_end(to):
    adversary = Changing(RelayedMessages, lambda _: None, to=to, where=lambda one: str(one.stage) == "receipt")
    outcome = fit(adversary)
    assert adversary.done == 1
    assert outcome.raised is not None
    assert outcome.waiting == [to]
    assert to not in outcome.labels


@pytest.mark.parametrize("kind", [Hello, Hellos, EncryptedMessages, RelayedMessages, Masked, Answer])
def test_a_message_that_comes_twice_is_refused(kind):
    outcome = fit(Changing(kind, lambda one: [one, one], at=0))
    assert type(outcome.raised) is PeerError
    assert len({str(labels) for labels in outcome.labels.values()}) <= 1


def test_an_abort_that_names_another_role_ends_all_roles():
    """Party-2 claims that party-1 ended the run: party-1 must hear of it all the same."""
    for origin in ("party-1", "party-3", COORDINATOR, "nobody"):
        adversary = Changing(Masked, lambda _, origin=origin: Abort(origin, "because"), sender="party-2", at=0)
        outcome = fit(adversary)
        assert outcome.raised is not None
        assert not outcome.labels
        assert [name for name in outcome.waiting if name != "party-2"] == [], origin


@pytest.mark.parametrize("kind", [Hellos, RelayedMessages, Answer])
def test_an_abort_by_the_aggregator_ends_a_party_with_its_reason(kind):
    outcome = fit(Changing(kind, lambda _: Abort(COORDINATOR, "enough"), to="party-2", at=0))
    assert type(outcome.errors["party-2"]) is AbortedError
    assert str(outcome.errors["party-2"]) == f"{COORDINATOR} ended the run: enough"
    assert not outcome.labels


@pytest.mark.parametrize("words", ["\x1b[2J\x1b[31mall is well", "line\nbreak", "\u202egnorw", "x" * 100_000])
def test_the_reason_of_an_abort_cannot_control_the_terminal(words):
    """An abort's words come from somebody else: no control characters, no novels."""
    outcome = fit(Changing(Hellos, lambda _: Abort(words, words), to="party-2"))
    shown = str(outcome.errors["party-2"])
    assert shown.isprintable()
    assert len(shown) < 1000


@pytest.mark.parametrize("kind", [Hello, EncryptedMessages, Masked])
def test_a_name_in_a_message_cannot_write_over_the_screen(kind):
    evil = "\x1b[2J"
    edit = {
        Hello: but(name=evil),
        EncryptedMessages: lambda one: EncryptedMessages(one.stage, ((evil, b""), *one.ciphertexts)),
        Masked: but(group=evil),
    }[kind]
    outcome = fit(Changing(kind, edit, sender="party-1", at=0))
    assert type(outcome.raised) is PeerError
    assert str(outcome.raised).isprintable()
