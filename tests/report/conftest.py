import pytest

from report.folders import SEVEN, as_prediction, run_in


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """Three parties and a coordinator."""
    return run_in(tmp_path_factory.mktemp("three"))


@pytest.fixture(scope="session")
def pages(run, tmp_path_factory):
    """The page of every kind of role and run, by what it is."""
    two = run_in(
        tmp_path_factory.mktemp("two"),
        ("alice", "bob"),
        aggregator="bob",
        accept='["two-party-sum", "labelled-sums"]',
    )
    tree = run_in(tmp_path_factory.mktemp("tree"), SEVEN, settings='method = "tree"')
    cells = run_in(tmp_path_factory.mktemp("cells"), settings='method = "cells"')
    opened = run_in(
        tmp_path_factory.mktemp("opened"),
        accept='["anonymous-geometry"]',
        settings='method = "joint"\njoint_rows = "coordinator"',
    )
    swept = run_in(
        tmp_path_factory.mktemp("swept"),
        count=90,
        changes=[(r"^n_clusters = .*", "n_clusters = [2, 6]"), (r"^psi = .*", 'psi = "auto"')],
    )
    searched = run_in(tmp_path_factory.mktemp("searched"), count=90, changes=[(r"^psi = .*", 'psi = "auto"')])
    predicted = as_prediction(run, tmp_path_factory.mktemp("predicted") / "prediction")
    folders = {
        "party": run.tasks["alice"].files.folder,
        "coordinator": run.tasks["coordinator"].files.folder,
        "party that sums": two.tasks["bob"].files.folder,
        "one of two": two.tasks["alice"].files.folder,
        "tree": tree.tasks["party-0"].files.folder,
        "joint": run.tasks["carol"].files.folder,
        "cells": cells.tasks["alice"].files.folder,
        "joint, coordinator sees rows": opened.tasks["alice"].files.folder,
        "prediction": predicted,
        "sweep": swept.tasks["alice"].files.folder,
        "sweep, coordinator": swept.tasks["coordinator"].files.folder,
        "search for ψ": searched.tasks["alice"].files.folder,
    }
    return {name: (folder / "report.html").read_text() for name, folder in folders.items()}
