"""Tensors of PyTorch, on whatever device, as arrays."""

from __future__ import annotations

from typing import Any

from kcagc.errors import DataError


def is_tensor(value: Any) -> bool:
    """Tell whether it is a tensor."""
    return all(hasattr(value, name) for name in ("detach", "cpu", "numpy"))


def plain(value: Any, where: str) -> Any:
    """Give a tensor as an array, and anything else as it is."""
    if not is_tensor(value):
        return value
    try:
        return value.detach().cpu().numpy()
    except (TypeError, RuntimeError) as error:  # a sparse layout, or a type that NumPy does not have
        raise DataError(f"{where}: this tensor cannot become an array ({error}); make it dense first") from error
