"""The whole page: sections in the order of questions that people ask, and nothing that is fetched from anywhere."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

from kcagc.files.atomic import PRIVATE, write_text
from kcagc.report.clusters import marks_section, sizes_section
from kcagc.report.convergence import convergence_section
from kcagc.report.disclosures import ledger_section
from kcagc.report.drawing import Names
from kcagc.report.folder import REPORT, RunFolder
from kcagc.report.links import links_section
from kcagc.report.markup import Html, tag
from kcagc.report.overview import header, overview_section, title_of
from kcagc.report.quality import quality_section
from kcagc.report.scatter import map_section
from kcagc.report.settings import settings_section
from kcagc.report.traffic import traffic_section

_STYLE = Path(__file__).with_name("style.css")
_SHORT = {
    "overview": "At a glance",
    "sizes": "Sizes",
    "marks": "Marks",
    "map": "Map",
    "links": "Links",
    "quality": "Quality",
    "rounds": "Rounds",
    "traffic": "Traffic",
    "ledger": "Ledger",
    "settings": "Configuration",
}


def write_page(folder: Path) -> Path:
    """Make the page of a folder, and put it there, for its owner only; it appears whole or not at all."""
    path = folder / REPORT
    write_text(path, page_of(RunFolder.read(folder)), mode=PRIVATE)
    return path


def page_of(run: RunFolder) -> str:
    """Give the page. The same folder gives the same page."""
    names = Names()
    sections = [
        section
        for section in (
            overview_section(run),
            sizes_section(run, names),
            marks_section(run),
            map_section(run, names),
            links_section(run),
            quality_section(run),
            convergence_section(run, names),
            traffic_section(run, names),
            ledger_section(run),
            settings_section(run),
        )
        if section is not None
    ]
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("div", header(run), _contents(sections), class_="page"),
        tag("main", sections, id="content", class_="page", tabindex="-1"),
        tag("footer", _footer(run), class_="page"),
    )
    return f"<!doctype html>\n{tag('html', _head(run), body, lang='en')}\n"


def _head(run: RunFolder) -> Html:
    style = _STYLE.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # Nothing may be fetched and no script may run, whatever a name in here says.
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{title_of(run)} · {run.name} · kcagc"),
        tag("link", rel="icon", href="data:,"),
        tag("style", Html(style)),
    )


def _contents(sections: list[Html]) -> Html:
    there = [found.group(1) for section in sections if (found := re.search(r'^<section[^>]* id="(\w+)"', section))]
    links = [tag("li", tag("a", _SHORT[one], href=f"#{one}")) for one in there]
    return tag("nav", tag("ul", links), aria_label="On this page")


def _footer(run: RunFolder) -> Html:
    version = dict(run.summary.get("packages", {})).get("kcagc", "")
    whose = (
        f"It shows {run.name}'s own data and is for {run.name}'s eyes: pass on the ledger, not this page."
        if run.is_party
        else "It shows what a coordinator may see: no data, no labels, no ids."
    )
    words = f"Made by kcagc {version} from the files in this folder. {whose} This page asks nothing of any network."
    return tag("p", words)
