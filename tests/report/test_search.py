"""The pictures of a sweep over k and of the search for ψ: what they show is what was found."""

import re
from dataclasses import replace

import pytest

from kcagc.cluster.search import PsiSearch
from kcagc.cluster.sweep import Sweep
from kcagc.report.document import STYLE
from kcagc.report.drawing import ElementIds
from kcagc.report.search import psi_section, sweep_section
from report.reading import read

SWEEP = Sweep(
    ks=(2, 3, 4, 5, 6),
    modularity=(0.15, 0.24, 0.25, 0.24, 0.1),
    error=(0.01, 0.01, 0.0, 0.01, 0.02),
    cost=(0.7, 0.6, 0.5, 0.45, 0.44),
    stability=(0.9, 0.4, 0.98, 0.8, 0.7),
    low=3,
    high=5,
    reason="from k = 3 to 5 it is not clearly lower.",
)
SEARCH = PsiSearch(3, (1, 3, 30), (0.3, 0.4, 0.2), (0.01, 0.0, 0.02), "it is highest at ψ = 3")


def page(sections):
    return read(f"<!doctype html>\n<html><body>{sections}</body></html>\n")


def shapes(drawing, class_):
    return [one.attributes for one in drawing.every() if class_ in one.attributes.get("class", "").split()]


def drawings(section):
    return list(page(section).every("svg"))


def dots(drawing):
    (path,) = shapes(drawing, "dots")
    return [(float(x), float(y)) for x, y in re.findall(r"M([\d.]+) ([\d.]+)h0", path["d"])]


def test_a_sweep_has_three_curves_of_all_numbers():
    found = drawings(sweep_section(SWEEP, ElementIds()))
    assert len(found) == 3
    for drawing, values in zip(found, (SWEEP.modularity, SWEEP.stability, SWEEP.cost), strict=True):
        heights = [y for _, y in dots(drawing)]
        assert sorted(range(5), key=lambda one: -heights[one]) == sorted(range(5), key=lambda one: values[one])


@pytest.mark.parametrize(("low", "high"), [(3, 5), (2, 6), (4, 4)])
def test_the_recommended_numbers_and_no_others_are_shaded(low, high):
    for drawing in drawings(sweep_section(replace(SWEEP, low=low, high=high), ElementIds())):
        (band,) = shapes(drawing, "band")
        left = float(band["x"])
        right = left + float(band["width"])
        inside = [k for k, (x, _) in zip(SWEEP.ks, dots(drawing), strict=True) if left < x < right]
        assert inside == list(range(low, high + 1))


def test_a_bar_reaches_the_dashed_line_exactly_where_a_number_is_not_clearly_worse():
    drawing, *others = drawings(sweep_section(SWEEP, ElementIds()))
    (level,) = shapes(drawing, "level")
    reached = [one["y2"] == level["y1"] for one in shapes(drawing, "whisker")]
    assert reached == [SWEEP.low <= k <= SWEEP.high for k in SWEEP.ks]
    assert not any(shapes(one, "whisker") for one in others)


def test_the_words_and_the_numbers_of_a_sweep_are_all_there():
    html = page(sweep_section(SWEEP, ElementIds()))
    assert "recommends 3 to 5 clusters." in html.text
    assert SWEEP.reason in html.text
    assert "Do not choose k by it" in html.text
    cells = [one.text for one in next(html.every("table")).every("th", "td")]
    for number in ("0.150", "0.240", "0.250", "0.010", "0.98", "0.4400"):
        assert number in cells


def test_the_chosen_order_is_shaded_and_its_reason_given():
    section = psi_section(SEARCH, ElementIds())
    (drawing,) = drawings(section)
    (band,) = shapes(drawing, "band")
    middle = float(band["x"]) + float(band["width"]) / 2
    assert middle == pytest.approx(dots(drawing)[1][0], abs=0.1)
    assert "took ψ = 3: it is highest at ψ = 3." in page(section).text


def test_a_negative_modularity_stays_in_the_picture():
    drawing = drawings(sweep_section(replace(SWEEP, modularity=(-0.1, 0.0, 0.01, 0.0, -0.2)), ElementIds()))[0]
    _, _, _, height = map(float, drawing.attributes["viewbox"].split())
    assert all(0 < y < height - 40 for _, y in dots(drawing))


def test_every_figure_has_its_numbers_and_no_id_comes_twice():
    ids = ElementIds()
    html = page(sweep_section(SWEEP, ids) + psi_section(SEARCH, ids))
    assert all(list(one.every("figcaption")) and list(one.every("table")) for one in html.every("figure"))
    used = [one.attributes["id"] for one in html.every() if "id" in one.attributes]
    assert len(used) == len(set(used))


def test_many_numbers_have_fewer_ticks_than_points():
    ks = tuple(range(2, 42))
    wide = (0.3,) * 40
    sweep = Sweep(ks, wide, (0.0,) * 40, wide, wide, 2, 41, "why")
    drawing = drawings(sweep_section(sweep, ElementIds()))[0]
    ticks = [one.text for one in drawing.every("text") if one.text.isdigit() and int(one.text) >= 2]
    assert len(dots(drawing)) == 40
    assert len(ticks) <= 14


def test_the_style_sheet_knows_every_class_of_the_pictures():
    style = STYLE.read_text(encoding="utf-8")
    for name in ("band", "level", "whisker"):
        assert f".{name} {{" in style
