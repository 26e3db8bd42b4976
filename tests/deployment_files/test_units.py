"""The systemd units: valid, confined, and restarted only after errors that a restart can solve."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kcagc import errors
from kcagc.cli.main import cli
from kcagc.net import gate

UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").glob("*.service"))
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")


def read(path):
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read_string(path.read_text())
    return parser


def here(path, folder):
    """Copy a unit with the kcagc of this environment in it, which is the one that exists."""
    program = Path(sys.executable).parent / "kcagc"
    copy = folder / path.name
    copy.write_text(path.read_text().replace("/opt/kcagc/bin/kcagc", str(program)))
    return copy


def test_there_is_a_unit_for_each_kind_of_role():
    assert [path.name for path in UNITS] == [
        "kcagc-coordinator@.service",
        "kcagc-party@.service",
        "kcagc-serve@.service",
    ]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_runs_its_command_on_the_folder_of_its_instance(path):
    service = read(path)["Service"]
    command = path.stem.removeprefix("kcagc-").removesuffix("@")
    arguments = {"serve": "/var/lib/kcagc/%i --log-json"}.get(command, "--config /etc/kcagc/%i/kcagc.toml")
    assert service["ExecStart"] == f"/opt/kcagc/bin/kcagc {command} {arguments}"
    # The variables of the unit, and of its example of a file of variables, are those that the command reads.
    known = {one.envvar for one in cli.get_command(None, command).params} - {None}
    variables = set(re.findall(r"^(?:Environment=|#   )(\w+)=", path.read_text(), flags=re.MULTILINE))
    assert variables
    assert variables <= known
    options = {one for parameter in cli.get_command(None, command).params for one in parameter.opts}
    assert {word for word in service["ExecStart"].split() if word.startswith("--")} <= options


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_allows_as_many_open_files_as_the_program_uses(path):
    assert read(path)["Service"]["LimitNOFILE"] == str(gate._DESCRIPTORS)
    assert gate.MAX_CONNECTIONS * gate._HANDLES + gate._OTHER_HANDLES <= gate._DESCRIPTORS


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_restarts_only_after_errors_that_need_no_person(path):
    service = read(path)["Service"]
    never = {int(code) for code in service["RestartPreventExitStatus"].split()}
    every = {one.exit_code for one in vars(errors).values() if hasattr(one, "exit_code")}
    again = {errors.KcagcError, errors.AbortedError, errors.PeerTimeoutError, errors.EngineError}
    never_there = {errors.DownloadError, errors.VerificationError}  # no role downloads or verifies
    assert service["Restart"] == "on-failure"
    assert never == every - {one.exit_code for one in again | never_there}
    assert service["SuccessExitStatus"] == "130"


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_confines_its_role(path):
    service = read(path)["Service"]
    assert service["User"] == "kcagc"
    for option in ("NoNewPrivileges", "PrivateTmp", "ProtectHome", "PrivateDevices", "RestrictNamespaces"):
        assert service[option] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    assert service["UMask"] == "0077"


@needs_systemd
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_finds_nothing_wrong_with_a_unit(path, tmp_path):
    done = subprocess.run(
        ["systemd-analyze", "verify", str(here(path, tmp_path))],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_systemd
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_rates_a_unit_as_safe(path, tmp_path):
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", str(here(path, tmp_path))],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-300:] + done.stderr
