"""The page of every kind of run: well made, readable by everybody, quiet on the network, and harmless."""

import base64
import hashlib
import json
import re
import shutil
import stat
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.collaboration import names_of, table_of
from kcagc.deploy import finished
from kcagc.disclosure import Disclosure, summarise
from kcagc.disclosure.texts import TEXTS
from kcagc.graph.ids import NodeIds
from kcagc.protocol.parameters import describe_parameter
from kcagc.report.clusters import feature_sentences
from kcagc.report.disclosures import FAMILIES, FAMILY_OF_KIND, disclosures_section
from kcagc.report.drawing import COLOURS
from kcagc.report.folder import LedgerLine, RunFolder
from kcagc.report.insights import description
from kcagc.report.insights.description import Description, Insights
from kcagc.report.insights.quality import against_known
from kcagc.report.markup import breakable, tag, text_of
from kcagc.report.names import ClusterNames
from kcagc.report.page import build_report, write_page
from kcagc.report.quality import purity_of
from kcagc.text import count, number, percent, size
from report.insights.examples import blobs, ring
from report.reading import read

PAGES = ["party", "coordinator", "party that sums", "one of two", "tree", "prediction"]
PAGES += ["joint", "joint, coordinator sees rows", "sweep", "sweep, coordinator", "search for ψ"]
every_kind = pytest.mark.parametrize("kind", PAGES)


@every_kind
def test_the_page_is_well_made_and_no_id_comes_twice(pages, kind):
    html = read(pages[kind])
    ids = [one.attributes["id"] for one in html.every() if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    named = " ".join(one.attributes.get("aria-labelledby", "") for one in html.every()).split()
    linked = [one.attributes["href"][1:] for one in html.every("a")]
    assert set(named) | set(linked) <= set(ids)
    assert html.attributes["lang"] == "en"
    assert [len(list(html.every(name))) for name in ("header", "nav", "main", "footer", "h1")] == [1] * 5


@every_kind
def test_headings_go_down_one_step_at_a_time(pages, kind):
    levels = [int(one.name[1]) for one in read(pages[kind]).every("h1", "h2", "h3", "h4", "h5", "h6")]
    assert levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))


@every_kind
def test_every_figure_and_every_table_can_be_read_without_seeing_it(pages, kind):
    html = read(pages[kind])
    for table in html.every("table"):
        assert next(table.every("caption")).text
        assert all(one.attributes.get("scope") in ("col", "row") for one in table.every("th"))
    for drawing in html.every("svg"):
        hidden = drawing.attributes.get("aria-hidden") == "true"
        described = [next(drawing.every(part), None) for part in ("title", "desc")]
        assert hidden or (all(described) and drawing.attributes["role"] == "img")
    for one in html.every("figure"):
        assert list(one.every("figcaption"))
        assert list(one.every("table"))  # the numbers behind it
    for one in html.every("div"):
        if one.attributes.get("role") == "region":
            assert one.attributes["tabindex"] == "0"
            assert one.attributes["aria-label"]


