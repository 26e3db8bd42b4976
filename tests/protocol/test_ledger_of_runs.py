"""The record of real runs: every message has one entry of the right size, and every line is used by some run."""

import json
from collections import Counter, defaultdict
from functools import cache
from math import prod
from typing import get_args

import pytest

from adversaries import Matching, Scenario, fit, parameters, prediction, tables
from kcagc.disclosure import Disclosure, Ledger
from kcagc.disclosure.texts import TEXTS
from kcagc.errors import KcagcError
from kcagc.estimator import KCAGC
from kcagc.protocol.fit_result import SweepResult
from kcagc.protocol.messages import AnyMessage, EncryptedContent, Masked, decode, kind_of
from kcagc.protocol.secure_sum import MIN_PROBES, padded_length
from kcagc.secagg.masks import CHECK_WORDS
from protocol.test_adversaries_search import scenario_of as search_scenario


def _refused():
    scenario = Scenario(parameters())
    scenario.agreements["party-2"] = Scenario(parameters(n_init=4)).agreement
    return scenario.run()


def searched(kind):
    """Return a session with a search for ψ, or a comparison of numbers of clusters, or both."""
    return search_scenario(kind).run()


RUNS = {
    "flat": fit,
    "as many local clusters as nodes": lambda: fit(n_local_clusters=40),
    "labels that reveal a column": lambda: Scenario(parameters(n_local_clusters=8), 3, n=90).run(),
    "flat, one start": lambda: fit(n_init=1),
    "basic": lambda: fit(method="basic"),
    "tree": lambda: fit(method="tree", count=5),
    "joint": lambda: fit(method="joint"),
    "joint, two parties": lambda: fit(method="joint", count=2),
    "joint, rows without names": lambda: fit(method="joint", joint_rows="coordinator"),
    "joint, search for ψ": lambda: searched("psi"),
    "joint, numbers of clusters": lambda: searched("clusters"),
    "joint, search for ψ and numbers of clusters": lambda: searched("both"),
    "a party aggregates": lambda: fit(aggregator="party"),
    "a party aggregates two": lambda: fit(aggregator="party", count=2),
    "a party aggregates a tree": lambda: fit(aggregator="party", method="tree", count=4),
    "prediction": lambda: prediction().run(),
    "prediction, joint": lambda: prediction(method="joint").run(),
    "prediction, a party aggregates": lambda: prediction(aggregator="party").run(),
    "prediction, a party aggregates two": lambda: prediction(2, aggregator="party").run(),
    "matched ids of two": lambda: Matching.of([1, 2, 3], [3, 4]).run(),
    "matched ids of more than two": lambda: Matching.of("abc", "bcd", "cde", "cbf").run(),
    "counted ids": lambda: Matching.of("abc", "bcd", counts_only=True).run(),
    "refused": _refused,
}


def words_of(name):
    return set(name.replace(",", "").split())


@cache
def outcome(name):
    return RUNS[name]()


def texts_of(group):
    return {kind.partition("/")[2] for kind in TEXTS if kind.startswith(f"{group}/")}


def tags(union):
    return {one.__struct_config__.tag for one in get_args(union)}


def test_every_type_of_message_and_of_encrypted_content_has_a_text():
    assert tags(AnyMessage) | {"plain"} == texts_of("message")  # a vector without masks has a text of its own
    assert tags(EncryptedContent) == {kind.partition(".")[0] for kind in texts_of("encrypted")}
    kinds = {
        f"{group}/{kind}" for group in ("link", "message", "encrypted", "opened", "output") for kind in texts_of(group)
    }
    assert kinds == set(TEXTS)
    assert all(line.learns for line in TEXTS.values())


@pytest.mark.parametrize("name", RUNS)
def test_every_message_has_exactly_one_entry_with_its_size(name):
    run = outcome(name)
    sent, recorded = defaultdict(list), defaultdict(list)
    for sender, receiver, payload in run.sent:
        kind = kind_of(decode(payload, sender))
        sent[sender, receiver].append((kind, len(payload)))
    for entry in run.ledger.of("message/"):
        kind = entry.kind.removeprefix("message/")
        recorded[entry.sender, entry.receiver].append(("masked" if kind == "plain" else kind, entry.bytes))
    assert recorded == sent
    assert run.ledger.bytes_sent() == sum(len(payload) for _, _, payload in run.sent)
    for who in run.drivers:
        assert run.ledger.bytes_sent(who) == sum(len(payload) for sender, _, payload in run.sent if sender == who)


