"""Every code block of the documentation runs, and prints what the page shows."""

import re
import shutil
import tomllib

import pytest

from documentation.pages import DOCS, agrees, blocks, follow, pages

WITH_CODE = {name: path for name, path in pages().items() if any(b.language in ("sh", "python") for b in blocks(path))}
CONTINUES = {
    "howto/predict": "tutorial",
    "howto/report": "tutorial",
}  # these pages start where the other page ends
ELSEWHERE = {"deploy"}  # followed by tests/deploy/test_deploy_page.py, which checks more


def check(name, printed):
    for number, block in enumerate(blocks(WITH_CODE[name])):
        if block.shown is not None:
            assert agrees(block.shown, printed[number]), f"shown:\n{block.shown}\nprinted:\n{printed[number]}"


@pytest.fixture(scope="session")
def tutorial(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tutorial")
    return folder, follow(WITH_CODE["tutorial"], folder)


def test_the_tutorial_leads_from_files_to_clusters(tutorial):
    folder, printed = tutorial
    check("tutorial", printed)
    labels = [(folder / "trial" / name / "result" / "labels.csv").read_text() for name in ("bank", "telecom", "shop")]
    clusters = [[line.split(",")[:2] for line in text.splitlines()] for text in labels]
    assert clusters[0] == clusters[1] == clusters[2]
    assert len(clusters[0]) == 401


@pytest.mark.parametrize("name", sorted(WITH_CODE.keys() - {"tutorial"} - ELSEWHERE))
def test_the_code_of_a_page_runs_and_prints_what_it_shows(name, tmp_path, request):
    if name == "howto/own-ca" and shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path / "page"
    if name in CONTINUES:
        shutil.copytree(request.getfixturevalue(CONTINUES[name])[0], folder, symlinks=True)
    else:
        folder.mkdir()
    # A report takes longer than such a run; the tutorial writes one.
    check(name, follow(WITH_CODE[name], folder, KCAGC_REPORT="0"))


def test_every_block_is_of_a_kind_that_the_tests_know():
    known = {"sh", "python", "toml", "text", "{eval-rst}"}
    for name, path in pages().items():
        for block in blocks(path):
            directive = re.match(r"\{(toctree|drawing|from-code|image|figure|note|warning|tip)\}", block.language)
            assert directive or block.language in known, f"{name}: {block.language!r}"


@pytest.mark.parametrize("name", pages())
def test_every_text_block_is_the_output_of_code(name):
    # Commands of other machines, a picture of layers, and the output of commands that take minutes and a download.
    if name in ("deploy", "reference/wire-format", "howto/public-graphs"):
        return
    for block in blocks(DOCS / f"{name}.md"):
        assert block.language != "text", f"no code prints this:\n{block.text}"


def toml_blocks():
    return [(name, block.text) for name, path in pages().items() for block in blocks(path) if block.language == "toml"]


@pytest.mark.parametrize(("name", "text"), toml_blocks())
def test_kcagc_reads_every_configuration_of_the_pages(name, text):
    import msgspec

    from kcagc.deploy.config import Document

    given = tomllib.loads(text)
    sections = {field.name: field.type for field in msgspec.structs.fields(Document)}
    assert given
    for section, content in given.items():
        msgspec.convert(content, type=sections[section])


def test_output_that_differs_from_the_page_is_detected():
    assert agrees("a … c\n1.5 MB", "a b b c\n1.5 MB\n")
    assert not agrees("a … c\n1.5 MB", "a b b d\n1.5 MB\n")
    assert not agrees("a", "a b")