@every_kind
def test_the_page_asks_nothing_of_anybody_and_its_own_policy_forbids_it(pages, kind):
    page = pages[kind]
    assert not re.search(r"https?:|//\w|url\(|@import|javascript:|\bsrc=|\bon\w+=|\bstyle=", page)
    html = read(page)
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page, flags=re.DOTALL)
    assert page.count("<script") == len(scripts) == (2 if 'id="nodes"' in page else 0)
    for attributes, content in scripts:
        if "json" in attributes:
            assert "<" not in content
            assert json.loads(content)["party"]
        else:
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function\(|fetch|import\(", content
            )
    (policy,) = [one.attributes["content"] for one in html.every("meta") if "http-equiv" in one.attributes]
    style = re.search(r"<style>(.*?)</style>", page, flags=re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; ")
    assert f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    if scripts:
        digest = base64.b64encode(hashlib.sha256(scripts[1][1].encode()).digest()).decode()
        assert policy.endswith(f"; script-src 'sha256-{digest}'")
    else:
        assert "script-src" not in policy


def test_the_numbers_on_the_page_are_those_of_the_folder(run, pages):
    folder = run.tasks["alice"].files.folder
    summary = json.loads((folder / "run.json").read_text())
    clusters = json.loads((folder / "clusters.json").read_text())
    html = read(pages["party"])
    (sizes,) = [one for one in html.every("table") if "sizes" in (one.attributes.get("class") or "")]
    shown = [[cell.text for cell in row.every("th", "td")] for row in sizes.every("tr")][1:]
    for cluster, row in enumerate(shown):
        number = summary["cluster_sizes"][cluster]
        told = clusters["clusters"][cluster]
        assert row[:3] == [f"Cluster {cluster}", count(number), percent(number / 24)]
        assert row[4] == f"{told['confidence']['mean']:.2f}"
        assert told["size"] == number
    effects = [one.text for one in html.every("span") if one.attributes.get("class") == "effect"]
    assert effects == [
        f"{one['effect']:+.2f}" for cluster in clusters["clusters"] for one in cluster["top_features"][:5]
    ]
    values = [one.text for one in html.every("dd") if one.attributes.get("class") == "value"]
    assert size(summary["bytes_sent"]) in values
    assert count(summary["rounds"]) in values
    assert f"{clusters['quality']['modularity']:.2f}" in values
    (parameters,) = [one for one in html.every("table") if next(one.every("caption")).text == "Parameters"]
    shown = [[cell.text for cell in row.every("th", "td")] for row in parameters.every("tr")][1:]
    assert [row[0] for row in shown] == [name for name, value in summary["parameters"].items() if value not in ("", [])]
    assert all(row[1] and row[2] == describe_parameter(row[0]) != "" for row in shown)


def test_the_words_of_the_ledger_are_all_there(run, pages):
    folder = run.tasks["alice"].files.folder
    lines = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    words = " ".join(read(pages["party"]).text.split())
    for learns in {line["learns"] for line in lines}:
        assert learns.rstrip(".") in words


def test_the_map_has_every_node_once_in_the_colour_of_its_cluster(run, pages):
    paths = [one for one in read(pages["party"]).every("path") if "points" in (one.attributes.get("class") or "")]
    drawn = {one.attributes["class"].split()[-1]: one.attributes["d"].count("M") for one in paths}
    counted = np.bincount(run.results["alice"].labels, minlength=3).tolist()
    assert drawn == {f"c{cluster}": number for cluster, number in enumerate(counted)}


def test_rounds_are_drawn_where_they_are_told(run, pages):
    merges = json.loads((run.tasks["alice"].files.folder / "run.json").read_text())["merges"]
    assert merges[0]["history"]
    assert "Nodes that changed cluster" in pages["party"]


def test_the_final_cost_is_on_the_build_report_a_party_only(run, pages):
    cost = json.loads((run.tasks["alice"].files.folder / "run.json").read_text())["cost"]
    assert cost == pytest.approx(run.results["alice"].cost)
    assert f"Cost{number(cost)}" in "".join(read(pages["party"]).text.split())
    assert "Cost" not in read(pages["coordinator"]).text


def test_without_a_history_or_a_description_the_page_does_without(run, tmp_path):
    folder = shutil.copytree(run.tasks["alice"].files.folder, tmp_path / "old")
    summary = json.loads((folder / "run.json").read_text())
    for merge in summary["merges"]:
        merge.pop("history")
    summary.pop("delays", None)
    (folder / "run.json").write_text(json.dumps(summary))
    (folder / "clusters.json").unlink()
    page = write_page(folder).read_text()
    text = read(page).text
    assert "Nodes that changed cluster" not in text
    assert "This folder has no map" in text
    assert "Converged" in text


def test_a_coordinator_has_no_map_and_says_why(pages):
    text = read(pages["coordinator"]).text
    assert "holds no data, no labels and no ids" in text
    assert "Cluster 0" not in text


def test_what_is_weaker_than_the_default_is_marked(pages):
    assert "more than the default" in read(pages["party that sums"]).text
    assert "opened to bob" in read(pages["party that sums"]).text
    assert "nothing beyond what a run with the default settings discloses" in read(pages["party"]).text


def test_the_report_claims_acceptance_only_for_what_must_be_accepted():
    def intro(kind):
        return disclosures_section(
            SimpleNamespace(name="c", summary={}, ledger=[Disclosure("a+b", "c", kind, "", (), 0)])
        )

    assert "accepted them by name" in intro("opened/comparisons.labelled")
    assert "accepted them by name" in intro("encrypted/labels.whole")
    assert "nothing beyond" in intro("encrypted/labels")


def test_a_tree_shows_every_merge_of_its_party(pages):
    headers = [one.text for one in read(pages["tree"]).every("th") if one.attributes["scope"] == "row"]
    assert [one for one in headers if re.fullmatch(r"\d\.\d", one)] == ["1.1", "2.1"]


def test_the_page_says_which_method_was_taken_and_why(pages):
    assert "joint, because it comes closest to the clusters of pooled columns" in pages["party"]
    assert "joint, because it comes closest to the clusters of pooled columns" in pages["coordinator"]
    assert "cells, because it is set" in pages["cells"]
    assert "A cell is" in pages["cells"]


def test_the_joint_method_counts_nodes_and_speaks_of_no_cells(pages):
    for kind in ("joint", "joint, coordinator sees rows"):
        assert "Nodes in the sample" in pages[kind]
        assert "Cells" not in pages[kind]
        assert "A cell is" not in pages[kind]
    opened = "The coordinator found the clusters in points without names"
    assert opened in pages["joint, coordinator sees rows"]
    assert "<th" in pages["joint"]
    assert ">Converged<" not in pages["joint, coordinator sees rows"]
    assert ">Converged<" in pages["joint"]
    assert opened not in pages["joint"]
    assert "more than the default" in pages["joint, coordinator sees rows"]
    assert "more than the default" not in pages["joint"]


def test_a_prediction_speaks_of_new_nodes(pages):
    text = read(pages["prediction"]).text
    assert "8 new nodes assigned" in text
    assert "Links between clusters" not in text


def test_no_page_has_a_value_of_another_party_and_that_of_a_coordinator_names_no_node(run):
    for name in ("alice", "bob", "carol", "coordinator"):
        page = (run.tasks[name].files.folder / "report.html").read_text()
        kept = [path.read_text() for path in run.tasks[name].files.folder.glob("*.json")]
        for seed, other in enumerate(("alice", "bob", "carol")):
            if other == name:
                continue
            values = [
                *table_of(seed).ravel(),
                *np.ravel(run.results[other].model.centers),
                *run.results[other].rows.ravel(),
            ]
            digits = {repr(abs(float(value)))[:9] for value in values if value}
            assert not [one for one in digits if len(one) == 9 and any(one in text for text in (page, *kept))]
        if name == "coordinator":
            assert not [node for node in names_of() if node in page]


def test_the_effects_of_a_party_are_those_of_its_own_table(run):
    for seed, name in enumerate(("alice", "bob", "carol")):
        table, labels = table_of(seed), run.results[name].labels
        told = json.loads((run.tasks[name].files.folder / "clusters.json").read_text())
        for one in told["clusters"]:
            inside = labels == one["cluster"]
            for feature in one["top_features"]:
                values = table[:, int(feature["feature"][1:])]
                expected = (values[inside].mean() - values[~inside].mean()) / values.std()
                assert feature["effect"] == pytest.approx(expected, abs=1e-6)


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a' onfocus='b",
    "</style><b>",
    "\u202egnp.exe",
    "&lt;i&gt;",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_shown_and_does_nothing(run, tmp_path, name):
    source = run.tasks["alice"].files.folder
    folder = shutil.copytree(source, tmp_path / "hostile")
    for file in ("run.json", "ledger.jsonl", "clusters.json"):
        text = (folder / file).read_text()
        lines = [json.loads(line) for line in ([text] if file != "ledger.jsonl" else text.splitlines())]
        told = "\n".join(
            json.dumps(_renamed(line, {"alice": name, "bob": f"{name}2", "f0": f"{name}3"})) for line in lines
        )
        (folder / file).write_text(told)
    before, after = read((source / "report.html").read_text()), read(write_page(folder).read_text())
    first, second = ([one for one in html.every() if one.name != "wbr"] for html in (before, after))
    assert [one.name for one in second] == [one.name for one in first]
    assert [list(one.attributes) for one in second] == [list(one.attributes) for one in first]
    assert " ".join(name.replace("\u202e", "?").split()) in after.text
    assert "\u202e" not in after.text


def _renamed(value, names):
    if isinstance(value, dict):
        return {key: _renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value


def test_every_kind_of_disclosure_has_a_title():
    assert all(text.title for text in TEXTS.values())
    assert {*FAMILY_OF_KIND.values(), "setup"} == set(FAMILIES)
    assert set(FAMILY_OF_KIND) < set(TEXTS)


def test_an_unknown_kind_of_disclosure_counts_as_one_about_data():
    line = LedgerLine(0.0, "alice", "bob", "message/new", "stage", 9, "something", "", False)
    (group,) = summarise([line])
    assert group.about_data
    assert group.title == "message/new"


def test_each_cluster_is_named_by_its_most_frequent_class(run, tmp_path):
    folder = shutil.copytree(run.tasks["alice"].files.folder, tmp_path / "known")
    known = ["a"] * 9 + ["b"] * 8 + ["c"] * 7  # three classes in two clusters, of three
    quality = against_known(known, np.array([0] * 17 + [2] * 7), 3)
    (folder / "quality.json").write_text(json.dumps(quality.as_dict()))
    html = read(write_page(folder).read_text())
    (table,) = [one for one in html.every("table") if next(one.every("caption")).text.startswith("Majority class")]
    rows = [[cell.text for cell in row.every("th", "td")] for row in table.every("tr")]
    assert rows == [
        ["Cluster", "Majority class", "Its share", "Nodes of known class"],
        ["Cluster 0", "a", "52.9 %", "17"],
        ["Cluster 2", "c", "100.0 %", "7"],
    ]


def measures(folder, known, found, k):
    """Return the titles of the measures on the page, and its text."""
    (folder / "quality.json").write_text(json.dumps(against_known(known, np.array(found), k).as_dict()))
    html = read(write_page(folder).read_text())
    (quality,) = [one for one in html.every("section") if one.attributes.get("id") == "quality"]
    return [one.text for one in quality.every("dt")], html.text


def test_classes_are_matched_one_to_one_only_if_there_are_as_many_as_clusters(run, tmp_path):
    folder = shutil.copytree(run.tasks["alice"].files.folder, tmp_path / "known")
    # Cluster 1 holds class "haskell" only, and yet a matching of many classes would call it "comm".
    titles, text = measures(folder, ["perl"] * 9 + ["haskell"] * 9 + ["comm"] * 6, [0] * 9 + [1] * 15, 3)
    assert titles[:3] == ["ARI", "NMI", "Purity"]
    assert "Accuracy" not in titles
    assert "There are 3 classes and 2 clusters" in text
    assert "cannot be matched one to one" in text
    titles, text = measures(folder, ["a"] * 9 + ["b"] * 9 + ["c"] * 6, [1] * 9 + [2] * 9 + [0] * 6, 3)
    assert titles[:5] == ["ARI", "NMI", "Purity", "Accuracy", "Macro F1"]
    assert "Cluster 0c100.0 %6c" in text
    assert "Cluster 1a100.0 %9a" in text


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=40))
def test_purity_counts_the_nodes_of_the_majority_class_of_their_cluster(pairs):
    counts = [[pairs.count((one, cluster)) for cluster in range(4)] for one in range(5)]
    expected = 0
    for cluster in range(4):
        classes = [one for one, other in pairs if other == cluster]
        expected += max((classes.count(one) for one in classes), default=0)
    assert purity_of(counts) == pytest.approx(expected / len(pairs))
    assert purity_of([[0]]) == 0.0


def test_each_cluster_has_a_place_with_members_edges_and_sentences(run, pages):
    html = read(pages["party"])
    cards = {one.attributes["id"]: one for one in html.every("article")}
    assert sorted(cards) == ["cluster-0", "cluster-1", "cluster-2"]
    described = json.loads((run.tasks["alice"].files.folder / "clusters.json").read_text())["clusters"]
    for one in described:
        card = cards[f"cluster-{one['cluster']}"]
        named = [link.attributes["data-node"] for link in card.every("a")]
        assert named == [*one["typical"], *(border["id"] for border in one["borderline"])]
        assert f"It has {one['edges_inside']} edges inside" in card.text
        assert f"{percent(one['density'])} of all pairs" in card.text
    legend = [link.attributes["href"] for link in html.every("a") if link.attributes["href"].startswith("#cluster-")]
    assert set(legend) == {"#cluster-0", "#cluster-1", "#cluster-2"}


def test_sentences_say_in_which_direction_and_how_much_a_cluster_differs():
    def said(effect, **more):
        feature = {"feature": "visits", "effect": effect, "mean": 5.0, "mean_outside": 2.0, **more}
        return [read_text(one) for one in feature_sentences({"top_features": [feature]}, "bank")]

    def read_text(html):
        return re.sub("<[^>]*>", "", html)

    assert said(1.2) == ["visits is much higher: 5 on average; 2 in all other nodes."]
    words = "visits is much higher: 5 is typical (mean of the logarithms); 2 in all other nodes."
    assert said(1.2, by_logarithm=True) == [words]
    assert said(-0.3) == ["visits is lower: 5 on average; 2 in all other nodes."]
    assert said(0.1) == ["No column of bank has more than a small effect in this cluster."]
    words = "40 % of its nodes have visits; of all other nodes, <1 % do."
    assert said(0.9, present=0.4, present_outside=0.001, lift=9.0) == [words.replace("<", "&lt;")]


@pytest.fixture
def small_map(monkeypatch):
    monkeypatch.setattr(description, "MAP_NODES", 60)


def many_nodes(folder, n, *, name="person-", k=3):
    """Give a folder the results of many nodes."""
    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(n, 3)), np.arange(n) % k
    ids = NodeIds([f"{name}{one:07}" for one in range(n)], where="test")
    found = Insights.of(Description(labels, k, rows, ["a", "b", "c"], rows, None, None, ids=ids, party="alice"))
    found.nodes.save(folder / "nodes.npz")
    (folder / "clusters.json").write_text(json.dumps(found.clusters))
    summary = json.loads((folder / "run.json").read_text()) | {"nodes": n, "cluster_sizes": found.nodes.sizes}
    (folder / "run.json").write_text(json.dumps(summary))
    page = write_page(folder).read_text()
    return page, json.loads(re.search(r'id="node-data">(.*?)</script>', page).group(1)), found


