"""Links between files of the repository have a target. Sphinx checks the links within the site."""

import re

import pytest

from documentation.pages import ROOT


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_every_linked_file_exists(name):
    text = re.sub(r"```.*?```", "", (ROOT / name).read_text(), flags=re.DOTALL)
    linked = re.findall(r"\]\(([^)#\s]+)", text) + re.findall(r'(?:src|href)="([^"#]+)"', text)
    missing = [one for one in linked if not one.startswith("http") and not (ROOT / one).exists()]
    assert missing == []


def test_every_named_make_target_exists():
    makefile = (ROOT / "Makefile").read_text()
    named = set()
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        named |= set(re.findall(r"`make ([a-z][a-z-]+)", path.read_text()))
    assert [one for one in sorted(named) if not re.search(rf"^{one}:", makefile, flags=re.MULTILINE)] == []
