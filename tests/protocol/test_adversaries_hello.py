"""First words that lie: everything that is wrong with inputs, keys or signatures ends the run before data leave."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from adversaries import (
    COORDINATOR,
    FILTER,
    Changing,
    Insider,
    Scenario,
    about,
    agreement_of,
    but,
    data_of,
    fit,
    hashed,
    identity_of,
    parameters,
    prediction,
    secrets_of,
    tables,
)
from kcagc.errors import AbortedError, AgreementError, DataError, KcagcError, ParameterError, PeerError
from kcagc.graph.filters import HalfFilter
from kcagc.graph.graph import Graph
from kcagc.protocol.agreement import Participant, check_hello, compare_agreements, open_session, own_hello
from kcagc.protocol.local import PartyData
from kcagc.protocol.messages import (
    EncryptedMessages,
    Hello,
    Hellos,
    PackedLabels,
    Receipt,
    RelayedMessages,
    RunStage,
    Step,
    decode,
    decode_content,
    encode,
    kind_of,
)
from kcagc.protocol.parameters import Parameters
from kcagc.protocol.party import Party
from kcagc.secagg.keys import Contribution, decrypt, framed, hello_statement

MODES = ("coordinator", "party")

# Another value for every parameter, all of them sensible by themselves.
OTHERWISE = {
    "task": "predict",
    "method": "tree",
    "n_clusters": 4,
    "n_local_clusters": 5,
    "min_local_size": 2,
    "filter": repr(HalfFilter(3)),
    "joint_rows": "coordinator",
    "n_components": 2,
    "scaling": "US",
    "unit": 2.0,
    "virtual_nodes": "local",
    "fan_in": 3,
    "aggregator": "party",
    "max_iter": 21,
    "n_init": 4,
    "graph": "own",
    "model": "another",
}

# Every point of small order of the curve, and some of their other encodings (RFC 7748; cr.yp.to/ecdh.html).
SMALL_ORDER = [
    bytes(32),
    bytes([1] + [0] * 31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    bytes.fromhex("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    bytes.fromhex("eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
]


def differing(field, who, mode="coordinator"):
    scenario = Scenario(parameters(aggregator=mode))
    other = msgspec.structs.replace(scenario.parameters, **{field: OTHERWISE[field]})
    scenario.agreements[who] = msgspec.structs.replace(scenario.agreement, parameters=other)
    if field == "filter" and who in scenario.parties:  # it does what it says
        scenario.data[who] = replace(data_of(3)[who], filter=HalfFilter(3))
    return scenario


def shown(hellos, name, hello):
    """Put another hello in the place of one role's."""
    return Hellos(tuple(hello if one.name == name else one for one in hellos.hellos))


def signed(scenario, name, *, key=None, nonce=None, by=None):
    """Sign what the holder of an identity could sign."""
    own = secrets_of(name)
    fresh = Contribution(name, own.nonce if nonce is None else nonce, own.public if key is None else key)
    participant = scenario.agreement.participant(name)
    signature = (by or identity_of(name)).sign(hello_statement(participant.role, scenario.agreement.inputs(), fresh))
    honest = own_hello(name, scenario.agreement, identity_of(name), own)
    return msgspec.structs.replace(honest, nonce=fresh.nonce, key=fresh.key, signature=signature)


def ended_by(outcome, kind, *words, liar=""):
    """The run ended with an error of this class whose message has all words, and nothing about data could be read."""
    assert outcome.raised is not None
    assert type(outcome.raised) is kind, outcome.raised
    for word in words:
        assert word in str(outcome.raised)
    assert not outcome.about_data(but=liar)
    assert not outcome.labels


def test_without_an_adversary_all_parties_end_with_the_same_labels():
    for mode in MODES:
        outcome = fit(aggregator=mode)
        assert outcome.raised is None
        assert len(outcome.labels) == 3
        assert len({str(labels) for labels in outcome.labels.values()}) == 1


def test_every_parameter_is_tried_below():
    of_searches = {"orders", "most_clusters"}  # see test_adversaries_search.py
    assert {one.name for one in msgspec.structs.fields(Parameters)} == set(OTHERWISE) | of_searches


@pytest.mark.parametrize("who", ["party-1", "party-3", COORDINATOR])
@pytest.mark.parametrize("field", sorted(set(OTHERWISE) - {"aggregator"}))
def test_a_role_with_another_parameter_is_named_with_it(field, who):
    outcome = differing(field, who).run()
    ended_by(outcome, AgreementError, COORDINATOR, who if who != COORDINATOR else "party-1", f"{field}:")
    assert repr(OTHERWISE[field]) in str(outcome.raised)
    assert not outcome.ledger.of("encrypted/")


@pytest.mark.parametrize("field", sorted(set(OTHERWISE) - {"aggregator"}))
def test_a_party_that_aggregates_also_names_a_different_parameter(field):
    ended_by(differing(field, "party-1", "party").run(), AgreementError, "party-1", "party-3", f"{field}:")


def test_roles_with_different_aggregators_do_not_open_a_session():
    mine, theirs = (agreement_of(parameters(aggregator=mode), 3) for mode in MODES)
    with pytest.raises(AgreementError, match=r"party-1 and party-2 do not agree: aggregator: .*; participants: "):
        compare_agreements("party-1", mine, "party-2", theirs)
    scenario = Scenario(parameters())
    scenario.agreements["party-1"] = theirs
    outcome = scenario.run()
    assert isinstance(outcome.raised, KcagcError)
    assert outcome.kinds() <= {"message/hello", "message/abort"}


