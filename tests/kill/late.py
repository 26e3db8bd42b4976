"""Roles that are killed or interrupted and come back after all timeouts: the same commands complete the run.

`python -m kill.late` disturbs each role in turn at several points, for 2, 3 and 5 parties, with a coordinator and with
a party that aggregates, and keeps the figures in tests/kill/results. Names of scenarios run these only.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from experiments.paper.network.fork_server import ForkServer
from experiments.paper.store import provenance
from kill import evidence
from kill.campaigns import Campaign
from kill.scenarios import KILLED, SCENARIOS, Boundary, Run
from role_process import ENVIRONMENT, WARM

RESULTS = Path(__file__).parent / "results" / "late.json"
AGAIN = (7, 10)  # exit codes after which a service manager starts a role again: ended by another role, peer timeout
SHORT = ("--peer-timeout", "3")
POINTS = ("commit done", "message arrives", "part left", "file done", "erased")
SHARES = (0.0, 0.3, 0.6, 0.8, 0.9, 1.0)  # of these boundaries
WAYS = {"kill": KILLED, "interrupt": 130}  # SIGKILL and SIGTERM, with the exit codes
LATE_SCENARIOS = ("joint two parties", "two parties", "coordinator", "party aggregates", "tree", "five parties")


class Late(NamedTuple):
    """A case. A killed role comes back before the others, an interrupted one while they wait again."""

    scenario: str
    role: str
    boundary: Boundary
    way: str


def late_points(campaign: Campaign, scenario: str, role: str) -> list[Boundary]:
    """Return boundaries of a role from its start to its end."""
    found = campaign.reference(scenario).of(role, *POINTS)
    return list(dict.fromkeys(found[round(share * (len(found) - 1))] for share in SHARES))


def run_late(campaign: Campaign, case: Late) -> int:
    """Run a case; return how often a role was started again."""
    scenario, late, boundary, way = case
    with campaign.run(scenario) as run:
        for role in run.scenario.roles:
            run.start(role, options=SHORT, **({way: list(boundary)} if role == late else {}))
        for role in run.scenario.roles:
            run.end_of(role)
        assert run.codes[late] == [WAYS[way]], run.logs(late)
        others = [role for role in run.scenario.roles if role != late]
        for roles in (others, [late]) if way == "interrupt" else ([late], others):
            for role in roles:
                run.start(role)
            time.sleep(0.5)  # the others come back at any moment, and need not be there yet
        run.run_to_end(again=AGAIN)
        assert_complete(campaign, run)
        started = sum(map(len, run.codes.values())) - len(run.scenario.roles)
    shutil.rmtree(run.folder)
    return started


def assert_complete(campaign: Campaign, run: Run) -> None:
    assert run.labels() == campaign.reference(run.scenario.name).labels, run.logs()
    evidence.check_sent(run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", default=LATE_SCENARIOS)
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found, failures = kept.get("scenarios", {}), []
    with ForkServer(*WARM, environment=ENVIRONMENT) as server, tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(server, Path(folder))
        for scenario in parser.parse_args().scenarios:
            begin, roles = time.monotonic(), SCENARIOS[scenario].roles
            places = [(role, at) for role in roles for at in late_points(campaign, scenario, role)]
            cases = [(Late(scenario, role, at, way),) for role, at in places for way in WAYS]
            restarts, failed = campaign.run_all(cases, lambda case: run_late(campaign, case))
            failures += failed
            found[scenario] = {
                "parties": len(SCENARIOS[scenario].parties),
                "roles": list(roles),
                "cases": len(cases),
                "completed": len(cases) - len(failed),
                "failed": [one.partition("\n")[0] for one in failed],
                "starts after the first": restarts,
                "seconds": round(time.monotonic() - begin),
            }
            sys.stdout.write(f"{scenario}: {found[scenario]}\n")
            sys.stdout.flush()
            ordered = {name: found[name] for name in LATE_SCENARIOS if name in found}
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps({"about": provenance("src"), "scenarios": ordered}, indent=1) + "\n")
    sys.exit("\n".join(failures) or 0)


if __name__ == "__main__":
    main()
