"""Somebody between a party and the aggregator, with certificates in both names: it passes words on in vain."""

import grpc
import pytest

from kcagc.net.frames import Open, Welcome
from network.adversaries import Aggregator, Client
from network.roles import Collaboration, assert_one_line


class Forged(Client):
    """A stream to the real aggregator with another certificate in a party's name, from the authority that is known."""

    def credentials_of(self, roles):
        certificate, key = roles.authority.issue("a.kcagc.internal", client=True)
        return roles.authority.certificate_pem, key, certificate


@pytest.fixture
def siege(fork_server, tmp_path):
    """An aggregator and one of two parties; the other is held up on the way."""
    roles = Collaboration(tmp_path, fork_server, ("a", "b"), limits="peer_timeout = 200\nmessage_timeout = 200")
    try:
        aggregator = roles.start_aggregator()
        b = roles.start("b")
        yield roles, aggregator, b
        roles.assert_finishes(aggregator, b, roles.start("a"))
    finally:
        roles.close()


def test_a_certificate_in_the_name_of_a_party_does_not_let_anybody_relay_its_words(siege):
    roles, aggregator, _ = siege
    told = []

    def passing_on(between, requests, context):
        with Forged(roles) as forged:
            yield forged.hear()  # the real challenge
            forged.say(next(requests))
            reason, words = forged.refused()
            told.append((reason, words))
            context.abort(grpc.StatusCode.UNAVAILABLE, "nothing to pass on")

    since = len(aggregator.log.splitlines())
    with Aggregator(roles, passing_on) as between:
        party = roles.start("a", "--new-session", "--peer-timeout", "1", port=between.port)
        assert party.ends() == 10
        heard = between.heard
    assert told
    assert {reason for reason, _ in told} == {"identity"}
    assert all("speaks of another certificate than the one shown" in words for _, words in told)
    assert heard
    assert all(isinstance(frame, Open) and not isinstance(frame, Welcome) for frame in heard)
    assert len(aggregator.lines("speaks of another certificate", since)) == len(told)
    assert_one_line(party, "^kcagc: coordinator: not connected")