@pytest.mark.parametrize("mode", MODES)
def test_another_version_of_the_protocol_is_named(mode):
    scenario = Scenario(parameters(aggregator=mode))
    scenario.agreements["party-2"] = msgspec.structs.replace(scenario.agreement, protocol="kcagc/5")
    words = "uses protocol kcagc/8, party-2 uses kcagc/5: install the same version of kcagc"
    ended_by(scenario.run(), AgreementError, "party-2", words)


@pytest.mark.parametrize("mode", MODES)
def test_a_hello_of_the_version_before_is_refused_with_the_remedy(mode):
    """Its inputs have a field that this version does not know; the version is compared before anything else."""
    before = msgspec.to_builtins(Scenario(parameters(aggregator=mode)).agreement, builtin_types=(bytes,))
    before["protocol"] = "kcagc/5"
    del before["parameters"]["joint_rows"]
    before["parameters"]["seeding"] = "common"
    inputs = msgspec.msgpack.encode(before)
    for protocol in ("kcagc/5", "kcagc/8"):  # by the hello, and by its inputs alone
        adversary = Changing(Hello, but(inputs=inputs, protocol=protocol), sender="party-2")
        ended_by(fit(adversary, aggregator=mode), AgreementError, "party-2 uses kcagc/5: install the same version")


def test_inputs_without_a_version_cannot_be_read():
    for inputs in (b"", b"\x80", b"\x90", msgspec.msgpack.encode({"protocol": 4}), b"\xc1"):
        outcome = fit(Changing(Hello, but(inputs=inputs), sender="party-2"))
        ended_by(outcome, PeerError, "party-2: the inputs of its hello cannot be read")


@pytest.mark.parametrize("mode", MODES)
def test_different_participants_are_named(mode):
    scenario = Scenario(parameters(aggregator=mode))
    strange = Participant("party-2", "party", identity_of("somebody else").public)
    participants = tuple(strange if one.name == "party-2" else one for one in scenario.agreement.participants)
    scenario.agreements["party-1"] = msgspec.structs.replace(scenario.agreement, participants=participants)
    ended_by(scenario.run(), AgreementError, "party-1", scenario.aggregator, "participants:")


def test_parties_compare_inputs_themselves_even_if_the_coordinator_does_not():
    scenario = Scenario(parameters())
    other = msgspec.structs.replace(scenario.agreement, parameters=parameters(n_init=4))
    hello = own_hello("party-2", other, identity_of("party-2"), secrets_of("party-2"))
    adversary = Changing(Hellos, lambda hellos: shown(hellos, "party-2", hello), to="party-1")
    ended_by(
        scenario.run(adversary),
        AgreementError,
        "party-1 and party-2 do not agree",
        "n_init: party-1 has 3, party-2 has",
    )
    assert adversary.done == 1


def test_the_public_message_of_a_disagreement_names_both_roles_and_the_field():
    outcome = differing("n_init", "party-2").run()
    told = outcome.errors["party-1"]
    assert isinstance(told, AbortedError)
    assert told.peer == COORDINATOR
    for word in ("party-2", COORDINATOR, "n_init"):
        assert word in told.reason


def with_graph(scenario, name, graph):
    scenario.data[name] = PartyData.build(name, graph, tables(scenario.count)[1 + scenario.parties.index(name)], FILTER)
    return scenario


def another_graph(ids=None):
    adjacency = tables(3)[0].tolil(copy=True)
    adjacency[0, 1] = adjacency[1, 0] = 1.0 - adjacency[0, 1]
    return Graph.from_matrix(adjacency.tocsr(), ids=ids)


@pytest.mark.parametrize("mode", MODES)
def test_another_graph_is_refused_before_anything_about_features_can_be_read(mode):
    scenario = with_graph(Scenario(parameters(aggregator=mode)), "party-2", another_graph())
    ended_by(scenario.run(), AgreementError, "party-2", "graph", "party-1")


def made_of(graph):
    return PartyData.build("party-2", graph, tables(3)[2], FILTER)


OTHER_DATA = {
    "another graph": lambda: made_of(another_graph()),
    "other ids": lambda: made_of(Graph.from_matrix(tables(3)[0], ids=range(1, 37))),
    "names": lambda: made_of(Graph.from_matrix(tables(3)[0], ids=[f"n{number}" for number in range(36)])),
    "ids in another order": lambda: made_of(Graph.from_matrix(tables(3)[0], ids=[*range(34), 35, 34])),
    "other nodes": lambda: data_of(3, 42)["party-2"],
}


@pytest.mark.parametrize("graph", ["shared", "own"])
@pytest.mark.parametrize("other", OTHER_DATA)
def test_a_party_with_other_data_cannot_decrypt_labels_sent_before_the_comparison(other, graph):
    """Party-2 holds the ciphertext and all its own keys; what it sent about its data does not matter."""
    scenario = Scenario(parameters(graph=graph))
    theirs, same = OTHER_DATA[other](), graph == "own" and other == "another graph"
    scenario.data["party-2"] = theirs
    outcome = scenario.run()
    (ciphertext,) = (
        ciphertext
        for sender, _, message in outcome.messages(EncryptedMessages)
        for to, ciphertext in message.ciphertexts
        if (sender, to, str(message.stage)) == ("party-1", "party-2", "labels 1.1")
    )
    hellos = outcome.messages(Hellos)[0][2]
    pair = open_session("party-2", scenario.agreement, secrets_of("party-2"), hellos.hellos).pairs["party-1"]

    def opened(known):
        return decode_content(
            decrypt(pair, framed("box", "labels 1.1", "party-1", "party-2", known), ciphertext), "party-1"
        )

    shared = graph == "shared"
    assert isinstance(opened(about(data_of(3)["party-1"], shared=shared)), PackedLabels)
    for known in [b"", *([] if same else [about(theirs, shared=shared)]), about(theirs, shared=not shared)]:
        with pytest.raises(PeerError, match="party-1: a message to party-2 cannot be decrypted"):
            opened(known)
    if not same:
        ended_by(outcome, AgreementError, "party-2")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("other", OTHER_DATA)
