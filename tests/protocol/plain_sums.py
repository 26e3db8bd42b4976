"""Secure sums without keys, masks or messages, for tests of what the parties ask and decide."""

from __future__ import annotations

import numpy as np

from kcagc.protocol.effects import Channel
from kcagc.protocol.secure_sum import Comparisons, SecureSums
from kcagc.secagg.masks import Group


class Asked:
    """Comparisons of one party that wait for those of the others."""

    def __init__(self, step, asked):
        self.step, self.asked = step, asked

    def __await__(self):
        return (yield self)


class PlainSums(SecureSums):
    """A member of a group whose comparisons `run_in_step` adds."""

    async def signs(self, step, asked, senders=()):
        if not len(asked):
            return np.zeros(0, dtype=bool)
        self.number += 1
        return await Asked(step, asked)


def members(count, bound=4.0, fraction_bits=24):
    """Return the sums of each of `count` parties of one group."""
    names = tuple(f"party-{number}" for number in range(1, count + 1))
    group = Group(names, "aggregator")
    return [PlainSums(Channel(name), None, group, b"", bound, fraction_bits) for name in names]


def run_in_step(roles, answer=None):
    """Run the coroutines of all parties; `answer` gets the true signs and their number, and returns what is told."""
    waiting, results, told, number = list(roles), {}, [None] * len(roles), 0
    while len(results) < len(waiting):
        requests = []
        for place, role in enumerate(waiting):
            value, told[place] = told[place], None
            try:
                effect = role.send(value)
                while not isinstance(effect, Asked):
                    effect = role.send(None)
                requests.append(effect)
            except StopIteration as end:
                results[place] = end.value
        assert len(requests) in (0, len(waiting)), "the parties do not ask the same"
        if requests:
            assert len({(one.step, len(one.asked)) for one in requests}) == 1
            found = signs_of([one.asked for one in requests])
            told = [found if answer is None else answer(found, number)] * len(waiting)
            number += 1
    return [results[place] for place in range(len(waiting))]


def signs_of(parts: list[Comparisons]):
    """Return which differences are positive; those of zero are if their party says so."""
    total = sum(one.parts for one in parts)
    for one in parts:
        np.testing.assert_array_equal(one.ties, parts[0].ties)
    return (total > 0) | ((total == 0) & parts[0].ties)
