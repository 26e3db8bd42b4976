"""Every command of a role ends on Ctrl-C and SIGTERM with the documented code, whatever it waits for."""

import signal
import time

import pytest

from network.roles import AGGREGATOR, Role, until

INTERRUPTED = 130


def begun(collaborate, command, tmp_path):
    """Start a command of a role; return it when it waits or works."""
    roles = collaborate("a", "b")
    party, coordinator = (str(roles.configs[name]) for name in ("a", AGGREGATOR))
    unreachable, somewhere = ["--address", "127.0.0.1:9"], ["--listen", "127.0.0.1:0"]
    arguments, line = {
        "party": (["party", "--config", party, *unreachable], "cannot reach coordinator"),
        "party --wait": (["party", "--config", party, *unreachable, "--wait"], "cannot ask coordinator"),
        "coordinator": (["coordinator", "--config", coordinator, *somewhere], "listening on"),
        "match": (["match", "--config", coordinator, *somewhere], "listening on"),
        "serve": (["serve", str(tmp_path / "standing"), *somewhere], ""),
        "simulate": (["simulate", "--runs", "1000"], ""),
    }[command]
    role = Role(roles.fork_server, command.split()[0], arguments, tmp_path, {})
    roles.roles.append(role)
    if line:
        role.wait_for_line(line)
    elif command == "serve":
        until(lambda: "listening on" in role.out, "serve to listen", role)
    else:
        time.sleep(1.0)  # anywhere in a thousand runs; it writes nothing before their end
    return role


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["party", "party --wait", "coordinator", "match", "serve", "simulate"])
def test_every_command_of_a_role_ends_when_it_is_interrupted(collaborate, tmp_path, command, number):
    role = begun(collaborate, command, tmp_path)
    begin = time.monotonic()
    role.signal(number)
    assert role.ends() == INTERRUPTED
    assert time.monotonic() - begin < 5
    assert role.log.splitlines()[-1] == "kcagc: interrupted"
    assert "Traceback" not in role.log