def test_labels_stay_closed_even_where_a_party_passes_off_its_data_as_those_of_all(other, mode, monkeypatch):
    """Every comparison is made to find nothing: the best that a liar could hope for."""
    monkeypatch.setattr(Party, "_compare_data", lambda *_: None)
    scenario = Scenario(parameters(aggregator=mode))
    scenario.data["party-2"] = OTHER_DATA[other]()
    outcome = scenario.run()
    assert type(outcome.raised) is PeerError
    assert "cannot be decrypted" in str(outcome.raised)
    read = {(to, of) for of, to, content in outcome.opened if isinstance(content, PackedLabels)}
    assert not [both for both in read if "party-2" in both]
    assert not outcome.ledger.of("opened/")
    assert not outcome.labels


@pytest.mark.parametrize("mode", MODES)
def test_local_labels_leave_before_any_confirmation_arrives(mode):
    """Nobody waits for a comparison: the second ciphertexts leave while the first are held back."""
    sent, adversary = [], Changing(RelayedMessages, lambda _: None, where=lambda one: str(one.stage) == "confirmation")

    def watching(sender, receiver, payload):
        message = decode(payload, sender)
        if isinstance(message, EncryptedMessages):
            sent.append((sender, str(message.stage)))
        return adversary(sender, receiver, payload)

    outcome = fit(watching, aggregator=mode)
    assert not outcome.labels
    assert {("party-1", "labels 1.1"), ("party-2", "labels 1.1")} <= set(sent)
    held = ("party-1", "party-2")
    assert not [one for _, to, one in outcome.opened if isinstance(one, PackedLabels) and to in held]


def test_the_basic_method_sends_nothing_about_data_before_the_comparison():
    scenario = with_graph(Scenario(parameters(method="basic")), "party-2", another_graph())
    outcome = scenario.run()
    ended_by(outcome, AgreementError, "party-2", "graph")
    assert not outcome.ledger.of("encrypted/labels")


@pytest.mark.parametrize("mode", MODES)
def test_a_graph_of_ones_own_may_differ(mode):
    scenario = with_graph(Scenario(parameters(aggregator=mode, graph="own")), "party-2", another_graph())
    outcome = scenario.run()
    assert outcome.raised is None
    assert len({str(labels) for labels in outcome.labels.values()}) == 1


@pytest.mark.parametrize("shared", ["shared", "own"])
@pytest.mark.parametrize("ids", [range(1, 37), [f"n{number}" for number in range(36)], [*range(34), 35, 34]])
def test_other_node_ids_are_refused_even_where_graphs_may_differ(ids, shared):
    scenario = Scenario(parameters(graph=shared))
    for name in scenario.parties:
        with_graph(scenario, name, Graph.from_matrix(tables(3)[0], ids=range(36)))
    with_graph(scenario, "party-3", Graph.from_matrix(tables(3)[0], ids=list(ids)))
    ended_by(scenario.run(), AgreementError, "party-3", "node ids")


@pytest.mark.parametrize("mode", MODES)
def test_another_number_of_nodes_is_refused_with_both_numbers(mode):
    scenario = Scenario(parameters(aggregator=mode))
    scenario.data["party-2"] = data_of(3, 42)["party-2"]
    outcome = scenario.run()
    ended_by(outcome, AgreementError, "party-2", "number of nodes", "36", "42")
    for error in outcome.errors.values():
        assert not isinstance(error, AbortedError) or "36" not in error.reason


@pytest.mark.parametrize("position", [0, 31, 32, 63])
@pytest.mark.parametrize("mode", MODES)
def test_a_changed_signature_is_refused(mode, position):
    def changed(hello):
        signature = bytearray(hello.signature)
        signature[position] ^= 1
        return msgspec.structs.replace(hello, signature=bytes(signature))

    outcome = fit(Changing(Hello, changed, sender="party-2"), aggregator=mode)
    ended_by(outcome, PeerError, "party-2", "not signed by the identity key")
    assert not outcome.ledger.of("encrypted/")


@pytest.mark.parametrize("field", ["nonce", "key"])
def test_nonce_and_key_are_signed(field):
    adversary = Changing(Hello, but(**{field: hashed("another")}), sender="party-1")
    ended_by(fit(adversary), PeerError, "party-1", "not signed by the identity key")


@pytest.mark.parametrize("to", ["party-1", "party-3"])
def test_parties_check_signatures_themselves(to):
    scenario = Scenario(parameters())
    own = signed(scenario, "party-2", key=secrets_of(COORDINATOR).public, by=identity_of(COORDINATOR))
    adversary = Changing(Hellos, lambda hellos: shown(hellos, "party-2", own), to=to)
    ended_by(scenario.run(adversary), PeerError, "party-2", "not signed by the identity key", to)


def test_a_coordinator_that_shows_keys_of_its_own_to_all_is_found_out():
    scenario = Scenario(parameters())
    own = signed(scenario, "party-2", key=secrets_of(COORDINATOR).public, by=identity_of(COORDINATOR))
    outcome = scenario.run(Changing(Hellos, lambda hellos: shown(hellos, "party-2", own)))
    ended_by(outcome, PeerError, "party-2", "not signed")
    assert set(outcome.origins) == {"party-1", "party-2", "party-3"}


