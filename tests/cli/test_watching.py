"""`--watch`: a moving table on a terminal, plain lines elsewhere."""

import fcntl
import os
import pty
import select
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

import pytest

from deploy.collaboration import edit, made

PATIENCE = 120.0


def configs(root):
    found = made(root)
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    for path in found.values():
        edit(path, r"^(listen|address) = .*", rf'\1 = "127.0.0.1:{port}"')
    return found


def command(name, path, *more):
    role = "coordinator" if name == "coordinator" else "party"
    return [sys.executable, "-m", "kcagc", role, "--config", str(path), "--no-report", *more]


def read_all(handle, seconds=PATIENCE):
    """Give what a terminal showed until its process ended."""
    told, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        if not select.select([handle], [], [], 0.2)[0]:
            continue
        try:
            more = os.read(handle, 65536)
        except OSError:
            break
        if not more:
            break
        told += more
    return told.decode(errors="replace")


class Listening:
    """What a process says on stderr, as it says it."""

    def __init__(self, process):
        self._lines = []
        self._thread = threading.Thread(target=lambda: self._lines.extend(process.stderr), daemon=True)
        self._thread.start()

    def until(self, words):
        end = time.monotonic() + PATIENCE
        while not any(words in line for line in list(self._lines)):
            assert time.monotonic() < end, self._lines
            time.sleep(0.1)

    def all(self):
        self._thread.join(PATIENCE)
        return "".join(self._lines)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What alice's terminal and the coordinator's log showed of a run that bob joins late."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    paths = configs(tmp_path_factory.mktemp("roles"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
    running = {}
    try:
        for name in ("coordinator", "carol"):
            running[name] = subprocess.Popen(
                command(name, paths[name], "--watch"),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
        running["alice"] = subprocess.Popen(
            command("alice", paths["alice"], "--watch", "--report"),
            stdout=theirs,
            stderr=theirs,
            stdin=theirs,
            env=environment,
        )
        os.close(theirs)
        said = Listening(running["coordinator"])
        said.until("waiting for bob (not connected)")
        time.sleep(2)  # for alice's terminal to show it as well
        running["bob"] = subprocess.Popen(
            command("bob", paths["bob"]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        shown = read_all(ours)
        logs = {name: running[name].communicate(timeout=PATIENCE)[1] for name in ("carol", "bob")}
        logs["coordinator"] = said.all()
        assert [process.wait(PATIENCE) for process in running.values()] == [0] * 4, logs
    finally:
        for process in running.values():
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        os.close(ours)
    return shown, logs


def test_a_terminal_shows_phases_rounds_disconnected_participants_bytes_and_time_left(seen):
    shown = seen[0]
    for words in ("waiting for", "bob (not connected)", "bytes", "sent,", "received", "time left", "unknown"):
        assert words in shown, words
    assert "filtering" in shown
    assert "iteration" in shown
    assert "\x1b[" in shown  # it moves
    assert "nodes in 3 clusters" in shown


def test_the_terminal_shows_the_report_being_written_until_the_end(seen):
    before, _, after = seen[0].partition("writing the report")
    assert "iteration" in before
    assert "Report: " in after


def test_a_log_file_gets_plain_lines(seen):
    log = seen[1]["coordinator"]
    assert "\x1b" not in log
    assert all(" coordinator: " in line for line in log.splitlines())
    assert "time left: unknown" in log
    assert "waiting for bob (not connected)" in log


def test_without_watch_the_log_has_no_status_lines(seen):
    assert "time left" not in seen[1]["bob"]
