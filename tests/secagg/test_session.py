"""A session: fresh secrets that nothing prints, secrets in common, and an id that stands for everything agreed on."""

from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcagc.errors import PeerError
from kcagc.secagg import keys
from kcagc.secagg.keys import KEY_BYTES, NONCE_BYTES, Contribution, Secrets, hello_statement, session_id
from secagg.parties import fixed, secrets_of

FIELDS = ("nonce", "private", "shuffling")
INPUTS = b"what everybody agreed on"
CONTRIBUTIONS = [
    Contribution(name, fixed("nonce", name), secrets_of(name).public) for name in ("bank", "shop", "telecom")
]

of_32_bytes = st.binary(min_size=32, max_size=32)
fresh_of_any = st.builds(Contribution, st.text(), st.binary(max_size=40), st.binary(max_size=40))


def test_fresh_secrets_are_new_every_time():
    drawn = [Secrets.fresh() for _ in range(100)]
    values = [getattr(secrets, field) for secrets in drawn for field in FIELDS]
    assert len(set(values)) == 300
    assert {len(value) for value in values} == {32}
    assert (NONCE_BYTES, KEY_BYTES) == (32, 32)
    assert len({secrets.public for secrets in drawn}) == 100


def test_nonce_and_shuffling_key_are_the_operating_systems_bytes(monkeypatch):
    given_out = []

    def counted(size):
        given_out.append(bytes([len(given_out) + 1]) * size)
        return given_out[-1]

    monkeypatch.setattr(keys.os, "urandom", counted)
    secrets = Secrets.fresh()
    assert {secrets.nonce, secrets.shuffling} == set(given_out)
    assert secrets.nonce != secrets.shuffling


def test_the_session_key_is_drawn_by_the_library(monkeypatch):
    drawn = keys.X25519PrivateKey.from_private_bytes(fixed("drawn"))

    class Library:
        generate = staticmethod(lambda: drawn)

    monkeypatch.setattr(keys, "X25519PrivateKey", Library)
    assert Secrets.fresh().private == fixed("drawn")


def test_secrets_are_never_printed():
    secrets = Secrets(b"nonce " * 5 + b"ab", b"private" * 4 + b"abcd", b"shuffle" * 4 + b"abcd")
    assert secrets.public
    shown = [str(secrets), repr(secrets), f"{secrets}", f"{secrets!r:>80}", f"{[secrets]}", f"{ ({'mine': secrets})!r}"]
    for value in (secrets.nonce, secrets.private, secrets.shuffling, secrets.public):
        parts = (value.hex()[:8], value.decode("latin-1")[:6], repr(value)[2:8])
        assert not any(part in text for part in parts for text in shown)


def test_an_unusable_key_is_refused_without_showing_anything_of_ones_own():
    secrets = secrets_of("bank")
    with pytest.raises(PeerError) as caught:
        secrets.shared_with(bytes(32), "shop")
    assert secrets.private.hex() not in str(caught.value)
    assert caught.value.exit_code == 6


@pytest.mark.parametrize("field", FIELDS)
def test_secrets_do_not_change_once_drawn(field):
    with pytest.raises(FrozenInstanceError):
        setattr(secrets_of("bank"), field, bytes(32))


@given(of_32_bytes, of_32_bytes)
def test_two_parties_share_one_secret(one, other):
    first, second = (Secrets(bytes(32), private, bytes(32)) for private in (one, other))
    assert first.shared_with(second.public, "second") == second.shared_with(first.public, "first")


def test_each_pair_shares_another_secret():
    drawn = [secrets_of(name) for name in "abcdef"]
    shared = {one.shared_with(other.public, "other") for one in drawn for other in drawn if one is not other}
    assert len(shared) == 15


@given(st.binary(max_size=40), fresh_of_any, st.text())
def test_a_statement_says_role_name_inputs_nonce_and_key(inputs, fresh, role):
    said = hello_statement(role, inputs, fresh)
    others = [
        hello_statement(role + "x", inputs, fresh),
        hello_statement(role, inputs + b"x", fresh),
        hello_statement(role, inputs, replace(fresh, name=fresh.name + "x")),
        hello_statement(role, inputs, replace(fresh, nonce=fresh.nonce + b"x")),
        hello_statement(role, inputs, replace(fresh, key=fresh.key + b"x")),
        hello_statement(fresh.name, inputs, replace(fresh, name=role)) if fresh.name != role else b"",
        hello_statement(role, inputs, replace(fresh, nonce=fresh.key, key=fresh.nonce))
        if fresh.key != fresh.nonce
        else b"",
    ]
    assert said not in others


@given(
    st.binary(max_size=8), st.lists(fresh_of_any, max_size=4), st.binary(max_size=8), st.lists(fresh_of_any, max_size=4)
)
def test_different_sessions_have_different_ids(inputs, fresh, other_inputs, other_fresh):
    same = (inputs, fresh) == (other_inputs, other_fresh)
    assert (session_id(inputs, fresh) == session_id(other_inputs, other_fresh)) == same


def test_every_single_thing_agreed_on_is_in_the_id():
    changed = [
        session_id(INPUTS + b"!", CONTRIBUTIONS),
        session_id(INPUTS, CONTRIBUTIONS[:-1]),
        session_id(INPUTS, CONTRIBUTIONS[::-1]),
    ]
    for place, one in enumerate(CONTRIBUTIONS):
        for field, value in (
            ("name", one.name + "!"),
            ("nonce", fixed("other")),
            ("key", fixed("other")),
            ("key", b""),
        ):
            changed.append(
                session_id(
                    INPUTS, [*CONTRIBUTIONS[:place], replace(one, **{field: value}), *CONTRIBUTIONS[place + 1 :]]
                )
            )
    assert len({session_id(INPUTS, CONTRIBUTIONS), *changed}) == len(changed) + 1


def test_an_id_is_not_a_statement_of_the_same_fields():
    one = CONTRIBUTIONS[0]
    assert keys.digest("kcagc hello", INPUTS, one.name, one.nonce, one.key) != session_id(INPUTS, [one])
