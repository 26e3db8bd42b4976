"""Fetching over HTTP, from a server on this machine: the good case, and everything that can arrive instead."""

from __future__ import annotations

import collections
import contextlib
import hashlib
import http.server
import io
import json
import pickle
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from msgspec import structs
from numpy.testing import assert_array_equal
from scipy import io as scipy_io
from scipy import sparse

from kcagc.datasets import generate, load, names
from kcagc.datasets.catalog import SourceFile, entries, entry
from kcagc.datasets.dataset import read, write
from kcagc.datasets.download import _load, convert, fetch
from kcagc.errors import DataError, DownloadError
from kcagc.text import size


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
    described = structs.replace(
        entry("cora"),
        name="small",
        nodes=60,
        edges=120,
        self_loops=0,
        isolated=int(np.count_nonzero(np.diff(data.adjacency.indptr) == 0)),
        features=8,
        classes=3,
        files=(SourceFile("small.mat", (), len(content), hashlib.sha256(content).hexdigest()),),
    )
    return data, folder, described


def addressed(described, *urls):
    return structs.replace(described, files=(structs.replace(described.files[0], urls=urls),))


@pytest.fixture(autouse=True)
def _public_addresses(monkeypatch):
    monkeypatch.delenv("KCAGC_DATA_URL")


def test_a_good_file_is_converted_and_kept(small, serve, tmp_path):
    data, folder, described = small
    server, target, reported = serve(folder), tmp_path / "cache" / "small.npz", []
    found = fetch(addressed(described, f"{server.url}/small.mat"), target, progress=reported.append)
    assert_array_equal(found.adjacency.toarray(), data.adjacency.toarray())
    assert_array_equal(found.features.toarray(), data.features.toarray())
    assert_array_equal(found.labels, data.labels)
    again = read(target, "small")
    assert_array_equal(again.features.toarray(), data.features.toarray())
    assert reported == [f"small.mat ({size((folder / 'small.mat').stat().st_size)})"]


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
    assert "no file was stored" in str(caught.value)
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
    assert "127.0.0.1:9/small.mat: the server could not be reached" in str(caught.value)


def test_an_organisations_own_server_is_asked_instead(small, serve, tmp_path, monkeypatch):
    data, folder, described = small
    monkeypatch.setenv("KCAGC_DATA_URL", serve(folder).url + "/")
    found = fetch(addressed(described, "http://127.0.0.1:9/small.mat"), tmp_path / "small.npz")
    assert_array_equal(found.labels, data.labels)


def test_a_file_of_the_right_hash_but_other_counts_is_refused(small, serve, tmp_path):
    _, folder, described = small
    described = structs.replace(addressed(described, f"{serve(folder).url}/small.mat"), nodes=61)
    with pytest.raises(DataError, match="not the small graph: it has 60 nodes, but small has 61"):
        fetch(described, tmp_path / "small.npz")
    assert not (tmp_path / "small.npz").exists()


def test_without_pooch_the_error_says_what_to_install(small, tmp_path, monkeypatch):
    _, _, described = small
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    with pytest.raises(DownloadError, match="pip install pooch"):
        fetch(described, tmp_path / "small.npz")


