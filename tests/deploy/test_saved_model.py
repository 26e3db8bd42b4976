"""The file that a fit leaves: read back as it was, refused where it does not belong, and which nodes are new to it."""

import stat

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.collaboration import made, task
from kcagc.deploy.results import FORMAT, SavedModel
from kcagc.disclosure import Ledger, Policy
from kcagc.errors import DataError, ParameterError
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds
from kcagc.simulation import simulate_fit


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A fit of all parties in one process, from their files: tasks and results by name."""
    configs = made(tmp_path_factory.mktemp("roles"))
    tasks = {name: task(path) for name, path in configs.items() if name != "coordinator"}
    data = {name: one.data for name, one in tasks.items()}
    results = simulate_fit(
        tasks["alice"].agreement.parameters,
        data,
        policy=Policy(),
        seeds=dict.fromkeys(data, 0),
        ledger=Ledger(),
    )
    return tasks, results


@pytest.fixture(scope="module")
def model(fitted):
    tasks, results = fitted
    return SavedModel.of_party(results["alice"].model, tasks["alice"].graph)


def graph_of(ids):
    """A graph without edges whose nodes are called so; a number alone is how many nodes there are."""
    if isinstance(ids, int):
        return Graph.from_edges([], [], n_nodes=ids)
    return Graph.from_edges([], [], ids=ids)


def of_ids(model, ids):
    """The same model, made from nodes that are called otherwise."""
    share = msgspec.structs.replace(model.share, n_nodes=ids if isinstance(ids, int) else len(ids))
    return SavedModel.of_party(share, graph_of(ids))


def test_what_was_saved_is_read_back_to_the_last_byte(model, tmp_path):
    model.save(tmp_path / "model.kcagc")
    again = SavedModel.load(tmp_path / "model.kcagc", "alice")
    assert again == model
    np.testing.assert_array_equal(again.share.centers, model.share.centers)
    again.save(tmp_path / "again.kcagc")
    assert (tmp_path / "again.kcagc").read_bytes() == (tmp_path / "model.kcagc").read_bytes()
    assert stat.S_IMODE((tmp_path / "model.kcagc").stat().st_mode) == 0o600


@pytest.mark.parametrize("ids", [24, ["x", "y", "é"], [3, 1, 2**62], np.array([5, 7])])
def test_ids_of_every_kind_are_read_back(model, tmp_path, ids):
    saved = of_ids(model, ids)
    saved.save(tmp_path / "m")
    assert SavedModel.load(tmp_path / "m", "alice").ids == (None if isinstance(ids, int) else list(ids))


def test_a_coordinators_model_has_no_share(model, tmp_path):
    saved = SavedModel(FORMAT, "coordinator", (b"\x01" * 16).hex(), model.parameters)
    saved.save(tmp_path / "m")
    again = SavedModel.load(tmp_path / "m", "coordinator")
    assert again == saved
    assert (again.share, again.ids, again.session) == (None, None, "01" * 16)


def test_the_model_of_another_role_is_refused(model, tmp_path):
    model.save(tmp_path / "m")
    with pytest.raises(ParameterError, match=r"m: is the model of alice, not of bob$"):
        SavedModel.load(tmp_path / "m", "bob")


@pytest.mark.parametrize("version", [1, 2, 9])
def test_a_model_of_another_format_is_refused(model, tmp_path, version):
    content = msgspec.msgpack.decode(msgspec.msgpack.encode(model, enc_hook=int))
    (tmp_path / "m").write_bytes(msgspec.msgpack.encode(content | {"format": f"kcagc model {version}", "new": 1}))
    with pytest.raises(DataError, match=rf"^alice: .*m: has the format 'kcagc model {version}'"):
        SavedModel.load(tmp_path / "m", "alice")


def test_how_the_table_became_numbers_is_read_back(fitted, tmp_path):
    tasks, results = fitted
    kept = tasks["alice"].input.preprocessing
    SavedModel.of_party(results["alice"].model, tasks["alice"].graph, kept).save(tmp_path / "m")
    assert SavedModel.load(tmp_path / "m", "alice").table == kept
    assert kept.feature_names() == ["f0", "f1", "f2"]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ParameterError, match=r"^alice: .*nowhere: No such file or directory$"):
        SavedModel.load(tmp_path / "nowhere", "alice")


@given(st.data())
def test_damage_of_any_kind_is_refused_or_changes_no_more_than_a_value(model, tmp_path_factory, data):
    """Whatever a file holds, reading it gives a model or our own error: never an accident."""
    whole = msgspec.msgpack.encode(model, enc_hook=int)
    place = data.draw(st.integers(0, len(whole) - 1))
    how = data.draw(st.sampled_from(["cut", "change", "garbage"]))
    damaged = {
        "cut": whole[:place],
        "change": whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :],
        "garbage": data.draw(st.binary(max_size=200)),
    }[how]
    path = tmp_path_factory.mktemp("damaged") / "m"
    path.write_bytes(damaged)
    said = ""
    try:
        SavedModel.load(path, "alice")
    except (DataError, ParameterError) as error:
        said = str(error)
    assert str(path) in said or (said == "" and how == "change")


def test_the_prediction_continues_this_session(model):
    parameters = model.prediction()
    assert (parameters.task, parameters.model) == ("predict", model.session)
    assert msgspec.structs.replace(parameters, task="fit", model="") == model.parameters


def test_the_nodes_of_a_model_are_those_of_its_graph(fitted, model):
    tasks, _ = fitted
    assert isinstance(tasks["alice"].graph.ids, NodeIds)
    assert model.ids == [f"n{number:03}" for number in range(24)]
    assert model.share.n_nodes == 24
