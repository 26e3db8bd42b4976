"""Files of a small collaboration, and rehearsals in this process, as a user calls them."""

import json

from click.testing import CliRunner

from deploy.collaboration import edit, made, write_data
from kcagc.cli.main import cli

NODES = 90  # enough edges to hold some out


def folders(root, parties=("alice", "bob"), **more):
    """Write the folders of all roles, with tables of 90 nodes in three groups."""
    configs = made(root, parties, **more)
    for number, name in enumerate(parties):
        write_data(configs[name].parent / "data", seed=number, count=NODES)
        edit(configs[name], r"^psi = .*", "psi = 1")
    return configs


def tables(root):
    """Return the options for the tables of two parties, without configurations."""
    names = {}
    for number, name in enumerate(("bank", "shop")):
        (root / name).mkdir(parents=True)
        write_data(root / name, seed=number, count=NODES)
        names[name] = (root / name / "features.csv").rename(root / f"{name}.csv")
    graph = root / "shop" / "edges.csv"
    return [*(part for path in names.values() for part in ("--table", str(path))), "--graph", str(graph)]


def classes(root):
    """Write the true groups of the nodes, but not of the first ten."""
    path = root / "truth.csv"
    path.write_text("id,group\n" + "".join(f"n{node:03},g{node % 3}\n" for node in range(10, NODES)))
    return path


def simulate(*arguments):
    """Run `kcagc simulate`; errors of kcagc are raised."""
    done = CliRunner().invoke(cli, ["simulate", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def simulated(*arguments):
    """Return the document of a rehearsal that ends well."""
    done = simulate(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)
