"""The deployment page: its commands run in their order in a shell."""

import csv
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

from kcagc import KCAGC
from kcagc.cli import roles
from kcagc.data import TablePreprocessor
from kcagc.datasets import load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def follow(folder, **settings):
    """Run every shell block of the page as one script that stops at the first failure."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) >= 6
    script = "set -e\n" + "\n".join(blocks).replace("localhost:7443", f"localhost:{free_port()}")
    bin_folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", **settings}
    return subprocess.run(
        ["bash", "-c", script],  # noqa: S607
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


def labels(path):
    with path.open() as file:
        return {row["id"]: int(row["cluster"]) for row in csv.DictReader(file)}


def test_the_page_leads_to_the_labels_of_the_estimator(tmp_path):
    done = follow(tmp_path, KCAGC_RANDOM_STATE="0")
    assert done.returncode == 0, done.stderr
    data = load("demo")
    same_rule = TablePreprocessor(default={"scale": "standard"})
    model = KCAGC(n_clusters=5, psi=2, transformers=same_rule, random_state=0)
    model.fit(list(data.frames().values()), adjacency=data.adjacency)
    for party in ("alice", "bob", "carol"):
        found = labels(tmp_path / "machines" / party / "result" / "labels.csv")
        in_order = [found[f"person-{number:03}"] for number in range(data.n_nodes)]
        np.testing.assert_array_equal(in_order, model.labels_)
    assert "this run has finished already" in done.stderr
    for name in ("alice", "bob", "carol"):
        assert f"coordinator: {name} is connected" in done.stderr
    # Nothing of the session's secrets is left, and nothing that only one organisation may have lies elsewhere.
    for private in (tmp_path / "machines").glob("*/private/*"):
        assert private.stat().st_mode & 0o077 == 0
        others = [path for path in tmp_path.rglob("*") if path.is_file() and path != private]
        assert not [path for path in others if private.read_bytes() in path.read_bytes()]


def test_every_option_and_variable_of_the_page_exists():
    shown = ""
    for command in ("party", "predict"):
        asked = [sys.executable, "-m", "kcagc", command, "--help"]
        shown += subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    known = {one.envvar for command in (roles.party, roles.predict) for one in command.params}
    table = PAGE.partition("| option | variable |")[2]
    for option in re.findall(r"`(--[a-z-]+)`", table.partition("\n\n")[0]):
        assert option in shown
    for variable in re.findall(r"`(KCAGC_[A-Z_]+)`", table):
        assert variable in known


def test_the_page_of_exit_codes_has_every_class_of_error():
    from kcagc import errors

    page = (ROOT / "docs" / "exit-codes.md").read_text()
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", page, flags=re.MULTILINE)}
    classes = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.KcagcError)]
    assert listed == {0, 130} | {one.exit_code for one in classes}
    own = [one.exit_code for one in classes if "exit_code" in vars(one)]  # a subclass may share the code of its parent
    assert len(set(own)) == len(own)
