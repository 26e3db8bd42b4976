"""A policy accepts risks by name, and refuses all others with their texts."""

import pytest

from kcagc.disclosure import RISKS, Policy
from kcagc.errors import ParameterError, PolicyError


def test_no_risk_needs_no_acceptance():
    Policy().check([])


@pytest.mark.parametrize("name", RISKS)
def test_a_risk_is_refused_with_its_name_and_text_until_it_is_accepted(name):
    with pytest.raises(PolicyError) as caught:
        Policy(set(RISKS) - {name}).check(list(RISKS))
    assert f'"{name}": {RISKS[name].discloses}' in str(caught.value)
    assert not [other for other in RISKS if other != name and f'"{other}"' in str(caught.value)]
    Policy(RISKS).check(list(RISKS))


@pytest.mark.parametrize("accept", ["labelled-sums", ["everything"], [3]])
def test_a_policy_is_a_list_of_known_names(accept):
    with pytest.raises(ParameterError, match=r"^accept: "):
        Policy(accept)
