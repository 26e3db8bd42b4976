"""Arrays as bytes, for what a role stores: type, shape, content; never pickled."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

_TYPES = ("<f8", "<i8")


class Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One array."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


def store(array: NDArray[Any]) -> Stored:
    """Write float64 or int64, low byte first."""
    kind = "<f8" if array.dtype.kind == "f" else "<i8"
    return Stored(kind, array.shape, np.ascontiguousarray(array, dtype=kind).tobytes())


def restore(stored: Stored) -> NDArray[Any]:
    """Read it back; it cannot be written to, so nothing that was recorded changes."""
    if stored.dtype not in _TYPES:
        raise ValueError(f"an array of type {stored.dtype!r}")
    return np.frombuffer(stored.data, dtype=stored.dtype).reshape(stored.shape)
