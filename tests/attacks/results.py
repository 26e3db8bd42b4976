"""The figures of the attacks: their type, where they are stored, and the runner that computes them.

A suite is a module with three names: `TITLE`, `cases(short)`, which lists what to run as plain JSON, and
`attack(case)`, which runs the attacks of one case and returns their figures. `python -m attacks` runs the suites and
renders `docs/attacks.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from typing import Any

from benchmarks import page as benchmarks
from experiments.paper import store
from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.store import ROOT, Book

RESULTS = ROOT / "tests" / "attacks" / "results"
SHORT = ROOT / "tests" / "attacks" / "short"  # not in the repository: a short run must not look like a real one
_CODE = ("src", "tests/attacks", ":!tests/attacks/results")

# In the order of the page. A suite that needs something else than this checkout is not part of `all`.
SUITES = {
    "coordinator": "attacks.coordinator",
    "coordinator-with-party": "attacks.coordinator_with_party",
    "observer": "attacks.observer",
    "party": "attacks.party",
    "liars": "attacks.liars",
    "labels": "attacks.labels",
    "joint-coordinator": "attacks.joint_coordinator",
    "joint-party": "attacks.joint_party",
    "joint-search": "attacks.joint_search",
    "joint-liars": "attacks.joint_liars",
    "joint-together": "attacks.joint_together",
    "old": "attacks.old",
}
SEPARATE = ("old",)


@dataclass(frozen=True)
class Figure:
    """The figure of one attack.

    Attributes
    ----------
    role : str
        The attacker: "coordinator", "party", "coordinator with one party", "both holders", "network observer", "lying
        party" or "lying coordinator".
    method : str
        "cells", "tree", "basic", "prediction", "joint" or "joint prediction".
    data : str
        The dataset and the number of parties, for example "cora, 2 parties".
    attacked : str
        What the attacker is after, for example "same cell in two sums".
    by : str
        The statistic that it uses, for example "nearest values".
    measure : str
        What the figure counts, for example "right links" or "AUC".
    figure, baseline : float
        The result of the attack, and the result without the transcript: chance, or what the attacker knows anyway.
    bound : float or None
        The largest figure that the documentation allows; None if the figure is stated and not bounded.
    count : int
        How many claims or values the figure rests on.
    sentence : str
        The sentence of docs/threat-model.md that the figure supports: a key of `attacks.page.SENTENCES`.
    """

    role: str
    method: str
    data: str
    attacked: str
    by: str
    measure: str
    figure: float
    baseline: float
    bound: float | None
    count: int
    sentence: str

    @property
    def holds(self) -> bool:
        """Whether the figure is within its bound."""
        return self.bound is None or self.figure <= self.bound


def stored(figures: list[Figure]) -> Result:
    """Return figures as plain JSON."""
    return {"figures": [{name: _rounded(value) for name, value in asdict(one).items()} for one in figures]}


def figures(result: Result) -> Iterator[Figure]:
    """Read the figures of a stored result."""
    for one in result["figures"]:
        yield Figure(**one)


def _rounded(value: Any) -> Any:
    return round(float(value), 5) if isinstance(value, float) or hasattr(value, "dtype") else value


def compute(name: str, case: Config) -> Result:
    """Run the attacks of one case of a suite."""
    return stored(import_module(SUITES[name]).attack(case))


def suite(name: str) -> Experiment:
    """Return a suite in the form that the runner of the experiments takes."""
    module = import_module(SUITES[name])
    return Experiment(
        name,
        module.TITLE,
        cells=lambda options: module.cases(options.quick),
        compute=partial(compute, name),
        render=lambda _book, _figures: "",
    )


def options(short: bool) -> Options:
    """Return the options of the runner."""
    return Options(quick=short)


def provenance() -> dict[str, Any]:
    """Return the origin of figures: the commit of the attacks and of the attacked code, versions, machine, day."""
    return benchmarks.provenance() | {"commit": store.provenance(*_CODE)["commit"]}


def book(folder: Any = RESULTS) -> Book:
    """Open the stored figures."""
    return Book(folder, provenance)
