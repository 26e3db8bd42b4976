"""The page for a data protection officer follows from the configuration, and needs no knowledge of the protocol."""

import itertools
import re
import string
import tomllib
from pathlib import Path

import msgspec
import pytest

from kcagc.cluster.search import PSI_GRID
from kcagc.disclosure import RISKS, page
from kcagc.disclosure.page import describe_run
from kcagc.errors import ParameterError
from kcagc.protocol.agreement import Agreement, Participant
from kcagc.protocol.parameters import RunSettings
from kcagc.protocol.plan import outline

ROOT = Path(__file__).parents[2]
TEXTS = tomllib.loads(Path(page.__file__).with_name("page.toml").read_text(encoding="utf-8"))
JARGON = r"\b(rows?|restarts?|masks?|masked|vectors?|secure sums?|aggregator|lloyd|k-means|cells?|margin|iterations?)\b"
NAMES = string.ascii_lowercase[:16]


def agreement(n_parties=3, *, names=None, **changes):
    task = changes.pop("task", "fit")
    chosen = msgspec.structs.replace(RunSettings(**{"n_clusters": 3, "psi": 2} | changes).resolve(n_parties), task=task)
    parties = [Participant(name, "party", b"") for name in names or [f"party-{one}" for one in NAMES[:n_parties]]]
    coordinator = [Participant("coordinator", "coordinator", b"")] if chosen.aggregator == "coordinator" else []
    return Agreement(participants=(*parties, *coordinator), parameters=chosen)


def text_of(n_parties=3, *, reader="party-a", accepted=(), names=None, **changes):
    run = outline(agreement(n_parties, names=names, **changes))
    return " ".join(describe_run(run, reader, accepted).as_markdown().split())


@pytest.fixture(scope="module")
def every_page():
    methods = itertools.product(("cells", "basic", "tree"), ("coordinator", "party"), ("shares",))
    joint = itertools.product(("joint",), ("coordinator",), ("shares", "coordinator"))
    modes = itertools.product(("fit", "predict"), (*methods, *joint), ("shared", "own"), (2, 3, 5))
    found = []
    every = [
        {"task": task, "method": method, "aggregator": aggregator, "joint_rows": rows, "graph": graph, "psi": 2, "n": n}
        for task, (method, aggregator, rows), graph, n in modes
    ]
    every += [
        {"method": method, "graph": "none", "psi": "auto", "n": n}
        for method in ("joint", "cells", "basic")
        for n in (2, 3)
    ]
    every += [{"psi": psi, "n_clusters": k, "n": n} for psi in (2, "auto") for k in (3, (2, 20)) for n in (2, 3, 5)]
    for chosen in every:
        run = outline(agreement(chosen.pop("n"), **chosen))
        readers = itertools.product((run.parties[0], run.aggregator), ((), tuple(RISKS)))
        found += [(run, describe_run(run, reader, accepted)) for reader, accepted in readers]
    return [(run, one, one.as_markdown()) for run, one in found]


def test_every_configuration_has_a_page_in_plain_words(every_page):
    for run, found, text in every_page:
        assert not re.search(r"[{}]", text)
        assert not re.search(JARGON, text, re.IGNORECASE), text
        assert all(section.items for section in found.sections)
        assert all(party in text for party in run.parties)


def test_every_sentence_of_the_page_is_on_the_page_of_some_configuration(every_page):
    shown = " ".join(" ".join(text.split()) for _, _, text in every_page)
    for text in [one["text"] for section in TEXTS["section"] for one in section["item"]]:
        parts = re.split(r"\{\w+\}", " ".join(text.split()))
        assert max(parts, key=len).strip() in shown, text


def test_a_search_and_a_comparison_say_how_many_clusterings_every_party_learns():
    n_orders, plain = len(PSI_GRID), text_of()
    searching, comparing = text_of(psi="auto"), text_of(n_clusters=(2, 20))
    assert f"For each of the {n_orders} values of ψ, the parties find clusters in 2 attempts of 8 steps" in searching
    assert f"learns {n_orders} times how strongly" in searching
    assert "Must the parties search for ψ in this run?" in searching
    assert "For each of the 19 numbers of clusters, the parties find clusters in 2 attempts of 8 steps" in comparing
    for words in ("Final clusters", "Final quality", "Weights of own components", "labels.csv", "May new nodes be"):
        assert words in plain
        assert words not in comparing
    for words in ("values of ψ", "numbers of clusters"):
        assert words not in plain
    both = text_of(n_clusters=(2, 20), psi="auto")
    assert "values of ψ" in both
    assert "19 numbers of clusters" in both


