"""What may happen, and what has happened: the rules' room, the budget's and the audit's.

Comes in: blocks, calls of tools and calls of models, before anything of them happens; events. Goes out: whether they
may, by a mode, a rule, a person or what is left of the budget; the audit, and what is wrong with one. It knows no
kernel and no tool.
"""

from __future__ import annotations

from codeact_kernel.policy.audit import Audit
from codeact_kernel.policy.budget import Budget, Call, Limits, amount
from codeact_kernel.policy.chain import Head, sealed
from codeact_kernel.policy.doors import Doors
from codeact_kernel.policy.gate import Gate
from codeact_kernel.policy.ledger import Ledger
from codeact_kernel.policy.rules import Rules, default_rules, read_rules
from codeact_kernel.policy.verify import Verdict, journal_heads, name_of, notebook_heads, verify

__all__ = [
    "Audit",
    "Budget",
    "Call",
    "Doors",
    "Gate",
    "Head",
    "Ledger",
    "Limits",
    "Rules",
    "Verdict",
    "amount",
    "default_rules",
    "journal_heads",
    "name_of",
    "notebook_heads",
    "read_rules",
    "sealed",
    "verify",
]
