"""The privacy measures of what is shared, on the embedded graph; the reading of Table 7 on Cora where it is at hand."""

import json
import math

import numpy as np
import pytest
from scipy import sparse

from experiments.paper import privacy
from experiments.paper.experiment import Options
from experiments.paper.plots import Figures
from experiments.paper.privacy_readings import main_directions, weighted
from experiments.paper.store import Book

QUICK = Options(("demo",), quick=True)


@pytest.fixture(scope="module")
def results():
    return [(cell, privacy.compute(cell)) for cell in privacy.cells(QUICK)]


def test_the_paper_has_eight_numbers_of_parties():
    cells = privacy.cells(Options())
    assert {cell["dataset"] for cell in cells} == {"cora"}
    assert sorted({cell["parties"] for cell in cells if "parties" in cell}) == [2, 4, 6, 8, 10, 12, 14, 16]
    assert all(privacy.published("cora", cell["parties"]) for cell in cells if "parties" in cell)
    assert privacy.published("demo", 2) is None


def test_results_are_numbers_in_their_range(results):
    for _, result in results:
        assert json.loads(json.dumps(result)) == result
        assert all(math.isfinite(value) for value in result.values())
        for name, value in result.items():
            assert (0 <= value <= 1) if name.endswith("leakage") else value > 0, name


def test_a_cell_comes_out_the_same_again(results):
    cell, result = results[-1]
    assert privacy.compute(cell) == result


def test_only_the_differential_estimate_tells_everything_from_nothing(results):
    by_name = {cell["shared"]: result for cell, result in results if "shared" in cell}
    everything, nothing = by_name["features"], by_name["numbers"]
    assert everything["plug_in_leakage"] == nothing["plug_in_leakage"]
    assert everything["nearest_leakage"] > 0.99
    assert nothing["nearest_leakage"] < 0.1
    for cell, result in results:
        if "parties" in cell:
            assert nothing["nearest_leakage"] < result["distances_nearest_leakage"] < everything["nearest_leakage"]


def test_the_section_shows_every_number_of_parties_and_the_figure(results, tmp_path):
    book = Book(tmp_path)
    for cell, result in results:
        book["privacy"].add(cell, result, 0.1)

    section = privacy.render(book, Figures(tmp_path / "page", tmp_path / "page.md"))

    assert "\n| 2 | – |" in section
    assert "\n| 4 | – |" in section
    assert "None," not in section
    assert "within" not in privacy._agreement(book["privacy"], "demo")  # the paper has nothing to compare
    assert (tmp_path / "page" / "privacy-demo.svg").exists()


def test_a_section_of_the_controls_alone_has_no_figure(results, tmp_path):
    book = Book(tmp_path)
    book["privacy"].add(*results[0], 0.1)

    privacy.render(book, Figures(tmp_path / "page", tmp_path / "page.md"))

    assert not (tmp_path / "page").exists()


def test_words_are_weighted_by_how_rare_they_are():
    words = sparse.csr_array(np.array([[1.0, 1, 0], [1, 0, 1], [1, 1, 0], [0, 0, 0]]))

    found = weighted(words).toarray()

    common, rare, rarest = np.log(4 / 3), np.log(4 / 2), np.log(4 / 1)
    np.testing.assert_allclose(found[0], np.array([common, rare, 0]) / np.hypot(common, rare))
    np.testing.assert_allclose(found[1], np.array([common, 0, rarest]) / np.hypot(common, rarest))
    assert (found[3] == 0).all()
    values = sparse.csr_array(2.5 * words)
    assert weighted(values) is values


def test_main_directions_keep_the_most_of_a_table():
    table = np.random.default_rng(0).normal(size=(50, 4)) * [9, 3, 1, 0.1]
    assert (main_directions(table, 2) ** 2).sum() > 0.95 * (table**2).sum()


@pytest.mark.real_data
@pytest.mark.parametrize("parties", [2, 16])
def test_the_reading_comes_near_the_printed_numbers(parties):
    found = privacy.compute({"dataset": "cora", "configuration": "paper", "parties": parties, "seed": 0})
    level, leakage = privacy.published("cora", parties)
    assert found["term_level"] == pytest.approx(level, rel=0.012)
    assert found["term_leakage"] == pytest.approx(leakage, abs=2e-4)
