"""Sums and answers that lie: parties that were told different things never end with different labels."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest

from adversaries import COORDINATOR, Changing, Scenario, but, fit, parameters, prediction
from kcagc.errors import AbortedError, KcagcError, PeerError
from kcagc.protocol.messages import (
    Abort,
    Answer,
    Choice,
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
    "basic, drawn starts": (3, {"n_init": 2, "method": "basic", "seeding": "d2", "max_iter": 2}),
    "tree": (4, {"n_init": 2, "method": "tree", "max_iter": 2}),
    "tree, uneven": (5, {"n_init": 1, "method": "tree", "n_local_clusters": 4}),
    "drawn starts": (3, {"n_init": 2, "seeding": "d2"}),
}
MODES = ("coordinator", "party")


def another_answer(message):
    """Give an answer that is as good as the true one in form, and tells something else."""
    if isinstance(message, Choice):
        return msgspec.structs.replace(message, positions=(1 - min(message.positions[0], 1), *message.positions[1:]))
    first = message.winners[0] & 3  # three or four clusters take two bits
    instead = (first + 1) % 3
    return msgspec.structs.replace(message, winners=bytes([message.winners[0] & ~3 | instead]) + message.winners[1:])


class TellingOneParty:
    """Changes the message with this number among all answers."""

    def __init__(self, number, edit=another_answer):
        self.number, self.edit, self.seen, self.receiver = number, edit, 0, None

    def __call__(self, sender, receiver, payload):
        message = decode(payload, sender)
        if isinstance(message, Answer | Choice):
            self.seen += 1
            if self.seen - 1 == self.number:
                self.receiver = receiver
                payload = encode(self.edit(message))
        return [(sender, receiver, payload)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", RUNS)
def test_no_party_ends_with_labels_if_one_party_receives_a_different_answer(name, mode):
    """Every answer of the run in turn: first and middle rounds, the last before the end, the choice, lower merges."""
    count, changes = RUNS[name]
    scenario = Scenario(parameters(aggregator=mode, **changes), count)
    honest = scenario.run()
    assert honest.raised is None
    total = len(honest.messages(Answer)) + len(honest.messages(Choice))
    assert total
    for number in range(total):
        adversary = TellingOneParty(number)
        outcome = scenario.run(adversary)
        assert adversary.receiver is not None
        assert type(outcome.raised) is PeerError, (number, outcome.raised)
        assert not outcome.labels, number
        words = str(outcome.raised)
        assert (
            "transcripts differ" in words  # the next sum cannot be decrypted
            or (f"{scenario.aggregator}: sent different assignments" in words)  # the receipts differ
            or ("'finished'" in words and "'masked'" in words)  # one thinks that it has converged, others do not
        )


def layer(group):
    return 0 if group == "all" else int(group.split(".")[0])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["flat", "basic", "drawn starts", "tree"])
def test_no_further_sum_opens_after_parties_received_different_answers(name, mode):
    """Masks hang on everything that was told, so that a difference costs one answer and not the whole run."""
    count, changes = RUNS[name]
    scenario = Scenario(parameters(aggregator=mode, **changes), count)
    honest = scenario.run()
    answers = [one for _, to, one in honest.messages(Answer | Choice) if to == "party-1"]
    for lie in answers:
        edit = Changing(Answer | Choice, another_answer, to="party-1", where=lambda one, lie=lie: one == lie)
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
    """After it no sum would show the difference; only the receipts do, and the aggregator cannot open those."""
    scenario = Scenario(parameters(aggregator=mode, n_init=1, max_iter=1))
    total = len(scenario.run().messages(Answer))
    outcome = scenario.run(TellingOneParty(total - 1))
    told = {name: error for name, error in outcome.errors.items() if "different assignments" in str(error)}
    assert told
    assert not outcome.labels
    for error in told.values():
        assert error.peer == scenario.aggregator


def test_a_false_answer_to_two_of_three_parties_is_detected():
    for to in ("party-1", "party-2", "party-3"):
        lies = Changing(Answer, another_answer, where=lambda one: one.number == 2)

        def adversary(sender, receiver, payload, to=to, lies=lies):
            return [(sender, receiver, payload)] if receiver == to else lies(sender, receiver, payload)

        outcome = fit(adversary)
        assert lies.done == 2
        assert type(outcome.raised) is PeerError
        assert not outcome.labels


def test_the_same_lie_to_all_gives_all_the_same_labels():
    adversary = Changing(Answer, another_answer, where=lambda one: one.number == 1)
    outcome = fit(adversary)
    assert adversary.done == 3
    assert outcome.raised is None
    assert len({str(labels) for labels in outcome.labels.values()}) == 1


def test_different_margin_flags_are_detected():
    def edit(message):
        return msgspec.structs.replace(message, clear=bytes([message.clear[0] ^ 1]) + message.clear[1:])

    adversary = Changing(Answer, edit, to="party-2", where=lambda one: bool(one.clear))
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
    "no winners": (but(winners=b""), "winners: 0 bytes where"),
    "too few winners": (lambda one: but(winners=one.winners[:-1])(one), "winners: "),
    "too many winners": (lambda one: but(winners=one.winners + b"\0")(one), "winners: "),
    "a cluster out of range": (lambda one: but(winners=b"\xff" * len(one.winners))(one), "winners: "),
    "ties of odd length": (but(tied_rows=bytes(7)), "ties of an answer have the wrong length"),
    "ties without positions": (but(tied_rows=bytes(8)), "ties of an answer have the wrong length"),
    "positions without ties": (but(tied_positions=bytes(4)), "ties of an answer have the wrong length"),
    "a tied row out of range": (
        but(tied_rows=(10**6).to_bytes(8, "little"), tied_positions=bytes(4)),
        "a tie is out of range",
    ),
    "a negative tied row": (but(tied_rows=b"\xff" * 8, tied_positions=bytes(4)), "a tie is out of range"),
    "a tied row just beyond": (
        but(tied_rows=(3 * 20).to_bytes(8, "little"), tied_positions=bytes(4)),
        "a tie is out of range",
    ),
    "a tied position out of range": (
        but(tied_rows=bytes(8), tied_positions=(3).to_bytes(4, "little")),
        "a tie is out of range",
    ),
    "a step of another kind": (but(clear=bytes(8)), "the answer belongs to another step than lloyd"),
    "a cheapest start that there is not": (but(best=3), "names a best restart that does not exist"),
    "a negative cheapest start": (but(best=-1), "cannot be read"),
    "a cost that is no number": (but(cost=float("nan")), "names a best restart that does not exist"),
    "a cost without end": (but(cost=float("-inf")), "names a best restart that does not exist"),
    "a cost that is words": (
        lambda one: msgspec.msgpack.encode(msgspec.to_builtins(one, builtin_types=(bytes,)) | {"cost": "much"}),
        "cannot be read",
    ),
    "the cheapest start given up": (lambda one: but(stopped=(one.best,))(one), "stops the best restart"),
    "all starts given up": (but(stopped=(0, 1, 2)), "stops the best restart"),
    "a start given up that there is not": (but(stopped=(3,)), "restarts that are not active"),
    "another type": (lambda _: Choice("1.1", 1, (0,)), "sent 'choice' where 'answer' was expected"),
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


UNREADABLE = f"{COORDINATOR}: sent a message that cannot be read: "


@pytest.mark.parametrize(
    "positions", [(), (0, 0), (-1,), (3,), (2**31,), (2**63 - 1,), (-(2**63),), (2**63,), (2**64 - 1,)]
)
def test_a_choice_out_of_range_is_refused(positions):
    adversary = Changing(Choice, but(positions=positions), to="party-2", at=0)
    outcome = fit(adversary, seeding="d2")
    assert adversary.done == 1
    assert type(outcome.raised) is PeerError
    assert str(outcome.raised).startswith((f"{COORDINATOR}: a choice is out of range", UNREADABLE))


@pytest.mark.parametrize("positions", [(0,), (0, 0, 36), (0, 0, -1), (0, 0, 0, 0), (0, 2**64 - 1, 0)])
def test_a_drawn_row_out_of_range_is_refused(positions):
    adversary = Changing(Choice, but(positions=positions), to="party-2", at=0)
    outcome = fit(adversary, method="basic", seeding="d2")
    assert adversary.done == 1
    assert type(outcome.raised) is PeerError
    assert str(outcome.raised).startswith((f"{COORDINATOR}: a choice is out of range", UNREADABLE))


@pytest.mark.parametrize("data", [b"\x40", b"\x80", b"\xc0"])
def test_bits_behind_the_last_number_must_be_empty(data):
    """Otherwise a relay could mark a message without changing what it says."""
    with pytest.raises(PeerError, match="aggregator: winners: the unused last bits are not zero"):
        unpack(data, 3, 4, "aggregator", "winners")


BAD_VECTORS = {
    "an earlier sum": (but(number=0), "sum 0 where sum 1"),
    "a later sum": (but(number=2), "sum 2 where sum 1 was expected"),
    "another group": (but(group="2.1"), "sent a message of group 2.1"),
    "a step that was not agreed on": (but(step=Step.SEEDING), "requested a sum of 'seeding'"),
    "an opening of everything": (but(step="pairs"), "cannot be read"),
    "a step unheard of": (but(step=""), "cannot be read"),
    "another agreed step": (
        lambda one: but(step=Step.MARGIN, costs=(), words=one.words[8 * len(one.costs) :])(one),
        "transcripts differ",
    ),
    "no rows": (but(shape=(1, 0, 3), words=bytes(16)), "bytes for a vector of shape"),
    "negative rows": (but(shape=(-1, -20, 3)), "cannot be read"),
    "too few words": (lambda one: but(words=one.words[8:])(one), "bytes for a vector of shape"),
    "a broken word": (lambda one: but(words=one.words[1:])(one), "bytes for a vector of shape"),
    "no words": (but(words=b""), "bytes for a vector of shape"),
    "another shape": (lambda one: but(shape=(one.shape[1], one.shape[0], one.shape[2]))(one), "transcripts differ"),
    "a shape beyond counting": (but(shape=(2**32, 2**32, 1), words=bytes(16)), "party-2"),
    "a shape beyond numbers": (but(shape=(2**64 - 1, 1, 1)), "party-2"),
    "the end, too early": (lambda one: Finished(one.group), "transcripts differ: party-2 is finished"),
    "costs of other restarts": (
        lambda one: but(costs=tuple(number + 1 for number in one.costs))(one),
        "transcripts differ",
    ),
    "costs in another order": (lambda one: but(costs=one.costs[::-1])(one), "transcripts differ"),
    "fewer costs": (lambda one: but(costs=one.costs[1:])(one), "bytes for a vector of shape"),
    "fewer costs and words": (
        lambda one: but(costs=one.costs[1:], words=one.words[8:])(one),
        "transcripts differ",
    ),
    "no costs": (
        lambda one: but(costs=(), words=one.words[8 * len(one.costs) :])(one),
        "transcripts differ",
    ),
    "a negative start": (but(costs=(-1, 0, 1)), "cannot be read"),
    "more costs than starts can be": (but(costs=tuple(range(2**16 + 1))), "cannot be read"),
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


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["margin", "seeding", "prediction"])
def test_costs_belong_to_lloyds_rounds_alone(kind, mode):
    """Even if all members add them: they would open something that no line of the ledger tells."""

    def edit(one):
        return but(costs=(0,), words=one.words[:-16] + bytes(8) + one.words[-16:])(one)

    adversary = Changing(Masked, edit, where=lambda one: one.step == kind)
    seeding = "d2" if kind == "seeding" else "common"
    scenario = (
        prediction(aggregator=mode) if kind == "prediction" else Scenario(parameters(aggregator=mode, seeding=seeding))
    )
    outcome = scenario.run(adversary)
    assert adversary.done >= 1
    assert type(outcome.raised) is PeerError
    assert f"party-1: sent costs in a sum of '{kind}'" in str(outcome.raised)
    assert not outcome.ledger.of("opened/")
    assert not outcome.labels


def another_best(message):
    """Name a start that was costed, and is not the cheapest: as good in form as the true one."""
    return but(best=1 - min(message.best, 1), stopped=())(message)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["cells", "basic"])
def test_a_aggregator_that_names_other_bests_to_two_parties_is_found_out(method, mode):
    """Every answer in turn; the last, after which no sum would fail to open, by the receipts."""
    scenario = Scenario(parameters(aggregator=mode, method=method, n_init=2, max_iter=3))
    honest = scenario.run()
    lies = [one for _, to, one in honest.messages(Answer) if to == "party-1" and not one.clear]
    assert lies
    found = []
    for lie in lies:
        adversary = Changing(Answer, another_best, to="party-1", where=lambda one, lie=lie: one == lie)
        outcome = scenario.run(adversary)
        assert adversary.done == 1
        assert type(outcome.raised) is PeerError
        assert not outcome.labels
        found.append(str(outcome.raised))
    assert f"{scenario.aggregator}: sent different assignments" in found[-1]
    assert "different assignments" in found[-1]


@pytest.mark.parametrize("edit", [but(cost=1.0), lambda one: but(cost=one.cost * (1 + 1e-15) + 5e-324)(one)])
def test_a_false_cost_to_one_party_is_detected(edit):
    scenario = Scenario(parameters(n_init=2))
    (*_, last) = (one for _, to, one in scenario.run().messages(Answer) if to == "party-2")
    adversary = Changing(Answer, edit, to="party-2", where=lambda one: one == last)
    outcome = scenario.run(adversary)
    assert adversary.done == 1
    assert type(outcome.raised) is PeerError
    assert "different assignments" in str(outcome.raised)
    assert not outcome.labels


def test_a_restart_stopped_for_one_party_only_is_detected():
    def edit(message):
        return but(stopped=tuple(number for number in range(3) if number != message.best)[:1])(message)

    adversary = Changing(Answer, edit, to="party-2", where=lambda one: one.number == 1)
    outcome = fit(adversary)
    assert adversary.done == 1
    assert type(outcome.raised) is PeerError
    assert "transcripts differ" in str(outcome.raised)
    assert not outcome.labels


def test_a_stopped_restart_sends_no_further_values():
    def edit(message):
        return but(stopped=(next(number for number in range(3) if number != message.best),))(message)

    adversary = Changing(Answer, edit, where=lambda one: one.number == 1)
    outcome = fit(adversary)
    assert adversary.done == 3
    assert outcome.raised is None
    assert len({str(labels) for labels in outcome.labels.values()}) == 1
    best = next(one.best for _, _, one in outcome.messages(Answer) if one.number == 1)
    gone = next(number for number in range(3) if number != best)
    later = [one for _, _, one in outcome.messages(Masked) if one.number > 1]
    assert later
    for one in later:
        assert gone not in one.costs
        assert len(one.costs) == len(set(one.costs)) > 0


@pytest.mark.parametrize("seed", range(6))
def test_a_stopped_restart_has_no_further_costs_and_the_best_restart_has_one(seed):
    """In honest runs of many starts some are given up, and never is one of them named again."""
    scenario = Scenario(parameters(n_init=12, n_local_clusters=4, n_clusters=4), 2 + seed % 2, session=seed)
    outcome = scenario.run()
    assert outcome.raised is None
    costed, gone = set(), set()
    answers = {one.number: one for _, to, one in outcome.messages(Answer) if to == "party-1"}
    for one in (one for sender, _, one in outcome.messages(Masked) if sender == "party-1" and one.costs):
        assert not gone & set(one.costs)
        costed |= set(one.costs)
        answer = answers[one.number]
        assert answer.best in costed - gone
        gone |= set(answer.stopped)
        assert answer.best not in gone


def test_a_single_restart_sends_no_costs():
    outcome = fit(n_init=1)
    assert outcome.raised is None
    assert not any(one.costs for _, _, one in outcome.messages(Masked))
    assert {(one.best, one.cost, one.stopped) for _, _, one in outcome.messages(Answer)} == {(0, 0.0, ())}


@pytest.mark.parametrize("shape", [(2**32, 2**32, 1), (2**63, 2, 1), (2**62, 4, 2**63), (2**64 - 1, 2**64 - 1, 1)])
def test_a_shape_that_wraps_around_is_refused_even_if_all_send_it(shape):
    size = int(np.prod(np.array(shape, dtype=np.uint64)))
    adversary = Changing(Masked, but(shape=shape, words=bytes(8 * (size + 2) if size < 9 else 16)))
    outcome = fit(adversary)
    assert adversary.done >= 1
    assert type(outcome.raised) is PeerError
    assert "bytes for a vector of shape" in str(outcome.raised) or "at `$.shape[" in str(outcome.raised)


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


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bit", [0x20, 0x40, 0x80])
def test_a_sum_beyond_what_the_parties_can_add_up_to_is_found_out(bit, mode):
    """The highest bits of a word: no sum of bounded values reaches them."""

    def edit(one):
        return but(words=one.words[:7] + bytes([one.words[7] ^ bit]) + one.words[8:])(one)

    outcome = fit(Changing(Masked, edit, sender="party-1", at=0), aggregator=mode)
    assert type(outcome.raised) is PeerError
    assert "masks of a sum do not cancel" in str(outcome.raised)


def test_a_vector_from_another_round_or_session_does_not_open():
    """Its masks are of another label; with the number rewritten it fits in form, and its masks do not cancel."""
    scenario = Scenario(parameters())
    honest = [one for sender, _, one in scenario.run().messages(Masked) if sender == "party-2" and one.step == "lloyd"]
    first, second = next((one, two) for one, two in pairwise(honest) if one.shape == two.shape)
    forged = but(number=second.number)(first)
    outcome = scenario.run(Changing(Masked, lambda _: forged, sender="party-2", where=lambda one: one == second))
    assert type(outcome.raised) is PeerError
    assert "masks of a sum do not cancel" in str(outcome.raised)
    earlier = [
        one for sender, _, one in Scenario(parameters(), session=4).run().messages(Masked) if sender == "party-2"
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
    adversary = Changing(
        Finished, lambda one: [Masked(one.group, "lloyd", 99, (1, 1, 1), bytes(24)), one], sender="party-3"
    )
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


@pytest.mark.parametrize("kind", [Hello, Hellos, EncryptedMessages, RelayedMessages, Masked, Answer, Choice, Finished])
@pytest.mark.parametrize("mode", MODES)
def test_a_lost_message_stops_the_run_and_never_leads_to_different_labels(kind, mode):
    adversary = Changing(kind, lambda _: None, at=0)
    outcome = fit(adversary, aggregator=mode, seeding="d2")
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


@pytest.mark.parametrize("kind", [Hello, Hellos, EncryptedMessages, RelayedMessages, Masked, Answer, Choice])
def test_a_message_that_comes_twice_is_refused(kind):
    outcome = fit(Changing(kind, lambda one: [one, one], at=0), seeding="d2")
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
