"""Small files for tests, and one way to say which message a bad one must give."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kcagc.errors import DataError


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def refused(path: Path, said: str, read: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """Check that reading fails with a message that begins with party and file and goes on with `said`, word by word."""
    with pytest.raises(DataError, match=re.escape(f"bank: {path}: {said}")) as caught:
        read(*arguments, party="bank", **options)
    assert str(caught.value).startswith(f"bank: {path}: ")
    return str(caught.value)
