"""Every example runs in its small form and shows its topic."""

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
