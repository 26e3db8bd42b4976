"""One declaration of every parameter: who shows, asks for or checks parameters reads it."""

import inspect

import msgspec
import numpy as np
import pytest

from kcagc import KCAGC
from kcagc.errors import ParameterError
from kcagc.graph.filters import HalfFilter, NormFilter
from kcagc.protocol.parameters import (
    FLAT_UP_TO,
    PARAMETERS,
    Parameters,
    RunSettings,
    describe_parameter,
    draw_seed,
    joint_components,
    settings_of,
)

OWN = (
    "accept",
    "random_state",
    "callbacks",
    "transformers",
    "id_column",
    "nodes",
    "weighting",
    "engine",
)  # of the estimator alone


class OwnFilter(HalfFilter):
    def __repr__(self):
        return "OwnFilter()"


def resolved(n_parties=3, **values):
    return RunSettings.read({"n_clusters": 5} | values).resolve(n_parties)


def test_every_parameter_has_a_type_and_a_meaning():
    for parameter in PARAMETERS.values():
        assert parameter.type
        assert parameter.meaning.endswith(".")
        assert parameter.expected
    assert [name for name, one in PARAMETERS.items() if one.required] == ["n_clusters"]
    for name in Parameters.__struct_fields__:
        assert describe_parameter(name).endswith(".")
    assert describe_parameter("colour") == ""


def test_every_default_is_valid():
    for parameter in PARAMETERS.values():
        if not parameter.required:
            assert parameter.check(parameter.default) == parameter.default
        if parameter.choices:
            assert parameter.default == parameter.choices[0]


def test_the_estimator_takes_its_parameters_and_defaults_from_the_declaration():
    signature = inspect.signature(KCAGC).parameters
    assert set(signature) == {*PARAMETERS, *OWN} - {"graph"}
    for name, one in signature.items():
        if name not in OWN and not PARAMETERS[name].required:
            assert one.default == PARAMETERS[name].default


def test_choices_are_in_the_order_of_the_declaration():
    assert PARAMETERS["method"].choices == ("auto", "joint", "cells", "basic", "tree")
    assert PARAMETERS["virtual_nodes"].choices == ("cell", "local")
    assert PARAMETERS["n_local_clusters"].type == "int, str or None"


@pytest.mark.parametrize(
    ("asked", "n_parties", "found"),
    [(None, 2, 10), (None, 3, 10), (None, 4, 5), ("k", 2, 5), ("3k", 2, 15), ("12", 2, 12), (7, 9, 7), (" 3k ", 2, 15)],
)
def test_local_clusters_are_a_number_or_a_multiple_of_k(asked, n_parties, found):
    method = "cells" if n_parties <= FLAT_UP_TO else "tree"
    assert resolved(n_parties, method=method, n_local_clusters=asked).n_local_clusters == found


def test_one_cluster_still_takes_two_local_clusters():
    assert RunSettings(n_clusters=1, method="tree").resolve(4).n_local_clusters == 2


@pytest.mark.parametrize("asked", ["2x", "k2", "", "-1k", 1, 1.5, True, "1", "0k", "²k", []])
def test_other_numbers_of_local_clusters_are_refused(asked):
    with pytest.raises(ParameterError, match=r"^n_local_clusters: "):
        resolved(n_local_clusters=asked)


@pytest.mark.parametrize("n_parties", [2, 3, 4, 16])
def test_the_automatic_method_is_the_best_one_that_needs_no_acceptance(n_parties):
    for more in (
        {},
        {"n_init": 3},
        {"max_iter": 5},
        {"n_components": 9},
        {"min_local_size": 1},
        {"graph": "own", "psi": 5},
    ):
        parameters = resolved(n_parties, **more)
        assert (parameters.method, parameters.joint_rows) == ("joint", "shares")
        parameters.check()
    assert resolved(n_parties, method="basic").method == "basic"


@pytest.mark.parametrize(("n_parties", "method"), [(2, "cells"), (3, "cells"), (4, "tree"), (16, "tree")])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"aggregator": "party"}, "a party aggregates"),
        ({"n_local_clusters": "2k"}, "n_local_clusters, which is set"),
        ({"scaling": "US", "unit": 2.0}, "scaling or unit, which are set"),
        ({"virtual_nodes": "local"}, "virtual_nodes, which is set"),
        ({"fan_in": 2}, "fan_in, which is set"),
    ],
)
def test_the_automatic_method_has_local_clusters_where_joint_is_not_possible(n_parties, method, changes, reason):
    choice = RunSettings(n_clusters=5, **changes).choose_method(n_parties)
    assert choice.method == resolved(n_parties, **changes).method == method
    assert reason in choice.reason
    assert str(choice) == f"{method}, because {choice.reason}"


