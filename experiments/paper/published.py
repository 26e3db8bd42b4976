"""The numbers that the paper prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PUBLISHED: dict[str, Any] = json.loads((Path(__file__).parent / "published.json").read_text(encoding="utf-8"))

PARTIES = (2, 4, 8, 16)
LOCAL = ("k", "2k", "4k", "8k")


def utility(dataset: str, method: str, local: str = "", parties: int = 0) -> tuple[float, float] | None:
    """Return mean and deviation in Table 2, in per cent, or None without such a cell."""
    table = PUBLISHED["utility_accuracy_percent_mean_std"].get(dataset, {})
    row = table.get(row_name(local) if method == "kcagc" else method)
    found = row.get(f"L={parties}") if isinstance(row, dict) else row
    return (found[0], found[1]) if found else None


def seconds(network: str, dataset: str, local: str, parties: int) -> float | None:
    """Return the training time in Table 4 ("lan") or Table 10 ("wan")."""
    table = PUBLISHED[f"{network}_training_seconds"].get(dataset, {})
    found = table.get(row_name(local), {}).get(f"L={parties}")
    return float(found) if found is not None else None


def row_name(local: str) -> str:
    """Return the name of a number of local clusters in the published tables."""
    return f"k_hat={local.removesuffix('k') or 1}k"
