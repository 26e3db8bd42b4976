"""What the witnesses of a run must agree on: the same labels, the same bytes under a number, one vector a mask."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

from kill.scenarios import Run, noted, read


def check(run: Run, labels: dict[str, str]) -> None:
    """A disturbed run has ended as an undisturbed one, and nothing else was ever sent on the way."""
    assert run.labels() == labels, f"other labels\n{run.said()}"
    check_sent(run)
    for role in run.script.roles:
        summary = json.loads(read(run.results(role) / "run.json"))
        assert summary["name"] == role
        for file in summary["files"].values():
            assert (run.results(role) / file).stat().st_size > 0


def check_sent(run: Run) -> None:
    """All that ever arrived under one number is the same, and so is all that was ever hidden under one mask."""
    arrived, vectors, hidden = defaultdict(set), defaultdict(set), defaultdict(set)
    for role in run.script.roles:
        for attempt, sender, number, digest, masked in noted(run.notes / f"{role}.seen"):
            arrived[role, attempt, sender, number].add(digest)
            if masked is not None:
                group, sum_number, words = masked
                vectors[attempt, sender, group, sum_number].add(words)
        for what, label, digest in noted(run.notes / f"{role}.used"):
            hidden[role, what, label].add(digest)
    for found in (arrived, vectors, hidden):
        assert found
        assert [key for key, contents in found.items() if len(contents) > 1] == []


def repeated(run: Run, sender: str) -> int:
    """Give how many vectors of a sender arrived more than once."""
    seen = Counter(
        tuple(masked)
        for _, one, *_, masked in noted(run.notes / f"{run.script.aggregator}.seen")
        if one == sender and masked
    )
    return sum(times > 1 for times in seen.values())


def received(run: Run, role: str, sender: str | None = None) -> int:
    """Give how many messages, of a sender or of all, ever arrived at a role."""
    return sum(sender in (one, None) for _, one, *_ in noted(run.notes / f"{role}.seen"))
