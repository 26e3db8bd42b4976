"""Analysis: research tools that no run uses, the paper's theory as a diagnosis and its privacy measures.

`diagnose` checks the conditions of Theorem 1; `kcagc.analysis.privacy` has the privacy measures.
"""

from kcagc.analysis.conditions import ClusterPair, Conditions
from kcagc.analysis.diagnosis import Diagnosis, PartyDiagnosis, diagnose, diagnose_party
from kcagc.analysis.theorem import Bound, RestrictedProximity

__all__ = [
    "Bound",
    "ClusterPair",
    "Conditions",
    "Diagnosis",
    "PartyDiagnosis",
    "RestrictedProximity",
    "diagnose",
    "diagnose_party",
]
