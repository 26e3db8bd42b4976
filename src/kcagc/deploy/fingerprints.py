"""What must not change while a session lasts, as digests: the data, the configuration, the packages that compute."""

from __future__ import annotations

import platform
from importlib import metadata

import numpy as np
from scipy import sparse

from kcagc._types import Features
from kcagc.protocol.agreement import Agreement, graph_digest, ids_digest
from kcagc.protocol.local import PartyData
from kcagc.secagg.keys import digest

PACKAGES = ("kcagc", "numpy", "scipy", "scikit-learn", "cryptography", "msgspec")


def of_configuration(agreement: Agreement, accepted: list[str], random_state: int | None) -> bytes:
    """Hash what decides which bytes are sent, and what may be."""
    return digest("configuration", agreement.inputs(), *sorted(accepted), "" if random_state is None else random_state)


def of_packages() -> bytes:
    """Hash the versions of all that computes."""
    return digest("packages", *(f"{name} {version}" for name, version in versions().items()))


def versions() -> dict[str, str]:
    """Give the versions of all that computes."""
    found = {name: metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **found}


def of_data(data: PartyData, *more: bytes) -> bytes:
    """Hash a party's table and graph, and whatever else it computes from."""
    return digest("data", ids_digest(data.graph), graph_digest(data.graph), _of_features(data.features), *more)


def _of_features(features: Features) -> bytes:
    if sparse.issparse(features):
        rows = features.tocsr()
        parts = (("<i8", rows.indptr), ("<i8", rows.indices), ("<f8", rows.data))
        arrays = [np.ascontiguousarray(values, dtype=kind).tobytes() for kind, values in parts]
        return digest("sparse", *features.shape, *arrays)
    return digest("dense", *features.shape, np.ascontiguousarray(features, dtype="<f8").tobytes())