def test_a_hello_of_another_identity_is_refused():
    scenario = Scenario(parameters())
    adversary = Changing(Hello, lambda _: signed(scenario, "party-2", by=identity_of("party-3")), sender="party-2")
    ended_by(scenario.run(adversary), PeerError, "party-2", "not signed by the identity key")


def test_a_party_whose_own_key_is_not_the_pinned_one_does_not_begin():
    for name in ("party-2", COORDINATOR):
        scenario = Scenario(parameters())
        scenario.identities[name] = identity_of("another")
        outcome = scenario.run()
        ended_by(outcome, AgreementError, name, "identity key")
        assert all(sender != name for sender, _, _ in outcome.sent if decode(_, "").__class__ is Hello)


def test_a_hello_in_the_name_of_another_is_refused():
    scenario = Scenario(parameters())
    adversary = Changing(Hello, lambda _: signed(scenario, "party-1"), sender="party-2")
    ended_by(scenario.run(adversary), PeerError, "party-2", "hello of party-1")


@pytest.mark.parametrize(
    ("mode", "to"),
    # What the summing party shows itself does not travel.
    [
        (mode, to)
        for mode in MODES
        for to in (None, "party-1", "party-2", "party-3")
        if (mode, to) != ("party", "party-3")
    ],
)
def test_a_hello_of_an_earlier_session_is_refused(mode, to):
    """It is properly signed, for the same inputs: only nonces and keys tell that it is old."""
    earlier = Scenario(parameters(aggregator=mode), session=5).run()
    assert earlier.raised is None
    old = next(message for sender, _, message in earlier.messages(Hello) if sender == "party-2")
    outcome = fit(Changing(Hellos, lambda hellos: shown(hellos, "party-2", old), to=to), aggregator=mode)
    ended_by(outcome, PeerError, "party-2" if to != "party-3" else "party-3: a message to party-1 cannot be decrypted")


@pytest.mark.parametrize("mode", MODES)
def test_the_hello_that_reaches_the_aggregator_may_not_be_an_earlier_one(mode):
    earlier = Scenario(parameters(aggregator=mode), session=5).run()
    old = next(message for sender, _, message in earlier.messages(Hello) if sender == "party-2")
    ended_by(
        fit(Changing(Hello, lambda _: old, sender="party-2"), aggregator=mode), PeerError, "party-2", "than its own"
    )


def test_all_parties_refuse_the_hellos_of_an_earlier_session():
    earlier = Scenario(parameters(), session=5).run()
    old = earlier.messages(Hellos)[0][2]
    outcome = fit(Changing(Hellos, lambda _: old))
    ended_by(outcome, PeerError, "than its own")
    assert set(outcome.origins) == {"party-1", "party-2", "party-3"}


def test_the_coordinators_nonce_counts_too():
    scenario = Scenario(parameters())
    other = own_hello(COORDINATOR, scenario.agreement, identity_of(COORDINATOR), secrets_of(COORDINATOR, 5))
    adversary = Changing(Hellos, lambda hellos: shown(hellos, COORDINATOR, other), to="party-1")
    ended_by(scenario.run(adversary), PeerError, "cannot be decrypted")


@pytest.mark.parametrize("of", ["party-1", "party-3"])
def test_a_reflected_or_copied_key_is_refused(of):
    """The adversary is party-2 itself, which signs somebody else's key as its own."""
    scenario = Scenario(parameters())
    copied = signed(scenario, "party-2", key=secrets_of(of).public)
    adversary = Changing(Hellos, lambda hellos: shown(hellos, "party-2", copied), to="party-1")
    ended_by(scenario.run(adversary), PeerError, "the same key")


def test_a_copied_nonce_is_refused():
    scenario = Scenario(parameters())
    copied = signed(scenario, "party-2", nonce=secrets_of("party-1").nonce)
    adversary = Changing(Hellos, lambda hellos: shown(hellos, "party-2", copied), to="party-1")
    ended_by(scenario.run(adversary), PeerError, "nonce")


@pytest.mark.parametrize("number", range(len(SMALL_ORDER)))
@pytest.mark.parametrize("mode", MODES)
def test_a_key_that_fixes_the_secret_is_refused_though_signed(number, mode):
    scenario = Scenario(parameters(aggregator=mode))
    weak = signed(scenario, "party-2", key=SMALL_ORDER[number])
    adversary = Changing(Hellos, lambda hellos: shown(hellos, "party-2", weak), to="party-1")
    ended_by(scenario.run(adversary), PeerError, "party-2", "session key is not usable")


@pytest.mark.parametrize("field", ["nonce", "key", "signature"])
@pytest.mark.parametrize("length", [0, 31, 33, 65])
def test_a_nonce_key_or_signature_of_another_length_is_refused(field, length):
    adversary = Changing(Hello, but(**{field: bytes(length)}), sender="party-3")
    ended_by(fit(adversary), PeerError, "party-3", "length")


def test_a_coordinator_may_not_show_a_key_as_if_it_had_data():
    scenario = Scenario(parameters())
    hello = signed(scenario, COORDINATOR, key=secrets_of(COORDINATOR).public)
    adversary = Changing(Hellos, lambda hellos: shown(hellos, COORDINATOR, hello), to="party-1")
    ended_by(scenario.run(adversary), PeerError, COORDINATOR, "length")


