"""One process that all roles of all kill tests are forked from, and a place for their runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kill.campaign import Stage
from kill.scenarios import Zygote


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    zygote = Zygote()
    try:
        yield Stage(zygote, tmp_path_factory.mktemp("kill"))
    finally:
        zygote.close()
