"""No run, in any mode and with any data, discloses more than the default unless the operator accepted it by name."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from collaborations import parameters, random_parties, run_fit
from kcagc.disclosure import RISKS, Ledger, Policy
from kcagc.disclosure.texts import TEXTS
from kcagc.errors import PolicyError
from kcagc.graph import HalfFilter
from kcagc.graph.filters import SearchedFilter
from kcagc.protocol.local import PartyData
from kcagc.protocol.predict import predict_parameters
from kcagc.simulation import simulate_predict

MODES = [
    (n_parties, {"method": method, "aggregator": aggregator, "virtual_nodes": nodes, "graph": graph})
    for method, aggregator, nodes, graph in itertools.product(
        ("cells", "basic", "tree"), ("coordinator", "party"), ("cell", "local"), ("shared", "own")
    )
    for n_parties in ((2, 3) if method != "tree" else (2, 5))
]
MODES += [
    (n_parties, {"method": "joint", "aggregator": "coordinator", "joint_rows": rows, "graph": graph})
    for n_parties, rows, graph in itertools.product((2, 3), ("shares", "coordinator"), ("shared", "own"))
]
MODES += [
    (n_parties, {"method": "joint", "aggregator": "coordinator"} | changes)
    for n_parties in (2, 3)
    for changes in (
        {"orders": (1, 3), "filter": repr(SearchedFilter("half"))},
        {"most_clusters": 4},
        {"orders": (1, 3), "filter": repr(SearchedFilter("half")), "most_clusters": 4},
    )
]
ONLY_WITHOUT_COORDINATOR = ("two-party-sum", "labelled-sums", "local-means")


def tables(kind, n_parties):
    """Return wide tables with weak groups; if they are to be narrow, the first party has one column of yes and no."""
    found = random_parties(5, n_parties, n_nodes=60)
    random = np.random.RandomState(0)
    groups = np.arange(60) % 3
    for name, data in found.items():
        table = random.normal(scale=0.4, size=(3, 90))[groups] + random.normal(size=(60, 90))
        if kind == "narrow" and name == "party-1":
            table = (np.arange(60) % 2).astype(float)[:, None]
        found[name] = PartyData.build(name, data.graph, table, HalfFilter(1))
    return found


def run(chosen, data, policy):
    """Run a fit and, if it was not refused, a prediction; return the ledgers of both and what was refused."""
    ledger, refused = Ledger(), []
    if chosen.orders:
        data = {name: replace(one, filter=SearchedFilter("half")) for name, one in data.items()}
    try:
        results = run_fit(chosen, data, policy=policy, ledger=ledger)
        if chosen.most_clusters:
            return ledger, refused
        order = next(iter(results.values())).model.filter.psi
        data = {name: replace(one, filter=HalfFilter(order)) for name, one in data.items()}
        models = {name: one.model for name, one in results.items()}
        share = next(iter(models.values()))
        nodes = np.arange(3)
        simulate_predict(predict_parameters(share), data, models, nodes, policy=policy, ledger=ledger)
    except PolicyError as error:
        refused = [name for name in RISKS if f'"{name}"' in str(error)]
    return ledger, refused


@pytest.mark.parametrize(("n_parties", "mode"), MODES)
def test_a_weaker_line_of_the_ledger_has_an_accepted_name(n_parties, mode):
    chosen = parameters(**mode, n_clusters=2, n_components=2, max_iter=4)
    for kind in ("wide", "narrow"):
        data = tables(kind, n_parties)
        accepted: list[str] = []
        for _ in range(len(RISKS) + 1):  # accept what is refused until the run goes through
            ledger, refused = run(chosen, data, Policy(accepted))
            weaker = {entry.kind for entry in ledger if entry.weaker}
            assert {TEXTS[one].risk for one in weaker} <= set(accepted), (kind, accepted)
            if not refused:
                break
            accepted += refused
        assert not refused, accepted
        if mode["aggregator"] == "coordinator":
            assert not set(accepted) & set(ONLY_WITHOUT_COORDINATOR)
            revealing = kind == "narrow" and mode["method"] in ("cells", "tree")
            opened = ["anonymous-geometry"] if mode.get("joint_rows") == "coordinator" else []
            assert accepted == (["revealing-labels"] if revealing else opened), kind
        assert bool(weaker) == bool(accepted)


def test_every_weaker_kind_names_a_risk_that_exists():
    assert {text.risk for text in TEXTS.values() if text.weaker} <= set(RISKS)
