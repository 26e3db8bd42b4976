"""Which engine a party takes: what is set, what "auto" means, and what is said where an engine cannot work."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from kcagc import AGC, KCAGC
from kcagc.datasets import load
from kcagc.engines import LOCAL, LocalEngine, choice, gpu
from kcagc.engines.choice import LARGE, EngineSection, choose_engine, engines_by_party
from kcagc.engines.gpu import GpuEngine
from kcagc.errors import ParameterError

SMALL, BIG = (100, 3), (LARGE // 4, 4)
DEMO = load("demo")


@pytest.fixture
def no_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(choice, "find_spec", lambda _: None)
    gpu._cupy.cache_clear()
    yield
    gpu._cupy.cache_clear()


def has_cupy(monkeypatch, device):
    monkeypatch.setattr(choice, "find_spec", lambda _: SimpleNamespace())
    monkeypatch.setattr(gpu, "_cupy", device)


def test_what_is_set_is_taken():
    assert choose_engine("local", BIG).engine is LOCAL
    assert str(choose_engine(EngineSection(name="local"), BIG)) == "local, because it is set"
    own = GpuEngine(xp=np)
    assert choose_engine(own, SMALL).engine is own


def test_auto_is_local_for_a_small_table(monkeypatch):
    has_cupy(monkeypatch, lambda: np)
    found = choose_engine("auto", SMALL)
    assert found.engine is LOCAL
    assert str(found) == "local, because the table has 300 values, fewer than 20,000,000"


def test_auto_takes_a_gpu_for_a_large_table(monkeypatch):
    has_cupy(monkeypatch, lambda: np)
    assert str(choose_engine("auto", BIG)) == "gpu, because there is a GPU, and the table has 20,000,000 values"


def test_auto_is_local_without_cupy(no_cupy):
    assert str(choose_engine("auto", BIG)) == "local, because CuPy is not installed"


def test_auto_is_local_where_cupy_finds_no_gpu(monkeypatch):
    def none():
        raise ParameterError("engine: 'gpu' found no GPU")

    has_cupy(monkeypatch, none)
    assert str(choose_engine("auto", BIG)) == "local, because CuPy finds no GPU"


def test_a_gpu_that_is_asked_for_must_be_there(no_cupy):
    with pytest.raises(ParameterError, match=r"engine: 'gpu' needs CuPy.*kcagc\[gpu\].*engine = \"local\""):
        choose_engine("gpu", SMALL)


@pytest.mark.parametrize(("given", "said"), [
    ("fast", "engine: must be 'auto', 'local'"), (3, 'engine: must be "auto", "local"'),
    ({"bank": "fast"}, "engine: must be 'auto'"), ({"shop": "local"}, "engine: there is no party 'shop'"),
])  # fmt: skip
def test_other_values_are_refused(given, said):
    with pytest.raises(ParameterError, match=said):
        engines_by_party(given, {"bank": SMALL})


class CountingEngine(LocalEngine):
    """Do all work in this process, and count the tables."""

    name = "counting"

    def __init__(self):
        self.smoothed = 0

    def smooth(self, *values, **more):
        self.smoothed += 1
        return super().smooth(*values, **more)


def test_parties_of_one_run_may_have_different_engines():
    tables = dict(zip(("bank", "telecom", "shop"), DEMO.parties(), strict=True))
    own = CountingEngine()
    engines = {"bank": own, "shop": GpuEngine(xp=np)}
    options = {"n_clusters": 5, "psi": 2, "random_state": 0}
    found = KCAGC(**options, engine=engines).fit(tables, adjacency=DEMO.adjacency)
    assert np.array_equal(found.labels_, KCAGC(**options).fit(tables, adjacency=DEMO.adjacency).labels_)
    assert own.smoothed == 1
    assert len(found.predict(tables, adjacency=DEMO.adjacency, nodes=[0, 5])) == 2
    assert own.smoothed == 2


@pytest.mark.parametrize("method", ["agc", "joint"])
def test_agc_filters_and_projects_on_its_engine(method, tmp_path):
    own = CountingEngine()
    options = {"n_clusters": 5, "psi": 2, "method": method, "random_state": 0}
    found = AGC(**options, engine=own).fit(DEMO.features, adjacency=DEMO.adjacency)
    assert np.array_equal(found.labels_, AGC(**options).fit(DEMO.features, adjacency=DEMO.adjacency).labels_)
    assert own.smoothed == 1
    found.save(tmp_path / "model")
    assert AGC.load(tmp_path / "model").engine == "auto"


def test_dask_is_imported_only_by_runs_that_use_it():
    code = "import sys, kcagc.cli.main, kcagc.deploy.run, kcagc.estimator; print('distributed' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