def test_a_signature_made_as_a_coordinator_is_none_of_a_party():
    scenario = Scenario(parameters())
    own = secrets_of("party-2")
    fresh = Contribution("party-2", own.nonce, own.public)
    signature = identity_of("party-2").sign(hello_statement("coordinator", scenario.agreement.inputs(), fresh))
    hello = msgspec.structs.replace(signed(scenario, "party-2"), signature=signature)
    with pytest.raises(PeerError, match="party-2: the hello is not signed"):
        check_hello("party-1", scenario.agreement, hello, "party-2")


@pytest.mark.parametrize(
    "edit",
    [
        lambda hellos: Hellos(hellos.hellos[1:]),
        lambda hellos: Hellos(hellos.hellos[:-1]),
        lambda hellos: Hellos((*hellos.hellos, hellos.hellos[-1])),
        lambda hellos: Hellos((hellos.hellos[0], *hellos.hellos[:-1])),
        lambda hellos: Hellos(hellos.hellos[::-1]),
        lambda hellos: Hellos((hellos.hellos[1], hellos.hellos[0], *hellos.hellos[2:])),
        lambda _: Hellos(()),
    ],
    ids=["without the first", "without the last", "one more", "the first twice", "backwards", "two swapped", "none"],
)
@pytest.mark.parametrize("mode", MODES)
def test_hellos_must_be_those_of_all_participants_in_the_agreed_order(mode, edit):
    adversary = Changing(Hellos, edit, to="party-1")
    ended_by(fit(adversary, aggregator=mode), PeerError, "not of the agreed participants")


@pytest.mark.parametrize("mode", MODES)
def test_a_missing_hello_stops_all_roles_and_the_aggregator_names_the_party(mode):
    outcome = fit(Changing(Hello, lambda _: None, sender="party-2"), aggregator=mode)
    ended_by(outcome, KcagcError, "waits for party-2")


@pytest.mark.parametrize("mode", MODES)
def test_a_repeated_hello_is_refused(mode):
    outcome = fit(Changing(Hello, lambda hello: [hello, hello], sender="party-1"), aggregator=mode)
    ended_by(outcome, PeerError, "party-1", "'hello'", "'encrypted'")


def test_session_ids_differ_whenever_anything_in_a_hello_does():
    scenario = Scenario(parameters())

    def identifier(**sessions):
        hellos = tuple(
            own_hello(
                participant.name,
                scenario.agreement,
                identity_of(participant.name),
                secrets_of(participant.name, sessions.get(key, 0)),
            )
            for participant in scenario.agreement.participants
            for key in [participant.name.replace("-", "_")]
        )
        return open_session("party-1", scenario.agreement, secrets_of("party-1", sessions.get("party_1", 0)), hellos).id

    found = [
        identifier(),
        identifier(party_1=1),
        identifier(party_2=1),
        identifier(party_3=1),
        identifier(coordinator=1),
    ]
    assert len(set(found)) == len(found)


# Boxes on their way through the aggregator


@pytest.mark.parametrize("stage_name", ["confirmation", "labels 1.1", "receipt"])
@pytest.mark.parametrize("position", [0, -1])
def test_a_changed_ciphertext_is_refused(stage_name, position):
    def changed(relayed):
        (sender, ciphertext), *others = relayed.ciphertexts
        spoiled = bytearray(ciphertext)
        spoiled[position] ^= 1
        return RelayedMessages(relayed.stage, ((sender, bytes(spoiled)), *others))

    adversary = Changing(RelayedMessages, changed, to="party-3", where=lambda one: str(one.stage) == stage_name)
    outcome = fit(adversary)
    assert adversary.done == 1
    assert type(outcome.raised) is PeerError
    assert "party-1: a message to party-3 cannot be decrypted" in str(outcome.raised)
    assert "party-3" not in outcome.labels


@pytest.mark.parametrize("stage_name", ["confirmation", "labels 1.1", "receipt"])
def test_a_party_cannot_decrypt_messages_to_another(stage_name):
    """The relay gives party-2 the ciphertext that party-1 closed for party-3, and the other way round."""
    scenario = Scenario(parameters())
    honest = scenario.run()
    ours = {
        receiver: dict(message.ciphertexts)
        for _, receiver, message in honest.messages(RelayedMessages)
        if str(message.stage) == stage_name
    }
    swap = {"party-2": "party-3", "party-3": "party-2"}

    def changed(to):
        return lambda relayed: RelayedMessages(
            relayed.stage,
            tuple(
                (sender, ours[swap[to]].get(sender, ciphertext) if sender == "party-1" else ciphertext)
                for sender, ciphertext in relayed.ciphertexts
            ),
        )

    adversary = Changing(
        RelayedMessages, changed("party-2"), to="party-2", where=lambda one: str(one.stage) == stage_name
    )
    outcome = scenario.run(adversary)
    assert adversary.done == 1
    assert type(outcome.raised) is PeerError
    assert "party-1: a message to party-2 cannot be decrypted" in str(outcome.raised)


STAGES = {
    "confirmation": RunStage(Step.CONFIRMATION),
    "labels 1.1": RunStage(Step.LABELS, "1.1", 1),
    "receipt": RunStage(Step.RECEIPT),
}


@pytest.mark.parametrize(
    ("told", "instead"), [("labels 1.1", "confirmation"), ("receipt", "labels 1.1"), ("receipt", "confirmation")]
)
def test_a_ciphertext_of_another_stage_is_refused(told, instead):
    scenario = Scenario(parameters())
    old = next(
        message
        for _, receiver, message in scenario.run().messages(RelayedMessages)
        if receiver == "party-2" and str(message.stage) == instead
    )
    for forged, words in (
        (old, "relayed other encrypted messages"),
        (msgspec.structs.replace(old, stage=STAGES[told]), "cannot be decrypted"),
    ):
        adversary = Changing(
            RelayedMessages, lambda _, forged=forged: forged, to="party-2", where=lambda one: str(one.stage) == told
        )
        outcome = scenario.run(adversary)
        assert adversary.done == 1
        assert type(outcome.raised) is PeerError
        assert words in str(outcome.raised)


