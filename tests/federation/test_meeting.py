"""The checks of a meeting, in memory: whatever the coordinator changes is found, and the error names the culprit."""

import msgspec
import pytest

from kcagc.errors import ParameterError, PeerError
from kcagc.federation.codes import Code, identities_fingerprint
from kcagc.federation.meeting import (
    Introduction,
    Invitation,
    Meeting,
    MeetingAnswer,
    MeetingKeys,
    State,
    channel_statement,
    check_coordinator,
    tls_name,
)
from kcagc.net.trial_authority import authority_for, trial_authority
from kcagc.secagg.keys import Identity

PARTIES = ("bank", "shop", "clinic")
NOW = 1_000_000
change = msgspec.structs.replace


class World:
    """An invitation, and what each role would send in it; the bank is the inviter."""

    def __init__(self):
        self.identities = {name: Identity.generate() for name in (*PARTIES, "coordinator")}
        shown = identities_fingerprint(*(self.identities[name].public for name in ("coordinator", "bank")))
        self.code = Code("invitation", bytes(range(16)), shown, "localhost:7443", "fraud")
        self.keys = MeetingKeys(self.code.secret)
        self.coordinator = self.coordinator_of(self.identities["coordinator"])
        invitation = Invitation(
            federation="fraud",
            parties=PARTIES,
            settings={"n_clusters": 3},
            expires=NOW + 60,
            coordinator=self.identities["coordinator"].public,
            inviter=self.identities["bank"].public,
        )
        self.invitation = change(invitation, mac=self.keys.mac(invitation))
        self.roles = {name: self.meeting() for name in PARTIES}
        self.introductions = {name: self.introduce(name) for name in PARTIES}

    def coordinator_of(self, identity):
        authority = trial_authority("a coordinator").certificate_pem
        made = Introduction(
            name="coordinator", identity=identity.public, tls_name="coordinator.example", authority=authority
        )
        return made.signed(self.keys.id, identity)

    def meeting(self, now=NOW, **changes):
        given = {"coordinator": self.coordinator, "invitation": self.invitation, "signature": b""} | changes
        return Meeting(self.code, MeetingAnswer(**given), now)

    def introduce(self, name):
        authority = authority_for(tls_name(name, self.keys.id)).certificate_pem
        return self.roles[name].introduce(name, self.identities[name], authority)

    def state(self, signature=b"", **changes):
        """The state with all introductions, or with these instead; None leaves one out."""
        found = {name: one for name, one in (self.introductions | changes).items() if one is not None}
        return State(introductions=tuple(found.values()), signature=signature)

    def remade(self, of, /, secret=None, identity=None, **changes):
        """An introduction that a holder of the secret, of this code or another one, makes under a name."""
        identity = identity or Identity.generate()
        keys = self.keys if secret is None else MeetingKeys(secret)
        one = change(self.introductions[of], **({"identity": identity.public} | changes))
        one = one.signed(self.keys.id, identity)
        return change(one, mac=keys.mac(one))


@pytest.fixture
def world():
    return World()


def refused(peer, words, function, *values):
    with pytest.raises(PeerError, match=words) as caught:
        function(*values)
    assert caught.value.peer == peer


def test_all_roles_accept_what_an_honest_coordinator_passes_on(world):
    signature = world.roles["bank"].sign(world.state(), world.identities["bank"])
    for role in world.roles.values():
        found = role.participants(world.state(signature))
        assert [one.name for one in found] == [*PARTIES, "coordinator"]
        assert {one.name: one.identity for one in found} == {
            name: identity.public for name, identity in world.identities.items()
        }


def test_a_role_is_told_which_parties_are_absent(world):
    assert world.roles["bank"].check(world.state(clinic=None)) == ["clinic"]
    assert world.roles["bank"].check(world.state()) == []


def test_a_coordinator_that_swaps_its_key_is_found(world):
    other = Identity.generate()
    refused(
        "coordinator",
        "identity keys of the coordinator and the inviter are not those of the code",
        lambda: world.meeting(coordinator=world.coordinator_of(other)),
    )


@pytest.mark.parametrize("field", ["inviter", "coordinator"])
def test_a_coordinator_that_swaps_a_key_in_the_invitation_is_found(world, field):
    forged = change(world.invitation, **{field: Identity.generate().public})
    refused("coordinator", "are not those of the code", lambda: world.meeting(invitation=forged))


@pytest.mark.parametrize(
    "changes",
    [{"parties": (*PARTIES, "spy")}, {"parties": PARTIES[:2]}, {"settings": {"n_clusters": 99}}, {"expires": NOW * 2}],
    ids=lambda changes: next(iter(changes)),
)
def test_a_coordinator_that_changes_the_invitation_is_found(world, changes):
    forged = change(world.invitation, **changes)
    refused("coordinator", "it has changed the invitation", lambda: world.meeting(invitation=forged))


def test_a_coordinator_without_an_invitation_is_found(world):
    refused("coordinator", "no invitation for this code", lambda: world.meeting(invitation=None))


def test_an_introduction_of_the_coordinator_for_another_meeting_is_found(world):
    other = change(world.coordinator, signature=b"s" * 64)
    refused("coordinator", "not signed by its identity key", lambda: world.meeting(coordinator=other))


def test_a_role_does_not_join_after_the_end_even_if_the_coordinator_lets_it(world):
    with pytest.raises(ParameterError, match=r"expired; ask the inviter for a new one"):
        world.meeting(now=NOW + 61)


