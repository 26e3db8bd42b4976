"""An adversary between a party and the aggregator, with certificates in both names, cannot relay their frames."""

import grpc
import pytest

from kcagc.net.frames import Open, Welcome
from network.adversaries import Aggregator, Client
from network.roles import PATIENT, Collaboration, assert_one_line


class Forged(Client):
    """A stream to the real aggregator with another certificate in a party's name, issued by the trusted authority."""

    def credentials_of(self, roles):
        certificate, key = roles.authority.issue("a.kcagc.internal", client=True)
        return roles.authority.certificate_pem, key, certificate


@pytest.fixture
def waiting_run(fork_server, tmp_path):
    """An aggregator and one of two parties; the adversary stops the other party."""
    roles = Collaboration(tmp_path, fork_server, ("a", "b"), limits=PATIENT)
    try:
        aggregator = roles.start_aggregator()
        b = roles.start("b")
        yield roles, aggregator, b
        roles.assert_finishes(aggregator, b, roles.start("a"))
    finally:
        roles.close()


def test_an_adversary_with_another_certificate_in_the_name_of_a_party_cannot_relay_its_frames(waiting_run):
    roles, aggregator, _ = waiting_run
    refusals = []

    def relay(between, requests, context):
        with Forged(roles) as forged:
            yield forged.receive()  # the real challenge
            forged.send(next(requests))
            reason, words = forged.rejected()
            refusals.append((reason, words))
            context.abort(grpc.StatusCode.UNAVAILABLE, "nothing to relay")

    since = len(aggregator.log.splitlines())
    with Aggregator(roles, relay) as between:
        party = roles.start("a", "--new-session", "--peer-timeout", "1", port=between.port)
        assert party.ends() == 10
        received = between.received
    assert refusals
    assert {reason for reason, _ in refusals} == {"identity"}
    assert all("signed another certificate than the one presented" in words for _, words in refusals)
    assert received
    assert all(isinstance(frame, Open) and not isinstance(frame, Welcome) for frame in received)
    assert len(aggregator.lines("signed another certificate", since)) == len(refusals)
    assert_one_line(party, "^kcagc: coordinator: not connected")