def test_a_ciphertext_of_an_earlier_session_is_refused():
    earlier = Scenario(parameters(), session=5).run()
    for told in ("confirmation", "labels 1.1", "receipt"):
        old = next(
            one for _, to, one in earlier.messages(RelayedMessages) if to == "party-2" and str(one.stage) == told
        )
        outcome = fit(
            Changing(
                RelayedMessages,
                lambda _, old=old: old,
                to="party-2",
                where=lambda one, told=told: str(one.stage) == told,
            )
        )
        assert type(outcome.raised) is PeerError
        assert "cannot be decrypted with the keys of this session" in str(outcome.raised)


def test_a_ciphertext_cannot_change_its_sender():
    def changed(relayed):
        (one, first), (other, second) = relayed.ciphertexts
        return RelayedMessages(relayed.stage, ((one, second), (other, first)))

    for told in ("confirmation", "labels 1.1", "receipt"):
        outcome = fit(
            Changing(RelayedMessages, changed, to="party-3", where=lambda one, told=told: str(one.stage) == told)
        )
        assert type(outcome.raised) is PeerError
        assert "cannot be decrypted" in str(outcome.raised)


@pytest.mark.parametrize(
    "edit",
    [
        lambda ciphertexts: ciphertexts[1:],
        lambda ciphertexts: ciphertexts[::-1],
        lambda ciphertexts: (*ciphertexts, ciphertexts[0]),
        lambda _: (),
        lambda ciphertexts: (("party-1", ciphertexts[0][1]), *ciphertexts[1:]),
        lambda ciphertexts: (("nobody", ciphertexts[0][1]), *ciphertexts[1:]),
    ],
    ids=["one fewer", "another order", "one more", "none", "of oneself", "of nobody"],
)
@pytest.mark.parametrize("told", ["confirmation", "labels 1.1", "receipt"])
def test_ciphertexts_must_come_from_exactly_the_expected_senders(told, edit):
    adversary = Changing(
        RelayedMessages,
        lambda one: RelayedMessages(one.stage, edit(one.ciphertexts)),
        to="party-1",
        where=lambda one: str(one.stage) == told,
    )
    outcome = fit(adversary)
    assert adversary.done == 1
    assert type(outcome.raised) is PeerError
    assert f"{COORDINATOR}: relayed other encrypted messages than those of {told} from party-2, party-3" in str(
        outcome.raised
    )
    assert "party-1" not in outcome.labels


@pytest.mark.parametrize("receiver", ["nobody", "party-1", COORDINATOR])
def test_the_aggregator_relays_only_to_the_expected_receivers(receiver):
    adversary = Changing(
        EncryptedMessages,
        lambda one: EncryptedMessages(one.stage, ((receiver, b"x"), *one.ciphertexts)),
        sender="party-1",
    )
    outcome = fit(adversary)
    assert type(outcome.raised) is PeerError
    assert f"party-1: sent encrypted messages to {receiver}, party-2" in str(outcome.raised)


def test_the_aggregator_refuses_encrypted_messages_of_another_stage():
    outcome = fit(Changing(EncryptedMessages, but(stage=RunStage(Step.RECEIPT)), sender="party-2", at=0))
    ended_by(outcome, PeerError, "party-2", "'receipt'", "'confirmation'")


# A party that lies inside its ciphertexts


def lying(name, stage_name, edit, **changes):
    scenario = Scenario(parameters(**changes))
    adversary = Insider(scenario, name, stage_name, edit)
    outcome = scenario.run(adversary)
    assert adversary.done
    return outcome


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"n_nodes": 35}, "number of nodes"),
        ({"n_nodes": 2**48 - 1}, "number of nodes"),
        ({"ids": bytes(32)}, "node ids"),
        ({"graph": bytes(32)}, "graph"),
    ],
)
def test_confirmations_that_differ_end_the_run(fields, words):
    outcome = lying("party-2", "confirmation", lambda _, one: but(**fields)(one))
    ended_by(outcome, AgreementError, "party-2", words, liar="party-2")


@pytest.mark.parametrize("keys", [{}, {"1.1": b""}, {"1.1": bytes(31)}, {"2.1": bytes(32)}])
def test_the_leader_of_a_group_must_send_the_key_of_its_orders(keys):
    outcome = lying("party-1", "confirmation", lambda _, one: but(group_keys=keys)(one))
    assert type(outcome.raised) is PeerError
    assert "party-1: did not send the key that hides the order of group 1.1" in str(outcome.raised)
    assert "message/masked" not in {entry.kind for entry in outcome.ledger if entry.sender != "party-1"}


def test_only_the_leader_of_a_group_can_give_its_key():
    outcome = lying("party-2", "confirmation", lambda _, one: but(group_keys={"1.1": bytes(32)})(one))
    assert outcome.raised is None
    assert outcome.labels["party-1"] == fit().labels["party-1"]


def test_a_fingerprint_for_one_party_is_different_from_that_for_another():
    """Pairs have keys of their own, so digests of the same ids cannot be compared across pairs."""
    seen = {}
    scenario = Scenario(parameters())
    scenario.run(Insider(scenario, "party-1", "confirmation", seen.setdefault))
    assert seen["party-2"].ids != seen["party-3"].ids
    assert seen["party-2"].graph != seen["party-3"].graph
    again = {}
    later = Scenario(parameters(), session=3)
    later.run(Insider(later, "party-1", "confirmation", again.setdefault))
    assert again["party-2"].ids != seen["party-2"].ids


