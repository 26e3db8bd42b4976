"""All roles of a run in one process: the same coroutines that run on separate machines, masks included."""

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
class Cast:
    """The roles of a run, with fresh identities."""

    agreement: Agreement
    identities: dict[str, Identity]

    @classmethod
    def of(cls, parameters: Parameters, parties: Sequence[str]) -> Cast:
        """Give every party, and the coordinator if there is one, an identity."""
        names = [*parties, COORDINATOR] if parameters.aggregator == "coordinator" else list(parties)
        identities = {name: Identity.generate() for name in names}
        roster = tuple(
            Participant(name, "party" if name in parties else "coordinator", identity.public)
            for name, identity in identities.items()
        )
        return cls(Agreement(participants=roster, parameters=parameters), identities)

    def membership(self, name: str, policy: Policy) -> PartyContext:
        """Give what a party brings, with fresh secrets."""
        return PartyContext(name, self.agreement, self.identities[name], Secrets.fresh(), policy)

    def stations(
        self, roles: dict[str, Role[Any]], aggregator_seed: int, ledger: Ledger, watcher: Watcher | None
    ) -> list[Driver]:
        """Put every party's coroutine in its place; the aggregator is the coordinator, or the last party."""
        aggregator = self.agreement.aggregator
        placed = dict(roles)
        if aggregator in roles:
            placed[aggregator] = combine_halves(
                aggregator_of_party(aggregator, self.agreement, seed=aggregator_seed), roles[aggregator], aggregator
            )
        else:
            placed[aggregator] = coordinator(
                aggregator, self.agreement, self.identities[aggregator], Secrets.fresh(), seed=aggregator_seed
            )
        return [
            Driver(
                name,
                role,
                tuple(other for other in placed if other != aggregator) if name == aggregator else (aggregator,),
                common=ledger,
                watcher=watcher,
            )
            for name, role in placed.items()
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
    """Run a fit of all parties, each with a seed of its own."""
    cast = Cast.of(parameters, tuple(data))

    roles = {name: fit_party(cast.membership(name, policy), data[name], seed=seeds[name]) for name in data}
    return _run(cast, roles, aggregator_seed, ledger, watcher, choose)


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
    """Run a prediction of all parties: a new session with new keys."""
    cast = Cast.of(parameters, tuple(data))
    roles = {name: predict_party(cast.membership(name, policy), data[name], models[name], nodes) for name in data}
    return _run(cast, roles, 0, ledger, watcher, choose)


def _run(
    cast: Cast,
    roles: dict[str, Role[Any]],
    aggregator_seed: int,
    ledger: Ledger,
    watcher: Watcher | None,
    choose: Chooser | None,
) -> dict[str, Any]:
    stations = cast.stations(roles, aggregator_seed, ledger, watcher)
    results = run_together(stations, choose)
    return {name: results[name] for name in roles}
