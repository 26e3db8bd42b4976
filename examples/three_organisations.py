"""Three organisations and a coordinator as four processes of the `kcagc` command, with mutual TLS, on this machine.

    python examples/three_organisations.py [FOLDER]

It does the work of four administrators, and then compares the results of all roles.
"""

from __future__ import annotations

import csv
import json
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

PARTIES = ("alice", "bob", "carol")


def kcagc(*words: str) -> list[str]:
    """Return the command line of kcagc with this interpreter."""
    return [sys.executable, "-m", "kcagc", *words]


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


def clusters(path: Path) -> tuple[tuple[str, str], ...]:
    """Read the cluster of each node; other columns are the view of the party."""
    with path.open(newline="", encoding="utf-8") as file:
        return tuple((row["id"], row["cluster"]) for row in csv.DictReader(file))


def main(folder: Path) -> None:
    """Write the folders, run the four roles, compare the results."""
    address = f"localhost:{free_port()}"
    init = ["init", str(folder), "--parties", ",".join(PARTIES), "--psi", "2", "--address", address, "--example-data"]
    subprocess.run(kcagc(*init), check=True, stdout=subprocess.DEVNULL)

    roles = dict.fromkeys(PARTIES, "party") | {"coordinator": "coordinator"}
    running = {
        name: subprocess.Popen(
            kcagc(command, "--config", str(folder / name / "kcagc.toml"), "--json"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for name, command in roles.items()
    }
    summaries = {name: json.loads(process.communicate()[0]) for name, process in running.items()}

    for name, summary in summaries.items():
        sent = f"sent {summary['bytes_sent'] / 1e3:,.0f} kB in {summary['messages_sent']} messages"
        print(f"{name:<12} {sent}, {summary['rounds']} rounds")
    found = {clusters(folder / name / "result" / "labels.csv") for name in PARTIES}
    print(f"\nall parties have the same clusters: {len(found) == 1}")

    learned: Counter[str] = Counter()
    for line in (folder / "coordinator" / "result" / "ledger.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["receiver"] == "coordinator" and entry["kind"].startswith("opened/"):
            learned[entry["kind"]] += 1
    print(f"sums that opened to the coordinator: {dict(learned)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary) / "trial")