def test_a_page_of_many_nodes_holds_a_sample_that_it_states(run, tmp_path, small_map):
    folder = shutil.copytree(run.tasks["alice"].files.folder, tmp_path / "many")
    page, data, found = many_nodes(folder, 30_000)
    assert len(page.encode()) <= 3_000_000
    shown = len(data["id"])
    assert 19_900 <= shown <= 20_000
    assert f"a sample of {shown:,} of the 30,000 nodes" in read(page).text
    named = [link.attributes["data-node"] for link in read(page).every("a") if "data-node" in link.attributes]
    assert len(named) >= 3 * 5
    assert set(named) <= set(data["id"])
    assert len(data["map"]) == len(found.clusters["map"]["x"])  # every point of the map can be looked up
    absent = sorted({found.nodes.id_of(row) for row in range(30_000)} - set(data["id"]))
    assert found.explain(absent[0]).node == absent[0]


def test_long_ids_make_the_sample_smaller_and_never_the_page_larger(run, tmp_path, small_map):
    folder = shutil.copytree(run.tasks["alice"].files.folder, tmp_path / "long")
    page, data, _ = many_nodes(folder, 21_000, name="a-very-long-name-of-a-node-" * 12)
    assert len(page.encode()) <= 3_000_000
    assert 1_000 < len(data["id"]) < 10_000
    assert f"a sample of {len(data['id']):,} of the 21,000 nodes" in read(page).text


