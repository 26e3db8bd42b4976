"""The page in the docs is rendered from the stored figures."""

from benchmarks.page import NAMES, PAGE, RESULTS, book, render


def test_the_page_in_the_docs_is_what_the_kept_figures_give(tmp_path):
    shown = render(book(RESULTS), tmp_path / "docs" / "performance.md")
    assert (tmp_path / "docs" / "performance.md").read_text() == PAGE.read_text()
    assert set(shown) == set(NAMES), "measure what is missing: make bench MISSING=1"
    drawn = {path.name for path in (tmp_path / "docs" / "performance").iterdir()}
    assert drawn == {path.name for path in (PAGE.parent / "performance").iterdir()}
