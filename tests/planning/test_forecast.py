"""Time, memory and engine of a forecast follow from counts and coefficients."""

import math
import re

import pytest

from kcagc.planning.forecast import Link, forecast
from kcagc.planning.model import Coefficients, calibrate, coefficients, party_work
from kcagc.planning.traffic import Task, traffic
from kcagc.protocol.parameters import RunSettings

MACHINE = {"cores": 2, "memory": 32e9}


def task(nodes=100_000, columns=64, parties=2, edges=None, **settings):
    own = {"n_clusters": 8, "psi": 5, "method": "joint"} | settings
    return Task(nodes, edges or 10 * nodes, columns, parties, RunSettings.read(own).resolve(parties))


def flat(**given):
    """Return coefficients that are zero but for the given ones."""
    parts = {"party": {}, "coordinator": {}, "waiting": {}, "memory": {}, "probes": {}} | given
    return Coefficients(commit="c", when="w", machine="m", **parts)


def test_the_link_adds_its_delays_and_its_bytes():
    own = task()
    near, far = (forecast(own, link, **MACHINE) for link in (Link(), Link(0.1, 1e6)))
    counted = traffic(own)
    assert near.of_network == 0.0
    assert far.of_network == pytest.approx(0.1 * counted.delays + counted.in_turn / 1e6)
    assert far.seconds == pytest.approx(near.seconds + far.of_network)


def test_a_part_of_the_work_is_shared_by_cores():
    stored = flat(party={"products": 1e-9, "far products": 1e-9, "algebra": 1e-9})
    one, four = (forecast(task(), Link(), cores=cores, memory=32e9, stored=stored).seconds for cores in (1, 4))
    work = party_work(task(), traffic(task()), 0)
    products = 1e-9 * (work["products"] + work["far products"])
    assert one - four == pytest.approx(0.75 * products)
    assert four > 1e-9 * work["algebra"]


def test_roles_on_one_machine_share_its_cores():
    stored = flat(party={"algebra": 1e-9}, coordinator={"words": 1e-9})
    several = [
        forecast(task(parties=parties), Link(), cores=2, memory=32e9, together=True, stored=stored).seconds
        for parties in (2, 8)
    ]
    assert several[1] == pytest.approx(4 * several[0], rel=0.05)


def test_a_slower_machine_takes_longer_in_the_kind_of_work_that_is_slower():
    stored = flat(party={"algebra": 1e-9, "products": 1e-9, "far products": 1e-9}, probes={"algebra": 1.0})
    usual = forecast(task(), Link(), stored=stored, **MACHINE).seconds
    slower = forecast(task(), Link(), stored=stored, faster={"algebra": 3.0}, **MACHINE).seconds
    assert slower - usual == pytest.approx(2e-9 * party_work(task(), traffic(task()), 0)["algebra"])


def test_a_search_for_psi_is_counted_as_work():
    searched, fixed = (task(psi=psi) for psi in ("auto", 5))
    work = [party_work(one, traffic(one), 0) for one in (searched, fixed)]
    assert work[0]["products"] > 5 * work[1]["products"]  # 45 steps of 64 components, and one more step of all columns


@pytest.mark.parametrize(
    ("nodes", "memory", "engine", "reason"),
    [
        (10_000, 32e9, "local", "640,000 values, fewer than 20,000,000"),
        (1_000_000, 32e9, "auto", "64,000,000 values: a GPU is used where there is one"),
        (1_000_000, 1e9, ("dask", "local"), "a party needs about .* and its machine has 1.0 GB"),
    ],
)
def test_the_engine_follows_from_the_size_of_the_table(nodes, memory, engine, reason):
    found = forecast(task(nodes=nodes), Link(), cores=2, memory=memory)
    assert found.engine in engine
    assert re.search(reason, found.reason)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"parties": 4}, ["the first party", "the second party", "every other party", "coordinator"]),
        ({"joint_rows": "coordinator"}, ["every party", "coordinator"]),
        (
            {"method": "cells", "parties": 3, "aggregator": "party"},
            ["the first party", "every other party", "the last party"],
        ),
    ],
)
def test_every_kind_of_role_has_a_line(settings, names):
    found = forecast(task(**settings), Link(), **MACHINE)
    assert [one.name for one in found.roles] == names
    roles = settings.get("parties", 2) + (settings.get("aggregator") != "party")
    assert sum(one.count for one in found.roles) == roles
    document = found.as_dict()
    assert [one["role"] for one in document["roles"]] == names
    assert all(one["bytes_of_memory"] > 1e8 for one in document["roles"])


def test_the_stored_coefficients_say_where_they_come_from():
    stored = coefficients()
    assert len(stored.commit) == 10
    assert "cores" in stored.machine
    for part in (stored.party, stored.coordinator, stored.waiting, stored.memory):
        assert all(value >= 0 and math.isfinite(value) for value in part.values())
    assert stored.party["products"] > 0


def test_the_speed_of_this_machine_is_measured():
    found = calibrate()
    assert found.keys() == coefficients().probes.keys()
    assert all(0.01 < one < 100 for one in found.values())


def test_a_forecast_grows_with_the_run():
    small, large = (forecast(task(nodes=nodes), Link(), **MACHINE) for nodes in (1_000_000, 10_000_000))
    assert large.seconds > small.seconds
    assert large.roles[-2].processor > 5 * small.roles[-2].processor
    assert large.roles[0].memory > 3 * small.roles[0].memory
    assert large.roles[0].sent > 3 * small.roles[0].sent