def test_many_clusters_keep_the_page_small(run, tmp_path, small_map):
    folder = shutil.copytree(run.tasks["alice"].files.folder, tmp_path / "clusters")
    page, _, _ = many_nodes(folder, 6_000, k=500)
    assert len(page.encode()) <= 3_000_000
    assert "The page shows the 128 largest of the 500 clusters" in read(page).text


def test_the_report_of_results_in_memory_needs_no_files():
    rows, labels = blobs()
    found = Insights.of(Description(labels, 3, rows, None, rows, None, ring(90), party="bank"))
    summary = {"name": "bank", "role": "party", "nodes": 90, "cluster_sizes": [30, 30, 30]}
    ledger = [Disclosure("bank", "coordinator", "message/hello", "hello", (), 321)]
    names = ClusterNames({1: "Night shift"})
    run = RunFolder.in_memory(summary, ledger=ledger, clusters=found.clusters, nodes=found.nodes, names=names)
    html = read(build_report(run))
    assert "90 nodes in 3 clusters" in html.text
    assert "Cluster 1 · Night shift" in html.text
    ids = {one.attributes["id"] for one in html.every("section")}
    assert {"overview", "sizes", "clusters", "map", "nodes", "links", "quality", "disclosures"} <= ids
    assert "traffic" not in ids


