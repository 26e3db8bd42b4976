"""The `kcagc` command as a function that the fork server calls in a process of its own."""

from __future__ import annotations

import importlib
import resource
import sys
from typing import Any

WARM = ("kcagc.cli.roles", "grpc.aio", "rich.status", "sklearn.cluster", "kcagc.deploy.run")  # as the command does
# One thread for each role, as there are more roles than cores; no report, which takes longer than a small run.
ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1") | {"KCAGC_REPORT": "0"}


def run_command(plan: dict[str, Any]) -> int:
    """Run `kcagc` with the plan's arguments, after setting the plan's module attributes; return the exit code.

    With `descriptors`, the process can open only so many files and connections, as after `ulimit -n`.
    """
    if descriptors := plan.get("descriptors"):
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    for place, value in plan.get("patches", {}).items():
        module, _, name = place.rpartition(".")
        target = importlib.import_module(module)
        getattr(target, name)  # an attribute that was renamed is an error, not a patch without effect
        setattr(target, name, tuple(value) if isinstance(value, list) else value)
    from kcagc.cli.main import main

    sys.argv = ["kcagc", *plan["arguments"]]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0


def run_observed(plan: dict[str, Any]) -> int:
    """Run `kcagc` with the observers and the faults of the plan."""
    from tests.kill.instruments import Instruments

    Instruments(plan).install()
    return run_command(plan)