def test_the_default_settings_need_no_acceptance_and_refuse_nothing():
    text = text_of()
    assert "Nothing. The settings of this run disclose no more than the default settings do." in text
    assert "refuses this run" not in text


@pytest.mark.parametrize("n_parties", [2, 3])
def test_a_disclosure_that_the_run_needs_is_refused_unless_accepted(n_parties):
    needed = outline(agreement(n_parties, aggregator="party")).needs
    assert needed
    refused, accepted = text_of(n_parties, aggregator="party"), text_of(n_parties, aggregator="party", accepted=needed)
    for name in needed:
        assert f"`{name}` is **not accepted**" in refused
        assert f"`{name}`, which this run needs." in accepted
    assert "not accepted" not in accepted


def test_every_risk_has_a_sentence_in_plain_words():
    assert set(RISKS) <= set(TEXTS["risk"])


def test_what_was_accepted_without_need_is_listed():
    assert "`local-means`, which the settings of this run do not need." in text_of(accepted=["local-means"])


def test_with_two_parties_each_learns_the_others_part_of_the_quality():
    part = "learns how well the clusters fit the table of the other party"
    assert part in text_of(2)
    assert part not in text_of(3)


def test_in_a_tree_local_labels_stay_in_the_group_of_the_sender():
    text = text_of(5, method="tree", fan_in=2)
    assert (
        "party-b learns this from party-a; party-a learns this from party-b and party-e, before the joint clustering"
        in text
    )
    assert "party-a and party-b are one group." in text
    # The fifth party has no group at first: all others receive its local labels, and it receives those of none.
    alone = text_of(5, method="tree", fan_in=2, reader="party-e")
    assert "party-a, party-b, party-c and party-d learn this from party-e, before the joint clustering" in alone


def test_a_party_as_aggregator_is_named_with_what_it_learns():
    text = text_of(2, aggregator="party", accepted=["two-party-sum", "labelled-sums"])
    assert "What party-b learns" in text
    assert "What remains is exactly the part of the other party." in text
    assert "coin flip" not in text


def test_markdown_shows_a_name_as_it_is():
    assert r"a\_b\*c" in text_of(names=["a_b*c", "x", "y"], reader="a_b*c")


def test_a_reader_must_take_part():
    with pytest.raises(ParameterError, match="'bank'"):
        text_of(reader="bank")


def test_the_page_is_also_plain_data():
    found = describe_run(outline(agreement(method="cells")), "party-a").as_dict()
    (labels,) = [item for section in found["sections"] for item in section["items"] if item["title"] == "Local labels"]
    assert labels["when"] == "before the joint clustering"


def test_the_page_in_the_docs_is_what_the_generator_writes(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    import disclosure_page

    assert disclosure_page.PAGE.read_text(encoding="utf-8") == disclosure_page.page(), "run: make disclosure"


def test_the_figures_are_those_of_the_stored_attacks(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    import claims
    import disclosure_page

    assert disclosure_page.FIGURES.read_text(encoding="utf-8") == claims.plain_figures(), "run: make disclosure"


def test_the_readme_has_the_figure_of_a_coordinator_that_works_together_with_a_party(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    import disclosure_page

    text = disclosure_page.README.read_text(encoding="utf-8")
    assert text == disclosure_page.readme(text), "run: make disclosure"
    assert text == disclosure_page.readme(text.replace("correlation of 0", "correlation of 1"))


def test_every_figure_of_the_page_has_a_template():
    templates = tomllib.loads((ROOT / "docs" / "_ext" / "figures.toml").read_text(encoding="utf-8"))
    named = {name for section in TEXTS["section"] for item in section["item"] for name in item.get("figures", ())}
    assert named == set(templates)
