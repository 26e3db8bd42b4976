"""Properties of every disturbed run: the same labels, one content for each message number and for each mask."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

from kill.scenarios import Run, read, read_notes


def check(run: Run, labels: dict[str, str], *, also_unsent: bool = True) -> None:
    """Check that a disturbed run ended as the undisturbed run, and that all processes of a role sent the same bytes.

    A party also counted one session, however often it was killed.
    """
    assert run.labels() == labels, f"labels differ\n{run.logs()}"
    check_sent(run, also_unsent=also_unsent)
    for party in run.scenario.parties:
        assert len(list((run.folder / party / "state" / "kept").glob("*.session"))) == 1
    for role in run.scenario.roles:
        summary = json.loads(read(run.results(role) / "run.json"))
        assert summary["name"] == role
        for file in summary["files"].values():
            assert (run.results(role) / file).stat().st_size > 0


def check_sent(run: Run, *, also_unsent: bool = True) -> None:
    """Check that each message number had one content, and that each mask hid one vector.

    All bytes that left count, also those of a process that was killed before they arrived: within one session, every
    process of a role sent the same bytes under a message number, and so under a pad. Another session has other pads.
    With `also_unsent`, that holds for vectors of a step that was killed before its commit, too: these never left.
    """
    arrived, vectors, hidden, left = (defaultdict(set) for _ in range(4))
    for role in run.scenario.roles:
        for attempt, sender, number, digest, masked in read_notes(run.notes / f"{role}.seen"):
            arrived[role, attempt, sender, number].add(digest)
            if masked is not None:
                group, sum_number, words = masked
                vectors[attempt, sender, group, sum_number].add(words)
        for what, label, digest in read_notes(run.notes / f"{role}.used"):
            hidden[role, what, label].add(digest)
        for attempt, receiver, number, offset, digest in read_notes(run.notes / f"{role}.sent"):
            left[role, attempt, receiver, number, offset].add(digest)
    for found in (arrived, vectors, left, hidden) if also_unsent else (arrived, vectors, left):
        assert found
        assert [key for key, contents in found.items() if len(contents) > 1] == []


def repeated(run: Run, sender: str) -> int:
    """Count the vectors of a sender that arrived more than once."""
    seen = Counter(
        tuple(masked)
        for _, one, *_, masked in read_notes(run.notes / f"{run.scenario.aggregator}.seen")
        if one == sender and masked
    )
    return sum(times > 1 for times in seen.values())


def received(run: Run, role: str, sender: str | None = None) -> int:
    """Count the messages, of one sender or of all, that arrived at a role."""
    return sum(sender in (one, None) for _, one, *_ in read_notes(run.notes / f"{role}.seen"))
