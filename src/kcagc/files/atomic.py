"""Files that appear whole or not at all, so that whoever reads one never sees half of it."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

PUBLIC = 0o644
PRIVATE = 0o600


def write_bytes(path: str | os.PathLike[str], data: bytes, *, mode: int = PUBLIC) -> None:
    """Put `data` at `path`, replacing what is there; on any failure what was there stays.

    The file has the permissions `mode`, less those that the user's umask takes away, from its first byte on.
    """
    target = Path(path)
    partial = target.with_name(f".{uuid.uuid4().hex}.part")  # in the same folder: a rename across disks is a copy
    try:
        # opened with its permissions: a file that is made first and closed to others later was open in between
        with open(partial, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _remember(target.parent)


def write_text(path: str | os.PathLike[str], text: str, *, mode: int = PUBLIC) -> None:
    """Put `text` at `path` in UTF-8, with line ends as they are, in the way of `write_bytes`."""
    write_bytes(path, text.encode(), mode=mode)


def _remember(folder: Path) -> None:
    """Make the new name survive a power cut; where folders cannot be opened (Windows), the system sees to it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
