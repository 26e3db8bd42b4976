"""The engine on a Dask cluster: the same rows as the local engine, lost workers and schedulers, and what is refused."""

import copy
import os
import signal
import subprocess
import sys
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import pytest
from distributed import Client, LocalCluster, Security
from scipy import sparse

from deploy.collaboration import edit, made
from kcagc import KCAGC
from kcagc.datasets import load
from kcagc.datasets.generator import generate
from kcagc.deploy.config import Config
from kcagc.engines import LOCAL, LocalEngine, dask
from kcagc.engines.choice import EngineSection, choose_engine
from kcagc.engines.cluster import Cluster, ClusterSettings, bytes_of
from kcagc.engines.dask import FILTERING, DaskEngine
from kcagc.engines.gpu import GpuEngine
from kcagc.errors import EngineError, ParameterError
from kcagc.graph.chebyshev import ChebyshevFilter
from kcagc.graph.filters import Filter, HalfFilter, NormFilter
from kcagc.graph.graph import Graph, as_graph
from kcagc.net.trial_authority import trial_authority

FILTERS = [HalfFilter(0), HalfFilter(7), NormFilter(3), ChebyshevFilter(lambda x: np.exp(-2 * x), tolerance=1e-6)]
TEMPORARY = {"dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}, "silence_logs": 50}


@pytest.fixture(scope="module")
def client():
    """A client of a cluster of two processes, which all tests share."""
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "1GiB", "security": True, **TEMPORARY}
    with LocalCluster(**options) as cluster, Client(cluster, set_as_default=False) as connected:
        yield connected


@pytest.fixture(scope="module")
def engine(client):
    made = DaskEngine(client=client)
    yield made
    made.close()


@pytest.fixture
def narrow(client, tmp_path):
    """An engine whose tasks have little room: a table is cut into many slices and pieces, a graph into many blocks."""
    made = DaskEngine(client=client, folder=str(tmp_path / "pieces"))
    made.connect().room = 250_000
    yield made
    made.close()


@pytest.fixture(scope="module")
def data():
    found = generate(700, 4, features=70, seed=5)
    matrix = sparse.triu(as_graph(found.adjacency).adjacency, k=1).tocoo()
    weights = np.random.default_rng(0).uniform(0.1, 5, size=matrix.nnz)
    half = sparse.coo_array((weights, (matrix.row, matrix.col)), shape=matrix.shape)
    loops = sparse.diags_array(np.where(np.arange(700) % 7, 0.0, 2.5))
    return SimpleNamespace(
        graph=as_graph(found.adjacency),
        weighted=Graph.from_matrix(sparse.csr_array(half + half.T + loops)),
        features=np.asarray(found.features, dtype=np.float64),
    )


def whole(table):
    return table.take(np.arange(table.shape[0]))


def close(found, expected):
    """Return whether values agree within the rounding of their type."""
    return np.abs(found - expected).max() <= 64 * np.finfo(expected.dtype).eps * np.abs(expected).max()


