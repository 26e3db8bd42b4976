"""Properties of the project itself: versions, dependencies, layers, README, make targets."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import conftest
import kcagc

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def test_one_version_everywhere():
    assert kcagc.__version__ == metadata.version("kcagc")
    assert "version" in project()["dynamic"]  # pyproject.toml reads it from the package
    assert f"## [{kcagc.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_a_tag_on_this_commit_is_the_version():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git repository: nothing to compare")
    asked = ["git", "tag", "--points-at", "HEAD", "v[0-9]*"]
    tags = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert tags in ([], [f"v{kcagc.__version__}"])


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_dependency_is_pinned_to_one_version():
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    pinned = {re.match(r"[A-Za-z0-9._-]+(?===)", line).group().lower().replace("_", "-") for line in lines}
    assert all("==" in line and "@" not in line for line in lines)
    wanted = [
        *project()["dependencies"],
        *(
            entry
            for name, group in project()["optional-dependencies"].items()
            if name not in {"graphsage", "gpu"}  # each in an environment of its own
            for entry in group
        ),
    ]
    names = {re.match(r"[A-Za-z0-9-]+", entry).group() for entry in wanted} - {"kcagc"}
    assert names <= pinned


def test_only_the_download_of_datasets_unpickles_and_never_without_restrictions():
    users = [path for path in SOURCES if re.search(r"\bpickle\b", path.read_text().replace("allow_pickle=False", ""))]
    assert [path.name for path in users] == ["download.py"]
    assert not re.search(r"pickle\.loads?\(|allow_pickle=True", "".join(path.read_text() for path in SOURCES))


LAYERS = [
    {"errors", "text"},
    {"_types"},
    {"graph"},
    {"cluster", "metrics", "secagg"},
    {"data", "engines"},
    {"baselines", "datasets"},
    {"disclosure"},
    {"protocol", "net"},
    {"report", "runtime"},
    {"simulation"},
    {"estimator_plots", "estimator_view"},
    {"estimator_results"},
    {"deploy", "persistence", "analysis", "estimator_base"},
    {"estimator", "rehearsal", "federation", "planning"},
    {"__init__"},
    {"cli"},
    {"__main__"},
]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_a_package_imports_only_itself_and_lower_layers(path):
    own = path.relative_to(ROOT / "src" / "kcagc").with_suffix("").parts[0]
    higher = [name for name in imported_packages(path) if name != own and layer(name) >= layer(own)]
    assert higher == []


def layer(name):
    return next(number for number, names in enumerate(LAYERS) if name in names)


def imported_packages(path):
    """Return the packages and modules of kcagc that a file imports, also within functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports of this project name the package"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return sorted({name.split(".")[1] for name in found if name.startswith("kcagc.")} & set().union(*LAYERS))


def test_every_package_has_a_layer():
    present = {path.relative_to(ROOT / "src" / "kcagc").with_suffix("").parts[0] for path in SOURCES}
    assert set().union(*LAYERS) == present


def test_every_path_in_the_list_of_slow_tests_exists():
    assert [path for path in (*conftest.SLOW, *conftest.PROCESSES) if not (ROOT / "tests" / path).exists()] == []


def test_no_run_imports_the_analysis():
    importing = {
        path.relative_to(ROOT / "src" / "kcagc").as_posix()
        for path in SOURCES
        if re.search(r"(?:from|import) kcagc\.analysis", path.read_text())
    }
    assert {name for name in importing if not name.startswith("analysis/")} == {"__init__.py", "cli/diagnose.py"}


def examples():
    text = (ROOT / "README.md").read_text()
    return re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.parametrize(("code", "output"), examples())
def test_the_examples_of_the_readme_print_what_they_show(code, output):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.split() == output.split()


def test_the_readme_has_an_example():
    assert examples()


def test_make_help_lists_every_target():
    shown = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607
    for target in ("test", "test-fast", "demo", "lint", "bench", "accuracy"):
        assert re.search(rf"^  {target} +\w", shown, flags=re.MULTILINE)
