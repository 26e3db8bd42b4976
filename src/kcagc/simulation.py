"""All roles of a run in one process: the same coroutines as on separate machines, with the same masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kcagc._types import IntArray
from kcagc.disclosure import Ledger, Policy
from kcagc.protocol.aggregator import aggregator_of_party, coordinator
from kcagc.protocol.agreement import Agreement, Participant
from kcagc.protocol.effects import Role, combine_halves
from kcagc.protocol.fit import fit_party
from kcagc.protocol.fit_result import FitResult, SweepResult
from kcagc.protocol.local import PartyData, PartyModel
from kcagc.protocol.parameters import Parameters
from kcagc.protocol.party import PartyContext
from kcagc.protocol.predict import PredictResult, predict_party
from kcagc.runtime.driver import Driver, MemoryStore, Watcher
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
        self,
        roles: dict[str, Role[Any]],
        ledger: Ledger,
        watcher: Watcher | None,
        kept: Mapping[str, dict[bytes, bytes]] | None = None,
    ) -> list[Driver]:
        """Return a driver for each role; the aggregator is the coordinator or the last party."""
        agreement, aggregator = self.agreement, self.agreement.aggregator
        if aggregator in roles:
            half = aggregator_of_party(aggregator, agreement)
            role: Role[Any] = combine_halves(half, roles[aggregator], aggregator)
        else:
            identity = self.identities[aggregator]
            role = coordinator(aggregator, agreement, identity, Secrets.fresh())
        every = {**roles, aggregator: role}
        others = tuple(name for name in every if name != aggregator)
        stores = {name: MemoryStore((kept or {}).get(name)) for name in every}
        peers = {name: others if name == aggregator else (aggregator,) for name in every}
        return [
            Driver(name, role, peers[name], store=stores[name], common=ledger, watcher=watcher)
            for name, role in every.items()
        ]


def simulate_fit(
    parameters: Parameters,
    data: dict[str, PartyData],
    *,
    policy: Policy | Mapping[str, Policy],
    seeds: dict[str, int],
    ledger: Ledger,
    watcher: Watcher | None = None,
    choose: Chooser | None = None,
    kept: Mapping[str, dict[bytes, bytes]] | None = None,
) -> dict[str, FitResult | SweepResult]:
    """Run a fit of all parties, each with its own seed and policy, and return the result of each party.

    Runs that share `kept` (a dictionary for each party) send the same local labels, as sessions with one state folder.
    """
    simulated = SimulatedRoles.of(parameters, tuple(data))
    policies = dict.fromkeys(data, policy) if isinstance(policy, Policy) else policy
    roles = {name: fit_party(simulated.context(name, policies[name]), data[name], seed=seeds[name]) for name in data}
    results = run_together(simulated.drivers(roles, ledger, watcher, kept), choose)
    return {name: results[name] for name in data}


def simulate_predict(
    parameters: Parameters,
    data: dict[str, PartyData],
    models: dict[str, PartyModel],
    nodes: IntArray,
    *,
    policy: Policy,
    ledger: Ledger,
    watcher: Watcher | None = None,
) -> dict[str, PredictResult]:
    """Run a prediction of all parties in a new session, and return the result of each party."""
    simulated = SimulatedRoles.of(parameters, tuple(data))
    roles = {name: predict_party(simulated.context(name, policy), data[name], models[name], nodes) for name in data}
    results = run_together(simulated.drivers(roles, ledger, watcher))
    return {name: results[name] for name in data}
