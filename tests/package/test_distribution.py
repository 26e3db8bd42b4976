"""The wheel and the source archive hold what is needed and nothing else, and the wheel works alone."""

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import kcagc

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def test_the_wheel_holds_the_package_its_types_its_data_and_its_licence(built):
    names = zipfile.ZipFile(built[0]).namelist()
    files = [path for path in (ROOT / "src" / "kcagc").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    sources = {str(path.relative_to(ROOT / "src")) for path in files}
    assert sources <= set(names)
    assert "kcagc/py.typed" in names
    assert any(name.endswith(".npz") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"kcagc"}
    assert not [name for name in names if re.search(r"\.pem$|/private/|__pycache__", name)]


def test_the_source_archive_holds_tests_and_documentation(built):
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for wanted in ("pyproject.toml", "Makefile", "requirements.lock", "docs/conf.py", "tests/conftest.py"):
        assert wanted in names
    for folder in ("src", "examples", "deploy", "docs", "tests"):
        assert any(name.startswith(f"{folder}/") for name in names), folder
    assert not [name for name in names if name.startswith((".venv", "docs/_build"))]


def test_both_could_be_published(built):
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_a_wheel_from_the_source_archive_has_the_same_version(built, tmp_path):
    """The archive has neither git nor tags."""
    with tarfile.open(built[1]) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--outdir",
        str(tmp_path / "again"),
        str(source),
    ]
    subprocess.run(command, capture_output=True, check=True)
    (again,) = (tmp_path / "again").glob("*.whl")
    assert again.name == built[0].name
    assert kcagc.__version__ in again.name


def test_the_wheel_runs_without_the_source(built, tmp_path):
    target = tmp_path / "installed"
    zipfile.ZipFile(built[0]).extractall(target)  # noqa: S202 - we have just built it
    code = "import kcagc, kcagc.datasets; print(kcagc.__file__, kcagc.datasets.load('demo').n_nodes)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(target / "kcagc" / "__init__.py"), "600"]


@pytest.mark.wheel
@pytest.mark.timeout(900)
def test_an_empty_environment_with_the_wheel_runs_the_demo(built, tmp_path):
    """Installs the wheel with its dependencies from the package index, as a user would."""
    home = tmp_path / "empty"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(built[0])], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [home / "bin" / "kcagc", "demo", "--folder", str(tmp_path / "demo")],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "together" in done.stdout
    shown = subprocess.run([home / "bin" / "kcagc", "--version"], capture_output=True, text=True, check=True).stdout
    assert kcagc.__version__ in shown
