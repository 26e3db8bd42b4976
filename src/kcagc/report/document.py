"""The frame of every page: head, content policy, links to the sections; nothing is loaded from anywhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path

from kcagc.report.markup import Html, tag

STYLE, SCRIPT = (Path(__file__).with_name(name) for name in ("style.css", "script.js"))


def document(
    title: str, header: Html, sections: Mapping[str, tuple[str, Html | None]], footer: str, data: Html | None = None
) -> str:
    """Return a whole page.

    `sections` maps the title of a section to its id and its content; one without content is left out. With `data`, a
    JSON object, the page has the script of kcagc, which reads it.
    """
    present = {name: (id_, content) for name, (id_, content) in sections.items() if content is not None}
    links = [tag("li", tag("a", name, href=f"#{id_}")) for name, (id_, _) in present.items()]
    script = None if data is None else SCRIPT.read_text(encoding="utf-8")
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("div", header, tag("nav", tag("ul", links), aria_label="On this page"), class_="page"),
        tag("main", [content for _, content in present.values()], id="content", class_="page", tabindex="-1"),
        tag("footer", tag("p", footer), class_="page"),
        # A block of data is no script: the browser does not run it. Every "<" in it is escaped.
        None if data is None else tag("script", data, type="application/json", id="node-data"),
        None if script is None else tag("script", Html(script)),
    )
    return f"<!doctype html>\n{tag('html', _head(title, script), body, lang='en')}\n"


def _head(title: str, script: str | None) -> Html:
    style = STYLE.read_text(encoding="utf-8")
    # The browser loads nothing and runs at most the script of kcagc, whatever a name on the page contains.
    policy = f"default-src 'none'; style-src '{_hash(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
    if script is not None:
        policy += f"; script-src '{_hash(script)}'"
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{title} · kcagc"),
        tag("link", rel="icon", href="data:,"),
        tag("style", Html(style)),
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
