"""Small files that would fill the memory or the stack: each is refused before its content is kept, with a remedy."""

import gzip
import tracemalloc

import msgspec
import numpy as np
import pytest
from scipy import sparse

from kcagc.data.files import read_saved
from kcagc.data.node_lists import read_ids
from kcagc.data.table_files import read_features
from kcagc.deploy.config import Config
from kcagc.disclosure import Ledger
from kcagc.errors import DataError, ParameterError, SessionError
from kcagc.report.names import ClusterNames
from kcagc.runtime.kept import KeptResults

MEGABYTE = 1 << 20
MOST = 8 * MEGABYTE  # that a refusal may need


def compressed(path, head, piece, megabytes=40):
    """Write a gzip file that expands to many megabytes."""
    with gzip.open(path, "wb", 9) as stream:
        stream.write(head)
        block = (piece * (MEGABYTE // len(piece) + 1))[: MEGABYTE // len(piece) * len(piece)]
        for _ in range(megabytes):
            stream.write(block)
    return path


def refused(read, match, error=DataError):
    """Assert that reading ends in an error, and needs little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(error, match=match):
            read()
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()


CONTENTS = {
    "rows": (b"id,a\n", b"0,0\n"),
    "empty lines": (b"id,a\n", b"\n"),
    "one line": (b"id,a\n", b"1"),
    "the header": (b"", b"a,"),
    "a quote": (b'id,a\n1,"', b"x\n"),
}


@pytest.mark.parametrize("content", CONTENTS)
def test_a_table_that_expands_too_much_is_refused_before_it_is_read(tmp_path, content):
    path = compressed(tmp_path / "table.csv.gz", *CONTENTS[content])
    assert path.stat().st_size < 50_000
    refused(
        lambda: read_features(path, party="bank", id_column="id"),
        r"bank: .*table\.csv\.gz: expands to more than 33\.6 MB, from .*gunzip",
    )


def test_a_node_list_that_expands_too_much_is_refused_before_it_is_read(tmp_path):
    path = compressed(tmp_path / "nodes.txt.gz", b"", b"a\n")
    refused(lambda: read_ids(path, party="bank"), "expands to more than")


def test_a_compressed_table_that_repeats_as_data_do_is_read(tmp_path):
    random = np.random.default_rng(0)
    rows = [f"{number},{','.join(map(str, random.integers(0, 2, 3)))}" for number in range(20_000)]
    text = "\n".join(["id,a,b,c", *rows]).encode()
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(text))
    assert read_features(path, party="bank", id_column="id").n_rows == 20_000


def test_an_archive_that_expands_too_much_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "table.npz"
    np.savez_compressed(path, table=np.zeros((17 << 16, 16)))
    refused(lambda: read_features(path, party="bank"), "expands to 142.6 MB, more than the 134.2 MB.*numpy.savez")


def test_a_sparse_matrix_that_is_compressed_as_usual_is_read(tmp_path):
    sparse.save_npz(tmp_path / "table.npz", sparse.random_array((500, 90), density=0.05, rng=0, format="csr"))
    assert read_features(tmp_path / "table.npz", party="bank").n_rows == 500


@pytest.mark.parametrize("kind", ["array", "coordinate"])
def test_a_matrix_whose_header_announces_more_than_its_file_can_hold_is_refused(tmp_path, kind):
    path = tmp_path / "table.mtx"
    size = "100000 100000" + (" 10000000000" if kind == "coordinate" else "")
    path.write_text(f"%%MatrixMarket matrix {kind} real general\n{size}\n1\n")
    refused(lambda: read_features(path, party="bank"), "announces 10,000,000,000 entries .* but is too short")


def test_a_parquet_file_with_a_billion_equal_cells_is_refused_before_it_is_read(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, rows = tmp_path / "table.parquet", 1 << 20
    table = arrow.table({name: arrow.nulls(rows) for name in "abc"})
    with parquet.ParquetWriter(path, table.schema) as writer:
        for _ in range(40):
            writer.write_table(table)
    refused(lambda: read_features(path, party="bank"), "announces 125,829,120 cells, more than a file of")


DEEP = 100_000
READERS = {
    "configuration": ("kcagc.toml", "a = " + "[" * DEEP, Config.load, ParameterError),
    "names": ("names.json", "[" * DEEP, lambda path: ClusterNames.load(path.parent, n_clusters=2), DataError),
    "ledger": ("ledger.jsonl", "[" * DEEP, Ledger.load, ValueError),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_text_that_is_nested_too_deeply_is_refused(tmp_path, reader):
    name, text, read, error = READERS[reader]
    (tmp_path / name).write_text(text)
    with pytest.raises(error, match="nested too deeply"):
        read(tmp_path / name)


def nested():
    """Return bytes of msgpack: an object with a field that nobody reads, which contains a list in a list in a list."""
    return b"\x81\xa1x" + b"\x91" * DEEP


def test_a_saved_file_that_is_nested_too_deeply_is_refused(tmp_path):
    (tmp_path / "model.kcagc").write_bytes(nested())
    with pytest.raises(DataError, match="is not a model, or is damaged"):
        read_saved(tmp_path / "model.kcagc", msgspec.Struct, "format", "a model")


def test_a_record_of_earlier_sessions_that_is_nested_too_deeply_is_refused(tmp_path):
    kept = KeptResults(tmp_path / "kept", b"data", {})
    kept.folder.mkdir()
    (kept.folder / "00.session").write_bytes(nested())
    with pytest.raises(SessionError, match="cannot be read"):
        kept.sessions()