@pytest.mark.parametrize("seed", [b"", bytes(7), bytes(9)])
def test_a_seed_of_another_length_is_the_senders_fault(seed):
    ended_by(lying("party-1", "confirmation", lambda _, one: but(seed=seed)(one)), PeerError, "seed", liar="party-1")


@pytest.mark.parametrize("method", ["cells", "basic"])
def test_the_largest_seed_is_a_seed_like_any_other(method):
    """The first party itself goes on with another, so that the sums do not open; but nobody stumbles."""
    outcome = lying("party-1", "confirmation", lambda _, one: but(seed=b"\xff" * 8)(one), method=method)
    assert type(outcome.raised) is PeerError
    assert not outcome.labels


def starts(*nodes):
    return np.array(nodes, dtype="<i8").tobytes()


@pytest.mark.parametrize(
    "proposed",
    [
        b"",
        bytes(7),
        starts(*[0, 1, 2] * 2),
        starts(*[0, 1, 2] * 4),
        starts(*[0, 1, 2] * 3) + b"\0",
        starts(*[0, 1, 2] * 2, 0, 1, -1),
        starts(*[0, 1, 2] * 2, 0, 1, 36),
        starts(*[0, 1, 2] * 2, 0, 1, 2**63 - 1),
        b"\xff" * 72,
    ],
)
def test_proposed_starts_out_of_range_name_the_sender(proposed):
    outcome = lying("party-2", "confirmation", lambda _, one: but(starts=proposed)(one), method="basic")
    ended_by(outcome, PeerError, "party-2: did not propose 3 times 3 nodes", liar="party-2")


@pytest.mark.parametrize("n_clusters", [-1, 0, 4, 2**63])
def test_more_or_fewer_local_clusters_than_agreed_are_refused(n_clusters):
    outcome = lying("party-2", "labels 1.1", lambda _, one: but(n_clusters=n_clusters)(one))
    assert type(outcome.raised) is PeerError
    assert "party-2" in str(outcome.raised)
    assert not outcome.labels


@pytest.mark.parametrize("packed", [b"", bytes(8), bytes(10), b"\xff" * 9])
def test_labels_of_another_length_or_out_of_range_are_refused(packed):
    outcome = lying("party-2", "labels 1.1", lambda _, one: but(packed=packed)(one))
    assert type(outcome.raised) is PeerError
    assert "party-2: labels: " in str(outcome.raised)
    assert not outcome.labels


@pytest.mark.parametrize("told", ["confirmation", "labels 1.1"])
def test_an_encrypted_message_with_another_content_is_refused(told):
    instead = {"confirmation": PackedLabels(3, bytes(9), b"", 2), "labels 1.1": Receipt(bytes(32))}[told]
    outcome = lying("party-2", told, lambda *_: instead)
    assert type(outcome.raised) is PeerError
    assert f"party-2: sent '{kind_of(instead)}' where" in str(outcome.raised)


def test_a_different_receipt_ends_the_run_of_its_receiver():
    outcome = lying("party-2", "receipt", lambda to, one: Receipt(bytes(32)) if to == "party-1" else one)
    assert type(outcome.raised) is PeerError
    assert "sent different assignments to party-1 and party-2" in str(outcome.raised)
    assert "party-1" not in outcome.labels


@pytest.mark.parametrize("totals", [b"", bytes(16), bytes(23), bytes(32)], ids=len)
def test_a_receipt_whose_sums_have_the_wrong_length_is_refused(totals):
    outcome = lying("party-2", "receipt", lambda to, one: but(totals=totals)(one) if to == "party-1" else one)
    assert str(outcome.errors["party-1"]) == "party-2: sent a receipt whose sums have the wrong length"
    assert "party-1" not in outcome.labels


@pytest.mark.parametrize("byte", [8, 15, 16, 23])
def test_a_receipt_whose_masks_do_not_cancel_is_refused(byte):
    """The words behind the cost add up to zero, or the parties masked it with different results in mind."""

    def edit(to, one):
        changed = bytearray(one.totals)
        changed[byte] ^= 1
        return but(totals=bytes(changed))(one)

    outcome = lying("party-2", "receipt", edit)
    for receiver in ("party-1", "party-3"):
        assert type(outcome.errors[receiver]) in (PeerError, AbortedError)
        assert receiver not in outcome.labels
    assert "the masks of a sum do not cancel" in str(outcome.raised)


def test_a_party_may_lie_about_its_part_of_the_cost_and_changes_no_labels():
    """What it adds to its own word cannot be told from data; the clusters are compared, and the cost is not."""

    def edit(to, one):
        part = int.from_bytes(one.totals[:8], "little") + (1 << 24)
        return but(totals=(part % 2**64).to_bytes(8, "little") + one.totals[8:])(one)

    honest, outcome = fit(), lying("party-2", "receipt", edit)
    assert outcome.raised is None
    assert outcome.labels == honest.labels
    for name, more in (("party-1", 1), ("party-2", 0), ("party-3", 1)):
        assert outcome.results[name].cost == pytest.approx(honest.results[name].cost + more, abs=1e-12)


def test_a_prediction_has_no_cost_and_refuses_one():
    scenario = prediction()
    insider = Insider(scenario, "party-2", "receipt", lambda _, one: but(totals=bytes(24))(one))
    subject = np.asarray(scenario.nodes["party-2"], dtype="<i8").tobytes()
    insider.about = about(data_of(3)["party-2"], subject=subject)
    outcome = scenario.run(insider)
    assert insider.done == 2
    assert "party-2: sent a receipt whose sums have the wrong length" in str(outcome.raised)


