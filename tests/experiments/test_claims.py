import pytest

from experiments.paper.claims import render
from experiments.paper.store import Book


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path)


def outcomes(book):
    lines = [line.strip("| ").split(" | ") for line in render(book, None).splitlines() if line.startswith("| ")]
    return {line[0]: line[-1].strip("*") for line in lines[2:]}


def timed(network, name, seconds, local="k"):
    return {"network": network, "dataset": name, "configuration": "paper", "parties": 2, "local": local}, {
        "seconds": seconds
    }


@pytest.mark.parametrize(("seconds", "outcome"), [(80.0, "holds"), (95.0, "does not hold")])
def test_an_outcome_follows_from_the_seconds(book, seconds, outcome):
    book["wan"].add(*timed("wan", "cora", 3.0), 0.0)
    book["wan"].add(*timed("wan", "wiki", seconds, "2k"), 0.0)
    book["wan"].add(*timed("wan", "wiki", 1000.0, "8k"), 0.0)  # the claim is about k̂ ≤ 2k
    assert outcomes(book) == {"WAN training within 1.5 minutes for k̂ ≤ 2k": outcome}


@pytest.mark.parametrize(("pubmed", "outcome"), [(1.1, "holds"), (1.8, "partly"), (4.0, "does not hold")])
def test_time_that_grows_with_the_nodes_is_seen(book, pubmed, outcome):
    book["lan"].add(*timed("lan", "cora", 1.0), 0.0)
    book["lan"].add(*timed("lan", "pubmed", pubmed), 0.0)
    assert list(outcomes(book).values()) == [outcome]


def test_shares_of_secure_sums_are_the_formulas_and_the_wrong_one_is_found(book):
    for name, nodes, clusters in (("cora", 2708, 7), ("pubmed", 19717, 3)):
        common = {"dataset": name, "parties": 2, "configuration": "paper", "local": "k", "seed": 0}
        for method, rows in (("kcagc", clusters**2), ("basic", nodes)):
            result = {"secure_sums": 5 * rows * clusters, "iterations": 4, "nodes": nodes, "clusters": clusters}
            book["claims"].add(common | {"method": method}, result, 0.0)
    found = outcomes(book)
    assert found["Cora, L = 2, k̂ = k: 1.8 % of basic's secure sums"] == "holds"
    assert found["Pubmed, L = 2, k̂ = k: 0.5 % of basic's secure sums"] == "does not hold"  # it is 0.046 %
    assert "1.81 %" in render(book, None)
    assert "0.0456 %" in render(book, None)


def test_nothing_is_claimed_about_what_has_not_run(book):
    assert outcomes(book) == {}
