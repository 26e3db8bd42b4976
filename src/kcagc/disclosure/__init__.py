"""What a run discloses: the ledger and its texts, the policy of an operator, and a page in plain words."""

from kcagc.disclosure.ledger import Disclosure, DisclosureSummary, Ledger, Policy, summarise
from kcagc.disclosure.texts import RISKS, Risk

__all__ = ["RISKS", "Disclosure", "DisclosureSummary", "Ledger", "Policy", "Risk", "summarise"]
