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


def locked(path):
    """Read a lock file: the versions, and the hashes of their archives; every line must be one of the two."""
    found, name = {}, ""
    for line in path.read_text().splitlines()[1:]:
        if digest := re.fullmatch(r"    --hash=sha256:([0-9a-f]{64})( \\)?", line):
            found[name][1].append(digest[1])
            continue
        pin = re.fullmatch(r"([a-z0-9-]+)==([0-9][^ ;]*)( ; sys_platform == \"\w+\")? \\", line)
        assert pin, line
        name = pin[1]
        found[name] = (pin[2], [])
    return found


@pytest.mark.parametrize("name", ["requirements.lock", "deploy/requirements.lock"])
def test_a_lock_file_has_the_hashes_of_all_archives_and_no_address(name):
    found = locked(ROOT / name)
    assert all(digests == sorted(set(digests)) and digests for _, digests in found.values())
    assert "://" not in (ROOT / name).read_text()
    assert found.items() <= locked(ROOT / "requirements.lock").items()
    # Several platforms and versions of Python.
    assert all(len(found[one][1]) > 10 for one in ("numpy", "scipy", "cryptography", "grpcio"))


def test_make_installs_only_archives_whose_hashes_are_known():
    makefile = (ROOT / "Makefile").read_text()
    assert "install --quiet --require-hashes -r requirements.lock" in makefile
    assert not re.search(r"-c requirements\.lock", makefile)  # pip would ask for hashes of kcagc itself


def test_the_image_has_everything_that_kcagc_needs_and_what_builds_it():
    names = locked(ROOT / "deploy" / "requirements.lock").keys()
    entries = [*project()["dependencies"], *project()["optional-dependencies"]["parquet"], "hatchling"]
    assert {re.match(r"[A-Za-z0-9-]+", entry).group() for entry in entries} <= names


def test_every_dependency_is_pinned_to_one_version():
    pinned = locked(ROOT / "requirements.lock").keys()
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
