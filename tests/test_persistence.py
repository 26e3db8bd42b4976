"""A fitted estimator as a file: read back it predicts the same, and what is no such file is refused in words."""

import stat

import msgspec
import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

from kcagc import KCAGC
from kcagc.data import TablePreprocessor
from kcagc.datasets import load
from kcagc.errors import DataError, ParameterError
from kcagc.graph import ChebyshevFilter, Filter, Graph, HalfFilter, NormFilter
from kcagc.persistence import SavedEstimator
from kcagc.protocol.messages import restore

DEMO = load("demo")
NAMES = [f"n{number:03}" for number in range(600)]
GRAPH = Graph.from_matrix(DEMO.adjacency, ids=NAMES)


def frames():
    tables = [pandas.DataFrame(table, index=NAMES).rename(columns=str) for table in DEMO.parties()]
    tables[0]["word"] = ["low" if value < 0 else "high" for value in tables[0]["0"]]
    return tables


RULES = TablePreprocessor(columns={"word": {"kind": "categorical"}}, default={"scale": "standard"})
SMOOTH = ChebyshevFilter(lambda x: np.exp(-2 * x), tolerance=1e-6)
SCALED = TablePreprocessor(default={"scale": "minmax"})


def fitted(**changes):
    chosen = {
        "n_clusters": 5,
        "psi": 2,
        "n_init": 2,
        "random_state": 0,
        "transformers": [RULES, SCALED, None],
        "accept": ("revealing-labels",),
    } | changes
    return KCAGC(**chosen).fit([table[:500] for table in frames()], adjacency=restricted())