def test_the_reason_names_what_the_automatic_method_does_not_use():
    assert RunSettings(n_clusters=5, n_init=3).choose_method(2).reason.endswith("; it does not use n_init")
    assert "n_init" not in RunSettings(n_clusters=5).choose_method(2).reason
    assert RunSettings(n_clusters=5, method="cells", n_init=3).choose_method(2) == ("cells", "it is set")
    assert RunSettings(n_clusters=5, method="joint").choose_method(2) == ("joint", "it is set")
    found = RunSettings(n_clusters=5, method="joint", n_init=3).choose_method(2)
    assert found == ("joint", "it is set; it does not use n_init")


@pytest.mark.parametrize(
    "changes",
    [{"scaling": "U"}, {"scaling": "US", "unit": 2.0}, {"n_local_clusters": "2k"}, {"virtual_nodes": "local"}],
)
def test_a_setting_that_the_joint_method_does_not_use_is_refused_if_that_method_is_set(changes):
    with pytest.raises(ParameterError, match=f'^{next(iter(changes))}: the method "joint" does not use .* leave'):
        resolved(method="joint", **changes)
    assert resolved(**changes).method == "cells"


@pytest.mark.parametrize("other", [{"aggregator": "party"}, {"n_local_clusters": 9}, {"fan_in": 2}])
def test_settings_for_different_methods_are_refused(other):
    assert RunSettings(n_clusters=5, joint_rows="coordinator").resolve(3).method == "joint"
    settings = RunSettings(n_clusters=5, joint_rows="coordinator", **other)
    message = rf"^joint_rows: is only for the method .*; set method, or leave joint_rows or {next(iter(other))} out$"
    with pytest.raises(ParameterError, match=message):
        settings.resolve(3)


def test_the_basic_method_has_no_local_clusters():
    assert resolved(method="basic", n_local_clusters="2k").n_local_clusters == 0


def test_components_are_as_many_as_clusters_unless_given():
    assert resolved(method="cells").n_components == 5
    assert resolved().n_components == joint_components(5) == 64
    assert resolved(n_components=9).n_components == 9


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint32, int])
def test_whole_numbers_of_numpy_are_whole_numbers(kind):
    names = ("n_clusters", "psi", "n_local_clusters", "n_components", "fan_in", "max_iter", "n_init")
    parameters = resolved(**{name: kind(4) for name in names}, unit=np.float32(2))
    assert parameters == resolved(**dict.fromkeys(names, 4), unit=2)
    assert type(parameters.n_clusters) is int
    assert type(parameters.unit) is float
    msgspec.msgpack.encode(parameters)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("n_clusters", 0, "a whole number, 1 or more, or two whole numbers such as [2, 20]"),
        ("n_clusters", True, "a whole number, 1 or more, or two whole numbers such as [2, 20]"),
        ("n_clusters", (2, 3, 4), "a whole number, 1 or more, or two whole numbers such as [2, 20]"),
        ("psi", -1, "a whole number, 0 or more, or 'auto'"),
        ("fan_in", 1, "a whole number, 2 or more"),
        ("n_components", "7", "a whole number, 1 or more"),
        ("unit", 0, "a positive number"),
        ("unit", float("nan"), "a positive number"),
        ("unit", float("inf"), "a positive number"),
        ("method", "kcagc", "'auto', 'joint', 'cells', 'basic' or 'tree'"),
        ("scaling", None, "'unit', 'U' or 'US'"),
        ("filter", object, "'half' or 'norm'"),
    ],
)
def test_an_invalid_value_is_refused_with_the_valid_ones(name, value, expected):
    with pytest.raises(ParameterError) as caught:
        RunSettings.read({"n_clusters": 3} | {name: value})
    assert str(caught.value) == f"{name}: must be {expected}, not {value!r}"


def test_an_unknown_or_missing_name_is_refused():
    with pytest.raises(ParameterError, match=r"^colour: there is no such setting; the settings are n_clusters, psi, "):
        RunSettings.read({"n_clusters": 3, "colour": 1})
    with pytest.raises(ParameterError, match=r"^n_clusters: is missing; it must be a whole number, 1 or more"):
        RunSettings.read({})


@pytest.mark.parametrize(
    ("name", "value"),
    [("method", "auto"), ("n_clusters", 0), ("n_local_clusters", 1), ("unit", 0.0), ("task", "forget"), ("graph", "")],
)
def test_parameters_of_a_session_are_checked_too(name, value):
    resolved(method="cells").check()
    with pytest.raises(ParameterError, match=f"^{name}: "):
        msgspec.structs.replace(resolved(method="cells"), **{name: value}).check()


def test_the_filter_of_an_estimator_is_a_name_or_a_filter():
    for given, found in (("half", HalfFilter(3)), ("norm", NormFilter(3)), (OwnFilter(1), OwnFilter(1))):
        settings, graph_filter = settings_of(KCAGC(n_clusters=2, psi=3, filter=given), "own")
        assert repr(graph_filter) == repr(found) == settings.resolve(2, graph_filter).filter
        assert settings.graph == "own"


def test_seeds_are_those_of_the_random_state():
    assert draw_seed(7) == draw_seed(np.random.RandomState(7)) != draw_seed(8)
    assert draw_seed(None) != draw_seed(None)
