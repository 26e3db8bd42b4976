"""One declaration of every parameter: who shows, asks for or checks parameters reads it."""

import inspect

import msgspec
import numpy as np
import pytest

from kcagc import KCAGC
from kcagc.errors import ParameterError
from kcagc.graph.filters import HalfFilter, NormFilter
from kcagc.protocol.parameters import (
    PARAMETERS,
    Parameters,
    RunSettings,
    describe_parameter,
    draw_seed,
    settings_of,
)

OWN = ("accept", "random_state", "callbacks", "transformers", "id_column", "nodes")  # of the estimator alone


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
    assert resolved(n_parties, n_local_clusters=asked).n_local_clusters == found


def test_one_cluster_still_takes_two_local_clusters():
    assert RunSettings(n_clusters=1).resolve(4).n_local_clusters == 2


@pytest.mark.parametrize("asked", ["2x", "k2", "", "-1k", 1, 1.5, True, "1", "0k", "²k", []])
def test_other_numbers_of_local_clusters_are_refused(asked):
    with pytest.raises(ParameterError, match=r"^n_local_clusters: "):
        resolved(n_local_clusters=asked)


@pytest.mark.parametrize(("n_parties", "method"), [(2, "cells"), (3, "cells"), (4, "tree"), (16, "tree")])
def test_the_automatic_method_depends_on_the_number_of_parties(n_parties, method):
    assert resolved(n_parties).method == method
    assert resolved(n_parties, method="basic").method == "basic"


def test_the_basic_method_has_no_local_clusters():
    assert resolved(method="basic", n_local_clusters="2k").n_local_clusters == 0


def test_components_are_as_many_as_clusters_unless_given():
    assert resolved().n_components == 5
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
        ("n_clusters", 0, "a whole number, 1 or more"),
        ("n_clusters", True, "a whole number, 1 or more"),
        ("n_clusters", 3.0, "a whole number, 1 or more"),
        ("psi", -1, "a whole number, 0 or more"),
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
    resolved().check()
    with pytest.raises(ParameterError, match=f"^{name}: "):
        msgspec.structs.replace(resolved(), **{name: value}).check()


def test_the_filter_of_an_estimator_is_a_name_or_a_filter():
    for given, found in (("half", HalfFilter(3)), ("norm", NormFilter(3)), (OwnFilter(1), OwnFilter(1))):
        settings, graph_filter = settings_of(KCAGC(n_clusters=2, psi=3, filter=given), "own")
        assert repr(graph_filter) == repr(found) == settings.resolve(2, graph_filter).filter
        assert settings.graph == "own"


def test_seeds_are_those_of_the_random_state():
    assert draw_seed(7) == draw_seed(np.random.RandomState(7)) != draw_seed(8)
    assert draw_seed(None) != draw_seed(None)
