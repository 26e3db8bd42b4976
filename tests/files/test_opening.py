import gzip
import os
from pathlib import Path

import pytest

from files.tables import refused
from kcagc.errors import DataError
from kcagc.files import read_features, read_graph

ENDINGS = ".csv, .csv.gz, .tsv, .tsv.gz, .parquet, .npz, .mtx or .mtx.gz"


@pytest.mark.parametrize("name", ["a.xlsx", "a", "a.gz", "csv", "a.txt", "a.parquet.gz"])
def test_an_unknown_ending_lists_the_known_ones(tmp_path, name):
    refused(tmp_path / name, f"its name must end in {ENDINGS}", read_features, tmp_path / name)
    refused(tmp_path / name, f"its name must end in {ENDINGS}", read_graph, tmp_path / name, nodes=2)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.npz", "a.mtx", "a.MTX.GZ"])
def test_a_file_that_is_not_there_or_not_a_file_is_named(tmp_path, name):
    path = tmp_path / name
    refused(path, "there is no such file", read_features, path)
    path.mkdir()
    refused(path, "this is a folder", read_features, path)
    path.rmdir()
    os.mkfifo(path)
    refused(path, "this is not a regular file", read_features, path)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.npz", "a.mtx"])
def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch, name):
    path = tmp_path / name
    path.write_text("x")

    def forbidden(self):  # the tests may run as a user who may read everything
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", forbidden)
    refused(path, "there is no permission to read it", read_features, path)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_text_that_is_not_utf_8_is_named_with_the_line(tmp_path, encoding):
    path = tmp_path / "a.csv"
    lines = ["id,x", *(f"n{number},1" for number in range(5000)), "münchen,2", "wien,3"]
    path.write_bytes("\n".join(lines).encode(encoding))
    line = 5002 if encoding == "latin-1" else 1
    refused(path, f"line {line}: not UTF-8", read_features, path, id_column="id")


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    (tmp_path / "a.csv").write_bytes("\ufeffid,x\nn,1\n".encode())
    assert read_features(tmp_path / "a.csv", party="bank", id_column="id").columns == ["x"]


@pytest.mark.parametrize("name", ["a.csv.gz", "a.tsv.gz", "a.mtx.gz"])
def test_a_damaged_packing_is_named(tmp_path, name):
    path = tmp_path / name
    rows = "".join(f"{row} 1 {row * 0.37}\n" for row in range(1, 3000))
    text = {
        "a.csv.gz": "id,x\n" + rows.replace(" ", "", 1).replace(" ", ","),
        "a.tsv.gz": "i\tj\tx\n" + rows.replace(" ", "\t"),
        "a.mtx.gz": "%%MatrixMarket matrix coordinate real general\n3000 1 2999\n" + rows,
    }[name]
    whole = gzip.compress(text.encode())
    for damaged in (whole[: len(whole) // 2], whole[:-6], whole[:1000] + b"\xff" * 50 + whole[1050:], b"no gzip"):
        path.write_bytes(damaged)
        refused(path, "", read_features, path)
        with pytest.raises(DataError, match="damaged"):
            read_features(path, party="bank")