@pytest.mark.parametrize("name", RUNS)
def test_every_role_records_for_itself_what_it_sends_and_what_opens_of_its_vectors(name):
    run = outcome(name)
    opened = run.ledger.of("opened/")
    for who, driver in run.drivers.items():
        sent = [len(payload) for sender, _, payload in run.sent if sender == who]
        assert [entry.bytes for entry in driver.ledger.of("message/")] == sent
        own = [entry for entry in opened if who == entry.receiver or who in entry.sender.split("+")]
        assert Counter(driver.ledger.of("opened/")) == Counter(own)
        assert {entry.sender for entry in driver.ledger if not entry.kind.startswith("opened/")} <= {who}
    private = [entry for driver in run.drivers.values() for entry in driver.ledger if entry.bytes]
    assert Counter(private) == Counter(entry for entry in run.ledger if entry.bytes)


@pytest.mark.parametrize("name", RUNS)
def test_the_length_of_every_vector_is_recorded(name):
    run = outcome(name)
    shapes = Counter((sender, (len(one.words) // 8 - CHECK_WORDS,)) for sender, _, one in run.messages(Masked))
    recorded = [entry for entry in run.ledger if entry.kind in ("message/masked", "message/plain")]
    assert Counter((entry.sender, entry.shape) for entry in recorded) == shapes


@pytest.mark.parametrize("name", RUNS)
def test_every_ciphertext_has_an_entry_with_its_length(name):
    """Sixteen bytes of every ciphertext are its seal."""
    run = outcome(name)
    inside = sorted(entry.bytes + 16 for entry in run.ledger.of("encrypted/"))
    ciphertexts = [
        ciphertext
        for _, _, one in run.messages(get_args(AnyMessage))
        if kind_of(one) == "encrypted"
        for _, ciphertext in one.ciphertexts
    ]
    party_aggregates = "coordinator" not in run.drivers
    if not party_aggregates:
        assert sorted(len(ciphertext) for ciphertext in ciphertexts) == inside
    else:  # what the summing party sends itself does not travel, and what is in its ciphertexts for others travels once
        assert not Counter(len(ciphertext) for ciphertext in ciphertexts) - Counter(inside)


@pytest.mark.parametrize("name", [one for one in RUNS if one != "refused" and "prediction" not in one])
def test_every_round_opens_one_sum_and_every_opened_sum_is_a_round(name):
    run = outcome(name)
    merges = {}
    for result in run.results.values():
        merges |= {one.group: one.rounds for one in getattr(result, "merges", [])}
        merges |= {"all": result.rounds} if isinstance(result, SweepResult) else {}
    opened = run.ledger.of("opened/")
    by_group = Counter(entry.stage.split()[0] for entry in opened)
    assert by_group == Counter(merges)
    lengths = {
        f"{one.group} {one.step} {one.number}": (len(one.words) // 8 - CHECK_WORDS,)
        for _, _, one in run.messages(Masked)
    }
    for entry in opened:
        assert entry.bytes == 0
        assert entry.receiver == list(run.drivers)[-1]
        assert entry.shape == lengths[entry.stage]


@pytest.mark.parametrize(
    "name", [one for one in RUNS if not any(word in one for word in ("refused", "pred", "numbers"))]
)
def test_comparisons_opened_are_those_that_the_report_counts(name):
    """Probes and copies are counted separately; a party that aggregates knows the key, and gets none."""
    run = outcome(name)
    merges = {}
    for result in run.results.values():
        merges |= {one.group: one for one in getattr(result, "merges", [])}
    counts = [one.sums for one in merges.values()]
    counted = sum(one.winning + one.other_restarts + one.costs + one.checks + one.search for one in counts)
    opened = run.ledger.of("opened/comparisons")
    assert counted == sum(prod(entry.shape) for entry in opened)
    rounds = Counter(entry.stage.split()[0] for entry in opened)
    for entry in opened:
        merge = merges[entry.stage.split()[0]]
        if entry.kind == "opened/comparisons.blinded":
            assert merge.sums.checks >= (MIN_PROBES + 1) * rounds[merge.group]
            assert entry.shape == (padded_length(*entry.shape),)
        else:
            assert merge.sums.checks == 0


def test_the_estimator_counts_what_its_record_shows():
    adjacency, *features = tables(3)
    settings = {"n_clusters": 3, "psi": 2, "n_init": 2, "method": "cells", "random_state": 0}
    fitted = KCAGC(**settings).fit(features, adjacency=adjacency)
    opened = Counter(entry.kind for entry in fitted.ledger_.of("opened/"))
    assert opened == {"opened/comparisons.blinded": fitted.rounds_}
    assert fitted.bytes_sent_ == sum(fitted.bytes_by_role_.values()) == fitted.ledger_.bytes_sent()
    assert set(fitted.bytes_by_role_) == {"party-1", "party-2", "party-3", "coordinator"}


def test_every_line_is_used_by_some_run():
    used = {entry.kind for name in RUNS for entry in outcome(name).ledger}
    assert used == {kind for kind in TEXTS if not kind.startswith("link/")}  # those are for streams


def test_only_weaker_modes_open_more_than_the_default():
    for name in RUNS:
        weaker = {entry.kind for entry in outcome(name).ledger if entry.weaker}
        more = ("a party aggregates", "as many local", "reveal a column", "rows without names", "more than two")
        assert bool(weaker) == any(words in name for words in more), (name, weaker)


def test_a_sum_of_two_at_a_party_is_never_called_hidden():
    """The receiver takes its own values away: whatever the sum is of, its line must say that it opens more."""
    for changes in ({}, {"method": "basic"}):
        run = fit(aggregator="party", count=2, n_init=2, **changes)
        assert run.raised is None
        opened = run.ledger.of("opened/")
        assert opened
        assert all(entry.weaker for entry in opened), {entry.kind for entry in opened if not entry.weaker}


def test_every_party_that_ends_well_records_its_output_once():
    for name in RUNS:
        run = outcome(name)
        expected = dict.fromkeys((who for who in run.results if who != "coordinator"), 1)
        assert Counter(entry.sender for entry in run.ledger.of("output/")) == expected


@pytest.mark.parametrize("name", ["flat", "a party aggregates two", "refused"])
def test_lines_of_json_bring_every_entry_back(name, tmp_path):
    ledger = outcome(name).ledger
    ledger.save(tmp_path / "ledger.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == len(ledger)
    kept = ("sender", "receiver", "kind", "stage", "bytes")
    back = [Disclosure(**{key: row[key] for key in kept}, shape=tuple(row["shape"])) for row in rows]
    assert back == ledger.entries
    for row, entry in zip(rows, ledger, strict=True):
        assert (row["learns"], row["paper"], row["weaker"]) == (entry.learns, entry.paper, entry.weaker)
        assert set(row) == {*kept, "shape", "learns", "paper", "weaker"}


@pytest.mark.parametrize(
    "kind", ["", "message", "message/", "message/gossip", "opened/everything", "labels", "MESSAGE/hello"]
)
def test_a_kind_without_a_line_cannot_be_disclosed(kind):
    with pytest.raises(KcagcError, match="without a text"):
        Disclosure("one", "other", kind, "", (), 0)


def test_names_in_json_cannot_break_a_line(tmp_path):
    entry = Disclosure("a\nb", 'c"d\u2028', "message/hello", "e\x1bf", (), 1)
    Ledger([entry]).save(tmp_path / "ledger.jsonl")
    (line,) = (tmp_path / "ledger.jsonl").read_text(encoding="utf-8").rstrip("\n").split("\n")
    assert json.loads(line)["sender"] == "a\nb"


def test_the_summary_counts_every_entry_once():
    for name in RUNS:
        ledger = outcome(name).ledger
        summary = ledger.summary()
        assert sum(line.count for line in summary) == len(ledger)
        assert sum(line.bytes for line in summary) == sum(entry.bytes for entry in ledger)
        assert len({(line.senders, line.receivers, line.kind) for line in summary}) == len(summary)
        assert str(ledger).count("\n") == len(summary) - 1
        for line in summary:
            assert (
                "[more than the default]"
                in str(Ledger([Disclosure(line.senders[0], line.receivers[0], line.kind, "", (), 0)]))
            ) == (line.weaker)
