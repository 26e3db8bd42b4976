"""`python -m standing`: the long campaign on one standing coordinator; its results are kept with their commit.

Three federations of three parties run at once, many runs follow each other, and a party is killed in the middle.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from experiments.paper.network.fork_server import ForkServer
from role_process import ENVIRONMENT, WARM
from standing.campaign import Standing, growth, many_runs

RESULTS = Path(__file__).parent / "results" / "standing.json"
FEDERATIONS = ("east", "north", "west")
# How much more a process may hold at the end: beyond this it has a leak.
MOST = {"memory_mib": 30.0, "descriptors": 30, "threads": 3, "party_memory_mib": 30.0, "party_descriptors": 8}


@click.command()
@click.option("--runs", default=200, show_default=True, help="Runs that follow each other.")
@click.option("--at-once", default=10, show_default=True, help="Rounds in which all federations run at the same time.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="Where the figures are kept.")
def main(runs: int, at_once: int, results: Path) -> None:
    """Run the campaign; the exit code is 1 if something grows or a killed party blocks others."""
    with ForkServer(*WARM, environment=ENVIRONMENT) as forks, tempfile.TemporaryDirectory() as folder:
        with Standing(Path(folder), forks, FEDERATIONS) as standing:
            together = all_at_once(standing, at_once)
        with Standing(Path(folder) / "row", forks, FEDERATIONS[:1]) as standing:
            begin = time.monotonic()
            row = many_runs(standing, FEDERATIONS[0], runs)
            minutes = (time.monotonic() - begin) / 60
            log_bytes = len(standing.log("serve"))
    grown = {field: round(growth(row, field), 1) for field in MOST}
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()  # noqa: S607
    found = {
        "commit": commit,
        "at_once": together,
        "in_a_row": {"runs": runs, "minutes": round(minutes, 1), "log_bytes": log_bytes, "growth": grown, "each": row},
    }
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(found, indent=1) + "\n")
    click.echo(json.dumps({**found["at_once"], "growth": grown}, indent=1))
    sys.exit(any(grown[field] > most for field, most in MOST.items()))


def all_at_once(standing: Standing, rounds: int) -> dict[str, object]:
    """Let all federations run at the same time, then kill a party of one and let the others run."""
    for name in FEDERATIONS:
        standing.wait_for_runs(name)
    before = standing.held()
    seconds = [standing.runs_at_once(FEDERATIONS) for _ in range(rounds)]
    after = standing.held()
    return {
        "rounds": rounds,
        "seconds": [{name: round(value, 2) for name, value in one.items()} for one in seconds],
        "memory_mib": [before.memory_mib, after.memory_mib],
        "descriptors": [before.descriptors, after.descriptors],
        "threads": [before.threads, after.threads],
        "beside_a_killed_party": beside_a_killed_party(standing),
    }


def beside_a_killed_party(standing: Standing) -> dict[str, float]:
    """Kill a party in the middle of its run; return the seconds of runs of the other federations meanwhile."""
    victim, *others = FEDERATIONS
    path = standing.configs[victim]["alice"]
    waiting = [one for one in standing.running if one is not standing.serve][: len(standing.configs[victim]) - 1]
    for one in waiting:  # so that the run of the victim cannot end
        standing.kill(one)
    alice = standing.start("killed", ["party", "--config", str(path), "--new-session", "--no-report"])
    standing.until("the run of the killed party", lambda: standing.metric("kcagc_parties_connected", victim) == 1)
    standing.kill(alice)
    found = {name: round(seconds, 2) for name, seconds in standing.runs_at_once(others).items()}
    ended = "kcagc_runs_ended_total"
    standing.until("the end of the dead run", lambda: standing.metric(ended, victim, state="failed") == 1)
    standing.wait_for_runs(victim)
    found["the next run of the federation"] = round(standing.one_run(victim), 2)
    return found


if __name__ == "__main__":
    main()
