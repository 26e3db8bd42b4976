"""What a run discloses: the ledger of disclosures, their texts, and the policy that an operator sets."""

from kcagc.disclosure.ledger import Disclosure, DisclosureSummary, Ledger, Policy, summarise
from kcagc.disclosure.texts import RISKS, Risk

__all__ = ["RISKS", "Disclosure", "DisclosureSummary", "Ledger", "Policy", "Risk", "summarise"]
