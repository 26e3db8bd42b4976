"""What a user asks a fitted estimator: explanations, frames, scores, reports and pictures, and how it looks."""

import builtins
import importlib
import re
import stat

import numpy as np
import pandas
import polars
import pytest
from numpy.testing import assert_array_equal

from kcagc import KCAGC, metrics
from kcagc.data import TablePreprocessor
from kcagc.datasets import generate
from kcagc.errors import DataError, ParameterError
from kcagc.graph import Graph

DATA = generate(160, 4, homophily=0.8, signal=5, features=(6, 8), seed=5)
NAMES = [f"n{number:03}" for number in range(160)]
NODES = Graph.from_matrix(DATA.adjacency, ids=NAMES)


def frames(make=pandas.DataFrame):
    columns = (
        ["salaryx", "salaryx1", "salaryx2", "salaryx3", "salaryx4", "salaryx5"],
        [f"basketx{number}" for number in range(8)],
    )
    return {
        name: make({"id": NAMES, **{title: table[:, place] for place, title in enumerate(titles)}})
        for name, table, titles in zip(("bank", "shop <b>"), DATA.parties(), columns, strict=True)
    }


def fitted(make=pandas.DataFrame, adjacency=NODES, **changes):
    tables = make if isinstance(make, dict) else frames(make)
    return KCAGC(**{"n_clusters": 4, "psi": 1, "id_column": "id", "random_state": 0} | changes).fit(
        tables, adjacency=adjacency
    )


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def swept():
    return fitted(n_clusters=(2, 5))


def test_a_node_is_explained_by_each_party_with_its_own_columns_only(model):
    found = model.explain("n007")
    assert list(found) == ["bank", "shop <b>"]
    for party, one in found.items():
        assert (one.node, one.party, one.cluster) == ("n007", party, model.labels_[7])
        own = "salaryx" if party == "bank" else "basketx"
        assert all(re.match(own, reason.column) for reason in one.reasons)
    assert str(found) == repr(found) == "\n\n".join(one.text() for one in found.values())
    with pytest.raises(DataError, match=r"n0077"):
        model.explain("n0077")


def test_insights_are_those_of_the_clusters_and_are_computed_once(model):
    found = model.insights_["bank"]
    assert model.insights_["bank"] is found
    assert [one["size"] for one in found.clusters["clusters"]] == np.bincount(model.labels_).tolist()
    assert found.clusters["quality"]["modularity"] == pytest.approx(model.modularity_)
    assert_array_equal(found.nodes.cluster, model.labels_)
    assert dict(model.insights_).keys() == {"bank", "shop <b>"}
    with pytest.raises(ParameterError, match=r"^party: there is no 'hotel'; the parties are bank and shop"):
        model.insights_["hotel"]


def test_columns_of_an_array_are_called_columns():
    tables = dict(zip(("bank", "shop"), DATA.parties(), strict=True))
    found = KCAGC(n_clusters=4, psi=1, random_state=0).fit(tables, adjacency=DATA.adjacency)
    features = found.insights_["bank"].clusters["clusters"][0]["top_features"]
    assert all(re.fullmatch(r"column \d", one["feature"]) for one in features)
    assert found.explain(np.int64(3))["bank"].node == 3
    assert found.labels_frame("dict")["id"] == list(range(160))


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame])
def test_labels_come_in_the_library_of_the_tables(make, model):
    found = (model if make is pandas.DataFrame else fitted(make)).labels_frame()
    assert isinstance(found, make)
    assert list(found["id"]) == NAMES
    assert_array_equal(found["cluster"].to_numpy(), model.labels_)
    for kind, other in (("polars", polars.DataFrame), ("pandas", pandas.DataFrame), ("dict", dict)):
        assert isinstance(model.labels_frame(kind), other)
    with pytest.raises(ParameterError, match=r"^kind: must be None, 'pandas', 'polars' or 'dict', not 'csv'"):
        model.labels_frame("csv")


