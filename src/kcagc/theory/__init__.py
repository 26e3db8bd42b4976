"""The paper's theory as a diagnosis: whether data meet the conditions of Theorem 1, where not, and what that means."""

from kcagc.theory.bound import Bound
from kcagc.theory.conditions import Conditions, Pair
from kcagc.theory.diagnosis import Diagnosis, diagnose
from kcagc.theory.party import PartyDiagnosis, diagnose_party
from kcagc.theory.restricted import Restricted

__all__ = [
    "Bound",
    "Conditions",
    "Diagnosis",
    "Pair",
    "PartyDiagnosis",
    "Restricted",
    "diagnose",
    "diagnose_party",
]
