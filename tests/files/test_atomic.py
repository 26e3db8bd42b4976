import os
import stat

import pytest

from kcagc.files import write_bytes, write_text


@pytest.fixture(autouse=True)
def _usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_what_is_written_is_there_and_nothing_else(tmp_path):
    write_bytes(tmp_path / "a", b"one")
    write_bytes(tmp_path / "a", b"two")
    write_text(tmp_path / "b", "é\r\n")
    assert (tmp_path / "a").read_bytes() == b"two"
    assert (tmp_path / "b").read_bytes() == "é\r\n".encode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(
    ("mode", "umask", "found"), [(0o644, 0o022, 0o644), (0o600, 0o022, 0o600), (0o644, 0o077, 0o600)]
)
def test_permissions_are_those_asked_for_less_the_umask(tmp_path, mode, umask, found):
    (tmp_path / "key").write_bytes(b"before")
    (tmp_path / "key").chmod(0o666)
    os.umask(umask)
    write_bytes(tmp_path / "key", b"secret", mode=mode)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == found


def test_a_private_file_is_never_readable_by_others_not_even_while_it_is_written(tmp_path, monkeypatch):
    seen = []

    def looking(handle):
        seen.append(stat.S_IMODE(os.fstat(handle).st_mode))

    monkeypatch.setattr(os, "fsync", looking)
    write_bytes(tmp_path / "key", b"secret", mode=0o600)
    assert seen[0] == 0o600


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch, step):
    write_bytes(tmp_path / "a", b"before")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space left"):
        write_bytes(tmp_path / "a", b"after")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"before"


def test_content_reaches_the_disk_before_the_name_does(tmp_path, monkeypatch):
    steps = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (steps.append("sync"), sync(handle)))
    monkeypatch.setattr(os, "replace", lambda *names: (steps.append("name"), replace(*names)))
    write_bytes(tmp_path / "a", b"x")
    assert steps == ["sync", "name", "sync"]


def test_a_name_as_long_as_the_disk_allows_can_be_written(tmp_path):
    write_bytes(tmp_path / ("n" * 255), b"x")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"x"


def test_a_missing_folder_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_bytes(tmp_path / "none" / "a", b"x")
