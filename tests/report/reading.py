"""A page taken apart by a parser that knows no mercy: every element closed, every id once."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "col", "wbr"}
UNSEEN = {"style", "title", "script"}


@dataclass
class Element:
    name: str
    attributes: dict[str, str | None]
    children: list[Element] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def every(self, *names):
        for child in self.children:
            if not names or child.name in names:
                yield child
            yield from child.every(*names)

    @property
    def text(self):
        return " ".join("".join(self.words).split())


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = Element("root", {})
        self._open = [self.root]

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        element = Element(tag, dict(attrs))
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag, attrs):
        self._open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open[-1].name == tag, f"</{tag}> closes <{self._open[-1].name}>"
        self._open.pop()

    def handle_data(self, data):
        for element in self._open:
            if self._open[-1].name not in UNSEEN:
                element.words.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")


def read(page: str) -> Element:
    assert page.startswith("<!doctype html>\n")
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert len(reader._open) == 1, [one.name for one in reader._open]
    (html,) = reader.root.children
    return html
