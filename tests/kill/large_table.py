"""A party with a table of 200,000 rows and 200 columns, in processes that are forked when the table is in memory.

The fork server imports this module, so that no process reads or smooths the table again. Everything else is the command
`kcagc party` as users run it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import wraps
from typing import Any

from kcagc.data.party_files import PartyInput
from kcagc.datasets import generate
from kcagc.deploy.run import RoleRun
from kcagc.engines import LOCAL, LocalEngine
from kcagc.graph import Graph
from kcagc.graph.filters import HalfFilter
from kcagc.protocol.local import PartyData
from tests.role_process import run_command

NODES, COLUMNS = 200_000, 200
CLUSTERS, PSI, COMPONENTS = 4, 2, 8
LARGE, SMALL = "large", "small"  # the parties; the second has one column, so that it soon waits for the first
PHASES = {"filter": "smooth", "svd": "singular_vectors", "k-means": "cluster"}  # the method of the engine of each

_made = generate(NODES, CLUSTERS, degree=8, features=(COLUMNS, 1), seed=1)
_graph, _filter = Graph.from_matrix(_made.adjacency), HalfFilter(PSI)
_inputs, _data = {}, {}
for _name, _table in zip((LARGE, SMALL), _made.parties(), strict=True):
    _columns = tuple(f"c{number}" for number in range(_table.shape[1]))
    _inputs[_name] = PartyInput(_graph, _table, list(_columns), len(_columns))
    _data[_name] = PartyData.build(_name, _graph, _table, _filter, _columns)
    _ = _data[_name].digest  # is kept
_smoothed = LOCAL.smooth(_filter, _graph, _data[LARGE].features, COMPONENTS)
_projection = LOCAL.singular_vectors(_smoothed, COMPONENTS)


def run(plan: dict[str, Any]) -> int:
    """Run `kcagc` with the tables in memory; at a `phase`, the results of earlier ones are there, and it is noted."""
    RoleRun.input = property(lambda one: _inputs.get(one.config.me))  # type: ignore[assignment]
    RoleRun.data = property(lambda one: _data.get(one.config.me))  # type: ignore[assignment]
    phases = list(PHASES)
    if phase := plan.get("phase"):
        for name, found in (("filter", _smoothed), ("svd", _projection)):
            if phases.index(name) < phases.index(phase):
                setattr(LocalEngine, PHASES[name], lambda *_, found=found: found)
        setattr(LocalEngine, PHASES[phase], _noted(getattr(LocalEngine, PHASES[phase]), plan["notes"]))
    code = run_command(plan)
    # As an interpreter ends, with the exit handlers of all libraries; the fork server would leave them out.
    ctypes.pythonapi.Py_Exit(code)
    return code


def _noted(method: Any, notes: str) -> Any:
    """Note the begin of a phase in a file, and its end."""
    file = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    @wraps(method)
    def noted(*given: Any, **named: Any) -> Any:
        os.write(file, b"begins\n")
        found = method(*given, **named)
        os.write(file, b"ends\n")
        return found

    return noted


if "kcagc.cli.roles" not in sys.modules:
    raise ImportError("import the modules of the command first, so that its processes do not import them again")
