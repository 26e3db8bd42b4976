"""Every example runs in its small form and shows its topic."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.append(str(EXAMPLES.parent / "docs" / "_ext"))
from run_notebook import executed  # noqa: E402 - its folder is not a package


def run(name, *words, folder=None):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) <= 25
    assert max(len(line) for line in lines) <= 140
    return done.stdout


def percentages(text):
    return [float(found) for found in re.findall(r"([\d.]+)%", text)]


def test_together_is_better_than_anybody_alone_and_not_far_from_pooled():
    *alone, joint, cells, basic, pooled = percentages(run("pooled_against_collaborative.py", "600"))
    assert len(alone) == 3
    assert max(alone) < min(joint, cells, basic)
    assert joint > pooled - 2
    assert cells > pooled - 8


def test_three_organisations_end_with_the_same_labels(tmp_path):
    printed = run("three_organisations.py", str(tmp_path / "trial"))
    assert "all parties have the same clusters: True" in printed
    assert "opened/comparisons.blinded" in printed
    assert "labelled" not in printed


def test_new_nodes_are_placed_about_as_well_as_those_of_the_fit():
    fit, predicted = percentages(run("predict_new_nodes.py"))
    assert predicted > fit - 10


def test_more_local_clusters_make_more_cells():
    rows = re.findall(r"^ *(\d?k|basic) +[\d.]+% +(\d+)", run("choosing_local_clusters.py"), flags=re.MULTILINE)
    cells = [int(count) for _, count in rows]
    assert [name for name, _ in rows] == ["k", "2k", "4k", "8k", "basic"]
    assert cells == sorted(cells)


def test_a_model_with_a_filter_of_the_user_is_saved_loaded_and_predicts():
    printed = run("chebyshev_filter.py")
    assert re.search(r"heat kernel: \d+ sparse products, error \de-07", printed)
    *fits, predicted = percentages(printed)
    assert len(fits) == 2
    assert predicted > min(fits) - 10


def test_between_two_parties_the_others_distances_come_out_and_kcagc_refuses():
    printed = run("what_two_parties_leak.py")
    for recovered, true in re.findall(r"recovered ([\d.]+), true ([\d.]+)", printed):
        assert recovered == true
    assert float(re.search(r"largest error (\S+)", printed)[1]) < 1e-12
    assert re.search(r'refused: .*"two-party-sum"', printed, flags=re.DOTALL)
    assert "weaker than the default: none" in printed


def test_two_frames_and_a_list_of_edges_become_labels_an_explanation_and_reports(tmp_path):
    printed = run("tables_to_report.py", str(tmp_path / "pages"))
    assert re.search(r"customer-7 is in cluster \d", printed)
    bank, shop = ((tmp_path / "pages" / f"{name}.html").read_text() for name in ("bank", "shop"))
    assert "groceries" in shop
    assert "groceries" not in bank
    lines = [line for line in (EXAMPLES / "tables_to_report.py").read_text().split('"""')[2].splitlines() if line]
    assert len(lines) <= 15


def test_the_notebook_runs_from_top_to_bottom_and_shows_what_it_says(tmp_path):
    stored = nbformat.read(EXAMPLES.parent / "docs" / "notebook.ipynb", as_version=4)
    nbformat.validate(stored)
    fresh = executed(stored, tmp_path)
    assert all(cell["outputs"] for cell in stored.cells if cell["cell_type"] == "code")
    for before, now in zip(stored.cells, fresh.cells, strict=True):
        assert shown(before) == shown(now), before["source"]
    pictures = [kind for cell in fresh.cells for one in cell.get("outputs", ()) for kind in one.get("data", ())]
    assert pictures.count("image/png") == 3
    *alone, pooled, together = percentages("".join(text for cell in fresh.cells for text in shown(cell)))[:5]
    assert max(alone) + 10 < together
    assert together > pooled - 2


def shown(cell):
    """Return the texts of a cell; a stream can come in several parts."""
    outputs = cell.get("outputs", ())
    streams = {
        name: "".join(one["text"] for one in outputs if one.get("name") == name) for name in ("stdout", "stderr")
    }
    return [*streams.values(), *(one["data"]["text/plain"] for one in outputs if "data" in one)]


