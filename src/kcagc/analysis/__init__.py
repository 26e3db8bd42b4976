"""The paper's theory as a diagnosis: whether data meet the conditions of Theorem 1, where not, and what that means."""

from kcagc.analysis.bound import Bound
from kcagc.analysis.conditions import Conditions, Pair
from kcagc.analysis.diagnosis import Diagnosis, diagnose
from kcagc.analysis.party import PartyDiagnosis, diagnose_party
from kcagc.analysis.restricted import Restricted

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