def restricted():
    return Graph.from_matrix(DEMO.adjacency[:500][:, :500], ids=NAMES[:500])


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def content(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "m"
    model.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("given_filter", ["half", "norm", HalfFilter(1), NormFilter(3), SMOOTH])
def test_what_was_saved_predicts_the_same(tmp_path, given_filter):
    model = fitted(filter=given_filter)
    model.save(tmp_path / "model.kcagc")
    again = KCAGC.load(tmp_path / "model.kcagc")
    wanted = model.predict(frames(), adjacency=GRAPH)
    assert len(wanted) == 100
    assert_array_equal(again.predict(frames(), adjacency=GRAPH), wanted)
    assert_array_equal(again.labels_, model.labels_)
    assert again.labels_.dtype == np.intp
    assert again.node_ids_ == NAMES[:500]


@pytest.mark.parametrize("rows", ["shares", "coordinator"])
def test_a_saved_joint_model_predicts_the_same(tmp_path, rows):
    model = fitted(method="joint", joint_rows=rows, accept=("anonymous-geometry",))
    model.save(tmp_path / "model.kcagc")
    again = KCAGC.load(tmp_path / "model.kcagc")
    assert (again.method, again.joint_rows) == ("joint", rows)
    assert_array_equal(again.predict(frames(), adjacency=GRAPH), model.predict(frames(), adjacency=GRAPH))
    for name, one in again.models_.items():
        before = model.models_[name].joint
        assert (one.joint.scored, one.joint.widths) == (before.scored, before.widths)
        assert_array_equal(restore(one.joint.directions), restore(before.directions))


def test_parameters_and_figures_are_read_back(model, tmp_path):
    model.save(tmp_path / "m")
    again = KCAGC.load(tmp_path / "m")
    for name, value in model.get_params(deep=False).items():
        if name != "transformers":
            assert getattr(again, name) == value, name
    fitted_names = {name for name in vars(model) if name.endswith("_")}
    assert fitted_names == {name for name in vars(again) if name.endswith("_")}
    for name in ("rounds_", "cells_", "bytes_by_role_", "further_sums_", "feature_names_", "n_features_in_"):
        assert getattr(again, name) == getattr(model, name)
    assert list(again.ledger_) == list(model.ledger_)
    assert [merge.rounds for merge in again.merges_] == [merge.rounds for merge in model.merges_]
    again.fit([table[:500] for table in frames()], adjacency=restricted())
    assert_array_equal(again.labels_, model.labels_)
    again.save(tmp_path / "again")


def test_the_file_is_for_its_owner_only(model, tmp_path):
    model.save(tmp_path / "m")
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o600


class FilterOfTheCaller(Filter):
    def response(self, eigenvalues, *, norm=2.0):
        return 1 - eigenvalues / 2

    def prepare(self, graph, dtype):
        return HalfFilter(1).prepare(graph, dtype)

    def __repr__(self):
        return "FilterOfTheCaller()"


def test_what_cannot_be_plain_data_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(NotFittedError):
        KCAGC(n_clusters=3).save(tmp_path / "m")
    tables = DEMO.parties()
    scaled = KCAGC(n_clusters=5, psi=2, n_init=1, transformers=[None, StandardScaler(with_mean=False), None])
    with pytest.raises(ParameterError, match=r"^transformers: party-2: StandardScaler cannot be saved"):
        scaled.fit(tables, adjacency=DEMO.adjacency).save(tmp_path / "m")
    other = KCAGC(n_clusters=5, n_init=1, filter=FilterOfTheCaller())
    with pytest.raises(ParameterError, match=r"^filter: .* cannot be saved; use HalfFilter"):
        other.fit(tables, adjacency=DEMO.adjacency).save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_functions_and_generators_are_left_out(tmp_path):
    model = fitted(callbacks=print_nothing, random_state=np.random.RandomState(0))
    model.save(tmp_path / "m")
    again = KCAGC.load(tmp_path / "m")
    assert again.callbacks == ()
    assert again.random_state is None


def print_nothing(role, step):
    assert role
    assert step.stage


def test_files_that_are_something_else_are_refused_in_words(tmp_path, content):
    path = tmp_path / "m"
    with pytest.raises(ParameterError, match="m: No such file"):
        KCAGC.load(path)
    path.write_bytes(b"id,cluster\n1,2\n")
    with pytest.raises(DataError, match="m: is not a saved KCAGC, or is damaged"):
        KCAGC.load(path)
    other = msgspec.msgpack.decode(content) | {"format": "kcagc model 2"}
    path.write_bytes(msgspec.msgpack.encode(other))
    with pytest.raises(
        DataError, match=r"m: has the format 'kcagc model 2', but this version reads 'kcagc estimator 2'"
    ):
        KCAGC.load(path)


@given(st.data())
def test_damage_of_any_kind_is_refused_or_changes_no_more_than_a_value(content, tmp_path_factory, data):
    place = data.draw(st.integers(0, len(content) - 1))
    how = data.draw(st.sampled_from(["cut", "change", "garbage"]))
    damaged = {
        "cut": content[:place],
        "change": content[:place] + bytes([content[place] ^ data.draw(st.integers(1, 255))]) + content[place + 1 :],
        "garbage": data.draw(st.binary(max_size=200)),
    }[how]
    path = tmp_path_factory.mktemp("damaged") / "m"
    path.write_bytes(damaged)
    said = ""
    try:
        KCAGC.load(path)
    except (DataError, ParameterError) as error:
        said = str(error)
    assert said or how == "change"


def test_every_setting_of_the_estimator_is_kept(model):
    saved = msgspec.msgpack.decode(msgspec.msgpack.encode(model.get_params(deep=False), enc_hook=str))
    kept = SavedEstimator.__struct_fields__
    assert {"settings", "filter", "tables", "models", "ids"} <= set(kept)
    assert set(saved) == set(KCAGC(n_clusters=2).get_params(deep=False))


def flagged():
    """Return frames of which the first has a flag, and the others nothing but flags."""
    first, *others = frames()
    tables = [first, *((table > 0.5).astype(float) for table in others)]
    for number, table in enumerate(tables):
        table["flag"] = (np.arange(600) % (5 + number) == 0).astype(float)
    return tables


def test_weights_of_columns_are_saved_for_predictions(tmp_path):
    whole = [RULES, None, None]
    model = KCAGC(n_clusters=5, psi=2, n_init=2, random_state=0, transformers=whole)
    model.fit([table[:500] for table in flagged()], adjacency=restricted())
    weights = {name: one[model.feature_names_[name].index("flag")] for name, one in model.column_weights_.items()}
    assert weights["party-1"] == 1  # scaled by its rule
    assert weights["party-2"] == pytest.approx(np.log(501 / (1 + 84)) + 1)
    model.save(tmp_path / "m")
    again = KCAGC.load(tmp_path / "m")
    for name, one in model.column_weights_.items():
        assert_array_equal(again.column_weights_[name], one)
    assert_array_equal(again.predict(flagged(), adjacency=GRAPH), model.predict(flagged(), adjacency=GRAPH))
    content = msgspec.msgpack.decode((tmp_path / "m").read_bytes())
    content["column_weights"]["party-2"] = content["column_weights"]["party-1"]
    (tmp_path / "m").write_bytes(msgspec.msgpack.encode(content))
    with pytest.raises(DataError, match="damaged: the weights are not those of its columns"):
        KCAGC.load(tmp_path / "m")


def test_a_model_of_an_earlier_version_has_no_weights(model, content, tmp_path):
    earlier = msgspec.msgpack.decode(content)
    del earlier["column_weights"]
    del earlier["settings"]["weighting"]
    for table in earlier["tables"].values():
        if table is not None:
            table["fitted_rules"].pop("weights")
            table["rules"]["default"].pop("weighting")
    (tmp_path / "m").write_bytes(msgspec.msgpack.encode(earlier))
    again = KCAGC.load(tmp_path / "m")
    assert again.weighting == "none"
    for name, one in again.column_weights_.items():
        assert_array_equal(one, np.ones(len(model.feature_names_[name])))
    assert len(again.predict(frames(), adjacency=GRAPH)) == 100
