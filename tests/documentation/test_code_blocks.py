"""Every code block of the documentation runs, and prints what the page shows."""

import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from documentation.pages import DOCS, agrees, blocks, follow, pages

WITH_CODE = {name: path for name, path in pages().items() if any(b.language in ("sh", "python") for b in blocks(path))}
CONTINUES = {
    "howto/predict": "tutorial",
    "howto/report": "tutorial",
}  # these pages start where the other page ends
ELSEWHERE = {
    "deploy",  # followed by tests/deploy/test_deploy_page.py, which checks more
    "gallery/package-graph",  # shows the packages of one system; the test below follows it with invented ones
}


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


def invented_packages(per_language=90):
    """What `apt-cache dumpavail` could print: packages of six languages, which depend on packages of their language."""
    random = np.random.RandomState(0)
    blocks = []
    for language in LANGUAGES:
        for number in range(per_language):
            others = random.choice(per_language, 3, replace=False)
            wanted = [f"lib{language}{other}" for other in others] + [f"lib{random.choice(LANGUAGES)}{others[0]}"]
            blocks.append(
                f"Package: lib{language}{number}\nSource: {language}{number // 3}\nVersion: {number}.1\n"
                f"Maintainer: {language} team <team+{language}@example.org>\nArchitecture: all\nSection: {language}\n"
                f"Priority: optional\nInstalled-Size: {random.randint(10, 90000)}\nSize: {random.randint(10, 900000)}\n"
                f"Homepage: https://{language}.example.org/{number}\nDescription: a {language} module number {number}\n"
                f"Tag: devel::lang:{language}, implemented-in::{language}\nDepends: {', '.join(wanted)}\n"
                f"MD5sum: {number:032x}\n"
            )
    return "\n".join(blocks)


LANGUAGES = ("perl", "python", "haskell", "gnu-r", "rust", "java")


def test_the_page_of_the_package_graph_names_languages_without_a_rule_by_hand(tmp_path):
    apt = tmp_path / "bin" / "apt-cache"
    apt.parent.mkdir()
    (tmp_path / "dump.txt").write_text(invented_packages())
    apt.write_text(f"#!/bin/sh\nexec cat '{tmp_path / 'dump.txt'}'\n")
    apt.chmod(0o755)
    folder = tmp_path / "page"
    folder.mkdir()
    path = f"{apt.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    found = blocks(WITH_CODE["gallery/package-graph"])
    printed = follow(WITH_CODE["gallery/package-graph"], folder, PATH=path)
    clusters = printed[max(number for number, block in enumerate(found) if block.language == "python")]
    for language in LANGUAGES:
        assert re.search(rf"section={language} \+[2-9]", clusters), clusters
    code = [line for block in found if block.language in ("sh", "python") for line in block.text.splitlines()]
    assert sum(bool(re.search(r"\bkcagc |^python ", line)) for line in code) <= 12
    assert "[data" not in "".join(code)  # no rule is written by hand


def test_a_federation_gets_to_a_verified_result_with_twelve_commands_and_no_edited_file():
    code = "".join(block.text for block in blocks(WITH_CODE["howto/federation"]) if block.language == "sh")
    commands = re.findall(r"(?m)^kcagc (\w+)", code[: code.rindex("kcagc verify") + len("kcagc verify")])
    assert {"serve", "invite", "join", "propose", "approve", "party", "verify"} <= set(commands)
    assert len(commands) <= 12
    assert not re.search(r"\b(sed|tee|patch|vi)\b|> *\S*\.toml", code)


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
