"""Lists of nodes that parties bring: all must bring the same, which is found before anything is summed."""

import pytest

from deploy.collaboration import NODES, edit, made, names_of, task
from kcagc.disclosure import Ledger, Policy
from kcagc.errors import AgreementError
from kcagc.simulation import simulate_fit


def run(configs, ledger):
    tasks = {name: task(path) for name, path in configs.items() if name != "coordinator"}
    data = {name: one.data for name, one in tasks.items()}
    parameters = tasks["alice"].agreement.parameters
    return simulate_fit(parameters, data, policy=Policy(), seeds=dict.fromkeys(data, 0), ledger=ledger)


def listed(configs, party, names):
    (configs[party].parent / "data" / "nodes.csv").write_text("id\n" + "".join(f"{name}\n" for name in names))
    edit(configs[party], r"^# (node_list = )", r"\1")


def test_parties_with_the_same_list_in_any_order_agree(tmp_path):
    configs = made(tmp_path)
    for party, names in (("alice", names_of()[4:]), ("bob", names_of()[:3:-1]), ("carol", names_of()[4:])):
        listed(configs, party, names)
    results = run(configs, Ledger())
    assert {len(one.labels) for one in results.values()} == {NODES - 4}


def test_a_party_that_has_just_these_nodes_needs_no_list(tmp_path):
    configs = made(tmp_path)
    for party in ("alice", "bob"):
        listed(configs, party, names_of())
    assert {len(one.labels) for one in run(configs, Ledger()).values()} == {NODES}


def test_another_list_is_found_before_anything_is_summed(tmp_path):
    configs = made(tmp_path)
    for party, names in (("alice", names_of()[1:]), ("bob", names_of()[:-1]), ("carol", names_of()[1:])):
        listed(configs, party, names)
    ledger = Ledger()
    with pytest.raises(AgreementError, match="do not have the same node ids"):
        run(configs, ledger)
    told = {entry.kind for entry in ledger}
    assert not told & {"message/masked", "message/plain"}
