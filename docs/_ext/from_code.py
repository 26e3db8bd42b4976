"""Tables that are read from the code when the site is built, so that they cannot go stale: ```{from-code} NAME```."""

from __future__ import annotations

from typing import Any

from sphinx.util.docutils import SphinxDirective
from tables_of_code import TABLES


class FromCode(SphinxDirective):
    """Put one of the tables here."""

    required_arguments = 1

    def run(self) -> list[Any]:
        """Write the table in Markdown, and have it read as if it stood on the page."""
        name = self.arguments[0]
        self.env.note_reread()  # what it shows may have changed although the page has not
        if name not in TABLES:
            raise self.error(f"from-code: there is no {name!r}; there are {', '.join(TABLES)}")
        return self.parse_text_to_nodes(TABLES[name](), allow_section_headings=True)


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("from-code", FromCode)
    return {"parallel_read_safe": True}