def test_without_pandas_and_polars_labels_are_a_dictionary(model, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    assert model.labels_frame() == {"id": NAMES, "cluster": model.labels_.tolist()}
    with pytest.raises(ParameterError, match=r"^kind: needs the package polars: pip install polars"):
        model.labels_frame("polars")


def test_the_score_is_higher_for_better_clusters_and_names_what_it_lacks(model):
    assert model.score() == -model.cost_
    assert model.score(y=DATA.labels) == model.score(None, DATA.labels) == metrics.ari(DATA.labels, model.labels_)
    assert model.score(y=DATA.labels, metric="accuracy") == metrics.accuracy(DATA.labels, model.labels_)
    assert model.score(metric="modularity") == pytest.approx(metrics.modularity(DATA.adjacency, model.labels_))
    with pytest.raises(ParameterError, match=r"^y: is missing; 'nmi' compares"):
        model.score(metric="nmi")
    without = fitted(adjacency=None, psi="auto")
    assert without.modularity_ is None
    with pytest.raises(ParameterError, match=r'^metric: "modularity" needs a graph that all parties share'):
        without.score(metric="modularity")


def test_insights_are_in_the_units_of_the_tables_that_rules_have_scaled():
    rules = TablePreprocessor(default={"scale": "standard"})
    tables = {name: table.set_index("id") * 100 + 7000 for name, table in frames().items()}
    found = fitted(tables, id_column=None, transformers=rules)
    seen = [one for node in NAMES[:20] for one in found.explain(node)["bank"].reasons]
    assert seen
    assert all(6000 < one.value < 8000 and 6000 < one.mean < 8000 for one in seen)
    for node in NAMES[:20]:
        for one in found.explain(node)["bank"].reasons:
            assert one.value == pytest.approx(tables["bank"].loc[node, one.column])


def test_known_classes_are_matched_by_id_where_they_have_ids_and_by_position_elsewhere(model):
    wanted = model.score(y=DATA.labels)
    shuffled = pandas.Series(DATA.labels, index=NAMES).sample(frac=1.0, random_state=1)
    assert model.score(y=shuffled) == model.score(y=shuffled.to_frame("class")) == wanted
    assert (
        model.score(y=pandas.Series(DATA.labels)) == model.score(y=polars.DataFrame({"class": DATA.labels})) == wanted
    )
    more = pandas.concat([shuffled, pandas.Series([0], index=["nobody"])])
    assert model.score(y=more) == wanted
    with pytest.raises(DataError, match=r"^y: index: ids do not match the model's: 1 of the model's ids are missing"):
        model.score(y=shuffled.iloc[1:])
    with pytest.raises(DataError, match=r"^y: has 2 columns; give one"):
        model.score(y=pandas.DataFrame({"id": NAMES, "class": DATA.labels}))
    numbered = KCAGC(n_clusters=2, psi=2, random_state=0).fit(DATA.parties(), adjacency=DATA.adjacency)
    mixed = pandas.Series(DATA.labels).sample(frac=1.0, random_state=1)
    assert numbered.score(y=mixed) == numbered.score(y=DATA.labels)


def test_a_report_holds_the_columns_of_its_party_only_and_can_be_read_by_its_owner_only(model, tmp_path):
    paths = model.report(tmp_path / "pages")
    assert [path.name for path in paths] == ["bank.html", "shop _b_.html"]
    bank, shop = (path.read_text() for path in paths)
    assert "salaryx" in bank
    assert "basketx" not in bank
    assert "basketx" in shop
    assert "salaryx" not in shop
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    assert model.report(tmp_path / "one.html", party="bank") == [tmp_path / "one.html"]
    assert (tmp_path / "one.html").read_text() == bank
    for words in ("160 nodes in 4 clusters", "Modularity", "Rounds"):
        assert words in bank
    with pytest.raises(
        ParameterError, match=r"one\.html is a single file, .* for example party='bank', or give a folder"
    ):
        model.report(tmp_path / "one.html")
    with pytest.raises(ParameterError, match=r"^party: there is no 'hotel'"):
        model.report(tmp_path / "one.html", party="hotel")


def test_without_a_graph_explanation_and_report_speak_of_no_edges(tmp_path):
    found = fitted(adjacency=None, psi="auto")
    assert found.explain("n003")["bank"].edges is None
    text = found.report(tmp_path / "bank.html", party="bank")[0].read_text()
    for words in ("Modularity", "averaged with its neighbours", "Links between", "Edges between"):
        assert words not in text
    assert "no graph" in found._repr_html_()


def test_each_party_with_a_graph_of_its_own_has_its_own_edges_in_its_insights():
    empty = Graph.from_edges(["n000"], ["n001"], ids=NAMES)
    found = fitted(adjacency={"bank": NODES, "shop <b>": empty})
    assert found.modularity_ is None
    edges = [found.insights_[party].nodes.edges.sum() for party in found.insights_]
    assert edges == [2 * NODES.n_edges, 2]


def test_pictures_of_every_kind_and_nothing_where_there_is_nothing(model, swept, tmp_path):
    assert model.plot()._repr_png_().startswith(b"\x89PNG")
    assert len(model.plot(party="bank").axes) == 1
    assert len(model.plot("sizes").axes[0].patches) == 4
    model.plot("map").savefig(tmp_path / "map.svg")
    assert "shop &lt;b&gt;" in (tmp_path / "map.svg").read_text()
    assert "number of clusters" in swept.plot().axes[0].get_xlabel()
    for kind, words in (("sweep", "set n_clusters to a range"), ("psi", "psi was set"), ("pie", "must be None, 'map'")):
        with pytest.raises(ParameterError, match=rf"^kind: .*{words}"):
            model.plot(kind)
    with pytest.raises(ParameterError, match=r"^party: there is no 'hotel'"):
        model.plot(party="hotel")
    with pytest.raises(ParameterError, match="is a range"):
        swept.plot("sizes")


def test_without_matplotlib_a_picture_says_what_to_install(model, monkeypatch):
    real = builtins.__import__

    def shut(name, *more):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", shut)
    with pytest.raises(ParameterError, match=r"matplotlib: pip install 'kcagc\[plots\]'"):
        model.plot()


def test_a_comparison_of_numbers_has_a_report_and_a_page_and_no_clusters(swept, tmp_path):
    assert "recommended" in swept.report(tmp_path / "bank.html", party="bank")[0].read_text()
    assert f"{swept.sweep_.recommendation} recommended" in swept._repr_html_()
    for ask in (lambda: swept.explain("n001"), swept.labels_frame, swept.score):
        with pytest.raises(ParameterError, match="is a range"):
            ask()


def test_a_model_that_was_loaded_answers_what_it_can_and_says_what_it_lacks(model, tmp_path):
    model.save(tmp_path / "model")
    found = KCAGC.load(tmp_path / "model")
    pandas.testing.assert_frame_equal(found.labels_frame("pandas"), model.labels_frame("pandas"))
    assert (found.score(), found.modularity_) == (model.score(), model.modularity_)
    for ask in (lambda: found.explain("n001"), lambda: found.report(tmp_path / "pages"), found.plot):
        with pytest.raises(DataError, match=r"^insights_: a model that was loaded has no tables.*fit again"):
            ask()
    assert "160 nodes" in found._repr_html_()
    assert "not saved" in repr(found.insights_)


def test_a_notebook_shows_sizes_modularity_and_who_learned_what_and_nothing_private(model):
    rules = TablePreprocessor(columns={"salaryx": {"scale": "log1p"}})
    private = KCAGC(n_clusters=4, id_column="salaryxid", nodes=["ann", "bob"], transformers=rules)
    for one in (model, private, KCAGC()):
        shown = one._repr_html_()
        for word in ("salaryx", "basketx", "ann", "n007", "<b>", "\\x", "b'"):
            assert word not in shown
    shown = model._repr_html_()
    for size in np.bincount(model.labels_):
        assert f">{size}</td>" in shown
    assert f"modularity {model.modularity_:.3f}" in shown
    assert "ψ = 1" in shown
    assert shown.index(">bank</td>") < shown.index(">shop &lt;b&gt;</td>") < shown.index(">coordinator</td>")
    for line in model.ledger_.summary():
        assert (line.title in shown) == any(
            other.about_data for other in model.ledger_.summary() if other.title == line.title
        )
    assert "not fitted" in KCAGC()._repr_html_()
    for opened, closed in (("<table", "</table>"), ("<details", "</details>"), ("<td", "</td>"), ("<div", "</div>")):
        assert shown.count(opened) == shown.count(closed)


def test_tab_completion_offers_public_names_only(model):
    offered = [name for name in dir(model) if name[:2] != "__"]
    assert not [name for name in offered if name.startswith(("_", "set_fit", "set_predict", "set_score", "get_meta"))]
    for name in ("fit", "labels_", "insights_", "explain", "n_clusters", "plot", "modularity_", "models_"):
        assert name in offered


def test_models_and_ledger_print_what_they_are(model):
    assert repr(model.models_["bank"]).startswith("PartyModel(bank: 4 clusters of 160 nodes, method joint, session ")
    parts = (model.models_["bank"].embedder, model.models_["bank"].joint, model.models_["bank"].stored_centers)
    assert [repr(one).partition("(")[0] for one in parts] == ["Embedder", "JointModel", "Stored"]
    assert max(map(len, map(repr, parts))) < 80
    page = model.ledger_._repr_html_()
    assert "shop &lt;b&gt;" in page
    assert "salaryx" not in page


def test_parties_whose_names_are_alike_have_pages_of_their_own(tmp_path):
    tables = dict(zip(("a/b", "A?b"), DATA.parties(), strict=True))
    seen = []
    settings = {"n_clusters": 4, "psi": 1, "random_state": 0, "callbacks": lambda *step: seen.append(step)}
    found = KCAGC(**settings).fit(tables, adjacency=DATA.adjacency)
    before = len(seen)
    pages = found.report(tmp_path)
    assert [path.name for path in pages] == ["a_b.html", "A_b-2.html"]
    assert "a/b" in pages[0].read_text()
    steps = [(party, step.stage) for party, step in seen[before:]]
    assert ("a/b", "insights: nodes") in steps
    assert {party for party, _ in steps} == set(tables)
