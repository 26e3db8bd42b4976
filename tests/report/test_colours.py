"""Colours: text that everybody can read in both themes, and clusters that colour-blind people can tell apart."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from kcagc.report import document
from kcagc.report.drawing import COLOURS

STYLE = document.STYLE.read_text()
# How three kinds of colour-blind people see, as matrices on linear light (Machado, Oliveira and Fernandes, 2009).
SEEN_BY = {
    "everybody": np.eye(3),
    "protanopes": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopes": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopes": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def variables(theme):
    blocks = re.findall(r":root \{(.*?)\}", STYLE, flags=re.DOTALL)
    found = {}
    for block in {"light": blocks[:1], "dark": blocks[:2], "print": [blocks[0], blocks[2]]}[theme]:
        found |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", block))
    return found


def linear(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * one for one in colour[1:])
    value = np.array([int(digits[at : at + 2], 16) for at in (0, 2, 4)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one, two):
    light, dark = sorted(
        (float(linear(one) @ [0.2126, 0.7152, 0.0722]), float(linear(two) @ [0.2126, 0.7152, 0.0722]))
    )[::-1]
    return (light + 0.05) / (dark + 0.05)


def perceived(colour, eyes):
    seen = np.clip(np.array(SEEN_BY[eyes]) @ linear(colour), 0, 1)
    cones = np.cbrt(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
        @ seen
    )
    return [
        [0.2104542553, 0.793617785, -0.0040720468],
        [1.9779984951, -2.428592205, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.808675766],
    ] @ cones


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_text_has_the_contrast_that_guidelines_ask_for(theme):
    colours = variables(theme)
    for text in ("ink", "muted", "accent"):
        for back in ("page", "card"):
            assert contrast(colours[text], colours[back]) >= 4.5, (text, back)
    assert contrast(colours["flag"], colours["flag-back"]) >= 4.5
    assert contrast(colours["muted"], colours["soft"]) >= 4.5
    for level in range(1, 10):
        text = "on-h" if level <= 5 else "on-deep"
        assert contrast(colours[text], colours[f"h{level}"]) >= 4.5, level


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_cluster_stands_out_from_the_card(theme):
    colours = variables(theme)
    for number in range(COLOURS):
        assert contrast(colours[f"c{number}"], colours["card"]) >= 3, number


@pytest.mark.parametrize("eyes", SEEN_BY)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_clusters_can_be_told_apart_by_all_eyes(theme, eyes):
    colours = [variables(theme)[f"c{number}"] for number in range(COLOURS)]
    away = {
        (one, two): np.linalg.norm(np.subtract(perceived(colours[one], eyes), perceived(colours[two], eyes)))
        for one, two in combinations(range(COLOURS), 2)
    }
    assert min(value for (_, two), value in away.items() if two < 8) > 0.09
    assert min(away.values()) > 0.04


def test_the_style_fetches_nothing_and_is_part_of_the_package():
    assert Path(document.__file__).parent == document.STYLE.parent
    assert not re.search(r"url\(|@import|https?:", STYLE)


def test_a_cluster_has_one_hue_in_light_dark_and_print():
    everybody = "everybody"
    for number in range(COLOURS):
        hues = []
        for theme in ("light", "dark", "print"):
            _, green_red, blue_yellow = perceived(variables(theme)[f"c{number}"], everybody)
            assert np.hypot(green_red, blue_yellow) > 0.04, "too grey to have a hue"
            hues.append(np.degrees(np.arctan2(blue_yellow, green_red)))
        assert all(abs((one - hues[0] + 180) % 360 - 180) < 6 for one in hues), number
