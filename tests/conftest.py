"""Fixtures and rules for all tests: an isolated cache, the public graphs where present, and real processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from experiments.paper.network.fork_server import ForkServer
    from kill.campaigns import Campaign
    from network.roles import Collaboration

DATA = "KCAGC_DATA"
REQUIRE = "KCAGC_REQUIRE_DATA"  # set where a missing graph must fail the run instead of skipping tests
TESTS = Path(__file__).parent

# What a user's terminal may have set, and what pages and tests show: lines of 120 letters without colours.
os.environ["COLUMNS"] = "120"
for name in ("LINES", "FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE"):
    os.environ.pop(name, None)

# Tests with real processes, real time, or long computations. `make test-fast` leaves them out, with those on the public
# graphs; a parallel run starts with them, in this order, so that no long test is left for the end.
SLOW = (
    "baselines/test_published_accuracy.py",
    "experiments/test_whole.py",
    "documentation",
    "kill",
    "network",
    "standing",
    "examples",
    "cli/test_demo.py",
    "cli/test_main.py",
    "cli/test_simulate.py",
    "rehearsal/test_rehearsal.py",
    "cli/test_watching.py",
    "deploy/test_trial.py",
    "deploy/test_prediction.py",
    "deploy/test_real_tables.py",
    "deploy/test_deploy_page.py",
    "experiments",
    "benchmarks",
    "protocol/test_equal_to_pooled.py",
    "protocol/test_delays.py",
    "protocol/test_history.py",
    "protocol/test_adversaries_answers.py",
    "attacks",
    "cluster/test_kmeans.py",
    "cli/test_diagnose.py",
    "baselines/test_agc.py",
    "package/test_distribution.py",
    "project/test_checklists.py",
)
# Tests that wait for other processes. In a parallel run they share one worker, so that each has a core of its own.
PROCESSES = ("kill", "network", "standing", "experiments/network", "deploy/test_trial.py", "cli/test_watching.py")

_HEALTH = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("kcagc", deadline=None, max_examples=60, suppress_health_check=_HEALTH)
settings.register_profile("fast", deadline=None, max_examples=12, suppress_health_check=_HEALTH)
settings.load_profile("kcagc")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark slow tests; in the workers of a parallel run, start with them."""

    def position(item: pytest.Item) -> int:
        path = item.path.relative_to(TESTS).as_posix()
        return next((number for number, place in enumerate(SLOW) if _lies_in(path, place)), len(SLOW))

    for item in items:
        if position(item) < len(SLOW) or item.get_closest_marker("real_data"):
            item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):
        items.sort(key=position)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """In a parallel run, keep the tests of a module in one worker, and all that wait for processes."""
    from xdist.scheduler import LoadScopeScheduling

    class ModuleScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0].removeprefix("tests/")
            return "processes" if any(_lies_in(path, place) for place in PROCESSES) else path

    return ModuleScheduling(config, log)


def _lies_in(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")


@pytest.fixture(autouse=True, scope="session")
def _isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Prevent tests from using the user's cache and from downloading datasets."""
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


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """The process that all roles of the tests on real processes are forked from."""
    from experiments.paper.network.fork_server import ForkServer
    from role_process import ENVIRONMENT, WARM

    with ForkServer(*WARM, environment=ENVIRONMENT) as server:
        yield server


@pytest.fixture(scope="session")
def campaign(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Runs whose roles are killed and whose links are cut."""
    from kill.campaigns import Campaign

    return Campaign(fork_server, tmp_path_factory.mktemp("kill"))


@pytest.fixture
def collaborate(fork_server: ForkServer, tmp_path: Path) -> Iterator[Callable[..., Collaboration]]:
    """A function that writes the folders of a new collaboration; its roles end with the test."""
    from network.roles import Collaboration

    made: list[Collaboration] = []

    def make(*parties: str, **changes: str) -> Collaboration:
        made.append(Collaboration(tmp_path / str(len(made)), fork_server, parties or ("a", "b", "c"), **changes))
        return made[-1]

    yield make
    for collaboration in made:
        collaboration.close()
