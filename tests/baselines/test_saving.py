"""Baselines as files: every fitted attribute comes back, and nothing but a file of this class is read."""

import json
import stat
from itertools import pairwise

import numpy as np
import pandas
import pytest

from kcagc.baselines import AGC, GCC, MS2CAG, S2GC
from kcagc.cluster.search import PsiSearch
from kcagc.datasets import generate
from kcagc.errors import DataError, ParameterError

ALL = [AGC, GCC, S2GC, MS2CAG]
DATA = generate(120, 3, homophily=0.8, signal=4, features=8, seed=2)
NAMES = [f"n{number:03}" for number in range(120)]
FRAME = pandas.DataFrame(DATA.features, index=NAMES).add_prefix("column ")


def same(one, other):
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return one == other


@pytest.mark.parametrize("make", ALL)
def test_a_saved_model_comes_back_with_parameters_and_fitted_attributes(make, tmp_path):
    model = make(n_clusters=np.int64(3), n_init=2, random_state=np.int64(5)).fit(FRAME, adjacency=DATA.adjacency)
    model.save(tmp_path / "model")
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o600
    found = make.load(str(tmp_path / "model"))
    assert found.get_params() == model.get_params()
    assert vars(found).keys() == vars(model).keys()
    for name, value in vars(model).items():
        assert same(value, getattr(found, name)), name
    assert found.node_ids_ == NAMES
    assert list(found.feature_names_in_) == list(FRAME.columns)


def test_a_search_for_psi_and_a_generator_of_the_caller(tmp_path):
    model = AGC(n_clusters=3, psi="auto", random_state=np.random.RandomState(1)).fit(
        DATA.features, adjacency=DATA.adjacency
    )
    model.save(tmp_path / "model")
    found = AGC.load(tmp_path / "model")
    assert isinstance(found.psi_search_, PsiSearch)
    assert found.psi_search_ == model.psi_search_
    assert (found.random_state, found.node_ids_) == (None, None)


def test_ids_are_those_of_the_rows_or_else_of_the_graph():
    edges = list(pairwise(NAMES))
    shuffled = FRAME.sample(frac=1, random_state=3)
    assert AGC(n_clusters=3, psi=1).fit(shuffled, adjacency=edges).node_ids_ == list(shuffled.index)
    assert AGC(n_clusters=3).fit(shuffled).node_ids_ == list(shuffled.index)
    named = pandas.DataFrame(DATA.adjacency.toarray(), index=NAMES, columns=NAMES)
    assert AGC(n_clusters=3, psi=1).fit(DATA.features, adjacency=named).node_ids_ == NAMES
    assert AGC(n_clusters=3).fit(DATA.features).node_ids_ is None
    numbered = FRAME.set_axis(range(500, 620))
    assert AGC(n_clusters=3).fit(numbered).node_ids_ == list(range(500, 620))


def test_what_is_no_saved_model_is_refused_in_words(tmp_path):
    path = tmp_path / "model"
    AGC(n_clusters=3, psi=1).fit(DATA.features, adjacency=DATA.adjacency).save(path)
    with pytest.raises(DataError, match=r"model: is a saved AGC, not a GCC; use AGC\.load"):
        GCC.load(path)
    whole = path.read_bytes()
    for content in (b"", b"\x80\x04.", b"PK\x03\x04", whole[:200], whole[:-40]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"model: is not a saved AGC, or is damaged"):
            AGC.load(path)
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    with pytest.raises(DataError, match="is not a saved AGC"):
        AGC.load(tmp_path / "other.npz")
    with pytest.raises(ParameterError, match="No such file"):
        AGC.load(tmp_path / "missing")


def test_a_file_cannot_set_what_is_no_fitted_attribute(tmp_path):

    text = json.dumps(
        {
            "format": "kcagc baseline 1",
            "class": "AGC",
            "settings": {"n_clusters": 3},
            "values": {"fit": 1, "labels_": [0]},
        }
    )
    np.savez(tmp_path / "bad.npz", **{"header.json": np.frombuffer(text.encode(), dtype=np.uint8)})
    with pytest.raises(DataError, match="is not a saved AGC, or is damaged: fit"):
        AGC.load(tmp_path / "bad.npz")
