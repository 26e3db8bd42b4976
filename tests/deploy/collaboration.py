"""A small collaboration on disk for the tests: folders as `kcagc init` writes them, and tables that have clusters."""

from __future__ import annotations

import re
import socket
from itertools import combinations

import numpy as np

from kcagc.deploy.config import Config
from kcagc.deploy.folders import FolderPlan, write_folders
from kcagc.deploy.run import RoleRun

NODES = 24


def made(root, parties=("alice", "bob", "carol"), *, aggregator=None, n_clusters=3, data=True):
    """Write the folders of all roles, with data unless that is what a test brings; give the configuration files."""
    plan = FolderPlan.of(
        list(parties),
        aggregator=aggregator,
        address="localhost:7443",
        listen="127.0.0.1:7443",
        n_clusters=n_clusters,
        psi=1,
    )
    configs = write_folders(root, plan)
    if data:
        for number, name in enumerate(plan.parties):
            write_data(configs[name].parent / "data", seed=number)
    return configs


def names_of(count=NODES):
    return [f"n{number:03}" for number in range(count)]


def edges_of(count=NODES):
    """The edges that all parties share: three groups, dense inside and sparse between."""
    random = np.random.default_rng(5)
    pairs = [(one, two, random.random()) for one, two in combinations(range(count), 2)]
    return [(one, two) for one, two, drawn in pairs if two == one + 3 or drawn < (0.4 if one % 3 == two % 3 else 0.05)]


def table_of(seed, count=NODES, columns=3):
    random = np.random.default_rng(100 + seed)
    return random.normal(scale=3, size=(3, columns))[np.arange(count) % 3] + random.normal(size=(count, columns))


def write_data(folder, *, seed, count=NODES, keep=None, shuffled=False, stem=""):
    """Write a party's two files, of all nodes or of those in `keep`; `shuffled` brings rows and edges in any order."""
    names, keep = names_of(count), range(count) if keep is None else keep
    table = table_of(seed, count).tolist()
    rows = [f"{names[node]},{','.join(map(repr, table[node]))}" for node in keep]
    edges = [f"{names[one]},{names[two]}" for one, two in edges_of(count) if one in keep and two in keep]
    if shuffled:
        for lines in (rows, edges):
            np.random.default_rng(seed).shuffle(lines)
    (folder / f"{stem}features.csv").write_text("\n".join(["id,f0,f1,f2", *rows]) + "\n")
    (folder / f"{stem}edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")


def on_a_free_port(configs):
    """Let all roles meet at a port of this machine that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    for path in configs.values():
        edit(path, r"^(listen|address) = .*", rf'\1 = "127.0.0.1:{port}"')


def edit(path, pattern, replacement):
    """Change what a configuration says; a pattern that is not there is a mistake of the test."""
    text, count = re.subn(pattern, replacement, path.read_text(), flags=re.MULTILINE)
    assert count, pattern
    path.write_text(text)


def task(path):
    return RoleRun(Config.load(path))
