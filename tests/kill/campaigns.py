"""Many runs of one scenario, each disturbed in its own way and compared with the undisturbed run."""

from __future__ import annotations

import itertools
import random
import shutil
import threading
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from experiments.paper.network.fork_server import ForkServer
from kill import evidence
from kill.scenarios import KILLED, SCENARIOS, Boundary, Run

AT_ONCE = 2
# Between two of these events nothing becomes durable, leaves or arrives: a kill there equals a kill at an event.
BOUNDARIES = (
    *("commit begins", "commit done", "message arrives", "part leaves", "part left", "ack left", "open left"),
    *("challenge left", "welcome left", "close leaves", "close left", "results begins", "file done", "erased"),
    "end done",
)


@dataclass
class Reference:
    """An undisturbed run: its folder before the start, its labels, and the boundaries of each role."""

    template: Path
    labels: dict[str, str]
    boundaries: dict[str, list[Boundary]]

    def of(self, role: str, *kinds: str) -> list[Boundary]:
        return [one for one in self.boundaries[role] if one[0] in (kinds or BOUNDARIES)]


@dataclass
class Campaign:
    """Runs of all scenarios in one folder. The folder of a successful run is removed."""

    fork_server: ForkServer
    folder: Path
    _references: dict[str, Reference] = field(default_factory=dict)
    _numbers: itertools.count = field(default_factory=itertools.count)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def run(self, scenario: str, template: Path | None = None, *, predicting: bool | None = None) -> Run:
        found = template or self.reference(scenario).template
        folder = self.folder / f"{scenario.replace(' ', '-')}-{next(self._numbers)}"
        predicts = SCENARIOS[scenario].predicts if predicting is None else predicting
        return Run(self.fork_server, SCENARIOS[scenario], found, folder, predicting=predicts)

    def reference(self, scenario: str) -> Reference:
        with self._lock:
            return self._reference(scenario)

    def _reference(self, scenario: str) -> Reference:
        if scenario not in self._references:
            template = self.folder / f"{scenario.replace(' ', '-')}-template-{next(self._numbers)}"
            SCENARIOS[scenario].write(template)
            if SCENARIOS[scenario].predicts:
                with self.run(scenario, template, predicting=False) as fit:
                    fit.start_all()
                    fit.run_to_end()
                shutil.rmtree(fit.notes)
                template = fit.folder
            with self.run(scenario, template) as run:
                run.start_all()
                run.run_to_end()
                labels = run.labels()
                assert len(set(labels.values())) == 1
                evidence.check(run, labels)
                boundaries = {role: run.boundaries(role)[0] for role in run.scenario.roles}
            self._references[scenario] = Reference(template, labels, boundaries)
        return self._references[scenario]

    def run_with_kills(self, scenario: str, kills: dict[str, list[Boundary]], **last: object) -> int:
        """Kill each role at its boundaries, one in each successive process; return the number of kills.

        `last` are instruments of the last process of each role that was killed.
        """
        with self.run(scenario) as run:
            run.plans = {
                role: [*({"kill": one} for one in kills[role]), last] if role in kills else []
                for role in run.scenario.roles
            }
            run.start_all()
            run.run_to_end()
            evidence.check(run, self.reference(scenario).labels, also_unsent=not last)
        shutil.rmtree(run.folder)
        return sum(codes.count(KILLED) for codes in run.codes.values())

    def run_with_other_bits(self, scenario: str, kills: dict[str, list[Boundary]]) -> int:
        """Kill roles; when they start again, their rows have other bits, as on another processor.

        The change is large enough to change nearly all integers that leave, and too small to change a cluster.
        """
        return self.run_with_kills(scenario, kills, **{"other bits": 2.0**-14})

    def run_with_random_kills(self, scenario: str, seed: int) -> int:
        """Kill one role after another at random times; return the number of kills."""
        chance = random.Random(seed)  # noqa: S311
        with self.run(scenario) as run:
            run.start_all()
            for _ in range(chance.randint(1, 6)):
                run.kill_and_restart(chance.choice(run.scenario.roles), chance.uniform(0.0, 0.3))
            run.run_to_end()
            evidence.check(run, self.reference(scenario).labels)
        shutil.rmtree(run.folder)
        return sum(codes.count(KILLED) for codes in run.codes.values())

    def run_all(self, cases: Iterable[tuple], act: Callable[..., int]) -> tuple[int, list[str]]:
        """Run all cases, a few in parallel; return the number of kills and the failures."""

        def run(case: tuple) -> tuple[int, str]:
            try:
                return act(*case), ""
            except Exception:
                return 0, f"{case}: {traceback.format_exc()}"

        with ThreadPoolExecutor(AT_ONCE) as pool:
            ends = list(pool.map(run, cases))
        return sum(kills for kills, _ in ends), [failure for _, failure in ends if failure]
