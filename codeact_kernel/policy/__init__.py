"""What may happen, and what has happened: the rules' room and the audit's.

Comes in: events. Goes out: the audit, and what is wrong with one.
"""

from __future__ import annotations

from codeact_kernel.policy.audit import Audit
from codeact_kernel.policy.chain import Head
from codeact_kernel.policy.ledger import Ledger
from codeact_kernel.policy.verify import Verdict, journal_heads, name_of, notebook_heads, verify

__all__ = ["Audit", "Head", "Ledger", "Verdict", "journal_heads", "name_of", "notebook_heads", "verify"]
