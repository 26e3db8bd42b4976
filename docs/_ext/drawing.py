"""Puts a drawing on a page: ```{drawing} NAME``` with its caption as content."""

from __future__ import annotations

from typing import Any

from diagrams import DIAGRAMS
from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class Drawing(SphinxDirective):
    """Draw one of the diagrams here, inside the page, so that it takes the page's colours."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[Any]:
        """Give a figure with its caption."""
        name = self.arguments[0]
        self.env.note_reread()  # what it shows may have changed although the page has not
        if name not in DIAGRAMS:
            raise self.error(f"drawing: there is no {name!r}; there are {', '.join(DIAGRAMS)}")
        figure = nodes.container(classes=["kcagc-figure"])
        figure += nodes.raw("", DIAGRAMS[name](), format="html")
        figure += self.parse_content_to_nodes()
        return [figure]


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("drawing", Drawing)
    return {"parallel_read_safe": True}
