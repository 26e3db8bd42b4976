"""Starts roles as real processes, each in milliseconds: everything heavy is imported once, and every role is a fork.

Reads a request a line on stdin, answers with a process id, and reports each end. `python zygote.py PLAN` is one role by
itself, for those that need another environment while their libraries are loaded.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from pathlib import Path

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # nothing of gRPC is running when a role is forked
os.environ["KCAGC_REPORT"] = "0"  # it comes after the end, and takes longer than all before
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

sys.path.insert(0, str(Path(__file__).parent))
from instruments import Instruments


def warm_up() -> None:

    import kcagc.cli.main
    import kcagc.deploy.run  # noqa: F401


def play(plan: dict) -> None:
    """Be the role of a plan, to the end of the process."""
    log = os.open(plan["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    from kcagc.cli.main import main

    Instruments(plan).install()
    sys.argv = ["kcagc", *plan["arguments"]]
    try:
        main()
    except SystemExit as end:
        # All is written by now; what the interpreter does at its end takes longer than the whole run.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 70)


def serve() -> None:
    """Fork roles until stdin ends, then take those that are left along."""
    warm_up()
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}  # what a role is called by whoever asked for it: process ids come again
    pending = b""
    say(ready=os.getpid())
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            report(running)
        if 0 in ready:
            more = os.read(0, 1 << 16)
            if not more:
                break
            *lines, pending = (pending + more).split(b"\n")
            for line in lines:
                plan = json.loads(line)
                pid = forked(plan)
                running[pid] = plan["call"]
                say(pid=pid)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def forked(plan: dict) -> int:
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        if "environment" in plan:  # for libraries that read it when they are loaded
            alone = [sys.executable, __file__, json.dumps(plan)]
            os.execve(sys.executable, alone, os.environ | plan["environment"])  # noqa: S606
        play(plan)
    return pid


def report(running: dict[int, int]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        say(ended=running.pop(pid), code=os.waitstatus_to_exitcode(status))


def say(**words: object) -> None:
    os.write(1, (json.dumps(words) + "\n").encode())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        play(json.loads(sys.argv[1]))
    serve()
