"""The container and compose files: no secrets in the image, no privileges in the container, mutual TLS."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kcagc.net import gate

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONTAINER = (DEPLOY / "Containerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
STANDING = COMPOSE["services"]["standing"]
ROLES = {name: service for name, service in COMPOSE["services"].items() if name != "standing"}


def instructions(text):
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def stages():
    found = []
    for word, rest in instructions(CONTAINER):
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest))
    return found


def test_the_image_is_built_in_stages_from_a_base_with_a_version():
    assert len(stages()) == 2
    for stage in stages():
        assert re.match(r"python:3\.\d+-slim-\w+", stage[0][1])


def test_only_code_and_its_pinned_versions_are_copied():
    copied = [rest.split()[:-1] for word, rest in stages()[0] if word == "COPY"]
    named = {name for names in copied for name in names}
    assert named == {"pyproject.toml", "deploy/requirements.lock", "README.md", "LICENSE", "src"}
    assert all((ROOT / name).exists() for name in named)
    assert [rest for word, rest in stages()[1] if word == "COPY"] == ["--from=build /wheels /wheels"]
    assert not {word for word, _ in instructions(CONTAINER)} & {"ADD", "ARG"}


def test_the_builder_checks_hashes_and_the_image_is_installed_without_a_network():
    build, last = (" ".join(rest for word, rest in stage if word == "RUN") for stage in stages())
    commands = [one.split() for one in build.split("&&")]
    online = [one for one in commands if "--no-index" not in one]
    assert len(online) == 1
    assert {"--require-hashes", "--no-deps", "requirements.lock"} <= set(online[0])
    assert "pip install --no-cache-dir --no-index --find-links /wheels 'kcagc[parquet]'" in last


def test_only_listed_files_reach_the_builder():
    ignored = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == {
        "pyproject.toml",
        "deploy/requirements.lock",
        "README.md",
        "LICENSE",
        "src",
    }
    assert {"**/*.pem", "**/*.key", "**/private"} <= set(rules)
    assert not [path for path in (ROOT / "src").rglob("*") if path.suffix in (".pem", ".key")]


def test_the_image_runs_as_a_user_without_rights_and_starts_kcagc():
    last = dict(stages()[1])
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", last["USER"])
    assert last["ENTRYPOINT"] == '["kcagc"]'
    words = [word for word, _ in stages()[1]]
    assert words.index("USER") > max(place for place, word in enumerate(words) if word in ("RUN", "COPY"))


@pytest.mark.parametrize("name", ROLES)
def test_a_service_may_write_its_journal_and_its_results_only(name):
    service = ROLES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert service["user"].startswith("${KCAGC_UID:-10001}")
    writable = {one["target"] for one in service["volumes"] if not one.get("read_only")}
    assert writable == {"/role/state", "/role/result"}
    for one in service["volumes"]:
        assert one["bind"]["create_host_path"] is False  # or the engine makes it, for root
        assert one["source"].split("/")[1:3] == ["roles", name]  # nothing of another role


def test_the_coordinator_that_stays_has_no_more_rights_and_its_own_folder():
    for key in ("read_only", "cap_drop", "security_opt", "user", "tmpfs", "image"):
        assert STANDING[key] == ROLES["coordinator"][key]
    assert STANDING["profiles"] == ["standing"]  # it starts only when it is named
    assert STANDING["volumes"] == [
        {"type": "bind", "source": "./standing", "target": "/role", "bind": {"create_host_path": False}}
    ]
    assert STANDING["restart"] == "unless-stopped"
    assert STANDING["ulimits"]["nofile"] == gate._DESCRIPTORS


def test_the_command_and_the_health_check_of_the_coordinator_that_stays_work(tmp_path):
    place, port = str(tmp_path / "standing"), "127.0.0.1:0"
    ours = {"/role": place, "0.0.0.0:7444": port, "127.0.0.1:9464": port}
    command = [ours.get(word, word) for word in STANDING["command"]]
    assert len(set(STANDING["command"]) - set(command)) == len(ours)
    check, *arguments = STANDING["healthcheck"]["test"][1:]
    assert check == "python"
    environment = os.environ | {"KCAGC_ADDRESS": "kcagc.example.org:7444"}
    with subprocess.Popen(
        [sys.executable, "-m", "kcagc", *command], stdout=subprocess.PIPE, env=environment
    ) as process:
        try:
            lines = iter(process.stdout.readline, b"")
            assert any(b"kcagc.example.org:7444" in line for line in lines)
            found = next(filter(None, (re.search(rb":(\d+)/metrics", line) for line in lines)))
            code = arguments[-1].replace("9464", found[1].decode())
            assert "9464" not in code
            assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
        finally:
            process.terminate()
            process.communicate()
    assert process.returncode == 130
    assert subprocess.run([sys.executable, "-c", code], check=False, stderr=subprocess.DEVNULL).returncode != 0


def test_only_the_coordinator_listens():
    assert [name for name, service in ROLES.items() if "ports" in service] == ["coordinator"]
    assert ROLES["coordinator"]["ports"] == ["${KCAGC_PUBLISH:-127.0.0.1}:7443:7443"]
    assert ("EXPOSE", "7443") in instructions(CONTAINER)


def test_no_secret_is_in_a_file_of_the_folder():
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            assert path.suffix not in (".pem", ".key")
            assert not re.search(r"BEGIN [A-Z ]*PRIVATE KEY|password|insecure", path.read_text())


def test_the_folders_that_the_compose_file_asks_for_are_those_that_init_writes(tmp_path):
    comment = (DEPLOY / "compose.yaml").read_text()
    lines = re.findall(r"^#   (kcagc init .*|for name .*)$", comment, flags=re.MULTILINE)
    assert len(lines) == 2
    bin_folder = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["bash", "-ec", "\n".join(lines)],  # noqa: S607
        cwd=tmp_path,
        env={"PATH": f"{bin_folder}:/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    from kcagc.deploy.config import Config

    for name, service in ROLES.items():
        for one in service["volumes"]:
            assert (tmp_path / one["source"]).is_dir()
        command, option, inside = service["command"]
        config = Config.load(tmp_path / "roles" / name / Path(inside).name)
        assert option == "--config"
        assert config.role == command
        where = config.document.network.listen if config.listens else config.document.network.address
        assert where in ("0.0.0.0:7443", "coordinator:7443")
        # Results and journal are where the writable mounts are.
        assert (config.document.output.folder, config.document.output.state) == ("result", "state")