@pytest.mark.parametrize("chosen", FILTERS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_filtered_values_are_those_of_the_local_engine(engine, data, chosen, dtype):
    features = data.features.astype(dtype)
    found = whole(engine.smooth(chosen, data.graph, features))
    assert found.dtype == dtype
    assert close(found, LOCAL.smooth(chosen, data.graph, features))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_many_slices_pieces_and_blocks_change_nothing(narrow, data, kind):
    features = data.features if kind == "dense" else sparse.csr_array(np.where(data.features > 0.5, data.features, 0))
    found = narrow.smooth(HalfFilter(4), data.weighted, features)
    assert len(found.layout.slices) > 3
    assert len(found.layout.pieces) > 3
    assert len(list(narrow._matrix[-1].glob("*-data.npy"))) > 3
    expected = LOCAL.smooth(HalfFilter(4), data.weighted, features)
    assert close(whole(found), expected)
    nodes = np.array([699, 3, 3, 0])
    assert np.array_equal(narrow.take(found, nodes), whole(found)[nodes])
    again = narrow.smooth(HalfFilter(2), data.weighted, features)  # the slices and the blocks are still there
    assert close(whole(again), LOCAL.smooth(HalfFilter(2), data.weighted, features))


@pytest.mark.parametrize("scaling", ["U", "US", "unit"])
def test_projected_rows_agree_with_the_local_engine(narrow, data, scaling):
    smoothed = narrow.smooth(HalfFilter(4), data.graph, data.features, 5)
    own = LOCAL.smooth(HalfFilter(4), data.graph, data.features, 5)
    found, expected = narrow.singular_vectors(smoothed, 5), LOCAL.singular_vectors(own, 5)
    assert np.allclose(found.singular_values, expected.singular_values, rtol=1e-12)
    rows, own_rows = narrow.project(smoothed, found, scaling), LOCAL.project(own, expected, scaling)
    assert np.abs(rows - own_rows).max() <= 1e-10 * np.abs(own_rows).max()


def test_singular_vectors_without_a_gram_matrix_agree_too(engine, data, monkeypatch):
    expected = LOCAL.singular_vectors(LOCAL.smooth(HalfFilter(4), data.graph, data.features), 3)
    monkeypatch.setattr(dask, "uses_gram", lambda *_: False)
    found = engine.singular_vectors(engine.smooth(HalfFilter(4), data.graph, data.features), 3)
    assert np.allclose(found.singular_values, expected.singular_values, rtol=1e-10)
    assert np.allclose(found.basis, expected.basis, atol=1e-7)


@pytest.mark.parametrize("kind", ["steep", "huge", "tiny", "zeros", "wide"])
def test_hard_tables_are_projected_as_by_the_local_engine(engine, kind):
    graph = Graph.from_edges([0, 1, 2, 3, 4], [1, 2, 3, 4, 5])
    random = np.random.default_rng(0).normal(size=(6, 3))
    features = {
        "steep": random * 10.0 ** np.array([0, -3, -6]),
        "huge": random * 1e150,
        "tiny": random * 1e-200,
        "zeros": np.zeros((6, 2)),
        "wide": np.random.default_rng(1).normal(size=(6, 20)),
    }[kind]
    smoothed, own = engine.smooth(HalfFilter(1), graph, features), LOCAL.smooth(HalfFilter(1), graph, features)
    found, expected = engine.singular_vectors(smoothed, 3), LOCAL.singular_vectors(own, 3)
    assert np.allclose(found.singular_values, expected.singular_values, rtol=1e-6, atol=0)
    for scaling in ("unit", "US"):
        rows, wanted = engine.project(smoothed, found, scaling), LOCAL.project(own, expected, scaling)
        assert np.allclose(rows, wanted, rtol=1e-6, atol=1e-9 * np.abs(wanted).max())


class OwnFilter(Filter):
    """A filter of a user's own class."""

    def response(self, eigenvalues, *, norm=2.0):
        return (1 - eigenvalues / 2) ** 2

    def prepare(self, graph, dtype):
        return HalfFilter(2).prepare(graph, dtype)


def test_what_this_process_does_itself_needs_no_cluster(data):
    engine = DaskEngine(folder="/no/such/folder", workers=1)
    smoothed = engine.smooth(OwnFilter(), data.graph, data.features)
    assert np.array_equal(smoothed, LOCAL.smooth(HalfFilter(2), data.graph, data.features))
    assert engine.project(smoothed, engine.singular_vectors(smoothed, 3), "unit").shape == (700, 3)
    assert np.array_equal(engine.take(smoothed, np.array([4])), smoothed[[4]])
    wide = sparse.random_array((700, 5000), density=0.001, format="csr", rng=0)
    assert engine.smooth(HalfFilter(2), data.graph, wide, 3).shape == (700, 5000)
    assert engine._cluster is None


def test_a_killed_worker_changes_nothing(client, data, tmp_path):
    """A worker is killed when the first columns are filtered; the other one, or its successor, does its work."""
    expected = LOCAL.smooth(HalfFilter(3), data.graph, data.features)
    engine = DaskEngine(client=client, folder=str(tmp_path))
    engine.connect().room = 130_000
    running = set(client.run(os.getpid).values())
    left = []

    def kill_one(stage, done, total):
        if stage == FILTERING and done == 1:
            os.kill(min(running), signal.SIGKILL)
            left.append(total - done)

    engine.on_progress = kill_one
    found = engine.smooth(HalfFilter(3), data.graph, data.features)
    assert left[0] > 3
    assert close(whole(found), expected)
    projected = engine.project(found, engine.singular_vectors(found, 4), "unit")
    own = LOCAL.project(expected, LOCAL.singular_vectors(expected, 4), "unit")
    labels = (engine.cluster(projected, 4, n_init=2, seed=0).labels, LOCAL.cluster(own, 4, n_init=2, seed=0).labels)
    assert np.array_equal(*labels)
    engine.close()


SCHEDULER = """
from distributed import LocalCluster
if __name__ == "__main__":
    options = {"dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}, "silence_logs": 50}
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://", **options)
    print(cluster.scheduler_address, flush=True)
    input()
"""


@pytest.fixture
def elsewhere():
    """The process of a scheduler and one worker, and its address."""
    command = [sys.executable, "-c", SCHEDULER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process, process.stdout.readline().strip()
        process.kill()


def test_after_the_loss_of_the_scheduler_the_next_start_goes_on(elsewhere, client, data, tmp_path):
    process, address = elsewhere
    folder = str(tmp_path / "pieces")
    engine = DaskEngine(scheduler=address, folder=folder)
    engine.connect().room = 100_000

    def stop(stage, done, _):
        if stage == FILTERING and done == 2:
            process.kill()
            process.wait()

    engine.on_progress = stop
    with pytest.raises(EngineError, match=f"connection to the Dask scheduler {address} is lost.*same command") as lost:
        engine.smooth(HalfFilter(3), data.graph, data.features)
    assert lost.value.exit_code == 13
    engine.close()
    (filtered,) = (tmp_path / "pieces").glob("filtered-*")
    kept = {path: path.stat().st_mtime_ns for path in filtered.glob("*.done")}
    assert len(kept) >= 2

    again = DaskEngine(client=client, folder=folder)
    again.connect().room, again.connect().threads = 100_000, 1  # a cluster of the same size
    stages = []
    again.on_progress = lambda stage, *_: stages.append(stage)
    found = again.smooth(HalfFilter(3), data.graph, data.features)
    assert set(stages) == {FILTERING}  # neither the table nor the graph is written again
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert close(whole(found), LOCAL.smooth(HalfFilter(3), data.graph, data.features))
    del found
    again.close()
    assert list((tmp_path / "pieces").glob("*-*")) == []


@pytest.fixture
def impatient(monkeypatch):
    """Wait half a second for a scheduler."""
    monkeypatch.setattr("kcagc.engines.cluster._CONNECT", "0.5s")


def test_without_a_scheduler_the_error_says_what_to_check(tmp_path, impatient):
    engine = DaskEngine(scheduler="tcp://127.0.0.1:9", folder=str(tmp_path))
    with pytest.raises(EngineError, match=r"tcp://127.0.0.1:9 cannot be used .*engine\.scheduler"):
        engine.connect()


def test_a_cluster_without_workers_is_not_waited_for_without_end(tmp_path):
    options = {"n_workers": 0, "processes": False, "protocol": "tcp://", **TEMPORARY}
    with LocalCluster(**options) as cluster:
        engine = DaskEngine(scheduler=cluster.scheduler_address, folder=str(tmp_path), worker_timeout=0.2)
        with pytest.raises(EngineError, match=r"no worker for 0\.2 s \(engine\.worker_timeout\)"):
            engine.connect()


def test_a_cluster_with_tls_accepts_certificates_of_its_authority_only(tmp_path, impatient):
    for name in ("own", "foreign"):
        authority = trial_authority(name)
        certificate, key = authority.issue(name, server=True, client=True)
        for ending, content in (("ca", authority.certificate_pem), ("crt", certificate), ("key", key)):
            (tmp_path / f"{name}.{ending}").write_bytes(content)

    def files(name):
        return [str(tmp_path / f"{name}.{ending}") for ending in ("ca", "crt", "key")]

    ca, certificate, key = files("own")
    roles = {f"tls_{role}_{kind}": path for role in ("scheduler", "worker", "client")
             for kind, path in (("cert", certificate), ("key", key))}  # fmt: skip
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, **TEMPORARY}
    with LocalCluster(security=Security(tls_ca_file=ca, require_encryption=True, **roles), **options) as cluster:
        place = {"scheduler": cluster.scheduler_address, "folder": str(tmp_path / "pieces")}
        engine = DaskEngine(ca=ca, certificate=certificate, key=key, **place)
        found = engine.smooth(HalfFilter(1), Graph.from_edges([0], [1]), np.array([[1.0], [0.0]]))
        assert np.allclose(whole(found), [[0.75], [0.25]])
        with pytest.raises(EngineError, match=r"another run works in .*one for each party"):
            DaskEngine(ca=ca, certificate=certificate, key=key, **place).connect()
        engine.close()
        _, certificate, key = files("foreign")
        stranger = DaskEngine(ca=ca, certificate=certificate, key=key, **place)
        with pytest.raises(EngineError, match=r"cannot be used .*TLS files"):
            stranger.connect()
        with pytest.raises(ParameterError, match=r"engine\.key: .*none: there is no such file"):
            DaskEngine(ca=ca, certificate=certificate, key=str(tmp_path / "none"), **place).connect()


def pretended(answer):
    """Return a client whose one worker answers like this."""

    def run(function, probe):
        found = answer(function, probe)
        return {"tls://worker:1": found}

    return SimpleNamespace(wait_for_workers=lambda *_, **__: None, run=run)


def other_version(_, __):
    return ("0.0.1", "", 1 << 30, 1)


def other_folder(_, __):
    return (version("kcagc"), "", 1 << 30, 1)


def no_package(_, __):
    raise ModuleNotFoundError("No module named 'kcagc'")


@pytest.mark.parametrize(("answer", "said"), [
    (other_version, r"worker tls://worker:1 has kcagc 0\.0\.1, and this machine .*install the same version"),
    (other_folder, r"engine\.folder: worker tls://worker:1 does not see the files of this machine in "),
    (no_package, r"cannot run the code of kcagc \(No module named 'kcagc'\); install kcagc\[dask\] .* on all workers"),
])  # fmt: skip
def test_workers_that_cannot_do_the_work_are_named(answer, said, tmp_path):
    with pytest.raises(EngineError, match=said):
        Cluster(ClusterSettings(folder=str(tmp_path)), pretended(answer))
    assert [path.name for path in tmp_path.iterdir()] in ([], [".lock"])


def test_a_column_that_fits_no_worker_is_refused(narrow, data):
    narrow.connect().room = 10_000
    with pytest.raises(EngineError, match=r"one column of 700 nodes, a task needs .*more memory"):
        narrow.smooth(HalfFilter(1), data.graph, data.features)


def test_a_task_that_fails_names_itself_and_the_next_work_connects_again(narrow, data):
    found = narrow.smooth(HalfFilter(1), data.graph, data.features)
    next(found.folder.glob("1-*.npy")).write_bytes(b"damaged")
    with pytest.raises(EngineError, match=r"a task failed on the Dask cluster \(gram_of: ValueError.*same command"):
        narrow.singular_vectors(found, 2)
    before = narrow._cluster
    again = narrow.smooth(HalfFilter(2), data.graph, data.features)
    assert close(whole(again), LOCAL.smooth(HalfFilter(2), data.graph, data.features))
    assert narrow._cluster is not before


def test_an_error_of_a_callback_stays_what_it_is(engine, data):
    def stop(*_):
        raise ZeroDivisionError

    engine.on_progress = stop
    with pytest.raises(ZeroDivisionError):
        engine.smooth(HalfFilter(1), data.graph, data.features)
    engine.on_progress = None
    assert engine.smooth(HalfFilter(1), data.graph, data.features).shape == (700, 70)


@pytest.mark.parametrize(("given", "said"), [
    ({"scheduler": "host"}, r"engine\.folder: is missing"),
    ({"scheduler": "host", "folder": "f"}, r"engine\.scheduler: write tls://HOST:PORT, not 'host'"),
    ({"scheduler": "tcp://10.0.0.1:8786", "folder": "f"}, r"engine\.scheduler: .* has no encryption.*tls://"),
    ({"scheduler": "tls://s:8786", "folder": "f", "ca": "a"}, r"engine\.certificate and engine\.key: missing"),
    ({"scheduler": "tls://s:8786", "folder": "f", "workers": 2}, r"engine\.workers: is for a cluster on this machine"),
    ({"ca": "ca.pem"}, r"engine\.ca: is for an existing cluster"),
    ({"memory": "2.5"}, r'engine\.memory: must be a size such as "2\.5GiB", not \'2\.5\''),
    ({"memory": "0GiB"}, r"engine\.memory: must be a size"),
    ({"workers": 0}, r"engine\.workers: must be a whole number, 1 or more"),
    ({"worker_timeout": 0.0}, r"engine\.worker_timeout: must be above 0"),
])  # fmt: skip
def test_settings_that_cannot_be_used_are_refused(given, said):
    with pytest.raises(ParameterError, match=said):
        EngineSection(name="dask", **given).check()


def test_settings_of_a_cluster_need_the_engine():
    with pytest.raises(ParameterError, match=r'engine\.workers: is for a Dask cluster; set engine\.name = "dask" too'):
        EngineSection(workers=2).check()
    EngineSection(name="local", workers=2).check()  # `--engine local` for once


def test_sizes_of_memory():
    assert bytes_of("2.5GiB") == 5 << 29
    assert bytes_of("500 MB") == 500_000_000
    assert bytes_of(7) == 7
    assert bytes_of(None) is None


def test_the_engine_is_chosen_by_name_and_copied_without_its_connection(monkeypatch):
    chosen = choose_engine(EngineSection(name="dask", workers=3, memory="1GiB"), (5, 5))
    assert str(chosen) == "dask, because it is set"
    again = copy.deepcopy(chosen.engine)
    assert repr(again) == repr(chosen.engine) == "DaskEngine(workers=3, memory='1GiB')"
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ParameterError, match=r"engine: 'dask' needs the package distributed.*kcagc\[dask\].*\"local\""):
        choose_engine("dask", (5, 5))