def test_loading_uses_the_folder_then_the_cache_then_the_network(small, serve, tmp_path, monkeypatch):
    data, folder, described = small
    server = serve(folder)
    described = addressed(described, f"{server.url}/small.mat")
    monkeypatch.setattr("kcagc.datasets.catalog.entries", lambda: {"small": described})
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


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 nonsense", b"text", b"\x93NUMPY\x01\x00"])
def test_a_file_that_is_no_archive_is_named(tmp_path, monkeypatch, content):
    (tmp_path / "cora.npz").write_bytes(content)
    monkeypatch.setenv("KCAGC_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"not a dataset file \(not an \.npz archive") as caught:
        load("cora")
    assert str(tmp_path / "cora.npz") in str(caught.value)


def test_every_flipped_byte_is_an_error_or_harmless(small, tmp_path):
    """Reading a damaged file raises our own error, or returns a valid dataset."""
    data, _, _ = small
    path = tmp_path / "small.npz"
    write(data, path)
    whole = path.read_bytes()
    for place in np.random.default_rng(0).integers(len(whole), size=300):
        damaged = bytearray(whole)
        damaged[place] ^= 0x41
        path.write_bytes(damaged)
        with contextlib.suppress(DataError):
            read(path, "small")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adj_indices": None}, "it has no 'adj_indices'"),
        ({"adj_indices": np.full(240, 10**6)}, "adjacency: the sparse matrix is damaged"),
        ({"feat_indices": "wild"}, "features: the sparse matrix is damaged"),
        ({"adj_shape": np.array(60)}, "not a dataset file"),
        ({"adj_shape": np.array([60.5, 60.0])}, "not a dataset file"),
        ({"labels": np.zeros(59, int)}, "labels must be 60 whole numbers"),
        ({"labels": np.full(60, np.nan)}, "labels must be 60 whole numbers"),
        ({"labels": np.full(60, -1)}, "labels must be 60 whole numbers"),
        ({"meta": np.asarray("[1]")}, "not a dataset file"),
        ({"meta": np.asarray("{")}, "not a dataset file"),
        ({"meta": np.asarray('{"party_columns": null}')}, "not a dataset file"),
        ({"meta": np.asarray('{"party_columns": [4, 5]}')}, r"party_columns \[4, 5\] do not add up to 8 columns"),
        ({"adj_data": "asymmetric"}, "adjacency: must be symmetric"),
    ],
)
def test_a_file_with_wrong_contents_is_named(small, tmp_path, changes, message):
    data, _, _ = small
    path = tmp_path / "small.npz"
    write(data, path)
    with np.load(path) as file:
        arrays = dict(file)
    for key, value in changes.items():
        if value is None:
            del arrays[key]
        elif isinstance(value, str) and value == "wild":
            arrays[key] = np.full_like(arrays[key], 99)
        elif isinstance(value, str) and value == "asymmetric":
            arrays[key] = np.arange(1.0, 241.0)
        else:
            arrays[key] = value
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=message) as caught:
        read(path, "small")
    assert str(path) in str(caught.value)


def test_a_broken_file_in_the_cache_is_to_be_deleted(tmp_path, monkeypatch):
    monkeypatch.setenv("KCAGC_CACHE", str(tmp_path))
    monkeypatch.delenv("KCAGC_DATA", raising=False)
    (tmp_path / "cora.npz").write_bytes(b"")
    with pytest.raises(DataError, match="delete the file to download it again"):
        load("cora")


@pytest.mark.parametrize("counted", ["nodes", "edges", "self_loops", "isolated", "features", "classes"])
def test_each_count_identifies_a_graph(small, counted):
    data, _, described = small
    described.check(data, where="here")
    with pytest.raises(DataError, match=f"here: not the small graph: it has .* {counted.replace('_', ' ')}"):
        structs.replace(described, **{counted: 1000}).check(data, where="here")


class Misbehaving:
    """A server that never stops sending, or sends a byte now and then."""

    def __init__(self, endless: bool):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                with contextlib.suppress(OSError):
                    while True:
                        self.wfile.write(b"x" * (1 << 16 if endless else 1))
                        time.sleep(0 if endless else 0.05)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.mark.parametrize(
    ("endless", "message"),
    [(True, "more than the .* bytes of the original"), (False, "did not arrive within 0.5 seconds")],
)
def test_a_server_that_never_ends_is_left(small, tmp_path, monkeypatch, endless, message):
    _, _, described = small
    monkeypatch.setattr("kcagc.datasets.download._DEADLINE", 0.5)
    misbehaving = Misbehaving(endless)
    try:
        begin = time.monotonic()
        with pytest.raises(DownloadError, match=message):
            fetch(addressed(described, f"{misbehaving.url}/small.mat"), tmp_path / "small.npz")
        assert time.monotonic() - begin < 10
    finally:
        misbehaving.server.shutdown()
        misbehaving.server.server_close()


@pytest.mark.parametrize("address", ["files.example.org/x", "file:///etc", "ftp://127.0.0.1"])
def test_what_is_no_web_address_is_refused(small, tmp_path, monkeypatch, address):
    _, _, described = small
    monkeypatch.setenv("KCAGC_DATA_URL", address)
    with pytest.raises(DownloadError, match="KCAGC_DATA_URL: must begin with http:// or https://"):
        fetch(described, tmp_path / "small.npz")


def test_a_cache_that_cannot_be_written_is_noticed_before_the_download(small, serve, tmp_path):
    _, folder, described = small
    server = serve(folder)
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DownloadError, match=r"file: cannot be written to .* set KCAGC_CACHE"):
        fetch(addressed(described, f"{server.url}/small.mat"), tmp_path / "file" / "small.npz")
    assert not server.asked


