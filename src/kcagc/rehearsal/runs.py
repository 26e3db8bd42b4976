"""The runs of a rehearsal: run each setting with each seed, and measure labels, time, bytes and disclosures.

Each run is a session with new keys, as between organisations. A second session finds clusters without the held-out
edges of the graph, by which clusters of different k, ψ and methods can be compared fairly: clusters that follow the
noise of a graph do not predict its held-out edges.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from kcagc import metrics
from kcagc._types import IntArray
from kcagc.cluster.held_out import HeldOutEdges, hold_out_edges
from kcagc.disclosure import Disclosure, Ledger, Policy, summarise
from kcagc.disclosure.texts import RISKS
from kcagc.errors import DataError, KcagcError, PolicyError
from kcagc.graph.filters import SearchedFilter
from kcagc.protocol.effects import Progress
from kcagc.protocol.fit_result import FitResult
from kcagc.protocol.local import PartyData
from kcagc.protocol.parameters import RunSettings
from kcagc.protocol.plan import risks
from kcagc.rehearsal.parties import Parties
from kcagc.rehearsal.settings import Grid, Setting
from kcagc.report.insights.worth import Together, Worth, compare_with_own
from kcagc.simulation import SimulatedRoles, simulate_fit
from kcagc.text import listed

_HELD_OUT = 1_000_003  # added to a seed, so that the search for ψ holds out other edges than the runs

Watch = Callable[[str, Progress], None]


@dataclass(frozen=True, eq=False)
class RehearsedRun:
    """One run of a setting, and the clusters of a second run without the held-out edges."""

    seed: int
    labels: IntArray
    psi: int | None
    seconds: float
    bytes_by_role: dict[str, int]
    rounds: int
    held_labels: IntArray | None = None

    @property
    def bytes(self) -> int:
        """The size of all messages."""
        return sum(self.bytes_by_role.values())


@dataclass(eq=False)
class Outcome:
    """What became of a setting: its runs, or the reason why it was refused."""

    setting: Setting
    parties: list[str]
    session: RunSettings | None = None
    method: str = ""
    runs: list[RehearsedRun] = field(default_factory=list)
    disclosed: list[Disclosure] = field(default_factory=list)  # in the first run
    worth: dict[str, Worth] = field(default_factory=dict)  # by party, of the first run
    error: KcagcError | None = None

    @property
    def ok(self) -> bool:
        """Whether the setting ran with every seed."""
        return self.error is None

    @property
    def learned(self) -> tuple[tuple[str, str, bool], ...]:
        """Who learned what about data, and whether that is more than by default."""
        lines = summarise(self.disclosed, by_sender=False, by_receiver=False)
        found = [(tuple(sorted(one.receivers)), one.learns, one.weaker) for one in lines if one.about_data]
        names = tuple(sorted(self.parties))
        return tuple(sorted(("every party" if who == names else listed(who), text, more) for who, text, more in found))


@dataclass(eq=False)
class Rehearsal:
    """All outcomes, and what they are measured with."""

    parties: Parties
    grid: Grid
    edges: dict[int, HeldOutEdges] = field(default_factory=dict)  # by seed
    no_edges: str = ""  # why no edges are held out
    outcomes: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0

    @classmethod
    def of(cls, parties: Parties, grid: Grid, *, held_out: bool = True) -> Rehearsal:
        """Return a rehearsal without outcomes, and draw held-out edges for each seed."""
        made = cls(parties, grid)
        if not held_out:
            made.no_edges = "they were not asked for"
        elif grid.others.get("graph", "shared") == "own":
            made.no_edges = "each party has its own graph"
        else:
            try:
                graph = parties.first.graph
                made.edges = {seed: hold_out_edges(graph, _HELD_OUT + seed).without_triangles() for seed in grid.seeds}
            except DataError:
                made.no_edges = f"the graph has only {graph.n_edges} edges"
        return made

    def run(self, begin: Callable[[Setting, int], None], watch: Watch) -> Iterator[Outcome]:
        """Run all settings that have no outcome yet, and yield each outcome; `begin` is called before each run."""
        for setting in self.grid.settings[len(self.outcomes) :]:
            start = time.perf_counter()
            outcome = self._outcome(setting, begin, watch)
            self.outcomes.append(outcome)
            self.seconds += time.perf_counter() - start
            yield outcome

    def _outcome(self, setting: Setting, begin: Callable[[Setting, int], None], watch: Watch) -> Outcome:
        outcome = Outcome(setting, self.parties.names)
        try:
            outcome.session = self.grid.session(setting)
            outcome.method = outcome.session.choose_method(len(self.parties.inputs)).method
            self._check_policies(outcome.session)
            for seed in self.grid.seeds:
                begin(setting, seed)
                self._try(outcome, outcome.session, seed, watch)
        except KcagcError as error:
            outcome.error = error
        return outcome

    def _check_policies(self, session: RunSettings) -> None:
        """Raise an error that names the party whose policy refuses these settings; a role alone does not say it."""
        names = self.parties.names
        found = risks(SimulatedRoles.of(session.resolve(len(names)), names).agreement)
        for name, policy in self.parties.policies.items():
            try:
                policy.check(found)
            except PolicyError as error:
                raise PolicyError(f"{name}: {error}") from error

    def _try(self, outcome: Outcome, session: RunSettings, seed: int, watch: Watch) -> None:
        inputs, policies = self.parties.inputs, self.parties.policies
        start, ledger = time.perf_counter(), Ledger()
        results = _fitted(inputs, session, seed, policies, ledger, watch)
        duration = time.perf_counter() - start
        first = results[self.parties.names[0]]
        psi = session.choose_psi().psi if first.psi_search is None else first.psi_search.psi
        run = RehearsedRun(
            seed,
            first.labels,
            psi,
            duration,
            {one: ledger.bytes_sent(one) for one in dict.fromkeys(entry.sender for entry in ledger.of("message/"))},
            sum(one.rounds for one in first.merges),
        )
        if seed == self.grid.seeds[0]:
            outcome.disclosed = list(ledger)
            outcome.worth = self._worth(outcome, session, results)
        edges = self.edges.get(seed)
        if edges is not None and psi is not None:
            fixed = RunSettings.read({**self.grid.others, **_values(outcome.setting), "psi": psi})
            everything = {name: Policy(RISKS) for name in inputs}  # nothing leaves this process
            held = {name: replace(one, graph=edges.graph) for name, one in inputs.items()}
            try:
                found = _fitted(held, fixed, seed, everything, Ledger(), watch)
                run = replace(run, held_labels=found[self.parties.names[0]].labels)
            except KcagcError:  # too few cells without these edges, for example: the setting itself has run
                pass
        outcome.runs.append(run)

    def _worth(self, outcome: Outcome, session: RunSettings, results: Mapping[str, FitResult]) -> dict[str, Worth]:
        found = {}
        for name, result in results.items():
            if result.rows is None:
                continue
            clusters = result.labels, outcome.setting.n_clusters
            graph = self.parties.inputs[name].graph
            given = Together(*clusters, result.rows, outcome.method, graph, result.restarts)
            if (worth := compare_with_own(given)) is not None:
                found[name] = worth
        return found

    # Measures of an outcome, as means over its runs

    def held_out_each(self, outcome: Outcome) -> list[float]:
        """Return the modularity of the held-out edges in each run; none if a run has no clusters without them."""
        labels = [(self.edges.get(one.seed), one.held_labels) for one in outcome.runs]
        found = [
            edges.modularity(held[edges.nodes]) for edges, held in labels if edges is not None and held is not None
        ]
        return found if len(found) == len(outcome.runs) else []

    def held_out(self, outcome: Outcome) -> float | None:
        """Return the mean modularity of the held-out edges."""
        found = self.held_out_each(outcome)
        return float(np.mean(found)) if found else None

    def held_out_error(self, one: Outcome, other: Outcome) -> float:
        """Return the standard error of the difference in held-out modularity, if other edges were drawn."""
        errors = []
        for mine, theirs in zip(one.runs, other.runs, strict=True):
            edges, first, second = self.edges[mine.seed], mine.held_labels, theirs.held_labels
            if first is not None and second is not None:
                errors.append(edges.error(first[edges.nodes], second[edges.nodes]))
        return float(np.sqrt(np.mean(np.square(errors)) / len(errors))) if errors else 0.0

    def modularity(self, outcome: Outcome) -> float:
        """Return the modularity of the clusters in the whole graph of the first party."""
        graph = self.parties.first.graph
        return float(np.mean([metrics.modularity(graph, one.labels) for one in outcome.runs]))

    def stability(self, outcome: Outcome) -> float | None:
        """Return the mean adjusted Rand index of pairs of runs; None for a single run."""
        pairs = list(combinations(outcome.runs, 2))
        return float(np.mean([metrics.ari(one.labels, other.labels) for one, other in pairs])) if pairs else None

    def known(self, outcome: Outcome, measure: str) -> list[float]:
        """Return accuracy, NMI or ARI of each run; none without known classes."""
        if self.parties.classes is None:
            return []
        nodes, true = self.classified
        how = {"accuracy": metrics.accuracy, "nmi": metrics.nmi, "ari": metrics.ari}[measure]
        return [how(true, one.labels[nodes]) for one in outcome.runs]

    @cached_property
    def classified(self) -> tuple[IntArray, IntArray]:
        """The nodes with a known class, and the number of the class of each."""
        classes = np.array(["" if one is None else one for one in self.parties.classes or ()])
        nodes = np.flatnonzero(classes != "").astype(np.int64)
        return nodes, np.unique(classes[nodes], return_inverse=True)[1].astype(np.int64)

    def as_dict(self) -> dict[str, Any]:
        """Return all measures, for JSON; no labels and no ids."""
        return {
            "parties": self.parties.names,
            "nodes": self.parties.first.graph.n_nodes,
            "edges": self.parties.first.graph.n_edges,
            "seeds": list(self.grid.seeds),
            "notes": self.parties.notes,
            "seconds": round(self.seconds, 3),
            "settings": [self._row(one) for one in self.outcomes],
        }

    def _row(self, outcome: Outcome) -> dict[str, Any]:
        row: dict[str, Any] = _values(outcome.setting) | {"ok": outcome.ok}
        if outcome.error is not None:
            return row | {"error": str(outcome.error), "exit_code": outcome.error.exit_code}
        runs = outcome.runs
        row |= {
            "taken_method": outcome.method,
            "taken_psi": [one.psi for one in runs],
            "held_out_modularity": self.held_out(outcome),
            "modularity": self.modularity(outcome),
            "stability": self.stability(outcome),
            "seconds": float(np.mean([one.seconds for one in runs])),
            "bytes": float(np.mean([one.bytes for one in runs])),
            "bytes_by_role": runs[0].bytes_by_role,
            "rounds": [one.rounds for one in runs],
            "cluster_sizes": np.bincount(runs[0].labels, minlength=outcome.setting.n_clusters).tolist(),
            "learned": [{"receivers": who, "text": text, "more": more} for who, text, more in outcome.learned],
            "worth": {name: one.as_dict() for name, one in outcome.worth.items()},
        }
        if self.parties.classes is not None:
            row |= {one: float(np.mean(self.known(outcome, one))) for one in ("accuracy", "nmi", "ari")}
        return row


def _values(setting: Setting) -> dict[str, Any]:
    return {"n_clusters": setting.n_clusters, "psi": setting.psi, "method": setting.method}


def _fitted(
    inputs: Mapping[str, Any],
    session: RunSettings,
    seed: int,
    policies: Mapping[str, Policy],
    ledger: Ledger,
    watch: Watch,
) -> dict[str, FitResult]:
    """Run all roles, and return the result of each party."""
    chosen = session.graph_filter()
    parameters = session.resolve(len(inputs), chosen if isinstance(chosen, SearchedFilter) else None)
    data = {name: PartyData.build(name, one.graph, one.features, chosen, one.columns) for name, one in inputs.items()}
    seeds = dict.fromkeys(data, seed)
    results = simulate_fit(parameters, data, policy=policies, seeds=seeds, ledger=ledger, watcher=watch)
    return {name: one for name, one in results.items() if isinstance(one, FitResult)}
