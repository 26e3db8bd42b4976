"""Fetching over HTTP, from a server on this machine: the good case, and everything that can arrive instead."""

from __future__ import annotations

import collections
import hashlib
import http.server
import io
import json
import pickle
import threading
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import io as scipy_io
from scipy import sparse

from kcagc.datasets import generate, load, names
from kcagc.datasets.catalog import SourceFile, entries, entry
from kcagc.datasets.convert import _load, convert
from kcagc.datasets.fetch import fetch
from kcagc.datasets.model import read, write
from kcagc.errors import DataError, DownloadError


class QuietServer:
    """Serves a folder and counts what was asked for."""

    def __init__(self, folder: Path):
        self.asked = asked = []

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=str(folder))

            def log_message(self, *arguments):
                asked.append(self.path)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def serve():
    servers = []

    def start(folder: Path) -> QuietServer:
        servers.append(QuietServer(folder))
        return servers[-1]

    yield start
    for running in servers:
        running.server.shutdown()
        running.server.server_close()


@pytest.fixture
def small(tmp_path):
    """A small graph in the Matlab form of the originals, with the catalogue entry that describes it."""
    data = generate(60, 3, degree=4, features=8, sparsity=0.5, seed=0)
    folder = tmp_path / "served"
    folder.mkdir()
    scipy_io.savemat(
        folder / "small.mat",
        {
            "W": sparse.csc_matrix(data.adjacency),
            "fea": data.features.toarray(),
            "gnd": data.labels[:, None] + 1,
        },
    )
    content = (folder / "small.mat").read_bytes()
    described = replace(
        entry("cora"),
        name="small",
        nodes=60,
        edges=120,
        self_loops=0,
        features=8,
        classes=3,
        files=(SourceFile("small.mat", (), len(content), hashlib.sha256(content).hexdigest()),),
    )
    return data, folder, described


def addressed(described, *urls):
    return replace(described, files=(replace(described.files[0], urls=urls),))


@pytest.fixture(autouse=True)
def _public_addresses(monkeypatch):
    monkeypatch.delenv("KCAGC_DATA_URL")


def test_a_good_file_is_converted_and_kept(small, serve, tmp_path):
    data, folder, described = small
    server, target, said = serve(folder), tmp_path / "cache" / "small.npz", []
    found = fetch(addressed(described, f"{server.url}/small.mat"), target, progress=said.append)
    assert_array_equal(found.adjacency.toarray(), data.adjacency.toarray())
    assert_array_equal(found.features.toarray(), data.features.toarray())
    assert_array_equal(found.labels, data.labels)
    again = read(target, "small")
    assert_array_equal(again.features.toarray(), data.features.toarray())
    assert said == [f"small.mat ({(folder / 'small.mat').stat().st_size / 1e6:.1f} MB)"]


