"""Result folders of runs in one process, as the roles of a deployment leave them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np

from deploy.collaboration import edit, made, task, write_data
from kcagc.deploy.finished import compare_alone, describe_clusters
from kcagc.deploy.results import write_results
from kcagc.disclosure import Ledger
from kcagc.protocol.aggregator import AggregatorResult
from kcagc.report.insights.description import Description, describe
from kcagc.report.page import write_page
from kcagc.simulation import simulate_fit

SEVEN = tuple(f"party-{number}" for number in range(7))


def run_in(
    root, parties=("alice", "bob", "carol"), *, aggregator=None, accept="[]", settings="", count=None, changes=()
):
    """Fit in one process, and have every role leave its results and its report; give the tasks by role.

    `count` brings other numbers of nodes, `changes` patterns of the configuration and their replacements.
    """
    configs = made(root, parties, aggregator=aggregator)
    for number, (name, path) in enumerate(configs.items()):
        edit(path, r"^\[session\]\n", f"[session]\n{settings}\n")
        for pattern, replacement in changes:
            edit(path, pattern, replacement)
        if count is not None and name in parties:
            write_data(path.parent / "data", seed=number, count=count)
        if name in parties:
            edit(path, r"^accept = .*", f"accept = {accept}")
    tasks = {name: task(path) for name, path in configs.items()}
    data = {name: one.data for name, one in tasks.items() if one.data is not None}
    ledger, seeds = Ledger(), dict.fromkeys(data, 0)
    first = tasks[parties[0]]
    results = simulate_fit(first.agreement.parameters, data, policy=first.config.policy(), seeds=seeds, ledger=ledger)
    for name, one in tasks.items():
        result = results.get(name) or AggregatorResult(session=b"\x02" * 16, sums=11)
        mine = [entry for entry in ledger if name in (entry.sender, entry.receiver)]
        disclosed = [(1_000_000_000 + number / 8, entry) for number, entry in enumerate(mine)]
        write_results(one.files, one, result, disclosed)
        describe_clusters(one, result)
        compare_alone(one, result)
        write_page(one.files.folder)
    return SimpleNamespace(tasks=tasks, results=results, configs=configs)


def as_prediction(run, folder, name="alice"):
    """Make the folder of a prediction from that of a fit: eight nodes, of which some clusters got none."""
    source, result = run.tasks[name].files.folder, run.results[name]
    chosen = np.arange(8)
    folder.mkdir()
    summary = json.loads((source / "run.json").read_text())
    for absent in ("merges", "session", "delays"):
        summary.pop(absent, None)
    summary |= {
        "task": "predict",
        "nodes": 8,
        "rounds": 1,
        "cluster_sizes": np.bincount(result.labels[chosen], minlength=3).tolist(),
    }
    (folder / "run.json").write_text(json.dumps(summary))
    (folder / "ledger.jsonl").write_bytes((source / "ledger.jsonl").read_bytes())
    table = run.tasks[name].data.features[chosen]
    said = describe(
        Description(result.labels[chosen], 3, table, ["f0", "f1", "f2"], result.rows[chosen], np.zeros(8), None)
    )
    (folder / "clusters.json").write_text(json.dumps(said))
    write_page(folder)
    return folder
