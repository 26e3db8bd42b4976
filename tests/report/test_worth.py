"""The section "Was it worth it?" of a party's report, and what `run.json` says."""

import json

import pytest

from kcagc.report.insights.worth import OwnView, Worth
from kcagc.report.names import ClusterNames
from kcagc.report.worth import worth_sentences, worth_table
from report.reading import read


def view(cluster, alone="found", found_in=5, **more):
    return OwnView(cluster, 10, alone, 0.6, more.pop("together_with", []), found_in, **more)


def worth(*views, **changes):
    figures = {"agreement": 0.4, "own_agreement": 0.9, "moved": 7, "modularity_together": 0.5, "modularity_alone": 0.3}
    return Worth(**{"nodes": 20, "clusterings": 5, "sampled": 16, **figures, "clusters": list(views), **changes})


@pytest.mark.parametrize("kind", ["party", "one of two", "tree", "cells", "joint, coordinator sees rows"])
def test_the_page_of_a_party_compares_its_own_clusters_with_the_joint_ones(pages, kind):
    (found,) = [one for one in read(pages[kind]).every("section") if one.attributes.get("id") == "worth"]
    assert "Was it worth it?" in found.text
    assert "nothing was sent" in found.text
    assert "of 24 nodes" in found.text
    assert 'href="#worth"' in pages[kind]
    (settings,) = [one for one in read(pages[kind]).every("section") if one.attributes.get("id") == "settings"]
    assert "worth" not in settings.text


@pytest.mark.parametrize("kind", ["coordinator", "prediction", "sweep", "sweep, coordinator"])
def test_a_page_without_clusters_of_a_fit_compares_nothing(pages, kind):
    assert 'id="worth"' not in pages[kind]


def test_the_summary_of_a_run_holds_the_figures_and_no_id_or_column(run):
    folder = run.tasks["alice"].files.folder
    found = json.loads((folder / "run.json").read_text())["worth"]
    assert Worth.from_dict(found).as_dict() == found
    assert found["nodes"] == 24
    assert found["restarts"] >= 1
    assert "n001" not in json.dumps(found)
    assert "f0" not in json.dumps(found)
    assert "worth" not in json.loads((run.tasks["coordinator"].files.folder / "run.json").read_text())


def test_sentences_name_what_only_others_separate():
    merged = view(0, "merged", 0, together_with=[1, 2])
    said = " ".join(worth_sentences(worth(merged, view(1), view(2, "scattered", 1)), "bank"))
    assert "Only the columns of others separate clusters 0 and 2." in said
    assert "put most of cluster 0 together with nodes of clusters 1 and 2" in said
    assert "scatter cluster 2 over several clusters" in said
    assert "partly other clusters" in said
    assert "7 of 20 nodes (35.0 %) moved" in said
    assert "0.50, those of bank alone 0.30" in said


def test_a_difference_that_may_be_chance_is_called_so():
    said = worth_sentences(worth(view(0), own_agreement=0.42), "bank")
    assert "may be chance" in said[0]
    assert "may be chance" not in worth_sentences(worth(view(0)), "bank")[0]


def test_unsure_clusters_are_named_with_their_share():
    said = worth_sentences(worth(view(0, sure=1.0), view(1, sure=0.31), restarts=3, sure=0.8), "bank")[-1]
    assert "80.0 % of the nodes are in the same cluster in all 3 other restarts" in said
    assert "cluster 1 (31 %)" in said
    assert "restarts" not in " ".join(worth_sentences(worth(view(0)), "bank"))


def test_without_a_graph_nothing_is_said_about_it():
    said = " ".join(worth_sentences(worth(view(0), modularity_together=None, modularity_alone=None), "bank"))
    assert "modularity" not in said


def test_the_table_shows_the_names_of_clusters():
    names = ClusterNames().renamed(1, "Night <shift>", n_clusters=2)
    drawn = str(worth_table(worth(view(0), view(1)), "bank", names))
    assert " · Night &lt;shift&gt;" in drawn
    assert drawn.count(" · ") == 1
