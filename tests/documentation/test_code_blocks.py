"""Every block of code in the documentation is run, and prints what the page shows."""

import re
import shutil
import tomllib

import pytest

from documentation.pages import DOCS, agrees, blocks, follow, pages

WITH_CODE = {name: path for name, path in pages().items() if any(b.language in ("sh", "python") for b in blocks(path))}
GOES_ON = {
    "howto/predict": "tutorial",
    "howto/report": "tutorial",
}  # they begin where that page ends
ELSEWHERE = {"deploy"}  # followed by tests/deployment/test_deploy_page.py, which looks closer


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
    if name in GOES_ON:
        shutil.copytree(request.getfixturevalue(GOES_ON[name])[0], folder, symlinks=True)
    else:
        folder.mkdir()
    # A report takes longer than such a run; the tutorial has one.
    check(name, follow(WITH_CODE[name], folder, KCAGC_REPORT="0"))


def test_no_block_is_of_a_kind_that_nobody_runs():
    known = {"sh", "python", "toml", "text", "{eval-rst}"}
    for name, path in pages().items():
        for block in blocks(path):
            directive = re.match(r"\{(toctree|drawing|from-code|image|figure|note|warning|tip)\}", block.language)
            assert directive or block.language in known, f"{name}: {block.language!r}"


@pytest.mark.parametrize("name", pages())
def test_a_block_of_text_on_a_page_is_not_code_in_disguise(name):
    # Two commands of other machines; a picture of layers; the output of commands that take minutes and a download.
    if name in ("deploy", "reference/wire-format", "howto/public-graphs"):
        return
    for block in blocks(DOCS / f"{name}.md"):
        assert block.language != "text", f"nothing printed it:\n{block.text}"


def toml_blocks():
    return [(name, block.text) for name, path in pages().items() for block in blocks(path) if block.language == "toml"]


@pytest.mark.parametrize(("name", "text"), toml_blocks())
def test_a_piece_of_configuration_is_one_that_kcagc_reads(name, text):
    import msgspec

    from kcagc.deploy.config import Document

    given = tomllib.loads(text)
    sections = {field.name: field.type for field in msgspec.structs.fields(Document)}
    assert given
    for section, content in given.items():
        msgspec.convert(content, type=sections[section])


def test_a_page_that_shows_something_else_is_found_out():
    assert agrees("a … c\n1.5 MB", "a b b c\n1.5 MB\n")
    assert not agrees("a … c\n1.5 MB", "a b b d\n1.5 MB\n")
    assert not agrees("a", "a b")
