"""All roles of a run in one process: the same coroutines as on separate machines, with the same masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kcagc._types import IntArray
from kcagc.disclosure import Ledger, Policy
from kcagc.protocol.aggregator import aggregator_of_party, coordinator
from kcagc.protocol.agreement import Agreement, Participant
from kcagc.protocol.effects import Role, combine_halves
from kcagc.protocol.fit import FitResult, fit_party
from kcagc.protocol.local import PartyData, PartyModel
from kcagc.protocol.parameters import Parameters
from kcagc.protocol.party import PartyContext
from kcagc.protocol.predict import PredictResult, predict_party
from kcagc.runtime.driver import Driver, Watcher
from kcagc.runtime.in_process import Chooser, run_together
from kcagc.secagg.keys import Identity, Secrets

COORDINATOR = "coordinator"


@dataclass(frozen=True, eq=False)
class SimulatedRoles:
    """The roles of a run, each with a new identity."""

    agreement: Agreement
    identities: dict[str, Identity]

    @classmethod
    def of(cls, parameters: Parameters, parties: Sequence[str]) -> SimulatedRoles:
        """Return all parties and, if there is one, the coordinator."""
        names = [*parties, COORDINATOR] if parameters.aggregator == "coordinator" else list(parties)
        identities = {name: Identity.generate() for name in names}
        participants = tuple(
            Participant(name, "party" if name in parties else "coordinator", identity.public)
            for name, identity in identities.items()
        )
        return cls(Agreement(participants=participants, parameters=parameters), identities)

    def context(self, name: str, policy: Policy) -> PartyContext:
        """Return the context of a party, with new secrets."""
        return PartyContext(name, self.agreement, self.identities[name], Secrets.fresh(), policy)

    def drivers(
        self, roles: dict[str, Role[Any]], aggregator_seed: int, ledger: Ledger, watcher: Watcher | None
    ) -> list[Driver]:
        """Return a driver for each role; the aggregator is the coordinator or the last party."""
        aggregator = self.agreement.aggregator
        every = dict(roles)
        if aggregator in roles:
            every[aggregator] = combine_halves(
                aggregator_of_party(aggregator, self.agreement, seed=aggregator_seed), roles[aggregator], aggregator
            )
        else:
            every[aggregator] = coordinator(
                aggregator, self.agreement, self.identities[aggregator], Secrets.fresh(), seed=aggregator_seed
            )
        return [
            Driver(
                name,
                role,
                tuple(other for other in every if other != aggregator) if name == aggregator else (aggregator,),
                common=ledger,
                watcher=watcher,
            )
            for name, role in every.items()
        ]


def simulate_fit(
    parameters: Parameters,
    data: dict[str, PartyData],
    *,
    policy: Policy,
    seeds: dict[str, int],
    aggregator_seed: int,
    ledger: Ledger,
    watcher: Watcher | None = None,
    choose: Chooser | None = None,
) -> dict[str, FitResult]:
    """Run a fit of all parties, each with its own seed, and return the result of each party."""
    simulated = SimulatedRoles.of(parameters, tuple(data))
    roles = {name: fit_party(simulated.context(name, policy), data[name], seed=seeds[name]) for name in data}
    return _run(simulated, roles, aggregator_seed, ledger, watcher, choose)


def simulate_predict(
    parameters: Parameters,
    data: dict[str, PartyData],
    models: dict[str, PartyModel],
    nodes: IntArray,
    *,
    policy: Policy,
    ledger: Ledger,
    watcher: Watcher | None = None,
    choose: Chooser | None = None,
) -> dict[str, PredictResult]:
    """Run a prediction of all parties in a new session, and return the result of each party."""
    simulated = SimulatedRoles.of(parameters, tuple(data))
    roles = {name: predict_party(simulated.context(name, policy), data[name], models[name], nodes) for name in data}
    return _run(simulated, roles, 0, ledger, watcher, choose)


def _run(
    simulated: SimulatedRoles,
    roles: dict[str, Role[Any]],
    aggregator_seed: int,
    ledger: Ledger,
    watcher: Watcher | None,
    choose: Chooser | None,
) -> dict[str, Any]:
    results = run_together(simulated.drivers(roles, aggregator_seed, ledger, watcher), choose)
    return {name: results[name] for name in roles}
