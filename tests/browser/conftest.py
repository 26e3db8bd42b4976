"""A real browser for the report: `make test-report` installs what it needs; without `-m browser` nothing here runs."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from kcagc.graph.ids import NodeIds
from kcagc.report.insights.description import Description, Insights
from kcagc.report.insights.nodes import NodeInsights
from kcagc.report.names import ClusterNames
from kcagc.report.page import write_page
from report.folders import SEVEN, as_prediction, run_in

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HOSTILE = "<script>hacked=1</script>\"><img src=x onerror=hacked=1> ' onfocus='hacked=1"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: opens pages in Chromium; run by `make test-report`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "browser" in (config.option.markexpr or "").replace("not browser", ""):
        return
    here = [item for item in items if item.get_closest_marker("browser")]
    if here:
        config.hook.pytest_deselected(items=here)
        items[:] = [item for item in items if item not in here]


@pytest.fixture(scope="session")
def chromium():
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("KCAGC_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    assert found, "there is no Chromium: install it, or set KCAGC_CHROMIUM to its path"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Pages of all kinds, by what they are: files on disk."""
    run = run_in(tmp_path_factory.mktemp("three"))
    two = run_in(
        tmp_path_factory.mktemp("two"),
        ("alice", "bob"),
        aggregator="bob",
        accept='["two-party-sum", "labelled-sums"]',
    )
    tree = run_in(tmp_path_factory.mktemp("tree"), SEVEN)
    party = run.tasks["alice"].files.folder
    folders = {
        "party": party,
        "coordinator": run.tasks["coordinator"].files.folder,
        "party that sums": two.tasks["bob"].files.folder,
        "tree": tree.tasks["party-0"].files.folder,
        "prediction": as_prediction(run, tmp_path_factory.mktemp("predicted") / "prediction"),
        "crowded": crowded(party, tmp_path_factory.mktemp("crowded") / "result"),
        "hostile": hostile(party, tmp_path_factory.mktemp("hostile") / "result"),
    }
    folders["million"] = million(party, tmp_path_factory.mktemp("million") / "result")
    return {name: folder / "report.html" for name, folder in folders.items()}


def million(source, folder):
    """The results of a run with a million nodes, of which the page holds a sample."""
    shutil.copytree(source, folder)
    random, n, k = np.random.default_rng(0), 1_000_000, 12
    labels = np.arange(n) % k
    rows = random.normal(scale=5, size=(k, 3))[labels] + random.normal(size=(n, 3))
    found = Insights.of(Description(labels, k, rows, ["age", "income", "visits"], rows, None, None, party="alice"))
    found.nodes.save(folder / "nodes.npz")
    (folder / "clusters.json").write_text(json.dumps(found.clusters))
    summary = json.loads((folder / "run.json").read_text()) | {"nodes": n, "cluster_sizes": found.nodes.sizes}
    (folder / "run.json").write_text(json.dumps(summary))
    write_page(folder)
    return folder


def crowded(source, folder):
    """Many clusters, columns and nodes with names that are too long, known labels: what could burst a page."""
    shutil.copytree(source, folder)
    random, n, k = np.random.default_rng(0), 1_500, 50
    labels = np.arange(n) % k
    rows = random.normal(scale=5, size=(k, 6))[labels] + random.normal(size=(n, 6))
    names = [f"{'average_monthly_turnover_' * 4}{column}" for column in range(6)]
    ids = NodeIds([f"{'a-node-with-a-name_' * 5}{one}" for one in range(n)], where="crowded")
    found = Insights.of(Description(labels, k, rows, names, rows, random.random(n), None, ids=ids, party="alice"))
    found.nodes.save(folder / "nodes.npz")
    ClusterNames({one: f"a name that is rather long, {one}" for one in range(0, k, 2)}).save(folder)
    said = found.clusters
    said["links"] = {"weights": [[1.0] * k] * k, "shares": [[1 / k] * k] * k}
    (folder / "clusters.json").write_text(json.dumps(said))
    known = {
        "nodes": n,
        "measures": {"accuracy": 0.5, "nmi": 0.5, "ari": 0.5, "macro_f1": 0.5},
        "classes": [f"a class with a long name, number {one}" for one in range(k)],
        "counts": [[n // k * (row == column) for column in range(k)] for row in range(k)],
    }
    (folder / "quality.json").write_text(json.dumps(known))
    summary = json.loads((folder / "run.json").read_text()) | {"nodes": n, "cluster_sizes": [n // k] * k}
    (folder / "run.json").write_text(json.dumps(summary))
    write_page(folder)
    return folder


def hostile(source, folder):
    """Everything that came from a peer, or from a file, tries to do something."""
    shutil.copytree(source, folder)

    def renamed(value):
        if isinstance(value, dict):
            return {key: renamed(one) for key, one in value.items()}
        if isinstance(value, list):
            return [renamed(one) for one in value]
        return f"{value}{HOSTILE}" if value in ("alice", "bob", "carol", "f0", "f1") else value

    for file in ("run.json", "clusters.json"):
        (folder / file).write_text(json.dumps(renamed(json.loads((folder / file).read_text()))))
    lines = (folder / "ledger.jsonl").read_text().splitlines()
    (folder / "ledger.jsonl").write_text("\n".join(json.dumps(renamed(json.loads(line))) for line in lines))
    nodes = NodeInsights.load(folder / "nodes.npz")
    ids = NodeIds([f"{one}{HOSTILE}</script><!--" for one in nodes.ids.tolist()], where="hostile")
    columns = [f"{one}{HOSTILE}</script>" for one in nodes.columns]
    replace(nodes, ids=ids, columns=columns, party=f"alice{HOSTILE}").save(folder / "nodes.npz")
    ClusterNames({1: "</script><img src=x onerror=hacked=1>"}).save(folder)
    write_page(folder)
    return folder
