"""Shell completion: the printed scripts, and the answers to a shell."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kcagc.cli.main import SHELLS


def kcagc(*words, **settings):
    done = subprocess.run(
        [sys.executable, "-m", "kcagc", *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **settings},
    )
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_accepts_the_script(shell):
    script = kcagc("completion", shell)
    assert f"_KCAGC_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=script, text=True, check=False).returncode == 0


def asked(line):
    words = line.split(" ")
    return subprocess.run(
        [str(Path(sys.executable).parent / "kcagc")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "_KCAGC_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
    ).stdout.split()


def test_a_shell_completes_commands_options_and_choices():
    assert asked("kcagc pa") == ["plain,party"]
    assert "plain,--new-session" in asked("kcagc party --n")
    assert asked("kcagc completion z") == ["plain,zsh"]
    assert asked("kcagc party --config ") == ["file,"]


def test_the_error_about_an_unknown_shell_lists_the_known_shells():
    done = subprocess.run(
        [sys.executable, "-m", "kcagc", "completion", "cmd"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert all(shell in done.stderr for shell in SHELLS)