def test_the_configuration_file_names_a_cluster(tmp_path):
    path = made(tmp_path)["alice"]
    section = '[engine]\nname = "dask"\nscheduler = "tls://s:8786"\nfolder = "shared"\n'
    files = 'ca = "cluster.pem"\ncertificate = "me.pem"\nkey = "me.key"\n'
    edit(path, r"^\[policy\]", f"{section}{files}\n[policy]")
    config = Config.load(path)
    found = config.document.engine.located(config.file)
    assert found.folder == str(path.parent / "shared")
    assert found.key == str(path.parent / "me.key")
    (path.parent / "cluster.pem").write_bytes(
        Config.load(path).file(Config.load(path).document.network.ca).read_bytes()
    )
    with pytest.raises(ParameterError, match=r"engine\.ca: is the authority of \[network\]"):
        Config.load(path)


class CountingEngine(LocalEngine):
    """Do all work in this process, and count the tables."""

    name = "counting"
    smoothed = 0

    def smooth(self, *values, **more):
        self.smoothed += 1
        return super().smooth(*values, **more)


def test_parties_on_dask_on_this_process_and_on_a_device_find_the_same_clusters(engine):
    demo = load("demo")
    tables = dict(zip(("bank", "telecom", "shop"), demo.parties(), strict=True))
    own, seen = CountingEngine(), []
    options = {"n_clusters": 5, "psi": 2, "random_state": 0}
    model = KCAGC(
        **options,
        engine={"bank": engine, "telecom": own, "shop": GpuEngine(xp=np)},
        callbacks=lambda role, step: seen.append((role, step.stage)),
    ).fit(tables, adjacency=demo.adjacency)
    alone = KCAGC(**options, engine="local").fit(tables, adjacency=demo.adjacency)
    assert np.array_equal(model.labels_, alone.labels_)
    assert own.smoothed == 1
    assert {role for role, stage in seen if stage == FILTERING} == {"bank"}
    assert np.array_equal(
        model.predict(tables, adjacency=demo.adjacency, nodes=[0, 5]),
        alone.predict(tables, adjacency=demo.adjacency, nodes=[0, 5]),
    )