@pytest.mark.parametrize("damage", ["one byte", "truncated", "empty", "a page"])
def test_a_corrupted_file_is_refused_and_nothing_is_kept(small, serve, tmp_path, damage):
    _, folder, described = small
    content = bytearray((folder / "small.mat").read_bytes())
    if damage == "one byte":
        content[len(content) // 2] ^= 1
    (folder / "small.mat").write_bytes(
        {"truncated": content[:-10], "empty": b"", "a page": b"<html>sign in</html>"}.get(damage, bytes(content))
    )
    target = tmp_path / "cache" / "small.npz"
    url = f"{serve(folder).url}/small.mat"
    with pytest.raises(DownloadError, match=r"not the original \(its SHA-256 is not") as caught:
        fetch(addressed(described, url), target)
    assert url in str(caught.value)
    assert "nothing was kept" in str(caught.value)
    assert not target.parent.exists() or not any(target.parent.iterdir())


def test_the_next_address_is_tried(small, serve, tmp_path):
    data, folder, described = small
    broken = tmp_path / "broken"
    broken.mkdir()
    first, second = serve(broken), serve(folder)
    found = fetch(addressed(described, f"{first.url}/small.mat", f"{second.url}/small.mat"), tmp_path / "small.npz")
    assert_array_equal(found.labels, data.labels)
    assert first.asked
    assert second.asked


def test_all_failures_are_listed(small, serve, tmp_path):
    _, folder, described = small
    (folder / "small.mat").unlink()
    server = serve(folder)
    with pytest.raises(DownloadError) as caught:
        fetch(addressed(described, f"{server.url}/small.mat", "http://127.0.0.1:9/small.mat"), tmp_path / "small.npz")
    assert "the server answered 404" in str(caught.value)
    assert "127.0.0.1:9/small.mat: ConnectionError: the server could not be reached" in str(caught.value)


def test_an_organisations_own_server_is_asked_instead(small, serve, tmp_path, monkeypatch):
    data, folder, described = small
    monkeypatch.setenv("KCAGC_DATA_URL", serve(folder).url + "/")
    found = fetch(addressed(described, "http://127.0.0.1:9/small.mat"), tmp_path / "small.npz")
    assert_array_equal(found.labels, data.labels)


def test_a_file_of_the_right_hash_but_other_counts_is_refused(small, serve, tmp_path):
    _, folder, described = small
    described = replace(addressed(described, f"{serve(folder).url}/small.mat"), nodes=61)
    with pytest.raises(DataError, match="not the small graph: it has 60 nodes, and small 61"):
        fetch(described, tmp_path / "small.npz")
    assert not (tmp_path / "small.npz").exists()


def test_without_pooch_the_error_says_what_to_install(small, tmp_path, monkeypatch):
    _, _, described = small
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(DownloadError, match=r"pip install 'kcagc\[datasets\]'"):
        fetch(described, tmp_path / "small.npz")


def test_loading_uses_the_folder_then_the_cache_then_the_network(small, serve, tmp_path, monkeypatch):
    data, folder, described = small
    server = serve(folder)
    described = addressed(described, f"{server.url}/small.mat")
    monkeypatch.setattr("kcagc.datasets.loading.entry", lambda name: described)
    monkeypatch.setenv("KCAGC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KCAGC_DATA", raising=False)
    assert_array_equal(load("small").labels, data.labels)
    assert len(server.asked) == 1
    assert_array_equal(load("small").labels, data.labels)
    assert len(server.asked) == 1  # from the cache

    mine = tmp_path / "mine"
    monkeypatch.setenv("KCAGC_DATA", str(mine))
    with pytest.raises(DataError, match="is not a folder"):
        load("small")
    flipped = replace(data, labels=2 - data.labels)
    write(flipped, mine / "small.npz")
    assert_array_equal(load("small").labels, flipped.labels)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "not a dataset file"), (b"PK\x03\x04 nonsense", "not a dataset file"), (b"text", "not a dataset file")],
)
def test_a_broken_file_in_the_folder_is_named(tmp_path, monkeypatch, content, message):
    (tmp_path / "cora.npz").write_bytes(content)
    monkeypatch.setenv("KCAGC_DATA", str(tmp_path))
    with pytest.raises(DataError, match=message) as caught:
        load("cora")
    assert str(tmp_path / "cora.npz") in str(caught.value)


def test_another_graph_under_the_name_is_refused(tmp_path, monkeypatch, small):
    data, _, _ = small
    write(data, tmp_path / "cora.npz")
    monkeypatch.setenv("KCAGC_DATA", str(tmp_path))
    with pytest.raises(DataError, match="not the cora graph: it has 60 nodes, and cora 2708"):
        load("cora")


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch, small):
    data, _, _ = small

    def full(*arguments, **more):
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="no space"):
        write(data, tmp_path / "small.npz")
    assert not any(path.name.startswith(".small") or path.name == "small.npz" for path in tmp_path.iterdir())


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(DataError, match="none called 'coral'; there are demo, cora, citeseer, pubmed, wiki"):
        load("coral")
    assert names() == ["demo", *entries()]


# Planetoid's files are pickles, which can run any code when read carelessly.


class Bomb:
    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self):
        return (Path.touch, (self.target,))


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_wants_to_run_code_is_refused(tmp_path, protocol):
    bait = tmp_path / "ran"
    (tmp_path / "bad").write_bytes(pickle.dumps(Bomb(bait), protocol=protocol))
    with pytest.raises(DataError, match="which a dataset has no use for"):
        _load(tmp_path / "bad")
    assert not bait.exists()


@pytest.mark.parametrize("content", [b"", b"\x80\x02", b"not a pickle", b"\x80\x02K\x01K\x02\x86"])
def test_a_broken_pickle_is_named(tmp_path, content):
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(DataError, match="bad: not a file of the Planetoid collection"):
        _load(tmp_path / "bad")