def test_a_party_that_sends_different_labels_is_detected_before_the_end():
    """Party-1 tells party-2 other labels than party-3: never do two parties end with different clusters."""

    def edit(to, one):
        return but(packed=bytes(9))(one) if to == "party-2" else one

    outcome = lying("party-1", "labels 1.1", edit)
    assert type(outcome.raised) is PeerError
    assert not outcome.labels


@pytest.mark.parametrize("method", ["cells", "basic"])
def test_results_are_compared_and_not_only_what_led_there(method):
    """Party-2 was given another key of the orders: it is told the same as the others, and reads other labels in it."""

    def edit(to, one):
        return but(group_keys=dict.fromkeys(one.group_keys, bytes(32)))(one) if to == "party-2" else one

    outcome = lying("party-1", "confirmation", edit, method=method, n_init=1, max_iter=1)
    assert type(outcome.raised) is PeerError
    assert "transcripts differ" in str(outcome.raised) or "different assignments" in str(outcome.raised)
    assert not outcome.labels


@pytest.mark.parametrize("what", ["seed", "key", "starts"])
def test_parties_with_different_seeds_keys_or_starts_open_no_sum(what):
    def edit(to, one):
        if to != "party-2":
            return one
        changes = {
            "seed": {"seed": bytes(8)},
            "key": {"group_keys": dict.fromkeys(one.group_keys, bytes(32))},
            "starts": {"starts": starts(*range(9))},
        }
        return but(**changes[what])(one)

    outcome = lying("party-1", "confirmation", edit, method="basic")
    assert type(outcome.raised) is PeerError
    assert "transcripts differ" in str(outcome.raised)
    assert not outcome.ledger.of("opened/")
    assert not outcome.labels


def test_parties_that_place_different_nodes_are_found_out():
    """As many nodes, but others: each sum would add distances of different nodes."""
    scenario = prediction()
    scenario.nodes["party-2"] = scenario.nodes["party-2"][::-1].copy()
    outcome = scenario.run()
    assert isinstance(outcome.raised, AgreementError | PeerError)
    assert not outcome.labels


def test_a_party_that_smooths_by_another_filter_than_the_agreed_one_does_not_begin():
    """What was agreed on is a name; what is applied is the filter that came with the data."""
    scenario, own = Scenario(parameters()), data_of(3)["party-2"]
    scenario.data["party-2"] = PartyData(own.graph, own.features, HalfFilter(9))
    ended_by(scenario.run(), ParameterError, "party-2", "filter")


def test_models_of_different_fits_do_not_go_together():
    scenario, other = prediction(), Scenario(parameters(), session=8)
    scenario.models["party-2"] = other.run().results["party-2"].model
    outcome = scenario.run()
    assert type(outcome.raised) is ParameterError
    assert "party-2" in str(outcome.raised)
    assert not outcome.about_data()


def test_a_table_with_other_columns_than_the_model_has_does_not_begin():
    scenario = prediction()
    wider = tables(3)[2].repeat(2, axis=1)
    scenario.data["party-2"] = PartyData.build("party-2", data_of(3)["party-2"].graph, wider, FILTER)
    outcome = scenario.run()
    ended_by(outcome, DataError, "party-2", "6 columns", "3")


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda every: (*every[:1], *every[:1], *every[2:]), "same name"),
        (lambda every: (every[0], Participant("party-2", "party", every[0].identity), *every[2:]), "identity key"),
        (lambda every: (every[0], Participant("", "party", every[1].identity), *every[2:]), "invalid name"),
        (
            lambda every: (every[0], Participant("a\nb", "party", every[1].identity), *every[2:]),
            "invalid name",
        ),
        (
            lambda every: (every[0], Participant("x" * 65, "party", every[1].identity), *every[2:]),
            "invalid name",
        ),
        (lambda every: (every[0], Participant("party-2", "party", b"short"), *every[2:]), "invalid identity key"),
        (lambda every: (every[0], Participant("party-2", "party", bytes(32)), *every[2:]), "invalid identity key"),
        (lambda every: (every[0], every[-1]), "1 parties"),
        (lambda every: every[:-1], "1 coordinator"),
        (lambda every: every[::-1], "after all parties"),
        (lambda every: (*every, Participant("more", "coordinator", hashed("more"))), "1 coordinator"),
        (lambda every: (*(Participant(f"p{i}", "party", hashed(i)) for i in range(17)), every[-1]), "17 parties"),
    ],
)
def test_impossible_participants_are_refused_before_anything_is_sent(edit, words):
    agreement = agreement_of(parameters(), 3)
    strange = msgspec.structs.replace(agreement, participants=edit(agreement.participants))
    with pytest.raises(ParameterError, match=words):
        strange.check()
    scenario = Scenario(parameters())
    scenario.agreements["party-1"] = strange
    outcome = scenario.run()
    assert isinstance(outcome.errors["party-1"], ParameterError)
    assert not [one for one in outcome.messages(Hello) if one[0] == "party-1"]


def test_a_party_that_is_not_a_participant_is_refused():
    scenario = Scenario(parameters())
    agreement = agreement_of(parameters(), 2)
    scenario.agreements["party-3"] = agreement
    outcome = scenario.run()
    assert isinstance(outcome.errors["party-3"], AgreementError | ParameterError)
    assert "party-3" in str(outcome.errors["party-3"])


def test_a_hello_can_be_read_back_to_the_byte():
    scenario = Scenario(parameters())
    hello = signed(scenario, "party-1")
    assert encode(decode(encode(hello), "party-1")) == encode(hello)
