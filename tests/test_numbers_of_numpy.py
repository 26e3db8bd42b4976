"""NumPy's whole numbers and fractions are as good as Python's, in every parameter of every estimator."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kcagc import AGC, GCC, KCAGC, MS2CAG, S2GC
from kcagc.datasets import generate

DATA = generate(90, 3, homophily=0.8, signal=4, features=(16, 16), seed=1)
TABLES = DATA.parties()
NOT_NUMBERS = {
    "accept",
    "callbacks",
    "id_column",
    "nodes",
    "transformers",
    "weighting",
    "filter",
    "aggregator",
    "engine",
}
# Of each parameter that can be a number: a value that a fit can have, and what else it needs.
VALUES = {
    "n_clusters": (3, {}),
    "n_local_clusters": (5, {"method": "cells"}),
    "min_local_size": (2, {}),
    "psi": (2, {}),
    "n_components": (4, {}),
    "unit": (2.0, {"scaling": "US"}),
    "fan_in": (2, {"method": "tree"}),
    "max_iter": (7, {}),
    "n_init": (2, {"method": "cells"}),
    "random_state": (3, {}),
}
BASELINES = {
    "n_clusters": 3, "psi": 2, "max_psi": 3, "power": 2, "max_power": 3, "alpha": 0.5, "gamma": 0.5, "n_components": 4,
    "n_init": 2, "max_iter": 7, "tol": 1e-3, "random_state": 3,
}  # fmt: skip


def numeric(estimator):
    """Return the parameters that can be numbers: all but those whose values are words or objects."""
    words = NOT_NUMBERS | {"method", "joint_rows", "scaling", "virtual_nodes"}
    return sorted(set(inspect.signature(estimator).parameters) - words)


def test_every_parameter_that_can_be_a_number_is_tried():
    assert numeric(KCAGC) == sorted(VALUES)
    assert set().union(*map(numeric, (AGC, GCC, S2GC, MS2CAG))) == set(BASELINES)


@pytest.mark.parametrize("name", VALUES)
def test_a_number_of_numpy_is_that_of_python(name, tmp_path):
    value, more = VALUES[name]
    chosen = {"n_clusters": 3, "psi": 1, "random_state": 0} | more
    wanted = KCAGC(**chosen | {name: value}).fit(TABLES, adjacency=DATA.adjacency)
    for kind in (np.uint8,) if isinstance(value, int) else (np.float32,):
        model = KCAGC(**chosen | {name: kind(value)})
        assert_array_equal(model.fit(TABLES, adjacency=DATA.adjacency).labels_, wanted.labels_)
    model.save(tmp_path / "model")
    assert getattr(KCAGC.load(tmp_path / "model"), name) == value


def test_a_range_of_numbers_of_numpy_is_one_of_python():
    model = KCAGC(n_clusters=(np.int64(2), np.int64(4)), psi=1, random_state=0).fit(TABLES, adjacency=DATA.adjacency)
    assert model.sweep_.ks == (2, 3, 4)


@pytest.mark.parametrize(("make", "name"), [(make, one) for make in (AGC, GCC, S2GC, MS2CAG) for one in numeric(make)])
def test_a_baseline_takes_them_too(make, name):
    chosen = {one: BASELINES[one] for one in ("n_clusters", "n_init", "random_state")}
    chosen["psi" if make is AGC else "power"] = None if name.startswith("max_p") else 1
    value = BASELINES[name]
    wanted = make(**chosen | {name: value}).fit(DATA.features, adjacency=DATA.adjacency).labels_
    for kind in (np.uint8, np.int64) if isinstance(value, int) else (np.float32,):
        found = make(**chosen | {name: kind(value)}).fit(DATA.features, adjacency=DATA.adjacency)
        assert_array_equal(found.labels_, wanted)