def test_the_files_of_the_tutorial_are_the_same_every_time(tmp_path):
    for folder in ("one", "two"):
        run("tutorial_data.py", folder, folder=tmp_path)
    first = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}
    assert len(first) == 9


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_listed_on_the_page_of_examples_and_says_how_to_run_it(path):
    page = (EXAMPLES.parent / "docs" / "examples.md").read_text()
    assert f"`{path.name}`" in page
    assert f"python examples/{path.name}" in path.read_text()


@pytest.mark.parametrize(("case", "tables"), [("ring", 2), ("hospitals", 3)])
def test_the_data_of_the_gallery_are_the_same_in_every_run(tmp_path, case, tables):
    assert f"{tables} tables" in run("gallery_data.py", case, str(tmp_path / "one"))
    run("gallery_data.py", case, str(tmp_path / "two"))
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(files) == tables + 2
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


DUMP = """\
Package: libfoo-perl
Source: foo (1.2)
Version: 1.2-1
Installed-Size: 1200
Maintainer: Debian Perl Group <pkg-perl-maintainers@lists.alioth.debian.org>
Architecture: all
Depends: perl:any (>= 5.10), libbar-perl | libbaz-perl, no-such-package
Recommends: libfoo-perl, libbaz-perl (>= 2)
Description: "Foo", the Perl module, of 1,000 bars
Homepage: https://www.metacpan.org/dist/Foo
Tag: devel::lang:perl, devel::library, implemented-in::perl,
 role::devel-lib
Section: universe/perl
Size: 10200

Package: perl
Maintainer: A Person <person@example.org>
Description: interpreter

Package: libbaz-perl
Depends: perl
Description: module of bars

Package: perl
Version: 2
Description: an older version
"""


def fake_apt(folder, text, monkeypatch):
    """Put a command apt-cache first on the path that prints a text."""
    folder.mkdir()
    (folder / "dump.txt").write_text(text, encoding="utf-8")
    command = folder / "apt-cache"
    command.write_text(f"#!/bin/sh\n[ \"$1\" = dumpavail ] && exec cat '{folder / 'dump.txt'}'\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return {row.get("package", number): row for number, row in enumerate(csv.DictReader(file))}


def test_package_tables_hold_what_apt_says(tmp_path, monkeypatch):
    more = "".join(f"Package: p{number}\nDepends: perl\nDescription: tool\n\n" for number in range(20))
    fake_apt(tmp_path / "bin", f"{DUMP}\n{more}", monkeypatch)
    assert "wrote 23 packages and 23 dependencies" in run("package_graph.py", str(tmp_path / "out"))
    archive, maintainers, users, edges = (
        rows_of(tmp_path / "out" / f"{name}.csv") for name in ("archive", "maintainers", "users", "depends")
    )
    assert archive["libfoo-perl"]["section"] == "perl"
    assert (archive["libfoo-perl"]["installed_kb"], archive["perl"]["installed_kb"]) == ("1200", "")
    assert archive["perl"]["version"] == ""  # of the first of two versions
    assert maintainers["libfoo-perl"]["team"] == "pkg-perl-maintainers@lists.alioth.debian.org"
    assert (maintainers["libfoo-perl"]["upstream"], maintainers["perl"]["team"]) == ("metacpan.org", "")
    assert (users["libfoo-perl"]["implemented-in"], users["libfoo-perl"]["role"]) == ("perl", "devel-lib")
    assert users["libfoo-perl"]["description"] == '"Foo", the Perl module, of 1,000 bars'
    assert (users["libfoo-perl"]["says_module"], users["perl"]["says_module"]) == ("1", "0")
    found = {(row["source"], row["target"]) for row in edges.values()}
    # The first alternative that exists, without version and architecture, no loop, and no unknown package.
    assert {("libfoo-perl", "perl"), ("libbaz-perl", "libfoo-perl"), ("libbaz-perl", "perl")} <= found
    assert len(found) == 23


def test_without_packages_the_example_says_what_is_missing_and_writes_nothing(tmp_path, monkeypatch):
    fake_apt(tmp_path / "bin", "Package: alone\nDescription: one\n", monkeypatch)
    assert "apt-get update" in run("package_graph.py", str(tmp_path / "out"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "skipped: there is no apt-cache" in run("package_graph.py", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