class _Python2Pickler(pickle._Pickler):
    """Writes bytes as the plain strings they were in Python 2."""

    dispatch: ClassVar = {
        **pickle._Pickler.dispatch,
        bytes: lambda self, value: self.write(pickle.BINSTRING + len(value).to_bytes(4, "little") + value),
    }


def _python2_pickle(value) -> bytes:
    stream = io.BytesIO()
    _Python2Pickler(stream, protocol=2).dump(value)
    return stream.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def _python2_csr(matrix: sparse.csr_matrix) -> bytes:
    """Write a matrix as the old collection does: SciPy's former module name, protocol 2, state as a dictionary."""

    state = {
        "data": matrix.data,
        "indices": matrix.indices,
        "indptr": matrix.indptr,
        "_shape": matrix.shape,
        "format": "csr",
        "maxprint": 50,
    }
    plain = _python2_pickle(state)
    # PROTO 2, GLOBAL csr_matrix, EMPTY_TUPLE, NEWOBJ, the state, BUILD, STOP
    return b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81" + plain[2:-1] + b"b."


def test_planetoid_files_are_joined_in_the_order_of_node_numbers(tmp_path):
    random = np.random.default_rng(0)
    features = sparse.csr_matrix((random.random((8, 3)) * (random.random((8, 3)) < 0.7)).astype(np.float32))
    classes = np.eye(2, dtype=np.int32)[np.arange(8) % 2]
    stored = np.array([7, 5, 6])  # test nodes, in the order of the test files
    neighbours = collections.defaultdict(list)
    for node in range(8):  # each edge in both lists, one of them twice, and a self loop
        neighbours[node] += [(node + 1) % 8, (node - 1) % 8]
    neighbours[3] += [3, 4]
    parts = {
        "x": _python2_csr(features[:2]),
        "tx": _python2_csr(features[stored]),
        "allx": _python2_csr(features[:5]),
        "y": _python2_pickle(classes[:2]),
        "ty": _python2_pickle(classes[stored]),
        "ally": _python2_pickle(classes[:5]),
        "graph": _python2_pickle(neighbours),
        "test.index": b"7\n5\n6\n",
    }
    for name, content in parts.items():
        (tmp_path / f"ind.small.{name}").write_bytes(content)
    described = replace(
        entry("pubmed"),
        name="small",
        nodes=8,
        edges=8,
        self_loops=1,
        features=3,
        classes=2,
        files=tuple(SourceFile(f"ind.small.{name}", (), 0, "") for name in parts),
    )
    found = convert(described, tmp_path)
    assert_array_equal(found.features.toarray(), features.toarray())
    assert_array_equal(found.labels, np.arange(8) % 2)
    assert found.adjacency[3, 3] == 1
    assert found.adjacency[3, 4] == found.adjacency[4, 3] == 1


# The originals


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed", "wiki"])
def test_the_originals_downloaded_and_converted_are_the_portable_files(name, public_data, serve, tmp_path, monkeypatch):
    server = serve(public_data / "raw")
    monkeypatch.setenv("KCAGC_DATA_URL", server.url)
    found, portable = fetch(entry(name), tmp_path / f"{name}.npz"), load(name)
    assert len(server.asked) == len(entry(name).files)
    assert (found.adjacency != portable.adjacency).nnz == 0
    assert (found.features != portable.features).nnz == 0
    assert found.features.dtype == portable.features.dtype
    assert_array_equal(found.labels, portable.labels)


@pytest.mark.real_data
def test_a_corrupted_original_is_refused(public_data, serve, tmp_path, monkeypatch):
    content = bytearray((public_data / "raw" / "cora.mat").read_bytes())
    content[1000] ^= 1
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "cora.mat").write_bytes(content)
    monkeypatch.setenv("KCAGC_DATA_URL", serve(tmp_path / "served").url)
    with pytest.raises(DownloadError, match=r"cora\.mat could not be downloaded, and nothing was kept"):
        fetch(entry("cora"), tmp_path / "cora.npz")
    assert not (tmp_path / "cora.npz").exists()


@pytest.mark.real_data
def test_the_catalogue_has_the_addresses_and_hashes_of_the_registry(public_data):
    registry = json.loads((public_data / "registry.json").read_text())
    listed = {file.name: file for facts in entries().values() for file in facts.files}
    assert set(listed) == set(registry)
    for name, file in listed.items():
        assert (file.urls, file.bytes, file.sha256) == (
            (registry[name]["url"], *registry[name]["mirrors"]),
            registry[name]["bytes"],
            registry[name]["sha256"],
        )
