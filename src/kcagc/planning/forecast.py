"""The forecast of a run: seconds, bytes and memory of every role, and which engine each party should take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from kcagc.engines.choice import LARGE
from kcagc.planning.model import (
    Coefficients,
    Counts,
    coefficients,
    coordinator_work,
    held,
    held_by_coordinator,
    party_work,
    shared_by_cores,
    total,
)
from kcagc.planning.traffic import Task, Traffic, traffic
from kcagc.text import size

_JOINT = (
    "words",
    "blinded words",
    "multiplications",
    "sums",
)  # work of a party that begins when its local work has ended
_START = ("start",)  # before the connection of all roles
_ROOM = 0.8  # of the memory of a machine
COORDINATOR, LAST_PARTY = "coordinator", "the last party"


@dataclass(frozen=True)
class Link:
    """The network between a party and the aggregator: seconds one way, and bytes per second."""

    latency: float = 0.0
    bandwidth: float = float("inf")


@dataclass(frozen=True)
class RoleForecast:
    """What one role needs.

    Attributes
    ----------
    name : str
        Which role, or which of the parties.
    count : int
        How many roles need the same.
    seconds : float
        The time in which it computes.
    processor : float
        The processor time of its process, with its start.
    sent, received : int
        The bytes of its messages.
    memory : float
        The bytes that it holds at most.
    """

    name: str
    count: int
    seconds: float
    processor: float
    sent: int
    received: int
    memory: float


@dataclass(frozen=True)
class Forecast:
    """What a run needs.

    Attributes
    ----------
    seconds : float
        From the connection of all roles to the labels, without the reading of files.
    of_network : float
        The part of it in which roles wait for messages to travel.
    sums, delays : int
        The secure sums, and the one-way delays, that follow one another.
    roles : tuple of RoleForecast
        Every kind of role.
    engine : str
        The engine for the parties.
    reason : str
        Why it was taken.
    """

    seconds: float
    of_network: float
    sums: int
    delays: int
    roles: tuple[RoleForecast, ...]
    engine: str
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Return the forecast as plain data."""
        return {
            "seconds": round(self.seconds, 3),
            "seconds_of_network": round(self.of_network, 3),
            "secure_sums": self.sums,
            "delays": self.delays,
            "roles": [
                {
                    "role": one.name,
                    "count": one.count,
                    "seconds": round(one.seconds, 3),
                    "processor_seconds": round(one.processor, 3),
                    "bytes_sent": one.sent,
                    "bytes_received": one.received,
                    "bytes_of_memory": round(one.memory),
                }
                for one in self.roles
            ],
            "engine": self.engine,
            "engine_reason": self.reason,
        }


def forecast(
    task: Task,
    link: Link,
    *,
    cores: int,
    memory: float,
    faster: Mapping[str, float] | None = None,
    together: bool = False,
    stored: Coefficients | None = None,
) -> Forecast:
    """Predict a fit.

    Parameters
    ----------
    task : Task
        The sizes and settings.
    link : Link
        The network between every party and the aggregator.
    cores : int
        The cores of each machine.
    memory : float
        The memory of a party's machine, in bytes.
    faster : mapping of str to float, default=None
        By what factor these machines are slower than that of the coefficients, from `calibrate`.
    together : bool, default=False
        Whether all roles share one machine.
    stored : Coefficients, default=None
        The coefficients. None takes those of the package.

    Returns
    -------
    Forecast
    """
    found, of = traffic(task), stored or coefficients()
    parties = [party_work(task, found, one) for one in range(task.parties)]
    here = [1.0 if together else float(cores)] * task.parties
    local = [
        _seconds(_without(one, (*_JOINT, *_START)), of.party, faster, on) for one, on in zip(parties, here, strict=True)
    ]
    joint = [total(_only(one, _JOINT), of.party, faster) for one in parties]
    of_hub = coordinator_work(found)
    hub = total(_without(of_hub, _START), of.coordinator, faster)
    processor = [total(one, of.party, faster) for one in parties]
    own = task.parameters.aggregator == "coordinator"
    waiting = total({"sums": float(found.sums)}, of.waiting, faster)
    computing = max(local) + max(joint) + hub
    if together:
        computing = max(computing, (sum(processor) + hub) / cores)
    network = found.delays * link.latency + found.in_turn / link.bandwidth
    of_memory = total(held(task, found), of.memory)
    extra = total(held_by_coordinator(found), of.memory)
    roles = _roles(task, found, [a + b for a, b in zip(local, joint, strict=True)], processor, of_memory)
    process = total(of_hub, of.coordinator, faster)
    if own:
        roles.append(RoleForecast(COORDINATOR, 1, hub, process, found.sent[-1], found.received[-1], extra))
    else:
        last = roles[-1]
        roles[-1] = replace(
            last, seconds=last.seconds + hub, processor=last.processor + hub, memory=last.memory + extra
        )
    engine, reason = _engine(task, of_memory, memory)
    return Forecast(computing + waiting + network, network, found.sums, found.delays, tuple(roles), engine, reason)


def _only(counts: Counts, names: tuple[str, ...]) -> Counts:
    return {name: count for name, count in counts.items() if name in names}


def _without(counts: Counts, names: tuple[str, ...]) -> Counts:
    return {name: count for name, count in counts.items() if name not in names}


def _seconds(counts: Counts, each: Mapping[str, float], faster: Mapping[str, float] | None, cores: float) -> float:
    shared, alone = shared_by_cores(counts)
    return total(shared, each, faster) / cores + total(alone, each, faster)


def _roles(
    task: Task, found: Traffic, seconds: list[float], processor: list[float], memory: float
) -> list[RoleForecast]:
    """Return the parties, those together that need the same."""
    names = ["the first party", "the second party"] if task.in_shares else ["the first party"]
    groups = [[one] for one in range(len(names))] + [list(range(len(names), task.parties))]
    names.append("every other party")
    if task.parameters.aggregator == "party":
        groups = [*groups[:-1], groups[-1][:-1], [task.parties - 1]]
        names.append(LAST_PARTY)
    if task.parameters.method != "tree" and not task.in_shares and found.hub >= task.parties:
        groups, names = [list(range(task.parties))], ["every party"]
    return [
        RoleForecast(
            name,
            len(several),
            max(seconds[one] for one in several),
            max(processor[one] for one in several),
            max(found.sent[one] for one in several),
            max(found.received[one] for one in several),
            memory,
        )
        for name, several in zip(names, groups, strict=True)
        if several
    ]


def _engine(task: Task, needed: float, memory: float) -> tuple[str, str]:
    """Return the engine for the parties, and why."""
    values = task.nodes * task.columns
    if needed > _ROOM * memory:
        there = find_spec("kcagc.engines.dask") is not None
        return (
            "dask" if there else "local",
            f"a party needs about {size(needed)}, and its machine has {size(memory)}"
            + ("" if there else ": take a larger machine, or fewer columns"),
        )
    if values >= LARGE:
        return "auto", f"the table has {values:,} values: a GPU is used where there is one, otherwise all cores"
    return "local", f"the table has {values:,} values, fewer than {LARGE:,}: a GPU would not pay off"