@pytest.mark.parametrize("field", ["identity", "authority", "tls_name", "signature", "mac"])
def test_a_changed_introduction_is_found(world, field):
    value = getattr(world.introductions["shop"], field)
    forged = change(world.introductions["shop"], **{field: value[:-1] + ("x" if field == "tls_name" else b"x")})
    refused(
        "coordinator", "of shop that was not made with the code", world.roles["bank"].check, world.state(shop=forged)
    )


def test_an_introduction_with_another_code_or_of_another_meeting_is_found(world):
    forged = world.remade("shop", secret=b"another secret!!")
    refused(
        "coordinator", "of shop that was not made with the code", world.roles["bank"].check, world.state(shop=forged)
    )
    earlier = World()  # an introduction is of no use in another meeting
    earlier.keys = MeetingKeys(b"an earlier code!")
    replayed = earlier.remade("shop", secret=b"an earlier code!")
    refused("coordinator", "not made with the code", world.roles["bank"].check, world.state(shop=replayed))


def test_an_introduction_of_this_role_that_was_replaced_is_found_even_if_a_holder_of_the_code_made_it(world):
    forged = world.remade("bank")
    refused("coordinator", "has replaced the introduction of bank", world.roles["bank"].check, world.state(bank=forged))


def test_an_introduction_that_changes_during_the_meeting_is_found(world):
    bank = world.roles["bank"]
    bank.check(world.state(clinic=None))
    refused("coordinator", "has replaced the introduction of shop", bank.check, world.state(shop=world.remade("shop")))
    refused("coordinator", "has dropped the introduction of shop", bank.check, world.state(shop=None))


def test_a_role_that_was_not_invited_is_found(world):
    added = world.remade("shop", name="spy")
    refused("coordinator", "has added 'spy', which is not invited", world.roles["bank"].check, world.state(spy=added))


def test_two_introductions_under_one_name_are_found(world):
    twice = State(introductions=(*world.state().introductions, world.remade("shop")))
    refused("coordinator", "two introductions under one name", world.roles["bank"].check, twice)


def test_a_dropped_role_is_found_at_the_end(world):
    cut = world.state(clinic=None)
    refused("coordinator", "has dropped clinic", world.roles["bank"].sign, cut, world.identities["bank"])
    refused("coordinator", "has dropped clinic", world.roles["shop"].participants, cut)


def test_a_list_that_the_inviter_has_not_signed_is_found(world):
    """The coordinator shows the inviter one key of the clinic, and the shop another one from a holder of the code."""
    signature = world.roles["bank"].sign(world.state(), world.identities["bank"])
    other = world.state(signature, clinic=world.remade("clinic"))
    refused("coordinator", "the inviter has signed another list", world.roles["shop"].participants, other)
    invented = world.state(world.identities["coordinator"].sign(b"list"))
    refused("coordinator", "the inviter has signed another list", world.roles["bank"].participants, invented)


def test_a_party_that_shows_the_key_of_another_one_is_named(world):
    stolen = world.remade("shop", identity=world.identities["clinic"])
    refused("shop", "identity key of another role", world.roles["bank"].check, world.state(shop=stolen))


def test_a_party_that_does_not_hold_its_key_is_named(world):
    one = change(world.introductions["shop"], identity=Identity.generate().public)
    one = change(one, mac=world.keys.mac(one))
    refused("shop", "not signed by its identity key", world.roles["bank"].check, world.state(shop=one))


def test_a_party_whose_authority_could_act_for_others_is_named(world):
    wide = world.remade("shop", authority=trial_authority("wide").certificate_pem)
    refused("shop", "certificates for other names", world.roles["bank"].check, world.state(shop=wide))
    bank = tls_name("bank", world.keys.id)
    other = world.remade("shop", tls_name=bank, authority=authority_for(bank).certificate_pem)
    refused("shop", "certificates for other names", world.roles["bank"].check, world.state(shop=other))


def test_a_list_that_no_party_can_sign_ends_with_the_remedy(world):
    stranger = world.remade("bank")
    with pytest.raises(ParameterError, match="join in the same folder"):
        world.roles["shop"].check(world.state(bank=stranger))


def test_a_name_that_is_not_invited_cannot_be_used(world):
    with pytest.raises(ParameterError, match="--as: 'spy' is not invited; the invitation names 'bank', 'shop' and"):
        world.roles["bank"].require_invited("spy")


def test_a_device_in_between_is_found_by_the_certificate_of_the_connection(world):
    nonce, certificate = b"n" * 32, b"c" * 32
    signed = world.identities["coordinator"].sign(channel_statement(nonce, certificate))
    answer = MeetingAnswer(coordinator=world.coordinator, invitation=None, signature=signed)
    check_coordinator(answer, nonce, certificate)
    for other in ((nonce, b"d" * 32), (b"m" * 32, certificate)):
        refused("coordinator", "a device in between", check_coordinator, answer, *other)


@pytest.mark.parametrize("name", ['c.internal"\n[data.columns.income]\nkind="drop', "a b", "", "c\\", "c.internal\n"])
def test_a_coordinator_whose_tls_name_is_no_host_name_is_found(world, name):
    """The name goes into the configuration of every party."""
    forged = change(world.coordinator, tls_name=name, signature=b"")
    forged = forged.signed(world.keys.id, world.identities["coordinator"])
    refused("coordinator", "is no host name", lambda: world.meeting(coordinator=forged))
