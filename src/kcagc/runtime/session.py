"""A session on disk: begun with fresh secrets, or taken up where a process left it, if nothing else has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from kcagc.errors import SessionError
from kcagc.runtime.journal import Journal
from kcagc.runtime.stream_handshake import Place
from kcagc.secagg.keys import Secrets, random_token

_BOUND = "bound "
_FINGERPRINT = "fingerprint "


class Drawn(msgspec.Struct, frozen=True):
    """What a role draws for a session and must keep as long as it lasts."""

    nonce: bytes
    private: bytes
    shuffling: bytes
    seed: int
    aggregator_seed: int

    @classmethod
    def fresh(cls, seed: int, aggregator_seed: int) -> Drawn:
        """Draw secrets; the seeds, of all that is not secret, are given."""
        secrets = Secrets.fresh()
        return cls(secrets.nonce, secrets.private, secrets.shuffling, seed, aggregator_seed)

    @property
    def secrets(self) -> Secrets:
        """The part that nobody else may know."""
        return Secrets(self.nonce, self.private, self.shuffling)

    def __repr__(self) -> str:
        return "Drawn(…)"


@dataclass(frozen=True, eq=False)
class Session:
    """An open session of a role."""

    journal: Journal
    drawn: Drawn
    place: Place
    resumed: bool

    def bind(self, peer: str, attempt: bytes) -> None:
        """Keep which session a peer is in."""
        if self.journal.fact("attempt") != self.place.attempt:
            raise SessionError(f"{self.journal.path}: that session is over")
        if self.place.bound.get(peer) != attempt:
            self.journal.set_fact(_BOUND + peer, attempt)
            self.journal.commit()
            self.place.bound[peer] = attempt


def open_session(journal: Journal, fingerprints: Mapping[str, bytes], seeds: tuple[int, int]) -> Session:
    """Begin a session, or take up the one in the journal.

    Data, configuration or packages that have changed since would give other bytes under the same masks, so that a
    session which has spoken to anybody is not taken up with them. One that has not is begun anew.
    """
    if journal.status == "running":
        kept = journal.facts(_FINGERPRINT)
        changed = [name for name in {**fingerprints, **kept} if fingerprints.get(name) != kept.get(name)]
        bound = journal.facts(_BOUND)
        if not changed:
            drawn = msgspec.msgpack.decode(journal.fact("drawn") or b"", type=Drawn)
            attempt = journal.fact("attempt") or b""
            return Session(journal, drawn, Place(attempt, bound), resumed=bool(bound))
        if bound:
            raise SessionError(
                f"{journal.path}: {' and '.join(changed)} changed since this session began; nothing was sent. Undo "
                "the change to go on, or start all roles with --new-session"
            )
    journal.erase(ledger=False)  # what a session that failed has disclosed stays on record
    drawn, attempt = Drawn.fresh(*seeds), random_token()
    journal.set_fact("status", b"running")
    journal.set_fact("drawn", msgspec.msgpack.encode(drawn))
    journal.set_fact("attempt", attempt)
    for name, value in fingerprints.items():
        journal.set_fact(_FINGERPRINT + name, value)
    journal.commit()
    return Session(journal, drawn, Place(attempt, {}), resumed=False)