def test_many_may_write_the_same_dataset_while_others_read_it(small, tmp_path):
    data, _, _ = small
    path = tmp_path / "small.npz"
    write(data, path)
    failures = []

    def work(task):
        try:
            for _ in range(8):
                task()
        except Exception as error:
            failures.append(error)

    tasks = [lambda: write(data, path)] * 4 + [lambda: read(path, "small")] * 4
    threads = [threading.Thread(target=work, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert [found.name for found in tmp_path.glob("*small*")] == ["small.npz"]


def test_another_graph_under_the_name_is_refused(tmp_path, monkeypatch, small):
    data, _, _ = small
    write(data, tmp_path / "cora.npz")
    monkeypatch.setenv("KCAGC_DATA", str(tmp_path))
    with pytest.raises(DataError, match="not the cora graph: it has 60 nodes, but cora has 2708"):
        load("cora")


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch, small):
    data, _, _ = small

    def full(*arguments, **more):
        raise OSError("no space left on device")

    write(data, tmp_path / "small.npz")
    before = (tmp_path / "small.npz").read_bytes()
    monkeypatch.setattr(np, "savez_compressed", full)
    for name in ("small.npz", "other.npz"):
        with pytest.raises(OSError, match="no space"):
            write(data, tmp_path / name)
    assert (tmp_path / "small.npz").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["served", "small.npz"]


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(DataError, match="unknown name 'coral'; choose one of demo, cora, citeseer, pubmed, wiki"):
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
    with pytest.raises(DataError, match="which no dataset needs"):
        _load(tmp_path / "bad")
    assert not bait.exists()


def _forged_array(type_arguments: bytes, state: bytes, content: bytes) -> bytes:
    """An array whose number type was described falsely, so that its bytes would be taken for pointers."""
    return (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01bt R".replace(b" ", b"")
        + b"(K\x01K\x01\x85cnumpy\ndtype\n"
        + type_arguments
        + b"R"
        + state
        + b"b\x89T"
        + len(content).to_bytes(4, "little")
        + content
        + b"tb."
    )


def test_an_array_of_forged_pointers_is_refused(tmp_path):
    forged = _forged_array(b"(U\x02O8K\x00K\x01t", b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t", b"A" * 8)
    (tmp_path / "bad").write_bytes(forged)
    with pytest.raises(DataError, match="values of type 'O8', not plain numbers"):
        _load(tmp_path / "bad")


def test_an_array_whose_bytes_do_not_fit_its_shape_is_refused(tmp_path):
    short = _forged_array(b"(U\x02f8K\x00K\x01t", b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t", b"A" * 24)
    (tmp_path / "bad").write_bytes(short)
    with pytest.raises(ValueError, match="cannot reshape"):
        _load(tmp_path / "bad").array()


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
        "tx": _python2_csr(features[stored]),
        "allx": _python2_csr(features[:5]),
        "ty": _python2_pickle(classes[stored]),
        "ally": _python2_pickle(classes[:5]),
        "graph": _python2_pickle(neighbours),
        "test.index": b"7\n5\n6\n",
    }
    for name, content in parts.items():
        (tmp_path / f"ind.small.{name}").write_bytes(content)
    described = structs.replace(
        entry("pubmed"),
        name="small",
        nodes=8,
        edges=8,
        self_loops=1,
        isolated=0,
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
@pytest.mark.originals
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
@pytest.mark.originals
def test_a_corrupted_original_is_refused(public_data, serve, tmp_path, monkeypatch):
    content = bytearray((public_data / "raw" / "cora.mat").read_bytes())
    content[1000] ^= 1
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "cora.mat").write_bytes(content)
    monkeypatch.setenv("KCAGC_DATA_URL", serve(tmp_path / "served").url)
    with pytest.raises(DownloadError, match=r"cora\.mat could not be downloaded, and no file was stored"):
        fetch(entry("cora"), tmp_path / "cora.npz")
    assert not (tmp_path / "cora.npz").exists()


@pytest.mark.real_data
@pytest.mark.originals
def test_the_catalogue_has_the_addresses_and_hashes_of_the_registry(public_data):
    registry = json.loads((public_data / "registry.json").read_text())
    listed = {file.name: file for facts in entries().values() for file in facts.files}
    assert set(registry) - set(listed) == {"ind.pubmed.x", "ind.pubmed.y"}  # their rows are in allx and ally
    for name, file in listed.items():
        assert (file.urls, file.bytes, file.sha256) == (
            (registry[name]["url"], *registry[name]["mirrors"]),
            registry[name]["bytes"],
            registry[name]["sha256"],
        )
