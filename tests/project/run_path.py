"""List the files that a party's process executes from its configuration to its labels.

`python tests/project/run_path.py` starts three parties and a coordinator as real processes, and prints the list.
"""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src"
MAX_FILES = 80
SECONDS = 120.0

# Runs a command and writes down, when the labels get their final name, which modules are imported by then.
_OBSERVED = """
import json, os, sys
target = sys.argv.pop(1)
def observe(event, arguments):
    if event == "os.rename" and os.path.basename(os.fspath(arguments[1])).startswith("labels."):
        files = [getattr(module, "__file__", None) for name, module in list(sys.modules.items())
                 if name.split(".")[0] == "kcagc"]
        if not os.path.exists(target):
            with open(target, "w") as out:
                json.dump(files, out)
sys.addaudithook(observe)
from kcagc.cli.main import main
main()
"""


def executed_files(folder: Path) -> dict[str, list[str]]:
    """Return, for each party of a small run, the paths in the source folder that it had executed with its labels."""
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]
    from kill.scenarios import SCENARIOS, free_port

    scenario = SCENARIOS["coordinator"]
    scenario.write(folder / "roles")
    port = free_port()
    place, processes = f"127.0.0.1:{port}", {}
    for role in reversed(scenario.roles):  # the coordinator first: otherwise the parties diagnose their connections
        command = ["party", "--address", place] if role in scenario.parties else ["coordinator", "--listen", place]
        config = str(folder / "roles" / role / "kcagc.toml")
        processes[role] = subprocess.Popen(
            [sys.executable, "-c", _OBSERVED, str(folder / f"{role}.json"), *command, "--config", config],
            env=os.environ | {"KCAGC_REPORT": "0"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if role not in scenario.parties:
            wait_until_listening(port)
    for role, process in processes.items():
        _, errors = process.communicate(timeout=SECONDS)
        if process.returncode != 0:
            raise RuntimeError(f"{role} ended with exit code {process.returncode}:\n{errors}")
    return {party: counted(json.loads((folder / f"{party}.json").read_text())) for party in scenario.parties}


def wait_until_listening(port: int) -> None:
    """Wait until a process accepts connections at a port of this machine."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)


def counted(files: list[str | None]) -> list[str]:
    """Return the files that a reader has to read: the indexes of packages, which only list names, are left out."""
    return sorted(
        Path(file).relative_to(SOURCE / "kcagc").as_posix()
        for file in files
        if file is not None and not is_index(Path(file))
    )


def is_index(path: Path) -> bool:
    """Return whether a file is a package's index: it imports and lists names, at once or when they are first used."""
    if path.name != "__init__.py":
        return False
    body = ast.parse(path.read_text("utf-8")).body
    defined = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    return defined <= {"__getattr__", "__dir__"}


def main() -> None:
    """Print the files of the party with the most."""
    with tempfile.TemporaryDirectory() as folder:
        found = max(executed_files(Path(folder)).values(), key=len)
    print("\n".join(found))
    packages = Counter(path.partition("/")[0] if "/" in path else "(top level)" for path in found)
    print(", ".join(f"{package} {number}" for package, number in sorted(packages.items())))
    print(f"{len(found)} files from configuration to labels (at most {MAX_FILES}), without package indexes")


if __name__ == "__main__":
    main()
