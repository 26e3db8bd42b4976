"""What all tests share: isolation from the user's cache, the public graphs where they are at hand, random graphs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

DATA = "KCAGC_DATA"
REQUIRE = "KCAGC_REQUIRE_DATA"  # set where a missing graph must fail the run instead of skipping tests

settings.register_profile(
    "kcagc", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("kcagc")


@pytest.fixture(autouse=True, scope="session")
def _isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests from reading or filling the user's cache, and from reaching for the network by accident."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KCAGC_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("KCAGC_DATA_URL", "http://127.0.0.1:9")
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    missing = None
    if item.get_closest_marker("real_data") and not os.environ.get(DATA):
        missing = f"{DATA} is not set"
    elif item.get_closest_marker("originals") and not (Path(os.environ[DATA]) / "registry.json").exists():
        missing = f"{DATA} has no registry.json and raw/ with the original files"
    if missing and os.environ.get(REQUIRE):
        pytest.fail(f"{missing}, and {REQUIRE} says that no test on the public graphs may be skipped")
    if missing:
        pytest.skip(missing)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if DATA in str(report.longrepr)]
    if skipped:
        terminalreporter.write_line(
            f"{len(skipped)} tests on the public graphs were skipped: set {DATA} to a folder with their .npz files",
            yellow=True,
        )


@pytest.fixture
def public_data() -> Path:
    return Path(os.environ[DATA])
