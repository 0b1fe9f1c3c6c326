"""What may happen, and what has happened: the rules' room and the audit's.

Comes in: blocks and calls of tools, before anything of them happens; events. Goes out: whether they may, by a mode, a
rule or a person; the audit, and what is wrong with one. It knows no kernel and no tool.
"""

from __future__ import annotations

from codeact_kernel.policy.audit import Audit
from codeact_kernel.policy.chain import Head
from codeact_kernel.policy.doors import Doors
from codeact_kernel.policy.gate import Gate
from codeact_kernel.policy.ledger import Ledger
from codeact_kernel.policy.rules import Rules, default_rules, read_rules
from codeact_kernel.policy.verify import Verdict, journal_heads, name_of, notebook_heads, verify

__all__ = [
    "Audit",
    "Doors",
    "Gate",
    "Head",
    "Ledger",
    "Rules",
    "Verdict",
    "default_rules",
    "journal_heads",
    "name_of",
    "notebook_heads",
    "read_rules",
    "verify",
]
