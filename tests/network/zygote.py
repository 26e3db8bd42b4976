"""A process that has imported everything and forks a `kcagc` whenever it is asked to: no test pays for imports.

gRPC is imported, never used, before the fork; nothing else of a child differs from a command in a shell.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import sys
import traceback
from pathlib import Path


def main() -> None:
    """Serve requests, one JSON object a line, until there are no more."""
    os.environ.update(GRPC_ENABLE_FORK_SUPPORT="0", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", KCAGC_REPORT="0")
    os.environ.pop("GRPC_VERBOSITY", None)
    for name in ("kcagc.cli.main", "grpc.aio", "rich.status", "sklearn.cluster", "kcagc.deploy.run"):
        importlib.import_module(name)
    gc.freeze()
    answer = os.fdopen(os.dup(1), "w", buffering=1)
    for line in sys.stdin:
        asked = json.loads(line)
        told: dict[str, int | None]
        if "status_of" in asked:
            told = {"code": _status(asked["status_of"])}
        else:
            child = os.fork()
            if child == 0:
                _become(asked)  # never returns
            told = {"pid": child}
        answer.write(json.dumps(told) + "\n")


def _status(child: int) -> int | None:
    found, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _become(asked: dict[str, object]) -> None:
    """Be a command: own group, own output, and whatever a test wants to be different in this process."""
    os.setpgid(0, 0)
    for number, name in ((0, os.devnull), (1, str(asked["out"])), (2, str(asked["err"]))):
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(handle, number)
        os.close(handle)
    sys.argv = ["kcagc", *map(str, asked["argv"])]  # type: ignore[call-overload]
    for place, value in dict(asked["patches"]).items():  # type: ignore[call-overload]
        module, _, name = place.rpartition(".")
        setattr(importlib.import_module(module), name, value)
    from kcagc.cli.main import main as command

    code: object = 1
    try:
        command()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        # Not by the way of all Python programs, which takes a second to free what was imported.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    with contextlib.suppress(KeyboardInterrupt):
        main()
