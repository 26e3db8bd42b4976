"""The disclosure ledger: every kind has a text in plain words, and one summary serves all readers."""

import re

import pytest

from kcagc.disclosure import Disclosure, Ledger, summarise
from kcagc.disclosure.texts import TEXTS
from kcagc.errors import KcagcError

HELLO = Disclosure("bank", "coordinator", "message/hello", "hello", (), 300)
LABELS = [
    Disclosure(sender, receiver, "encrypted/labels", "labels 1.1", (), 40)
    for sender in ("bank", "shop")
    for receiver in ("shop", "bank")
    if sender != receiver
]
SUM = Disclosure("bank+shop", "coordinator", "opened/comparisons.blinded", "1.1 lloyd 2", (432,), 0)
LEDGER = Ledger([HELLO, *LABELS, SUM, SUM])


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_is_full_sentences_about_a_named_actor(kind):
    text = TEXTS[kind]
    assert text.learns.endswith(".")
    for sentence in re.split(r"(?<=\.) ", text.learns):
        assert sentence[0].isupper()
        assert len(sentence) < 260
    actor = r"(the (aggregator|coordinator|(first |receiving )?party|receiver)|each party)"
    assert re.match(rf"{actor}|(for|in) (each|every) [^.]*{actor}", text.learns, flags=re.IGNORECASE)
    assert text.title[0].isupper()
    assert not text.title.endswith(".")


def test_a_kind_that_discloses_more_than_the_default_is_about_data():
    assert all(text.about_data for text in TEXTS.values() if text.weaker)


def test_the_text_of_a_blinded_comparison_claims_no_more_than_holds():
    """The size of a blinded number says a little about the difference: no text may say that it says nothing."""
    text = TEXTS["opened/comparisons.blinded"].learns
    assert "very little about the difference" in text
    assert "roughly how many comparisons" in text


@pytest.mark.parametrize("kind", ["", "message/", "message/gossip", "inside/labels", "MESSAGE/hello"])
def test_a_kind_without_a_text_cannot_be_disclosed(kind):
    with pytest.raises(KcagcError, match="without a text"):
        Disclosure("one", "other", kind, "", (), 0)


def test_a_summary_has_one_line_for_each_kind_sender_and_receiver():
    found = [(line.kind, *line.senders, *line.receivers, line.count, line.bytes) for line in LEDGER.summary()]
    assert found == [
        ("message/hello", "bank", "coordinator", 1, 300),
        ("encrypted/labels", "bank", "shop", 1, 40),
        ("encrypted/labels", "shop", "bank", 1, 40),
        ("opened/comparisons.blinded", "bank+shop", "coordinator", 2, 0),
    ]


def test_a_summary_can_join_senders_and_receivers():
    joined = summarise(LEDGER, by_sender=False, by_receiver=False)
    assert [(line.kind, line.senders, line.receivers) for line in joined][1] == (
        "encrypted/labels",
        ("bank", "shop"),
        ("shop", "bank"),
    )
    assert sum(line.count for line in joined) == len(LEDGER)
    assert [line.about_data for line in joined] == [False, True, True]
    assert [line.title for line in joined][1] == "Local labels"


def test_a_line_of_an_unknown_kind_counts_as_one_about_data():
    class Line:
        sender, receiver, kind, bytes, learns, paper, weaker = "a", "b", "message/new", 3, "Something.", "", False

    (line,) = summarise([Line()])
    assert line.about_data
    assert (line.title, line.learns) == ("message/new", "Something.")


def test_a_file_brings_every_disclosure_back(tmp_path):
    LEDGER.save(tmp_path / "ledger.jsonl")
    assert Ledger.load(tmp_path / "ledger.jsonl").entries == LEDGER.entries
    assert [Disclosure.from_fields(entry.fields()) for entry in LEDGER] == LEDGER.entries


def test_only_messages_count_as_bytes_sent():
    assert LEDGER.bytes_sent() == LEDGER.bytes_sent("bank") == 300
    assert repr(LEDGER) == "Ledger(5 disclosures, 300 bytes sent)"
