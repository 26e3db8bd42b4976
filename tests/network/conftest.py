"""What the tests on the network share: the process that forks roles, and collaborations that are cleaned up."""

from __future__ import annotations

import pytest

from network.roles import Collaboration, Zygote


@pytest.fixture(scope="session")
def zygote():
    running = Zygote()
    yield running
    running.close()


@pytest.fixture
def collaborate(zygote, tmp_path):
    made = []

    def make(*parties, **changes):
        root = tmp_path / str(len(made))
        made.append(Collaboration(root, zygote, parties or ("a", "b", "c"), **changes))
        return made[-1]

    yield make
    for one in made:
        one.close()