def test_clusters_beyond_the_colours_have_another_shape_on_the_map_and_in_the_legend(run, tmp_path):
    folder = shutil.copytree(run.tasks["alice"].files.folder, tmp_path / "many")
    clusters = json.loads((folder / "clusters.json").read_text())
    every = [3, COLOURS + 3, 2 * COLOURS + 3, 3 * COLOURS + 3]
    clusters["map"] = {
        "method": "t-SNE",
        "of": 4,
        "x": [0.0, 0.3, 0.6, 1.0],
        "y": [0.0, 0.3, 0.6, 1.0],
        "cluster": every,
    }
    (folder / "clusters.json").write_text(json.dumps(clusters))
    html = read(write_page(folder).read_text())
    points = [one.attributes["class"] for one in html.every("path") if "points" in one.attributes.get("class", "")]
    assert [one.partition(" c")[2] for one in points] == ["3", "3 square", "3 diamond", "3 triangle"]
    (legend,) = [one for one in html.every("ul") if one.attributes.get("class") == "legend" and "Cluster" in one.text]
    dots = [one.attributes["class"] for one in legend.every("span") if "dot" in (one.attributes.get("class") or "")]
    assert dots == ["dot c3", "dot c3 square", "dot c3 diamond", "dot c3 triangle"]


