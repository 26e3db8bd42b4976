"""The ledger: everything that leaves a role, and in words what its receiver learns; the policy that refuses.

`entries` holds the record, `lines` the words for every kind of disclosure, `policy` what must be accepted by name.
"""

from kcagc.disclosure.ledger import Entry, Ledger
from kcagc.disclosure.policy import RISKS, Policy, Risk

__all__ = ["RISKS", "Entry", "Ledger", "Policy", "Risk"]
