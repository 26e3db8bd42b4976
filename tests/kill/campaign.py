"""Many runs of one script, each disturbed in its own way and each compared with the undisturbed one."""

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

from kill import evidence
from kill.scenarios import KILLED, SCRIPTS, Boundary, Run, Zygote

AT_ONCE = 2
# Between two of these nothing becomes durable, leaves or arrives, so that a kill there is one of these kills.
BOUNDARIES = (
    *("commit begins", "commit done", "message arrives", "part leaves", "part left", "ack left", "open left"),
    *("challenge left", "welcome left", "leave leaves", "leave left", "results begins", "file done", "erased"),
    "end done",
)


@dataclass
class Reference:
    """An undisturbed run: its folder before it began, its labels, and the boundaries of each role."""

    template: Path
    labels: dict[str, str]
    boundaries: dict[str, list[Boundary]]

    def of(self, role: str, *kinds: str) -> list[Boundary]:
        return [one for one in self.boundaries[role] if one[0] in (kinds or BOUNDARIES)]


@dataclass
class Stage:
    """Where runs take place; folders of runs that went well are removed."""

    zygote: Zygote
    folder: Path
    _references: dict[str, Reference] = field(default_factory=dict)
    _numbers: itertools.count = field(default_factory=itertools.count)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def run(self, script: str, template: Path | None = None, *, predicting: bool | None = None) -> Run:
        found = template or self.reference(script).template
        folder = self.folder / f"{script.replace(' ', '-')}-{next(self._numbers)}"
        predicts = SCRIPTS[script].predicts if predicting is None else predicting
        return Run(self.zygote, SCRIPTS[script], found, folder, predicting=predicts)

    def reference(self, script: str) -> Reference:
        with self._lock:
            return self._reference(script)

    def _reference(self, script: str) -> Reference:
        if script not in self._references:
            template = self.folder / f"{script.replace(' ', '-')}-template"
            SCRIPTS[script].write(template)
            if SCRIPTS[script].predicts:
                with self.run(script, template, predicting=False) as fit:
                    fit.start_all()
                    fit.to_the_end()
                shutil.rmtree(fit.notes)
                template = fit.folder
            with self.run(script, template) as run:
                run.start_all()
                run.to_the_end()
                labels = run.labels()
                assert len(set(labels.values())) == 1
                evidence.check(run, labels)
                boundaries = {role: run.happened(role)[0] for role in run.script.roles}
            self._references[script] = Reference(template, labels, boundaries)
        return self._references[script]

    def killed(self, script: str, kills: dict[str, list[Boundary]]) -> int:
        """Kill roles at boundaries, each list in successive processes; give how many kills took place."""
        with self.run(script) as run:
            run.plans = {role: [{"kill": one} for one in kills.get(role, [])] for role in run.script.roles}
            run.start_all()
            run.to_the_end()
            evidence.check(run, self.reference(script).labels)
        shutil.rmtree(run.folder)
        return sum(codes.count(KILLED) for codes in run.codes.values())

    def killed_at_random_times(self, script: str, seed: int) -> int:
        """Kill one role after another from outside, whatever each is doing."""
        chance = random.Random(seed)  # noqa: S311
        with self.run(script) as run:
            run.start_all()
            for _ in range(chance.randint(1, 6)):
                run.strike(chance.choice(run.script.roles), chance.uniform(0.0, 0.3))
            run.to_the_end()
            evidence.check(run, self.reference(script).labels)
        shutil.rmtree(run.folder)
        return sum(codes.count(KILLED) for codes in run.codes.values())

    def campaign(self, cases: Iterable[tuple], act: Callable[..., int]) -> tuple[int, list[str]]:
        """Play all cases, a few at once; give how many kills there were, and what failed."""

        def play(case: tuple) -> tuple[int, str]:
            try:
                return act(*case), ""
            except Exception:
                return 0, f"{case}: {traceback.format_exc()}"

        with ThreadPoolExecutor(AT_ONCE) as pool:
            ends = list(pool.map(play, cases))
        return sum(kills for kills, _ in ends), [failure for _, failure in ends if failure]
