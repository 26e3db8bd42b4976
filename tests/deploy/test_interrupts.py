"""How a process ends on Ctrl-C and SIGTERM, in whatever its threads are."""

import signal
import subprocess
import sys
import time

import pytest

# A second lock of the same mutex waits for ever, in C and without a handler of Python.
STUCK = """
import contextlib, ctypes, signal, threading
from concurrent.futures import ThreadPoolExecutor
from kcagc.deploy import interrupts
mutex, library, ready = ctypes.create_string_buffer(128), ctypes.CDLL(None), threading.Event()
def wait():
    library.pthread_mutex_lock(mutex)
    ready.set()
    while True:
        with contextlib.suppress(KeyboardInterrupt):  # which may come just before the call
            print("ready", flush=True)
            library.pthread_mutex_lock(mutex)
interrupts.handle_interrupts()
"""
IN_MAIN_THREAD = f"{STUCK}\ninterrupts._PATIENCE = 0.3\nwait()"
# A pool of threads joins them when the interpreter ends, as OpenBLAS does; so `sys.exit` would wait for ever.
INTERRUPTED = f"""
{STUCK}
try:
    ThreadPoolExecutor(1).submit(wait)
    while True:
        signal.pause()
except KeyboardInterrupt:
    print("in order", flush=True)
interrupts.end_process(130)
"""
FAILED = f"{STUCK}\nThreadPoolExecutor(1).submit(wait)\nready.wait()\ninterrupts.end_process(7)"
IN_A_LOOP = """
import asyncio
from kcagc.deploy import interrupts
from kcagc.deploy.interrupts import until_stopped
interrupts.handle_interrupts()
async def work():
    print("ready", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        print("closing", flush=True)
        await asyncio.sleep(0.2)
        print("closed", flush=True)
try:
    asyncio.run(until_stopped(work()))
except KeyboardInterrupt:
    print("in order", flush=True)
interrupts.end_process(130)
"""


def started(script):
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


def end_of(process, *numbers):
    """Send signals, and return the exit code, the output and the seconds to the end."""
    begin = time.monotonic()
    for number in numbers:
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err, time.monotonic() - begin


BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


@BOTH
def test_a_call_that_never_returns_to_python_ends_after_a_while(number):
    code, _, err, seconds = end_of(started(IN_MAIN_THREAD), number)
    assert (code, err) == (130, "kcagc: interrupted\n")
    assert 0.3 <= seconds < 5


@BOTH
def test_no_exit_handler_waits_for_a_thread_after_an_interrupt(number):
    code, out, err, seconds = end_of(started(INTERRUPTED), number)
    assert (code, out, err) == (130, "in order\n", "")
    assert seconds < 3


def test_no_exit_handler_waits_for_a_thread_after_an_error():
    ended = subprocess.run([sys.executable, "-c", FAILED], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (7, "")


@BOTH
def test_a_second_signal_does_not_disturb_the_orderly_end(number):
    process = started(IN_A_LOOP)
    process.send_signal(number)
    assert process.stdout.readline() == "closing\n"
    code, out, err, _ = end_of(process, number, number)
    assert (code, out, err) == (130, "closed\nin order\n", "")


def test_the_limit_leaves_time_to_end_within_five_seconds():
    from kcagc.deploy.interrupts import _PATIENCE

    assert _PATIENCE <= 4.5