def test_a_long_name_breaks_after_its_separators_only():
    assert breakable("monthly_turnover.eur") == "monthly_<wbr>turnover.<wbr>eur"
    assert breakable("<b>_<i>") == "&lt;b&gt;_&lt;i&gt;"
    assert breakable("job=nurse(night)") == "job=<wbr>nurse<wbr>(night)"
    assert breakable("monthlyTurnover") == "monthly<wbr>Turnover"
    assert breakable("Donaudampfschiff") == "Donaudampfschiff"
    assert breakable("&amp") == "&amp;amp"


def test_text_is_escaped_and_markup_is_not():
    assert tag("p", "<b>", tag("b", "&"), title='"') == '<p title="&quot;">&lt;b&gt;<b>&amp;</b></p>'
    assert text_of(["a", None, ["<", 3]]) == "a&lt;3"


def test_the_same_folder_gives_the_same_page_for_its_owner_only(run):
    folder = run.tasks["alice"].files.folder
    before = (folder / "report.html").read_bytes()
    assert build_report(RunFolder.read(folder)).encode() == before
    for file in ("report.html", "clusters.json"):
        assert stat.S_IMODE((folder / file).stat().st_mode) == 0o600


def test_a_report_that_fails_is_a_line_in_the_log_and_nothing_else(run, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("no disk left")

    monkeypatch.setattr(finished, "write_page", broken)
    finished.write_report(run.tasks["alice"], run.results["alice"])
    assert "the report could not be written: no disk left" in caplog.messages[-1]
    assert "try: kcagc report" in caplog.messages[-1]


def test_the_page_of_a_sweep_recommends_numbers_and_shows_no_clusters(pages):
    html = read(pages["sweep"])
    ids = [one.attributes["id"] for one in html.every("section")]
    assert ids == ["overview", "sweep", "psi", "rounds", "traffic", "disclosures", "settings"]
    assert re.fullmatch(r"\d+( to \d+)? clusters recommended", next(html.every("h1")).text)
    assert "choose a k" in html.text


def test_a_coordinator_does_not_learn_what_a_sweep_recommends(pages):
    page = pages["sweep, coordinator"]
    assert next(read(page).every("h1")).text == "Sweep over numbers of clusters: the coordinator's view"
    assert "recommended" not in page
    assert "odularity" not in page


def test_a_run_that_searched_for_the_filter_order_shows_its_curve(pages):
    html = read(pages["search for ψ"])
    ids = [one.attributes["id"] for one in html.every("section")]
    assert {"sizes", "psi", "map"} <= set(ids)
    assert "sweep" not in ids
    assert "psi" not in [one.attributes["id"] for one in read(pages["tree"]).every("section")]
